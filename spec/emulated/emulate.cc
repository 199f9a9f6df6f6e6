/*
** emulate.cc - blocks of threads as fibres, on the thread that waits for their results.
**
** A fibre runs threads of its block one after the other until one waits; then another fibre
** goes on. So a kernel without barriers is a plain loop on one fibre. Which thread goes on is a
** setting: those that may go on in the order in which they became so ('ready' holds them, and
** threads start in rising or falling order, alternating from block to block), or those of the
** lowest warp, of the highest, or any, so that a dependence on their order shows.
*/

#include "spec/emulated/machine.h"

#include <stdio.h>
#include <stdlib.h>

#define WARPS MACHINE_WARPS
#define BARRIERS 16
#define ROW 256                    /* most bytes that a lane gives to a table */


uint3 emulated_thread EMULATED_OWN, emulated_block EMULATED_OWN;
dim3 emulated_threads EMULATED_OWN, emulated_blocks EMULATED_OWN;
char *emulated_shared EMULATED_OWN;
int64_t emulated_atomics EMULATED_OWN;


/*
** {==================================================================
** A block
** ===================================================================
*/

typedef enum thread_state { NOT_STARTED, READY, AT_BARRIER, AT_WARP, ENDED } thread_state;

typedef struct thread {
  thread_state state;
  fibre *on;                       /* where it waits */
  int barrier;                     /* at which it waits */
  emulated_site site;              /* of what it waits at, or waited at last */
  emulated_exchange kind;          /* its latest exchange */
  unsigned mask;                   /* lanes of that exchange */
  uint64_t value;                  /* the lane's operand, then its result */
  int lane;                        /* lane whose operand it reads */
  int table;                       /* of two tables, the one it used last */
} thread;

typedef struct warp {
  unsigned waiting;                /* lanes that wait for others */
  unsigned live;                   /* lanes that have not ended */
  unsigned able;                   /* lanes that may go on or start; not in the first order */
  char *table[2];                  /* of 32 * ROW bytes; not a block's variables, so elsewhere */
} warp;

typedef struct barrier {
  int waiting, yes, count, result;
  emulated_site site;              /* of the first that waits */
} barrier;

static struct block {
  int n, started, ended;
  int waiting;                     /* threads at barriers */
  bool falling;                    /* threads start from the last */
  int64_t atomics;                 /* operations of the launch so far */
  int now;                         /* the thread that runs */
  int next;                        /* the thread that a fibre is to start */
  thread threads[MACHINE_THREADS];
  warp warps[WARPS];
  barrier barriers[BARRIERS];
  int ready[MACHINE_THREADS], first, nready;     /* a ring */
  uint64_t drawn;                  /* of the random order */
  char what[512];                  /* what went wrong */
  void (*run) (void *);
  void *call;
} b;


static void set_thread (int t) {
  unsigned x = emulated_threads.x, y = emulated_threads.y;
  b.now = t;
  if (x == (unsigned)b.n) emulated_thread = uint3{(unsigned)t, 0, 0};
  else emulated_thread = uint3{(unsigned)t % x, (unsigned)t / x % y, (unsigned)t / (x * y)};
}


int machine_thread (void) { return b.now; }


static int draw (int n) {
  b.drawn ^= b.drawn << 13; b.drawn ^= b.drawn >> 7; b.drawn ^= b.drawn << 17;
  return (int)((b.drawn >> 33) % (unsigned)n);
}

/* Picks a bit that is set, in the order of the setting. */
static int pick (unsigned bits, int64_t order) {
  if (order == MACHINE_LOWEST) return __builtin_ctz(bits);
  if (order == MACHINE_HIGHEST) return 31 - __builtin_clz(bits);
  for (int skip = draw(__builtin_popcount(bits)); skip > 0; skip--) bits &= bits - 1;
  return __builtin_ctz(bits);
}


static void wake (int t) {
  b.threads[t].state = READY;
  if (machine_order != MACHINE_AS_READY) b.warps[t / 32].able |= 1u << t % 32;
  else b.ready[(b.first + b.nready++) % MACHINE_THREADS] = t;
}


/* Takes out the thread that goes on; -1: there is none. 'others': rather not one that just ran. */
static int next_as_ready (bool others) {
  if (b.nready > 0 && !(others && b.started < b.n)) {
    int t = b.ready[b.first];
    b.first = (b.first + 1) % MACHINE_THREADS;
    b.nready--;
    return t;
  }
  if (b.started == b.n) return -1;
  int i = b.started++;
  return b.falling ? b.n - 1 - i : i;
}

static int next_of_warps (int64_t order) {
  unsigned warps = 0;
  for (int i = 0; i < (b.n + 31) / 32; i++) warps |= (unsigned)(b.warps[i].able != 0) << i;
  if (warps == 0) return -1;
  int w = pick(warps, order), lane = pick(b.warps[w].able, order);
  b.warps[w].able &= ~(1u << lane);
  return 32 * w + lane;
}

static int next_thread (bool others) {
  if (machine_order == MACHINE_AS_READY) return next_as_ready(others);
  return next_of_warps(others ? (int64_t)MACHINE_RANDOM : machine_order);
}


/* Leaves this fibre for that of thread t, a free one if t is to start; or for the host's. */
static void go_on (int t) {
  if (b.what[0] != '\0' || t < 0) fibre_switch(NULL);
  else if (b.threads[t].state == NOT_STARTED) {
    b.next = t;
    fibre_switch(fibre_take());
  }
  else {
    b.now = t;
    fibre_switch(b.threads[t].on);
  }
}


/* Its fibre is left, until it is the turn of the thread, which 'wake' made ready. */
static void let_go_on (int t) {
  int me = b.now;
  b.threads[me].on = fibre_current();
  go_on(t);
  set_thread(me);
}

static void wait (thread_state state) {
  b.threads[b.now].state = state;
  let_go_on(next_thread(false));
}

/* The thread need not wait, but another one's turn may have come. */
static void yield (void) {
  if (machine_order == MACHINE_AS_READY) return;
  wake(b.now);
  let_go_on(next_thread(false));
}


void emulated_fail (const char *what) {
  if (b.what[0] == '\0')
    snprintf(b.what, sizeof b.what, "block (%u, %u, %u), thread %d: %s", emulated_block.x,
             emulated_block.y, emulated_block.z, b.now, what);
  fibre_switch(NULL);
}


/* The thread is at one place, and those that it should meet are at another. */
static void fail_apart (const char *what, emulated_site mine, emulated_site theirs) {
  char text[256];
  snprintf(text, sizeof text, "is at the %s of %s:%d, others at that of %s:%d", what, mine.file,
           mine.line, theirs.file, theirs.line);
  emulated_fail(text);
}

static bool same_site (emulated_site x, emulated_site y) {
  return x.line == y.line && (x.file == y.file || strcmp(x.file, y.file) == 0);
}


/*
** Others go first: all that have not started yet, and then those that are ready. So whoever waits
** for another thread in a loop is seen to wait: his operations are counted.
*/
void emulated_switch_thread (void) {
  if (++b.atomics > emulated_atomics) emulated_fail("does more atomic operations than it may");
  int t = next_thread(true);
  if (t < 0) return;
  wake(b.now);
  let_go_on(t);
}


/* Opens a barrier that all its threads have reached; the one that runs just goes on. */
static void try_barrier (int id) {
  barrier *a = &b.barriers[id];
  unsigned members[WARPS] = {0}, live[WARPS];
  int wanted = a->count > 0 ? a->count : b.n - b.ended;
  if (a->waiting == 0 || a->waiting < wanted) return;
  a->result = a->yes;
  b.waiting -= a->waiting;
  a->waiting = a->yes = 0;
  for (int t = 0; t < b.n; t++) {
    if (b.threads[t].state != AT_BARRIER || b.threads[t].barrier != id) continue;
    members[t / 32] |= 1u << t % 32;
    if (t == b.now) b.threads[t].state = READY;
    else wake(t);
  }
  for (int i = 0; i < WARPS; i++) live[i] = b.warps[i].live;
  race_join(members, live);
}


int emulated_barrier (int id, int count, bool yes, emulated_site site) {
  barrier *a = &b.barriers[id];
  thread *me = &b.threads[b.now];
  if (a->waiting > 0 && a->count != count) emulated_fail("one barrier is used with two sizes");
  if (a->waiting == 0) a->site = site;
  if (!same_site(a->site, site)) fail_apart("barrier", site, a->site);
  a->waiting++;
  b.waiting++;
  a->count = count;
  a->yes += yes;
  me->barrier = id;
  me->site = site;
  me->state = AT_BARRIER;
  try_barrier(id);
  if (me->state == AT_BARRIER) wait(AT_BARRIER);
  else yield();
  return a->result;
}


static void end_thread (void) {
  machine_end_copies();
  b.threads[b.now].state = ENDED;
  b.warps[b.now / 32].live &= ~(1u << b.now % 32);
  b.ended++;
  for (int i = 0; i < BARRIERS && b.waiting > 0; i++) try_barrier(i);
}


/* The body of a fibre: starts threads, as long as it is the turn of one that has not started. */
static void run_threads (void) {
  for (;;) {
    int t = b.next;
    while (t >= 0 && b.what[0] == '\0' && b.threads[t].state == NOT_STARTED) {
      set_thread(t);
      b.run(b.call);
      end_thread();
      t = next_thread(false);
    }
    fibre_rest();
    go_on(t);
  }
}

/* }================================================================== */


/*
** {==================================================================
** A warp
** ===================================================================
*/

static uint64_t combined (emulated_exchange kind, uint64_t a, uint64_t x) {
  switch (kind) {
    case EMULATED_ADD: return a + x;
    case EMULATED_MIN: return (int64_t)x < (int64_t)a ? x : a;
    case EMULATED_MAX: return (int64_t)x > (int64_t)a ? x : a;
    case EMULATED_LEAST: return x < a ? x : a;
    case EMULATED_MOST: return x > a ? x : a;
    case EMULATED_AND: return a & x;
    case EMULATED_OR: return a | x;
    case EMULATED_XOR: return a ^ x;
    case EMULATED_SYNC: case EMULATED_SHUFFLE: case EMULATED_BALLOT: case EMULATED_MATCH: break;
  }
  return x;
}


/* The result of lane 'me'. */
static uint64_t result_of (const thread *lanes, int me, unsigned mask, const uint64_t *value) {
  uint64_t y = 0;
  int wanted = lanes[me].lane;
  switch (lanes[me].kind) {
    case EMULATED_SYNC: return 0;
    case EMULATED_SHUFFLE:
      if ((mask >> wanted & 1) == 0) emulated_fail("wants the value of a lane outside its mask");
      return value[wanted];
    case EMULATED_BALLOT:
      for (int i = 0; i < 32; i++) y |= (uint64_t)((mask >> i & 1) && value[i]) << i;
      return y;
    case EMULATED_MATCH:
      for (int i = 0; i < 32; i++) y |= (uint64_t)((mask >> i & 1) && value[i] == value[me]) << i;
      return y;
    case EMULATED_ADD: case EMULATED_MIN: case EMULATED_MAX: case EMULATED_LEAST:
    case EMULATED_MOST: case EMULATED_AND: case EMULATED_OR: case EMULATED_XOR: break;
  }
  int first = __builtin_ctz(mask);
  y = value[first];
  for (int i = first + 1; i < 32; i++)
    if (mask >> i & 1) y = combined(lanes[me].kind, y, value[i]);
  return y;
}


/* All lanes of the mask wait: each gets its result. */
static void resolve (thread *lanes, int me, unsigned mask) {
  uint64_t value[32];
  for (int i = 0; i < 32; i++) {
    if ((mask >> i & 1) == 0) continue;
    value[i] = lanes[i].value;
    if (lanes[i].kind != lanes[me].kind || lanes[i].mask != mask)
      emulated_fail("is in another exchange than the lanes of its mask");
    if (!same_site(lanes[i].site, lanes[me].site))
      fail_apart("exchange", lanes[me].site, lanes[i].site);
    if (lanes[i].kind == EMULATED_SYNC && lanes[i].lane != lanes[me].lane)
      emulated_fail("used other tables than the lanes of its mask");
  }
  for (int i = 0; i < 32; i++)
    if (mask >> i & 1) lanes[i].value = result_of(lanes, i, mask, value);
}


/* Of all exchanges, __syncwarp alone orders what the lanes do to memory. */
static void join_warp (int which, unsigned mask) {
  unsigned members[WARPS] = {0}, live[WARPS] = {0};
  members[which] = mask;
  live[which] = b.warps[which].live;
  race_join(members, live);
}


uint64_t emulated_join (emulated_exchange kind, unsigned mask, uint64_t value, int lane,
                        emulated_site site) {
  int first = b.now & ~31, me = b.now & 31;
  thread *lanes = &b.threads[first], *t = &lanes[me];
  warp *w = &b.warps[b.now / 32];
  if ((mask >> me & 1) == 0) emulated_fail("is not in its own mask");
  t->kind = kind;
  t->mask = mask;
  t->value = value;
  t->lane = lane;
  t->site = site;
  w->waiting |= 1u << me;
  if ((w->waiting & mask) != mask) wait(AT_WARP);
  else {
    resolve(lanes, me, mask);
    w->waiting &= ~mask;
    if (kind == EMULATED_SYNC && lane == 0) join_warp(b.now / 32, mask);
    for (int i = 0; i < 32; i++)
      if (i != me && (mask >> i & 1)) wake(first + i);
    yield();
  }
  return t->value;
}


/* Two tables, alternating: no lane can use this one again before all have read it. */
const void *emulated_table (unsigned mask, const void *mine, size_t bytes, emulated_site site) {
  thread *t = &b.threads[b.now];
  char *table = b.warps[b.now / 32].table[t->table ^= 1];
  if (bytes > ROW) emulated_fail("gives too many bytes to a table");
  memcpy(table + (size_t)(b.now & 31) * bytes, mine, bytes);
  emulated_join(EMULATED_SYNC, mask, 0, 1 + t->table, site);
  return table;
}

/* }================================================================== */


/*
** {==================================================================
** A launch
** ===================================================================
*/

/* No thread can go on: why the first that waits does. */
static void describe_deadlock (void) {
  for (int t = 0; t < b.n; t++) {
    const thread *s = &b.threads[t];
    if (s->state == AT_BARRIER)
      snprintf(b.what, sizeof b.what, "block (%u, %u, %u), thread %d: waits at a barrier that "
               "others do not reach", emulated_block.x, emulated_block.y, emulated_block.z, t);
    if (s->state == AT_WARP)
      snprintf(b.what, sizeof b.what, "block (%u, %u, %u), thread %d: waits for lanes %08x of "
               "its warp, of which %08x are there", emulated_block.x, emulated_block.y,
               emulated_block.z, t, s->mask, b.warps[t / 32].waiting & s->mask);
    if (b.what[0] != '\0') return;
  }
}


static bool make_tables (void) {
  const size_t bytes = 32 * ROW;
  if (b.warps[0].table[0] != NULL) return true;
  char *all = (char *)calloc(2 * WARPS, bytes);
  for (int i = 0; i < 2 * WARPS && all != NULL; i++)
    b.warps[i / 2].table[i % 2] = all + (size_t)i * bytes;
  return all != NULL;
}


static void run_block (size_t shared) {
  b.started = b.ended = b.waiting = b.first = b.nready = 0;
  b.falling = !b.falling;
  memset(b.barriers, 0, sizeof b.barriers);
  memset(emulated_shared, 0xff, shared);         /* what was not written reads as NaN */
  for (int i = 0; i < (b.n + 31) / 32; i++) {
    int lanes = b.n - 32 * i;
    b.warps[i].waiting = 0;
    b.warps[i].able = b.warps[i].live = lanes < 32 ? (1u << lanes) - 1 : ~0u;
  }
  for (int t = 0; t < b.n; t++) {
    b.threads[t].state = NOT_STARTED;
    b.threads[t].table = 0;
  }
  race_begin_block();
  go_on(next_thread(false));
  race_end_block();
  if (b.what[0] == '\0' && b.ended < b.n) describe_deadlock();
}


/* The blocks one after the other, in the highest order from the last. */
static void run_blocks (dim3 blocks, size_t shared) {
  const uint64_t n = (uint64_t)blocks.x * blocks.y * blocks.z;
  for (uint64_t i = 0; i < n && b.what[0] == '\0'; i++) {
    uint64_t k = machine_order == MACHINE_HIGHEST ? n - 1 - i : i;
    emulated_block = uint3{(unsigned)(k % blocks.x), (unsigned)(k / blocks.x % blocks.y),
                           (unsigned)(k / blocks.x / blocks.y)};
    run_block(shared);
  }
}


const char *machine_run (dim3 blocks, dim3 threads, size_t shared, const emulated_work *work) {
  if (!fibres_make(run_threads) || !make_tables()) return "no memory for fibres";
  void *memory = NULL;             /* of exactly that size, for ASan */
  if (posix_memalign(&memory, 1024, shared > 0 ? shared : 1) != 0)
    return "no memory for shared memory";
  emulated_shared = (char *)memory;
  emulated_blocks = blocks;
  emulated_threads = threads;
  b.n = (int)(threads.x * threads.y * threads.z);
  b.what[0] = '\0';
  b.atomics = 0;
  b.drawn = 88172645463325252ull + (uint64_t)machine_order;
  b.run = work->run;
  b.call = work->call;
  race_begin_launch(shared, work->kernel);
  run_blocks(blocks, shared);
  race_end_launch();
  free(memory);
  if (b.what[0] == '\0') return NULL;
  machine_forget_copies();
  fibres_clear();
  return b.what;
}

/* }================================================================== */
