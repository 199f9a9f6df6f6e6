/*
** lua_grad.c - gradients from Lua: backward, grad, no_grad, and operations of the user's.
*/

#include <string.h>

#include "lua_heed.h"

/* What backward and grad take at the end: {retain_graph = true}. */
static bool retain_option (lua_State *L, int i, const char *function) {
  static const char *const known[] = {"retain_graph"};
  bool retain = false;
  if (lua_isnoneornil(L, i)) return false;
  if (!lua_istable(L, i))
    raise(L, "%s: a table of options expected, got %s", function, luaL_typename(L, i));
  lua_pushnil(L);
  while (lua_next(L, i)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    if (strcmp(key, "retain_graph") != 0) unknown_option(L, function, key, 1, known);
    retain = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  return retain;
}

/* t:backward([gradient][, {retain_graph}]) */
static int l_backward (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  int options = is_options(L, lua_gettop(L)) ? lua_gettop(L) : 3;
  heed_tensor *seed = options == 2 || lua_isnoneornil(L, 2) ? NULL : check_tensor(L, 2);
  bool retain = retain_option(L, options, "backward");
  if (!heed_backward(t, seed, retain)) return raise_failure(L);
  return 0;
}

/* grad(y, xs[, gradient][, {retain_graph}]): a list, or one tensor for one tensor */
static int l_grad (lua_State *L) {
  enter(L);
  heed_tensor *y = check_tensor(L, 1), *single = raw_tensor(L, 2);
  if (single == NULL && !lua_istable(L, 2))
    return raise(L, "grad: argument 'xs': a tensor or a list of tensors expected, got %s",
                 luaL_typename(L, 2));
  int options = is_options(L, lua_gettop(L)) && lua_gettop(L) > 2 ? lua_gettop(L) : 4;
  heed_tensor *seed = options == 3 || lua_isnoneornil(L, 3) ? NULL : check_tensor(L, 3);
  bool retain = retain_option(L, options, "grad");
  int n = single != NULL ? 1 : (int)lua_rawlen(L, 2);
  heed_tensor **xs = lua_newuserdatauv(L, 2 * (size_t)(n + 1) * sizeof *xs, 0), **gs = xs + n;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    if (single == NULL) lua_rawgeti(L, 2, i + 1);
    else lua_pushvalue(L, 2);
    xs[i] = check_tensor(L, -1);
    lua_pop(L, 1);
    push_box(L);
    lua_rawseti(L, -2, i + 1);
  }
  if (!heed_gradients(y, seed, n, xs, gs, retain)) return raise_failure(L);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    ((box *)lua_touserdata(L, -1))->t = gs[i];
    lua_pop(L, 1);
  }
  for (int i = 0; i < n; i++) {    /* what y does not depend on has none */
    if (gs[i] != NULL) continue;
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i + 1);
  }
  if (single == NULL) return 1;
  lua_rawgeti(L, -1, 1);
  if (!lua_toboolean(L, -1)) lua_pushnil(L);
  return 1;
}

static int l_requires_grad (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  bool yes = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
  if (!heed_require_grad(t, yes)) return raise_failure(L);
  lua_settop(L, 1);
  return 1;
}

/* The mode is set back however f ends. */
static int finish_recording (lua_State *L, int status, lua_KContext was) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  heed_set_recording(b->cx, was != 0);
  if (status != LUA_OK && status != LUA_YIELD) return lua_error(L);
  return lua_gettop(L);
}

static int with_recording (lua_State *L, bool on, const char *name) {
  binding *b = enter(L);
  if (lua_isnoneornil(L, 1)) return raise(L, "%s: a function expected, got %s", name,
                                          luaL_typename(L, 1));
  lua_KContext was = heed_set_recording(b->cx, on);
  int status = lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, was, finish_recording);
  return finish_recording(L, status, was);
}

/* no_grad(f, ...): f's results; nothing in it is recorded */
static int l_no_grad (lua_State *L) { return with_recording(L, false, "no_grad"); }
static int l_enable_grad (lua_State *L) { return with_recording(L, true, "enable_grad"); }

static int l_is_grad_enabled (lua_State *L) {
  lua_pushboolean(L, heed_recording(enter(L)->cx));
  return 1;
}

static int l_graph_nodes (lua_State *L) {
  lua_pushinteger(L, heed_graph_nodes(enter(L)->cx));
  return 1;
}


/*
** {==================================================================
** Operations of the user's. The Lua half calls record(outputs, inputs, backward); the function
** lives in the registry, under the address of this block, as long as the node does.
** ===================================================================
*/

typedef struct hook {
  binding *b;
  int reference;                   /* in the registry */
} hook;

static int push_gradients (lua_State *L) {
  int n = (int)lua_tointeger(L, 3);
  heed_tensor *const *gs = lua_touserdata(L, 2);
  luaL_checkstack(L, n + 4, "custom");
  lua_rawgeti(L, LUA_REGISTRYINDEX, lua_tointeger(L, 1));
  lua_getiuservalue(L, -1, 1);
  lua_remove(L, -2);
  for (int i = 0; i < n; i++) {
    box *slot = push_box(L);
    slot->t = heed_keep(gs[i]);
    if (gs[i] == NULL) {
      lua_pop(L, 1);
      lua_pushnil(L);
    }
  }
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L) - 3;
}

/* Takes what backward returned; nil and false are no gradient. */
static bool take_results (lua_State *L, binding *b, int base, int n, heed_tensor **results) {
  for (int i = 0; i < n && base + 1 + i <= lua_gettop(L); i++) {
    if (!lua_toboolean(L, base + 1 + i)) continue;
    box *slot = lua_touserdata(L, base + 1 + i);
    bool good = slot != NULL && lua_rawlen(L, base + 1 + i) == sizeof(box) &&
                slot->self == slot && slot->t != NULL;
    if (!good) {
      heed_fail(b->cx, "custom: backward gave %s as gradient %d, not a tensor",
                luaL_typename(L, base + 1 + i), i + 1);
      return false;
    }
    results[i] = heed_keep(slot->t);
  }
  return true;
}

static bool call_hook (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                       heed_tensor **results) {
  hook *h = self;
  binding *b = h->b;
  lua_State *L = b->L;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 12)) {
    heed_fail(b->cx, "custom: Lua's stack is full");
    return false;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, b);            /* push_gradients, with its upvalues */
  lua_pushinteger(L, h->reference);
  lua_pushlightuserdata(L, (void *)(uintptr_t)gradients);
  lua_pushinteger(L, noutputs);
  bool recording = heed_set_recording(b->cx, false);
  int status = lua_pcall(L, 3, LUA_MULTRET, 0);
  heed_set_recording(b->cx, recording);
  b->L = L;
  bool good = status == LUA_OK && take_results(L, b, top, ninputs, results);
  if (status != LUA_OK) heed_fail(b->cx, "%s", luaL_tolstring(L, -1, NULL));
  lua_settop(L, top);
  return good;
}

static void release_hook (void *self) {
  hook *h = self;
  if (h->b->cx != NULL) luaL_unref(h->b->L, LUA_REGISTRYINDEX, h->reference);
  h->reference = LUA_NOREF;
}

static heed_tensor **read_handles (lua_State *L, int i, int *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (int)lua_rawlen(L, i);
  heed_tensor **list = lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *list, 0);
  for (int k = 0; k < *n; k++) {
    lua_rawgeti(L, i, k + 1);
    list[k] = check_tensor(L, -1);
    lua_pop(L, 1);
  }
  return list;
}

/* record(outputs, inputs, backward): the hook's block is anchored beside the function */
static int l_record (lua_State *L) {
  binding *b = enter(L);
  int noutputs, ninputs;
  luaL_checktype(L, 3, LUA_TFUNCTION);
  heed_tensor **outputs = read_handles(L, 1, &noutputs);
  heed_tensor **inputs = read_handles(L, 2, &ninputs);
  hook *h = lua_newuserdatauv(L, sizeof *h, 1);
  h->b = b;
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, 1);
  int block = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, b);
  if (lua_isnil(L, -1)) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushcclosure(L, push_gradients, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, b);
  }
  lua_pushvalue(L, block);
  h->reference = luaL_ref(L, LUA_REGISTRYINDEX);
  heed_custom custom = {call_hook, release_hook, h};
  if (!heed_record_custom(b->cx, &custom, ninputs, inputs, noutputs, outputs)) {
    luaL_unref(L, LUA_REGISTRYINDEX, h->reference);
    return raise_failure(L);
  }
  return 0;
}

/* }================================================================== */

void open_grad (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"enable_grad", l_enable_grad}, {"grad", l_grad}, {"graph_nodes", l_graph_nodes},
    {"is_grad_enabled", l_is_grad_enabled}, {"no_grad", l_no_grad}, {"record", l_record},
    {NULL, NULL}
  };
  static const luaL_Reg tensor[] = {
    {"backward", l_backward}, {"requires_grad_", l_requires_grad}, {NULL, NULL}
  };
  register_functions(L, functions, module);
  register_functions(L, tensor, methods);
}
