/*
** storage.h - counted bytes on a device, which tensors share.
*/

#ifndef storage_h
#define storage_h

#include "memory/account.h"
#include "memory/device.h"

#pragma GCC visibility push(hidden)

/*
** 'version' grows with every change in place. The header is as small as can be, since thousands
** of them come and go between two collections: small calls wait for memory.
*/
typedef struct storage storage;
struct storage {
  heed_context *cx;
  device *where;
  int64_t refs;
  size_t bytes;                    /* that a tensor may use */
  size_t capacity;                 /* that were allocated; 0 for foreign memory */
  void *data;
  union {
    int64_t version;
    storage *next;                 /* in the cache */
  };
  int64_t commit;                  /* the number of the last one of which it was a target */
  short changer;                   /* the op that raised 'version' last, for the message */
  bool reused : 1;                 /* recorded works write it: it serves that capture again */
  bool fixed : 1;                  /* the host writes it in that capture, which keeps its bytes */
  bool single : 1;                 /* its capacity is that of no class: it is not cached */
  bool packed : 1;                 /* there may be copies for products: packed.h */
  int capture;                     /* the number of the one that recorded its making, or 0 */
};

/* Memory of the host's. */
typedef struct foreign {
  storage storage;                 /* first: a storage without capacity is a foreign */
  void (*release) (void *self, void *data);
  void *self;
} foreign;

#define STORAGE_CLASSES 125        /* 64 bytes to 4 GiB: see storage.c */

/* The storages of a context. */
typedef struct storage_list {
  memory_account account;
  bool lasting;                    /* what is made now lives long */
  storage *free[STORAGE_CLASSES];  /* cached with their data */
  int64_t wanted[STORAGE_CLASSES]; /* 'made' when a storage of the class was wanted last */
  int64_t made;                    /* taken from the system so far */
  int64_t commits;                 /* so far: op/commit.c, graph/pass.c */
  struct packed_table *packed;     /* packed.c; NULL: nobody asked for any */
} storage_list;

/* The host's memory that a capture made; a storage that is dropped serves that capture again. */
typedef struct capture_memory {
  storage **made;
  int64_t nmade, made_capacity;
  storage *free[STORAGE_CLASSES];
} capture_memory;

storage *storage_new (heed_context *cx, device *where, size_t bytes);    /* uninitialised; lets the
                                             host reclaim memory, which may drop tensors */
void storage_relieve (heed_context *cx);             /* asks the host to drop nodes and handles */
storage *storage_lend (heed_context *cx, device *where, void *data, size_t bytes,
                       void (*release) (void *, void *), void *self);
/* Bytes of a device, or of the host's own allocator: nobody counts them. */
void *storage_take_data (heed_context *cx, device *where, size_t capacity);      /* NULL: none */
void storage_give_data (heed_context *cx, device *where, void *data, size_t capacity);
void storage_keep (storage *s);
void storage_drop (storage *s);
/* Before the host writes s while a capture runs: recorded work must not write it, before or after.
   False: no memory. */
bool storage_fix (storage *s);
bool storage_is_lost (const storage *s);           /* captured work was to write it, and is gone */
void storage_leave_births (storage *s);            /* of a capture: see works.h */
void storage_end_capture (capture_memory *m);      /* m owns its memory from now on */
void storage_drop_made (heed_context *cx, capture_memory *m);

#pragma GCC visibility pop

#endif
