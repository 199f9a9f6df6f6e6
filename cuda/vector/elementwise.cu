/*
** elementwise.cu - elementwise work: makes the jobs for the kernels of map_*.cu and
** derivative_*.cu.
*/

#include "cuda/vector/elementwise.h"


/*
** {==================================================================
** Operands
** ===================================================================
*/

static bool is_number (const view *v) { return v->data == NULL; }


static void set_number (operand *o, heed_type as, scalar value) {
  o->kind = OPERAND_NUMBER;
  if (as == HEED_FLOAT64) o->f = scalar_double(value);
  else if (as == HEED_INT64) scalar_store(HEED_INT64, &o->i, value);
  else {
    float single;
    scalar_store(HEED_FLOAT32, &single, value);
    o->f = single;
  }
}


/* May four elements be read at once from anywhere that is a multiple of four? */
static bool is_aligned (const operand *o) {
  bool known = o->type == HEED_FLOAT32 || scalar_is_half(o->type);
  return known && (uintptr_t)o->data % (AT_ONCE * scalar_sizes[o->type]) == 0;
}


/* After fusing, rank 1 with stride 1 is dense, with stride 0 one element for all. */
static void set_kind (operand *o, const layout *at) {
  int64_t stride = at->rank == 0 ? 1 : at->stride[0];
  o->kind = at->rank > 1 || (stride != 0 && stride != 1) ? OPERAND_STRIDED
          : stride == 1 ? OPERAND_DENSE : OPERAND_SPLAT;
  for (int i = 0; i < at->rank; i++) o->stride[i] = at->stride[i];
}


/* Can the kernel read and write four elements at once? */
static bool all_by_fours (const job *j, int n) {
  const operand *y = &j->at[0];
  bool output = y->type == HEED_BOOL ? (uintptr_t)y->data % AT_ONCE == 0 : is_aligned(y);
  if (y->kind != OPERAND_DENSE || !output) return false;
  for (int i = 1; i < n; i++) {
    const operand *x = &j->at[i];
    if (x->kind == OPERAND_STRIDED || (x->kind == OPERAND_DENSE && !is_aligned(x))) return false;
  }
  return true;
}


/* views[0] is the output; one that is NULL or none is the number 0: the row does not need it. */
static void set_operands (job *j, heed_type as, int n, const view *const *views) {
  layout copies[OPERANDS], *fused[OPERANDS] = {NULL};
  int nfused = 0;
  for (int i = 0; i < n; i++) {
    operand *o = &j->at[i];
    *o = operand();
    if (views[i] == NULL || view_is_none(views[i])) continue;
    o->data = views[i]->data;
    o->type = views[i]->type;
    if (is_number(views[i])) { set_number(o, as, views[i]->value); continue; }
    o->kind = OPERAND_DENSE;
    copies[nfused] = views[i]->at;
    fused[nfused] = &copies[nfused];
    nfused++;
  }
  layout_fuse(fused, nfused);
  int at = 0;
  for (int i = 0; i < n; i++)
    if (j->at[i].kind != OPERAND_NUMBER) set_kind(&j->at[i], &copies[at++]);
  j->n = layout_numel(&copies[0]);
  j->small = j->n < 1ll << 31;
  j->rank = copies[0].rank;
  for (int i = 0; i < j->rank; i++) {
    j->size[i] = copies[0].size[i];
    j->by[i] = divisor_of(copies[0].size[i]);
  }
}


static void begin (cuda *self, job *j, const double *number, heed_type as, int n,
                   const view *const *views) {
  set_operands(j, as, n, views);
  j->dense = as == HEED_FLOAT32 && all_by_fours(j, n);
  j->p = number[0];
  j->q = number[1];
  j->faults = cuda_faults(self);
}

/* }================================================================== */


static heed_type computed (heed_type type) {
  return scalar_is_half(type) ? HEED_FLOAT32 : scalar_is_float(type) ? type : HEED_INT64;
}


const char *cuda_map (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  heed_type as = computed(w->map.type);
  const view *views[OPERANDS] = {&w->out[0]};
  job j;
  for (int i = 0; i < w->nin; i++) views[1 + i] = &w->in[i];
  begin(self, &j, w->map.number, as, 1 + w->nin, views);
  return as == HEED_FLOAT32 ? map_float(self, w->op, &j)
       : as == HEED_FLOAT64 ? map_double(self, w->op, &j) : map_integer(self, w->op, &j);
}


const char *cuda_derivative (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  heed_type as = computed(w->derivative.type);
  const view *views[OPERANDS] = {&w->out[0]};
  job j;
  for (int i = 0; i < DERIVATIVE_INS; i++) views[1 + i] = i < w->nin ? &w->in[i] : NULL;
  begin(self, &j, w->derivative.number, as, OPERANDS, views);
  int which = w->derivative.which;
  return as == HEED_FLOAT64 ? derivative_double(self, w->op, which, &j)
                            : derivative_float(self, w->op, which, &j);
}
