/*
** emulate_device.cc - emulated GPUs: their memory, which the host can't access, and failures.
**
** Settings come from the environment when the object is first used:
**
**   HEED_EMULATED_DEVICES=2    how many there are; 0: none, and no driver
**   HEED_EMULATED_MEMORY=n     MiB of each
**   HEED_EMULATED_DRIVER=n     the version of CUDA that the driver is for: 12040 is 12.4
**   HEED_EMULATED_FAIL=n       the n-th call that may fail does, for want of memory
**   HEED_EMULATED_CODE=c       fails with this code instead
**   HEED_EMULATED_LOST=n       from the n-th call on, every device is lost
**   HEED_EMULATED_ASYNC=0      work does not wait in its stream, but runs at once
**   HEED_EMULATED_ATOMICS=n    threads switch at atomic operations, and a launch may do n of them
**   HEED_EMULATED_ORDER=o      which thread goes on: one of the 'lowest' warp, of the 'highest', or
**                              any, drawn by the number o; else the first that could
**   HEED_EMULATED_SHARED=n     KiB of dynamic shared memory that a block may have: 99, 163 or 227
**   HEED_EMULATED_THREADS=n    threads that a block may have: 1024
**   HEED_EMULATED_PARAMETERS=n bytes of a kernel's parameters: 4096
**   HEED_EMULATED_COUNT=f      at the end, appends what each kernel did to memory to the file f
**
** As in CUDA, a thread has a context, which is a device, or none: then what needs one makes that
** of device 0.
*/

#include "spec/emulated/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#define MADE_FOR 13000             /* the version of CUDA that this GPU's runtime has */
#define MOST_DEVICES 8
#define ARENA ((size_t)1 << 36)    /* bytes of addresses of a device */
#define PAGE ((size_t)4096)
#define CLASSES 64                 /* of free blocks: powers of 2, in pages */
#define GUARD_BYTES ((size_t)256)
#define GUARD_BYTE 0x5c
#define MUCH ((size_t)1 << 20)     /* more memory is closed only after each SELDOM works */
#define SELDOM 256
#define PIN ((size_t)256)          /* before pinned memory */

typedef struct gpu {
  char *arena;
  size_t used, live;               /* bytes of addresses handed out, of live blocks */
  size_t open;                     /* of those handed out, from the first: accessible */
  size_t *length;                  /* of the block that begins at a page, + 1; 0: none */
  uint32_t *next_free;             /* page of the next free block of its class */
  uint32_t first_free[CLASSES];
} gpu;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct machine {
  bool ready, asynchronous;
  int gpus, driver, code;
  int64_t fail, lost, calls;
  size_t memory;
  struct gpu gpu[MOST_DEVICES];
  int open;                        /* works that run: memory is accessible */
  unsigned contexts;               /* bits: devices that have one */
  int64_t closings;
  int last;                        /* failure */
  char text[600];                  /* of a kernel that failed */
} m;

int64_t machine_order;
struct machine_limits machine_limits;

static __thread int current = -1;  /* the device whose context is this thread's; -1: none */


/*
** {==================================================================
** Calls: one at a time, counted, some fail
** ===================================================================
*/

static int64_t setting (const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text != '\0' ? atoll(text) : otherwise;
}


static int64_t order_of (const char *text) {
  if (text == NULL || *text == '\0') return MACHINE_AS_READY;
  if (strcmp(text, "lowest") == 0) return MACHINE_LOWEST;
  if (strcmp(text, "highest") == 0) return MACHINE_HIGHEST;
  return MACHINE_RANDOM + atoll(text);
}


static void make_ready (void) {
  m.ready = true;
  m.gpus = (int)setting("HEED_EMULATED_DEVICES", 2);
  if (m.gpus > MOST_DEVICES) m.gpus = MOST_DEVICES;
  m.driver = m.gpus > 0 ? (int)setting("HEED_EMULATED_DRIVER", MADE_FOR) : 0;
  m.memory = (size_t)setting("HEED_EMULATED_MEMORY", 8192) << 20;
  m.fail = setting("HEED_EMULATED_FAIL", 0);
  m.code = (int)setting("HEED_EMULATED_CODE", RUNTIME_NO_MEMORY);
  m.lost = setting("HEED_EMULATED_LOST", 0);
  m.asynchronous = setting("HEED_EMULATED_ASYNC", 1) != 0;
  emulated_atomics = setting("HEED_EMULATED_ATOMICS", 0);
  machine_order = order_of(getenv("HEED_EMULATED_ORDER"));
  machine_limits.shared = setting("HEED_EMULATED_SHARED", 99) << 10;
  machine_limits.threads = setting("HEED_EMULATED_THREADS", MACHINE_THREADS);
  if (machine_limits.threads > MACHINE_THREADS) machine_limits.threads = MACHINE_THREADS;
  machine_limits.parameters = setting("HEED_EMULATED_PARAMETERS", 4096);
  if (getenv("HEED_EMULATED_COUNT") != NULL) count_set();
}


void machine_enter (void) {
  pthread_mutex_lock(&lock);
  if (!m.ready) make_ready();
}


int machine_begin (void) {
  machine_enter();
  if (m.driver < MADE_FOR) return RUNTIME_OLD_DRIVER;
  m.calls++;
  if (m.lost > 0 && m.calls >= m.lost) return MACHINE_LOST;
  return m.calls == m.fail ? m.code : 0;
}


int machine_end (int code) {
  if (code != 0 && code != RUNTIME_NOT_READY) m.last = code;
  pthread_mutex_unlock(&lock);
  return code;
}


bool machine_asynchronous (void) { return m.asynchronous; }

int machine_current (void) {
  if (current < 0) {
    m.contexts |= 1;
    current = 0;
  }
  return current;
}


/* For specs: a bit for each device that has a context; the one of this thread, or -1. */
extern "C" {
__attribute__((visibility("default"))) int emulated_contexts (void);
__attribute__((visibility("default"))) int emulated_current (void);
}

int emulated_contexts (void) { return (int)m.contexts; }
int emulated_current (void) { return current; }


int machine_lose (const char *why) {
  snprintf(m.text, sizeof m.text, "emulated GPU: %s", why);
  m.lost = m.calls;
  return MACHINE_LOST;
}

/* }================================================================== */


/*
** {==================================================================
** Memory: blocks of whole pages, each with a guard behind it
** ===================================================================
*/

static bool make_arena (gpu *c) {
  if (c->arena != NULL) return true;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, both = PROT_READ | PROT_WRITE;
  size_t pages = ARENA / PAGE;
  void *arena = mmap(NULL, ARENA, PROT_NONE, flags, -1, 0);
  void *length = mmap(NULL, pages * sizeof *c->length, both, flags, -1, 0);
  void *next = mmap(NULL, pages * sizeof *c->next_free, both, flags, -1, 0);
  if (arena == MAP_FAILED || length == MAP_FAILED || next == MAP_FAILED) return false;
  c->arena = (char *)arena;
  c->length = (size_t *)length;
  c->next_free = (uint32_t *)next;
  c->used = PAGE;                  /* page 0 stays free: it ends the lists */
  return true;
}


void machine_open (void) {
  if (m.open++ > 0) return;
  for (int i = 0; i < m.gpus; i++) {
    gpu *c = &m.gpu[i];
    if (c->arena == NULL || c->open == c->used) continue;
    mprotect(c->arena + c->open, c->used - c->open, PROT_READ | PROT_WRITE);
    c->open = c->used;
  }
}

/* Much memory takes long to close, so it stays open most of the time. */
void machine_close (void) {
  if (--m.open > 0) return;
  m.closings++;
  for (int i = 0; i < m.gpus; i++) {
    gpu *c = &m.gpu[i];
    if (c->arena == NULL || (c->used > MUCH && m.closings % SELDOM != 0)) continue;
    mprotect(c->arena, c->open, PROT_NONE);
    c->open = 0;
  }
}


static gpu *gpu_of (const void *data) {
  for (int i = 0; i < m.gpus; i++) {
    char *arena = m.gpu[i].arena;
    if (arena != NULL && (char *)data >= arena && (char *)data < arena + ARENA) return &m.gpu[i];
  }
  return NULL;
}

char *machine_arena (int index, size_t *bytes) {
  *bytes = ARENA;
  return index < m.gpus ? m.gpu[index].arena : NULL;
}


/* Of a block with its guard: the power of two, in pages, that holds it. */
static int class_of (size_t bytes) {
  size_t pages = (bytes + GUARD_BYTES + PAGE - 1) / PAGE;
  return pages <= 1 ? 0 : 64 - __builtin_clzll(pages - 1);
}


static char *take_block (gpu *c, int k) {
  uint32_t page = c->first_free[k];
  if (page != 0) {
    c->first_free[k] = c->next_free[page];
    return c->arena + page * PAGE;
  }
  size_t bytes = PAGE << k;
  if (bytes > ARENA - c->used) return NULL;
  char *block = c->arena + c->used;
  if (m.open > 0) {
    mprotect(block, bytes, PROT_READ | PROT_WRITE);
    c->open = c->used + bytes;
  }
  c->used += bytes;
  return block;
}


/* One block alone, unless it is open. */
static void protect (char *block, size_t bytes, int how) {
  const gpu *c = gpu_of(block);
  if (block >= c->arena + c->open)
    mprotect(block, (bytes + GUARD_BYTES + PAGE - 1) & ~(PAGE - 1), how);
}


/* Fills a new block with NaN, and its end with bytes that show writes past it. */
static void prepare (char *block, size_t bytes) {
  protect(block, bytes, PROT_READ | PROT_WRITE);
  ASAN_UNPOISON_MEMORY_REGION(block, bytes + GUARD_BYTES);
  memset(block, 0xff, bytes);
  memset(block + bytes, GUARD_BYTE, GUARD_BYTES);
  ASAN_POISON_MEMORY_REGION(block + bytes, GUARD_BYTES);
  protect(block, bytes, PROT_NONE);
}


static bool guard_holds (char *block, size_t bytes) {
  bool good = true;
  protect(block, bytes, PROT_READ | PROT_WRITE);
  ASAN_UNPOISON_MEMORY_REGION(block + bytes, GUARD_BYTES);
  for (size_t i = 0; i < GUARD_BYTES; i++) good = good && block[bytes + i] == GUARD_BYTE;
  ASAN_POISON_MEMORY_REGION(block, bytes + GUARD_BYTES);
  protect(block, bytes, PROT_NONE);
  return good;
}


static int alloc (void **data, size_t bytes) {
  gpu *c = &m.gpu[machine_current()];
  int k = class_of(bytes);
  if (!make_arena(c) || bytes > m.memory || c->live > m.memory - bytes) return RUNTIME_NO_MEMORY;
  char *block = take_block(c, k);
  if (block == NULL) return RUNTIME_NO_MEMORY;
  prepare(block, bytes);
  c->live += bytes;
  c->length[(size_t)(block - c->arena) / PAGE] = bytes + 1;
  *data = block;
  return 0;
}


int machine_free (void *data) {
  gpu *c = gpu_of(data);
  size_t page = c != NULL ? (size_t)((char *)data - c->arena) / PAGE : 0;
  if (c == NULL || c->length[page] == 0) return MACHINE_INVALID;
  size_t bytes = c->length[page] - 1;
  int k = class_of(bytes);
  bool good = guard_holds((char *)data, bytes);
  c->length[page] = 0;
  c->live -= bytes;
  c->next_free[page] = c->first_free[k];
  c->first_free[k] = (uint32_t)page;
  return good ? 0 : machine_lose("memory was written behind its end");
}

/* }================================================================== */


/*
** {==================================================================
** runtime.h: the device and its memory
** ===================================================================
*/

int runtime_version (int *driver) {
  int code = machine_begin();
  *driver = m.driver;
  return machine_end(code == RUNTIME_OLD_DRIVER ? 0 : code);
}

int runtime_needs (void) { return MADE_FOR; }

int emulated_load (void) { return machine_end(machine_begin()); }

int runtime_count (int *n) {
  int code = machine_begin();
  *n = code == 0 ? m.gpus : 0;
  return machine_end(code);
}

int runtime_device_read (int index, runtime_device *device) {
  int code = machine_begin();
  memset(device, 0, sizeof *device);
  if (code == 0 && (index < 0 || index >= m.gpus)) code = MACHINE_INVALID;
  snprintf(device->name, sizeof device->name, "emulated GPU");
  device->memory = m.memory;
  device->major = machine_limits.shared > 163 << 10 ? 9 : 8;     /* H100's, or A100's */
  device->minor = device->major == 8 && machine_limits.shared < 163 << 10 ? 6 : 0;
  device->multiprocessors = 4;
  device->block_shared = (int)machine_limits.shared;
  return machine_end(code);
}

/* A context is the address of its GPU. */
static cuda_context context_of (int index) {
  return index < 0 ? NULL : (cuda_context)&m.gpu[index];
}

int runtime_context (int index, cuda_context *c) {
  int code = machine_begin();
  if (code == 0 && (index < 0 || index >= m.gpus)) code = MACHINE_INVALID;
  *c = code == 0 ? context_of(index) : NULL;
  if (code == 0) m.contexts |= 1u << index;
  return machine_end(code);
}

int runtime_enter (cuda_context c, cuda_context *before) {
  *before = context_of(current);
  current = (int)((gpu *)c - m.gpu);
  return 0;
}

void runtime_leave (cuda_context, cuda_context before) {
  current = before == NULL ? -1 : (int)((gpu *)before - m.gpu);
}

int runtime_last (void) {
  int code = m.last;
  m.last = 0;
  return code;
}

const char *runtime_text (int code) {
  switch (code) {
    case 0: return "no error";
    case MACHINE_INVALID: return "invalid argument";
    case RUNTIME_NO_MEMORY: return "out of memory";
    case RUNTIME_OLD_DRIVER: return "CUDA driver version is insufficient for CUDA runtime version";
    case RUNTIME_NO_DEVICE: return "no CUDA-capable device is detected";
    case RUNTIME_NO_CODE: return "no kernel image is available for execution on the device";
    case MACHINE_IN_CAPTURE: return "operation not permitted when stream is capturing";
    case MACHINE_LOST: return m.text[0] != '\0' ? m.text : "unspecified launch failure";
    default: return "unknown error";
  }
}

int runtime_alloc (void **data, size_t bytes) {
  int code = machine_begin();
  *data = NULL;
  return machine_end(code != 0 ? code : alloc(data, bytes));
}

int runtime_free (void *data) {
  int code = machine_begin();
  if (code == 0) code = machine_end_captures();
  if (code == 0) code = machine_run_device(machine_current());
  return machine_end(code != 0 ? code : machine_free(data));
}

int runtime_alloc_in (void **data, size_t bytes, cuda_stream) {
  return runtime_alloc(data, bytes);
}

int runtime_memory (size_t *free, size_t *total) {
  int code = machine_begin();
  *total = m.memory;
  *free = m.memory - m.gpu[machine_current()].live;
  return machine_end(code);
}


/* Pinned memory begins with its length, and is in a list, so that copies can be checked. */
typedef struct pinned { struct pinned *next; size_t bytes; } pinned;

static pinned *first_pinned;

int runtime_alloc_host (void **data, size_t bytes) {
  void *block = NULL;
  int code = machine_begin();
  if (code == 0 && posix_memalign(&block, 256, PIN + bytes) != 0) code = RUNTIME_NO_MEMORY;
  if (code != 0) return machine_end(code);
  machine_current();
  pinned *p = (pinned *)block;
  *p = pinned{first_pinned, bytes};
  first_pinned = p;
  *data = (char *)block + PIN;
  return machine_end(0);
}

int runtime_free_host (void *data) {
  pinned *p = (pinned *)((char *)data - PIN), **at = &first_pinned;
  machine_begin();
  machine_current();
  int code = machine_end_captures();
  if (code != 0) return machine_end(code);
  for (int i = 0; i < m.gpus && code == 0; i++) code = machine_run_device(i);
  while (*at != NULL && *at != p) at = &(*at)->next;
  if (*at == NULL) return machine_end(MACHINE_INVALID);
  *at = p->next;
  free(p);
  return machine_end(code);
}

/* May work in a stream access this memory? */
bool machine_reaches (const void *data, size_t bytes) {
  if (gpu_of(data) != NULL) return true;
  for (pinned *p = first_pinned; p != NULL; p = p->next) {
    const char *start = (char *)p + PIN;
    if ((const char *)data >= start && (const char *)data + bytes <= start + p->bytes)
      return true;
  }
  return false;
}

/* }================================================================== */
