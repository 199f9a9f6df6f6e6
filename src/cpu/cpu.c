/*
** cpu.c - the processor as a device: memory, and the table of its work.
*/

#define _GNU_SOURCE                /* madvise */

#include "cpu/cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)1 << 21)


const char cpu_no_memory[] = "not enough memory";


static size_t rounded_up (size_t bytes, size_t unit) { return (bytes + unit - 1) & ~(unit - 1); }


/* Large blocks stand on huge pages, where the system has them. */
static void *take (size_t bytes) {
  if (bytes > SIZE_MAX - HUGE_PAGE) return NULL;
  if (bytes < 2 * HUGE_PAGE) return aligned_alloc(64, rounded_up(bytes ? bytes : 1, 64));
  size_t whole = rounded_up(bytes, HUGE_PAGE);
  void *data = aligned_alloc(HUGE_PAGE, whole);
#ifdef MADV_HUGEPAGE
  if (data != NULL) madvise(data, whole, MADV_HUGEPAGE);
#endif
  return data;
}

static void *cpu_alloc (device *self, size_t bytes) {
  (void)self;
  return take(bytes);
}

static void cpu_free (device *self, void *data, size_t bytes) {
  (void)self; (void)bytes;
  free(data);
}

void *cpu_scratch (size_t bytes) { return take(bytes); }

void cpu_scratch_free (void *scratch) { free(scratch); }


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


static const char *cpu_run (device *d, const work *w) {
  cpu *self = (cpu *)d;
  const cpu_level *level = self->level;
  switch (w->kind) {
    case WORK_MAP: return cpu_map(self, w);
    case WORK_DERIVATIVE: return cpu_derivative(self, w);
    case WORK_COPY: return cpu_copy(self, w);
    case WORK_REDUCE: return level->reduce(self, w);
    case WORK_SCAN: return level->scan(self, w);
    case WORK_MATMUL: return cpu_matmul_tiny(w) ? NULL : level->matmul(self, w);
    case WORK_GATHER: return cpu_gather(self, w);
    case WORK_SCATTER: return cpu_scatter(self, w);
    case WORK_SORT: return cpu_sort(self, w);
    case WORK_NONZERO: return cpu_nonzero(self, w);
    case WORK_RANDOM: return cpu_random(self, w);
    case WORK_SOFTMAX: return level->softmax(self, w);
    case WORK_NORM: return level->norm(self, w);
    case WORK_LOSS: return level->loss(self, w);
    case WORK_ATTENTION: return level->attention(self, w);
    case WORK_ATTENTION_BACK: return level->attention_back(self, w);
    case WORK_OPTIMIZE: return level->optimize(self, w);
    default: return "not a work of the processor";
  }
}


device *cpu_open (pool *p, generator *random, const cpu_level *level) {
  cpu *self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->device = (device){.name = "cpu", .host = true, .alloc = cpu_alloc, .free = cpu_free,
                          .upload = cpu_move, .download = cpu_move, .run = cpu_run};
  for (int kind = 0; kind < WORK_KINDS; kind++) self->device.can[kind] = true;
  self->level = level;
  self->pool = p;
  self->random = random;
  return &self->device;
}

void cpu_close (device *d) { free(d); }

void cpu_use (device *d, const cpu_level *level) { ((cpu *)d)->level = level; }
