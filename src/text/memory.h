/*
** memory.h - memory of a tokenizer: blocks that live as long as it, and lists that grow.
*/

#ifndef text_memory_h
#define text_memory_h

#include "heed.h"
#include "memory/context.h"

#pragma GCC visibility push(hidden)

/* Blocks that are freed together. */
typedef struct keeper {
  heed_context *cx;
  struct kept *first;
} keeper;

/* Zeros, or a block that is not written to; NULL: a failure is kept in the context. */
void *keep (keeper *k, size_t bytes);
void *keep_room (keeper *k, size_t bytes);
void keeper_free (keeper *k);

/* A list of 'n' elements, with room for 'capacity'. */
#define LIST(type) struct { type *at; int64_t n, capacity; }

/* Makes a list's capacity 'wanted' at least; false: a failure. */
bool list_room (heed_context *cx, void **at, int64_t *capacity, int64_t wanted, size_t size);
#define LEAST_ROOM 64
/* Makes room for 'more' elements behind the n that the list has; false: a failure. */
#define ROOM(cx, list, more) \
  ((more) <= (list)->capacity - (list)->n || \
   list_room(cx, (void **)&(list)->at, &(list)->capacity, (list)->n + (more) + LEAST_ROOM, \
             sizeof *(list)->at))
#define LIST_FREE(cx, list) \
  core_free(cx, (list)->at, (size_t)(list)->capacity * sizeof *(list)->at)

/* Polls in step i of a loop whose steps are short; false: the call was stopped. */
static inline bool text_polls (heed_context *cx, int64_t i) {
  return (i & 0x3fff) != 0x3fff || !core_poll(cx, NULL);
}

#pragma GCC visibility pop

#endif
