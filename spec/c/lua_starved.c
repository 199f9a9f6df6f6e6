/*
** lua_starved.c - operations, their gradients, calls that change state, and tokenizers, while
** heed's own requests for memory fail, one at a time and each with all that follow. The linker
** gives heed this program's functions in the place of those that take memory: no cache hides a
** request.
*/

#include <stdatomic.h>
#include <stdio.h>

#include <lauxlib.h>
#include <lualib.h>

#include "cpu/cpu.h"
#include "graph/call.h"
#include "lua/heed_lua.h"
#include "memory/context.h"

void *__real_core_alloc (heed_context *cx, size_t bytes);
bool __real_core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size);
storage *__real_storage_new (heed_context *cx, device *where, size_t bytes);
void *__real_cpu_scratch (const cpu *self, size_t bytes);
bool __real_op_supports (heed_context *cx, work_kind kind, int op);
bool __real_op_fuses (heed_context *cx, work_kind kind, int op, int64_t row);

void *__wrap_core_alloc (heed_context *cx, size_t bytes);
bool __wrap_core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size);
storage *__wrap_storage_new (heed_context *cx, device *where, size_t bytes);
void *__wrap_cpu_scratch (const cpu *self, size_t bytes);
bool __wrap_op_supports (heed_context *cx, work_kind kind, int op);
bool __wrap_op_fuses (heed_context *cx, work_kind kind, int op, int64_t row);

static atomic_long countdown = -1;     /* requests that succeed before; < 0: all do */
static bool onwards, failed;
static bool composed;                  /* the device has the basic kinds of work alone */


/*
** {==================================================================
** What heed calls
** ===================================================================
*/

static bool is_last (void) {
  if (countdown < 0 || countdown-- > 0) return false;
  if (onwards) countdown = 0;
  return failed = true;
}


static bool refuses (heed_context *cx, size_t bytes) {
  if (!is_last()) return false;
  core_fail(cx, NULL, "not enough memory: %s", core_bytes(bytes).text);
  return true;
}


void *__wrap_core_alloc (heed_context *cx, size_t bytes) {
  return refuses(cx, bytes) ? NULL : __real_core_alloc(cx, bytes);
}


bool __wrap_core_grow (heed_context *cx, void **list, int64_t n, int64_t *capacity, size_t size) {
  if (n >= *capacity && refuses(cx, size)) return false;
  return __real_core_grow(cx, list, n, capacity, size);
}


storage *__wrap_storage_new (heed_context *cx, device *where, size_t bytes) {
  return refuses(cx, bytes) ? NULL : __real_storage_new(cx, where, bytes);
}


/* Scratch memory of the CPU's kernels, which report the lack of it themselves. */
void *__wrap_cpu_scratch (const cpu *self, size_t bytes) {
  return is_last() ? NULL : __real_cpu_scratch(self, bytes);
}


bool __wrap_op_supports (heed_context *cx, work_kind kind, int op) {
  return !composed && __real_op_supports(cx, kind, op);
}


bool __wrap_op_fuses (heed_context *cx, work_kind kind, int op, int64_t row) {
  return !composed && __real_op_fuses(cx, kind, op, row);
}

/* }================================================================== */


/*
** {==================================================================
** What the scripts call
** ===================================================================
*/

/* fail_after(n) lets the n-th request from now on fail, and with fail_after(n, true) all after it;
   a negative n: none. Did one fail since the last call? */
static int l_fail_after (lua_State *L) {
  lua_pushboolean(L, failed);
  failed = false;
  onwards = lua_toboolean(L, 2);
  countdown = (long)luaL_checkinteger(L, 1);
  return 1;
}


/* compose(true): from now on what is fused is composed */
static int l_compose (lua_State *L) {
  composed = lua_toboolean(L, 1);
  return 0;
}


static bool survives (const char *path) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  int status = luaL_loadfile(L, path);
  lua_pushcfunction(L, l_fail_after);
  lua_pushcfunction(L, l_compose);
  if (status == LUA_OK) status = lua_pcall(L, 2, 1, 0);
  printf("starved: %s: %s\n", path, luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return status == LUA_OK;
}

/* }================================================================== */


int main (void) {
  bool good = survives("spec/c/scripts/starved_rows.lua");
  good &= survives("spec/c/scripts/changes.lua");
  good &= survives("spec/c/scripts/starved_texts.lua");
  return !good;
}
