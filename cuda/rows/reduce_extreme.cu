/*
** reduce_extreme.cu - the largest or least element and its position; any and all of bools.
*/

#include "cuda/rows/reduce.h"


/* The best and its position; -1: none yet. NaN is better than all, the first of equals wins. */
template <class T> struct extremes {
  typedef two<T, int64_t> state;
  bool low;
  __device__ extremes (const reduce_work &d, const thread_group &) : low(d.low) {}
  __device__ state none (void) const { return state{0, -1}; }

  __device__ bool better (T x, T best) const {
    return (low ? x < best : x > best) || (x != x && best == best);
  }
  __device__ state operator() (state a, state b) const {
    bool other = better(b.a, a.a) || (!better(a.a, b.a) && b.b < a.b);
    return b.b >= 0 && (a.b < 0 || other) ? b : a;
  }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span s) const {
    EACH(k, N)
      if (x.b < 0 || better(p.of[k], x.a)) x = state{p.of[k], s.at(k)};
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    if (d.positions) put_result(d, 0, row, x.b + 1);
    else put_result(d, 0, row, x.a);
    if (d.nout > 1) put_result(d, 1, row, x.b + 1);
  }
};


template <class T> struct bools {
  typedef int state;
  bool zero;
  __device__ bools (const reduce_work &d, const thread_group &) : zero(d.zero) {}
  __device__ state none (void) const { return 0; }
  __device__ state operator() (state a, state b) const { return a | b; }
  template <int N, class Span>
  __device__ void take (state &x, const pack<T, N> &p, Span) const {
    EACH(k, N) x |= (p.of[k] == 0) == zero;
  }
  __device__ void finish (const reduce_work &d, int64_t row, state x) const {
    put_result(d, 0, row, (int64_t)(x != d.zero));
  }
};


const char *reduce_extremes (cuda *self, reduce_work *d) { return reduce_own<extremes>(self, d); }

const char *reduce_bools (cuda *self, reduce_work *d) { return reduce_own<bools>(self, d); }
