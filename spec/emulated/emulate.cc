/*
** emulate.cc - blocks of threads as fibres, on the thread that waits for their results.
**
** A fibre runs threads of its block one after the other until one waits; then another fibre
** goes on. So a kernel without barriers is a plain loop on one fibre, and 'ready' holds the
** threads that may go on. Threads start in rising or falling order, alternating from block to
** block, so that a dependence on their order shows.
*/

#include "spec/emulated/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MOST_THREADS 1024
#define WARPS (MOST_THREADS / 32)
#define BARRIERS 16
#define STACK ((size_t)256 << 10)
#define GUARD ((size_t)4096)
#define ROW 256                    /* most bytes that a lane gives to a table */

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif


uint3 emulated_thread, emulated_block;
dim3 emulated_threads, emulated_blocks;
char *emulated_shared;
int64_t emulated_atomics;


/*
** {==================================================================
** Fibres
** ===================================================================
*/

typedef struct fibre {
  void *stack_pointer;
  char *stack;                     /* its lowest byte; NULL: the host thread's own */
  bool started;
  struct fibre *next;              /* of those that are idle */
#ifdef __SANITIZE_ADDRESS__
  void *fake;
  const void *bottom;
  size_t size;
#endif
} fibre;

static fibre host, fibres[MOST_THREADS], *idle, *current;

static void run_threads (void);


#if defined(__x86_64__)

/* Saves the registers that a call preserves, and the stack; goes on where 'to' was left. */
extern "C" void emulated_switch (void **from, void *to) __attribute__((visibility("hidden")));
asm(".text\n"
    ".hidden emulated_switch\n"
    ".globl emulated_switch\n"
    "emulated_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n");

static void start_fibre (fibre *f) {
  void **top = (void **)(f->stack + STACK) - 1;  /* aligned as a call leaves it */
  *top = NULL;                     /* the return address: never used */
  *--top = (void *)run_threads;
  f->stack_pointer = top - 6;
}

static void switch_stack (fibre *from, fibre *to) {
  emulated_switch(&from->stack_pointer, to->stack_pointer);
}

#else

#include <ucontext.h>

static ucontext_t contexts[MOST_THREADS + 1];

static ucontext_t *context_of (fibre *f) {
  return &contexts[f == &host ? MOST_THREADS : f - fibres];
}

static void start_fibre (fibre *f) {
  ucontext_t *c = context_of(f);
  getcontext(c);
  c->uc_stack.ss_sp = f->stack;
  c->uc_stack.ss_size = STACK;
  makecontext(c, run_threads, 0);
}

static void switch_stack (fibre *from, fibre *to) { swapcontext(context_of(from), context_of(to)); }

#endif


#ifdef __SANITIZE_ADDRESS__

static fibre *left;

static void before_switch (fibre *from, fibre *to) {
  left = from;
  __sanitizer_start_switch_fiber(&from->fake, to == &host ? host.bottom : to->stack,
                                 to == &host ? host.size : STACK);
}

/* A switch from the host's stack is how its bounds become known. */
static void after_switch (fibre *f) {
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(f->fake, &bottom, &size);
  if (left == &host) { host.bottom = bottom; host.size = size; }
}

#else
static void before_switch (fibre *from, fibre *to) { (void)from; (void)to; }
static void after_switch (fibre *f) { (void)f; }
#endif


static void switch_to (fibre *to) {
  fibre *from = current;
  if (!to->started) { start_fibre(to); to->started = true; }
  current = to;
  before_switch(from, to);
  switch_stack(from, to);
  after_switch(from);
}


/* All of them idle and not started, wherever they were left. */
static void clear_fibres (void) {
  idle = NULL;
  for (int i = MOST_THREADS - 1; i >= 0; i--) {
    fibre *f = &fibres[i];
#ifdef __SANITIZE_ADDRESS__
    if (f->started) ASAN_UNPOISON_MEMORY_REGION(f->stack, STACK);
    f->fake = NULL;
#endif
    f->started = false;
    f->next = idle;
    idle = f;
  }
}


/* Stacks, each with a guard page below it. */
static bool make_fibres (void) {
  if (fibres[0].stack != NULL) return true;
  size_t bytes = MOST_THREADS * (STACK + GUARD);
  char *stacks = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == (char *)MAP_FAILED) return false;
  for (int i = 0; i < MOST_THREADS; i++) {
    char *low = stacks + (size_t)i * (STACK + GUARD);
    mprotect(low, GUARD, PROT_NONE);
    fibres[i].stack = low + GUARD;
  }
  clear_fibres();
  return true;
}

/* }================================================================== */


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
  emulated_exchange kind;          /* its latest exchange */
  unsigned mask;                   /* lanes of that exchange */
  uint64_t value;                  /* the lane's operand, then its result */
  int lane;                        /* lane whose operand it reads */
  int table;                       /* of two tables, the one it used last */
} thread;

typedef struct warp {
  unsigned waiting;                /* lanes that wait for others */
  char table[2][32 * ROW];
} warp;

typedef struct barrier { int waiting, yes, count, result; } barrier;

static struct block {
  int n, started, ended;
  int waiting;                     /* threads at barriers */
  bool falling;                    /* threads start from the last */
  bool starting;                   /* the fibre that goes on is to start a thread */
  int64_t atomics;                 /* operations of the launch so far */
  int now;                         /* the thread that runs */
  thread threads[MOST_THREADS];
  warp warps[WARPS];
  barrier barriers[BARRIERS];
  int ready[MOST_THREADS], first, nready;        /* a ring */
  char what[256];                  /* what went wrong */
  void (*run) (void *);
  void *call;
} b;


static void set_thread (int t) {
  unsigned x = emulated_threads.x, y = emulated_threads.y;
  b.now = t;
  if (x == (unsigned)b.n) emulated_thread = uint3{(unsigned)t, 0, 0};
  else emulated_thread = uint3{(unsigned)t % x, (unsigned)t / x % y, (unsigned)t / (x * y)};
}


static void wake (int t) {
  b.threads[t].state = READY;
  b.ready[(b.first + b.nready++) % MOST_THREADS] = t;
}


static int next_to_start (void) {
  int i = b.started++;
  return b.falling ? b.n - 1 - i : i;
}


static fibre *free_fibre (void) {
  fibre *f = idle;
  idle = f->next;
  return f;
}


/* Leaves this fibre for one that can go on: a waiting thread's, a new one, or the host's. */
static void go_on (void) {
  if (b.what[0] == '\0' && b.nready > 0) {
    int t = b.ready[b.first];
    b.first = (b.first + 1) % MOST_THREADS;
    b.nready--;
    b.now = t;
    switch_to(b.threads[t].on);
  }
  else if (b.what[0] == '\0' && b.started < b.n) switch_to(free_fibre());
  else switch_to(&host);
}


/* The thread waits: its fibre is left, until 'wake' made it ready. */
static void wait (thread_state state) {
  int me = b.now;
  b.threads[me].state = state;
  b.threads[me].on = current;
  go_on();
  set_thread(me);
}


void emulated_fail (const char *what) {
  if (b.what[0] == '\0')
    snprintf(b.what, sizeof b.what, "block (%u, %u, %u), thread %d: %s", emulated_block.x,
             emulated_block.y, emulated_block.z, b.now, what);
  switch_to(&host);
}


/*
** Others go first: all that have not started yet, and then those that are ready. So whoever waits
** for another thread in a loop is seen to wait: his operations are counted.
*/
void emulated_switch_thread (void) {
  int me = b.now;
  if (++b.atomics > emulated_atomics) emulated_fail("does more atomic operations than it may");
  wake(me);
  b.threads[me].on = current;
  b.starting = b.started < b.n;
  if (b.starting) switch_to(free_fibre());
  else go_on();
  set_thread(me);
}


/* Opens a barrier that all its threads have reached; the one that runs just goes on. */
static void try_barrier (int id) {
  barrier *a = &b.barriers[id];
  int wanted = a->count > 0 ? a->count : b.n - b.ended;
  if (a->waiting == 0 || a->waiting < wanted) return;
  a->result = a->yes;
  b.waiting -= a->waiting;
  a->waiting = a->yes = 0;
  for (int t = 0; t < b.n; t++) {
    if (b.threads[t].state != AT_BARRIER || b.threads[t].barrier != id) continue;
    if (t == b.now) b.threads[t].state = READY;
    else wake(t);
  }
}


int emulated_barrier (int id, int count, bool yes) {
  barrier *a = &b.barriers[id];
  thread *me = &b.threads[b.now];
  if (a->waiting > 0 && a->count != count) emulated_fail("one barrier is used with two sizes");
  a->waiting++;
  b.waiting++;
  a->count = count;
  a->yes += yes;
  me->barrier = id;
  me->state = AT_BARRIER;
  try_barrier(id);
  if (me->state == AT_BARRIER) wait(AT_BARRIER);
  return a->result;
}


static void end_thread (void) {
  machine_end_copies();
  b.threads[b.now].state = ENDED;
  b.ended++;
  for (int i = 0; i < BARRIERS && b.waiting > 0; i++) try_barrier(i);
}


/* The body of a fibre: starts threads, as long as no other one is ready. */
static void run_threads (void) {
  after_switch(current);
  for (;;) {
    while (b.what[0] == '\0' && (b.starting || b.nready == 0) && b.started < b.n) {
      b.starting = false;
      set_thread(next_to_start());
      b.run(b.call);
      end_thread();
    }
    current->next = idle;
    idle = current;
    go_on();
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
    if (lanes[i].kind == EMULATED_SYNC && lanes[i].lane != lanes[me].lane)
      emulated_fail("used other tables than the lanes of its mask");
  }
  for (int i = 0; i < 32; i++)
    if (mask >> i & 1) lanes[i].value = result_of(lanes, i, mask, value);
}


uint64_t emulated_join (emulated_exchange kind, unsigned mask, uint64_t value, int lane) {
  int first = b.now & ~31, me = b.now & 31;
  thread *lanes = &b.threads[first], *t = &lanes[me];
  warp *w = &b.warps[b.now / 32];
  if ((mask >> me & 1) == 0) emulated_fail("is not in its own mask");
  t->kind = kind;
  t->mask = mask;
  t->value = value;
  t->lane = lane;
  w->waiting |= 1u << me;
  if ((w->waiting & mask) != mask) wait(AT_WARP);
  else {
    resolve(lanes, me, mask);
    w->waiting &= ~mask;
    for (int i = 0; i < 32; i++)
      if (i != me && (mask >> i & 1)) wake(first + i);
  }
  return t->value;
}


/* Two tables, alternating: no lane can use this one again before all have read it. */
const void *emulated_table (unsigned mask, const void *mine, size_t bytes) {
  thread *t = &b.threads[b.now];
  char *table = b.warps[b.now / 32].table[t->table ^= 1];
  if (bytes > ROW) emulated_fail("gives too many bytes to a table");
  memcpy(table + (size_t)(b.now & 31) * bytes, mine, bytes);
  emulated_join(EMULATED_SYNC, mask, 0, 1 + t->table);
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


static void run_block (size_t shared) {
  b.started = b.ended = b.waiting = b.first = b.nready = 0;
  b.falling = !b.falling;
  memset(b.barriers, 0, sizeof b.barriers);
  memset(emulated_shared, 0xff, shared);         /* what was not written reads as NaN */
  for (int i = 0; i < (b.n + 31) / 32; i++) b.warps[i].waiting = 0;
  for (int t = 0; t < b.n; t++) {
    b.threads[t].state = NOT_STARTED;
    b.threads[t].table = 0;
  }
  switch_to(free_fibre());
  if (b.what[0] == '\0' && b.ended < b.n) describe_deadlock();
}


const char *machine_run (dim3 blocks, dim3 threads, size_t shared, void (*run) (void *),
                         void *call) {
  if (!make_fibres()) return "no memory for fibres";
  void *memory = NULL;             /* of exactly that size, for ASan */
  if (posix_memalign(&memory, 1024, shared > 0 ? shared : 1) != 0)
    return "no memory for shared memory";
  emulated_shared = (char *)memory;
  emulated_blocks = blocks;
  emulated_threads = threads;
  b.n = (int)(threads.x * threads.y * threads.z);
  b.what[0] = '\0';
  b.starting = false;
  b.atomics = 0;
  b.run = run;
  b.call = call;
  current = &host;
  host.started = true;
  for (unsigned z = 0; z < blocks.z && b.what[0] == '\0'; z++)
    for (unsigned y = 0; y < blocks.y && b.what[0] == '\0'; y++)
      for (unsigned x = 0; x < blocks.x && b.what[0] == '\0'; x++) {
        emulated_block = uint3{x, y, z};
        run_block(shared);
      }
  free(memory);
  if (b.what[0] == '\0') return NULL;
  machine_forget_copies();
  clear_fibres();
  return b.what;
}

/* }================================================================== */
