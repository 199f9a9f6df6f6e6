/*
** pages.c - memory of blocks that live long, which share huge pages.
**
** A region is cut into units, and a block has some that follow each other: the first that are free.
** A region without blocks goes back to the system.
*/

#define _GNU_SOURCE                /* madvise */

#include "cpu/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/aligned.h"
#include "memory/device.h"

#define UNIT ((size_t)1 << 12)     /* a page */
#define UNITS 8192                 /* of a region */
#define LEAST ((size_t)1 << 16)    /* bytes of a medium block */
#define HUGE_PAGE ((size_t)1 << 21)
#define BELOW (2 * HUGE_PAGE)


struct region {
  region *next;
  char *data;
  int blocks;
  int most;                        /* units that may be free in a row: no more are */
  bool taken[UNITS];
};


static size_t rounded_up (size_t bytes, size_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

static bool is_medium (size_t bytes) { return bytes >= LEAST && bytes < BELOW; }

static int units_of (size_t bytes) { return (int)(rounded_up(bytes, UNIT) / UNIT); }


/* Memory on huge pages of its own, for which the system is asked. */
static void *take_alone (size_t bytes) {
  void *data = aligned_alloc(HUGE_PAGE, rounded_up(bytes, HUGE_PAGE));
#ifdef MADV_HUGEPAGE
  if (data != NULL) madvise(data, rounded_up(bytes, HUGE_PAGE), MADV_HUGEPAGE);
#endif
  return data;
}


/*
** {==================================================================
** Regions
** ===================================================================
*/

/* The first of n free units in a row; -1: there are none, and 'most' says how many there are. */
static int free_units (region *r, int n) {
  int most = 0;
  for (int i = 0, first = 0; i < UNITS; i++) {
    if (r->taken[i]) { first = i + 1; continue; }
    if (i + 1 - first > most) most = i + 1 - first;
    if (most == n) return first;
  }
  r->most = most;
  return -1;
}


static void *take_units (region *r, int n) {
  int first = r->most < n ? -1 : free_units(r, n);
  if (first < 0) return NULL;
  memset(r->taken + first, true, (size_t)n);
  r->blocks++;
  return r->data + (size_t)first * UNIT;
}


/* The new one is the last: blocks fill the older ones, so that later ones become empty. */
static region *add_region (region **last) {
  region *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->data = take_alone(UNITS * UNIT);
  if (r->data == NULL) { free(r); return NULL; }
  r->most = UNITS;
  return *last = r;
}


static void *take_shared (pages *p, int n) {
  region **at = &p->first;
  for (; *at != NULL; at = &(*at)->next) {
    void *data = take_units(*at, n);
    if (data != NULL) return data;
  }
  region *r = add_region(at);
  return r != NULL ? take_units(r, n) : NULL;
}


static void drop (region **at) {
  region *r = *at;
  *at = r->next;
  free(r->data);
  free(r);
}


/* Gives back a block of a region; false: the block is in none. */
static bool give_shared (pages *p, const char *data, int n) {
  region **at = &p->first;
  while (*at != NULL && (data < (*at)->data || data >= (*at)->data + UNITS * UNIT))
    at = &(*at)->next;
  region *r = *at;
  if (r == NULL) return false;
  memset(r->taken + (size_t)(data - r->data) / UNIT, false, (size_t)n);
  r->most = UNITS;
  if (--r->blocks == 0) drop(at);
  return true;
}

/* }================================================================== */


/*
** aligned_alloc of the GNU library takes more than a block and gives the rest back, so that a block
** that was freed is too small for the next one of its size, and the heap grows. Blocks of a page or
** more are malloc's, with the data aligned in them.
*/
static bool is_shifted (size_t bytes) { return !HEED_EXACT && bytes >= UNIT && bytes < BELOW; }


static void *take_shifted (size_t bytes) {
  void *block = malloc(bytes + ALIGNMENT);
  return block != NULL ? aligned_in(block) : NULL;
}


static void *take_unshared (size_t bytes) {
  void *data = NULL;
  if (HEED_EXACT) return posix_memalign(&data, ALIGNMENT, bytes) == 0 ? data : NULL;
  if (bytes >= BELOW) return take_alone(bytes);
  return is_shifted(bytes) ? take_shifted(bytes) :
         aligned_alloc(ALIGNMENT, rounded_up(bytes, ALIGNMENT));
}


void *pages_take (pages *p, size_t bytes) {
  void *data = NULL;
  if (bytes == 0) bytes = 1;
  if (bytes > SIZE_MAX - HUGE_PAGE) return NULL;
  if (p != NULL && is_medium(bytes) && !HEED_EXACT) data = take_shared(p, units_of(bytes));
  return data != NULL ? data : take_unshared(bytes);
}


void pages_give (pages *p, void *data, size_t bytes) {
  if (data == NULL) return;
  if (p != NULL && is_medium(bytes) && give_shared(p, data, units_of(bytes))) return;
  free(is_shifted(bytes) ? aligned_block(data) : data);
}


void pages_close (pages *p) {
  while (p->first != NULL) drop(&p->first);
}
