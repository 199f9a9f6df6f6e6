/*
** elementwise.cu - elementwise work: what a kernel of map_*.cu or derivative_*.cu is asked to do.
*/

#include "cuda/elementwise.h"


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
  return known && (uintptr_t)o->data % (EACH * scalar_sizes[o->type]) == 0;
}


/* After fusing, rank 1 with stride 1 is dense, with stride 0 one element for all. */
static void set_kind (operand *o, const layout *at) {
  int64_t stride = at->rank == 0 ? 1 : at->stride[0];
  o->kind = at->rank > 1 || (stride != 0 && stride != 1) ? OPERAND_STRIDED
          : stride == 1 ? OPERAND_DENSE : OPERAND_SPLAT;
  for (int i = 0; i < at->rank; i++) o->stride[i] = at->stride[i];
}


/* Can the kernel go by fours? */
static bool goes_by_fours (const job *j, int n) {
  const operand *y = &j->at[0];
  bool output = y->type == HEED_BOOL ? (uintptr_t)y->data % EACH == 0 : is_aligned(y);
  if (y->kind != OPERAND_DENSE || !output) return false;
  for (int i = 1; i < n; i++) {
    const operand *x = &j->at[i];
    if (x->kind == OPERAND_STRIDED || (x->kind == OPERAND_DENSE && !is_aligned(x))) return false;
  }
  return true;
}


/* views[0] is the output; NULL or rank -1: the row does not look at it. */
static void set_operands (job *j, heed_type as, int n, const view *const *views) {
  layout copies[OPERANDS], *fused[OPERANDS] = {NULL};
  int nfused = 0;
  for (int i = 0; i < n; i++) {
    operand *o = &j->at[i];
    *o = operand();
    if (views[i] == NULL || views[i]->at.rank < 0) continue;
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


static void begin (cuda *self, job *j, const work *w, heed_type as, int n,
                   const view *const *views) {
  set_operands(j, as, n, views);
  j->dense = as == HEED_FLOAT32 && goes_by_fours(j, n);
  j->p = w->number[0];
  j->q = w->number[1];
  j->faults = cuda_faults(self);
}

/* }================================================================== */


static heed_type computed (heed_type type) {
  return scalar_is_half(type) ? HEED_FLOAT32 : scalar_is_float(type) ? type : HEED_INT64;
}


/* Powers that have a quicker name. */
static int quicker (const work *w, heed_type as) {
  const view *power = &w->in[1];
  if (w->op != HEED_pow || as == HEED_INT64 || !is_number(power)) return w->op;
  double y = scalar_double(power->value);
  return y == 2 ? HEED_square : y == 0.5 ? HEED_sqrt : y == -0.5 ? HEED_rsqrt
       : y == -1 ? HEED_reciprocal : HEED_pow;
}


/* An input rounded to 'type' first: a number at once, a tensor through a dense copy. */
static const char *round_input (cuda *self, view *v, heed_type type, const layout *shape) {
  if (v->type == type && v->data != NULL) return NULL;
  if (is_number(v)) {
    char item[8];
    scalar_store(type, item, v->value);
    v->value = scalar_load(type, item);
    return NULL;
  }
  work copy;
  copy.kind = WORK_COPY;
  copy.nout = copy.nin = 1;
  copy.count[0] = 0;
  copy.in[0] = *v;
  copy.out[0].type = type;
  layout_dense(&copy.out[0].at, shape->rank, shape->size);
  copy.out[0].data = cuda_scratch(self, (size_t)layout_numel(shape) * scalar_sizes[type]);
  if (copy.out[0].data == NULL) return cuda_no_memory;
  *v = copy.out[0];
  return cuda_copy(self, &copy);
}


static const char *map_rounded (cuda *self, const work *w) {
  work rounded = *w;
  const char *why = NULL;
  rounded.count[1] = 0;
  for (int i = 0; i < w->nin && why == NULL; i++)
    why = round_input(self, &rounded.in[i], (heed_type)w->count[0], &w->out[0].at);
  return why != NULL ? why : cuda_map(self, &rounded);
}


const char *cuda_map (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  if (w->count[1]) return map_rounded(self, w);
  heed_type as = computed((heed_type)w->count[0]);
  const view *views[OPERANDS] = {&w->out[0]};
  int op = quicker(w, as), nin = op == w->op ? w->nin : 1;
  job j;
  for (int i = 0; i < nin; i++) views[1 + i] = &w->in[i];
  begin(self, &j, w, as, 1 + nin, views);
  return as == HEED_FLOAT32 ? map_float(self, op, &j)
       : as == HEED_FLOAT64 ? map_double(self, op, &j) : map_integer(self, op, &j);
}


/* What the row does not need is the number 0. */
const char *cuda_derivative (cuda *self, const work *w) {
  if (layout_numel(&w->out[0].at) == 0) return NULL;
  heed_type as = computed((heed_type)w->count[0]);
  const view *views[OPERANDS] = {&w->out[0]};
  job j;
  for (int i = 0; i < OPERANDS - 1; i++) views[1 + i] = i < w->nin ? &w->in[i] : NULL;
  begin(self, &j, w, as, OPERANDS, views);
  int which = (int)w->count[1];
  return as == HEED_FLOAT64 ? derivative_double(self, w->op, which, &j)
                            : derivative_float(self, w->op, which, &j);
}
