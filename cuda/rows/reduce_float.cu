/*
** reduce_float.cu - reductions to floats: squares of what differs from the mean, logarithms of
** sums of exponentials.
*/

#include "cuda/rows/reduce.h"


/*
** Sum of (x - mean)^2, and of x - mean, which is 0 but for the rounding of mean. In double: float
** does not hold all squares.
*/
template <class T> struct squares : plus_both {
  typedef pair state;
  T mean;
  __device__ squares (const reduce_work &d, const thread_group &t)
    : mean(t.active && d.mean != NULL ? (T)d.mean[t.row] : 0) {}
  __device__ state none (void) const { return state{0, 0}; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    pack<double, N> off, square;
    EACH(k, N) off.of[k] = (double)p.of[k] - mean;
    EACH(k, N) square.of[k] = off.of[k] * off.of[k];
    x.a += pack_sum(square);
    x.b += pack_sum(off);
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    const bool centred = d.mean != NULL && d.count > 0;
    put_result(d, d.nout - 1, row, centred ? x.a - x.b * x.b / (double)d.count : x.a);
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
    put_result(d, 0, row, log(x.sum) + finite_top(x.top));
  }
};


const char *reduce_squares (cuda *self, reduce_work *d) { return reduce_floats<squares>(self, d); }

const char *reduce_exponentials (cuda *self, reduce_work *d) {
  return reduce_floats<log_exponentials>(self, d);
}
