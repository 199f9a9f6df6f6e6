/*
** einsum.c - sums of products, written as letters: "bik,bjk->bij".
**
** Each axis has a label: 0 to 51 for letters, in the order A to Z, a to z, and from there on
** for the axes that dots stand for, so that the last of them is always the same label and they
** broadcast. Operands are joined from left to right; a label is summed over as soon as neither
** the result nor a later operand has it. Other operations do all the work, gradients included.
*/

#include <inttypes.h>
#include <stdio.h>

#include "op/compose.h"

#define LETTERS 52
#define LABELS (LETTERS + HEED_RANK)
#define OPERANDS 64

/* A tensor with a label for each axis. */
typedef struct term {
  heed_tensor *t;
  int n;
  int label[HEED_RANK];
} term;

typedef struct equation {
  call *c;
  const char *text;
  int operands;
  heed_tensor *const *tensors;
  term operand[OPERANDS];
  int n;                           /* of the result */
  int result[LABELS];
  bool in_result[LABELS];
  int uses[LABELS];                /* operands that have it and are not joined yet */
} equation;


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool refuse (const equation *e, const char *why) {
  return core_fail(e->c->cx, op_name(e->c->op), "'%.60s': %s", e->text, why) != NULL;
}


static bool refuse_operand (const equation *e, int i, const char *why) {
  char shape[LAYOUT_TEXT];
  return core_fail(e->c->cx, op_name(e->c->op), "'%.60s': operand %d of shape %s: %s", e->text,
                   i + 1, layout_text(&e->operand[i].t->at, shape), why) != NULL;
}


/* -1: no letter */
static int letter (char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}


static char letter_of (int label) {
  return label >= LETTERS ? '.' : (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}


static const char *skip (const char *s) { return s + strspn(s, " "); }


/* One side of a comma. Letters into label[], *dots where among them "..." stands, or -1. */
static const char *read_letters (const equation *e, const char *s, int most, int *label, int *n,
                                 int *dots) {
  *n = 0;
  *dots = -1;
  for (s = skip(s); *s != '\0' && *s != ',' && *s != '-'; s = skip(s)) {
    if (*s == '.' && (s[1] != '.' || s[2] != '.' || *dots >= 0)) {
      refuse(e, "dots come in threes, once for each operand");
      return NULL;
    }
    if (*s != '.' && (letter(*s) < 0 || *n == most)) {
      refuse(e, *n == most ? "too many letters" : "letters, ',', '...' and '->' expected");
      return NULL;
    }
    if (*s == '.') *dots = *n, s += 3;
    else label[(*n)++] = letter(*s++);
  }
  return s;
}


/* Labels for the axes that the dots of operand i stand for. */
static bool fill_dots (equation *e, int i, int dots) {
  term *a = &e->operand[i];
  int count = a->t->at.rank - a->n;
  if (count < 0 || (count > 0 && dots < 0))
    return refuse_operand(e, i, "it has not as many dimensions as letters");
  if (count == 0) return true;
  memmove(a->label + dots + count, a->label + dots, (size_t)(a->n - dots) * sizeof *a->label);
  for (int k = 0; k < count; k++) a->label[dots + k] = LABELS - count + k;
  a->n += count;
  return true;
}


static const char *read_operand (equation *e, int i, const char *s) {
  int dots;
  term *a = &e->operand[i];
  a->t = e->tensors[i];
  s = read_letters(e, s, HEED_RANK, a->label, &a->n, &dots);
  return s != NULL && fill_dots(e, i, dots) ? s : NULL;
}


static bool read_result (equation *e, const char *s) {
  int label[LETTERS], n, dots;
  s = read_letters(e, s, LETTERS, label, &n, &dots);
  if (s == NULL) return false;
  if (*s != '\0') return refuse(e, "one result expected");
  for (int i = 0; i <= n; i++) {
    for (int k = LETTERS; k < LABELS && i == dots; k++)
      if (e->uses[k] > 0) e->result[e->n++] = k;
    if (i < n) e->result[e->n++] = label[i];
  }
  return true;
}


/* Not said: dots first, then the letters that stand once, in order. */
static void imply_result (equation *e) {
  int count[LABELS] = {0};
  for (int i = 0; i < e->operands; i++)
    for (int k = 0; k < e->operand[i].n; k++) count[e->operand[i].label[k]]++;
  for (int k = LETTERS; k < LABELS; k++)
    if (count[k] > 0) e->result[e->n++] = k;
  for (int k = 0; k < LETTERS; k++)
    if (count[k] == 1) e->result[e->n++] = k;
}


static bool check_result (equation *e) {
  char why[] = "'?' of the result stands in no operand, or twice in the result";
  for (int i = 0; i < e->n; i++) {
    int label = e->result[i];
    why[1] = letter_of(label);
    if (e->uses[label] == 0 || e->in_result[label]) return refuse(e, why);
    e->in_result[label] = true;
  }
  return e->n <= HEED_RANK || refuse(e, "a result has at most 8 dimensions");
}


static void count_uses (equation *e, const term *a, int change) {
  for (int k = 0; k < a->n; k++) {
    bool again = false;
    for (int j = 0; j < k; j++) again |= a->label[j] == a->label[k];
    if (!again) e->uses[a->label[k]] += change;
  }
}


static bool read_equation (equation *e) {
  const char *s = e->text;
  for (int i = 0; i < e->operands; i++) {
    s = read_operand(e, i, s);
    if (s == NULL) return false;
    if ((i < e->operands - 1) != (*s == ','))
      return refuse(e, "it has not as many terms as there are operands");
    if (*s == ',') s++;
    count_uses(e, &e->operand[i], 1);
  }
  if (*s == '\0') imply_result(e);
  else if (s[1] != '>') return refuse(e, "'->' expected");
  else if (!read_result(e, s + 2)) return false;
  return check_result(e);
}


static bool refuse_size (const equation *e, int i, int k, int64_t known) {
  char why[120];
  const term *a = &e->operand[i];
  snprintf(why, sizeof why, "'%c' has size %" PRId64 " here and %" PRId64 " before",
           letter_of(a->label[k]), a->t->at.size[k], known);
  return refuse_operand(e, i, why);
}


/* Sizes of one label agree, or are 1. */
static bool check_sizes (const equation *e) {
  int64_t sizes[LABELS];
  for (int k = 0; k < LABELS; k++) sizes[k] = 1;
  for (int i = 0; i < e->operands; i++) {
    const term *a = &e->operand[i];
    for (int k = 0; k < a->n; k++) {
      int64_t size = a->t->at.size[k], *known = &sizes[a->label[k]];
      if (size != 1 && *known != 1 && size != *known) return refuse_size(e, i, k, *known);
      if (size != 1) *known = size;
    }
  }
  return true;
}


static bool check_operands (equation *e) {
  const int at = ARG(einsum, operands);
  const heed_value *list = &e->c->args[at];
  if (list->n < 1 || list->n > OPERANDS)
    return check_refuse(e->c, at, "1 to %d tensors expected, got %d", OPERANDS, list->n);
  for (int i = 0; i < list->n; i++) {
    const heed_tensor *t = list->tensors[i];
    if (t == NULL) return check_refuse(e->c, at, "tensor %d is missing", i + 1);
    if (t->type != list->tensors[0]->type)
      return check_refuse(e->c, at, "tensor %d is of type %s, tensor 1 of type %s", i + 1,
                          scalar_names[t->type], scalar_names[list->tensors[0]->type]);
  }
  e->operands = list->n;
  e->tensors = list->tensors;
  return true;
}

/* }================================================================== */


/*
** {==================================================================
** One operand
** ===================================================================
*/

static int find (const term *a, int label) {
  for (int i = 0; i < a->n; i++)
    if (a->label[i] == label) return i;
  return -1;
}


static void drop_label (term *a, int i) {
  a->n--;
  memmove(a->label + i, a->label + i + 1, (size_t)(a->n - i) * sizeof *a->label);
}


/* Axes i < j of one label become their diagonal, which is the last axis. */
static void take_diagonal (term *a, int i, int j) {
  int label = a->label[i];
  int64_t one = a->t->at.size[i], other = a->t->at.size[j];
  if (one != other) {              /* one of them is 1, and is repeated */
    layout wide = a->t->at;
    wide.size[i] = wide.size[j] = one == 1 ? other : one;
    a->t = op_with_shape(HEED_expand, a->t, &wide);
  }
  if (a->t == NULL) return;
  a->t = op_call(a->t->cx, HEED_diagonal, 4,
                 (heed_value[]){heed_t(a->t), heed_i(0), heed_i(i), heed_i(j)});
  drop_label(a, j);
  drop_label(a, i);
  a->label[a->n++] = label;
}


static void take_diagonals (term *a) {
  for (int j = 1; j < a->n; j++) {
    int i = 0;
    while (a->label[i] != a->label[j]) i++;
    if (i < j && a->t != NULL) {
      take_diagonal(a, i, j);
      j = 0;
    }
  }
}


/*
** Sums over the labels that neither the result nor a later operand has; sums of integers and
** bools are int64. 'other' is the operand that joins, or NULL.
*/
static void sum_out (const equation *e, term *a, const term *other) {
  int64_t axes[HEED_RANK];
  int n = 0;
  for (int i = a->n - 1; i >= 0; i--) {
    int label = a->label[i], at = other != NULL ? find(other, label) : -1;
    if (e->in_result[label] || e->uses[label] > 0) continue;
    if (at >= 0 && a->t->at.size[i] == other->t->at.size[at]) continue;
    axes[n++] = i;
  }
  if (n == 0) return;
  heed_value args[] = {heed_t(a->t), heed_l(n, axes)};
  a->t = op_call(e->c->cx, HEED_sum, 2, args);
  for (int i = 0; i < n; i++) drop_label(a, (int)axes[i]);
}

/* }================================================================== */


/*
** {==================================================================
** Two operands
** ===================================================================
*/

/* Labels of both that stay, of the left and of the right alone, of both that are summed over. */
typedef struct sorted { int n[4], label[4][HEED_RANK]; } sorted;

enum { BATCH, LEFT, RIGHT, INNER };


static void put (sorted *s, int kind, int label) { s->label[kind][s->n[kind]++] = label; }


static void sort_labels (const equation *e, const term *a, const term *b, sorted *s) {
  memset(s->n, 0, sizeof s->n);
  for (int i = 0; i < a->n; i++) {
    int label = a->label[i];
    bool stays = e->in_result[label] || e->uses[label] > 0;
    put(s, find(b, label) < 0 ? LEFT : stays ? BATCH : INNER, label);
  }
  for (int i = 0; i < b->n; i++)
    if (find(a, b->label[i]) < 0) put(s, RIGHT, b->label[i]);
}


/* Moves the axes of a to this order of three kinds. */
static heed_tensor *ordered (const term *a, const sorted *s, const int kinds[3]) {
  int64_t order[HEED_RANK];
  int n = 0;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < s->n[kinds[k]]; i++) order[n++] = find(a, s->label[kinds[k]][i]);
  return op_permute(a->t, n, order);
}


static int64_t product_of (const layout *at, int from, int n) {
  int64_t size = 1;
  for (int i = from; i < from + n; i++) size *= at->size[i];
  return size;
}


/* The axes behind the first 'batch', as two groups of 'first' and the rest, each one axis. */
static heed_tensor *as_matrices (heed_tensor *t, int batch, int first) {
  if (t == NULL) return NULL;
  layout shape = t->at;
  shape.rank = batch + 2;
  shape.size[batch] = product_of(&t->at, batch, first);
  shape.size[batch + 1] = product_of(&t->at, batch + first, t->at.rank - batch - first);
  return op_with_shape(HEED_reshape, t, &shape);
}


/* The product t with an axis for each label again; their sizes are those of x and y. */
static heed_tensor *with_axes (heed_tensor *t, const sorted *s, const layout *x, const layout *y) {
  if (t == NULL) return NULL;
  layout shape = t->at;
  shape.rank = s->n[BATCH];
  for (int i = 0; i < s->n[LEFT]; i++) shape.size[shape.rank++] = x->size[s->n[BATCH] + i];
  for (int i = 0; i < s->n[RIGHT]; i++)
    shape.size[shape.rank++] = y->size[s->n[BATCH] + s->n[INNER] + i];
  return op_with_shape(HEED_reshape, t, &shape);
}


/* (batch, left, inner) times (batch, inner, right) */
static heed_tensor *by_matmul (const term *a, const term *b, const sorted *s) {
  heed_tensor *x = ordered(a, s, (int[]){BATCH, LEFT, INNER});
  heed_tensor *y = ordered(b, s, (int[]){BATCH, INNER, RIGHT});
  if (x == NULL || y == NULL) return NULL;
  heed_tensor *z = op2(HEED_matmul, as_matrices(x, s->n[BATCH], s->n[LEFT]),
                       as_matrices(y, s->n[BATCH], s->n[INNER]));
  return with_axes(z, s, &x->at, &y->at);
}


/* x with n axes of size 1 put in before axis 'at'. */
static heed_tensor *with_gap (heed_tensor *x, int at, int n) {
  if (x == NULL || n == 0) return x;
  layout shape = x->at;
  memmove(shape.size + at + n, shape.size + at, (size_t)(x->at.rank - at) * sizeof *shape.size);
  for (int i = 0; i < n; i++) shape.size[at + i] = 1;
  shape.rank += n;
  return op_with_shape(HEED_reshape, x, &shape);
}


/* (batch, left, 1, inner) times (batch, 1, right, inner), summed over the inner ones. */
static heed_tensor *by_mul (const term *a, const term *b, const sorted *s) {
  heed_tensor *x = ordered(a, s, (int[]){BATCH, LEFT, INNER});
  heed_tensor *y = ordered(b, s, (int[]){BATCH, RIGHT, INNER});
  heed_tensor *z = op2(HEED_mul, with_gap(x, s->n[BATCH] + s->n[LEFT], s->n[RIGHT]),
                       with_gap(y, s->n[BATCH], s->n[LEFT]));
  int64_t axes[HEED_RANK];
  for (int i = 0; i < s->n[INNER]; i++) axes[i] = -1 - i;
  if (z == NULL || s->n[INNER] == 0) return z;
  heed_value args[] = {heed_t(z), heed_l(s->n[INNER], axes), heed_b(false), heed_i(z->type)};
  return op_call(z->cx, HEED_sum, 4, args);
}


/* a becomes a joined with b. A product of matrices has two axes beside those of the batch. */
static bool join (equation *e, term *a, term *b) {
  sorted s;
  take_diagonals(b);
  if (b->t == NULL) return false;
  sum_out(e, a, b);
  if (a->t == NULL) return false;
  sum_out(e, b, a);
  if (b->t == NULL) return false;
  heed_type type = scalar_promote(a->t->type, b->t->type);
  a->t = op_cast(a->t, type);
  b->t = op_cast(b->t, type);
  if (a->t == NULL || b->t == NULL) return false;
  sort_labels(e, a, b, &s);
  bool elementwise = s.n[INNER] == 0 || s.n[BATCH] + 2 > HEED_RANK || a->t->type == HEED_BOOL;
  int rank = s.n[BATCH] + s.n[LEFT] + s.n[RIGHT];
  if (rank + (elementwise ? s.n[INNER] : 0) > HEED_RANK)
    return refuse(e, "more than 8 dimensions at once");
  a->t = elementwise ? by_mul(a, b, &s) : by_matmul(a, b, &s);
  a->n = 0;
  for (int kind = BATCH; kind <= RIGHT; kind++)
    for (int i = 0; i < s.n[kind]; i++) a->label[a->n++] = s.label[kind][i];
  return a->t != NULL;
}

/* }================================================================== */


static bool give_result (equation *e, term *a) {
  int64_t order[HEED_RANK];
  sum_out(e, a, NULL);
  for (int i = 0; i < e->n; i++) order[i] = find(a, e->result[i]);
  return give_out(e->c, op_permute(a->t, e->n, order));
}


bool do_einsum (call *c) {
  equation e = {.c = c, .text = c->args[ARG(einsum, equation)].text};
  if (!check_operands(&e) || !read_equation(&e) || !check_sizes(&e)) return false;
  term *a = &e.operand[0];
  count_uses(&e, a, -1);
  take_diagonals(a);
  for (int i = 1; i < e.operands && a->t != NULL; i++) {
    count_uses(&e, &e.operand[i], -1);
    if (!join(&e, a, &e.operand[i])) return false;
  }
  return a->t != NULL && give_result(&e, a);
}
