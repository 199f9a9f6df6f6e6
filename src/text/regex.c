/*
** regex.c - regular expressions of tokenizers: a tree of nodes, matched with backtracking.
**
** Each node leads to the one that must match behind it, so that only a repeated class and
** alternatives are places to come back to. Since no group is repeated, matching never calls itself
** more deeply than the pattern is long. A pattern that comes back too often is refused as it runs.
*/

#include <string.h>

#include "memory/context.h"
#include "text/regex.h"
#include "text/utf8.h"

#define UNLIMITED INT32_MAX
#define DEEPEST 32                 /* most groups that stand inside each other */
#define STEPS 100000               /* of the search for a match, and so many for each byte: */
#define STEPS_OF_BYTE 256          /* patterns of published tokenizers take some 50 */
#define POLLED_STEPS 65536         /* between two questions whether to stop */

typedef enum node_kind {
  NODE_SET, NODE_CHOICE, NODE_AHEAD, NODE_START, NODE_END, NODE_JUMP, NODE_MATCH
} node_kind;
typedef enum repeat_kind { GREEDY, LAZY, POSSESSIVE } repeat_kind;

typedef struct range { uint32_t first, last; } range;

/* Characters: those below 128 by bits, others by category or range. */
typedef struct set {
  uint64_t ascii[2];
  uint32_t categories;
  int n;
  range *ranges;                   /* in order of reading */
  bool outside;                    /* of others: those that are in neither */
} set;

typedef struct node node;
struct node {
  node_kind kind;
  repeat_kind repeat;              /* of a set */
  int32_t least, most;
  set set;
  bool negative;                   /* of AHEAD */
  node *inside;                    /* of AHEAD; the first alternative of CHOICE */
  node *other;                     /* alternative of the same CHOICE, headed by ... */
  node *next;                      /* what follows; of an alternative's head: its first node */
  node *older;                     /* of all */
  uint64_t starts[2];              /* characters of ASCII that a match may begin with */
  bool started;                    /* those are known */
};

struct regex {
  heed_context *cx;
  const unicode *u;
  node *first;
};

typedef struct parser {
  keeper *k;
  const unicode *u;
  const char *pattern, *p, *end;
  bool ignore_case;
  int depth;
  node *newest;
} parser;


/*
** {==================================================================
** Compiling
** ===================================================================
*/

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


/* A group behind its opening parenthesis, with the closing one. */
static node *parse_inside (parser *s, node *next, const char *from) {
  if (++s->depth > DEEPEST) return refuse(s, from, "too many groups inside each other");
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
  return good && parse_repeat(s, a) ? a : NULL;
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
  if (s->p >= s->end || *s->p == '|' || *s->p == ')') return next;
  node *jump = new_node(s, NODE_JUMP);
  node *first = jump != NULL ? parse_part(s, jump) : NULL;
  if (first == NULL) return NULL;
  jump->next = parse_sequence(s, next);
  if (first->next == jump) first->next = jump->next;
  return jump->next != NULL ? first : NULL;
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

/* }================================================================== */


/*
** {==================================================================
** Matching
** ===================================================================
*/

typedef struct matcher {
  heed_context *cx;
  const unicode *u;
  const unsigned char *start, *end;
  int64_t steps, most;             /* taken; more are refused */
  int64_t pause;                   /* after so many is asked whether to stop; below 0: 'failed' */
  bool failed;                     /* the context has the failure */
} matcher;


static bool pause (matcher *m) {
  if (m->failed) return false;
  if (m->steps > m->most)
    m->failed = core_fail(m->cx, NULL, "regular expression: more than %lld steps for one match",
                          (long long)m->most) == NULL;
  else m->failed = core_poll(m->cx, NULL);
  m->pause = m->failed ? -1 : m->steps + POLLED_STEPS < m->most ? m->steps + POLLED_STEPS : m->most;
  return !m->failed;
}


/* One step more, unless the search failed: it was stopped, or takes too many steps. */
static inline bool may_go_on (matcher *m) { return ++m->steps <= m->pause || pause(m); }


static inline bool in_ascii (const uint64_t bits[2], unsigned char c) {
  return bits[c >> 6] >> (c & 63) & 1;
}


static bool in_set (const matcher *m, const set *c, uint32_t point) {
  if (point < 128) return in_ascii(c->ascii, (unsigned char)point);
  bool found = unicode_in(m->u, point, c->categories);
  for (int i = 0; !found && i < c->n; i++)
    found = point >= c->ranges[i].first && point <= c->ranges[i].last;
  return found != c->outside;
}


/* Behind the character at p, if there is one and it belongs to the set; else NULL. */
static const unsigned char *step (matcher *m, const set *c, const unsigned char *p) {
  uint32_t point;
  if (p >= m->end || !may_go_on(m)) return NULL;
  int n = utf8_get(p, m->end, &point);
  return in_set(m, c, point) ? p + n : NULL;
}


/* Goes over characters of ASCII that belong to the set, some at a time. */
static const unsigned char *run (matcher *m, const node *a, const unsigned char *p,
                                 int32_t *count) {
  int64_t most = m->end - p < POLLED_STEPS ? m->end - p : POLLED_STEPS;
  const unsigned char *from = p, *end = p + (a->most - *count < most ? a->most - *count : most);
  while (p < end && *p < 128 && in_ascii(a->set.ascii, *p)) p++;
  *count += (int32_t)(p - from);
  m->steps += p - from;
  return p;
}


static const unsigned char *match (matcher *m, const node *a, const unsigned char *p);


/* As few as are needed, then one more at a time. */
static const unsigned char *match_lazy (matcher *m, const node *a, const unsigned char *p,
                                        int32_t count) {
  for (; p != NULL; p = count++ < a->most ? step(m, &a->set, p) : NULL) {
    const unsigned char *end = match(m, a->next, p);
    if (end != NULL) return end;
  }
  return NULL;
}


static const unsigned char *match_set (matcher *m, const node *a, const unsigned char *p) {
  const unsigned char *least = p, *next;
  uint32_t point;
  int32_t count = 0;
  for (; count < a->least; count++, p = least = next)
    if ((next = step(m, &a->set, p)) == NULL) return NULL;
  if (a->repeat == LAZY) return match_lazy(m, a, p, count);
  do {
    p = run(m, a, p, &count);
    next = count < a->most ? step(m, &a->set, p) : NULL;
    if (next != NULL) p = next;
    count += next != NULL;
  } while (next != NULL);
  if (a->repeat == POSSESSIVE || p == least || a->next->kind == NODE_MATCH)
    return match(m, a->next, p);
  for (;; p -= utf8_before(least, p, &point)) {
    const unsigned char *end = match(m, a->next, p);
    if (end != NULL || p == least || m->failed) return end;
  }
}


static const unsigned char *match_choice (matcher *m, const node *a,
                                          const unsigned char *p) {
  bool ascii = p < m->end && *p < 128;
  for (const node *each = a->inside; each != NULL; each = each->other) {
    if (ascii && !in_ascii(each->starts, *p)) continue;
    const unsigned char *end = match(m, each->next, p);
    if (end != NULL) return end;
  }
  return NULL;
}


static const unsigned char *match (matcher *m, const node *a, const unsigned char *p) {
  for (; p != NULL && may_go_on(m); a = a->next) {
    switch (a->kind) {
      case NODE_MATCH: return p;
      case NODE_CHOICE: return match_choice(m, a, p);
      case NODE_AHEAD:
        if ((match(m, a->inside, p) != NULL) == a->negative || m->failed) return NULL;
        break;
      case NODE_START: if (p != m->start) return NULL; break;
      case NODE_END: if (p != m->end) return NULL; break;
      case NODE_JUMP: break;
      case NODE_SET:
        if (a->least != 1 || a->most != 1) return match_set(m, a, p);
        p = step(m, &a->set, p);
        break;
    }
  }
  return NULL;
}


regex_result regex_find (const regex *r, const unsigned char *start, const unsigned char *from,
                         const unsigned char *end, const unsigned char **found,
                         const unsigned char **found_end) {
  matcher m = {.cx = r->cx, .u = r->u, .start = start, .end = end,
               .most = STEPS + STEPS_OF_BYTE * (int64_t)(end - from), .pause = POLLED_STEPS};
  uint32_t point;
  for (const unsigned char *p = from; p < end; p += utf8_get(p, end, &point)) {
    const unsigned char *q = match(&m, r->first, p);
    if (m.failed) return REGEX_FAILED;
    if (q == NULL || q == p) continue;
    *found = p;
    *found_end = q;
    return REGEX_FOUND;
  }
  return REGEX_NONE;
}

/* }================================================================== */
