/*
** cuda_elementwise.c - every elementwise row and derivative on a GPU: types, layouts, ends.
*/

#include "cuda_same.h"

#define SIZES(...) (int64_t[]){__VA_ARGS__}

typedef enum domain { FLT, NUM, ALL, TEST, PICK } domain;

typedef struct row {
  const char *name;
  heed_op op;
  domain domain;
  int inputs, numbers;
} row;

static const row rows[] = {
#define UNARY(name, domain, y, da, ra, ...) \
  {#name, HEED_##name, domain, 1, sizeof #__VA_ARGS__ > 1},
#define BINARY(name, domain, y, da, ra, db, rb, ...) \
  {#name, HEED_##name, domain, 2, sizeof #__VA_ARGS__ > 1},
#define TERNARY(name, domain, ...) {#name, HEED_##name, domain, 3, 0},
#include "op/ops.def"
};

#define ROWS (sizeof rows / sizeof *rows)

/* Rows whose values are one correctly rounded operation, or none. */
static bool is_exact (const row *r) {
  static const heed_op exact[] = {
    HEED_neg, HEED_abs, HEED_sign, HEED_square, HEED_sqrt, HEED_reciprocal, HEED_relu,
    HEED_leaky_relu, HEED_hardtanh, HEED_floor, HEED_ceil, HEED_round, HEED_trunc, HEED_add,
    HEED_sub, HEED_mul, HEED_div, HEED_floor_divide, HEED_remainder, HEED_fmod, HEED_maximum,
    HEED_minimum, HEED_where, HEED_bound
  };
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (exact[i] == r->op) return true;
  return r->domain == TEST;
}


static heed_type computing (heed_type type) {
  return scalar_is_half(type) ? HEED_FLOAT32 : scalar_is_float(type) ? type : HEED_INT64;
}


static double tolerance_of (const row *r, heed_type type) {
  if (is_exact(r) || !scalar_is_float(type)) return 0;
  return type == HEED_FLOAT64 ? 4e-15 : type == HEED_FLOAT32 ? 1e-6
       : type == HEED_FLOAT16 ? 1e-3 : 8e-3;
}


static void set_numbers (const row *r, double number[2]) {
  number[0] = r->op == HEED_hardtanh ? -1 : r->op == HEED_leaky_relu ? 0.01 : 1;
  number[1] = r->op == HEED_softplus ? 20 : 1;
  if (r->op == HEED_gelu) number[0] = drawn & 1;
}


/* Numbers that the row is defined for. */
static view input (const row *r, heed_type type, int i, int rank, const int64_t *size) {
  bool bools = type == HEED_BOOL || (r->domain == PICK && i == 0);
  if (bools) return filled(HEED_BOOL, rank, size, 0, 2);
  bool power = r->op == HEED_pow;
  bool from_0 = type == HEED_UINT8 || (power && type != HEED_INT64);
  double low = from_0 ? (i == 1 && !power) + 0.0 : -5, high = power ? 4 : 6;
  view v = filled(type, rank, size, low, high);
  bool divides = r->op == HEED_floor_divide || r->op == HEED_remainder || r->op == HEED_fmod;
  for (int64_t k = 0; divides && i == 1 && k < layout_numel(&v.at); k++) {
    void *at = (char *)v.data + k * scalar_sizes[type];
    if (scalar_double(scalar_load(type, at)) == 0)
      scalar_store(type, at, (scalar){.type = HEED_INT64, .i = 3});
  }
  return v;
}


static view every_second (view v) {
  v.at = layout_narrow(&v.at, 0, 0, v.at.size[0] / 2, 2);
  return v;
}


static void spoil (view *v) {
  static const double ends[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 1e-40, 88, -88, 1e30};
  if (!scalar_is_float(v->type)) return;
  for (int i = 0; i < 11 && i < layout_numel(&v->at); i++)
    scalar_store(v->type, (char *)v->data + i * scalar_sizes[v->type],
                 (scalar){.type = HEED_FLOAT64, .f = ends[i]});
}


static void prepare (const row *r, work *w, heed_type type, int rank, const int64_t *size) {
  work_map(w, r->op, computing(type), r->inputs);
  set_numbers(r, w->map.number);
  w->out[0] = fresh(r->domain == TEST ? HEED_BOOL : type, rank, size);
  for (int i = 0; i < r->inputs; i++) w->in[i] = input(r, type, i, rank, size);
}


static void value (both *b, const row *r, heed_type type) {
  char name[80];
  work w;
  double tolerance = tolerance_of(r, type);
  snprintf(name, sizeof name, "%s of %s", r->name, scalar_names[type]);
  prepare(r, &w, type, 1, SIZES(1037));
  spoil(&w.in[0]);
  same(b, name, &w, tolerance);
  snprintf(name, sizeof name, "%s of %s, transposed", r->name, scalar_names[type]);
  prepare(r, &w, type, 2, SIZES(23, 23));
  w.in[0].at = layout_transpose(&w.in[0].at, 0, 1);
  if (r->inputs > 1) { w.in[1].at.stride[0] = 0; w.in[r->inputs - 1].at.stride[1] = 0; }
  same(b, name, &w, tolerance);
  snprintf(name, sizeof name, "%s of %s, one step", r->name, scalar_names[type]);
  for (int i = 0; i <= r->inputs; i++) {
    prepare(r, &w, type, 1, SIZES(203));
    if (i == r->inputs) w.out[0] = every_second(fresh(w.out[0].type, 1, SIZES(406)));
    else w.in[i] = every_second(input(r, type, i, 1, SIZES(406)));
    same(b, name, &w, tolerance);
  }
  snprintf(name, sizeof name, "%s of %s, a number", r->name, scalar_names[type]);
  prepare(r, &w, type, 1, SIZES(50));
  w.in[r->inputs - 1] = view_number((scalar){.type = HEED_INT64, .i = 2});
  same(b, name, &w, tolerance);
}


static bool suits (const row *r, heed_type type) {
  if (r->domain == FLT) return scalar_is_float(type);
  return r->domain != NUM || type != HEED_BOOL;
}


static void derivatives (both *b, const row *r, heed_type type) {
  for (int which = 0; which < r->inputs; which++) {
    char name[80];
    work value, w;
    snprintf(name, sizeof name, "derivative %d of %s of %s", which, r->name, scalar_names[type]);
    prepare(r, &value, type, 2, SIZES(30, 11));
    b->cpu->run(b->cpu, &value);
    work_derivative(&w, r->op, computing(type), which);
    set_numbers(r, w.derivative.number);
    w.out[0] = fresh(type, 2, SIZES(30, 11));
    w.in[DERIVATIVE_G] = filled(type, 2, SIZES(30, 11), -1, 1);
    for (int i = 0; i < 3; i++)
      w.in[DERIVATIVE_A + i] = i < r->inputs ? value.in[i] : view_none();
    w.in[DERIVATIVE_Y] = r->domain == TEST ? view_none() : value.out[0];
    double tolerance = tolerance_of(r, type);
    same(b, name, &w, tolerance > 0 ? 4 * tolerance : scalar_is_half(type) ? 8e-3 : 1e-6);
  }
}


static void mixed (both *b) {
  work w;
  const row *add = rows;
  while (add->op != HEED_add) add++;
  for (heed_type type = 0; type < HEED_NTYPES; type++) {
    prepare(add, &w, HEED_FLOAT32, 1, SIZES(77));
    w.in[1] = filled(type, 1, SIZES(77), 0, 2);
    same(b, "add of two types", &w, 0);
  }
  prepare(add, &w, HEED_FLOAT32, 1, SIZES(0));
  same(b, "add of nothing", &w, 0);
  prepare(add, &w, HEED_FLOAT32, 0, SIZES(0));
  same(b, "add of one", &w, 0);
  prepare(add, &w, HEED_FLOAT32, 1, SIZES(400));
  w.out[0] = w.in[0];
  same(b, "add in place", &w, 0);
}


/* A division of integers by 0 is reported asynchronously, with its position. */
static void refusals (both *b) {
  work w;
  const row *divide = rows;
  while (divide->op != HEED_remainder) divide++;
  prepare(divide, &w, HEED_INT64, 1, SIZES(5000));
  ((int64_t *)w.in[1].data)[4000] = ((int64_t *)w.in[1].data)[1234] = 0;
  same(b, "remainder by 0", &w, 0);
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (size_t i = 0; i < ROWS; i++)
    for (heed_type type = 0; type < HEED_NTYPES; type++) {
      if (suits(&rows[i], type)) value(&b, &rows[i], type);
      if (scalar_is_float(type)) derivatives(&b, &rows[i], type);
    }
  mixed(&b);
  refusals(&b);
  return both_close(&b);
}
