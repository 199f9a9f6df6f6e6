/*
** regex_node.h - the tree that regex.c compiles a regular expression to, and that regex_match.c
** matches with.
**
** Each node leads to the one that must match behind it, so that only a repeated class and
** alternatives are places to come back to. Since no group is repeated, matching never calls itself
** more deeply than the pattern is long.
*/

#ifndef text_regex_node_h
#define text_regex_node_h

#include "text/regex.h"

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

static inline bool in_ascii (const uint64_t bits[2], unsigned char c) {
  return bits[c >> 6] >> (c & 63) & 1;
}

#endif
