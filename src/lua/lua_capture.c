/*
** lua_capture.c - captured work as a userdata. The Lua half decides when to capture and to replay.
*/

#include "lua_heed.h"

static const char capture_key = 0;     /* its address names the metatable in the registry */


static heed_capture **capture_at (lua_State *L, int i) {
  bool is = false;
  if (lua_getmetatable(L, i)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &capture_key);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  heed_capture **c = is ? lua_touserdata(L, i) : NULL;
  if (c == NULL || *c == NULL) raise(L, "captured work expected, got %s", describe(L, i));
  return c;
}


/* capture_begin(device): what follows is recorded instead of done */
static int l_capture_begin (lua_State *L) {
  enter(L);
  const char *device = check_device(L, 1);
  return done(L, heed_capture_begin(named(L), device));
}


/* capture_end(): what was recorded; raises the error of a capture that failed */
static int l_capture_end (lua_State *L) {
  enter(L);
  heed_capture **c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &capture_key);
  lua_setmetatable(L, -2);
  *c = heed_capture_end(named(L));
  done(L, *c != NULL);
  return 1;
}


/* capture_drop(capture): takes back what its work, which was never done, has set */
static int l_capture_drop (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  heed_capture **c = capture_at(L, 1);
  heed_capture_drop(cx, *c);
  *c = NULL;
  return 0;
}


/* capture_call(f, ...): pcall(f, ...), in which f may not yield */
static int l_capture_call (lua_State *L) {
  enter(L);
  check_callable(L, 1);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}


/* capture_modes(): what calls depend on besides their arguments */
static int l_capture_modes (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  lua_pushboolean(L, heed_recording(cx));
  lua_pushinteger(L, (lua_Integer)heed_autocast(cx));
  lua_pushstring(L, heed_device(cx));
  lua_pushstring(L, heed_matmul_precision(cx));
  return 4;
}


static int l_capture_replay (lua_State *L) {
  enter(L);
  heed_capture *c = *capture_at(L, 1);
  return done(L, heed_capture_replay(named(L), c));
}


/* capture_state(capture): "ready", "differs" or "stale": see heed.h */
static int l_capture_state (lua_State *L) {
  static const char *const names[] = {
    [HEED_CAPTURE_READY] = "ready", [HEED_CAPTURE_GRADIENTS_DIFFER] = "differs",
    [HEED_CAPTURE_STALE] = "stale"
  };
  enter(L);
  lua_pushstring(L, names[heed_capture_state_of(*capture_at(L, 1))]);
  return 1;
}


/* capture_changes(capture[, t]): does the work change t, or anything that was there before? */
static int l_capture_changes (lua_State *L) {
  enter(L);
  const heed_capture *c = *capture_at(L, 1);
  lua_pushboolean(L, heed_capture_changes(c, lua_isnone(L, 2) ? NULL : check_tensor(L, 2)));
  return 1;
}


/* capture_apart(capture, input, given): see heed.h */
static int l_capture_apart (lua_State *L) {
  enter(L);
  const heed_capture *c = *capture_at(L, 1);
  lua_pushboolean(L, heed_capture_apart(c, check_tensor(L, 2), check_tensor(L, 3)));
  return 1;
}


/* capture_shares(x, t): does x have memory of t's? */
static int l_capture_shares (lua_State *L) {
  enter(L);
  lua_pushboolean(L, heed_shares_memory(check_tensor(L, 1), check_tensor(L, 2)));
  return 1;
}


/* capture_alike(x, t): is x a tensor with the type, shape and device of t, that does not require
   grad? */
static int l_capture_alike (lua_State *L) {
  enter(L);
  const heed_tensor *a = raw_tensor(L, 1), *b = raw_tensor(L, 2);
  bool alike = a != NULL && b != NULL && heed_type_of(a) == heed_type_of(b) &&
               heed_rank(a) == heed_rank(b) && heed_device_of(a) == heed_device_of(b) &&
               !heed_requires_grad(a);
  for (int k = 0; alike && k < heed_rank(a); k++) alike = heed_size(a, k) == heed_size(b, k);
  lua_pushboolean(L, alike);
  return 1;
}


/* capture_set_step(capture, which, options): the numbers of an optimiser's step from now on */
static int l_capture_set_step (lua_State *L) {
  enter(L);
  heed_capture *c = *capture_at(L, 1);
  int which = (int)check_integer(L, 2, "which");
  luaL_checktype(L, 3, LUA_TTABLE);
  heed_step step = read_step(L, 3);
  return done(L, heed_capture_set_step(named(L), c, which, &step));
}


/* capture_steps(capture): of optimisers, that the last replay took */
static int l_capture_steps (lua_State *L) {
  enter(L);
  lua_pushinteger(L, heed_capture_steps(*capture_at(L, 1)));
  return 1;
}


static int l_capture_gc (lua_State *L) {
  binding *b = binding_of(L);
  heed_capture **c = lua_touserdata(L, 1);
  if (b->cx != NULL) heed_capture_drop(b->cx, *c);
  *c = NULL;
  return 0;
}


/* works(device): how many works it has been given */
static int l_works (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  lua_pushinteger(L, heed_works(cx, check_device(L, 1)));
  return 1;
}


void open_capture (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"capture_alike", l_capture_alike}, {"capture_apart", l_capture_apart},
    {"capture_begin", l_capture_begin}, {"capture_call", l_capture_call},
    {"capture_changes", l_capture_changes}, {"capture_drop", l_capture_drop},
    {"capture_end", l_capture_end}, {"capture_modes", l_capture_modes},
    {"capture_replay", l_capture_replay}, {"capture_set_step", l_capture_set_step},
    {"capture_shares", l_capture_shares}, {"capture_state", l_capture_state},
    {"capture_steps", l_capture_steps}, {NULL, NULL}
  };
  static const luaL_Reg general[] = {{"works", l_works}, {NULL, NULL}};
  static const luaL_Reg own[] = {{"__gc", l_capture_gc}, {NULL, NULL}};
  register_as(L, "capture", functions, internal);
  register_functions(L, general, internal);
  register_metatable(L, own, &capture_key);
}
