/*
** loops.h - the kernel of elementwise work for one computing type T, whose name is COMPUTED_TYPE;
** INTEGER is 1 for int64_t, FOURS for float. F is a row: its number of inputs, whether it divides
** integers, and its function.
*/

#ifndef cuda_loops_h
#define cuda_loops_h

#define THREADS 256


/*
** {==================================================================
** Elements one by one
** ===================================================================
*/

static __device__ __noinline__ T fetch_any (const void *data, heed_type type, int64_t at) {
  return fetch<T>(data, type, at);
}

static __device__ __noinline__ void put_any (void *data, heed_type type, int64_t at, T x) {
  put<T>(data, type, at, x);
}

INLINE T number_of (const operand &o) { return INTEGER ? (T)o.i : (T)o.f; }

INLINE T fetch_one (const operand &o, int64_t at) {
  if (o.kind == OPERAND_NUMBER) return number_of(o);
  return o.type == COMPUTED_TYPE ? ((const T *)o.data)[at] : fetch_any(o.data, o.type, at);
}

INLINE void put_one (const operand &o, int64_t at, T x) {
  if (o.type == COMPUTED_TYPE) ((T *)o.data)[at] = x;
  else put_any(o.data, o.type, at, x);
}


/* The offsets of element i in the first N operands. */
template <int N> INLINE void element_offsets (const job &j, int64_t i, int64_t *at) {
#pragma unroll
  for (int k = 0; k < N; k++) at[k] = 0;
#pragma unroll 1
  for (int axis = j.rank - 1; axis >= 0; axis--) {
    int64_t q = axis == 0 ? 0 : j.small ? divide((uint32_t)i, j.by[axis]) : i / j.size[axis];
    int64_t r = i - q * j.size[axis];
#pragma unroll
    for (int k = 0; k < N; k++) at[k] += r * j.at[k].stride[axis];
    i = q;
  }
}

/* }================================================================== */


/*
** {==================================================================
** Four at once, of float and halves: dense and aligned
** ===================================================================
*/

#if FOURS

INLINE void fetch_four (const operand &o, int64_t at, float *x) {
  if (o.kind != OPERAND_DENSE) {
    float y = fetch_one(o, 0);
    x[0] = x[1] = x[2] = x[3] = y;
  }
  else if (o.type == HEED_FLOAT32) {
    float4 v = *(const float4 *)((const float *)o.data + at);
    x[0] = v.x; x[1] = v.y; x[2] = v.z; x[3] = v.w;
  }
  else {
    ushort4 v = *(const ushort4 *)((const uint16_t *)o.data + at);
    uint16_t bits[AT_ONCE] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      x[k] = o.type == HEED_FLOAT16 ? wide(float16{bits[k]}) : wide(bfloat16{bits[k]});
  }
}

INLINE void put_four (const operand &o, int64_t at, const float *x) {
  if (o.type == HEED_FLOAT32)
    *(float4 *)((float *)o.data + at) = make_float4(x[0], x[1], x[2], x[3]);
  else if (o.type == HEED_BOOL)
    *(uchar4 *)((uint8_t *)o.data + at) = make_uchar4(x[0] != 0, x[1] != 0, x[2] != 0, x[3] != 0);
  else {
    uint16_t bits[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      bits[k] = o.type == HEED_FLOAT16 ? convert<float16>(x[k]).bits : convert<bfloat16>(x[k]).bits;
    *(ushort4 *)((uint16_t *)o.data + at) = make_ushort4(bits[0], bits[1], bits[2], bits[3]);
  }
}

/* All groups of four; returns the index of the first element that is left. */
template <class F> INLINE int64_t run_fours (const job &j, T p, T q) {
  int64_t fours = j.n / AT_ONCE;
  for (int64_t f = first_index(); f < fours; f += index_step()) {
    T x[F::inputs][AT_ONCE], y[AT_ONCE];
#pragma unroll
    for (int k = 0; k < F::inputs; k++) fetch_four(j.at[1 + k], f * AT_ONCE, x[k]);
#pragma unroll
    for (int e = 0; e < AT_ONCE; e++) {
      T a[F::inputs];
#pragma unroll
      for (int k = 0; k < F::inputs; k++) a[k] = x[k][e];
      y[e] = F::of(a, p, q);
    }
    put_four(j.at[0], f * AT_ONCE, y);
  }
  return fours * AT_ONCE;
}

#endif

/* }================================================================== */


/*
** {==================================================================
** The kernel
** ===================================================================
*/

/* A division of integers by 0 is reported, and done by 1 instead. */
template <class F> INLINE void guard (const job &j, int64_t i, T *x) {
  const faults f = j.faults;       /* a copy: 'j' itself should stay in parameter memory */
  if (F::divides && x[1] == 0) {
    report(f, FAULT_DIVISION, 0, i + 1, 0, 0);
    x[1] = 1;
  }
}


template <class F> KERNEL run_row (job j) {
  T p = (T)j.p, q = (T)j.q;
  int64_t i = first_index();
#if FOURS
  if (j.dense) i += run_fours<F>(j, p, q);
#endif
  for (; i < j.n; i += index_step()) {
    int64_t at[F::inputs + 1];
    T x[F::inputs];
    element_offsets<F::inputs + 1>(j, i, at);
#pragma unroll
    for (int k = 0; k < F::inputs; k++) x[k] = fetch_one(j.at[1 + k], at[1 + k]);
    guard<F>(j, i, x);
    put_one(j.at[0], at[0], F::of(x, p, q));
  }
}


template <class F> static const char *start (cuda *self, const job *j) {
  int64_t n = FOURS && j->dense ? (j->n + AT_ONCE - 1) / AT_ONCE : j->n;
  int threads = cuda_threads(n, THREADS);
  return launch(self, cuda_blocks(self, n, threads), threads, 0, run_row<F>, *j);
}

/* }================================================================== */

#endif
