/*
** iterator.h - a view as a row of elements: read and written piece by piece, in row-major order.
*/

#ifndef iterator_h
#define iterator_h

#include "cpu/cpu.h"

#pragma GCC visibility push(hidden)

typedef enum iterator_kind { ITERATOR_DENSE, ITERATOR_SPLAT, ITERATOR_STRIDED } iterator_kind;

typedef struct iterator {
  iterator_kind kind;
  heed_type type;
  char *data;
  layout at;                       /* of a strided one, fused */
  char item[8];                    /* of a number, which 'data' can't point to: see iterator_open */
} iterator;

/* A number becomes an element of type 'as' first. */
void iterator_open (iterator *s, const view *v, heed_type as);

/*
** Elements from .. from + n - 1 as type 'as' (their own or a computing type): in the view's memory
** or in 'workspace', which has capacity for n of the larger of the two types.
*/
static inline const void *iterator_read (const cpu *self, const iterator *s, int64_t from,
                                         int64_t n, heed_type as, void *workspace);

/* Where elements of type 'as' may be written: the view's memory, or else 'workspace' … */
static inline void *iterator_target (const iterator *s, int64_t from, int64_t n, heed_type as,
                                     void *workspace);
/* … from where this function stores them, unless they were written to the view's memory. */
static inline void iterator_write (const cpu *self, const iterator *s, int64_t from, int64_t n,
                                   heed_type as, const void *workspace);

/* The offset of element number 'index' of a layout, in elements. */
int64_t iterator_offset (const layout *at, int64_t index);


/* The same for elements that are not yet in their place. */
const void *iterator_bring (const cpu *self, const iterator *s, int64_t from, int64_t n,
                            heed_type as, void *workspace);
void *iterator_place (const iterator *s, int64_t from, int64_t n, heed_type as, void *workspace);
void iterator_put (const cpu *self, const iterator *s, int64_t from, int64_t n, heed_type as,
                   const void *workspace);

/* Dense and of that type: rows are short, and there are many. */
static inline bool iterator_is_plain (const iterator *s, heed_type as) {
  return s->kind == ITERATOR_DENSE && s->type == as;
}

static inline const void *iterator_read (const cpu *self, const iterator *s, int64_t from,
                                         int64_t n, heed_type as, void *workspace) {
  if (iterator_is_plain(s, as)) return s->data + from * scalar_sizes[as];
  return iterator_bring(self, s, from, n, as, workspace);
}

static inline void *iterator_target (const iterator *s, int64_t from, int64_t n, heed_type as,
                                     void *workspace) {
  if (iterator_is_plain(s, as)) return s->data + from * scalar_sizes[as];
  return iterator_place(s, from, n, as, workspace);
}

static inline void iterator_write (const cpu *self, const iterator *s, int64_t from, int64_t n,
                                   heed_type as, const void *workspace) {
  if (!iterator_is_plain(s, as)) iterator_put(self, s, from, n, as, workspace);
}

#pragma GCC visibility pop

#endif
