/*
** lua_grad.c - gradients from Lua: backward, grad, and operations of the user's.
*/

#include <stdlib.h>

#include "lua_heed.h"

static const char thrown_key = 0;        /* in the registry: the error of a rule */
static const char caller_key = 0;        /* and what calls rules */


/*
** {==================================================================
** Backward
** ===================================================================
*/

/* What backward and grad take at the end: {retain_graph = true}. */
static bool retain_option (lua_State *L, int i, const char *function) {
  static const char *const known[] = {"retain_graph"};
  bool retain = false;
  lua_pushnil(L);
  while (next_option(L, i, function, 1, known) != NULL) {
    if (!lua_isboolean(L, -1))
      raise_wrong(L, function, "retain_graph", "true or false", lua_gettop(L));
    retain = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  return retain;
}


/* The gradient that stands at i, if one does before the options: *options is their place. */
static heed_tensor *gradient_option (lua_State *L, int i, int *options) {
  bool named = lua_gettop(L) == i && is_options(L, i);
  *options = named ? i : i + 1;
  return named || lua_isnoneornil(L, i) ? NULL : check_tensor(L, i);
}


/* A rule's own error goes on as it is. */
static int raise_pass (lua_State *L, binding *b) {
  if (!b->thrown) return raise_failure(L);
  b->thrown = false;
  heed_clear(b->cx);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &thrown_key);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
  return lua_error(L);
}


/* y:backward([gradient][, {retain_graph}]) */
static int l_backward (lua_State *L) {
  int options;
  binding *b = enter(L);
  heed_tensor *y = check_tensor(L, 1), *seed = gradient_option(L, 2, &options);
  bool retain = retain_option(L, options, "backward");
  b->thrown = false;
  heed_keep(y);                    /* rules may be functions of the user's, which may release */
  heed_keep(seed);
  bool good = heed_backward(y, seed, retain);
  heed_drop(y);
  heed_drop(seed);
  return good ? 0 : raise_pass(L, b);
}


/* Slots for n gradients, as userdata in a list on top; theirs and the xs' handles in C. */
typedef struct asked {
  int n;
  slot **slots;
  heed_tensor **xs, **gs;
} asked;


static asked push_gradients (lua_State *L, int n) {
  asked r = {.n = n};
  void **room = lua_newuserdatauv(L, 3 * (size_t)(n + 1) * sizeof *room, 0);
  r.slots = (slot **)room;
  r.xs = (heed_tensor **)(room + n);
  r.gs = r.xs + n;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    r.slots[i] = push_slot(L);
    lua_rawseti(L, -2, i + 1);
  }
  return r;
}


/* The tensor at 2, or those in the list at 2. */
static void read_xs (lua_State *L, bool list, asked *r) {
  for (int i = 0; i < r->n; i++) {
    if (list) lua_rawgeti(L, 2, i + 1);
    else lua_pushvalue(L, 2);
    r->xs[i] = raw_tensor(L, -1);
    if (r->xs[i] == NULL)
      raise(L, "grad: argument 'xs': a tensor expected at position %d, got %s", i + 1,
            describe(L, -1));
    lua_pop(L, 1);
  }
}


static bool pass_for (heed_tensor *y, heed_tensor *seed, asked *r, bool retain) {
  heed_keep(y);
  heed_keep(seed);
  for (int i = 0; i < r->n; i++) heed_keep(r->xs[i]);
  bool good = heed_gradients(y, seed, r->n, r->xs, r->gs, retain);
  for (int i = 0; i < r->n; i++) heed_drop(r->xs[i]);
  heed_drop(seed);
  heed_drop(y);
  return good;
}


/* grad(y, xs[, gradient][, {retain_graph}]): a list, false where y does not depend on xs[i]; for
   one tensor one gradient, or nil */
static int l_grad (lua_State *L) {
  int options;
  binding *b = enter(L);
  bool list = lua_type(L, 2) == LUA_TTABLE;
  check_tensor(L, 1);
  if (!list && raw_tensor(L, 2) == NULL)
    raise_wrong(L, "grad", "xs", "a tensor or a list of tensors", 2);
  heed_tensor *seed = gradient_option(L, 3, &options);
  bool retain = retain_option(L, options, "grad");
  asked r = push_gradients(L, list ? (int)check_list(L, 2, "grad") : 1);
  read_xs(L, list, &r);
  b->thrown = false;
  if (!pass_for(check_tensor(L, 1), seed, &r, retain)) return raise_pass(L, b);
  for (int i = 0; i < r.n; i++) r.slots[i]->t = r.gs[i];
  if (!list) {
    lua_rawgeti(L, -1, 1);
    if (r.gs[0] == NULL) lua_pushnil(L);
    return 1;
  }
  for (int i = 0; i < r.n; i++) {
    if (r.gs[i] != NULL) continue;
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}


/* x:requires_grad_([yes]): x */
static int l_requires_grad (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  if (!lua_isnoneornil(L, 2) && !lua_isboolean(L, 2))
    raise_wrong(L, "requires_grad_", "requires_grad", "true or false", 2);
  if (!heed_require_grad(t, lua_isnoneornil(L, 2) || lua_toboolean(L, 2)))
    return raise_failure(L);
  lua_settop(L, 1);
  return 1;
}


/* graph_nodes(): steps of history that are alive */
static int l_graph_nodes (lua_State *L) {
  lua_pushinteger(L, heed_graph_nodes(enter(L)->cx));
  return 1;
}


/* version(x): grows with each change of x in place */
static int l_version (lua_State *L) {
  enter(L);
  lua_pushinteger(L, heed_version(check_tensor(L, 1)));
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Operations of the user's. The Lua half calls record(outputs, inputs, rule); the function lives
** in the registry as long as the history that will ask for it.
** ===================================================================
*/

struct hook {
  binding *b;                      /* NULL once the state is closed: the host holds a tensor */
  int rule;                        /* in the registry */
  hook *newer, *older;             /* all of the state's */
};


static void link_hook (binding *b, hook *h) {
  h->newer = NULL;
  h->older = b->hooks;
  if (h->older != NULL) h->older->newer = h;
  b->hooks = h;
}


static void unlink_hook (binding *b, hook *h) {
  *(h->newer != NULL ? &h->newer->older : &b->hooks) = h->older;
  if (h->older != NULL) h->older->newer = h->newer;
}


void drop_hooks (binding *b) {
  for (hook *h = b->hooks; h != NULL; h = h->older) h->b = NULL;
  b->hooks = NULL;
}


static void release_hook (void *self) {
  hook *h = self;
  if (h->b != NULL) {
    unlink_hook(h->b, h);
    luaL_unref(running(h->b), LUA_REGISTRYINDEX, h->rule);
  }
  free(h);
}


/* (rule, gradients, n): calls the rule with n tensors, nil for those that are NULL */
static int call_backward (lua_State *L) {
  int n = (int)lua_tointeger(L, 3);
  heed_tensor *const *gs = lua_touserdata(L, 2);
  lua_settop(L, 1);
  luaL_checkstack(L, n + 4, "custom");
  for (int i = 0; i < n; i++) {
    if (gs[i] == NULL) lua_pushnil(L);
    else push_slot(L)->t = heed_keep(gs[i]);
  }
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L);
}


/* Not describe(), which would raise: a host may have asked for the walk. */
static const char *kind_of (lua_State *L, const binding *b, int i) {
  const box *x = box_at(L, b, i);
  if (x == NULL) return luaL_typename(L, i);
  return x->at != NULL ? "tensor" : "released tensor";
}


/* What the rule gave, from stack place 'from' on; nil and false are no gradient. */
static bool check_results (lua_State *L, binding *b, int from, int n) {
  for (int i = from; i <= lua_gettop(L); i++) {
    slot *s = slot_at(L, b, i);
    if (!lua_toboolean(L, i) || (i - from < n && s != NULL && s->t != NULL)) continue;
    heed_fail(b->cx, "custom: backward gave a %s as gradient %d; tensors for %d inputs expected",
              kind_of(L, b, i), i - from + 1, n);
    return false;
  }
  return true;
}


static void take_results (lua_State *L, binding *b, int from, heed_tensor **results) {
  for (int i = from; i <= lua_gettop(L); i++)
    if (lua_toboolean(L, i)) results[i - from] = heed_keep(slot_at(L, b, i)->t);
}


/* The message is for hosts that asked for the walk; Lua gets the error itself. */
static void keep_thrown (lua_State *L, binding *b) {
  const char *message = lua_tostring(L, -1);
  heed_fail(b->cx, "%s", message != NULL ? message : "custom: backward raised an error");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
  b->thrown = true;
}


/* Grows with each change of them in place. */
static int64_t versions_of (int n, heed_tensor *const *ts) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) sum += heed_version(ts[i]);
  return sum;
}


/* Other branches of the history share them, and so may the one who gave the first. */
static bool check_gradients (binding *b, int n, heed_tensor *const *gradients, int64_t before) {
  if (versions_of(n, gradients) == before) return true;
  heed_fail(b->cx, "custom: backward changed a gradient in place, which others need too; clone() "
            "it first");
  return false;
}


static bool call_hook (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                       heed_tensor **results) {
  hook *h = self;
  binding *b = h->b;
  if (b == NULL) return false;
  lua_State *L = running(b);
  int top = lua_gettop(L);
  int64_t before = versions_of(noutputs, gradients);
  frame f = {.recording = false};
  if (!lua_checkstack(L, 12)) {
    heed_fail(b->cx, "custom: Lua's stack is full");
    return false;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &caller_key);
  lua_rawgeti(L, LUA_REGISTRYINDEX, h->rule);
  lua_pushlightuserdata(L, (void *)(uintptr_t)gradients);
  lua_pushinteger(L, noutputs);
  begin_frame(b, L, &f);
  int status = lua_pcall(L, 3, LUA_MULTRET, 0);
  b->L = L;
  end_frame(b, L, &f);
  if (status != LUA_OK) keep_thrown(L, b);
  bool good = status == LUA_OK && check_results(L, b, top + 1, ninputs) &&
              check_gradients(b, noutputs, gradients, before);
  if (good) take_results(L, b, top + 1, results);
  lua_settop(L, top);
  return good;
}


/* Tensors of the list at i, in memory of Lua's that it pushes. */
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


/* record(outputs, inputs, rule): the outputs' history is this rule now */
static int l_record (lua_State *L) {
  binding *b = enter(L);
  int noutputs, ninputs;
  luaL_checktype(L, 3, LUA_TFUNCTION);
  heed_tensor **outputs = read_handles(L, 1, &noutputs);
  heed_tensor **inputs = read_handles(L, 2, &ninputs);
  lua_pushvalue(L, 3);
  int rule = luaL_ref(L, LUA_REGISTRYINDEX);
  hook *h = malloc(sizeof *h);
  if (h != NULL) {
    *h = (hook){.b = b, .rule = rule};
    link_hook(b, h);
    heed_custom custom = {call_hook, release_hook, h};
    if (heed_record_custom(b->cx, &custom, ninputs, inputs, noutputs, outputs)) return 0;
    release_hook(h);
    return raise_failure(L);
  }
  luaL_unref(L, LUA_REGISTRYINDEX, rule);
  return luaL_error(L, "not enough memory");
}

/* }================================================================== */


void open_grad (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"grad", l_grad}, {"graph_nodes", l_graph_nodes}, {"record", l_record},
    {"version", l_version}, {NULL, NULL}
  };
  static const luaL_Reg tensor[] = {
    {"backward", l_backward}, {"requires_grad_", l_requires_grad}, {NULL, NULL}
  };
  register_functions(L, functions, module);
  register_functions(L, tensor, methods);
  register_functions(L, tensor, module);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, call_backward, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &caller_key);
}
