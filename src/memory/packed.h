/*
** packed.h - second copies of weights, as a device's products read them: made at the first of them,
** made anew when the weight has changed, and dropped with the weight's storage. What kernels see of
** them is in device.h.
*/

#ifndef packed_h
#define packed_h

#include "memory/storage.h"

#pragma GCC visibility push(hidden)

struct packed_copy {
  packed_copy *next;                    /* of the table's entry */
  storage *of;
  const void *from;                /* the first element of the weight */
  int64_t version;                 /* of the storage, when the copy was made */
  packed_key key;
  void *data;                      /* NULL: there is no copy yet */
  size_t bytes;
};

#define PACKED_ENTRIES 512

typedef struct packed_table {
  packed_copy *entry[PACKED_ENTRIES];   /* by 'from' */
} packed_table;

bool packed_ask (storage *s, const void *from);           /* such a copy is worth its memory; false:
                                                            no memory, after a message */
packed_copy *packed_find (const storage *s, const void *from);       /* NULL: nobody asked */
void packed_drop (storage *s);                           /* all copies of what lies in s */
void packed_close (heed_context *cx);                    /* the table, when no storage is left */

#pragma GCC visibility pop

#endif
