/*
** cublas.cu - matrix products by cuBLASLt, opened when a device multiplies for the first time.
**
** This file declares the numbers and signatures that it uses, which CUDA 12's and 13's libraries
** share. A product goes to the library if each matrix has an axis of stride 1; the library's
** matrices are column-major, so that it computes c^T = b^T a^T. An algorithm is chosen once for a
** shape and kept. Sums whose order could change from run to run are not allowed.
*/

#include "cuda/product/cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#ifdef __CUDACC__
#define LIBRARY "libcublasLt.so."
#else
#define LIBRARY "libcublasLt_emulated.so."     /* a stand-in, where tests have one */
#endif

static const char *const libraries[] = {LIBRARY "13", LIBRARY "12"};     /* the best first */
#define LIBRARIES ((int)(sizeof libraries / sizeof *libraries))

#ifndef HEED_TOOLKIT
#define HEED_TOOLKIT ""            /* the Makefile's: the folder of nvcc's toolkit */
#endif

#define WORKSPACE ((size_t)32 << 20)           /* most bytes that an algorithm may use */
#define PLANS 512                              /* that are kept */
#define BIAS_ALIGNED 16                        /* bytes, for which no preference asks */


/*
** {==================================================================
** The library
** ===================================================================
*/

enum {                             /* its numbers */
  TYPE_32F = 0, TYPE_64F = 1, TYPE_16F = 2, TYPE_16BF = 14,
  COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_BFLOAT = 75, COMPUTE_TF32 = 77,
  LAYOUT_BATCHES = 5, LAYOUT_BATCH_STRIDE = 6,
  DESC_TRANSPOSE_A = 3, DESC_TRANSPOSE_B = 4, DESC_EPILOGUE = 7, DESC_BIAS = 8,
  EPILOGUE_BIAS = 4,
  PREFER_WORKSPACE = 1, PREFER_REDUCTION = 3, PREFER_ALIGNED_A = 5,
  REDUCTION_COMPUTE = 2            /* parts of a sum are added in a fixed order */
};

typedef struct algorithm {         /* cublasLtMatmulHeuristicResult_t */
  uint64_t algo[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} algorithm;

typedef struct library {
  int (*create) (void **handle);
  int (*destroy) (void *handle);
  int (*desc_create) (void **desc, int compute, int scale);
  int (*desc_destroy) (void *desc);
  int (*desc_set) (void *desc, int what, const void *value, size_t bytes);
  int (*layout_create) (void **at, int type, uint64_t rows, uint64_t columns, int64_t step);
  int (*layout_destroy) (void *at);
  int (*layout_set) (void *at, int what, const void *value, size_t bytes);
  int (*prefer_create) (void **preference);
  int (*prefer_destroy) (void *preference);
  int (*prefer_set) (void *preference, int what, const void *value, size_t bytes);
  int (*choose) (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                 int wanted, algorithm *found, int *nfound);
  int (*multiply) (void *handle, void *desc, const void *alpha, const void *a, void *a_at,
                   const void *b, void *b_at, const void *beta, const void *c, void *c_at,
                   void *d, void *d_at, const void *algo, void *workspace, size_t bytes,
                   cuda_stream stream);
} library;

static const char *const names[] = {     /* in the order of 'library' */
  "Create", "Destroy", "MatmulDescCreate", "MatmulDescDestroy", "MatmulDescSetAttribute",
  "MatrixLayoutCreate", "MatrixLayoutDestroy", "MatrixLayoutSetAttribute",
  "MatmulPreferenceCreate", "MatmulPreferenceDestroy", "MatmulPreferenceSetAttribute",
  "MatmulAlgoGetHeuristic", "Matmul"
};


/* Bytes of the text that names the library, or says why there is none. */
#define TEXT 384

static bool refuse_library (char *text, const char *path, const char *why) {
  snprintf(text, TEXT, "heed's own kernels: %.150s%s%.150s", path, *path != '\0' ? ": " : "", why);
  return false;
}


static bool read_functions (library *to, void *opened, const char *path, char *text) {
  void *found[sizeof names / sizeof *names];
  static_assert(sizeof found == sizeof *to, "a name for each function");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[64] = "cublasLt";
    strcat(name, names[i]);
    if ((found[i] = dlsym(opened, name)) == NULL)
      return refuse_library(text, path, "it lacks a function");
  }
  memcpy(to, found, sizeof found);
  Dl_info object;
  bool known = dladdr(found[0], &object) != 0 && object.dli_fname != NULL;
  size_t (*version) (void);
  void *address = dlsym(opened, "cublasLtGetVersion");
  memcpy(&version, &address, sizeof version);
  snprintf(text, TEXT, "cuBLASLt %zu: %.300s", version != NULL ? version() : (size_t)0,
           known ? object.dli_fname : path);
  return true;
}


/* Opens the library of this name in the folder 'at', or 'at' itself if that is a file. The library
   is never closed: the host may use it too. */
static bool open_library (library *to, const char *name, const char *at, const char *below,
                          char *text) {
  char path[4096];
  struct stat s;
  const bool folder = stat(at, &s) == 0 && S_ISDIR(s.st_mode);
  const int n = folder ? snprintf(path, sizeof path, "%s%s/%s", at, below, name)
                       : snprintf(path, sizeof path, "%s", at);
  if (n >= (int)sizeof path) return refuse_library(text, at, "its name is too long");
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return opened != NULL ? read_functions(to, opened, path, text)
                        : refuse_library(text, "", dlerror());
}


/* Where HEED_CUBLASLT says, and only there; else where programs find libraries, or the toolkit. */
static bool find_named (library *to, const char *name, char *text) {
  char other[TEXT];
  const char *given = getenv("HEED_CUBLASLT");
  if (given != NULL && *given != '\0') return open_library(to, name, given, "", text);
  if (open_library(to, name, name, "", text)) return true;
  const char *const toolkits[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), HEED_TOOLKIT};
  for (const char *toolkit : toolkits)
    if (toolkit != NULL && *toolkit != '\0' && open_library(to, name, toolkit, "/lib64", other)) {
      memcpy(text, other, TEXT);
      return true;
    }
  return false;
}


/* The first that is found and, where a handle is asked for, that works here: a library may be too
   new for the driver. The text is about the one that is used, or else about the best. */
static bool find_library (library *to, void **handle, char *text) {
  for (int i = 0; i < LIBRARIES; i++) {
    char other[TEXT];
    bool found = find_named(to, libraries[i], other);
    const int code = found && handle != NULL ? to->create(handle) : 0;
    if (code != 0) {
      char why[64];
      snprintf(why, sizeof why, "it can't be used here, code %d", code);
      found = refuse_library(other, libraries[i], why);
    }
    if (found || i == 0 || code != 0) memcpy(text, other, TEXT);
    if (found) return true;
  }
  return false;
}

/* }================================================================== */


/*
** {==================================================================
** A product as the library describes it: column-major
** ===================================================================
*/

typedef struct matrix {
  uint64_t rows, columns;
  int64_t step, batch;             /* elements to the next column, and matrix */
  int transposed;
} matrix;

typedef struct product {           /* cleared first: plans are found by its bytes */
  int64_t type, compute, batches;
  int64_t biased;                  /* the addend is a bias, for all columns of c */
  int64_t added;                   /* c itself, or the addend instead of it, is added */
  int64_t alignment[4];            /* bytes: of a, b, what is added, c */
  matrix a, b, d, c;
} product;

typedef struct plan {              /* descriptors of a product, and the algorithm chosen */
  product key;
  bool good;
  void *desc, *at[4];              /* of a, b, c and d */
  algorithm how;
} plan;

typedef struct cublas {            /* self->products */
  bool available;
  char text[TEXT];                 /* see find_library */
  int64_t products, left;          /* asked of it so far; those that it did not do */
  library call;
  void *handle;
  plan *plans[PLANS];
} cublas;


/* A stride of an axis of size 1 may be anything. */
static bool set_matrix (matrix *m, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  const bool along = column == 1 || columns == 1;        /* its rows are the library's columns */
  const int64_t wide = along ? columns : rows, high = along ? rows : columns;
  const int64_t step = high == 1 ? wide : along ? row : column;
  m->rows = (uint64_t)wide;
  m->columns = (uint64_t)high;
  m->step = step;
  m->transposed = !along;
  if (along ? columns > 1 && column != 1 : rows > 1 && row != 1) return false;
  return step >= wide && step < INT32_MAX && wide < INT32_MAX && high < INT32_MAX;
}


/* All batch axes as one: false if the matrices are not evenly spaced. */
static bool set_batch (matrix *m, const layout *at) {
  int64_t n = 1, stride = 0;
  for (int i = at->rank - 3; i >= 0; i--) {
    if (at->size[i] == 1) continue;
    if (n > 1 && at->stride[i] != stride * n) return false;
    if (n == 1) stride = at->stride[i];
    n *= at->size[i];
  }
  m->batch = stride;
  return stride >= 0;
}


static bool set_side (matrix *m, const layout *at, bool transposed) {
  const int r = at->rank - 2;
  const int rows = transposed ? r + 1 : r, columns = transposed ? r : r + 1;
  return set_batch(m, at) &&
         set_matrix(m, at->size[rows], at->size[columns], at->stride[rows], at->stride[columns]);
}


static int64_t alignment_of (const void *data) {
  const uintptr_t at = (uintptr_t)data;
  return (int64_t)(at % 256 == 0 ? 256 : at & (0 - at));
}


static int compute_of (const cuda *self, heed_type type) {
  if (type == HEED_FLOAT64) return COMPUTE_64F;
  if (type != HEED_FLOAT32 || self->precision == 0) return COMPUTE_32F;
  return self->precision == 1 ? COMPUTE_TF32 : COMPUTE_BFLOAT;
}


static int type_of (heed_type type) {
  return type == HEED_FLOAT64 ? TYPE_64F : type == HEED_FLOAT32 ? TYPE_32F
         : type == HEED_FLOAT16 ? TYPE_16F : TYPE_16BF;
}


/* A row for all rows of c is a bias; a matrix of c's shape is added instead of c. */
static bool set_addend (product *p, const work *w, bool transposed) {
  const layout *out = &w->out[0].at, *at = &w->in[MATMUL_ADDEND].at;
  const int last = out->rank - 1;
  layout wide = *out;
  bool row = true, full = true;
  if (w->nin <= MATMUL_ADDEND) return true;
  for (int i = 0, lacks = out->rank - at->rank; i <= last; i++) {
    wide.stride[i] = i >= lacks && at->size[i - lacks] != 1 ? at->stride[i - lacks] : 0;
    if (i < last) row &= wide.stride[i] == 0 || out->size[i] == 1;
    full &= wide.stride[i] != 0 || out->size[i] == 1;
  }
  p->biased = row && !transposed && wide.stride[last] == 1 && out->size[last] > 1 &&
              alignment_of(w->in[MATMUL_ADDEND].data) >= BIAS_ALIGNED;
  if (p->biased) return true;
  if (!full || p->added) return false;        /* c itself is added already */
  p->added = 1;
  p->alignment[2] = alignment_of(w->in[MATMUL_ADDEND].data);
  return set_side(&p->c, &wide, transposed) && !p->c.transposed;
}


/* Is this a product for the library? If *transposed, of a b: then c's columns have stride 1. */
static bool set_product (const cuda *self, product *p, const work *w, bool *transposed) {
  const layout *out = &w->out[0].at;
  const heed_type type = w->out[0].type;
  if (!scalar_is_float(type) || w->in[MATMUL_A].at.size[out->rank - 1] == 0) return false;
  for (int i = 0; i < w->nin; i++)
    if (w->in[i].type != type || w->in[i].data == NULL) return false;
  memset(p, 0, sizeof *p);
  *transposed = out->stride[out->rank - 1] != 1 && out->size[out->rank - 1] != 1;
  const view *a = &w->in[*transposed ? MATMUL_A : MATMUL_B];
  const view *b = &w->in[*transposed ? MATMUL_B : MATMUL_A];
  p->type = type;
  p->compute = compute_of(self, type);
  p->batches = 1;
  for (int i = 0; i < out->rank - 2; i++) p->batches *= out->size[i];
  p->added = w->matmul.accumulate;
  p->alignment[0] = alignment_of(a->data);
  p->alignment[1] = alignment_of(b->data);
  p->alignment[2] = p->alignment[3] = alignment_of(w->out[0].data);
  if (!set_side(&p->a, &a->at, *transposed) || !set_side(&p->b, &b->at, *transposed)) return false;
  if (!set_side(&p->d, out, *transposed) || p->d.transposed) return false;
  if (p->batches > 1 && p->d.batch == 0) return false;
  p->c = p->d;
  return p->batches < INT32_MAX && set_addend(p, w, *transposed);
}

/* }================================================================== */


/*
** {==================================================================
** Plans
** ===================================================================
*/

static void drop_plan (const library *l, plan *p) {
  for (int i = 0; i < 4; i++)
    if (p->at[i] != NULL) l->layout_destroy(p->at[i]);
  if (p->desc != NULL) l->desc_destroy(p->desc);
  free(p);
}


static bool describe_matrix (const library *l, void **at, const product *p, const matrix *m) {
  const int32_t batches = (int32_t)p->batches;
  return l->layout_create(at, type_of((heed_type)p->type), m->rows, m->columns, m->step) == 0 &&
         (batches == 1 ||
          (l->layout_set(*at, LAYOUT_BATCHES, &batches, sizeof batches) == 0 &&
           l->layout_set(*at, LAYOUT_BATCH_STRIDE, &m->batch, sizeof m->batch) == 0));
}


static bool describe (const library *l, plan *x) {
  const product *p = &x->key;
  const int32_t a = p->a.transposed, b = p->b.transposed, epilogue = EPILOGUE_BIAS;
  const matrix *m[4] = {&p->a, &p->b, &p->c, &p->d};
  for (int i = 0; i < 4; i++)
    if (!describe_matrix(l, &x->at[i], p, m[i])) return false;
  return l->desc_create(&x->desc, (int)p->compute,
                        p->type == HEED_FLOAT64 ? TYPE_64F : TYPE_32F) == 0 &&
         l->desc_set(x->desc, DESC_TRANSPOSE_A, &a, sizeof a) == 0 &&
         l->desc_set(x->desc, DESC_TRANSPOSE_B, &b, sizeof b) == 0 &&
         (!p->biased || l->desc_set(x->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue) == 0);
}


/* The bias decides which algorithms there are, too: a pointer that is not set counts as none. */
static bool choose (const cublas *c, plan *x, const void *bias, void *preference) {
  const library *l = &c->call;
  const uint64_t most = WORKSPACE;
  const uint32_t reduction = REDUCTION_COMPUTE;
  int n = 0;
  bool good = l->prefer_set(preference, PREFER_WORKSPACE, &most, sizeof most) == 0 &&
              l->prefer_set(preference, PREFER_REDUCTION, &reduction, sizeof reduction) == 0 &&
              (bias == NULL || l->desc_set(x->desc, DESC_BIAS, &bias, sizeof bias) == 0);
  for (int i = 0; i < 4; i++) {
    const uint32_t bytes = (uint32_t)x->key.alignment[i];
    good = good && l->prefer_set(preference, PREFER_ALIGNED_A + i, &bytes, sizeof bytes) == 0;
  }
  return good && l->choose(c->handle, x->desc, x->at[0], x->at[1], x->at[2], x->at[3], preference,
                           1, &x->how, &n) == 0 && n > 0 && x->how.state == 0;
}


static plan *new_plan (const cublas *c, const product *p, const void *bias) {
  plan *x = (plan *)calloc(1, sizeof *x);
  void *preference = NULL;
  if (x == NULL) return NULL;
  x->key = *p;
  if (c->call.prefer_create(&preference) == 0) {
    x->good = describe(&c->call, x) && choose(c, x, bias, preference);
    c->call.prefer_destroy(preference);
  }
  return x;
}


/* The plan of a product, made if it is new: then it replaces one with the same hash. */
static const plan *plan_of (cublas *c, const product *p, const void *bias) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < sizeof *p; i++) hash = (hash ^ ((const uint8_t *)p)[i]) * 1099511628211u;
  plan **at = &c->plans[(hash ^ hash >> 32) % PLANS];
  if (*at != NULL && memcmp(&(*at)->key, p, sizeof *p) == 0) return *at;
  if (*at != NULL) drop_plan(&c->call, *at);
  return *at = new_plan(c, p, bias);
}

/* }================================================================== */


/*
** {==================================================================
** Products
** ===================================================================
*/

/* Opened at the first product. */
static cublas *cublas_of (cuda *self) {
  if (self->products == NULL) {
    cublas *c = (cublas *)calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->available = find_library(&c->call, &c->handle, c->text);
    self->products = c;
  }
  return (cublas *)self->products;
}


void cuda_products_close (cuda *self) {
  cublas *c = (cublas *)self->products;
  if (c == NULL) return;
  for (int i = 0; i < PLANS; i++)
    if (c->plans[i] != NULL) drop_plan(&c->call, c->plans[i]);
  if (c->available) c->call.destroy(c->handle);
  free(c);
  self->products = NULL;
}


void cuda_products_found (char *text, size_t bytes) {
  library call;
  char found[TEXT];
  find_library(&call, NULL, found);
  snprintf(text, bytes, "%s", found);
}


void cuda_products_describe (cuda *self, char *text, size_t bytes) {
  const cublas *c = (const cublas *)self->products;
  if (c == NULL) return;
  const int n = snprintf(text, bytes, "%s", c->text);
  if (c->left > 0 && n < (int)bytes)
    snprintf(text + n, bytes - (size_t)n, "; it refused %lld of %lld products, which heed's own "
             "kernels did", (long long)c->left, (long long)c->products);
}


/* Is there a plan, and was the product done by it? Or *why says why not. */
static bool multiply_by_plan (cuda *self, cublas *c, const product *p, bool transposed,
                              const work *w, const char **why) {
  const void *bias = p->biased ? w->in[MATMUL_ADDEND].data : NULL;
  const plan *x = plan_of(c, p, bias);
  if (x == NULL || !x->good) return false;
  void *workspace = x->how.workspace > 0 ? cuda_scratch(self, x->how.workspace) : NULL;
  if (workspace == NULL && x->how.workspace > 0) { *why = cuda_no_memory; return true; }
  const float one[2] = {(float)w->matmul.alpha, p->added ? 1.0f : 0.0f};
  const double two[2] = {w->matmul.alpha, p->added ? 1.0 : 0.0};
  const bool wide = p->type == HEED_FLOAT64;
  const void *alpha = wide ? (const void *)&two[0] : &one[0];
  const void *beta = wide ? (const void *)&two[1] : &one[1];
  const void *added = p->added && !w->matmul.accumulate ? w->in[MATMUL_ADDEND].data
                                                        : w->out[0].data;
  const view *a = &w->in[transposed ? MATMUL_A : MATMUL_B];
  const view *b = &w->in[transposed ? MATMUL_B : MATMUL_A];
  if (p->biased && c->call.desc_set(x->desc, DESC_BIAS, &bias, sizeof bias) != 0) return false;
  return c->call.multiply(c->handle, x->desc, alpha, a->data, x->at[0], b->data, x->at[1], beta,
                          added, x->at[2], w->out[0].data, x->at[3], x->how.algo, workspace,
                          x->how.workspace, self->stream) == 0;
}


/*
** With a bias that the library does not add, which it may for some types and shapes only: it is
** copied into the output first, and the product is added to that.
*/
static bool multiply_onto_bias (cuda *self, cublas *c, const work *w, const char **why) {
  work onto = *w, fill;
  product p;
  bool transposed;
  view bias = w->in[MATMUL_ADDEND];
  onto.nin = MATMUL_ADDEND;
  onto.matmul.accumulate = true;
  if (!set_product(self, &p, &onto, &transposed)) return false;
  const plan *x = plan_of(c, &p, NULL);
  if (x == NULL || !x->good) return false;
  if (!layout_expand(&bias.at, &w->out[0].at, &bias.at)) return false;
  work_copy(&fill, COPY_APART, w->out[0], bias);
  *why = cuda_run(self, &fill);
  return *why != NULL || multiply_by_plan(self, c, &p, transposed, &onto, why);
}


bool cublas_matmul (cuda *self, const work *w, const char **why) {
  product p;
  bool transposed;
  if (!set_product(self, &p, w, &transposed)) return false;
  cublas *c = cublas_of(self);
  if (c == NULL || !c->available) return false;
  bool done = multiply_by_plan(self, c, &p, transposed, w, why);
  if (!done && p.biased && !p.added) done = multiply_onto_bias(self, c, w, why);
  c->products++;
  c->left += !done;
  return done;
}

/* }================================================================== */
