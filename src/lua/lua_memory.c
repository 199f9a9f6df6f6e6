/*
** lua_memory.c - Lua's collector sees a few bytes of each tensor: here it is paid for the
** rest. Also scopes, which free what they made.
*/

#include <string.h>

#include "lua_heed.h"

#define BATCH ((size_t)1 << 20)        /* bytes between two payments */
#define SLACK ((size_t)24 << 20)       /* live bytes may grow so far between full collections */

/*
** {==================================================================
** Paying the collector
** ===================================================================
*/

static void step (lua_State *L, size_t bytes) {
#if LUA_VERSION_NUM >= 505
  lua_gc(L, LUA_GCSTEP, bytes);
#else
  lua_gc(L, LUA_GCSTEP, (int)(bytes >> 10 > 1 << 20 ? 1 << 20 : bytes >> 10));
#endif
}

/* The next full collection comes when live bytes have grown by half, or by SLACK. */
static void collect (binding *b) {
  lua_gc(b->L, LUA_GCCOLLECT);
  size_t live = heed_memory_now(b->cx).live;
  b->soft_limit = live + (live / 2 > SLACK ? live / 2 : SLACK);
}

/*
** Called by the core before it allocates. Steps alone do not keep memory flat when a script
** holds many objects, nor in the generational mode: the soft limit does.
*/
void make_room (void *self, size_t bytes, bool urgent) {
  binding *b = self;
  b->debt += bytes;
  if (b->collecting || (b->debt < BATCH && !urgent)) return;
  b->collecting = true;                /* finalisers may allocate, and come here again */
  lua_State *L = b->L;
  size_t debt = b->debt;
  b->debt = 0;
  if (urgent || heed_memory_now(b->cx).live + bytes > b->soft_limit) collect(b);
  else step(L, debt);
  b->L = L;
  b->collecting = false;
}

static size_t memory_field (lua_State *L, int i, const char *name) {
  int64_t value = -1;
  lua_getfield(L, i, name);
  if (!to_whole(L, -1, &value) || value <= 0)
    raise(L, "memory: argument '%s': a number of bytes above 0 expected, got %s", name,
          luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return (size_t)value;
}

/* memory() tells; memory{limit = bytes} sets the bound */
static int l_memory (lua_State *L) {
  static const char *const known[] = {"limit"};
  binding *b = enter(L);
  if (lua_istable(L, 1)) {
    lua_pushnil(L);
    while (lua_next(L, 1)) {
      const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
      if (strcmp(key, "limit") != 0) unknown_option(L, "memory", key, 1, known);
      lua_pop(L, 1);
    }
    heed_memory_limit(b->cx, memory_field(L, 1, "limit"));
  }
  else if (!lua_isnoneornil(L, 1))
    return raise(L, "memory: a table of options expected, got %s", luaL_typename(L, 1));
  heed_memory now = heed_memory_now(b->cx);
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, (lua_Integer)now.live);
  lua_setfield(L, -2, "live");
  lua_pushinteger(L, (lua_Integer)now.cached);
  lua_setfield(L, -2, "cached");
  lua_pushinteger(L, (lua_Integer)now.peak);
  lua_setfield(L, -2, "peak");
  lua_pushinteger(L, (lua_Integer)now.limit);
  lua_setfield(L, -2, "limit");
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Scopes
** ===================================================================
*/

/* A finished number of a box that must stay: it is put above the scope's. */
static void spare (box *slot, int64_t mark) {
  if (slot->serial > mark) slot->serial = -slot->serial;
}

static box *box_at (lua_State *L, int i) {
  return raw_tensor(L, i) != NULL ? lua_touserdata(L, i) : NULL;
}

/*
** Spares all tensors that the value on top leads to through tables (their metatables'
** fields are not theirs). 'seen' is the stack place of a set of tables; the work is a list in
** that same table, so that deep structures need no C stack.
*/
static void spare_reachable (lua_State *L, int seen, int64_t mark) {
  lua_Integer n = 0;
  int list = lua_gettop(L) + 1;
  lua_newtable(L);
  lua_pushvalue(L, list - 1);
  lua_rawseti(L, list, ++n);
  while (n > 0) {
    lua_rawgeti(L, list, n);
    lua_pushnil(L);
    lua_rawseti(L, list, n--);
    box *slot = box_at(L, -1);
    if (slot != NULL) spare(slot, mark);
    if (!lua_istable(L, -1)) { lua_pop(L, 1); continue; }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, seen) != LUA_TNIL) { lua_pop(L, 2); continue; }
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, seen);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      int type = lua_type(L, -1);
      if (type == LUA_TTABLE || type == LUA_TUSERDATA) lua_rawseti(L, list, ++n);
      else lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, list - 1);
}

static bool must_stay (const box *slot) {
  return slot->kept || slot->serial < 0 || (heed_requires_grad(slot->t) && heed_is_leaf(slot->t));
}

/* Releases the boxes made since 'mark', but for the spared ones. */
static void release_since (binding *b, int64_t mark) {
  for (box *slot = b->newest; slot != NULL; slot = slot->older) {
    int64_t age = slot->serial < 0 ? -slot->serial : slot->serial;
    if (age <= mark) break;
    if (slot->t != NULL && !must_stay(slot)) release_box(slot);
    if (slot->serial < 0) slot->serial = age;
  }
}

static int finish_scope (lua_State *L, int status, lua_KContext mark) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, "scope");
  lua_newtable(L);
  for (int i = 1; i <= top; i++) {
    lua_pushvalue(L, i);
    spare_reachable(L, top + 1, (int64_t)mark);
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  release_since(b, (int64_t)mark);
  if (status != LUA_OK && status != LUA_YIELD) return lua_error(L);
  return top;
}

/* scope(f, ...): f's results; frees whatever else f made. An error frees likewise. */
static int l_scope (lua_State *L) {
  binding *b = enter(L);
  if (lua_isnoneornil(L, 1)) return raise(L, "scope: a function expected, got %s",
                                          luaL_typename(L, 1));
  int64_t mark = b->serial;
  int status = lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, (lua_KContext)mark, finish_scope);
  return finish_scope(L, status, (lua_KContext)mark);
}

/* keep(t): scopes leave t alone from now on */
static int l_keep (lua_State *L) {
  check_tensor(L, 1);
  ((box *)lua_touserdata(L, 1))->kept = true;
  lua_settop(L, 1);
  return 1;
}

/* }================================================================== */


/* level() tells which instructions are used; level(name) chooses */
static int l_level (lua_State *L) {
  binding *b = enter(L);
  if (!lua_isnoneornil(L, 1)) {
    if (lua_type(L, 1) != LUA_TSTRING)
      return raise(L, "level: a name expected, got %s", luaL_typename(L, 1));
    if (!heed_set_level(b->cx, lua_tostring(L, 1))) return raise_failure(L);
  }
  lua_pushstring(L, heed_level(b->cx));
  return 1;
}

static int l_threads (lua_State *L) {
  binding *b = enter(L);
  if (!lua_isnoneornil(L, 1)) {
    int64_t n = check_whole(L, 1, "threads", "n");
    if (n < 1 || n > 256) return raise(L, "threads: 1 to 256 expected, got %I", (LUAI_UACINT)n);
    if (!heed_set_threads(b->cx, (int)n)) return raise_failure(L);
  }
  lua_pushinteger(L, heed_threads(b->cx));
  return 1;
}

void open_memory (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"keep", l_keep}, {"level", l_level}, {"memory", l_memory}, {"scope", l_scope},
    {"threads", l_threads}, {NULL, NULL}
  };
  (void)methods;
  register_functions(L, functions, module);
}
