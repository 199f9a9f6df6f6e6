/*
** stream.h - a view as a row of elements: read and written piece by piece, in row-major order.
*/

#ifndef stream_h
#define stream_h

#include "cpu/cpu.h"

#pragma GCC visibility push(hidden)

typedef enum stream_kind { STREAM_DENSE, STREAM_SPLAT, STREAM_STRIDED } stream_kind;

typedef struct stream {
  stream_kind kind;
  heed_type type;
  char *data;
  layout at;                       /* of a strided one, fused */
  scalar value;                    /* of a number, which 'data' can't point to: see stream_open */
  char item[8];
} stream;

/* A number becomes an element of type 'as' first. */
void stream_open (stream *s, const view *v, heed_type as);

/* Elements from .. from + n - 1 as type 'as' (T's own or a computing type): where they lie, or
** in 'room', which has place for n of the larger of the two types. */
const void *stream_read (const cpu *self, const stream *s, int64_t from, int64_t n, heed_type as,
                         void *room);

/* Where elements of type 'as' may be written: in their place, or else into 'room' … */
void *stream_place (const stream *s, int64_t from, int64_t n, heed_type as, void *room);
/* … from where they are brought to their place. Nothing to do where they are. */
void stream_write (const cpu *self, const stream *s, int64_t from, int64_t n, heed_type as,
                   const void *room);

/* Element 'index' of a layout: its place, in elements. */
int64_t stream_offset (const layout *at, int64_t index);

#pragma GCC visibility pop

#endif
