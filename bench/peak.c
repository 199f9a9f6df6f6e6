/* Measures the peak rates of this machine for bench/run: multiply-adds of float32, a plain read and
   a plain copy. Called with a processor level and a number of threads; answers line by line:

     fma               operations a second, two for a multiply-add
     read BYTES        bytes a second, of a buffer of so many
     copy BYTES        bytes a second, read and written, of two buffers of so many together

   Loops are assembly as a whole, so that no compiler puts the accumulators into memory. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define WINDOW 1e-3             /* seconds that are timed at once, at least */
#define WINDOWS 3               /* of a request: the fastest counts */
#define MOST_THREADS 256
#define PAGE (2u << 20)


struct level {
  const char *name;
  int flop, bytes;                              /* of one turn of the loops */
  void (*fma)(long turns);
  void (*read)(const char *from, long turns);
};

#ifdef __x86_64__

#define CLOBBERED "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
  "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory"
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* 12 chains hide a latency of four cycles on three ports. */
#define FMA(LEVEL, ZERO, STEP, LAST) \
  static void fma_##LEVEL (long turns) { \
    __asm__ volatile(TWELVE(ZERO) ZERO(14) ZERO(15) \
      "1:\n" TWELVE(STEP) TWELVE(STEP) TWELVE(STEP) TWELVE(STEP) \
      "sub $1, %0\n jnz 1b\n" LAST : "+r"(turns) :: CLOBBERED); \
  }

#define READ(LEVEL, LOAD, BYTES, LAST) \
  static void read_##LEVEL (const char *from, long turns) { \
    __asm__ volatile("1:\n" EIGHT(LOAD) "add $" #BYTES ", %0\n sub $1, %1\n jnz 1b\n" LAST \
      : "+r"(from), "+r"(turns) :: CLOBBERED); \
  }

#define ZERO_SSE(i) "xorps %%xmm" #i ", %%xmm" #i "\n"
#define ZERO_AVX(i) "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define MUL_ADD(i) "mulps %%xmm14, %%xmm" #i "\n addps %%xmm15, %%xmm" #i "\n"
#define FMA_YMM(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n"
#define FMA_ZMM(i) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #i "\n"
#define LOAD_XMM(i) "movups 16*" #i "(%0), %%xmm" #i "\n"
#define LOAD_YMM(i) "vmovups 32*" #i "(%0), %%ymm" #i "\n"
#define LOAD_ZMM(i) "vmovups 64*" #i "(%0), %%zmm" #i "\n"

FMA(base, ZERO_SSE, MUL_ADD, "")
FMA(avx2, ZERO_AVX, FMA_YMM, "vzeroupper\n")
FMA(avx512, ZERO_AVX, FMA_ZMM, "vzeroupper\n")
READ(base, LOAD_XMM, 128, "")
READ(avx2, LOAD_YMM, 256, "vzeroupper\n")
READ(avx512, LOAD_ZMM, 512, "vzeroupper\n")

static const struct level levels[] = {
  {"base", 48 * 4 * 2, 128, fma_base, read_base},
  {"avx2", 48 * 8 * 2, 256, fma_avx2, read_avx2},
  {"avx512", 48 * 16 * 2, 512, fma_avx512, read_avx512},
};

#else

#define CLOBBERED "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", \
  "v12", "v13", "v14", "v15", "v16", "v17", "cc", "memory"
#define SIXTEEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) \
  X(14) X(15)
#define ZERO(i) "movi v" #i ".4s, #0\n"
#define FMLA(i) "fmla v" #i ".4s, v16.4s, v17.4s\n"

static void fma_neon (long turns) {
  __asm__ volatile(SIXTEEN(ZERO) ZERO(16) ZERO(17) "1:\n" SIXTEEN(FMLA) SIXTEEN(FMLA)
    SIXTEEN(FMLA) "subs %0, %0, #1\n b.ne 1b\n" : "+r"(turns) :: CLOBBERED);
}

static void read_neon (const char *from, long turns) {
  __asm__ volatile("1:\n ldp q0, q1, [%0]\n ldp q2, q3, [%0, #32]\n ldp q4, q5, [%0, #64]\n"
    "ldp q6, q7, [%0, #96]\n add %0, %0, #128\n subs %1, %1, #1\n b.ne 1b\n"
    : "+r"(from), "+r"(turns) :: CLOBBERED);
}

static const struct level levels[] = {
  {"base", 48 * 4 * 2, 128, fma_neon, read_neon}, {"neon", 48 * 4 * 2, 128, fma_neon, read_neon},
};

#endif


enum kind {FMAS, READS, COPIES};

struct part {                                   /* what one thread does */
  pthread_t thread;
  const struct request *request;
  char *from, *to;
  double began, ended;
};

struct request {
  const struct level *level;
  enum kind kind;
  long bytes, calls;                            /* bytes of each thread and call */
  int threads;
  atomic_int ready;
  struct part parts[MOST_THREADS];
};


static double now (void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}


static void call (const struct request *r, struct part *p) {
  if (r->kind == FMAS) r->level->fma(100);
  else if (r->kind == READS) r->level->read(p->from, r->bytes / r->level->bytes);
  else memcpy(p->to, p->from, r->bytes / 2);
}


static void *run_part (void *given) {
  struct part *p = given;
  struct request *r = (struct request *)p->request;
  atomic_fetch_add(&r->ready, 1);
  while (atomic_load(&r->ready) < r->threads) {}
  p->began = now();
  for (long i = 0; i < r->calls; i++) call(r, p);
  p->ended = now();
  return NULL;
}


/* Seconds from the first thread's begin to the last one's end. */
static double window (struct request *r) {
  atomic_store(&r->ready, 0);
  for (int i = 1; i < r->threads; i++)
    if (pthread_create(&r->parts[i].thread, NULL, run_part, &r->parts[i])) exit(1);
  run_part(&r->parts[0]);
  double began = r->parts[0].began, ended = r->parts[0].ended;
  for (int i = 1; i < r->threads; i++) {
    pthread_join(r->parts[i].thread, NULL);
    if (r->parts[i].began < began) began = r->parts[i].began;
    if (r->parts[i].ended > ended) ended = r->parts[i].ended;
  }
  return ended - began;
}


static double fastest (struct request *r) {
  for (r->calls = 1; window(r) < WINDOW; r->calls *= 2) {}
  double least = window(r);
  for (int i = 1; i < WINDOWS; i++) {
    double seconds = window(r);
    if (seconds < least) least = seconds;
  }
  double turn = r->kind == FMAS ? 100.0 * r->level->flop : r->bytes;
  return turn * r->calls * r->threads / least;
}


/* Memory of whole large pages, touched, whose room is kept. */
static char *room (size_t bytes) {
  static char *kept;
  static size_t size;
  if (size < bytes) {
    free(kept);
    size = (bytes + PAGE - 1) / PAGE * PAGE;
    kept = aligned_alloc(PAGE, size);
    if (kept == NULL) exit(1);
    madvise(kept, size, MADV_HUGEPAGE);
    memset(kept, 1, size);
  }
  return kept;
}


static void share (struct request *r, long bytes) {
  r->bytes = bytes / r->threads / 1024 * 1024;
  if (r->bytes == 0) r->bytes = 1024;
  char *all = room((size_t)r->bytes * r->threads);
  for (int i = 0; i < r->threads; i++) {
    r->parts[i].request = r;
    r->parts[i].from = all + (size_t)i * r->bytes;
    r->parts[i].to = r->parts[i].from + r->bytes / 2;
  }
}


int main (int argc, char **argv) {
  static struct request r;
  char word[16];
  long bytes = 0;
  for (size_t i = 0; argc == 3 && i < sizeof levels / sizeof levels[0]; i++)
    if (strcmp(levels[i].name, argv[1]) == 0) r.level = &levels[i];
  r.threads = argc == 3 ? atoi(argv[2]) : 0;
  if (r.level == NULL || r.threads < 1 || r.threads > MOST_THREADS) {
    fprintf(stderr, "usage: peak base|avx2|avx512|neon THREADS\n");
    return 1;
  }
  puts("peak");
  fflush(stdout);
  while (scanf("%15s", word) == 1 && (strcmp(word, "fma") == 0 || scanf("%ld", &bytes) == 1)) {
    r.kind = word[0] == 'f' ? FMAS : word[0] == 'r' ? READS : COPIES;
    share(&r, bytes);
    printf("%.6g\n", fastest(&r));
    fflush(stdout);
  }
  return 0;
}
