/*
** lua_cuda.c - heed.cuda: which cards there are, what they hold, how long they take.
*/

#include "lua_heed.h"


/* The card that is meant where none is named: the default device, or the first. */
static int own_device (lua_State *L) {
  int index = heed_cuda_index(heed_device(binding_of(L)->cx));
  return index >= 0 ? index : 0;
}


/* The card at i: a number from 0, a name as a tensor has it, or nothing. */
static int device_at (lua_State *L, int i) {
  if (lua_isnoneornil(L, i)) return own_device(L);
  const char *name = plain_text(L, i);
  int64_t index = heed_cuda_index(name);
  if (index < 0 && (name != NULL || !to_integer(L, i, &index) || index < 0 || index > 255))
    raise_wrong(L, function_name(L), "device", "a card's number from 0, or its name", i);
  return (int)index;
}


/* available(): true, or false and why not */
static int l_available (lua_State *L) {
  const char *why = heed_device_reason(enter(L)->cx);
  lua_pushboolean(L, why == NULL);
  if (why == NULL) return 1;
  lua_pushstring(L, why);
  return 2;
}


static int l_device_count (lua_State *L) {
  lua_pushinteger(L, heed_device_count(enter(L)->cx));
  return 1;
}


static void set_bytes (lua_State *L, const char *name, size_t bytes) {
  lua_pushinteger(L, bytes <= INT64_MAX ? (lua_Integer)bytes : INT64_MAX);
  lua_setfield(L, -2, name);
}


/* properties([device]): {name, memory, capability, multiprocessors} */
static int l_properties (lua_State *L) {
  heed_device_properties card;
  if (!heed_device_properties_of(enter(L)->cx, device_at(L, 1), &card)) return raise_failure(L);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, card.name);
  lua_setfield(L, -2, "name");
  set_bytes(L, "memory", card.memory);
  lua_pushfstring(L, "%d.%d", card.major, card.minor);
  lua_setfield(L, -2, "capability");
  lua_pushinteger(L, card.multiprocessors);
  lua_setfield(L, -2, "multiprocessors");
  return 1;
}


/* synchronize([device]): waits for its work; an error that came late is raised here */
static int l_synchronize (lua_State *L) {
  if (!heed_synchronize(enter(L)->cx, device_at(L, 1))) return raise_failure(L);
  return 0;
}


/* memory([device]): bytes {live, cached, peak, limit, free, total} */
static int l_memory (lua_State *L) {
  heed_device_memory now;
  if (!heed_device_memory_now(enter(L)->cx, device_at(L, 1), &now)) return raise_failure(L);
  lua_createtable(L, 0, 6);
  set_bytes(L, "live", now.live);
  set_bytes(L, "cached", now.cached);
  set_bytes(L, "peak", now.peak);
  set_bytes(L, "limit", now.limit);
  set_bytes(L, "free", now.free);
  set_bytes(L, "total", now.total);
  return 1;
}


/* limit(bytes[, device]): the most that this state may hold there */
static int l_limit (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  int64_t bytes = check_integer(L, 1, "limit", "bytes");
  if (bytes <= 0) raise_wrong(L, "limit", "bytes", "a number of bytes above 0", 1);
  if (!heed_device_limit(cx, device_at(L, 2), (size_t)bytes)) return raise_failure(L);
  return 0;
}


static int l_reset_peak (lua_State *L) {
  if (!heed_device_reset_peak(enter(L)->cx, device_at(L, 1))) return raise_failure(L);
  return 0;
}


/* empty_cache([device]): gives memory that waits for tensors back to the card */
static int l_empty_cache (lua_State *L) {
  if (!heed_device_trim(enter(L)->cx, device_at(L, 1))) return raise_failure(L);
  return 0;
}


/* blocking(yes): each operation is waited for, so that errors are raised at their line */
static int l_blocking (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  if (!lua_isboolean(L, 1)) raise_wrong(L, "blocking", "yes", "true or false", 1);
  if (!heed_device_block(cx, lua_toboolean(L, 1))) return raise_failure(L);
  return 0;
}


/* rng_state(nil, device) gives it as two whole numbers; rng_state(t, device) sets it */
static int l_rng_state (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  uint64_t state[2];
  int card = device_at(L, 2);
  if (lua_isnoneornil(L, 1)) {
    const int64_t n = 2;
    slot *s = push_slot(L);
    if (!heed_device_rng_get(cx, card, state)) return raise_failure(L);
    return fill(L, s, heed_from(cx, HEED_INT64, 1, &n, state));
  }
  heed_tensor *t = check_tensor(L, 1);
  if (heed_type_of(t) != HEED_INT64 || heed_numel(t) != 2)
    return raise(L, "rng_state: an int64 tensor of 2 elements expected, got %s", describe(L, 1));
  if (!heed_read(t, HEED_INT64, state) || !heed_device_rng_set(cx, card, state))
    return raise_failure(L);
  return 0;
}


/* elapsed(f, ...): the seconds that the card took for it, then f's results */
static int l_elapsed (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  double seconds = 0;
  check_callable(L, 1, "elapsed");
  int card = own_device(L);          /* whatever f chooses */
  heed_event *from = heed_event_record(cx, card);
  if (from == NULL) return raise_failure(L);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  enter(L);
  heed_event *to = status == LUA_OK ? heed_event_record(cx, card) : NULL;
  bool good = to != NULL && heed_event_elapsed(cx, card, from, to, &seconds);
  heed_event_drop(cx, card, from);
  heed_event_drop(cx, card, to);
  if (status != LUA_OK) return lua_error(L);
  if (!good) return raise_failure(L);
  lua_pushnumber(L, seconds);
  lua_insert(L, 1);
  return lua_gettop(L);
}


/* matmul_precision([name]): how exact float32 products on cards are */
static int l_matmul_precision (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  if (!lua_isnoneornil(L, 1)) {
    if (lua_type(L, 1) != LUA_TSTRING)
      raise_wrong(L, "matmul_precision", "precision", "a name", 1);
    if (!heed_set_matmul_precision(cx, lua_tostring(L, 1))) return raise_failure(L);
  }
  lua_pushstring(L, heed_matmul_precision(cx));
  return 1;
}


/* pin_memory(): a copy in memory of the host's that cards can reach by themselves */
static int l_pin_memory (lua_State *L) {
  enter(L);
  slot *s = push_slot(L);
  return fill(L, s, heed_pin(check_tensor(L, 1)));
}


void open_cuda (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"available", l_available}, {"blocking", l_blocking}, {"device_count", l_device_count},
    {"elapsed", l_elapsed}, {"empty_cache", l_empty_cache}, {"limit", l_limit},
    {"memory", l_memory}, {"properties", l_properties}, {"reset_peak", l_reset_peak},
    {"rng_state", l_rng_state}, {"synchronize", l_synchronize}, {NULL, NULL}
  };
  static const luaL_Reg general[] = {{"matmul_precision", l_matmul_precision}, {NULL, NULL}};
  static const luaL_Reg tensor[] = {{"pin_memory", l_pin_memory}, {NULL, NULL}};
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, module, "cuda");
  register_functions(L, general, module);
  register_functions(L, tensor, module);
  register_functions(L, tensor, methods);
}
