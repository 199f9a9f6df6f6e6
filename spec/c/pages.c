/*
** pages.c - memory of blocks that live long: none overlaps another, holes are used again, and
** regions go back to the system with their last block.
*/

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/pages.h"
#include "memory/device.h"

#define BLOCKS 160
#define ROUNDS 6000
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("pages: %s: wrong\n", what);
  failed = 1;
}


typedef struct block {
  unsigned char *data;
  size_t bytes;
} block;

static const size_t sizes[] = {
  0, 1, 64, 4 * KIB - 1, 4 * KIB, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 96 * KIB, 500 * KIB, MIB,
  3 * MIB + 5, 4 * MIB - 1, 4 * MIB, 5 * MIB
};
#define SIZES (sizeof sizes / sizeof *sizes)

/* The mark stands in the first bytes and in the last ones, and where some units begin. */
static void mark (block b, unsigned char value) {
  for (size_t i = 0; i < b.bytes; i += 32 * KIB) b.data[i] = value;
  if (b.bytes > 0) b.data[b.bytes - 1] = value;
}

static bool is_marked (block b, unsigned char value) {
  for (size_t i = 0; i < b.bytes; i += 32 * KIB)
    if (b.data[i] != value) return false;
  return b.bytes == 0 || b.data[b.bytes - 1] == value;
}


/* Blocks come and go in an order of chance, and each keeps what was written to it. */
static void blocks_apart (void) {
  pages p = {0};
  block list[BLOCKS] = {{0}};
  bool aligned = true, kept = true, shared = false;
  srand(7);
  for (int round = 0; round < ROUNDS; round++) {
    const int i = rand() % BLOCKS;
    block *b = &list[i];
    if (b->data != NULL) {
      kept = kept && is_marked(*b, (unsigned char)i);
      pages_give(&p, b->data, b->bytes);
      *b = (block){0};
      continue;
    }
    b->bytes = sizes[(size_t)rand() % SIZES];
    b->data = pages_take(&p, b->bytes);
    check(b->data != NULL, "a block");
    if (b->data == NULL) return;
    aligned = aligned && (uintptr_t)b->data % 64 == 0;
    mark(*b, (unsigned char)i);
    shared = shared || p.first != NULL;
  }
  check(aligned, "alignment");
  check(kept, "what was written");
  check(shared == !HEED_EXACT, "regions of blocks");
  for (int i = 0; i < BLOCKS; i++) pages_give(&p, list[i].data, list[i].bytes);
  check(p.first == NULL, "all given back");
}


/* A hole serves blocks that fit into it, before memory behind it does. */
static void holes (void) {
  pages p = {0};
  char *a = pages_take(&p, 256 * KIB), *b = pages_take(&p, MIB), *c = pages_take(&p, 256 * KIB);
  if (!HEED_EXACT) {
    check(b == a + 256 * KIB && c == b + MIB, "blocks side by side");
    pages_give(&p, b, MIB);
    char *d = pages_take(&p, 512 * KIB), *e = pages_take(&p, 768 * KIB);
    check(d == b && e == c + 256 * KIB, "a hole");
    pages_give(&p, d, 512 * KIB);
    pages_give(&p, e, 768 * KIB);
  }
  else pages_give(&p, b, MIB);
  pages_give(&p, a, 256 * KIB);
  pages_give(&p, c, 256 * KIB);
  check(p.first == NULL, "holes given back");
}


/* Blocks fill a region, the next ones are in another, and a block of the first one comes back. */
static void full (void) {
  enum { N = 13 };
  pages p = {0};
  char *data[N];
  for (int i = 0; i < N; i++) data[i] = pages_take(&p, 3 * MIB);
  char *tail = pages_take(&p, 2 * MIB);
  if (!HEED_EXACT) check(tail == data[9] + 3 * MIB, "the rest of a region");
  pages_give(&p, tail, 2 * MIB);
  pages_give(&p, data[6], 3 * MIB);
  char *again = pages_take(&p, 3 * MIB);
  if (!HEED_EXACT) check(again == data[6], "a hole in a region that was full");
  data[6] = again;
  for (int i = 0; i < N; i++) pages_give(&p, data[i], 3 * MIB);
  check(p.first == NULL, "full regions given back");
}


static struct { const void *data; size_t bytes; } advised;
static int freed;                  /* blocks */

/* The linker gives heed these functions. */
int __wrap_madvise (void *data, size_t bytes, int advice);
int __wrap_madvise (void *data, size_t bytes, int advice) {
  if (advice != MADV_HUGEPAGE) return -1;
  advised.data = data;
  advised.bytes = bytes;
  return 0;
}

void __real_free (void *data);
void __wrap_free (void *data);
void __wrap_free (void *data) {
  if (data != NULL) freed++;
  __real_free(data);
}

static bool has_no_header, has_no_pages;

void *__real_calloc (size_t n, size_t bytes);
void *__wrap_calloc (size_t n, size_t bytes);
void *__wrap_calloc (size_t n, size_t bytes) {
  return has_no_header ? NULL : __real_calloc(n, bytes);
}

void *__real_aligned_alloc (size_t alignment, size_t bytes);
void *__wrap_aligned_alloc (size_t alignment, size_t bytes);
void *__wrap_aligned_alloc (size_t alignment, size_t bytes) {
  return has_no_pages ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* A block for which there is no region stands alone; nothing is left of the region. */
static void without_regions (void) {
  pages p = {0};
  if (HEED_EXACT) return;
  for (int i = 0; i < 2; i++) {
    has_no_header = i == 0, has_no_pages = i == 1;
    freed = 0;
    advised.bytes = 0;
    char *data = pages_take(&p, MIB);
    check(data != NULL && p.first == NULL && freed == i, "a block alone");
    check(i == 0 || pages_take(&p, 5 * MIB) == NULL, "no huge pages");
    check(advised.bytes == 0, "for which nobody asks");
    has_no_header = has_no_pages = false;
    pages_give(&p, data, MIB);
    check(p.first == NULL && freed == i + 1, "and given back");
  }
}

/* The system is asked for huge pages, whole ones; and gets them back. */
static void huge (void) {
  pages p = {0};
  if (HEED_EXACT) return;
  char *data = pages_take(&p, 5 * MIB);
  check(advised.data == data && advised.bytes == 6 * MIB, "a block on huge pages");
  pages_give(&p, data, 5 * MIB);
  data = pages_take(&p, MIB);
  check(advised.data == data && advised.bytes == 32 * MIB, "a region on huge pages");
  freed = 0;
  pages_give(&p, data, MIB);
  check(freed == 2, "a region and its header are freed");
}


/* Blocks from 64 KiB to below 4 MiB share regions; a larger one has huge pages of its own. */
static void bounds (void) {
  static const struct { size_t bytes; bool shares; } some[] = {
    {64 * KIB - 1, false}, {64 * KIB, true}, {4 * MIB - 1, true}, {4 * MIB, false}
  };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    pages p = {0};
    char *data = pages_take(&p, some[i].bytes);
    check((p.first != NULL) == (some[i].shares && !HEED_EXACT), "who shares a region");
    if (some[i].bytes == 4 * MIB && !HEED_EXACT)
      check((uintptr_t)data % (2 * MIB) == 0, "a huge page of its own");
    pages_give(&p, data, some[i].bytes);
    check(p.first == NULL, "a region of one block given back");
  }
}


/* Scratch memory of threads shares nothing; what no machine has is refused. */
static void unshared (void) {
  pages p = {0};
  char *data = pages_take(NULL, 3 * MIB);
  check(data != NULL, "memory of no pages");
  pages_give(NULL, data, 3 * MIB);
  data = pages_take(NULL, 3 * MIB);
  freed = 0;
  pages_give(&p, data, 3 * MIB);
  check(p.first == NULL && freed == 1, "no region");
  check(pages_take(&p, SIZE_MAX - MIB) == NULL, "all memory that there is");
  pages_close(&p);
  check(p.first == NULL, "closed");
}


int main (void) {
  blocks_apart();
  holes();
  full();
  huge();
  without_regions();
  bounds();
  unshared();
  printf("pages: %s\n", failed ? "wrong" : "blocks stand apart");
  return failed;
}
