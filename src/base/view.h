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

#pragma GCC visibility pop

#endif
