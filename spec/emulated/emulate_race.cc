/*
** emulate_race.cc - races of a kernel: two accesses to the same bytes, one of them a write, that
** nothing orders; and reads of shared memory that was never written. They end the kernel.
**
** Kernels compiled by -fsanitize=thread call the functions at the end of this file before every
** access; other objects don't, and nothing of this happens. A shadow holds, for each word of
** shared and of device memory, its last write and two reads: by which thread, and when. Time is
** counted in barriers, __syncwarp and fences, which alone order accesses:
**
** - within a block, a thread has seen what others did before a barrier, or a __syncwarp, of them
**   and of it. Other exchanges of a warp order nothing, as in CUDA;
** - between blocks, or without a barrier: one thread does something, a fence, and an atomic
**   operation; later another one does an atomic operation on the same variable, a fence, and
**   something. So the one has seen what the other had seen or done. A chain over two variables is
**   not followed, and is taken for a race.
**
** Atomic operations, and accesses to what is volatile, are no race among each other. Launches are
** ordered: that streams wait for one another is not checked.
*/

#include "spec/emulated/machine.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define WORD 4                     /* bytes of a cell */
#define MEMORIES 10                /* those of 8 devices, dynamic and static shared memory */
#define SHARED_BYTES ((size_t)1 << 20)           /* dynamic, at most */
#define MOST_RELEASES ((size_t)1 << 16)          /* of a launch; later ones are not seen */
#define MOST_PENDING 4             /* variables that a thread read before a fence */

typedef struct access {
  uint32_t time, block;            /* block: its number in the launch */
  uint32_t place;                  /* in the object's code; 0: there was no access */
  uint16_t thread;
  bool atomic;
} access;

/* A word, or a byte: of a word whose bytes were accessed apart, its bytes' cells are used. */
typedef struct alignas(64) cell {
  uint32_t serial;                 /* of the launch, or the block, that it is about */
  bool apart;
  access write, read[2];
} cell;

typedef struct shadow {
  uintptr_t from;
  size_t bytes;
  cell *words, *single;
  bool shared;
} shadow;

/* Before these times a thread has seen what others of its block did. */
typedef struct seen {
  uint32_t all, warp[MACHINE_WARPS], lane[32];
} seen;

typedef struct fence { uint32_t time, all, warp; bool beyond; } fence;

/* An atomic operation behind a fence: what others see that read the variable later. */
typedef struct release {
  uintptr_t at;
  uint32_t time, block;
  uint16_t thread;
  fence before;
} release;

/* The releases for a variable before its number 'n' was seen, by a thread at a time. */
typedef struct acquired { uintptr_t at; size_t n; uint32_t time; uint16_t thread; bool beyond; }
    acquired;

typedef struct pending { int n; uintptr_t at[MOST_PENDING]; size_t seen[MOST_PENDING]; } pending;

static bool watched;               /* an object calls the functions below */
static __thread bool running __attribute__((tls_model("initial-exec")));   /* a kernel, here */

static struct race {
  shadow memory[MEMORIES], *latest;
  int memories;
  uint32_t now, block, launches, blocks;         /* 'block' of the launch; of both, how many */
  int threads;
  seen saw[MACHINE_THREADS];
  fence fences[MACHINE_THREADS];
  pending reads[MACHINE_THREADS];
  release released[MOST_RELEASES];
  size_t releases;
  acquired got[MACHINE_THREADS];            /* of the block */
  size_t acquisitions;
  uintptr_t object;                /* the address of its code */
  char path[4096];
} r;


/*
** {==================================================================
** Kinds of memory
** ===================================================================
*/

static void *reserve (size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  if (at == MAP_FAILED) { perror("emulated GPU: no addresses for a shadow"); abort(); }
  return at;
}


static shadow *add_memory (const void *from, size_t bytes, bool shared) {
  shadow *s = &r.memory[r.memories++];
  s->from = ((uintptr_t)from + WORD - 1) / WORD * WORD;
  s->bytes = bytes > WORD ? bytes - (s->from - (uintptr_t)from) : bytes;
  s->words = (cell *)reserve(s->bytes / WORD * sizeof(cell) + sizeof(cell));
  s->single = (cell *)reserve(s->bytes * sizeof(cell));
  s->shared = shared;
  return s;
}


/* This object's variables that begin as zeros: static shared memory, and no other of kernels. */
static int add_object (struct dl_phdr_info *object, size_t, void *) {
  const uintptr_t mine = (uintptr_t)&r;
  for (int pass = 0, found = 0; pass < 2; pass++)
    for (int i = 0; i < object->dlpi_phnum; i++) {
      const ElfW(Phdr) *h = &object->dlpi_phdr[i];
      uintptr_t from = object->dlpi_addr + h->p_vaddr;
      size_t begun = h->p_filesz;
      if (h->p_type != PT_LOAD || (h->p_flags & PF_W) == 0) continue;
      if (mine >= from && mine < from + h->p_memsz) found = 1;
      if (pass == 0 || !found) continue;
      add_memory((void *)(from + begun), h->p_memsz - begun, true);
      r.object = object->dlpi_addr;
      const char *name = object->dlpi_name[0] != '\0' ? object->dlpi_name : "/proc/self/exe";
      if (realpath(name, r.path) == NULL) r.path[0] = '\0';
      return 1;
    }
  return 0;
}


/* Dynamic shared memory is the first, and lies elsewhere in each launch. */
static void find_memory (size_t shared) {
  if (r.memories == 0) {
    add_memory(NULL, SHARED_BYTES, true);
    dl_iterate_phdr(add_object, NULL);
  }
  r.memory[0].from = (uintptr_t)emulated_shared;
  r.memory[0].bytes = shared;
  size_t bytes;
  for (int i = 0; i < 8; i++) {
    char *arena = machine_arena(i, &bytes);
    bool have = arena == NULL;
    for (int k = 2; k < r.memories; k++) have = have || r.memory[k].from == (uintptr_t)arena;
    if (!have) add_memory(arena, bytes, false);
  }
  r.latest = &r.memory[0];
}


static shadow *memory_of (uintptr_t at) {
  if (at - r.latest->from < r.latest->bytes) return r.latest;
  for (int i = 0; i < r.memories; i++)
    if (at - r.memory[i].from < r.memory[i].bytes) return r.latest = &r.memory[i];
  return NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Order
** ===================================================================
*/

void race_begin_launch (size_t shared, const void *kernel) {
  if (!watched) return;
  find_memory(shared);
  r.now = 1;
  r.launches++;
  r.releases = 0;
  r.threads = (int)(emulated_threads.x * emulated_threads.y * emulated_threads.z);
  if (count_wanted) count_begin_launch(kernel, r.threads, shared);
  running = true;
}


void race_end_launch (void) { running = false; }


void race_begin_block (void) {
  if (!watched) return;
  const size_t n = (size_t)r.threads;
  r.block = emulated_block.x + emulated_blocks.x * (emulated_block.y + emulated_blocks.y *
                                                    emulated_block.z);
  r.blocks++;
  r.acquisitions = 0;
  memset(r.saw, 0, n * sizeof *r.saw);
  memset(r.fences, 0, n * sizeof *r.fences);
  memset(r.reads, 0, n * sizeof *r.reads);
}


void race_end_block (void) { if (running && count_wanted) count_flush(); }


static void see (uint32_t *time, uint32_t other) { if (other > *time) *time = other; }

/* The sum of what all of them have seen. */
static seen seen_by (const unsigned *members, int warp) {
  seen sum = {};
  for (int t = 0; t < r.threads; t++) {
    if ((members[t / 32] >> t % 32 & 1) == 0) continue;
    see(&sum.all, r.saw[t].all);
    for (int w = 0; w < MACHINE_WARPS; w++) see(&sum.warp[w], r.saw[t].warp[w]);
    for (int l = 0; l < 32 && warp >= 0; l++) see(&sum.lane[l], r.saw[t].lane[l]);
  }
  return sum;
}


void race_join (const unsigned *members, const unsigned *live) {
  if (!watched) return;
  bool every = true;
  int warps = 0, warp = -1;
  for (int w = 0; w < MACHINE_WARPS; w++) {
    every = every && members[w] == live[w];
    if (members[w] != 0) { warp = w; warps++; }
  }
  r.now++;
  if (every) {
    if (count_wanted) count_flush();
    for (int t = 0; t < r.threads; t++) r.saw[t].all = r.now;
    return;
  }
  if (warps > 1) warp = -1;        /* of lanes, those of one warp alone are told apart */
  seen sum = seen_by(members, warp);
  for (int w = 0; w < MACHINE_WARPS; w++)
    if (members[w] != 0 && members[w] == live[w]) sum.warp[w] = r.now;
  for (int l = 0; l < 32 && warp >= 0; l++)
    if (members[warp] >> l & 1) sum.lane[l] = r.now;
  for (int t = 0; t < r.threads; t++)
    if (members[t / 32] >> t % 32 & 1) r.saw[t] = sum;
}


/* Is the access among what this release makes seen? */
static bool is_released (const release *x, const access *p) {
  if (x->block != p->block) return false;
  if (x->thread == p->thread)
    return p->time < x->before.time || (p->atomic && p->time <= x->time);
  return p->time < x->before.all || (x->thread / 32 == p->thread / 32 && p->time < x->before.warp);
}


static bool is_acquired (const access *p, int thread) {
  const seen *mine = &r.saw[thread];
  for (size_t i = 0; i < r.acquisitions; i++) {
    const acquired *a = &r.got[i];
    if (a->thread != thread && a->time >= mine->all &&
        (a->thread / 32 != thread / 32 || a->time >= mine->warp[thread / 32]))
      continue;
    for (size_t k = 0; k < a->n; k++) {
      const release *x = &r.released[k];
      if (x->at != a->at || !is_released(x, p)) continue;
      if (p->block == r.block || (a->beyond && x->before.beyond)) return true;
    }
  }
  return false;
}


/* Did the one that acts now see what the other did? */
static inline bool is_ordered (const access *p, const access *now) {
  if (p->block == now->block) {
    const seen *mine = &r.saw[now->thread];
    if (p->thread == now->thread || p->time < mine->all) return true;
    if (p->time < mine->warp[p->thread / 32]) return true;
    if (p->thread / 32 == now->thread / 32 && p->time < mine->lane[p->thread % 32]) return true;
  }
  return r.acquisitions > 0 && is_acquired(p, now->thread);
}


/* The thread has seen what it read of variables before the fence, and releases what follows. */
void emulated_fence (bool beyond) {
  if (!running) return;
  const int t = machine_thread();
  const seen *s = &r.saw[t];
  pending *p = &r.reads[t];
  r.now++;
  for (int i = 0; i < p->n && r.acquisitions < MACHINE_THREADS; i++)
    r.got[r.acquisitions++] = acquired{p->at[i], p->seen[i], r.now, (uint16_t)t, beyond};
  p->n = 0;
  r.fences[t] = fence{r.now, s->all, s->warp[t / 32], beyond};
}


/* An access that others may wait for. */
static void meet (uintptr_t at) {
  const int t = machine_thread();
  pending *p = &r.reads[t];
  int i = 0;
  while (i < p->n && p->at[i] != at) i++;
  if (i < MOST_PENDING && r.releases > 0) {
    p->at[i] = at;
    p->seen[i] = r.releases;
    if (i == p->n) p->n++;
  }
  if (r.fences[t].time == 0 || r.releases == MOST_RELEASES) return;
  r.released[r.releases++] = release{at, r.now, r.block, (uint16_t)t, r.fences[t]};
}

/* }================================================================== */


/*
** {==================================================================
** Messages
** ===================================================================
*/

void race_name (const void *function, char *text, size_t bytes) {
  char command[4200];
  snprintf(text, bytes, "%p", function);
  snprintf(command, sizeof command, "addr2line -f -C -e '%s' %zx 2>/dev/null", r.path,
           (size_t)((uintptr_t)function - r.object));
  FILE *f = popen(command, "r");
  if (f != NULL && fgets(text, (int)bytes, f) != NULL) text[strcspn(text, "\n")] = '\0';
  if (f != NULL) pclose(f);
}


/* "kernel.h:210 < rows.h:84 < softmax.cu:30": a place, and where that was called, if inlined. */
static void name_place (uint32_t place, char *text, size_t bytes) {
  char command[4200], line[512];
  size_t n = 0;
  snprintf(text, bytes, "%x", place);
  snprintf(command, sizeof command, "addr2line -s -i -e '%s' %x 2>/dev/null", r.path, place - 1);
  FILE *f = popen(command, "r");
  for (int i = 0; f != NULL && fgets(line, sizeof line, f) != NULL; i++) {
    line[strcspn(line, " \n")] = '\0';
    if (i < 3 && line[0] != '?' && n < bytes)
      n += (size_t)snprintf(text + n, bytes - n, "%s%s", i > 0 ? " < " : "", line);
  }
  if (f != NULL) pclose(f);
}


[[gnu::cold]] static void fail_race (const shadow *s, const access *p, bool p_writes,
                                     const access *now, bool now_writes) {
  char mine[160], theirs[160], text[480], block[40] = "";
  name_place(now->place, mine, sizeof mine);
  name_place(p->place, theirs, sizeof theirs);
  if (p->block != now->block) snprintf(block, sizeof block, " of block %u", p->block);
  snprintf(text, sizeof text, "a race in %s memory: %s at %s what thread %d%s %s at %s",
           s->shared ? "shared" : "device", now_writes ? "writes" : "reads", mine, p->thread, block,
           p_writes ? "wrote" : "read", theirs);
  emulated_fail(text);
}


[[gnu::cold]] static void fail_unwritten (const access *now) {
  char mine[160], text[256];
  name_place(now->place, mine, sizeof mine);
  snprintf(text, sizeof text, "reads at %s shared memory that was never written", mine);
  emulated_fail(text);
}

/* }================================================================== */


/*
** {==================================================================
** An access
** ===================================================================
*/

static inline bool is_race (const access *p, const access *now) {
  return p->place != 0 && !(p->atomic && now->atomic) && !is_ordered(p, now);
}


/* Of two reads that are kept, neither is ordered before a later one that is kept, too. */
static inline void keep_read (cell *c, const access *now) {
  int i = 0;
  while (i < 2 && c->read[i].place != 0 && !(c->read[i].thread == now->thread &&
         c->read[i].block == now->block) && !is_ordered(&c->read[i], now))
    i++;
  if (i == 2) i = (int)(now->time & 1);
  if (!(now->atomic && c->read[i].place != 0 && !c->read[i].atomic)) c->read[i] = *now;
}


static inline void visit (const shadow *s, cell *c, const access *now, bool writes) {
  if (is_race(&c->write, now)) fail_race(s, &c->write, true, now, writes);
  if (writes) {
    for (int i = 0; i < 2; i++)
      if (is_race(&c->read[i], now)) fail_race(s, &c->read[i], false, now, true);
    c->write = *now;
    c->read[0].place = c->read[1].place = 0;
    return;
  }
  if (s->shared && c->write.place == 0) fail_unwritten(now);
  keep_read(c, now);
}


static inline void renew (cell *c, uint32_t serial) {
  if (c->serial == serial) return;
  c->serial = serial;
  c->apart = false;
  c->write.place = c->read[0].place = c->read[1].place = 0;
}


static void take_apart (shadow *s, cell *c, size_t word) {
  c->apart = true;
  for (size_t i = 0; i < WORD; i++) {
    s->single[word * WORD + i] = *c;
    s->single[word * WORD + i].apart = false;
  }
}


static void visit_all (shadow *s, uintptr_t at, size_t bytes, const access *now, bool writes) {
  const uint32_t serial = s->shared ? r.blocks : r.launches;
  for (size_t from = at - s->from, to = from + bytes; from < to;) {
    const size_t word = from / WORD, end = (word + 1) * WORD < to ? (word + 1) * WORD : to;
    cell *c = &s->words[word];
    renew(c, serial);
    if (!c->apart && end - from < WORD) take_apart(s, c, word);
    if (!c->apart) visit(s, c, now, writes);
    else
      for (size_t i = from; i < end; i++) visit(s, &s->single[i], now, writes);
    from = end;
  }
}


static void touch (const volatile void *data, size_t bytes, bool writes, bool atomic,
                   const void *place) {
  const uintptr_t at = (uintptr_t)data;
  shadow *s = memory_of(at);
  if (s == NULL) return;
  const access now = {r.now, r.block, (uint32_t)((uintptr_t)place - r.object),
                      (uint16_t)machine_thread(), atomic};
  if (count_wanted) count_access(s->shared, at, bytes, writes, place);
  visit_all(s, at, bytes, &now, writes);
}


void race_touch (const void *at, size_t bytes, bool writes, const void *place) {
  if (running && bytes > 0) touch(at, bytes, writes, false, place);
}


/* The thread overwrites it, with what is on its way: for a reader it is as if never written. */
void race_unwrite (const void *at, size_t bytes, const void *place) {
  if (!running) return;
  touch(at, bytes, true, false, place);
  shadow *s = memory_of((uintptr_t)at);
  for (size_t i = 0; s != NULL && i < bytes; i++) {
    const size_t from = (uintptr_t)at + i - s->from;
    s->words[from / WORD].write.place = s->single[from].write.place = 0;
  }
}


/* Counted as one write; it reads, too. */
void emulated_touch (const volatile void *data, size_t bytes, const void *place) {
  const uintptr_t at = (uintptr_t)data;
  if (!running) return;
  shadow *s = memory_of(at);
  const access now = {r.now, r.block, (uint32_t)((uintptr_t)place - r.object),
                      (uint16_t)machine_thread(), true};
  if (s != NULL) visit_all(s, at, bytes, &now, false);
  touch(data, bytes, true, true, place);
  meet(at);
}

/* }================================================================== */


/*
** {==================================================================
** The compiler's hooks
** ===================================================================
*/

#pragma GCC visibility push(hidden)
extern "C" {

void __tsan_init (void) { watched = true; }

#define TOUCH(bytes, writes, atomic) \
  if (running) touch(at, bytes, writes, atomic, __builtin_return_address(0))
#define ACCESS(n, writes, name) \
  void __tsan_##name##n (void *at) { TOUCH(n, writes, false); } \
  void __tsan_unaligned_##name##n (void *at) { TOUCH(n, writes, false); } \
  void __tsan_volatile_##name##n (void *at) { \
    TOUCH(n, writes, true); \
    if (running) meet((uintptr_t)at); \
  }
#define ACCESSES(n) ACCESS(n, false, read) ACCESS(n, true, write)
ACCESSES(1) ACCESSES(2) ACCESSES(4) ACCESSES(8) ACCESSES(16)

void __tsan_read_range (void *at, long bytes) { TOUCH((size_t)bytes, false, false); }
void __tsan_write_range (void *at, long bytes) { TOUCH((size_t)bytes, true, false); }

/* The host's functions of the same files. */
unsigned long __tsan_atomic64_load (const volatile void *at, int) {
  return __atomic_load_n((const volatile unsigned long *)at, __ATOMIC_SEQ_CST);
}

void __tsan_atomic64_store (volatile void *at, unsigned long x, int) {
  __atomic_store_n((volatile unsigned long *)at, x, __ATOMIC_SEQ_CST);
}

}
#pragma GCC visibility pop

/* }================================================================== */
