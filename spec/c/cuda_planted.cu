/*
** cuda_planted.cu - kernels with a mistake each, and the same without it: the emulated GPU finds
** every mistake, says which, and finds nothing in the others. Those that only races show are left
** out where accesses to memory are not watched.
*/

#include <stdio.h>

#ifdef __CUDACC__

int main (void) {
  puts("0 passed, 0 failed, 1 skipped");         /* a GPU finds none of them */
  return 0;
}

#else

#include "cuda/kernel.h"
#include "cuda/mma.h"
#include "spec/emulated/machine.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 3
#define THREADS 96
#define N (BLOCKS * THREADS - 5)   /* elements of 'data' */

typedef struct planted_data { int *data; unsigned *done; } planted_data;


/*
** {==================================================================
** Kernels: RIGHT, without the mistake
** ===================================================================
*/

/* Each thread reads what its neighbour wrote. */
template <bool RIGHT> KERNEL missing_barrier (planted_data d) {
  __shared__ int held[THREADS];
  held[threadIdx.x] = (int)threadIdx.x;
  if (RIGHT) __syncthreads();
  const int next = held[(threadIdx.x + 1) % THREADS];
  if (first_index() < N) d.data[first_index()] = next;
}

/* A value that other threads read is overwritten in the next turn. */
template <bool RIGHT> KERNEL missing_barrier_behind (planted_data d) {
  __shared__ int held;
  int sum = 0;
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x == 0) held = i;
    __syncthreads();
    sum += held;
    if (RIGHT) __syncthreads();
  }
  if (first_index() < N) d.data[first_index()] = sum;
}

/* The same in dynamic shared memory, among neighbouring bytes. */
template <bool RIGHT> KERNEL missing_barrier_bytes (planted_data d) {
  SHARED(uint8_t, held);
  held[threadIdx.x] = (uint8_t)threadIdx.x;
  if (RIGHT) __syncthreads();
  const int next = held[threadIdx.x ^ 1];
  if (first_index() < N) d.data[first_index()] = next;
}

/* Within a warp. */
template <bool RIGHT> KERNEL missing_syncwarp (planted_data d) {
  __shared__ int held[THREADS];
  held[threadIdx.x] = (int)threadIdx.x;
  if (RIGHT) __syncwarp();
  const int next = held[threadIdx.x ^ 5];
  if (first_index() < N) d.data[first_index()] = next;
}

/* An exchange of values orders no memory. */
template <bool RIGHT> KERNEL shuffle_for_syncwarp (planted_data d) {
  __shared__ int held[THREADS];
  held[threadIdx.x] = (int)threadIdx.x;
  const int other = __shfl_xor_sync(FULL, (int)threadIdx.x, 5);
  if (RIGHT) __syncwarp();
  if (first_index() < N) d.data[first_index()] = held[other];
}

/* A __syncwarp orders lanes of its warp alone. */
template <bool RIGHT> KERNEL syncwarp_for_barrier (planted_data d) {
  __shared__ int held[THREADS];
  held[threadIdx.x] = (int)threadIdx.x;
  if (RIGHT) __syncthreads();
  else __syncwarp();
  const int next = held[(threadIdx.x + 32) % THREADS];
  if (first_index() < N) d.data[first_index()] = next;
}

/* The last block adds up what all wrote. */
template <bool BEFORE, bool BEHIND> INLINE void sum_up (planted_data d) {
  if (threadIdx.x == 0) d.data[blockIdx.x] = (int)blockIdx.x;
  if (threadIdx.x != 0) return;
  if (BEFORE) __threadfence();
  if (atomicAdd(d.done, 1u) + 1 < gridDim.x) return;
  if (BEHIND) __threadfence();
  for (int i = 1; i < (int)gridDim.x; i++) d.data[0] += d.data[i];
}

template <bool RIGHT> KERNEL missing_fence_before (planted_data d) { sum_up<RIGHT, true>(d); }
template <bool RIGHT> KERNEL missing_fence_behind (planted_data d) { sum_up<true, RIGHT>(d); }

/* All threads of a block write, one of them tells it. */
template <bool RIGHT> KERNEL missing_barrier_before_flag (planted_data d) {
  if (first_index() < N) d.data[first_index()] = 1;
  if (RIGHT) __syncthreads();
  if (threadIdx.x != 0 || !ends_last(d.done)) return;
  for (int i = 1; i < N; i++) d.data[0] += d.data[i];
}

template <bool RIGHT> KERNEL missing_atomic (planted_data d) {
  if (RIGHT) atomicAdd(d.data, 1);
  else *d.data += 1;
}

/* A sum that other blocks still add to. */
template <bool RIGHT> KERNEL read_beside_atomics (planted_data d) {
  atomicAdd(&d.data[0], 1);
  if (!RIGHT && threadIdx.x == 0) d.data[1 + blockIdx.x] = d.data[0];
}

template <bool RIGHT> KERNEL never_written (planted_data d) {
  __shared__ int held[THREADS];
  if (RIGHT || threadIdx.x > 0) held[threadIdx.x] = 1;
  __syncthreads();
  if (first_index() < N) d.data[first_index()] = held[THREADS - 1 - threadIdx.x];
}

template <bool RIGHT> KERNEL never_written_dynamic (planted_data d) {
  SHARED(int, held);
  if (RIGHT || threadIdx.x > 0) held[threadIdx.x] = 1;
  __syncthreads();
  if (first_index() < N) d.data[first_index()] = held[THREADS - 1 - threadIdx.x];
}

/* Reads the value that the block before left there. */
template <bool RIGHT> KERNEL of_another_block (planted_data d) {
  __shared__ int held;
  if (threadIdx.x == 0 && (RIGHT || blockIdx.x == 0)) held = 1;
  __syncthreads();
  if (first_index() < N) d.data[first_index()] = held;
}

/* Each thread waits for what it copied, and reads what another one did. */
template <bool RIGHT> KERNEL missing_barrier_behind_copy (planted_data d) {
  SHARED(int, held);
  if (threadIdx.x < 4) ptx_copy(ptx_shared(held + 4 * threadIdx.x), d.data + 4 * threadIdx.x, 16);
  ptx_commit();
  ptx_wait<0>();
  if (RIGHT) __syncthreads();
  const int other = held[15 - threadIdx.x % 16];
  if (threadIdx.x == 0) d.data[16 + blockIdx.x] = other;
}

template <bool RIGHT> KERNEL missing_wait (planted_data d) {
  SHARED(int, held);
  if (threadIdx.x < 4) ptx_copy(ptx_shared(held + 4 * threadIdx.x), d.data + 4 * threadIdx.x, 16);
  ptx_commit();
  if (RIGHT) ptx_wait<0>();
  __syncthreads();
  const int other = held[15 - threadIdx.x % 16];
  ptx_wait<0>();
  if (threadIdx.x == 0) d.data[16 + blockIdx.x] = other;
}

template <bool RIGHT> KERNEL missing_tail_check (planted_data d) {
  if (!RIGHT || first_index() < N) d.data[first_index()] = 1;
}

template <bool RIGHT> KERNEL lane_outside_mask (planted_data d) {
  const int sum = __shfl_xor_sync(RIGHT ? FULL : 0xffffu, (int)threadIdx.x, 1);
  if (first_index() < N) d.data[first_index()] = sum;
}

template <bool RIGHT> KERNEL value_outside_mask (planted_data d) {
  int x = 0;
  if (lane_of() < 16) x = __shfl_xor_sync(0xffffu, (int)threadIdx.x, RIGHT ? 8 : 16);
  if (first_index() < N) d.data[first_index()] = x;
}

/* Lanes of the mask have left. */
template <bool RIGHT> KERNEL exchange_behind_return (planted_data d) {
  if (!RIGHT && first_index() >= N) return;
  const int next = __shfl_xor_sync(FULL, (int)threadIdx.x, 1);
  if (first_index() < N) d.data[first_index()] = next;
}

template <bool RIGHT> KERNEL exchanges_apart (planted_data d) {
  int x;
  if (RIGHT || lane_of() < 16) x = __reduce_add_sync(FULL, 1);
  else
    x = __reduce_add_sync(FULL, 2);
  if (first_index() < N) d.data[first_index()] = x;
}

template <bool RIGHT> KERNEL barriers_apart (planted_data d) {
  if (RIGHT || threadIdx.x < 32) __syncthreads();
  else
    __syncthreads();
  if (first_index() < N) d.data[first_index()] = 1;
}

template <bool RIGHT> KERNEL barrier_for_exchange (planted_data d) {
  if (RIGHT || threadIdx.x > 0) __syncthreads();
  else __syncwarp();
  if (first_index() < N) d.data[first_index()] = 1;
}

/* }================================================================== */


typedef void kernel (planted_data d);

typedef struct planted {
  const char *name;
  kernel *wrong, *right;
  bool watched;                    /* accesses to memory must be */
  const char *says;
} planted;

#define PLANTED(name, watched, says) {#name, name<false>, name<true>, watched, says}

/* A race, or, where the one that reads is first, a read of what was never written. */
#define UNORDERED "at cuda_planted.cu:"

static const planted all[] = {
  PLANTED(missing_barrier, true, UNORDERED),
  PLANTED(missing_barrier_behind, true, "a race in shared memory: "),
  PLANTED(missing_barrier_bytes, true, UNORDERED),
  PLANTED(missing_syncwarp, true, UNORDERED),
  PLANTED(shuffle_for_syncwarp, true, UNORDERED),
  PLANTED(syncwarp_for_barrier, true, UNORDERED),
  PLANTED(missing_fence_before, true, "a race in device memory: reads at cuda_planted.cu"),
  PLANTED(missing_fence_behind, true, "a race in device memory: reads at cuda_planted.cu"),
  PLANTED(missing_barrier_before_flag, true, "a race in device memory: reads at cuda_planted.cu"),
  PLANTED(missing_atomic, true, "a race in device memory: "),
  PLANTED(read_beside_atomics, true, "a race in device memory: "),
  PLANTED(never_written, true, "shared memory that was never written"),
  PLANTED(never_written_dynamic, true, "shared memory that was never written"),
  PLANTED(of_another_block, true, "shared memory that was never written"),
  PLANTED(missing_barrier_behind_copy, true, UNORDERED),
  PLANTED(missing_wait, true, "shared memory that was never written"),
  PLANTED(missing_tail_check, false, "memory was written behind its end"),
  PLANTED(lane_outside_mask, false, "is not in its own mask"),
  PLANTED(value_outside_mask, false, "wants the value of a lane outside its mask"),
  PLANTED(exchange_behind_return, false, "waits for lanes ffffffff of its warp, of which "),
  PLANTED(exchanges_apart, false, "others at that of spec/c/cuda_planted.cu:"),
  PLANTED(barriers_apart, false, "others at that of spec/c/cuda_planted.cu:"),
  PLANTED(barrier_for_exchange, false, "waits "),
};

#ifdef __SANITIZE_THREAD__
static const bool watched = true;
#else
static const bool watched = false;
#endif


/* AddressSanitizer ends the process at what the kernel's end finds elsewhere. */
#ifdef __SANITIZE_ADDRESS__
static const bool address_watched = true;
#else
static const bool address_watched = false;
#endif


static int tried, wrong;

static void check (bool good, const char *what, const char *got) {
  tried++;
  wrong += !good;
  if (!good) printf("%s: got '%s'\n", what, got);
}


/* A launch, its end, and the end of its memory: what was wrong, or "no error". */
static const char *run (kernel *k, int threads, size_t shared) {
  planted_data d = {NULL, NULL};
  cuda_stream s;
  int code = runtime_stream_open(&s);
  if (code == 0) code = runtime_alloc((void **)&d.data, N * sizeof *d.data);
  if (code == 0) code = runtime_alloc((void **)&d.done, sizeof *d.done);
  if (code == 0) code = runtime_fill(d.done, 0, sizeof *d.done, s);
  if (code == 0) code = runtime_fill(d.data, 0, N * sizeof *d.data, s);
  const runtime_grid g = {dim3(BLOCKS), dim3((unsigned)threads), shared, s};
  if (code == 0) code = runtime_launch(g, k, d);
  if (code == 0) code = runtime_stream_wait(s);
  if (code == 0) code = runtime_free(d.data);
  return runtime_text(code);
}


/* In a child, since a device that is lost stays so: 'order' and 'limit' are settings. */
static void in_child (const char *setting, const char *value, void (*f) (const planted *),
                      const planted *p) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    tried = wrong = 0;
    if (setting != NULL) setenv(setting, value, 1);
    f(p);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(child, &status, 0);
  tried++;
  wrong += status != 0;
}


static void run_wrong (const planted *p) {
  const char *got = run(p->wrong, THREADS, THREADS * sizeof(int));
  if (getenv("HEED_EMULATED_SAY") != NULL) printf("%s: %s\n", p->name, got);
  check(strstr(got, p->says) != NULL, p->name, got);
}

static void run_right (const planted *p) {
  const char *got = run(p->right, THREADS, THREADS * sizeof(int));
  check(strcmp(got, "no error") == 0, p->name, got);
}


/*
** {==================================================================
** Settings
** ===================================================================
*/

/* The threads of each block, in the order in which they come behind a barrier. */
template <int> KERNEL list_order (planted_data d) {
  __syncthreads();
  const int at = atomicAdd((int *)d.done, 1);
  if (at < THREADS) d.data[at] = (int)threadIdx.x;
}

static void read_order (int *list) {
  planted_data d;
  cuda_stream s;
  void *pinned = NULL;
  int code = runtime_stream_open(&s);
  if (code == 0) code = runtime_alloc((void **)&d.data, THREADS * sizeof(int));
  if (code == 0) code = runtime_alloc((void **)&d.done, sizeof *d.done);
  if (code == 0) code = runtime_alloc_host(&pinned, THREADS * sizeof(int));
  if (code == 0) code = runtime_fill(d.done, 0, sizeof *d.done, s);
  const runtime_grid g = {dim3(1), dim3(THREADS), 0, s};
  if (code == 0) code = runtime_launch(g, list_order<0>, d);
  if (code == 0) code = runtime_copy(pinned, d.data, THREADS * sizeof(int), s);
  if (code == 0) code = runtime_stream_wait(s);
  check(code == 0, "a list of threads", runtime_text(code));
  if (code == 0) memcpy(list, pinned, THREADS * sizeof(int));
}

static void lowest (const planted *) {
  int list[THREADS] = {0}, good = 0;
  read_order(list);
  for (int i = 0; i < THREADS; i++) good += list[i] / 32 == i / 32;
  check(good == THREADS, "the lowest warp first", "another");
}

static void highest (const planted *) {
  int list[THREADS] = {0}, good = 0;
  read_order(list);
  for (int i = 0; i < THREADS; i++) good += list[i] / 32 == (THREADS - 1 - i) / 32;
  check(good == THREADS, "the highest warp first", "another");
}

static void at_random (const planted *) {
  int list[THREADS] = {0}, turns = 0, sum = 0;
  read_order(list);
  for (int i = 1; i < THREADS; i++) turns += list[i] / 32 != list[i - 1] / 32;
  for (int i = 0; i < THREADS; i++) sum += list[i];
  check(turns > THREADS / 4 && sum == THREADS * (THREADS - 1) / 2, "any warp", "an order");
}


template <int> KERNEL idle_kernel (planted_data) {}

typedef struct much { char bytes[4097]; } much;
static __global__ void takes_much (much) {}

/* The device says what a block may have, and more is refused. */
static void limits (const planted *) {
  runtime_device gpu;
  check(runtime_device_read(0, &gpu) == 0 && gpu.block_shared == 227 << 10 && gpu.major == 9,
        "shared memory of a block", "another amount");
  check(strcmp(run(idle_kernel<0>, 32, 227 << 10), "no error") == 0, "all of it", "an error");
  const char *got = run(idle_kernel<0>, 32, (227 << 10) + 1);
  check(strcmp(got, "invalid argument") == 0, "more of it", got);
}

static void fewer_threads (const planted *) {
  check(strcmp(run(idle_kernel<0>, 512, 0), "no error") == 0, "512 threads", "an error");
  const char *got = run(idle_kernel<0>, 544, 0);
  check(strcmp(got, "invalid argument") == 0, "more threads", got);
}

static void parameters (const planted *) {
  cuda_stream s;
  if (runtime_stream_open(&s) != 0) return;
  const runtime_grid g = {dim3(1), dim3(32), 0, s};
  const int code = runtime_launch(g, takes_much, much());
  check(code != 0, "parameters of 4097 bytes", runtime_text(code));
}

/* }================================================================== */


/*
** {==================================================================
** Counts: of one warp
** ===================================================================
*/

/* 4 bytes each, 'step' elements apart: read, and written again. */
template <int STEP> KERNEL counted_steps (planted_data d) {
  d.data[threadIdx.x * STEP] += (int)threadIdx.x;
}

/* A column of a matrix with this many columns, written and read. */
template <int COLUMNS> KERNEL counted_columns (planted_data d) {
  __shared__ int held[32 * COLUMNS];
  held[threadIdx.x * COLUMNS] = 1;
  __syncwarp();
  d.data[threadIdx.x] = held[(threadIdx.x ^ 1) * COLUMNS];
}

/* Their line in the report. */
static void counts_are (kernel *k, const char *line) {
  char path[] = "/tmp/heed-XXXXXX", got[256] = "";
  const int file = mkstemp(path);
  planted_data d = {NULL, NULL};
  cuda_stream s;
  int code = runtime_stream_open(&s);
  if (code == 0) code = runtime_alloc((void **)&d.data, 32 * 32 * sizeof *d.data);
  if (code == 0) code = runtime_fill(d.data, 0, 32 * 32 * sizeof *d.data, s);
  const runtime_grid g = {dim3(1), dim3(32), 0, s};
  if (code == 0) code = runtime_launch(g, k, d);
  if (code == 0) code = runtime_stream_wait(s);
  count_report(path);
  FILE *f = fdopen(file, "r");
  while (f != NULL && strcmp(got, line) != 0 && fgets(got, sizeof got, f) != NULL)
    got[strcspn(got, "\n")] = '\0';
  check(code == 0 && strcmp(got, line) == 0, line, got);
  unlink(path);
}

#define OF_A_WARP ", at most 32 threads, 0 bytes of shared memory"

static void counts (const planted *) {
  count_set();
  unsetenv("HEED_EMULATED_COUNT");               /* no report at the end */
  counts_are(counted_steps<1>, "counted_steps<1>: 1 launches, 128 bytes read, 128 written, "
             "8 sectors, 0 conflicts" OF_A_WARP);
  counts_are(counted_steps<4>, "counted_steps<4>: 1 launches, 128 bytes read, 128 written, "
             "32 sectors, 0 conflicts" OF_A_WARP);
  counts_are(counted_steps<32>, "counted_steps<32>: 1 launches, 128 bytes read, 128 written, "
             "64 sectors, 0 conflicts" OF_A_WARP);
  counts_are(counted_columns<1>, "counted_columns<1>: 1 launches, 0 bytes read, 128 written, "
             "4 sectors, 0 conflicts" OF_A_WARP);
  counts_are(counted_columns<32>, "counted_columns<32>: 1 launches, 0 bytes read, 128 written, "
             "4 sectors, 62 conflicts" OF_A_WARP);
  counts_are(counted_columns<33>, "counted_columns<33>: 1 launches, 0 bytes read, 128 written, "
             "4 sectors, 0 conflicts" OF_A_WARP);
}

/* }================================================================== */


int main (void) {
  for (const planted &p : all) {
    if (p.watched && !watched) continue;
    if (address_watched && strstr(p.says, "behind its end") != NULL)
      printf("%s: left to AddressSanitizer\n", p.name);
    else in_child(NULL, NULL, run_wrong, &p);
    const char *const orders[] = {"", "lowest", "highest", "1"};
    for (const char *order : orders) in_child("HEED_EMULATED_ORDER", order, run_right, &p);
  }
  in_child("HEED_EMULATED_ORDER", "lowest", lowest, NULL);
  in_child("HEED_EMULATED_ORDER", "highest", highest, NULL);
  in_child("HEED_EMULATED_ORDER", "1", at_random, NULL);
  in_child("HEED_EMULATED_SHARED", "227", limits, NULL);
  in_child("HEED_EMULATED_THREADS", "512", fewer_threads, NULL);
  in_child(NULL, NULL, parameters, NULL);
  if (watched) in_child(NULL, NULL, counts, NULL);
  printf("%d passed, %d failed\n", tried - wrong, wrong);
  return wrong > 0;
}

#endif
