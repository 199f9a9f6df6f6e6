/*
** regex_match.c - a match of a compiled regular expression, found with backtracking. A pattern that
** comes back too often is refused as it runs.
*/

#include "memory/context.h"
#include "text/regex_node.h"
#include "text/utf8.h"

#define STEPS 100000               /* of the search for a match, and so many for each byte: */
#define STEPS_OF_BYTE 256          /* patterns of published tokenizers take some 50 */
#define POLLED_STEPS 65536         /* between two questions whether to stop */

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


/* Behind the last newline of a text no line begins. */
static bool begins_line (const matcher *m, const unsigned char *p) {
  return p == m->start || (p != m->end && p[-1] == '\n');
}


static const unsigned char *match (matcher *m, const node *a, const unsigned char *p) {
  for (; p != NULL && may_go_on(m); a = a->next) {
    switch (a->kind) {
      case NODE_MATCH: return p;
      case NODE_CHOICE: return match_choice(m, a, p);
      case NODE_AHEAD:
        if ((match(m, a->inside, p) != NULL) == a->negative || m->failed) return NULL;
        break;
      case NODE_START: if (!begins_line(m, p)) return NULL; break;
      case NODE_END: if (p != m->end && *p != '\n') return NULL; break;
      case NODE_JUMP: break;
      case NODE_SET:
        if (a->least != 1 || a->most != 1) return match_set(m, a, p);
        p = step(m, &a->set, p);
        break;
    }
  }
  return NULL;
}


regex_search regex_begin (const regex *r, const unsigned char *start, const unsigned char *end) {
  return (regex_search){.regex = r, .start = start, .end = end, .from = start};
}


regex_result regex_next (regex_search *s) {
  const unsigned char *p = s->match_end != NULL ? s->match_end : s->start, *before = s->match_end;
  matcher m = {.cx = s->regex->cx, .u = s->regex->u, .start = s->start, .end = s->end,
               .most = STEPS + STEPS_OF_BYTE * (int64_t)(s->end - p), .pause = POLLED_STEPS};
  uint32_t point;
  s->from = p;
  for (; s->start < s->end && p <= s->end; p += p < s->end ? utf8_get(p, s->end, &point) : 1) {
    const unsigned char *q = match(&m, s->regex->first, p);
    if (m.failed) return REGEX_FAILED;
    if (q == NULL || (q == p && p == before)) continue;
    s->match = p;
    s->match_end = q;
    return REGEX_FOUND;
  }
  return REGEX_NONE;
}
