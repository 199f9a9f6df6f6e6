/*
** failing.h - an allocator of which one request fails, alone, with the next one, by which heed asks
** again once it has trimmed, or with all that follow.
*/

#ifndef failing_h
#define failing_h

#include <stdbool.h>
#include <stdlib.h>

typedef struct failing {
  long countdown;                  /* requests that succeed before; < 0: all do */
  bool twice, onwards, failed;
  long alive, bytes;               /* blocks, and their bytes by the sizes that came in */
} failing;

/* For heed_host and lua_newstate alike. Lua relies on blocks to shrink. */
static void *failing_resize (void *self, void *block, size_t old_size, size_t new_size) {
  failing *a = self;
  if (new_size == 0) {
    if (block != NULL) {
      a->alive--;
      a->bytes -= (long)old_size;
    }
    free(block);
    return NULL;
  }
  bool grows = block == NULL || new_size > old_size;
  if (grows && a->countdown >= 0 && a->countdown-- == 0) {
    if (a->onwards || (a->twice && !a->failed)) a->countdown = 0;
    a->failed = true;
    return NULL;
  }
  void *bigger = realloc(block, new_size);
  if (bigger == NULL) return NULL;
  if (block == NULL) a->alive++;
  a->bytes += (long)new_size - (block == NULL ? 0 : (long)old_size);    /* Lua's kind is no size */
  return bigger;
}

#endif
