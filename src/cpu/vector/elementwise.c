/*
** elementwise.c - elementwise work: operands go chunk by chunk to the loops of ops.def.
**
** Where chunks begin depends on the shape alone, so that results do not depend on the number
** of threads.
*/

#include "cpu/copy/iterator.h"

#define CHUNK 1024                 /* most elements of a chunk */
#define OPERANDS 6                 /* most: out, g, a, b, c, y */
#define NEAR_BYTES 16384           /* of a piece's workspace that fits on the stack */

typedef struct feed {
  cpu *self;
  int n;                           /* operands; 0 is the output */
  heed_type as;                    /* what is computed in */
  int64_t numel, chunk;
  bool direct;                     /* all are dense and of type 'as' */
  iterator operand[OPERANDS];
  const work *w;
  void (*loop) (const struct feed *f, int64_t n, void *const *at);
  bool failed;                     /* a piece got no memory */
} feed;


/* Where the loops for a computing type stand in a level's table. */
static int loop_of (heed_type as) { return as == HEED_FLOAT32 ? 0 : as == HEED_FLOAT64 ? 1 : 2; }

static void run_map (const feed *f, int64_t n, void *const *at) {
  f->self->level->map[f->w->op][loop_of(f->as)](n, at[0], at[1], at[2], at[3], f->w->map.number);
}

static void run_derivative (const feed *f, int64_t n, void *const *at) {
  f->self->level->derivative[f->w->op][f->w->derivative.which][f->as == HEED_FLOAT64](
      n, at[0], at[1], at[2], at[3], at[4], at[5], f->w->derivative.number);
}

static void run_copy (const feed *f, int64_t n, void *const *at) {
  memcpy(at[0], at[1], (size_t)n * scalar_sizes[f->as]);
}


/* Bytes of an operand's chunk. */
static size_t part_of (const feed *f) {
  int64_t n = f->numel < f->chunk ? f->numel : f->chunk;
  return ((size_t)n * scalar_sizes[f->as] + 63) & ~(size_t)63;
}


/* Elements from .. from + n - 1; splats are in their workspace already. */
static void run_chunk (const feed *f, int64_t from, int64_t n, char *const *workspace) {
  void *at[OPERANDS] = {NULL};
  at[0] = iterator_target(&f->operand[0], from, n, f->as, workspace[0]);
  for (int i = 1; i < f->n; i++) {
    const iterator *s = &f->operand[i];
    at[i] = s->kind == ITERATOR_SPLAT ? workspace[i]
          : (void *)(uintptr_t)iterator_read(f->self, s, from, n, f->as, workspace[i]);
  }
  f->loop(f, n, at);
  iterator_write(f->self, &f->operand[0], from, n, f->as, at[0]);
}


/* Chunks from .. to - 1, each operand of which has a part of the workspace. */
static void run_chunks (const feed *f, int64_t from, int64_t to, char *base) {
  int64_t longest = f->numel < f->chunk ? f->numel : f->chunk;
  char *workspace[OPERANDS];
  for (int i = 0; i < f->n; i++) workspace[i] = base + (size_t)i * part_of(f);
  for (int i = 1; i < f->n; i++)
    if (f->operand[i].kind == ITERATOR_SPLAT)
      iterator_read(f->self, &f->operand[i], 0, longest, f->as, workspace[i]);
  for (int64_t i = from * f->chunk; i < f->numel && i < to * f->chunk; i += f->chunk)
    run_chunk(f, i, f->numel - i < f->chunk ? f->numel - i : f->chunk, workspace);
}


static void run_piece (void *arg, int64_t from, int64_t to) {
  feed *f = arg;
  _Alignas(64) char near[NEAR_BYTES];
  size_t bytes = (size_t)f->n * part_of(f);
  char *workspace = bytes <= NEAR_BYTES ? near : cpu_scratch(f->self, bytes);
  if (workspace != NULL) run_chunks(f, from, to, workspace);
  else __atomic_store_n(&f->failed, true, __ATOMIC_RELAXED);
  if (workspace != near) cpu_scratch_free(workspace);
}


static void run_direct (void *arg, int64_t from, int64_t to) {
  const feed *f = arg;
  void *at[OPERANDS] = {NULL};
  for (int i = 0; i < f->n; i++)
    at[i] = f->operand[i].data + from * f->chunk * scalar_sizes[f->as];
  int64_t end = to * f->chunk < f->numel ? to * f->chunk : f->numel;
  f->loop(f, end - from * f->chunk, at);
}


/*
** Chunks of complete rows, where an operand has rows (a bias, say): none crosses a row's end. Else
** what fits on the stack.
*/
static int64_t chunk_of (const feed *f) {
  for (int i = 1; i < f->n; i++) {
    const iterator *s = &f->operand[i];
    if (s->kind != ITERATOR_STRIDED) continue;
    int64_t row = s->at.size[s->at.rank - 1];
    if (row <= CHUNK) return row * (CHUNK / row);
    return (row + row / CHUNK) / (row / CHUNK + 1);
  }
  return NEAR_BYTES / (f->n * scalar_sizes[f->as]) & ~(int64_t)63;
}


/* Chunks for a thread: arithmetic is quick, functions are slow. */
static int64_t grain_of (const feed *f) {
  int64_t elements = f->loop != run_copy && f->self->level->map[f->w->op][2] == NULL ? 8192 : 65536;
  return (elements + f->chunk - 1) / f->chunk;
}


static const char *run (feed *f) {
  f->direct = true;
  for (int i = 0; i < f->n; i++)
    f->direct = f->direct && f->operand[i].kind == ITERATOR_DENSE && f->operand[i].type == f->as;
  f->chunk = f->direct ? CHUNK : chunk_of(f);
  int64_t chunks = (f->numel + f->chunk - 1) / f->chunk, grain = grain_of(f);
  pool_piece piece = f->direct ? run_direct : run_piece;
  if (chunks <= grain) piece(f, 0, chunks);
  else pool_run(f->self->pool, chunks, grain, piece, f);
  return f->failed ? cpu_no_memory : NULL;
}


static void begin (feed *f, cpu *self, const work *w, heed_type as) {
  f->self = self;
  f->w = w;
  f->failed = false;
  f->as = scalar_is_half(as) ? HEED_FLOAT32 : scalar_is_float(as) ? as : HEED_INT64;
  f->n = 1;
  f->numel = layout_numel(&w->out[0].at);
  iterator_open(&f->operand[0], &w->out[0], f->as);
}


/*
** {==================================================================
** What integers can't do is refused before anything is written
** ===================================================================
*/

static const char *refuse_zeros (cpu *self, const view *v, int64_t numel) {
  iterator s;
  int64_t workspace[CHUNK];
  iterator_open(&s, v, HEED_INT64);
  for (int64_t from = 0; from < numel; from += CHUNK) {
    if (cpu_stops(self, from / CHUNK, CHUNK)) return cpu_interrupted;
    int64_t n = numel - from < CHUNK ? numel - from : CHUNK;
    const int64_t *x = iterator_read(self, &s, from, n, HEED_INT64, workspace);
    for (int64_t i = 0; i < n; i++)
      if (x[i] == 0)
        return cpu_refuse(self, "division by zero at position %lld", (long long)(from + i) + 1);
  }
  return NULL;
}


static bool divides (int op) {
  return op == HEED_floor_divide || op == HEED_remainder || op == HEED_fmod;
}


static const char *check_integer (cpu *self, const work *w, int64_t numel) {
  if (!divides(w->op)) return NULL;
  return refuse_zeros(self, &w->in[1], numel);
}

/* }================================================================== */


/*
** One call of the loop, as cpu_map makes it for so few elements: of one chunk where operands are
** brought, else of what one thread takes.
*/
#define DENSE_MOST (8 * CHUNK)
#define BROUGHT_MOST (CHUNK / 2)

/* The operand, or in 'near' what it is when it is repeated. */
static const void *repeated (const cpu_level *level, const dense_map *w, int i, char *near) {
  if (w->x[i] != NULL && w->period[i] == w->n) return w->x[i];
  size_t size = scalar_sizes[w->type], row = (size_t)w->period[i] * size;
  double item;
  if (w->x[i] == NULL) scalar_store(w->type, &item, w->value[i]);
  const void *x = w->x[i] != NULL ? w->x[i] : &item;
  if (w->period[i] == 1) level->load(w->n, w->type, near, w->type, x, 0);
  for (size_t at = 0; w->period[i] > 1 && at < (size_t)w->n * size; at += row)
    memcpy(near + at, x, row);
  return near;
}


static bool is_brief (const dense_map *w) {
  bool brought = w->to != w->type;
  if (w->type == HEED_INT64 && divides(w->op)) return false;
  for (int i = 0; i < w->nin; i++) brought |= w->period[i] != w->n;
  return w->n > 0 && w->n <= (brought ? BROUGHT_MOST : DENSE_MOST);
}


bool cpu_map_dense (device *d, const dense_map *w) {
  const cpu_level *level = cpu_level_of(d);
  _Alignas(64) char near[1 + DENSE_INS][8 * BROUGHT_MOST];
  const void *x[DENSE_INS] = {NULL};
  if (level->map[w->op][loop_of(w->type)] == NULL || !is_brief(w)) return false;
  void *y = w->to == w->type ? w->y : near[DENSE_INS];
  for (int i = 0; i < w->nin; i++) x[i] = repeated(level, w, i, near[i]);
  level->map[w->op][loop_of(w->type)](w->n, y, x[0], x[1], x[2], w->number);
  if (y != w->y) level->store(w->n, w->to, w->y, 1, w->type, y);
  return true;
}


const char *cpu_map (cpu *self, const work *w) {
  feed f;
  begin(&f, self, w, w->map.type);
  if (f.numel == 0) return NULL;
  if (f.as == HEED_INT64) {
    const char *message = check_integer(self, w, f.numel);
    if (message != NULL) return message;
  }
  f.loop = run_map;
  for (int i = 0; i < w->nin; i++) iterator_open(&f.operand[f.n++], &w->in[i], f.as);
  return run(&f);
}


/* Operands that the derivative does not read are given g: see DERIVATIVE in loops.h. */
const char *cpu_derivative (cpu *self, const work *w) {
  feed f;
  begin(&f, self, w, w->derivative.type);
  if (f.numel == 0) return NULL;
  f.loop = run_derivative;
  for (int i = 0; i < DERIVATIVE_INS; i++) {
    if (!view_is_none(&w->in[i])) iterator_open(&f.operand[f.n++], &w->in[i], f.as);
    else f.operand[f.n++] = f.operand[1 + DERIVATIVE_G];
  }
  return run(&f);
}


/* The type through which elements are converted; the type itself where they are not. */
static heed_type between (heed_type to, heed_type from) {
  if (to == from) return to;
  if (!scalar_is_float(to) && !scalar_is_float(from)) return HEED_INT64;
  bool wide = from == HEED_FLOAT64 || to == HEED_FLOAT64;
  return wide ? HEED_FLOAT64 : HEED_FLOAT32;
}


const char *cpu_convert (cpu *self, const work *w) {
  feed f;
  bool number = w->in[0].data == NULL;
  begin(&f, self, w, HEED_FLOAT32);
  f.as = number ? w->out[0].type : between(w->out[0].type, w->in[0].type);
  if (f.numel == 0) return NULL;
  f.loop = run_copy;
  iterator_open(&f.operand[f.n++], &w->in[0], f.as);
  return run(&f);
}
