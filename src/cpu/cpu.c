/*
** cpu.c - the CPU as a device: memory, what it supports, and which function runs it.
*/

#include "cpu/cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>


const char cpu_no_memory[] = "not enough memory";
const char cpu_interrupted[] = "interrupted";


static void *cpu_alloc (device *self, size_t bytes) {
  cpu *c = (cpu *)self;
  return pages_take(storage_lasts(c->cx) ? &c->pages : NULL, bytes);
}

static void cpu_free (device *self, void *data, size_t bytes) {
  pages_give(&((cpu *)self)->pages, data, bytes);
}


/* The head of scratch memory, which stands before it. */
typedef struct scratch_head {
  _Alignas(64) heed_context *cx;
  size_t bytes;
} scratch_head;


void *cpu_scratch (const cpu *self, size_t bytes) {
  scratch_head *head = NULL;
  if (bytes > SIZE_MAX - sizeof *head || !scratch_take(self->cx, bytes)) return NULL;
  head = pages_take(NULL, bytes + sizeof *head);
  if (head == NULL) {
    scratch_give(self->cx, bytes);
    return NULL;
  }
  *head = (scratch_head){.cx = self->cx, .bytes = bytes};
  return head + 1;
}


void cpu_scratch_free (void *scratch) {
  if (scratch == NULL) return;
  scratch_head *head = (scratch_head *)scratch - 1;
  scratch_give(head->cx, head->bytes);
  pages_give(NULL, head, head->bytes + sizeof *head);
}


static const char *cpu_move (device *self, void *to, const void *from, size_t bytes) {
  (void)self;
  if (bytes > 0) memcpy(to, from, bytes);
  return NULL;
}


const char *cpu_refuse (cpu *self, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(self->message, sizeof self->message, format, args);
  va_end(args);
  return self->message;
}


/*
** {==================================================================
** What is supported
** ===================================================================
*/

/* The kinds of work by name, and how many ops each has. */
static const struct { const char *name; int ops; } kinds[WORK_KINDS] = {
#define KIND(NAME, name, text, ops) {text, WORK_##NAME##_OPS},
#define NUMBERED(NAME, name, text, n) {text, WORK_##NAME##_OPS},
#include "base/works.def"
};


#if defined(HEED_BASIC_KINDS)      /* a test build, in which the fused kinds are composed */
#define IS_LEFT_OUT(kind) work_is_fused(kind)
#else
#define IS_LEFT_OUT(kind) false
#endif

static bool cpu_supports (const device *d, work_kind kind, int op) {
  const cpu_level *level = cpu_level_of(d);
  if ((unsigned)kind >= WORK_KINDS || IS_LEFT_OUT(kind)) return false;
  if (op < 0 || op >= kinds[kind].ops) return false;
  if (kind == WORK_MAP) return level->map[op][0] != NULL;
  return kind != WORK_DERIVATIVE || level->derivative[op][0][0] != NULL;
}


static const char *refuse_work (cpu *self, const work *w) {
  if ((unsigned)w->kind >= WORK_KINDS)
    return cpu_refuse(self, "the CPU has no work of kind %d", (int)w->kind);
  return cpu_refuse(self, "%s: the CPU has no operation %d", kinds[w->kind].name, w->op);
}

/* }================================================================== */


static const char *run_attention (cpu *self, const work *w) {
  const cpu_level *level = self->level;
  const char *why = cpu_check_attention(self, w);
  if (why != NULL) return why;
  return (w->kind == WORK_ATTENTION ? level->attention : level->attention_back)(self, w);
}


static const char *cpu_run (device *d, const work *w) {
  cpu *self = (cpu *)d;
  const cpu_level *level = self->level;
  if (!cpu_supports(d, w->kind, w->op)) return refuse_work(self, w);
  switch (w->kind) {
    case WORK_MAP: return cpu_map(self, w);
    case WORK_DERIVATIVE: return cpu_derivative(self, w);
    case WORK_COPY: return cpu_copy(self, w);
    case WORK_REDUCE: return level->reduce(self, w);
    case WORK_SCAN: return level->scan(self, w);
    case WORK_MATMUL: return cpu_matmul_tiny(w) ? NULL : level->matmul(self, w);
    case WORK_GATHER: return cpu_gather(self, w);
    case WORK_SCATTER: return cpu_scatter(self, w);
    case WORK_BLOCKS: return w->op == BLOCKS_PACK ? cpu_pack(self, w) : level->blocks(self, w);
    case WORK_SORT: return cpu_sort(self, w);
    case WORK_NONZERO: return cpu_nonzero(self, w);
    case WORK_RANDOM: return cpu_random(self, w);
    case WORK_SOFTMAX: return level->softmax(self, w);
    case WORK_NORM: return level->norm(self, w);
    case WORK_ROTATE: return level->rotate(self, w);
    case WORK_LOSS: return level->loss(self, w);
    case WORK_ATTENTION: case WORK_ATTENTION_BACK: return run_attention(self, w);
    case WORK_OPTIMIZE: return level->optimize(self, w);
    case WORK_CLIP: return level->clip(self, w);
    case WORK_PROBABILITIES: return cpu_probabilities(self, w);
    case WORK_KINDS: break;
  }
  return refuse_work(self, w);
}


static void cpu_close (device *self) {
  pages_close(&((cpu *)self)->pages);
  free(self);
}


device *cpu_open (heed_context *cx, pool *p, generator *random, const cpu_level *level) {
  cpu *self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->device = (device){.name = "cpu", .host = true, .close = cpu_close, .alloc = cpu_alloc,
                          .free = cpu_free, .upload = cpu_move, .download = cpu_move,
                          .run = cpu_run, .map = cpu_map_dense, .supports = cpu_supports};
  self->level = level;
  self->reads_alone = cpu_reads_alone();
  self->cx = cx;
  self->pool = p;
  self->random = random;
  return &self->device;
}


void cpu_use (device *d, const cpu_level *level) { ((cpu *)d)->level = level; }

const cpu_level *cpu_level_of (const device *d) { return ((const cpu *)d)->level; }
