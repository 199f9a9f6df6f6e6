/*
** lua_grad.c - gradients from Lua: backward, grad, and operations of the user's.
*/

#include <stdlib.h>

#include "lua_heed.h"

static const char thrown_key = 0;        /* in the registry: a backward function's error */
static const char call_key = 0;          /* and call_backward */


/*
** {==================================================================
** Backward
** ===================================================================
*/

/* The options of backward and grad. */
typedef struct pass_options { bool retain, create; } pass_options;

static pass_options read_options (lua_State *L, int i) {
  static const char *const known[] = {"retain_graph", "create_graph"};
  const char *name;
  pass_options o = {false, false};
  lua_pushnil(L);
  while ((name = next_option(L, i, 2, known)) != NULL) {
    *(name == known[0] ? &o.retain : &o.create) = check_flag(L, lua_gettop(L), name);
    lua_pop(L, 1);
  }
  return o;
}


/* The gradient at i, if there is one before the options, which *options is the index of. */
static heed_tensor *gradient_option (lua_State *L, int i, int *options) {
  bool named = lua_gettop(L) == i && is_options(L, i);
  *options = named ? i : i + 1;
  return named || lua_isnoneornil(L, i) ? NULL : check_tensor(L, i);
}


/* The error of a backward function in Lua is raised again as it was. */
static int raise_pass (lua_State *L, binding *b) {
  if (!b->thrown) return raise_failure(L);
  heed_set_caller(b->cx, NULL);
  b->thrown = false;
  heed_clear(b->cx);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &thrown_key);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
  return lua_error(L);
}


/* y:backward([gradient][, {retain_graph}]); the core names the operation whose backward fails */
static int l_backward (lua_State *L) {
  int options;
  binding *b = enter(L);
  check_tensor(L, 1);
  bool seeded = gradient_option(L, 2, &options) != NULL;
  const pass_options o = read_options(L, options);
  if (o.create)
    raise(L, "create_graph: a leaf's gradient would hold the graph that holds the leaf; take "
          "heed.grad(y, xs, {create_graph = true})");
  hold_keepers(L, 1);
  heed_tensor *y = check_tensor(L, 1), *seed = seeded ? check_tensor(L, 2) : NULL;
  b->thrown = false;
  heed_keep(y);                    /* functions of the user's may release them */
  heed_keep(seed);
  bool good = heed_backward(y, seed, o.retain);
  heed_drop(y);
  heed_drop(seed);
  return good ? 0 : raise_pass(L, b);
}


/* Cells for n gradients, as userdata in a list on top; theirs and the xs' handles in C. */
typedef struct wanted {
  int n;
  cell **cells;
  heed_tensor **xs, **gs;
} wanted;


static wanted push_gradients (lua_State *L, int n) {
  wanted r = {.n = n};
  void **arrays = lua_newuserdatauv(L, 3 * (size_t)(n + 1) * sizeof *arrays, 0);
  r.cells = (cell **)arrays;
  r.xs = (heed_tensor **)(arrays + n);
  r.gs = r.xs + n;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    r.cells[i] = push_cell(L);
    lua_rawseti(L, -2, i + 1);
  }
  return r;
}


/* The tensor at 2, or those in the list at 2. */
static void read_xs (lua_State *L, bool list, wanted *r) {
  for (int i = 0; i < r->n; i++) {
    if (list) lua_rawgeti(L, 2, i + 1);
    else lua_pushvalue(L, 2);
    r->xs[i] = raw_tensor(L, -1);
    if (r->xs[i] == NULL)
      raise(L, "argument 'xs': a tensor expected at position %d, got %s", i + 1,
            describe(L, -1));
    lua_pop(L, 1);
  }
}


static bool pass_for (heed_tensor *y, heed_tensor *seed, wanted *r, pass_options o) {
  heed_keep(y);
  heed_keep(seed);
  for (int i = 0; i < r->n; i++) heed_keep(r->xs[i]);
  bool good = o.create ? heed_recorded_gradients(y, seed, r->n, r->xs, r->gs)
                       : heed_gradients(y, seed, r->n, r->xs, r->gs, o.retain);
  for (int i = 0; i < r->n; i++) heed_drop(r->xs[i]);
  heed_drop(seed);
  heed_drop(y);
  return good;
}


/* The n gradients of the list on top lead to all functions of the graphs that they came from. */
static void anchor_gradients (lua_State *L, int anchors, int n) {
  int list = lua_gettop(L);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, list, i);
    pass_anchors(L, anchors, list + 1, 1);
    lua_settop(L, list);
  }
}


/* grad(y, xs[, gradient][, {retain_graph, create_graph}]): a list, false where y does not depend on
   xs[i]; for one tensor one gradient, or nil */
static int l_grad (lua_State *L) {
  int options;
  binding *b = enter(L);
  bool list = lua_type(L, 2) == LUA_TTABLE;
  check_tensor(L, 1);
  if (!list && raw_tensor(L, 2) == NULL)
    raise_wrong(L, "xs", "a tensor or a list of tensors", 2);
  bool seeded = gradient_option(L, 3, &options) != NULL;
  const pass_options o = read_options(L, options);
  int anchors = o.create && b->hooks != NULL ? begin_anchors(L, lua_gettop(L)) : 0;
  if (anchors != 0) take_anchors(L, anchors - 1, anchors);
  hold_keepers(L, 1);
  wanted r = push_gradients(L, list ? (int)check_list(L, 2) : 1);
  read_xs(L, list, &r);
  heed_tensor *y = check_tensor(L, 1), *seed = seeded ? check_tensor(L, 3) : NULL;
  b->thrown = false;
  named(L);
  if (!pass_for(y, seed, &r, o)) return raise_pass(L, b);
  done(L, true);
  for (int i = 0; i < r.n; i++) r.cells[i]->t = r.gs[i];
  if (anchors != 0) anchor_gradients(L, anchors, r.n);
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
  at_most(L, 2);
  heed_tensor *t = check_tensor(L, 1);
  bool yes = lua_isnoneornil(L, 2) || check_flag(L, 2, "requires_grad");
  named(L);
  done(L, heed_require_grad(t, yes));
  lua_settop(L, 1);
  return 1;
}


/* graph_nodes(): nodes of the graph that are alive */
static int l_graph_nodes (lua_State *L) {
  at_most(L, 0);
  lua_pushinteger(L, heed_graph_nodes(enter(L)->cx));
  return 1;
}


/* version(x): grows with each change of x in place, and with set_ */
static int l_version (lua_State *L) {
  enter(L);
  lua_pushinteger(L, heed_version(check_tensor(L, 1)));
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Functions of the user's. The Lua half calls record(outputs, inputs, backward) and add_hook(x, f);
** lua_anchor.c says where the function is until the node that will call it is freed.
** ===================================================================
*/

struct hook {
  binding *b;                      /* NULL once the state is closed: the host holds a tensor */
  int64_t keeper;                  /* the number of its function's */
  heed_hook *at;                   /* of a tensor; NULL: the backward function of a node */
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
    empty_keeper(running(h->b), h->keeper);
  }
  free(h);
}


/* (backward, gradients, n): calls backward with n tensors, nil for those that are NULL. The pass
   owns its results, unseen by the collector. */
static int call_backward (lua_State *L) {
  int n = (int)lua_tointeger(L, 3);
  heed_tensor *const *gs = lua_touserdata(L, 2);
  lua_settop(L, 1);
  luaL_checkstack(L, n + 4, "custom");
  for (int i = 0; i < n; i++) {
    if (gs[i] == NULL) lua_pushnil(L);
    else push_cell(L)->t = heed_keep(gs[i]);
  }
  lua_call(L, n, LUA_MULTRET);
  pin_anchors(L, 1, lua_gettop(L));
  return lua_gettop(L);
}


/* Not describe(), which may raise: the pass may be a host's. */
static const char *kind_of (lua_State *L, const binding *b, int i) {
  const box *x = box_at(L, b, i);
  if (x == NULL) return luaL_typename(L, i);
  return x->at != NULL ? "tensor" : "released tensor";
}


static const char *name_of (const hook *h) {
  return h->at != NULL ? "register_hook: the function" : "custom: backward";
}


/* Checks the results of h, from stack index 'from' on; nil and false are no gradient. */
static bool check_results (lua_State *L, const hook *h, int from, int n) {
  binding *b = h->b;
  for (int i = from; i <= lua_gettop(L); i++) {
    cell *s = cell_at(L, b, i);
    if (!lua_toboolean(L, i) || (i - from < n && s != NULL && s->t != NULL)) continue;
    heed_fail(b->cx, "%s gave a %s as gradient %d; tensors for %d inputs expected", name_of(h),
              kind_of(L, b, i), i - from + 1, n);
    return false;
  }
  return true;
}


static void take_results (lua_State *L, binding *b, int from, heed_tensor **results) {
  for (int i = from; i <= lua_gettop(L); i++)
    if (lua_toboolean(L, i)) results[i - from] = heed_keep(cell_at(L, b, i)->t);
}


/* The error on top of h's call. The message is for hosts that began the pass; Lua gets the error
   itself, but of a yield, which tells no place. */
static void keep_thrown (lua_State *L, const hook *h) {
  binding *b = h->b;
  if (has_yielded(L)) {
    heed_fail(b->cx, "%s may not yield", name_of(h));
    return;
  }
  const char *message = lua_tostring(L, -1);
  heed_fail(b->cx, "%s", message != NULL ? message : "a backward function raised an error");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
  b->thrown = true;
}


/* Grows with each change of them in place. */
static int64_t versions_of (int n, heed_tensor *const *ts) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) sum += heed_version(ts[i]);
  return sum;
}


/* Other nodes of the graph share them, and so may the caller who gave the first. */
static bool check_gradients (const hook *h, int n, heed_tensor *const *gradients, int64_t before) {
  if (versions_of(n, gradients) == before) return true;
  heed_fail(h->b->cx, "%s changed a gradient in place, which others need too; clone() it first",
            name_of(h));
  return false;
}


/* The core has the name of the pass again afterwards. */
static bool call_hook (void *self, int noutputs, heed_tensor *const *gradients, int ninputs,
                       heed_tensor **results) {
  const hook *own = self, copy = *own, *h = &copy;       /* the hook may remove itself */
  binding *b = h->b;
  if (b == NULL) return false;
  lua_State *L = running(b);
  int top = lua_gettop(L);
  int64_t before = versions_of(noutputs, gradients);
  const modes pass = modes_now(b);
  frame f = {.modes = pass, .moded = true, .layered = true};
  f.modes.autocast = HEED_FLOAT32;
  if (!lua_checkstack(L, 12)) {
    heed_fail(b->cx, "%s cannot be called: Lua's stack is full", name_of(h));
    return false;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &call_key);
  if (!push_kept(L, h->keeper)) {
    lua_settop(L, top);
    heed_fail(b->cx, "%s was collected with all that led to it", name_of(h));
    return false;
  }
  lua_pushlightuserdata(L, (void *)(uintptr_t)gradients);
  lua_pushinteger(L, noutputs);
  heed_set_caller(b->cx, NULL);        /* what it calls has names of its own */
  begin_frame(b, L, &f);
  int status = lua_pcall(L, 3, LUA_MULTRET, 0);
  b->L = L;
  note_hooks(b, L);
  end_frame(b, L, &f);
  set_modes(b, pass);                  /* a profile hears of the layer */
  if (status != LUA_OK) keep_thrown(L, h);
  bool good = status == LUA_OK && check_results(L, h, top + 1, ninputs) &&
              check_gradients(h, noutputs, gradients, before);
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


/* For the function that is kept under this number. */
static hook *new_hook (binding *b, int64_t number, const char *function) {
  hook *h = malloc(sizeof *h);
  if (h == NULL) {
    heed_fail(b->cx, "%s: not enough memory", function);
    return NULL;
  }
  *h = (hook){.b = b, .keeper = number};
  link_hook(b, h);
  return h;
}


/* Gives the outputs a node whose backward function is kept under this number. */
static bool record (binding *b, int64_t number, int ninputs, heed_tensor **inputs, int noutputs,
                    heed_tensor **outputs) {
  hook *h = new_hook(b, number, "custom");
  if (h == NULL) return false;
  heed_custom custom = {call_hook, release_hook, h};
  if (heed_record_custom(b->cx, &custom, ninputs, inputs, noutputs, outputs)) return true;
  release_hook(h);
  return false;
}


/* record(outputs, inputs, backward): gives the outputs a node whose backward is this */
static int l_record (lua_State *L) {
  int noutputs, ninputs;
  binding *b = enter(L);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  int anchors = b->hooks != NULL ? begin_anchors(L, 2) : 0;
  if (anchors != 0) take_anchors(L, 2, anchors);
  int64_t number = push_keeper(L, 3, anchors);
  int keeper = lua_gettop(L);
  heed_tensor **outputs = read_handles(L, 1, &noutputs);
  heed_tensor **inputs = read_handles(L, 2, &ninputs);
  if (!record(b, number, ninputs, inputs, noutputs, outputs)) return raise_failure(L);
  for (int i = 1; i <= noutputs; i++) {
    lua_rawgeti(L, 1, i);
    lua_pushvalue(L, keeper);
    lua_setiuservalue(L, -2, 1);
    lua_pop(L, 1);
  }
  return 0;
}


/* add_hook(x, f): calls f(gradient of x) in a pass; a number for remove_hook */
static int l_add_hook (lua_State *L) {
  binding *b = enter(L);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  heed_tensor *t = check_tensor(L, 1);
  int64_t number = anchor_function(L, 2, 1);
  hook *h = new_hook(b, number, "register_hook");
  if (h == NULL) return raise_failure(L);
  heed_custom custom = {call_hook, release_hook, h};
  h->at = heed_add_hook(t, &custom);
  if (h->at == NULL) {
    release_hook(h);
    return raise_failure(L);
  }
  set_keeper_caller(L, number, h);
  lua_pushinteger(L, number);
  return 1;
}


/* remove_hook(number); nothing if it is gone */
static int l_remove_hook (lua_State *L) {
  binding *b = enter(L);
  int64_t number = luaL_checkinteger(L, 1);
  hook *h = keeper_caller(L, number);
  if (h == NULL) h = b->hooks;     /* a keeper may be collected before its node is freed */
  while (h != NULL && (h->keeper != number || h->at == NULL)) h = h->older;
  if (h != NULL) heed_remove_hook(h->at);
  return 0;
}


/* x:retain_grad() */
static int l_retain_grad (lua_State *L) {
  enter(L);
  at_most(L, 1);
  heed_tensor *t = check_tensor(L, 1);
  named(L);
  done(L, heed_retain_gradient(t));
  return 0;
}

/* }================================================================== */


void open_grad (lua_State *L, int module, int methods, int internal) {
  static const luaL_Reg functions[] = {
    {"grad", l_grad}, {"graph_nodes", l_graph_nodes}, {NULL, NULL}
  };
  static const luaL_Reg versions[] = {{"version", l_version}, {NULL, NULL}};
  static const luaL_Reg custom[] = {{"record", l_record}, {NULL, NULL}};
  static const luaL_Reg hooks[] = {
    {"add_hook", l_add_hook}, {"remove_hook", l_remove_hook}, {NULL, NULL}
  };
  static const luaL_Reg tensor[] = {
    {"backward", l_backward}, {"requires_grad_", l_requires_grad},
    {"retain_grad", l_retain_grad}, {NULL, NULL}
  };
  register_functions(L, functions, module);
  register_functions(L, versions, internal);
  register_as(L, "custom", custom, internal);
  register_as(L, "register_hook", hooks, internal);
  register_methods(L, tensor, module, methods);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, call_backward, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &call_key);
}
