/*
** attention_mask.c - who may attend: the rule as a caller gives it (heed_mask in heed.h), checked,
** as a device's mask, and composed as a tensor of bools.
**
** A rule is read word by word, in postfix order; words that join take what stands before them.
*/

#include <inttypes.h>
#include <string.h>

#include "op/attention.h"

#define FAR ((int64_t)1 << 60)     /* numbers of a rule are cut there, so that sums stay in range */


/*
** {==================================================================
** Reading
** ===================================================================
*/

typedef struct word {
  heed_mask kind;
  int64_t number[3];
  int operand;                     /* its index, if it has one: words take operands in turn */
} word;

static const heed_word grammar[] = {
#define WORD(NAME, name, constructor, leaf, numbers, what, least, type, dims, absolute) \
  [HEED_MASK_##NAME] = {#name, #constructor, numbers, 0, what, least, type, dims, absolute},
#define JOIN(NAME, name, joins) \
  [HEED_MASK_##NAME] = {name, name, 0, joins, NULL, 0, HEED_BOOL, "", false},
#include "op/masks.def"
};


const heed_word *heed_describe_mask (heed_mask kind) {
  return (unsigned)kind < HEED_NMASKS ? &grammar[kind] : NULL;
}


/* How many tensors a word of a rule takes, and how many operands its node has. */
static int tensors_of (heed_mask kind) { return *grammar[kind].dims != '\0'; }

static int operands_of (heed_mask kind) {
  switch (kind) {
#define WORD(NAME, name, constructor, leaf, ...) \
    case HEED_MASK_##NAME: return mask_has_operand(MASK_##leaf);
#define JOIN(NAME, ...) case HEED_MASK_##NAME:
#include "op/masks.def"
    case HEED_NMASKS: break;
  }
  return 0;
}


static int rule_numbers (const attending *o) {
  return o->rule->kind == HEED_LIST ? o->rule->n : 0;
}


static int64_t within (int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}


/* The word at *at, which is then moved behind it; false at the end, or where no word stands. */
static bool next_word (const attending *o, int *at, word *w) {
  const int64_t *list = o->rule->list + *at;
  const int left = rule_numbers(o) - *at;
  if (left <= 0 || *list < 0 || *list >= HEED_NMASKS) return false;
  if (grammar[*list].numbers >= left) return false;
  w->kind = (heed_mask)*list;
  for (int i = 0; i < grammar[w->kind].numbers; i++) w->number[i] = within(list[i + 1], -FAR, FAR);
  *at += 1 + grammar[w->kind].numbers;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Checks
** ===================================================================
*/

static bool refuse_operand (call *c, const attending *o, const word *w, const char *what,
                            const layout *to) {
  char want[LAYOUT_TEXT], have[LAYOUT_TEXT];
  const heed_tensor *t = o->operand[w->operand];
  if (t == NULL)
    return check_refuse(c, o->says, "%s: %s expected, got nothing",
                        grammar[w->kind].constructor, what);
  return check_refuse(c, o->says, "%s: %s of a shape that broadcasts to %s expected, got %s of "
                      "shape %s", grammar[w->kind].constructor, what, layout_text(to, want),
                      scalar_names[t->type], layout_text(&t->at, have));
}


/* Numbers of keys: how many a sequence may have. */
static int64_t most_keys (const attending *o, heed_mask kind) {
  return kind == HEED_MASK_LENGTHS ? o->S : INT64_MAX;
}


/* The shape that the tensor of a word broadcasts to. */
static layout operand_layout (const attending *o, const heed_word *g) {
  layout to;
  if (strcmp(g->dims, "BHTS") == 0) return attention_shape(o, o->S);
  layout_dense(&to, (int)strlen(g->dims), (int64_t[]){o->B, o->S});      /* (B) or (B, S) */
  return to;
}


static bool check_operand (call *c, const attending *o, const word *w) {
  layout at;
  const heed_word *g = &grammar[w->kind];
  const layout to = operand_layout(o, g);
  const heed_tensor *t = o->operand[w->operand];
  if (t == NULL || t->type != g->type || !layout_expand(&t->at, &to, &at))
    return refuse_operand(c, o, w, g->type == HEED_BOOL ? "a bool tensor" : "an int64 tensor",
                          &to);
  return strcmp(g->dims, "B") != 0 ||
         attention_check_lengths(c, o, o->says, t, most_keys(o, w->kind));
}


static bool check_word (call *c, const attending *o, const word *w) {
  const heed_word *g = &grammar[w->kind];
  if (g->what != NULL && w->number[0] < g->least)
    return check_refuse(c, o->says, "%s: %s from %" PRId64 " on expected, got %" PRId64,
                        g->constructor, g->what, g->least, w->number[0]);
  return tensors_of(w->kind) == 0 || check_operand(c, o, w);
}


bool attention_check_rule (call *c, const attending *o) {
  word w;
  int at = 0, operands = 0, waiting = 0;
  while (next_word(o, &at, &w)) {
    const heed_word *g = &grammar[w.kind];
    w.operand = operands;
    operands += tensors_of(w.kind);
    waiting += 1 - g->joins;
    if (operands > o->operands)
      return check_refuse(c, o->says, "%s: its tensor is missing", g->constructor);
    if (waiting < 1)
      return check_refuse(c, o->says, "'%s' lacks what it joins", g->constructor);
    if (waiting > RULE_DEPTH)
      return check_refuse(c, o->says, "more than %d conditions wait to be joined", RULE_DEPTH);
    if (!check_word(c, o, &w)) return false;
  }
  if (at < rule_numbers(o))
    return check_refuse(c, o->says, "no word of a rule, with its numbers, stands at number %d",
                        at + 1);
  if (waiting > 1) return check_refuse(c, o->says, "%d conditions are not joined", waiting);
  return operands == o->operands ||
         check_refuse(c, o->says, "%d tensors expected, got %d", operands, o->operands);
}

/* }================================================================== */


/*
** {==================================================================
** For a device
** ===================================================================
*/

static void add_node (work *w, mask_node x) {
  mask *m = &w->attention.mask;
  m->node[m->n++] = x;
}


/* One more condition; all of these must hold. */
static void add_condition (work *w, mask_node x) {
  const bool first = w->attention.mask.n == 0;
  add_node(w, x);
  if (!first) add_node(w, (mask_node){.kind = MASK_AND});
}


/* An operand of the mask: its place among those of the work. */
static int add_operand (work *w, const heed_tensor *t, const layout *at) {
  int place = ATTENTION_MASK;
  while (!view_is_none(&w->in[place])) place++;
  w->in[place] = view_with(t, at);
  return place;
}


static int add_bools (work *w, const attending *o, const heed_tensor *t) {
  layout at = attention_square(o, t);
  return add_operand(w, t, &at);
}


/* A tensor that broadcasts to (B) or to (B, S). */
static int add_rows (work *w, const attending *o, const heed_tensor *t, int rank) {
  layout to, at;
  layout_dense(&to, rank, (int64_t[]){o->B, o->S});
  layout_expand(&t->at, &to, &at);
  return add_operand(w, t, &at);
}


/* Keys (B, S), or a part of them, for all heads and queries. */
static int add_keys (work *w, const attending *o, const heed_tensor *t) {
  layout to, at, square;
  layout_dense(&to, 2, (int64_t[]){o->B, o->S});
  layout_expand(&t->at, &to, &at);
  at = layout_insert(&at, 1);
  at = layout_insert(&at, 1);
  layout_dense(&to, 4, (int64_t[]){o->B, o->H, o->T, o->S});
  layout_expand(&at, &to, &square);
  return add_operand(w, t, &square);
}


/* low <= j - (i + first) <= high, in terms of j - i, which is between -T and S. */
static mask_node band (const attending *o, int64_t first, int64_t low, int64_t high) {
  return (mask_node){.kind = MASK_BAND, .low = within(low + first, -o->T, o->S),
                     .high = within(high + first, -o->T, o->S)};
}


/* Blocks beyond all positions are as good as larger ones. */
static mask_node blocks (const attending *o, const word *w) {
  const int64_t longest = o->S > o->T ? o->S : o->T, most = o->S + o->T + 1;
  return (mask_node){.kind = MASK_BLOCKS, .size = within(w->number[0], 1, longest + 1),
                     .low = within(w->number[1], -most, most), .offset = o->S - o->T,
                     .high = within(w->number[2], -most, most)};
}


static heed_tensor *first_keys (const attending *o, int64_t n) {
  heed_tensor *t = op_new_sized(o->cx, HEED_INT64, 1, (int64_t[]){1});
  return t != NULL && op_filled(t, n) ? t : NULL;
}


/* All distances are below T + S, so that sizes above have no multiple but 0 among them. */
static mask_node every (const attending *o, const word *w) {
  const int64_t size = within(w->number[0], 1, o->S + o->T + 1), first = (o->S - o->T) % size;
  return (mask_node){.kind = MASK_EVERY, .size = size, .offset = first < 0 ? first + size : first};
}


static mask_node dense (int operand) {
  return (mask_node){.kind = MASK_DENSE, .operand = operand};
}


static mask_node lengths (work *w, const attending *o, const heed_tensor *t, heed_mask kind) {
  return (mask_node){.kind = MASK_LENGTHS, .operand = add_rows(w, o, t, 1),
                     .high = most_keys(o, kind)};
}


/* The node of a word; of the kind MASK_KINDS for a failure. */
static mask_node node_of (work *w, const attending *o, const word *one) {
  const mask_node none = {.kind = MASK_KINDS};
  heed_tensor *t = tensors_of(one->kind) ? o->operand[one->operand] : NULL;
  const int64_t *number = one->number;
  switch (one->kind) {
    case HEED_MASK_TENSOR: return dense(add_bools(w, o, t));
    case HEED_MASK_KEYS: return dense(add_keys(w, o, t));
    case HEED_MASK_BAND: return band(o, o->S - o->T, number[0], number[1]);
    case HEED_MASK_BAND_FROM: return band(o, number[0], number[1], number[2]);
    case HEED_MASK_FIRST:
      t = first_keys(o, number[0]);
      return t != NULL ? lengths(w, o, t, one->kind) : none;
    case HEED_MASK_PREFIX: case HEED_MASK_LENGTHS: return lengths(w, o, t, one->kind);
    case HEED_MASK_DOCUMENTS:
      return (mask_node){.kind = MASK_DOCUMENTS, .operand = add_rows(w, o, t, 2),
                         .offset = o->S - o->T};
    case HEED_MASK_BLOCKS: return blocks(o, one);
    case HEED_MASK_EVERY: return every(o, one);
#define JOIN(NAME, ...) case HEED_MASK_##NAME: return (mask_node){.kind = MASK_##NAME};
#include "op/masks.def"
    case HEED_NMASKS: break;
  }
  return none;
}


/* Do the conditions, joined by AND, fit into a device's mask? */
static bool fits (const attending *o) {
  word one;
  int nodes = 0, operands = 0;
  for (int at = 0; next_word(o, &at, &one); nodes++)
    operands += operands_of(one.kind);
  nodes += 2 * (o->causal + (o->mask != NULL) + (o->lengths != NULL));
  operands += (o->mask != NULL) + (o->lengths != NULL);
  return nodes <= MASK_NODES && operands <= MASK_OPERANDS;
}


static bool set_dense_mask (work *w, const attending *o) {
  heed_tensor *allowed;
  layout to, at;
  if (!attention_allowed(o, &allowed) || allowed == NULL) return false;
  layout_dense(&to, 4, (int64_t[]){o->B, o->H, o->T, o->S});
  layout_expand(&allowed->at, &to, &at);
  add_node(w, dense(add_operand(w, allowed, &at)));
  return true;
}


bool attention_set_mask (work *w, const attending *o) {
  word one = {.operand = 0};
  mask_node x;
  for (int i = ATTENTION_MASK; i < ATTENTION_INS; i++) w->in[i] = view_none();
  if (!fits(o)) return set_dense_mask(w, o);
  for (int at = 0; next_word(o, &at, &one); one.operand += tensors_of(one.kind)) {
    x = node_of(w, o, &one);
    if (x.kind == MASK_KINDS) return false;
    add_node(w, x);
  }
  if (o->causal) add_condition(w, band(o, o->offset, -FAR, 0));
  if (o->mask != NULL) add_condition(w, dense(add_bools(w, o, o->mask)));
  if (o->lengths != NULL) add_condition(w, lengths(w, o, o->lengths, HEED_MASK_LENGTHS));
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** Composed: bools that broadcast to (B, H, T, S)
** ===================================================================
*/

/* from, from + 1 … : n of them */
static heed_tensor *count_from (heed_context *cx, int64_t from, int64_t n) {
  return op_call(cx, HEED_arange, 3, (heed_value[]){heed_i(from), heed_i(from + n - 1), heed_i(1)});
}


/* Positions of keys, (S), and of queries, the first of which stands there, (T, 1). */
static heed_tensor *keys_of (const attending *o) { return count_from(o->cx, 0, o->S); }

static heed_tensor *queries_of (const attending *o, int64_t first) {
  return op_along(HEED_unsqueeze, count_from(o->cx, first, o->T), 1);
}


static heed_tensor *between (heed_tensor *x, int64_t low, int64_t high) {
  if (x == NULL) return NULL;
  return op2(HEED_logical_and, op2(HEED_ge, x, op_integer(x->cx, low)),
             op2(HEED_le, x, op_integer(x->cx, high)));
}


static heed_tensor *keys_in_band (const attending *o, int64_t first, int64_t low, int64_t high) {
  const mask_node x = band(o, first, low, high);
  return between(op2(HEED_sub, keys_of(o), queries_of(o, 0)), x.low, x.high);
}


static heed_tensor *keys_before (const attending *o, heed_tensor *lengths) {
  layout to;
  layout_dense(&to, 1, &o->B);
  lengths = op_with_shape(HEED_expand, lengths, &to);
  return op2(HEED_lt, keys_of(o), op_reshape(lengths, 4, (int64_t[]){o->B, 1, 1, 1}));
}


/* (B, 1, 1, S) of what broadcasts to (B, S) */
static heed_tensor *rows_of (const attending *o, heed_tensor *t) {
  layout to;
  layout_dense(&to, 2, (int64_t[]){o->B, o->S});
  return op_reshape(op_with_shape(HEED_expand, t, &to), 4, (int64_t[]){o->B, 1, 1, o->S});
}


static heed_tensor *allowed_by_bools (const attending *o, heed_tensor *t) {
  layout at = attention_square(o, t);
  return op_view(t, &at);
}


/* A query whose position is none of a key's belongs to no document. */
static heed_tensor *allowed_by_documents (const attending *o, heed_tensor *t) {
  heed_tensor *k = rows_of(o, t), *position = count_from(o->cx, o->S - o->T, o->T);
  heed_tensor *index = op2(HEED_maximum, position, op_integer(o->cx, 0));
  index = op2(HEED_add, index, op_integer(o->cx, 1));
  heed_tensor *q = op_call(o->cx, HEED_index_select, 3,
                           (heed_value[]){heed_t(k), heed_i(3), heed_t(index)});
  heed_tensor *there = op2(HEED_ge, op_along(HEED_unsqueeze, position, 1), op_integer(o->cx, 0));
  return op2(HEED_logical_and, op2(HEED_eq, op_swap(q, 2, 3), k), there);
}


static heed_tensor *allowed_by_blocks (const attending *o, const word *w) {
  const mask_node x = blocks(o, w);
  heed_tensor *size = op_integer(o->cx, x.size);
  heed_tensor *q = op2(HEED_floor_divide, queries_of(o, x.offset), size);
  return between(op2(HEED_sub, op2(HEED_floor_divide, keys_of(o), size), q), x.low, x.high);
}


static heed_tensor *allowed_by_every (const attending *o, const word *w) {
  const mask_node x = every(o, w);
  heed_tensor *t = op2(HEED_sub, queries_of(o, x.offset), keys_of(o));
  return op2(HEED_eq, op2(HEED_remainder, t, op_integer(o->cx, x.size)), op_integer(o->cx, 0));
}


/* The pairs that a word allows, which may join the masks at 'top'. NULL for a failure. */
static heed_tensor *allowed_by (const attending *o, const word *w, heed_tensor *const *top) {
  heed_tensor *t = tensors_of(w->kind) ? o->operand[w->operand] : NULL;
  const int64_t *number = w->number;
  switch (w->kind) {
    case HEED_MASK_TENSOR: return allowed_by_bools(o, t);
    case HEED_MASK_KEYS: return rows_of(o, t);
    case HEED_MASK_BAND: return keys_in_band(o, o->S - o->T, number[0], number[1]);
    case HEED_MASK_BAND_FROM: return keys_in_band(o, number[0], number[1], number[2]);
    case HEED_MASK_FIRST: return op2(HEED_lt, keys_of(o), op_integer(o->cx, number[0]));
    case HEED_MASK_PREFIX: case HEED_MASK_LENGTHS: return keys_before(o, t);
    case HEED_MASK_DOCUMENTS: return allowed_by_documents(o, t);
    case HEED_MASK_BLOCKS: return allowed_by_blocks(o, w);
    case HEED_MASK_EVERY: return allowed_by_every(o, w);
    case HEED_MASK_NOT: return op1(HEED_logical_not, top[0]);
    case HEED_MASK_AND: return op2(HEED_logical_and, top[0], top[1]);
    case HEED_MASK_OR: return op2(HEED_logical_or, top[0], top[1]);
    case HEED_NMASKS: break;
  }
  return NULL;
}


/* NULL for a failure. */
static heed_tensor *allowed_by_rule (const attending *o) {
  word w = {.operand = 0};
  heed_tensor *stack[RULE_DEPTH + 1];
  int n = 0;
  for (int at = 0; next_word(o, &at, &w); w.operand += tensors_of(w.kind)) {
    n -= grammar[w.kind].joins;
    heed_tensor **top = &stack[n++];
    *top = allowed_by(o, &w, top);
    if (*top == NULL) return NULL;
  }
  return *stack;
}


/* One more condition on *allowed, which may be NULL for none yet. */
static bool allow (heed_tensor **allowed, heed_tensor *more) {
  *allowed = *allowed != NULL && more != NULL ? op2(HEED_logical_and, *allowed, more) : more;
  return *allowed != NULL;
}


bool attention_allowed (const attending *o, heed_tensor **allowed) {
  *allowed = NULL;
  if (rule_numbers(o) > 0 && !allow(allowed, allowed_by_rule(o))) return false;
  if (o->causal && !allow(allowed, keys_in_band(o, o->offset, -FAR, 0))) return false;
  if (o->mask != NULL && !allow(allowed, allowed_by_bools(o, o->mask))) return false;
  return o->lengths == NULL || allow(allowed, keys_before(o, o->lengths));
}


static bool check_square (call *c, attending *o) {
  layout at;
  if (!check_shape(c, ARG(attention_mask, size), -1, &at)) return false;
  if (at.rank != 4)
    return check_refuse(c, ARG(attention_mask, size), "four sizes expected (B, H, T, S), got %d",
                        at.rank);
  o->rank = 4;
  o->B = at.size[0];
  o->H = at.size[1];
  o->T = at.size[2];
  o->S = at.size[3];
  return true;
}


bool do_attention_mask (call *c) {
  const heed_value *operands = &c->args[ARG(attention_mask, operands)];
  attending o = {.cx = c->cx, .op = c->op, .rule = &c->args[ARG(attention_mask, rule)],
                 .says = ARG(attention_mask, rule), .operands = operands->n};
  if (operands->kind == HEED_TENSORS) o.operand = operands->tensors;
  heed_tensor *allowed = NULL;
  if (!check_square(c, &o) || !attention_check_rule(c, &o)) return false;
  const layout to = attention_shape(&o, o.S);
  if (!attention_is_empty(&o) && !attention_allowed(&o, &allowed)) return false;
  if (allowed == NULL) {
    allowed = op_new(c->cx, HEED_BOOL, &to);
    return allowed != NULL && op_filled(allowed, 1) && give_out(c, allowed);
  }
  return give_out(c, op1(HEED_clone, op_with_shape(HEED_expand, allowed, &to)));
}

/* }================================================================== */
