/*
** expression.c - derivatives of elementwise rows by operations, for gradients of gradients.
**
** ops.def has each derivative as an expression, which kernels compile. Its text is read here, by
** recursive descent, and computed at once, each word by the operation of its name. What is known
** without tensors, such as whether a number is 0, decides at once as well.
**
** Of 'c ? d : e' both are computed, and 'where' chooses. What is not chosen has a gradient of 0
** times its derivative, and must be finite: so a branch reads 1 where its condition does not hold.
*/

#include <string.h>

#include "op/compose.h"


/* A tensor, or a number where that is NULL. */
typedef struct quantity {
  heed_tensor *t;
  double number;
} quantity;

typedef struct reader {
  backward *b;
  const char *at;                  /* the rest of the text */
  const double *number;            /* the row's own: p and q */
  heed_type type;                  /* that is computed in */
  quantity x;                      /* the argument of a word that is an expression */
  heed_tensor *mask;               /* where the branch holds; NULL: everywhere */
  bool skips;                      /* the branch is not taken: nothing is computed */
  bool failed;
} reader;


static bool failed (reader *r) {
  r->failed = true;
  return false;
}


/* The text has a word that no operation computes. */
static quantity refuse (reader *r) {
  if (!r->failed) graph_no_second(r->b->cx, r->b->op);
  failed(r);
  return (quantity){NULL, 0};
}


static quantity number (double value) { return (quantity){NULL, value}; }


static quantity tensor (reader *r, heed_tensor *t) {
  if (t == NULL && !r->skips) failed(r);
  return (quantity){t, 0};
}


/* As an operand; numbers join the type of the other one. */
static heed_tensor *operand (reader *r, quantity a) {
  return a.t != NULL || r->skips ? a.t : op_float(r->b->cx, a.number);
}


static quantity apply (reader *r, heed_op op, quantity a, quantity b) {
  if (r->skips || r->failed) return number(0);
  return tensor(r, op2(op, operand(r, a), operand(r, b)));
}


/*
** {==================================================================
** Text
** ===================================================================
*/

static void skip_spaces (reader *r) {
  while (*r->at == ' ' || *r->at == '\n') r->at++;
}


/* Is this next? Then it is read. */
static bool take (reader *r, const char *text) {
  size_t n = strlen(text);
  skip_spaces(r);
  if (strncmp(r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}


static bool is_digit (char c) { return c >= '0' && c <= '9'; }
static bool is_letter (char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }


/* Without strtod, whose point depends on the locale. */
static double read_number (reader *r) {
  double value = 0, unit = 1;
  for (; is_digit(*r->at); r->at++) value = 10 * value + (*r->at - '0');
  if (*r->at != '.') return value;
  for (r->at++; is_digit(*r->at); r->at++, unit *= 10) value = 10 * value + (*r->at - '0');
  return value / unit;
}


#define WORD 32

/* A name of a value or of a word; empty if none is next. */
static void read_name (reader *r, char name[WORD]) {
  int n = 0;
  while (n < WORD - 1 && (is_letter(*r->at) || *r->at == '_' || is_digit(*r->at)))
    name[n++] = *r->at++;
  name[n] = '\0';
}

/* }================================================================== */


/*
** {==================================================================
** Values
** ===================================================================
*/

/* In the type that is computed in, and 1 where the branch does not hold. */
static quantity variable (reader *r, heed_tensor *t) {
  t = op_cast(t, r->type);
  if (r->mask != NULL) t = op3(HEED_where, r->mask, t, op_integer(r->b->cx, 1));
  return tensor(r, t);
}


static quantity saved_input (reader *r, int i) {
  const saved *s = &r->b->n->saved[i];
  if (r->skips || r->failed) return number(0);
  if (s->number) return number(scalar_double(s->value));
  return variable(r, input(r->b, i));
}


static quantity named (reader *r, char name) {
  if (name >= 'a' && name <= 'c') return saved_input(r, name - 'a');
  if (name == 'p') return number(r->number[0]);
  if (name == 'q') return number(r->number[1]);
  if (name == 'x') return r->x;
  if (name != 'g' && name != 'y') return refuse(r);
  if (r->skips || r->failed) return number(0);
  if (name == 'g') return tensor(r, op_cast(r->b->g, r->type));
  return variable(r, output(r->b, OUT(neg, output)));
}

/* }================================================================== */


/*
** {==================================================================
** Words
** ===================================================================
*/

typedef struct constant { const char *name; double value; } constant;

static const constant constants[] = {
  {"LN2", 0.69314718055994530942}, {"PI", 3.14159265358979323846},
  {"TWO_OVER_SQRT_PI", 1.12837916709551257390},
  {"SQRT_HALF", 0.70710678118654752440}, {"GAUSS_AT_0", 0.39894228040143267794},
  {"GELU_SLOPE", 1.59576912160573071176}, {"GELU_BEND", 0.07135481627260025}, {NULL, 0}
};

typedef struct word { const char *name; heed_op op; int arguments; } word;

static const word words[] = {
  {"ABS", HEED_abs, 1}, {"SIGN", HEED_sign, 1}, {"SQRT", HEED_sqrt, 1}, {"EXP", HEED_exp, 1},
  {"LOG", HEED_log, 1}, {"SIN", HEED_sin, 1}, {"COS", HEED_cos, 1}, {"SINH", HEED_sinh, 1},
  {"COSH", HEED_cosh, 1}, {"TANH", HEED_tanh, 1}, {"SIGMOID", HEED_sigmoid, 1},
  {"SOFTPLUS", HEED_softplus, 1}, {"ERF", HEED_erf, 1}, {"ROUND", HEED_round, 1},
  {"TRUNC", HEED_trunc, 1}, {"POW", HEED_pow, 2}, {"HYPOT", HEED_hypot, 2},
  {"FLOOR_DIVIDE", HEED_floor_divide, 2}, {NULL, HEED_NOPS, 0}
};

/* Words of one argument, x, that are expressions themselves. */
typedef struct definition { const char *name, *text; } definition;

static const definition definitions[] = {
  {"SCALED", "p * x"},
  {"SILU_DERIVATIVE", "SIGMOID(x) * (1 + x * (1 - SIGMOID(x)))"},
  {"MISH_DERIVATIVE",
   "TANH(SOFTPLUS(x)) + x * SIGMOID(x) * (1 - TANH(SOFTPLUS(x)) * TANH(SOFTPLUS(x)))"},
  {"GELU_DERIVATIVE", "(1 + ERF(x * SQRT_HALF)) / 2 + x * GAUSS_AT_0 * EXP(-x * x / 2)"},
  {"GELU_TANH_DERIVATIVE",
   "SIGMOID(x * (GELU_SLOPE + GELU_BEND * x * x)) * (1 + x * (GELU_SLOPE + 3 * GELU_BEND * x * x) *"
   " (1 - SIGMOID(x * (GELU_SLOPE + GELU_BEND * x * x))))"},
  {NULL, NULL}
};

static quantity read_choice (reader *r);


/* As a tensor of the type that is computed in: an operation on numbers alone has another one. */
static quantity typed (reader *r, quantity a) {
  if (a.t != NULL || r->skips || r->failed) return a;
  return tensor(r, op_cast(op_float(r->b->cx, a.number), r->type));
}


static quantity call_word (reader *r, const word *w) {
  quantity a = read_choice(r), b = number(0);
  if (w->arguments == 2) {
    if (!take(r, ",")) return refuse(r);
    b = read_choice(r);
  }
  if (!take(r, ")")) return refuse(r);
  if (b.t == NULL) a = typed(r, a);
  if (r->skips || r->failed) return number(0);
  return w->arguments == 2 ? apply(r, w->op, a, b) : tensor(r, op1(w->op, a.t));
}


static quantity call_definition (reader *r, const definition *d) {
  const quantity before = r->x, x = read_choice(r);
  if (!take(r, ")")) return refuse(r);
  const char *rest = r->at;
  r->at = d->text;
  r->x = x;
  quantity y = read_choice(r);
  r->at = rest;
  r->x = before;
  return y;
}


static quantity read_word (reader *r) {
  char name[WORD];
  read_name(r, name);
  if (name[0] == '\0') return refuse(r);
  if (name[1] == '\0') return named(r, name[0]);
  for (const constant *k = constants; k->name != NULL; k++)
    if (strcmp(k->name, name) == 0) return number(k->value);
  if (!take(r, "(")) return refuse(r);
  for (const word *w = words; w->name != NULL; w++)
    if (strcmp(w->name, name) == 0) return call_word(r, w);
  for (const definition *d = definitions; d->name != NULL; d++)
    if (strcmp(d->name, name) == 0) return call_definition(r, d);
  return refuse(r);
}

/* }================================================================== */


/*
** {==================================================================
** Operators, from those that bind closest
** ===================================================================
*/

static quantity read_single (reader *r) {
  skip_spaces(r);
  if (take(r, "(T)")) return read_single(r);
  if (take(r, "-")) {
    quantity a = read_single(r);
    if (a.t == NULL) return number(-a.number);
    return tensor(r, op1(HEED_neg, a.t));
  }
  if (take(r, "(")) {
    quantity a = read_choice(r);
    return take(r, ")") ? a : refuse(r);
  }
  return is_digit(*r->at) ? number(read_number(r)) : read_word(r);
}


static quantity read_product (reader *r) {
  quantity a = read_single(r);
  for (;;) {
    bool times = take(r, "*");
    if (!times && !take(r, "/")) return a;
    quantity b = read_single(r);
    if (a.t != NULL || b.t != NULL) a = apply(r, times ? HEED_mul : HEED_div, a, b);
    else a = number(times ? a.number * b.number : a.number / b.number);
  }
}


static quantity read_sum (reader *r) {
  quantity a = read_product(r);
  for (;;) {
    bool plus = take(r, "+");
    if (!plus && !take(r, "-")) return a;
    quantity b = read_product(r);
    if (a.t != NULL || b.t != NULL) a = apply(r, plus ? HEED_add : HEED_sub, a, b);
    else a = number(plus ? a.number + b.number : a.number - b.number);
  }
}


/* An operation, and what it says of numbers where the first is below, at or above the second. */
typedef struct comparison { const char *text; heed_op op; bool below, same, above; } comparison;

static const comparison comparisons[] = {
  {"<=", HEED_le, true, true, false}, {">=", HEED_ge, false, true, true},
  {"==", HEED_eq, false, true, false}, {"!=", HEED_ne, true, false, true},
  {"<", HEED_lt, true, false, false}, {">", HEED_gt, false, false, true},
  {NULL, HEED_NOPS, false, false, false}
};


static quantity read_comparison (reader *r) {
  quantity a = read_sum(r);
  for (const comparison *k = comparisons; k->text != NULL; k++) {
    if (!take(r, k->text)) continue;
    quantity b = read_sum(r);
    if (a.t != NULL || b.t != NULL) return apply(r, k->op, a, b);
    return number(a.number < b.number ? k->below : a.number == b.number ? k->same : k->above);
  }
  return a;
}


/* 'and', and 'or' of them; a number decides, or leaves it to the other one. */
static quantity joined (reader *r, bool all, quantity a, quantity b) {
  if (a.t != NULL && b.t != NULL) return apply(r, all ? HEED_logical_and : HEED_logical_or, a, b);
  quantity known = a.t == NULL ? a : b, other = a.t == NULL ? b : a;
  return (known.number != 0) == all ? other : known;
}


static quantity read_all (reader *r) {
  quantity a = read_comparison(r);
  while (take(r, "&&")) a = joined(r, true, a, read_comparison(r));
  return a;
}


static quantity read_any (reader *r) {
  quantity a = read_all(r);
  while (take(r, "||")) a = joined(r, false, a, read_all(r));
  return a;
}


/* A branch of a choice, which is taken where the condition is 'as'. */
static quantity read_branch (reader *r, quantity condition, bool as) {
  heed_tensor *const outer = r->mask;
  const bool skips = r->skips;
  if (condition.t == NULL) r->skips |= (condition.number != 0) != as;
  else {
    heed_tensor *holds = as ? condition.t : op1(HEED_logical_not, condition.t);
    r->mask = outer == NULL ? holds : op2(HEED_logical_and, outer, holds);
    if (r->mask == NULL) failed(r);
  }
  quantity y = read_choice(r);
  r->mask = outer;
  r->skips = skips;
  return y;
}


static quantity read_choice (reader *r) {
  quantity condition = read_any(r);
  if (!take(r, "?")) return condition;
  quantity y = read_branch(r, condition, true);
  if (!take(r, ":")) return refuse(r);
  quantity n = read_branch(r, condition, false);
  if (condition.t == NULL) return condition.number != 0 ? y : n;
  if (r->skips || r->failed) return number(0);
  return tensor(r, op3(HEED_where, condition.t, operand(r, y), operand(r, n)));
}

/* }================================================================== */


/* A derivative without tensors is the same everywhere. */
heed_tensor *expression_derivative (backward *b, int i, const double number[2]) {
  reader r = {.b = b, .at = op_rows[b->op].derivative[i], .number = number,
              .type = scalar_computing(b->g->type)};
  quantity d = read_choice(&r);
  skip_spaces(&r);
  if (*r.at != '\0') refuse(&r);
  if (r.failed) return NULL;
  if (d.t != NULL && layout_same_shape(&d.t->at, &b->g->at)) return d.t;
  return op2(HEED_add, op_zeros(b->cx, r.type, &b->g->at), operand(&r, d));
}
