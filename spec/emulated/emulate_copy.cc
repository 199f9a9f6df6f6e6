/*
** emulate_copy.cc - copies into shared memory that run beside a kernel: they are done as late as
** they may be, when the thread waits for them, and until then their place is NaN.
*/

#include "spec/emulated/machine.h"

#include <stdlib.h>

typedef struct copy {
  char *to;
  const char *from;
  int bytes, size;                 /* that are read; the rest of 'size' becomes 0 */
  int64_t group;
  const void *place;               /* of the program */
} copy;

/* A thread's copies that are on their way, the earliest first; its groups are numbered from 0. */
typedef struct copies {
  copy *list;
  int n, room;
  int64_t groups;
} copies;

static copies all[MACHINE_THREADS];


static copies *own_copies (void) { return &all[machine_thread()]; }


void emulated_copy (char *to, const void *from, int bytes, int size) {
  copies *own = own_copies();
  if ((uintptr_t)to % (unsigned)size != 0 || (uintptr_t)from % (unsigned)size != 0)
    emulated_fail("copies from or to where its bytes are not aligned");
  if (bytes < 0 || bytes > size) emulated_fail("copies more bytes at once than it may");
  if (own->n == own->room) {
    own->room = own->room * 2 + 16;
    own->list = (copy *)realloc(own->list, (size_t)own->room * sizeof(copy));
    if (own->list == NULL) emulated_fail("has no memory for its copies");
  }
  const void *place = __builtin_return_address(0);
  race_touch(from, (size_t)bytes, false, place);
  race_unwrite(to, (size_t)size, place);
  memset(to, 0xff, (size_t)size);
  own->list[own->n++] = copy{to, (const char *)from, bytes, size, own->groups, place};
}


void emulated_copy_commit (void) { own_copies()->groups++; }


void emulated_copy_wait (int left) {
  copies *own = own_copies();
  int done = 0;
  for (; done < own->n && own->list[done].group < own->groups - left; done++) {
    const copy c = own->list[done];
    race_touch(c.to, (size_t)c.size, true, c.place);
    memcpy(c.to, c.from, (size_t)c.bytes);
    memset(c.to + c.bytes, 0, (size_t)(c.size - c.bytes));
  }
  own->n -= done;
  if (done > 0 && own->n > 0)
    memmove(own->list, own->list + done, (size_t)own->n * sizeof(copy));
}


void machine_end_copies (void) {
  if (own_copies()->n > 0) emulated_fail("ends before its copies have arrived");
}


void machine_forget_copies (void) {
  for (int i = 0; i < MACHINE_THREADS; i++) all[i].n = 0;
}
