/*
** copy_row.h - a row of elements of one size, from one stride to another.
*/

#ifndef copy_row_h
#define copy_row_h

#include <stdint.h>
#include <string.h>

#define COPY_ROW(X) { \
    X *const y = to; \
    const X *const x = from; \
    for (int64_t i = 0; i < n; i++) y[i * to_stride] = x[i * from_stride]; \
    return; \
  }

/* n elements of 'size' bytes. The two rows do not overlap. */
static inline void copy_row (size_t size, int64_t n, void *to, int64_t to_stride, const void *from,
                             int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  switch (size) {
    case 1: COPY_ROW(uint8_t)
    case 2: COPY_ROW(uint16_t)
    case 4: COPY_ROW(uint32_t)
    default: COPY_ROW(uint64_t)
  }
}

#endif
