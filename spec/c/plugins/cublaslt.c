/*
** cublaslt.c - a stand-in for cuBLASLt, for the emulated GPU: products of column-major matrices of
** float32 and float64, in the stream. The stand-in adds no bias to float64. If HEED_STAND_IN is
** "refuse", all work is refused; if "bias", what adds no bias; if "old", a file named after CUDA 13
** can't be used here.
*/

#define _GNU_SOURCE                /* RTLD_NOLOAD */

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FINE 0
#define NOT_SUPPORTED 15

typedef struct matrix {
  int type;                        /* 0: float32, 1: float64 */
  uint64_t rows, columns;
  int64_t step;
  int32_t batches;
  int64_t batch_step;
} matrix;

typedef struct product {
  int32_t transpose_a, transpose_b, epilogue;
  const void *bias;
} product;

typedef struct call {              /* of a product, as it waits in the stream */
  product p;
  double alpha, beta;
  matrix at[4];                    /* a, b, c, d */
  const void *a, *b, *c;
  void *d;
} call;

/* The functions of the library that heed uses; the library declares them with other types. */
#define FUNCTION(name, ...) EXPORT int cublasLt##name (__VA_ARGS__); \
  int cublasLt##name (__VA_ARGS__)

EXPORT size_t cublasLtGetVersion (void);
size_t cublasLtGetVersion (void) { return 130100; }

static int make (void **at, size_t bytes) {
  *at = calloc(1, bytes);
  return *at != NULL ? FINE : NOT_SUPPORTED;
}

static int drop (void *at) { free(at); return FINE; }

/* The name of this file, as it was opened. */
static const char *own_name (void) {
  Dl_info own;
  return dladdr(cublasLtGetVersion, &own) != 0 ? own.dli_fname : "";
}

static bool asked_for (const char *what) {
  const char *given = getenv("HEED_STAND_IN");
  return given != NULL && strcmp(given, what) == 0;
}

FUNCTION(Create, void **h) {
  const char *name = own_name();
  const size_t n = strlen(name);
  return asked_for("old") && n > 3 && strcmp(name + n - 3, ".13") == 0 ? 1 : make(h, 1);
}
FUNCTION(Destroy, void *h) { return drop(h); }
FUNCTION(MatmulPreferenceCreate, void **p) { return make(p, 1); }
FUNCTION(MatmulPreferenceDestroy, void *p) { return drop(p); }
FUNCTION(MatmulDescDestroy, void *d) { return drop(d); }
FUNCTION(MatrixLayoutDestroy, void *m) { return drop(m); }

FUNCTION(MatmulPreferenceSetAttribute, void *p, int what, const void *value, size_t bytes) {
  (void)p, (void)what, (void)value, (void)bytes;
  return FINE;
}

FUNCTION(MatmulDescCreate, void **d, int compute, int scale) {
  (void)compute, (void)scale;
  return make(d, sizeof(product));
}

FUNCTION(MatmulDescSetAttribute, void *d, int what, const void *value, size_t bytes) {
  product *p = d;
  void *const field[] = {[3] = &p->transpose_a, &p->transpose_b, [7] = &p->epilogue, &p->bias};
  memcpy(field[what], value, bytes);
  return FINE;
}

FUNCTION(MatrixLayoutCreate, void **at, int type, uint64_t rows, uint64_t columns, int64_t step) {
  if (make(at, sizeof(matrix)) != FINE) return NOT_SUPPORTED;
  *(matrix *)*at = (matrix){type, rows, columns, step, 1, 0};
  return FINE;
}

FUNCTION(MatrixLayoutSetAttribute, void *at, int what, const void *value, size_t bytes) {
  matrix *m = at;
  memcpy(what == 5 ? (void *)&m->batches : &m->batch_step, value, bytes);
  return FINE;
}

FUNCTION(MatmulAlgoGetHeuristic, void *h, void *desc, void *a, void *b, void *c, void *d,
         void *preference, int wanted, void *found, int *nfound) {
  const matrix *m = d;
  const product *p = desc;
  (void)h, (void)a, (void)b, (void)c, (void)preference, (void)wanted;
  *nfound = m->type <= 1 && !(m->type == 1 && p->epilogue != 0) && !asked_for("refuse") &&
            (p->epilogue != 0 ? p->bias != NULL : !asked_for("bias"));
  memset(found, 0, 96);
  return *nfound > 0 ? FINE : NOT_SUPPORTED;
}


static double get (const matrix *m, const void *data, int64_t batch, uint64_t i, uint64_t j) {
  int64_t at = batch * m->batch_step + (int64_t)j * m->step + (int64_t)i;
  return m->type == 1 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

static void put (const matrix *m, void *data, int64_t batch, uint64_t i, uint64_t j, double x) {
  int64_t at = batch * m->batch_step + (int64_t)j * m->step + (int64_t)i;
  if (m->type == 1) ((double *)data)[at] = x;
  else ((float *)data)[at] = (float)x;
}

static double element (const call *c, int64_t batch, uint64_t i, uint64_t j) {
  const bool ta = c->p.transpose_a, tb = c->p.transpose_b;
  const uint64_t depth = ta ? c->at[0].rows : c->at[0].columns;
  double sum = 0;
  for (uint64_t k = 0; k < depth; k++)
    sum += get(&c->at[0], c->a, batch, ta ? k : i, ta ? i : k) *
           get(&c->at[1], c->b, batch, tb ? j : k, tb ? k : j);
  sum *= c->alpha;
  if (c->beta != 0) sum += c->beta * get(&c->at[2], c->c, batch, i, j);
  return c->p.epilogue != 0 ? sum + ((const float *)c->p.bias)[i] : sum;
}

static void run (void *self) {
  const call *c = self;
  const matrix *d = &c->at[3];
  for (int64_t batch = 0; batch < d->batches; batch++)
    for (uint64_t j = 0; j < d->columns; j++)
      for (uint64_t i = 0; i < d->rows; i++) put(d, c->d, batch, i, j, element(c, batch, i, j));
}

FUNCTION(Matmul, void *h, void *desc, const void *alpha, const void *a, void *a_at, const void *b,
         void *b_at, const void *beta, const void *c, void *c_at, void *d, void *d_at,
         const void *algo, void *workspace, size_t bytes, void *stream) {
  void *object = dlopen(getenv("HEED_CUDA"), RTLD_NOW | RTLD_NOLOAD);
  int (*enqueue) (void *, void (*) (void *), void *) =
      object != NULL ? (int (*) (void *, void (*) (void *), void *))(uintptr_t)
                       dlsym(object, "emulated_enqueue") : NULL;
  call *x = calloc(1, sizeof *x);
  (void)h, (void)algo, (void)workspace, (void)bytes;
  if (x == NULL || enqueue == NULL) return free(x), NOT_SUPPORTED;
  const bool wide = ((matrix *)d_at)->type == 1;
  *x = (call){*(product *)desc, wide ? *(const double *)alpha : *(const float *)alpha,
              wide ? *(const double *)beta : *(const float *)beta,
              {*(matrix *)a_at, *(matrix *)b_at, *(matrix *)c_at, *(matrix *)d_at}, a, b, c, d};
  return enqueue(stream, run, x);
}
