/*
** lua_cuda.c - heed.cuda: which GPUs there are, what they hold, how long they take.
*/

#include <string.h>

#include "lua_heed.h"


/* "cuda", or "cuda:" and one or two digits? */
static bool is_gpu (const char *name) {
  if (strncmp(name, "cuda", 4) != 0) return false;
  size_t digits = name[4] == ':' ? strspn(name + 5, "0123456789") : 0;
  return name[4] == '\0' || (digits > 0 && digits < 3 && name[5 + digits] == '\0');
}


/* The GPU that is meant where none is named: the default device, or the first. */
static const char *default_gpu (lua_State *L) {
  const char *name = heed_device(binding_of(L)->cx);
  return is_gpu(name) ? name : "cuda:0";
}


/* The GPU at i: a number from 0, a name as a tensor has it, or nothing. */
static const char *device_at (lua_State *L, int i) {
  int64_t index = 0;
  if (lua_isnoneornil(L, i)) return default_gpu(L);
  const char *name = plain_text(L, i);
  if (name != NULL && is_gpu(name)) return name;
  if (name != NULL || !to_integer(L, i, &index) || index < 0 || index > 255)
    raise_wrong(L, "device", "a GPU's number from 0, or its name", i);
  return lua_pushfstring(L, "cuda:%d", (int)index);
}


/* available(): true, or false and why not */
static int l_available (lua_State *L) {
  const char *why = heed_device_reason(enter(L)->cx, "cuda");
  at_most(L, 0);
  lua_pushboolean(L, why == NULL);
  if (why == NULL) return 1;
  lua_pushstring(L, why);
  return 2;
}


static int l_device_count (lua_State *L) {
  at_most(L, 0);
  lua_pushinteger(L, heed_device_count(enter(L)->cx, "cuda"));
  return 1;
}


/* properties([device]): {name, memory, capability, multiprocessors, matmul} */
static int l_properties (lua_State *L) {
  heed_device_properties gpu;
  enter(L);
  at_most(L, 1);
  const char *device = device_at(L, 1);
  done(L, heed_device_describe(named(L), device, &gpu));
  lua_createtable(L, 0, 5);
  lua_pushstring(L, gpu.name);
  lua_setfield(L, -2, "name");
  set_bytes(L, "memory", gpu.memory);
  lua_pushfstring(L, "%d.%d", gpu.major, gpu.minor);
  lua_setfield(L, -2, "capability");
  lua_pushinteger(L, gpu.multiprocessors);
  lua_setfield(L, -2, "multiprocessors");
  lua_pushstring(L, gpu.matmul);
  lua_setfield(L, -2, "matmul");
  return 1;
}


/* synchronize([device]): waits for its work; asynchronous errors are raised here */
static int l_synchronize (lua_State *L) {
  enter(L);
  at_most(L, 1);
  const char *device = device_at(L, 1);
  return done(L, heed_synchronize(named(L), device));
}


/* memory([device]): bytes {live, cached, peak, limit, free, total} */
static int l_memory (lua_State *L) {
  heed_device_memory now;
  enter(L);
  at_most(L, 1);
  const char *device = device_at(L, 1);
  done(L, heed_device_memory_now(named(L), device, &now));
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
  const binding *b = enter(L);
  at_most(L, 2);
  heed_device_memory now;
  int64_t bytes = check_integer(L, 1, "bytes");
  if (bytes <= 0) raise_wrong(L, "bytes", "a number of bytes above 0", 1);
  const char *device = device_at(L, 2);
  done(L, heed_device_memory_now(named(L), device, &now));
  if (b->sealed && now.limit > 0 && (size_t)bytes > now.limit)
    raise(L, "argument 'bytes': it can only be lowered in this state: at most %I expected, got %I",
          (LUAI_UACINT)now.limit, (LUAI_UACINT)bytes);
  return done(L, heed_device_limit(named(L), device, (size_t)bytes));
}


static int l_reset_peak (lua_State *L) {
  enter(L);
  at_most(L, 1);
  const char *device = device_at(L, 1);
  return done(L, heed_device_reset_peak(named(L), device));
}


/* empty_cache([device]): gives memory that is kept for reuse back to the GPU */
static int l_empty_cache (lua_State *L) {
  enter(L);
  at_most(L, 1);
  const char *device = device_at(L, 1);
  return done(L, heed_device_trim(named(L), device));
}


/* blocking(yes): each operation is waited for, so that errors are raised at their line */
static int l_blocking (lua_State *L) {
  enter(L);
  at_most(L, 1);
  bool yes = check_flag(L, 1, "yes");
  return done(L, heed_device_block(named(L), "cuda", yes));
}


/* rng_state(nil, device) gives it as two integers; rng_state(t, device) sets it */
static int l_rng_state (lua_State *L) {
  uint64_t state[2];
  heed_context *cx = enter(L)->cx;
  at_most(L, 2);
  const char *device = device_at(L, 2);
  if (lua_isnoneornil(L, 1)) {
    const int64_t n = 2;
    cell *s = push_cell(L);
    bool good = heed_device_rng_get(named(L), device, state);
    return fill(L, s, good ? heed_from(cx, HEED_INT64, 1, &n, state) : NULL);
  }
  heed_tensor *t = check_tensor(L, 1);
  if (heed_type_of(t) != HEED_INT64 || heed_numel(t) != 2)
    return raise(L, "an int64 tensor of 2 elements expected, got %s", describe(L, 1));
  named(L);
  return done(L, heed_read(t, HEED_INT64, state) && heed_device_rng_set(cx, device, state));
}


/* elapsed(f, ...): the seconds that the GPU took for it, then f's results */
static int l_elapsed (lua_State *L) {
  double seconds = 0;
  heed_context *cx = enter(L)->cx;
  check_callable(L, 1);
  const char *device = default_gpu(L);           /* f may choose another */
  heed_event *from = heed_event_record(named(L), device);
  done(L, from != NULL);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  enter(L);
  named(L);
  heed_event *to = status == LUA_OK ? heed_event_record(cx, device) : NULL;
  bool good = to != NULL && heed_event_elapsed(cx, device, from, to, &seconds);
  heed_event_drop(cx, device, from);
  heed_event_drop(cx, device, to);
  done(L, good || status != LUA_OK);
  if (status != LUA_OK) return lua_error(L);
  lua_pushnumber(L, seconds);
  lua_insert(L, 1);
  return lua_gettop(L);
}


/* matmul_precision([name]): how exact float32 products on GPUs are */
static int l_matmul_precision (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  at_most(L, 1);
  if (!lua_isnoneornil(L, 1)) {
    const char *name = plain_text(L, 1);
    if (name == NULL) raise_wrong(L, "precision", "a name", 1);
    done(L, heed_set_matmul_precision(named(L), name));
  }
  lua_pushstring(L, heed_matmul_precision(cx));
  return 1;
}


/* pin_memory(): a copy in memory of the host's that GPUs can reach by themselves */
static int l_pin_memory (lua_State *L) {
  enter(L);
  at_most(L, 1);
  cell *s = push_cell(L);
  heed_tensor *t = check_tensor(L, 1);
  named(L);
  return fill(L, s, heed_pin(t, "cuda"));
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
  register_methods(L, tensor, module, methods);
}
