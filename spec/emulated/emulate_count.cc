/*
** emulate_count.cc - what kernels do to memory, counted: with HEED_EMULATED_COUNT=FILE a line for
** each kernel is appended to the file when the process ends.
**
**   softmax_rows<float>: 12 launches, 98304 bytes read, 98304 written, 6144 sectors, 0 conflicts,
**   at most 256 threads, 0 bytes of shared memory
**
** in one line; shared memory is the dynamic one of a block.
** Bytes and sectors are those of device memory, without caches. An instruction of a warp is the
** k-th access of its lanes, between two barriers, from one place of the program. A sector has 32
** bytes, and counts once for each instruction that touches it; a conflict is a turn that an
** instruction takes at the 32 banks of shared memory beyond those that its bytes need.
*/

#include "spec/emulated/machine.h"

#include <stdio.h>
#include <stdlib.h>

#define KERNELS 4096               /* different ones, at most */
#define PLACES 1024                /* of accesses between two barriers, of a warp; a power of two */
#define SECTOR 32
#define BANKS 32
#define BANK 4                     /* bytes */

typedef struct instruction {
  unsigned lanes;
  uintptr_t at[32];
} instruction;

/* The accesses from one place, by lanes of one warp. */
typedef struct place {
  uintptr_t at;                    /* 0: none */
  int bytes;
  bool shared;
  uint32_t done[32];               /* by each lane */
  uint32_t n, room;
  instruction *list;
} place;

typedef struct counts {
  const void *kernel;
  int64_t launches, read, written, sectors, conflicts, threads, shared;
} counts;

static struct counting {
  counts kernels[KERNELS], *now;
  int n;
  place *places[MACHINE_WARPS];    /* a table for each warp */
  bool used[MACHINE_WARPS];
} c;

bool count_wanted;


void count_begin_launch (const void *kernel, int threads, size_t shared) {
  int i = 0;
  while (i < c.n && c.kernels[i].kernel != kernel) i++;
  if (i == KERNELS) i--;           /* the last stands for all that are too many */
  if (i == c.n) c.n++;
  c.now = &c.kernels[i];
  c.now->kernel = kernel;
  c.now->launches++;
  if (c.now->threads < threads) c.now->threads = threads;
  if (c.now->shared < (int64_t)shared) c.now->shared = (int64_t)shared;
}


/* Of a table that is full, the last one takes all. */
static place *place_of (int warp, uintptr_t at, int bytes, bool shared) {
  if (c.places[warp] == NULL) c.places[warp] = (place *)calloc(PLACES, sizeof(place));
  if (c.places[warp] == NULL) return NULL;
  size_t i = (at * 0x9E3779B97F4A7C15u >> 40) % PLACES, tries = 0;
  place *p = &c.places[warp][i];
  while (p->at != 0 && (p->at != at || p->shared != shared) && ++tries < PLACES)
    p = &c.places[warp][i = (i + 1) % PLACES];
  if (p->at == 0) {
    p->at = at;
    p->bytes = bytes;
    p->shared = shared;
  }
  c.used[warp] = true;
  return p;
}


void count_access (bool shared, uintptr_t at, size_t bytes, bool writes, const void *from) {
  const int t = machine_thread(), lane = t % 32;
  if (!shared) *(writes ? &c.now->written : &c.now->read) += (int64_t)bytes;
  place *p = place_of(t / 32, (uintptr_t)from, (int)bytes, shared);
  if (p == NULL) return;
  uint32_t k = p->done[lane]++;
  if (k >= p->room) {
    uint32_t room = p->room > 0 ? 2 * p->room : 8;
    instruction *list = (instruction *)realloc(p->list, room * sizeof *list);
    if (list == NULL) return;
    p->list = list;
    p->room = room;
  }
  while (p->n <= k) p->list[p->n++].lanes = 0;
  p->list[k].lanes |= 1u << lane;
  p->list[k].at[lane] = at;
}


static bool adds (uintptr_t *list, int *n, uintptr_t x) {
  for (int i = 0; i < *n; i++)
    if (list[i] == x) return false;
  list[(*n)++] = x;
  return true;
}


static int sectors_of (const instruction *x, int bytes) {
  uintptr_t list[32 * 2];
  int n = 0;
  for (int l = 0; l < 32; l++) {
    if ((x->lanes >> l & 1) == 0) continue;
    adds(list, &n, x->at[l] / SECTOR);
    if (x->at[l] % SECTOR + (uintptr_t)bytes > SECTOR) adds(list, &n, x->at[l] / SECTOR + 1);
  }
  return n;
}


/* Of 8 bytes a lane, half of the warp is served at once; of 16, a quarter. */
static int conflicts_of (const instruction *x, int bytes) {
  const int words = bytes > BANK ? bytes / BANK : 1, lanes = 32 / words;
  int turns = 0;
  for (int first = 0; first < 32; first += lanes) {
    uintptr_t list[BANKS][32];
    int n[BANKS] = {0}, most = 1;
    for (int l = first; l < first + lanes; l++)
      for (int w = 0; w < words && (x->lanes >> l & 1); w++) {
        const uintptr_t word = x->at[l] / BANK + (uintptr_t)w;
        int *k = &n[word % BANKS];
        if (adds(list[word % BANKS], k, word) && *k > most) most = *k;
      }
    turns += most - 1;
  }
  return turns;
}


/* At a barrier, and when a block ends: what was collected is counted, and forgotten. */
void count_flush (void) {
  for (int w = 0; w < MACHINE_WARPS; w++) {
    if (!c.used[w]) continue;
    c.used[w] = false;
    for (place *p = c.places[w]; p < c.places[w] + PLACES; p++) {
      for (uint32_t i = 0; i < p->n; i++) {
        if (p->shared) c.now->conflicts += conflicts_of(&p->list[i], p->bytes);
        else c.now->sectors += sectors_of(&p->list[i], p->bytes);
      }
      p->n = 0;
      memset(p->done, 0, sizeof p->done);
    }
  }
}


/* "norm_rows<float>" of "void norm_rows<float>(norm_work)". */
static void short_name (const void *kernel, char *text, size_t bytes) {
  char whole[512];
  race_name(kernel, whole, sizeof whole);
  const char *from = strncmp(whole, "void ", 5) == 0 ? whole + 5 : whole;
  size_t n = strcspn(from, "(");
  snprintf(text, bytes, "%.*s", (int)n, from);
}


void count_report (const char *path) {
  FILE *f = fopen(path, "a");
  if (f == NULL) { perror(path); return; }
  for (const counts *k = c.kernels; k < c.kernels + c.n; k++) {
    char name[256];
    short_name(k->kernel, name, sizeof name);
    fprintf(f, "%s: %lld launches, %lld bytes read, %lld written, %lld sectors, %lld conflicts, "
            "at most %lld threads, %lld bytes of shared memory\n", name, (long long)k->launches,
            (long long)k->read, (long long)k->written, (long long)k->sectors,
            (long long)k->conflicts, (long long)k->threads, (long long)k->shared);
  }
  fclose(f);
}


static void report_at_exit (void) {
  const char *path = getenv("HEED_EMULATED_COUNT");
  if (path != NULL && c.n > 0) count_report(path);
}


void count_set (void) {
  count_wanted = true;
  atexit(report_at_exit);
}
