/*
** heed_search.h - the C API of exact search among vectors, which need no tensor. Positions count
** from 0.
*/

#ifndef HEED_SEARCH_H
#define HEED_SEARCH_H

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum heed_rows_kind {
  HEED_ROWS_FLOAT32,                /* a score is the sum of products */
  HEED_ROWS_INT8,                   /* the same, of whole numbers, times the row's scale */
  HEED_ROWS_BITS                    /* of signs, 1 and -1: 1 - 2 * how many differ / dim */
} heed_rows_kind;

/* n rows of 'width' bytes each: dim floats, dim whole numbers from -127 to 127, or dim bits. */
typedef struct heed_rows {
  heed_rows_kind kind;
  int64_t n, dim, width;
  const void *data;
  const float *scale;               /* of each row of int8, or NULL: 1 */
} heed_rows;

/*
** The k rows with the best scores for each of the queries, which are rows of the same kind: their
** positions, best first, the lower position first among equals, and scores (queries, k); k is at
** most how many rows there are. A score that is no number is the worst. Where 'exact' (queries,
** dim) has floats of the queries, those k rows are scored again with them, and ordered by that:
** bits count as -1 and 1, and the sum is divided by dim.
*/
HEED_API bool heed_nearest (heed_context *cx, const heed_rows *rows, const heed_rows *queries,
                            const float *exact, int64_t k, int64_t *positions, float *scores);

#ifdef __cplusplus
}
#endif

#endif
