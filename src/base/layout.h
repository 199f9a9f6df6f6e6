/*
** layout.h - how elements lie in storage: a value, as plain as a number.
**
** Sizes and strides are counted in elements. Invariant: every element that a layout
** reaches lies inside its storage, and no product of sizes or of sizes and strides
** overflows; the functions here that make layouts check it and return false.
*/

#ifndef layout_h
#define layout_h

#include "heed.h"

#pragma GCC visibility push(hidden)

typedef struct layout {
  int rank;
  int64_t offset;                  /* of the first element, in storage */
  int64_t size[HEED_RANK];
  int64_t stride[HEED_RANK];       /* may be 0 (broadcast) or negative (flipped) */
} layout;

/* *to = *from, of which nothing is touched behind the axes that most layouts have. */
#define LAYOUT_NEAR 4
static inline void layout_copy (layout *to, const layout *from) {
  if (from->rank > LAYOUT_NEAR) { *to = *from; return; }
  to->rank = from->rank;
  to->offset = from->offset;
  for (int i = 0; i < LAYOUT_NEAR; i++) {
    to->size[i] = from->size[i];
    to->stride[i] = from->stride[i];
  }
}

/* a * b and a + b for sizes that are not negative; false when they do not fit. */
static inline bool layout_times (int64_t a, int64_t b, int64_t *result) {
  return !__builtin_mul_overflow(a, b, result);
}
static inline bool layout_plus (int64_t a, int64_t b, int64_t *result) {
  return !__builtin_add_overflow(a, b, result);
}

static inline int64_t layout_numel (const layout *at) {
  int64_t n = 1;
  for (int i = 0; i < at->rank; i++) n *= at->size[i];
  return n;
}

/* Dense, row by row, from offset 0. False: negative size, rank, or too many elements. */
bool layout_dense (layout *at, int rank, const int64_t *size);
bool layout_is_dense (const layout *at);            /* row by row without gaps, any offset */
bool layout_is_packed (const layout *at);           /* … in any order of the axes, none backwards */
bool layout_same_shape (const layout *a, const layout *b);
bool layout_overlaps_itself (const layout *at);     /* two positions, one element (stride 0 …) */

/* The shape that both broadcast to, as sizes of 'to' (strides dense); false if none. */
bool layout_broadcast (const layout *a, const layout *b, layout *to);
/* 'at' viewed with the shape of 'to': new axes and axes of size 1 get stride 0. */
bool layout_expand (const layout *at, const layout *to, layout *result);

/* -1 and the like count from the end; false when outside. 'rank' 0 allows 0 and -1. */
bool layout_axis (int rank, int64_t axis, int *result);

layout layout_transpose (const layout *at, int a, int b);
layout layout_permute (const layout *at, const int *order);        /* new axis i is old order[i] */
layout layout_select (const layout *at, int axis, int64_t position);   /* position from 0 */
layout layout_narrow (const layout *at, int axis, int64_t start, int64_t length, int64_t step);
layout layout_flip (const layout *at, int axis);
layout layout_insert (const layout *at, int axis);                 /* an axis of size 1 */
layout layout_remove (const layout *at, int axis);                 /* without it (size 1) */
/* Another shape for the same elements; false when that needs a copy. */
bool layout_reshape (const layout *at, int rank, const int64_t *size, layout *result);

/*
** The axis of rows that are whole blocks of so many elements, where all other strides and the
** offset are multiples of that; -1: there is none.
*/
int layout_block_axis (const layout *at, int64_t elements);

/* Storage reached: elements [*first, *last]; an empty layout reaches none (first > last). */
void layout_reach (const layout *at, int64_t *first, int64_t *last);

/*
** Axes of n layouts of one shape, fused where all of them allow it and axes of size 1
** left out, so that kernels iterate over as few axes as possible. The order of axes stays.
*/
void layout_fuse (layout *const *at, int n);

/* "(2, 3)" into text, always ended; returns text. */
#define LAYOUT_TEXT 200
char *layout_text (const layout *at, char text[LAYOUT_TEXT]);

#pragma GCC visibility pop

#endif
