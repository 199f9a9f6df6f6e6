/*
** reduce_sum.cu - sums, and products. Sums of floats are added up in float for a pack of elements
** only, then in double.
*/

#include "cuda/rows/reduce.h"


template <class T> struct sums : plus {
  typedef ACCUMULATOR(T) state;
  __device__ sums (const reduce_work &, const thread_group &) {}
  __device__ state none (void) const { return 0; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    x += pack_sum(p);
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    if (d.averages) d.mean[row] = (double)(x /= (state)d.count);
    put_result(d, 0, row, x);
  }
};


template <class T> struct products : times {
  typedef ACCUMULATOR(T) state;
  __device__ products (const reduce_work &, const thread_group &) {}
  __device__ state none (void) const { return 1; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    EACH(k, N) x = (*this)(x, (state)p.of[k]);
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    put_result(d, 0, row, x);
  }
};


const char *reduce_sums (cuda *self, reduce_work *d) { return reduce_any<sums>(self, d); }

const char *reduce_products (cuda *self, reduce_work *d) { return reduce_any<products>(self, d); }
