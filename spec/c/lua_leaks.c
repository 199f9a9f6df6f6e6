/*
** lua_leaks.c - a state that was closed leaves no block of memory, whatever its script did, and
** whichever call of malloc failed.
*/

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"


/*
** {==================================================================
** Blocks of heed's: calls of malloc and its like in this program, but not in Lua or the C library
** ===================================================================
*/

static atomic_long alive, countdown = -1;

void *__real_malloc (size_t size);
void *__real_calloc (size_t n, size_t size);
void *__real_realloc (void *block, size_t size);
void *__real_aligned_alloc (size_t alignment, size_t size);
int __real_posix_memalign (void **block, size_t alignment, size_t size);
void __real_free (void *block);

void *__wrap_malloc (size_t size);
void *__wrap_calloc (size_t n, size_t size);
void *__wrap_realloc (void *block, size_t size);
void *__wrap_aligned_alloc (size_t alignment, size_t size);
int __wrap_posix_memalign (void **block, size_t alignment, size_t size);
void __wrap_free (void *block);

static void *counted (void *block) {
  if (block != NULL) alive++;
  return block;
}

void *__wrap_malloc (size_t size) {
  bool fails = countdown >= 0 && countdown-- == 0;
  return fails ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc (size_t n, size_t size) { return counted(__real_calloc(n, size)); }

void *__wrap_realloc (void *block, size_t size) {
  void *grown = __real_realloc(block, size);
  return block == NULL ? counted(grown) : grown;
}

void *__wrap_aligned_alloc (size_t alignment, size_t size) {
  return counted(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign (void **block, size_t alignment, size_t size) {
  int error = __real_posix_memalign(block, alignment, size);
  if (error == 0) counted(*block);
  return error;
}

void __wrap_free (void *block) {
  if (block != NULL) alive--;
  __real_free(block);
}

/* }================================================================== */


/* failing(n, f): calls f, for which malloc fails once, behind n calls that don't: whether it came
   so far, and as pcall */
static int l_failing (lua_State *L) {
  countdown = (long)luaL_checkinteger(L, 1);
  lua_settop(L, 2);
  const int status = lua_pcall(L, 0, 1, 0);
  lua_pushboolean(L, countdown < 0);
  countdown = -1;
  lua_replace(L, 1);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 2);
  return 3;
}


/* held(): bytes that malloc has given to all of the program, its libraries too, 0 where it does not
   say; and how many files are open */
static int l_held (lua_State *L) {
  lua_Integer n = 0;
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 33)
  n = (lua_Integer)mallinfo2().uordblks;
#endif
#endif
  int open = 0;
  for (int fd = 0; fd < 256; fd++) open += fcntl(fd, F_GETFD) >= 0;
  lua_pushinteger(L, n);
  lua_pushinteger(L, open);
  return 2;
}


/* How many blocks a state leaves; in 'failed' whether its script does. */
static long blocks_left (int *failed) {
  long before = alive;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  bool good = luaL_loadfile(L, "spec/c/scripts/leaks.lua") == LUA_OK;
  if (good) lua_pushcfunction(L, l_failing);
  if (good) lua_pushcfunction(L, l_held);
  if (!good || lua_pcall(L, 2, 0, 0) != LUA_OK) {
    printf("lua_leaks: %s\n", lua_tostring(L, -1));
    *failed = 1;
  }
  lua_close(L);
  return alive - before;
}


int main (void) {
  int failed = 0;
  blocks_left(&failed);                  /* what lasts as long as the program is made now */
  long left = blocks_left(&failed);
  if (left != 0) printf("lua_leaks: %ld blocks stay\n", left);
  else printf("lua_leaks: nothing stays\n");
  return failed != 0 || left != 0;
}
