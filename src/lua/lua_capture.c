/*
** lua_capture.c - captured work as a userdata. The Lua half decides when to capture and to replay.
*/

#include "lua_heed.h"

static const char capture_key = 0;     /* their addresses name the metatable, */
static const char running_key = 0;     /* and the recording that runs, in the registry */


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


/* An empty one, on top. */
static heed_capture **push_capture (lua_State *L) {
  heed_capture **c = lua_newuserdatauv(L, sizeof *c, 0);
  *c = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &capture_key);
  lua_setmetatable(L, -2);
  return c;
}


/*
** {==================================================================
** Recording. The work of one function is captured from begin to end within one call of C, which
** nothing that the function does can leave: no error of a hook, no lack of memory.
** ===================================================================
*/

/*
** Calls what stands below n arguments, and no hook stops it; false: its error is on top. Calls of
** heed within it note that there are no hooks; those of the call around it are noted again.
*/
static bool call_unhooked (lua_State *L, int n) {
  binding *b = binding_of(L);
  lua_Hook f = lua_gethook(L), noted = b->hook, noted_main = b->main_hook;
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  lua_sethook(L, NULL, 0, 0);
  bool good = lua_pcall(L, n, 0, 0) == LUA_OK;
  if (f != NULL && lua_gethook(L) == NULL) lua_sethook(L, f, mask, count);
  b->hook = noted;
  b->main_hook = noted_main;
  return good;
}


/* undo(recording, steps that a replay took), by their indices */
static void call_undo (lua_State *L, int undo, int recording, int64_t taken) {
  int top = lua_gettop(L);
  lua_pushvalue(L, undo);
  lua_pushvalue(L, recording);
  lua_pushinteger(L, (lua_Integer)taken);
  call_unhooked(L, 2);
  lua_settop(L, top);
}


enum { DEVICE = 1, RECORDING, FINISH, UNDO };    /* arguments of capture_record, and behind them: */
enum { WORK = 5, THEN, FUNCTION = 8 };           /* finish and recording again, as a call of it */


/* The value on top is the recording that runs, or false. Raises nothing, once there was one. */
static void set_running (lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &running_key); }


/* capture_reads(t): t is among what is captured, even if no work reads it */
static int l_capture_reads (lua_State *L) {
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  return done(L, heed_capture_reads(named(L), t));
}


/* capture_running(): the recording of the work that is captured now, or nil; false in a finaliser,
   whose work is done at once */
static int l_capture_running (lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &running_key);
  if (in_finaliser(L)) lua_pushboolean(L, 0);
  else if (!lua_toboolean(L, -1)) lua_pushnil(L);
  return 1;
}


/* All that needs memory of Lua's. What garbage holds can't be used meanwhile. */
static heed_capture **prepare (lua_State *L) {
  luaL_checktype(L, RECORDING, LUA_TTABLE);
  for (int i = FINISH; i <= UNDO + 1; i++) check_callable(L, i);
  lua_gc(L, LUA_GCCOLLECT);
  luaL_checkstack(L, LUA_MINSTACK, "capture");
  heed_capture **c = push_capture(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, RECORDING, "work");
  lua_pushvalue(L, FINISH);
  lua_pushvalue(L, RECORDING);
  lua_rotate(L, WORK, 3);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &running_key) == LUA_TNIL) {
    lua_pushboolean(L, 0);
    set_running(L);
  }
  lua_pop(L, 1);
  return c;
}


/*
** Finalisers run where the core lets the collector step, or where f calls the collector: then a
** function of heed's can tell that it is called by one, and pauses the capture.
*/
static void begin_capturing (lua_State *L, binding *b) {
  lua_pushvalue(L, RECORDING);
  set_running(L);
  b->collects = lua_gc(L, LUA_GCISRUNNING) != 0;
  b->capturing = true;
  lua_gc(L, LUA_GCSTOP);
}


/* False: f has let the collector run, and finalisers perhaps within functions of heed's. */
static bool end_capturing (lua_State *L, binding *b) {
  bool stood = lua_gc(L, LUA_GCISRUNNING) == 0;
  lua_pushboolean(L, 0);
  set_running(L);
  b->capturing = false;
  return stood;
}


/* Not before 'undo': the collector frees what its calls need, which may be the last memory. */
static void restart_collector (lua_State *L) {
  if (binding_of(L)->collects) lua_gc(L, LUA_GCRESTART);
}


/* Calls the function, and captures its work in *c, which stays NULL after a failure. */
static int call_captured (lua_State *L, heed_capture **c, bool *stood) {
  begin_capturing(L, binding_of(L));
  int status = lua_pcall(L, lua_gettop(L) - FUNCTION, 1, 0);
  binding *b = enter(L);
  watch_layers(L, false);
  *c = heed_capture_end(named(L));
  heed_set_caller(b->cx, NULL);
  *stood = end_capturing(L, b);
  return status;
}


/* The work goes, as if it had not been called. */
static void take_back (lua_State *L, heed_capture **c) {
  call_undo(L, UNDO, RECORDING, heed_capture_steps(*c));
  heed_capture_drop(binding_of(L)->cx, *c);
  *c = NULL;
}


/*
** capture_record(device, recording, finish, undo, f, ...): calls f(...), captures its work as
** recording.work, and calls finish(recording, f's result). True if that gives true. If it gives
** false, and after every error, undo(recording, steps that a replay took) is called, and all is
** then as if the work had not been done.
*/
static int l_capture_record (lua_State *L) {
  enter(L);
  const char *device = check_device(L, DEVICE);
  if (in_finaliser(L)) return raise(L, "no work is captured in a finaliser");
  heed_capture **c = prepare(L);
  watch_layers(L, true);
  bool begun = heed_capture_begin(named(L), device);
  if (!begun) watch_layers(L, false);
  done(L, begun);
  bool stood;
  int status = call_captured(L, c, &stood);
  bool ended = *c != NULL, good = ended && stood;
  if (status == LUA_OK && good) status = lua_pcall(L, FUNCTION - THEN, 1, 0);
  bool kept = status == LUA_OK && good && lua_toboolean(L, -1);
  if (!kept) take_back(L, c);
  restart_collector(L);
  if (status != LUA_OK)
    return raise_caught(L, "f may not yield while its work is captured: yield before the call or "
                        "after it");
  if (!ended) return raise_failure(L);
  if (!stood) return raise(L, "f may not start Lua's collector while its work is captured");
  lua_pushboolean(L, kept);
  return 1;
}

/* }================================================================== */


/* capture_modes(): what calls depend on besides their arguments */
static int l_capture_modes (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  lua_pushboolean(L, heed_recording(cx));
  lua_pushinteger(L, (lua_Integer)heed_autocast(cx));
  lua_pushstring(L, heed_device(cx));
  lua_pushstring(L, heed_matmul_precision(cx));
  return 4;
}


/*
** capture_replay(capture, recording, before, undo): before(recording), then the work; if either
** fails, undo(recording, steps of optimisers that were taken).
*/
static int l_capture_replay (lua_State *L) {
  binding *b = enter(L);
  heed_capture *c = *capture_at(L, 1);
  lua_settop(L, 4);
  lua_pushvalue(L, 3);
  lua_pushvalue(L, 2);
  bool begun = call_unhooked(L, 1), good = begun && heed_capture_replay(named(L), c);
  heed_set_caller(b->cx, NULL);
  if (good) return 0;
  call_undo(L, 4, 2, begun ? heed_capture_steps(c) : 0);
  return begun ? raise_failure(L) : lua_error(L);
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
    {"capture_changes", l_capture_changes}, {"capture_modes", l_capture_modes},
    {"capture_reads", l_capture_reads}, {"capture_record", l_capture_record},
    {"capture_replay", l_capture_replay}, {"capture_running", l_capture_running},
    {"capture_set_step", l_capture_set_step}, {"capture_shares", l_capture_shares},
    {"capture_state", l_capture_state}, {NULL, NULL}
  };
  static const luaL_Reg general[] = {{"works", l_works}, {NULL, NULL}};
  static const luaL_Reg own[] = {{"__gc", l_capture_gc}, {NULL, NULL}};
  register_as(L, "capture", functions, internal);
  register_functions(L, general, internal);
  register_metatable(L, own, &capture_key);
}
