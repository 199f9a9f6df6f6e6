/*
** account.h - the ledger of a context: all bytes of the host that it holds, and their limit.
*/

#ifndef account_h
#define account_h

#include <pthread.h>
#include <stdatomic.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

#define ACCOUNT_READ_EVERY ((size_t)64 << 20)    /* growth after which the machine is read again */

/*
** Foreign memory is not counted. Kernels' threads count their scratch memory while the caller's
** thread, which counts all else, waits for them or works as one of them.
*/
typedef struct memory_account {
  size_t live, cached;             /* of storage: used, and kept for the next tensor */
  size_t blocks;                   /* small blocks, used or kept: handles, nodes, recorded works */
  size_t pressed;                  /* of blocks, at which the host is to reclaim some */
  atomic_size_t scratch;
  atomic_size_t refused;           /* bytes of scratch that a kernel did not get, or 0 */
  atomic_size_t peak;              /* most bytes used at once */
  size_t limit;
  size_t sure;                     /* the total that fits without another look at the machine */
  bool limited;                    /* by the user */
  pthread_mutex_t scratching;      /* held where threads compare scratch memory with the limit */
} memory_account;

void account_open (memory_account *m);
void account_close (memory_account *m);

static inline size_t account_used (const memory_account *m) {
  return m->live + m->blocks + atomic_load_explicit(&m->scratch, memory_order_relaxed);
}

bool account_fits_after_look (memory_account *m, size_t bytes);
void account_raise_peak (memory_account *m);

static inline bool account_fits (memory_account *m, size_t bytes) {
  const size_t total = account_used(m) + m->cached;
  const bool sure = bytes <= ACCOUNT_READ_EVERY && total <= m->sure && bytes <= m->sure - total;
  return sure || account_fits_after_look(m, bytes);
}

static inline void account_note_peak (memory_account *m) {
  if (account_used(m) > atomic_load_explicit(&m->peak, memory_order_relaxed)) account_raise_peak(m);
}

/* The failure of what did not fit; false. 'function': as core_fail has it. */
bool account_refuse (heed_context *cx, const char *function, size_t bytes, const char *what);

/* Was scratch memory refused? Then that is a failure of the function, and it is over. */
bool account_refused (heed_context *cx, const char *function);

#pragma GCC visibility pop

#endif
