/*
** unicode.c - the categories of all code points, beside those of Python's unicodedata 15.0: of each
** category how many points it has, and their sum; which points go with a letter, and which a normal
** form may change.
*/

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/forms.h"
#include "text/grapheme.h"
#include "text/unicode.h"
#include "text/utf8.h"

enum { POINTS = 0x110000, CATEGORIES_THERE = 30 };

static const struct { char name[3]; int64_t points, sum; } wanted[CATEGORIES_THERE] = {
  {"Cc", 65, 5215}, {"Cf", 170, 92312063}, {"Cn", 825345, 466841474546},
  {"Co", 137468, 137822040966}, {"Cs", 2048, 115342336}, {"Ll", 2233, 103102186},
  {"Lm", 397, 18932841}, {"Lo", 131612, 14566299225}, {"Lt", 31, 220514}, {"Lu", 1831, 85228200},
  {"Mc", 452, 18473724}, {"Me", 13, 195909}, {"Mn", 1985, 294111962}, {"Nd", 680, 32783620},
  {"Nl", 236, 13199783}, {"No", 915, 57560662}, {"Pc", 10, 415682}, {"Pd", 26, 566513},
  {"Pe", 77, 1814706}, {"Pf", 10, 95624}, {"Pi", 12, 112041}, {"Po", 628, 23149670},
  {"Ps", 79, 1830591}, {"Sc", 63, 1352243}, {"Sk", 125, 3403074}, {"Sm", 948, 11584894},
  {"So", 6634, 516467028}, {"Zl", 1, 8232}, {"Zp", 1, 8233}, {"Zs", 17, 124933}
};

static int wrong;

static void check (bool good, const char *what) {
  if (good) return;
  printf("unicode: %s: wrong\n", what);
  wrong++;
}

/* The points of a set: how many, and their sum. */
static int64_t count (const unicode *u, uint32_t set, int64_t *sum) {
  int64_t n = 0;
  *sum = 0;
  for (uint32_t point = 0; point < POINTS; point++) {
    if (!(set >> unicode_category(u, point) & 1)) continue;
    n++;
    *sum += point;
  }
  return n;
}

static void search_finds_what_the_table_has (const unicode *u) {
  bool same = true;
  for (uint32_t point = 0; point < UNICODE_DIRECT; point++)
    same = same && unicode_category(u, point) == unicode_category_long(point);
  check(same, "the search");
}

static void check_set (const unicode *u, const char *what, uint32_t set, int64_t n, int64_t sum) {
  int64_t there = 0, got = count(u, set, &there);
  check(got == n && there == sum, what);
}

/* The points behind a letter, or before one, that are one character with it. */
static void check_clusters (const unicode *u, bool behind, int64_t n, int64_t sum) {
  int64_t got = 0, there = 0;
  for (uint32_t point = 0; point < POINTS; point++) {
    char text[8] = {'x', 'x', 'x', 'x', 'x'};
    if (point >= 0xd800 && point < 0xe000) continue;
    int length = 1 + utf8_put(text + behind, point);
    const unsigned char *p = (unsigned char *)text;
    if (grapheme_length(u, p, p + length) != length) continue;
    got++;
    there += point;
  }
  check(got == n && there == sum, behind ? "points behind a letter" : "points before a letter");
}

/* Hangul by the rules GB6 to GB8 of UAX #29: the sort of a point, of which L, V and T are letters,
   S syllables that may end with one more, and E syllables that have ended. */
static char hangul (uint32_t c) {
  if ((c >= 0x1100 && c <= 0x115f) || (c >= 0xa960 && c <= 0xa97c)) return 'L';
  if ((c >= 0x1160 && c <= 0x11a7) || (c >= 0xd7b0 && c <= 0xd7c6)) return 'V';
  if ((c >= 0x11a8 && c <= 0x11ff) || (c >= 0xd7cb && c <= 0xd7fb)) return 'T';
  return c < 0xac00 || c > 0xd7a3 ? '-' : (c - 0xac00) % 28 == 0 ? 'S' : 'E';
}

static bool joins (char a, char b) {
  if (a == 'L') return b == 'L' || b == 'V' || b == 'S' || b == 'E';
  if (a == 'V' || a == 'S') return b == 'V' || b == 'T';
  return (a == 'T' || a == 'E') && b == 'T';
}

/* Are two points one character? */
static bool is_one (const unicode *u, uint32_t first, uint32_t second) {
  char text[8];
  const int length = utf8_put(text, first), both = length + utf8_put(text + length, second);
  const unsigned char *p = (unsigned char *)text;
  return grapheme_length(u, p, p + both) == both;
}

/* The points that take no mark along: Cc, Cf, Zl and Zp, but those that extend or prepend. */
static void check_controls (const unicode *u, int64_t n, int64_t sum) {
  int64_t got = 0, there = 0;
  for (uint32_t point = 0; point < POINTS; point++) {
    if ((point >= 0xd800 && point < 0xe000) || is_one(u, point, 0x301)) continue;
    got++;
    there += point;
  }
  check(got == n && there == sum, "controls");
}

/* Points that go with any letter are left out. */
static void letters_of_hangul_are_joined (const unicode *u) {
  const uint32_t some[] = {0x1100, 0x115f, 0x1160, 0x11a7, 0x11a8, 0x11ff, 0xa960, 0xa97c, 0xac00,
                           0xac01, 0xac1b, 0xac1c, 0xd7a3, 0xd7b0, 0xd7c6, 0xd7cb, 0xd7fb, 'a'};
  int apart = 0;
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    for (uint32_t other = 0x10f0; other < 0xd800; other++) {
      if (is_one(u, 'a', other) || is_one(u, other, 'a')) continue;
      apart += is_one(u, some[i], other) != joins(hangul(some[i]), hangul(other));
      apart += is_one(u, other, some[i]) != joins(hangul(other), hangul(some[i]));
    }
  check(apart == 0, "letters of Hangul");
}

/* Letters of flags go in pairs, and with nothing else. */
static void letters_of_flags_are_pairs (const unicode *u) {
  const uint32_t first = 0x1f1e6, last = 0x1f1ff;
  bool same = true;
  for (uint32_t a = first - 1; a <= last + 1; a++)
    for (uint32_t b = first - 1; b <= last + 1; b++)
      same = same && is_one(u, a, b) == (a >= first && a <= last && b >= first && b <= last);
  check(same, "letters of flags");
}

/* The points that a normal form may not leave as they are. */
static void check_marks (const unicode *u, const char *what, int mark, int64_t n, int64_t sum) {
  int64_t got = 0, there = 0;
  for (uint32_t point = 0; point < POINTS; point++) {
    if (!(form_marks(u, point) & mark)) continue;
    got++;
    there += point;
  }
  check(got == n && there == sum, what);
}

/* The parts of all points: how many, and their sum, each times its place among those of a point. */
static void check_parts (const char *what, bool compatible, int64_t n, int64_t sum) {
  int64_t got = 0, there = 0;
  uint32_t parts[FORM_MOST];
  for (uint32_t point = 0; point < POINTS; point++) {
    if (point >= 0xd800 && point < 0xe000) continue;
    int count = form_decompose(point, compatible, parts);
    got += count;
    for (int i = 0; i < count; i++) there += (int64_t)parts[i] * (i + 1);
  }
  check(got == n && there == sum, what);
}

static void syllables_are_joined_again (void) {
  bool same = true;
  uint32_t parts[FORM_MOST];
  for (uint32_t point = 0xac00; point < 0xd7a4; point++) {
    int count = form_decompose(point, false, parts);
    uint32_t whole = form_compose(parts[0], parts[1]);
    same = same && (count == 2 ? whole : form_compose(whole, parts[2])) == point;
  }
  check(same, "a syllable's letters");
}

int main (void) {
  unicode *u = calloc(1, sizeof *u);
  if (u == NULL) return 1;
  unicode_open(u);
  form_open(u);
  search_finds_what_the_table_has(u);
  int64_t letters = 0, sum = 0;
  for (int i = 0; i < CATEGORIES_THERE; i++) {
    uint32_t set = unicode_named(wanted[i].name, 2);
    check_set(u, wanted[i].name, set, wanted[i].points, wanted[i].sum);
    if (*wanted[i].name == 'L') letters += wanted[i].points, sum += wanted[i].sum;
  }
  check_set(u, "letters", unicode_named("L", 1), letters, sum);
  check_set(u, "blanks", unicode_blanks(), 25, 141586);
  const int64_t enclosed[] = {130, 10421333};            /* letters in circles and squares */
  check_set(u, "letters, marks, digits and connectors", unicode_word(),
            letters + 452 + 13 + 1985 + 680 + 236 + 10 + enclosed[0],
            sum + 18473724 + 195909 + 294111962 + 32783620 + 13199783 + 415682 + enclosed[1]);
  check(unicode_named("Lx", 2) == 0 && unicode_named("Luu", 3) == 0 && unicode_named("", 0) == 0,
        "what is no category");
  check_clusters(u, true, 2526, 401312765);
  check_clusters(u, false, 27, 1099396);
  check_controls(u, 126, 4070206);
  letters_of_hangul_are_joined(u);
  letters_of_flags_are_pairs(u);
  check_marks(u, "points that join others, or never stay", UNICODE_JOINS, 2110, 166726173);
  check_marks(u, "points of a class, or that are taken apart", UNICODE_DECOMPOSES, 14151,
              726184009);
  check_marks(u, "points that others are compatible with", UNICODE_COMPATIBLE, 3812, 250587586);
  check_parts("canonical parts", false, 1135354, 620160950539);
  check_parts("compatible parts", true, 1137264, 619950558146);
  syllables_are_joined_again();
  free(u);
  if (wrong == 0) printf("unicode: as Unicode says\n");
  return wrong > 0;
}
