/*
** memory.cu - device memory: a cache of slabs, which are handed out in pieces.
**
** All work on a device is in one stream, so a piece that is given back may be taken again at
** once: its next user comes later in the stream. Free pieces are in lists by size, eight for each
** power of 2; one that is larger than needed is split, and free neighbours are joined.
** M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems" (2004).
*/

#include "cuda/device/memory.h"
#include "cuda/device/release.h"

#include <stdlib.h>

#define UNIT ((size_t)512)
#define MIB ((size_t)1 << 20)
#define SMALL MIB                  /* up to here pieces come from small slabs */
#define SMALL_SLAB (2 * MIB)
#define LARGE_SLAB (20 * MIB)
#define CLASSES 256
#define LOOK 8                     /* pieces of its own class that a search tries */

/* A part of a slab, free or taken. */
typedef struct piece {
  char *at;
  size_t bytes;
  bool free;
  struct half_arena *from;
  struct piece *before, *after;    /* in the slab */
  struct piece *next, *previous;   /* in a list of free ones */
  struct piece *same_key;          /* in the table by address */
} piece;

typedef struct half_arena {
  struct arena *arena;
  bool large;
  piece *list[CLASSES];
  uint32_t filled[CLASSES / 32];   /* bits: which lists have a piece */
} half_arena;

struct arena {
  half_arena half[2];              /* of small slabs and of large ones */
  size_t slabs;
  bool dropped;
  struct arena *next;              /* of those that were dropped, but are in use */
};

struct memory {
  cuda_stream stream;
  arena eager;
  arena *now;                      /* where pieces come from */
  arena *dropped;                  /* but still in use */
  piece **table;                   /* by address: 'keys' lists, a power of two */
  size_t keys, pieces;
  size_t live, held, peak, limit;  /* 'held': bytes of slabs */
  bool uncached;                   /* eager work gets every piece from the runtime */
  int code;                        /* the last failure of the take that runs; 0: none */
};


/*
** {==================================================================
** Pieces by address
** ===================================================================
*/

static piece **key_of (const memory *m, const void *at) {
  uint64_t mixed = (uint64_t)(uintptr_t)at / UNIT * 0x9E3779B97F4A7C15u;
  return &m->table[mixed >> 32 & (m->keys - 1)];
}


static bool grow_table (memory *m) {
  if (m->pieces < m->keys) return true;
  size_t keys = m->keys > 0 ? 2 * m->keys : 1024, old = m->keys;
  piece **table = (piece **)calloc(keys, sizeof *table), **before = m->table;
  if (table == NULL) return false;
  m->table = table;
  m->keys = keys;
  for (size_t i = 0; i < old; i++)
    for (piece *p = before[i], *next; p != NULL; p = next) {
      piece **key = key_of(m, p->at);
      next = p->same_key;
      p->same_key = *key;
      *key = p;
    }
  free(before);
  return true;
}


static piece *new_piece (memory *m, half_arena *from, char *at, size_t bytes) {
  piece *p = grow_table(m) ? (piece *)calloc(1, sizeof *p) : NULL;
  if (p == NULL) return NULL;
  piece **key = key_of(m, at);
  p->at = at;
  p->bytes = bytes;
  p->from = from;
  p->same_key = *key;
  *key = p;
  m->pieces++;
  return p;
}


static void drop_piece (memory *m, piece *p) {
  piece **at = key_of(m, p->at);
  while (*at != p) at = &(*at)->same_key;
  *at = p->same_key;
  m->pieces--;
  free(p);
}


static piece *find_piece (const memory *m, const void *at) {
  piece *p = m->keys > 0 ? *key_of(m, at) : NULL;
  while (p != NULL && p->at != at) p = p->same_key;
  return p;
}

/* }================================================================== */


/*
** {==================================================================
** Free pieces by size
** ===================================================================
*/

/*
** The class whose pieces have at least its size: 'bytes' is a multiple of UNIT. The last has all
** that are larger, too.
*/
static int class_of (size_t bytes) {
  size_t units = bytes / UNIT;
  int bit = 63 - __builtin_clzll(units);
  int part = (int)(bit >= 3 ? units >> (bit - 3) & 7 : units << (3 - bit) & 7);
  return 8 * bit + part < CLASSES ? 8 * bit + part : CLASSES - 1;
}


static void list_piece (piece *p) {
  int k = class_of(p->bytes);
  half_arena *h = p->from;
  p->free = true;
  p->previous = NULL;
  p->next = h->list[k];
  if (p->next != NULL) p->next->previous = p;
  h->list[k] = p;
  h->filled[k / 32] |= 1u << k % 32;
}


static void unlist_piece (piece *p) {
  int k = class_of(p->bytes);
  half_arena *h = p->from;
  p->free = false;
  if (p->next != NULL) p->next->previous = p->previous;
  if (p->previous != NULL) p->previous->next = p->next;
  else h->list[k] = p->next;
  if (h->list[k] == NULL) h->filled[k / 32] &= ~(1u << k % 32);
}


/* The first list from class k on that has a piece, or CLASSES. */
static int next_list (const half_arena *h, int k) {
  for (int i = k / 32; i < CLASSES / 32; i++) {
    uint32_t filled = h->filled[i] & (i == k / 32 ? ~0u << k % 32 : ~0u);
    if (filled != 0) return 32 * i + __builtin_ctz(filled);
  }
  return CLASSES;
}


/* One of its own class that is large enough, or any of a larger class. */
static piece *find_free (const half_arena *h, size_t bytes) {
  int k = class_of(bytes), looked = 0;
  for (piece *p = h->list[k]; p != NULL && looked < LOOK; p = p->next, looked++)
    if (p->bytes >= bytes) return p;
  k = next_list(h, k + 1);
  return k < CLASSES ? h->list[k] : NULL;
}


/* The bytes of p beyond 'bytes' become a free piece, unless they are too few. */
static void split (memory *m, piece *p, size_t bytes) {
  size_t rest = p->bytes - bytes;
  if (rest < (p->from->large ? SMALL : UNIT)) return;
  piece *q = new_piece(m, p->from, p->at + bytes, rest);
  if (q == NULL) return;
  p->bytes = bytes;
  q->before = p;
  q->after = p->after;
  if (q->after != NULL) q->after->before = q;
  p->after = q;
  list_piece(q);
}


/* p absorbs the piece behind it. */
static void join (memory *m, piece *p) {
  piece *q = p->after;
  p->bytes += q->bytes;
  p->after = q->after;
  if (p->after != NULL) p->after->before = p;
  drop_piece(m, q);
}

/* }================================================================== */


/*
** {==================================================================
** Slabs
** ===================================================================
*/

static size_t rounded_up (size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }


static size_t slab_for (size_t bytes) {
  if (bytes <= SMALL) return SMALL_SLAB;
  return bytes <= LARGE_SLAB / 2 ? LARGE_SLAB : rounded_up(bytes, SMALL_SLAB);
}


static bool fits (const memory *m, size_t bytes) {
  return m->limit == 0 || (m->held <= m->limit && bytes <= m->limit - m->held);
}


static bool is_uncached (const memory *m, const arena *a) { return m->uncached && a == &m->eager; }


static int allocate (memory *m, void **data, size_t bytes) {
  int code = is_uncached(m, m->now) ? runtime_alloc_in(data, bytes, m->stream)
                                    : runtime_alloc(data, bytes);
  if (code == 0) return 0;
  runtime_last();
  return m->code = code;
}


/* A slab of *bytes, or only of 'least', which *bytes becomes, where that does not fit. */
static void *new_slab (memory *m, size_t *bytes, size_t least) {
  void *data = NULL;
  if (fits(m, *bytes) && allocate(m, &data, *bytes) == 0) return data;
  *bytes = least;
  return fits(m, least) && allocate(m, &data, least) == 0 ? data : NULL;
}


static piece *add_slab (memory *m, half_arena *h, size_t least) {
  size_t bytes = is_uncached(m, m->now) ? least : slab_for(least);
  void *data = new_slab(m, &bytes, least);
  if (data == NULL) {
    memory_trim(m);
    data = new_slab(m, &bytes, least);
  }
  if (data == NULL) return NULL;
  piece *p = new_piece(m, h, (char *)data, bytes);
  if (p == NULL) { release_device(data); return NULL; }
  m->held += bytes;
  h->arena->slabs++;
  list_piece(p);
  return p;
}


/* p is all of its slab. */
static void drop_slab (memory *m, piece *p) {
  unlist_piece(p);
  if (is_uncached(m, p->from->arena)) runtime_free_in(p->at, m->stream);
  else release_device(p->at);
  m->held -= p->bytes;
  p->from->arena->slabs--;
  drop_piece(m, p);
}


static bool is_slab (const piece *p) { return p->free && p->before == NULL && p->after == NULL; }


static void trim_half (memory *m, half_arena *h) {
  for (int k = 0; k < CLASSES; k++)
    for (piece *p = h->list[k], *next; p != NULL; p = next) {
      next = p->next;
      if (is_slab(p)) drop_slab(m, p);
    }
}


/* While work is captured, no slab is freed. */
static bool is_capturing (const memory *m) { return m->now != &m->eager; }


size_t memory_trim (memory *m) {
  const size_t before = m->held;
  for (int i = 0; i < 2 && !is_capturing(m); i++) trim_half(m, &m->eager.half[i]);
  return before - m->held;
}


static void free_arena (memory *m, arena *a) {
  arena **at = &m->dropped;
  while (*at != a) at = &(*at)->next;
  *at = a->next;
  free(a);
}


static void trim_arena (memory *m, arena *a) {
  for (int i = 0; i < 2; i++) trim_half(m, &a->half[i]);
  if (a->slabs == 0) free_arena(m, a);
}

/* }================================================================== */


/*
** {==================================================================
** Taking and giving
** ===================================================================
*/

void *memory_take (memory *m, size_t bytes) {
  m->code = 0;
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = rounded_up(bytes > 0 ? bytes : 1, UNIT);
  half_arena *h = &m->now->half[bytes > SMALL];
  piece *p = find_free(h, bytes);
  if (p == NULL) p = add_slab(m, h, bytes);
  if (p == NULL) return NULL;
  unlist_piece(p);
  split(m, p, bytes);
  m->live += p->bytes;
  if (m->live > m->peak) m->peak = m->live;
  runtime_spoil(p->at, p->bytes, m->stream);
  return p->at;
}


int memory_code (const memory *m) { return m->code; }


void memory_give (memory *m, void *data) {
  piece *p = find_piece(m, data);
  if (p == NULL) return;
  arena *a = p->from->arena;
  m->live -= p->bytes;
  if (p->after != NULL && p->after->free) {
    unlist_piece(p->after);
    join(m, p);
  }
  if (p->before != NULL && p->before->free) {
    p = p->before;
    unlist_piece(p);
    join(m, p);
  }
  list_piece(p);
  if (is_capturing(m)) return;
  if ((is_uncached(m, a) || a->dropped) && is_slab(p)) drop_slab(m, p);
  if (a->dropped && a->slabs == 0) free_arena(m, a);
}


void memory_limit (memory *m, size_t bytes) {
  m->limit = bytes;
  if (!fits(m, 0)) memory_trim(m);
}


void memory_account_of (memory *m, heed_device_memory *numbers) {
  numbers->live = m->live;
  numbers->cached = m->held - m->live;
  numbers->peak = m->peak;
  numbers->limit = m->limit;
}


void memory_reset_peak (memory *m) { m->peak = m->live; }

/* }================================================================== */


/*
** {==================================================================
** Arenas, opening and closing
** ===================================================================
*/

static void prepare (arena *a) {
  for (int i = 0; i < 2; i++) {
    a->half[i].arena = a;
    a->half[i].large = i == 1;
  }
}


bool memory_begin_arena (memory *m) {
  arena *a = (arena *)calloc(1, sizeof *a);
  if (a == NULL) return false;
  prepare(a);
  m->now = a;
  return true;
}


arena *memory_end_arena (memory *m) {
  arena *a = m->now;
  m->now = &m->eager;
  if (m->uncached) memory_trim(m); /* what was given back meanwhile */
  for (arena *b = m->dropped, *next; b != NULL; b = next) {
    next = b->next;
    trim_arena(m, b);
  }
  return a;
}


void memory_drop_arena (memory *m, arena *a) {
  a->dropped = true;
  a->next = m->dropped;
  m->dropped = a;
  if (!is_capturing(m)) trim_arena(m, a);
}


memory *memory_open (cuda_stream s) {
  const char *cache = getenv("HEED_CUDA_CACHE");
  memory *m = (memory *)calloc(1, sizeof *m);
  if (m == NULL) return NULL;
  prepare(&m->eager);
  m->stream = s;
  m->now = &m->eager;
  m->uncached = cache != NULL ? *cache == '0' : HEED_EXACT;
  return m;
}


/* A slab is freed with its first piece; its others are anywhere in the table. */
void memory_close (memory *m) {
  for (size_t i = 0; i < m->keys; i++)
    while (m->table[i] != NULL) {
      piece *p = m->table[i];
      if (p->before == NULL) release_device(p->at);
      m->table[i] = p->same_key;
      free(p);
    }
  while (m->dropped != NULL) free_arena(m, m->dropped);
  free(m->table);
  free(m);
}

/* }================================================================== */
