/*
** reduce_float.cu - reductions to floats: squares of what differs from the mean, logarithms of
** sums of exponentials.
*/

#include "cuda/rows/reduce.h"
#include "cuda/rows/sums.h"


/* Sum of (x - mean)^2, less what the rounding of mean adds to it. */
template <class T> struct squares : join_squares {
  typedef squares_sum<T> state;
  T mean;
  __device__ squares (const reduce_work &d, const thread_group &t)
    : mean(t.active && d.mean != NULL ? (T)d.mean[t.row] : 0) {}
  __device__ state none (void) const { return no_squares(mean); }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const { take_squares(x, p, mean); }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    const pair s = sums_of(x);
    const bool centred = d.mean != NULL && d.count > 0;
    put_result(d, d.nout - 1, row, centred ? s.a - s.b * s.b / (double)d.count : s.a);
  }
};


template <class T> struct log_exponentials : join_exponentials {
  typedef exponentials<T> state;
  __device__ log_exponentials (const reduce_work &, const thread_group &) {}
  __device__ state none (void) const { return no_exponentials<T>(); }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    take_exponentials(x, p);
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    put_result(d, 0, row, log(value_of(x.sum)) + finite_top(x.top));
  }
};


const char *reduce_squares (cuda *self, reduce_work *d) { return reduce_floats<squares>(self, d); }

const char *reduce_exponentials (cuda *self, reduce_work *d) {
  return reduce_floats<log_exponentials>(self, d);
}
