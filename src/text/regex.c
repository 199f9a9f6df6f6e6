/*
** regex.c - regular expressions of tokenizers, compiled to a tree of nodes.
*/

#include <string.h>

#include "memory/context.h"
#include "text/regex_node.h"
#include "text/utf8.h"

#define UNLIMITED INT32_MAX
#define DEEPEST 32                 /* most groups that stand inside each other, */
#define MOST_TURNS 128             /* and groups and repetitions in all: matches are recursive */

typedef struct parser {
  keeper *k;
  const unicode *u;
  const char *pattern, *p, *end;
  bool ignore_case;
  int depth, turns;
  node *newest;
} parser;


static void *refuse (parser *s, const char *from, const char *why) {
  int most = s->end - from < 40 ? (int)(s->end - from) : 40;
  while (most > 0 && most < s->end - from && (from[most] & 0xc0) == 0x80) most--;
  return core_fail(s->k->cx, NULL, "regular expression: %s at '%.*s'", why, most, from);
}


static node *new_node (parser *s, node_kind kind) {
  node *a = keep(s->k, sizeof *a);
  if (a == NULL) return NULL;
  *a = (node){.kind = kind, .least = 1, .most = 1, .older = s->newest};
  return s->newest = a;
}


static void add_ascii (set *c, uint32_t point) { c->ascii[point >> 6] |= 1ull << (point & 63); }


static bool add_range (parser *s, set *c, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last && i < 128; i++) add_ascii(c, i);
  if (last < 128) return true;
  range *grown = keep(s->k, (size_t)(c->n + 1) * sizeof *grown);
  if (grown == NULL) return false;
  if (c->n > 0) memcpy(grown, c->ranges, (size_t)c->n * sizeof *grown);
  grown[c->n++] = (range){first < 128 ? 128 : first, last};
  c->ranges = grown;
  return true;
}


/* The long s and the sign of kelvin are other cases of letters of ASCII. */
static bool add_point (parser *s, set *c, uint32_t point, const char *from) {
  if (!s->ignore_case) return add_range(s, c, point, point);
  if (point >= 128)
    return refuse(s, from, "a letter beyond ASCII in any case is not known") != NULL;
  bool letter = (point | 32) >= 'a' && (point | 32) <= 'z';
  if (!letter) return add_range(s, c, point, point);
  add_ascii(c, point | 32);
  add_ascii(c, point & ~32u);
  if ((point | 32) == 's') return add_range(s, c, 0x17f, 0x17f);
  return (point | 32) != 'k' || add_range(s, c, 0x212a, 0x212a);
}


static void add_categories (parser *s, set *c, uint32_t categories) {
  for (uint32_t i = 0; i < 128; i++)
    if (unicode_in(s->u, i, categories)) add_ascii(c, i);
  c->categories |= categories;
}


/* \p{..}, \P{..}, \p{^..}: the letter p was read. */
static bool parse_property (parser *s, set *c, bool negative, const char *from) {
  if (s->p < s->end && *s->p == '{') {
    s->p++;
    if (s->p < s->end && *s->p == '^') {
      negative = !negative;
      s->p++;
    }
    const char *name = s->p;
    while (s->p < s->end && *s->p != '}') s->p++;
    uint32_t found = s->p < s->end ? unicode_named(name, (size_t)(s->p - name)) : 0;
    if (found == 0) return refuse(s, from, "no such category") != NULL;
    s->p++;
    add_categories(s, c, negative ? ~found : found);
    return true;
  }
  return refuse(s, from, "'{' expected") != NULL;
}


/* A class of one letter; 0: the letter is none. */
static uint32_t letter_class (char letter) {
  switch (letter) {
    case 's': return unicode_blanks();
    case 'S': return ~unicode_blanks();
    case 'd': return unicode_named("Nd", 2);
    case 'D': return ~unicode_named("Nd", 2);
    case 'w': return unicode_word();
    case 'W': return ~unicode_word();
  }
  return 0;
}


static bool parse_hex (parser *s, int digits, uint32_t *point, const char *from) {
  *point = 0;
  for (int i = 0; i < digits; i++) {
    const char *found, *hex = "0123456789abcdef";
    char c = s->p < s->end ? *s->p++ : '\0';
    found = c != '\0' ? strchr(hex, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
    if (found == NULL) return refuse(s, from, "hexadecimal digits expected") != NULL;
    *point = *point << 4 | (uint32_t)(found - hex);
  }
  return true;
}


/* Behind a backslash: a class, which goes to c (*single: false), or a code point. */
static bool parse_escape (parser *s, set *c, uint32_t *point, bool *single, const char *from) {
  static const char names[] = "nrtfv0", points[] = "\n\r\t\f\v\0";
  char letter = s->p < s->end ? *s->p++ : '\0';
  *single = false;
  if (letter == 'p' || letter == 'P') return parse_property(s, c, letter == 'P', from);
  uint32_t known = letter_class(letter);
  if (known != 0) {
    add_categories(s, c, known);
    return true;
  }
  *single = true;
  if (letter == 'x') return parse_hex(s, 2, point, from);
  if (letter == 'u') return parse_hex(s, 4, point, from);
  const char *found = letter != '\0' ? strchr(names, letter) : NULL;
  bool plain = letter > 32 && letter < 127 && !((letter | 32) >= 'a' && (letter | 32) <= 'z') &&
               !(letter >= '0' && letter <= '9');
  if (found == NULL && !plain) return refuse(s, from, "an unknown escape") != NULL;
  *point = found != NULL ? (uint32_t)points[found - names] : (uint32_t)letter;
  return true;
}


/* A character of the pattern as it stands, or an escape. */
static bool parse_item (parser *s, set *c, uint32_t *point, bool *single) {
  const char *from = s->p;
  if (*s->p == '\\') {
    s->p++;
    return parse_escape(s, c, point, single, from);
  }
  s->p += utf8_get((const unsigned char *)s->p, (const unsigned char *)s->end, point);
  *single = true;
  return true;
}


static bool parse_class_item (parser *s, set *c) {
  const char *from = s->p;
  uint32_t first, last;
  bool single;
  if (*s->p == '[' || (*s->p == '&' && s->end - s->p > 1 && s->p[1] == '&'))
    return refuse(s, from, "a class inside a class is not known") != NULL;
  if (!parse_item(s, c, &first, &single)) return false;
  bool spans = single && s->end - s->p > 1 && *s->p == '-' && s->p[1] != ']';
  if (!spans) return !single || add_point(s, c, first, from);
  s->p++;
  if (!parse_item(s, c, &last, &single)) return false;
  if (!single || last < first) return refuse(s, from, "a range expected") != NULL;
  if (s->ignore_case) return refuse(s, from, "a range in any case is not known") != NULL;
  return add_range(s, c, first, last);
}


static bool parse_class (parser *s, set *c) {
  const char *from = s->p++;
  bool negative = s->p < s->end && *s->p == '^';
  s->p += negative;
  do {
    if (s->p >= s->end) return refuse(s, from, "the class does not end") != NULL;
    if (!parse_class_item(s, c)) return false;
  } while (s->p >= s->end || *s->p != ']');
  s->p++;
  if (!negative) return true;
  c->outside = true;
  c->ascii[0] = ~c->ascii[0];
  c->ascii[1] = ~c->ascii[1];
  return true;
}


/* Any character but the newline. */
static void any_point (set *c) {
  *c = (set){.ascii = {~(1ull << '\n'), ~0ull}, .outside = true};
}


static bool parse_count (parser *s, int32_t *n) {
  const char *from = s->p;
  for (*n = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9' && *n < 10000; s->p++)
    *n = *n * 10 + (*s->p - '0');
  return s->p > from;
}


/* {m}, {m,} or {m,n}; the brace was read. */
static bool parse_counts (parser *s, node *a, const char *from) {
  bool good = parse_count(s, &a->least);
  a->most = a->least;
  if (good && s->p < s->end && *s->p == ',') {
    s->p++;
    if (!parse_count(s, &a->most)) a->most = UNLIMITED;
  }
  good = good && s->p < s->end && *s->p == '}' && a->least <= a->most;
  s->p += good;
  return good || refuse(s, from, "{m}, {m,} or {m,n} expected") != NULL;
}


/* How often a set is repeated; a repetition of that is not known. */
static bool parse_repeat (parser *s, node *a) {
  const char *from = s->p;
  char c = s->p < s->end ? *s->p : '\0';
  if (c != '?' && c != '*' && c != '+' && c != '{') return true;
  s->p++;
  if (c == '{' && !parse_counts(s, a, from)) return false;
  if (c != '{') {
    a->least = c == '+';
    a->most = c == '?' ? 1 : UNLIMITED;
  }
  char kind = s->p < s->end ? *s->p : '\0';
  a->repeat = kind == '?' ? LAZY : kind == '+' && c != '{' ? POSSESSIVE : GREEDY;
  s->p += a->repeat != GREEDY;
  kind = s->p < s->end ? *s->p : '\0';
  if (kind == '?' || kind == '*' || kind == '+' || kind == '{')
    return refuse(s, from, "a repetition of a repetition is not known") != NULL;
  return true;
}


static node *parse_choice (parser *s, node *next);


static bool takes_turn (parser *s, const char *from) {
  return ++s->turns <= MOST_TURNS
         || refuse(s, from, "too many groups and repetitions") != NULL;
}


/* A group behind its opening parenthesis, with the closing one. */
static node *parse_inside (parser *s, node *next, const char *from) {
  if (++s->depth > DEEPEST) return refuse(s, from, "too many groups inside each other");
  if (!takes_turn(s, from)) return NULL;
  node *inside = parse_choice(s, next);
  s->depth--;
  if (inside == NULL) return NULL;
  if (s->p >= s->end) return refuse(s, from, "the group does not end");
  s->p++;
  return inside;
}


/* The group is optional: a choice between it and nothing. */
static node *make_optional (parser *s, node *inside, node *next) {
  node *choice = new_node(s, NODE_CHOICE), *with = new_node(s, NODE_CHOICE);
  node *without = new_node(s, NODE_CHOICE);
  if (choice == NULL || with == NULL || without == NULL) return NULL;
  with->next = inside;
  without->next = next;
  choice->inside = with;
  with->other = without;
  return choice;
}


static node *parse_group_end (parser *s, node *inside, node *next, const char *from) {
  char c = s->p < s->end ? *s->p : '\0';
  if (c == '*' || c == '+' || c == '{') return refuse(s, from, "a repeated group is not known");
  if (c != '?') return inside;
  s->p++;
  c = s->p < s->end ? *s->p : '\0';
  if (c == '?' || c == '+' || c == '*') return refuse(s, from, "a repeated group is not known");
  return make_optional(s, inside, next);
}


static node *parse_ahead (parser *s, node *next, bool negative, const char *from) {
  node *match = new_node(s, NODE_MATCH), *a = new_node(s, NODE_AHEAD);
  if (match == NULL || a == NULL) return NULL;
  a->negative = negative;
  a->inside = parse_inside(s, match, from);
  a->next = next;
  return a->inside != NULL ? a : NULL;
}


static bool begins (parser *s, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}


static node *parse_group (parser *s, node *next) {
  const char *from = s->p;
  bool before = s->ignore_case;
  if (begins(s, "(?!")) return parse_ahead(s, next, true, from);
  if (begins(s, "(?=")) return parse_ahead(s, next, false, from);
  if (begins(s, "(?i:")) s->ignore_case = true;
  else if (!begins(s, "(?:")) {
    s->p++;
    if (s->p < s->end && *s->p == '?') return refuse(s, from, "an unknown group");
  }
  node *inside = parse_inside(s, next, from);
  s->ignore_case = before;
  return inside != NULL ? parse_group_end(s, inside, next, from) : NULL;
}


static node *parse_set (parser *s) {
  const char *from = s->p;
  uint32_t point;
  bool single = false, good;
  node *a = new_node(s, NODE_SET);
  if (a == NULL) return NULL;
  if (*s->p == '[') good = parse_class(s, &a->set);
  else if (*s->p == '.') {
    s->p++;
    any_point(&a->set);
    good = true;
  }
  else {
    if (strchr("?*+{", *s->p) != NULL) return refuse(s, from, "nothing to repeat");
    good = parse_item(s, &a->set, &point, &single);
    if (good && single) good = add_point(s, &a->set, point, from);
  }
  if (!good || !parse_repeat(s, a)) return NULL;
  return (a->least == 1 && a->most == 1) || takes_turn(s, from) ? a : NULL;
}


static node *parse_part (parser *s, node *next) {
  char c = *s->p;
  if (c == '(') return parse_group(s, next);
  if (c != '^' && c != '$') {
    node *a = parse_set(s);
    if (a != NULL) a->next = next;
    return a;
  }
  s->p++;
  node *a = new_node(s, c == '^' ? NODE_START : NODE_END);
  if (a != NULL) a->next = next;
  return a;
}


/* Parts behind each other, of which the last leads to 'next'. A part is made before the one that
   follows it: a jump stands between them, unless the part is a single node. */
static node *parse_sequence (parser *s, node *next) {
  node *first = NULL, *last = NULL, *jump = NULL;
  for (;;) {
    bool ends = s->p >= s->end || *s->p == '|' || *s->p == ')';
    node *open = ends ? NULL : new_node(s, NODE_JUMP);
    node *part = ends ? next : open != NULL ? parse_part(s, open) : NULL;
    if (part == NULL) return NULL;
    if (first == NULL) first = part;
    else {
      jump->next = part;
      if (last->next == jump) last->next = part;
    }
    if (ends) return first;
    last = part;
    jump = open;
  }
}


static node *parse_choice (parser *s, node *next) {
  node *choice = new_node(s, NODE_CHOICE), **last;
  if (choice == NULL) return NULL;
  last = &choice->inside;
  for (;;) {
    node *head = new_node(s, NODE_CHOICE);
    if (head == NULL || (head->next = parse_sequence(s, next)) == NULL) return NULL;
    *last = head;
    last = &head->other;
    if (s->p >= s->end || *s->p != '|') break;
    s->p++;
  }
  return choice->inside->other == NULL ? choice->inside->next : choice;
}


static void add_starts (node *a, const uint64_t starts[2]) {
  a->starts[0] |= starts[0];
  a->starts[1] |= starts[1];
}


/* Finds what a match of a node and all that follows may begin with; of what takes no character,
   anything. */
static void find_starts (node *a) {
  static const uint64_t all[2] = {~0ull, ~0ull};
  if (a->started) return;
  a->started = true;
  switch (a->kind) {
    case NODE_SET:
      add_starts(a, a->set.ascii);
      if (a->least > 0) return;
      break;
    case NODE_CHOICE:
      for (node *each = a->inside; each != NULL; each = each->other) {
        find_starts(each);
        add_starts(a, each->starts);
      }
      if (a->inside != NULL) return;
      break;
    case NODE_JUMP: break;
    case NODE_AHEAD: case NODE_START: case NODE_END: case NODE_MATCH:
      add_starts(a, all);
      return;
  }
  find_starts(a->next);
  add_starts(a, a->next->starts);
}


regex *regex_compile (keeper *k, const unicode *u, const char *pattern, size_t n) {
  parser s = {.k = k, .u = u, .pattern = pattern, .p = pattern, .end = pattern + n};
  regex *r = keep(k, sizeof *r);
  node *match = new_node(&s, NODE_MATCH);
  if (n > 4096) return refuse(&s, s.p, "more than 4096 bytes");
  if (r == NULL || match == NULL) return NULL;
  r->cx = k->cx;
  r->u = u;
  r->first = parse_choice(&s, match);
  if (r->first == NULL) return NULL;
  if (s.p < s.end) return refuse(&s, s.p, "a group's end without its start");
  for (node *a = s.newest; a != NULL; a = a->older) find_starts(a);
  return r;
}
