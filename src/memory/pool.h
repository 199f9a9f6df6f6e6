/*
** pool.h - the threads of a context.
*/

#ifndef pool_h
#define pool_h

#include "heed.h"

#pragma GCC visibility push(hidden)

#define MOST_THREADS 256

typedef struct pool pool;
struct interruption;
typedef void (*pool_piece) (void *arg, int64_t from, int64_t to);

/* Starts no thread yet; NULL: no memory. 'threads' counts the caller. */
pool *pool_open (int threads, struct interruption *polled);
void pool_close (pool *p);
int pool_threads (const pool *p);
bool pool_resize (pool *p, int threads);
int pool_cores (void);             /* that this process may use */

/*
** piece(arg, from, to) for ranges that cover 0 to n - 1, on any threads, returning when all are
** done; 'grain' items are worth a thread. Any thread may run any range, so results must not depend
** on the thread. In a forked child all work runs on the caller. An interruption is noticed between
** ranges, which are short where pieces of 'grain' are; a piece that may take longer than some
** milliseconds polls by itself, and returns.
*/
void pool_run (pool *p, int64_t n, int64_t grain, pool_piece piece, void *arg);

/* The same for items that cost much or differently much: more ranges, taken as threads can. */
void pool_run_uneven (pool *p, int64_t n, int64_t grain, pool_piece piece, void *arg);

bool pool_stopped (const pool *p);           /* interrupt_stops */

#pragma GCC visibility pop

#endif
