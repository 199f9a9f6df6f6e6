/*
** view.h - a tensor as kernels see it: a plain value, whose memory somebody else keeps.
*/

#ifndef view_h
#define view_h

#include "base/layout.h"
#include "base/scalar.h"

#pragma GCC visibility push(hidden)

/* 'data' is the first element (offset applied, at.offset is 0). */
typedef struct view {
  void *data;                      /* NULL with rank 0: the number itself, 'value' */
  heed_type type;
  layout at;                       /* rank -1: there is no tensor */
  scalar value;
} view;

static inline view view_none (void) {
  view v;
  v.data = NULL;
  v.type = HEED_BOOL;
  v.at.rank = -1;
  return v;
}
/* *v = view_none(), of which little is touched. */
static inline void view_clear (view *v) {
  v->data = NULL;
  v->type = HEED_BOOL;
  v->at.rank = -1;
}
static inline bool view_is_none (const view *v) { return v->at.rank < 0; }

/* A number, which lies in the view itself. */
static inline view view_number (scalar value) {
  view v;
  v.data = NULL;
  v.type = value.type;
  v.at.rank = 0;
  v.at.offset = 0;
  v.value = value;
  return v;
}

/* Rows of whole blocks as the bytes that they are. */
static inline layout view_bytes_layout (heed_type type, const layout *of) {
  layout at = *of;
  const int row = layout_block_axis(of, scalar_blocks[type].elements);
  at.offset = scalar_bytes(type, of->offset);
  for (int i = 0; i < at.rank; i++)
    if (i == row) at.size[i] = scalar_bytes(type, of->size[i]);
    else at.stride[i] = scalar_bytes(type, of->stride[i]);
  return at;
}

static inline view view_bytes (view v) {
  v.at = view_bytes_layout(v.type, &v.at);
  v.type = HEED_UINT8;
  return v;
}

/* Row number 'at' of a view whose rows lie along axis 'row': its first element. */
static inline void *view_row (const view *v, int row, int64_t at) {
  int64_t offset = 0;
  for (int i = v->at.rank - 1; i >= 0; i--) {
    if (i == row) continue;
    offset += at % v->at.size[i] * v->at.stride[i];
    at /= v->at.size[i];
  }
  return (char *)v->data + scalar_bytes(v->type, offset);
}

#pragma GCC visibility pop

#endif
