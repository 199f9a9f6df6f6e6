/*
** check.c - checks of values that the host makes by itself. While work is captured such a check is
** recorded as work, and each replay does it.
*/

#include "cpu/copy/iterator.h"

#define CHUNK 256


const char *cpu_probabilities (cpu *self, const work *w) {
  double workspace[CHUNK];
  iterator s;
  const int64_t numel = layout_numel(&w->in[0].at);
  iterator_open(&s, &w->in[0], HEED_FLOAT64);
  for (int64_t from = 0; from < numel; from += CHUNK) {
    if (cpu_stops(self, from / CHUNK, CHUNK)) return cpu_interrupted;
    int64_t n = numel - from < CHUNK ? numel - from : CHUNK;
    const double *p = iterator_read(self, &s, from, n, HEED_FLOAT64, workspace);
    for (int64_t i = 0; i < n; i++)
      if (!(p[i] >= 0 && p[i] <= 1))
        return cpu_refuse(self, "probabilities from 0 to 1 expected, got %g", p[i]);
  }
  return NULL;
}


static const char *check_lengths (cpu *self, const mask_node *m, const view *v) {
  const int64_t *n = v->data, step = v->at.stride[0];
  for (int64_t b = 0; b < v->at.size[0]; b++)
    if (n[b * step] < 0 || n[b * step] > m->high)
      return cpu_refuse(self, "numbers of keys from 0 to %lld expected, got %lld",
                        (long long)m->high, (long long)n[b * step]);
  return NULL;
}


const char *cpu_check_attention (cpu *self, const work *w) {
  const char *why = NULL;
  const mask *m = &w->attention.mask;
  for (int i = 0; why == NULL && i < m->n; i++)
    if (m->node[i].kind == MASK_LENGTHS)
      why = check_lengths(self, &m->node[i], &w->in[m->node[i].operand]);
  return why;
}
