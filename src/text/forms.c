/*
** forms.c - decomposition and composition of code points, as UAX #15 has them.
*/

#include "text/forms.h"
#include "text/unicode_canonical.h"
#include "text/unicode_compatible.h"

#define COUNT(list) (int)(sizeof (list) / sizeof *(list))

/* Syllables of Hangul: a leading consonant, a vowel, and at most one trailing consonant. */
enum {
  LEAD = 0x1100, VOWEL = 0x1161, TRAIL = 0x11a7, SYLLABLE = 0xac00,
  LEADS = 19, VOWELS = 21, TRAILS = 28, SYLLABLES = LEADS * VOWELS * TRAILS
};


/* Point, first, second or 0; NULL: there is none. */
static const uint32_t *canonical_of (uint32_t point) {
  const uint32_t *row = unicode_row(canonical, COUNT(canonical) / 3, 3, point);
  return row[0] == point ? row : NULL;
}


/* One compatible step; 0: there is none. */
static int compatible_of (uint32_t point, uint32_t to[FORM_MOST]) {
  const uint32_t *run = unicode_row(compatible_runs, COUNT(compatible_runs) / 4, 4, point);
  if (point >= run[0] && point - run[0] < run[1]) {
    to[0] = run[2] + run[3] * (point - run[0]);
    return 1;
  }
  const uint32_t *text = unicode_row(compatible_texts, COUNT(compatible_texts) / 2, 2, point);
  if (text[0] != point) return 0;
  int n = (int)(text[1] & 31);
  for (int i = 0; i < n; i++) to[i] = compatible_pool[(text[1] >> 5) + (uint32_t)i];
  return n;
}


static int decompose_syllable (uint32_t point, uint32_t to[FORM_MOST]) {
  uint32_t i = point - SYLLABLE;
  to[0] = LEAD + i / (VOWELS * TRAILS);
  to[1] = VOWEL + i / TRAILS % VOWELS;
  to[2] = TRAIL + i % TRAILS;
  return i % TRAILS == 0 ? 2 : 3;
}


/* One step; 0: the point stays. */
static int step_of (uint32_t point, bool compatible, uint32_t to[FORM_MOST]) {
  if (point < 0xa0) return 0;
  if (point - SYLLABLE < SYLLABLES) return decompose_syllable(point, to);
  const uint32_t *row = canonical_of(point);
  if (row == NULL) return compatible ? compatible_of(point, to) : 0;
  to[0] = row[1];
  to[1] = row[2];
  return row[2] == 0 ? 1 : 2;
}


/* The tables are no deeper than three steps, so that the calls inside each other end. */
int form_decompose (uint32_t point, bool compatible, uint32_t to[FORM_MOST]) {
  uint32_t step[FORM_MOST], each[FORM_MOST];
  int count = 0, n = step_of(point, compatible, step);
  if (n == 0) to[count++] = point;
  for (int i = 0; i < n; i++) {
    int parts = form_decompose(step[i], compatible, each);
    for (int k = 0; k < parts && count < FORM_MOST; k++) to[count++] = each[k];
  }
  return count;
}


static uint32_t compose_syllable (uint32_t first, uint32_t second) {
  if (first - LEAD < LEADS && second - VOWEL < VOWELS)
    return SYLLABLE + ((first - LEAD) * VOWELS + (second - VOWEL)) * TRAILS;
  bool open = first - SYLLABLE < SYLLABLES && (first - SYLLABLE) % TRAILS == 0;
  return open && second > TRAIL && second < TRAIL + TRAILS ? first + (second - TRAIL) : 0;
}


uint32_t form_compose (uint32_t first, uint32_t second) {
  int low = 0, high = COUNT(composed);
  while (low < high) {
    int middle = (low + high) / 2;
    const uint32_t *row = canonical + 3 * composed[middle];
    if (row[1] == first && row[2] == second) return row[0];
    if (row[1] < first || (row[1] == first && row[2] < second)) low = middle + 1;
    else high = middle;
  }
  return compose_syllable(first, second);
}


static void mark (unicode *u, uint32_t point, int marks) {
  if (point < UNICODE_DIRECT) u->about[point] = (uint8_t)(u->about[point] | marks);
}


static void mark_compatible (unicode *u) {
  for (int i = 0; i < COUNT(compatible_runs); i += 4)
    for (uint32_t k = 0; k < compatible_runs[i + 1]; k++)
      mark(u, compatible_runs[i] + k, UNICODE_COMPATIBLE);
  for (int i = 0; i < COUNT(compatible_texts); i += 2)
    mark(u, compatible_texts[i], UNICODE_COMPATIBLE);
}


/* A canonical decomposition whose parts have compatible ones has one, too: so marks go from the
   parts to the whole. */
static void mark_canonical (unicode *u) {
  for (int i = 0; i < COUNT(canonical); i += 3) {
    const uint32_t *row = canonical + i;
    bool stays = row[2] != 0 && form_compose(row[1], row[2]) == row[0];
    int inside = row[1] < UNICODE_DIRECT ? u->about[row[1]] & UNICODE_COMPATIBLE : 0;
    mark(u, row[0], inside | UNICODE_DECOMPOSES | (stays ? 0 : UNICODE_JOINS));
  }
  for (int i = 0; i < COUNT(composed); i++)
    mark(u, canonical[3 * composed[i] + 2], UNICODE_JOINS);
}


static void mark_syllables (unicode *u) {
  for (uint32_t i = 0; i < SYLLABLES; i++) mark(u, SYLLABLE + i, UNICODE_DECOMPOSES);
  for (uint32_t i = 0; i < VOWELS; i++) mark(u, VOWEL + i, UNICODE_JOINS);
  for (uint32_t i = 1; i < TRAILS; i++) mark(u, TRAIL + i, UNICODE_JOINS);
}


void form_open (unicode *u) {
  mark_compatible(u);
  mark_canonical(u);
  mark_syllables(u);
}


int form_marks (const unicode *u, uint32_t point) {
  if (point < UNICODE_DIRECT) return u->about[point];
  return canonical_of(point) != NULL ? UNICODE_JOINS | UNICODE_DECOMPOSES : 0;
}
