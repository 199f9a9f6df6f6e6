/*
** lua_generator.c - the states of generators of random numbers, and calls that draw from others.
**
** A call that draws from other states is a frame, as those of lua_scope.c: the generators are as
** they were before when it ends, however it does, since functions of C put them back.
*/

#include <string.h>

#include "lua_heed.h"

static const char swap_key = 0;        /* its address names the metatable in the registry */

enum { DEVICES = 17 };

/* Generators that draw from another state, and their own: of the CPU, and of others by name. */
typedef struct swap {
  bool open, cpu;
  int n;
  uint8_t own[HEED_RNG_BYTES];
  struct { char name[16]; uint64_t own[2], other[2]; } device[DEVICES];
  uint8_t other[HEED_RNG_BYTES];
} swap;


/* manual_seed(seed) */
static int l_manual_seed (lua_State *L) {
  binding *b = enter(L);
  at_most(L, 1);
  uint64_t seed = (uint64_t)check_integer(L, 1, "seed");
  named(L);
  return done(L, heed_seed(b->cx, seed));
}


static int fill_state (lua_State *L, cell *s, bool good, const uint8_t state[HEED_RNG_BYTES]) {
  const int64_t n = HEED_RNG_BYTES;
  return fill(L, s, good ? heed_from(binding_of(L)->cx, HEED_UINT8, 1, &n, state) : NULL);
}


/* Raises unless the value at i is a tensor that may be the state of the CPU's generator. */
static heed_tensor *check_state (lua_State *L, int i) {
  heed_tensor *t = check_tensor(L, i);
  if (heed_type_of(t) == HEED_UINT8 && heed_numel(t) == HEED_RNG_BYTES) return t;
  raise(L, "a uint8 tensor of %d elements expected, got %s of %s", HEED_RNG_BYTES, describe(L, i),
        heed_type_name(heed_type_of(t)));
  return NULL;
}


/* rng_state() gives it as bytes in a uint8 tensor; rng_state(t) sets it */
static int l_rng_state (lua_State *L) {
  binding *b = enter(L);
  at_most(L, 1);
  uint8_t state[HEED_RNG_BYTES];
  if (lua_isnoneornil(L, 1)) {
    cell *s = push_cell(L);
    return fill_state(L, s, heed_rng_get(named(L), state), state);
  }
  heed_tensor *t = check_state(L, 1);
  named(L);
  return done(L, heed_read(t, HEED_UINT8, state) && heed_rng_set(b->cx, state));
}


/* rng_seeded(seed): the state of a generator with that seed, which no generator gets */
static int l_rng_seeded (lua_State *L) {
  enter(L);
  uint64_t seed = (uint64_t)check_integer(L, 1, "seed");
  uint8_t state[HEED_RNG_BYTES];
  cell *s = push_cell(L);
  heed_rng_seeded(seed, state);
  named(L);
  return fill_state(L, s, true, state);
}



/*
** {==================================================================
** Calls that draw from other states
** ===================================================================
*/

/* Puts back what the generators had. They had it before, so nothing is refused. */
static void put_back (heed_context *cx, swap *s) {
  if (!s->open || cx == NULL) return;
  s->open = false;
  bool good = !s->cpu || heed_rng_set(cx, s->own);
  for (int i = 0; i < s->n; i++)
    good = heed_device_rng_set(cx, s->device[i].name, s->device[i].own) && good;
  if (!good) heed_clear(cx);       /* a device is gone: whatever needs it says so */
}


/* The state on top is that of the generator of a device. */
static bool read_device (lua_State *L, heed_context *cx, const char *name, swap *s) {
  heed_tensor *t = check_tensor(L, -1);
  if (s->n == DEVICES || strlen(name) >= sizeof s->device->name)
    return raise(L, "the name of a device expected, got '%s'", name);
  if (heed_type_of(t) != HEED_INT64 || heed_numel(t) != 2)
    return raise(L, "an int64 tensor of 2 elements expected, got %s", describe(L, -1));
  strcpy(s->device[s->n].name, name);
  return heed_read(t, HEED_INT64, s->device[s->n].other) &&
         heed_device_rng_get(cx, name, s->device[s->n++].own);
}


/* Reads the states in the table at i, and those that the generators have now. */
static bool read_states (lua_State *L, int i, swap *s) {
  heed_context *cx = binding_of(L)->cx;
  bool good = true;
  lua_pushnil(L);
  while (good && lua_next(L, i)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(key, "rng") == 0) {
      s->cpu = true;
      good = heed_read(check_state(L, lua_gettop(L)), HEED_UINT8, s->other) &&
             heed_rng_get(cx, s->own);
    }
    else if (strncmp(key, "rng.", 4) == 0) good = read_device(L, cx, key + 4, s);
    lua_pop(L, 1);
  }
  return good;
}


static bool set_others (heed_context *cx, const swap *s) {
  bool good = !s->cpu || heed_rng_set(cx, s->other);
  for (int i = 0; good && i < s->n; i++)
    good = heed_device_rng_set(cx, s->device[i].name, s->device[i].other);
  return good;
}


/* __close(swap, error) */
static int l_close_swap (lua_State *L) {
  put_back(binding_of(L)->cx, lua_touserdata(L, 1));
  return 0;
}


/* The function's results stand behind the swap; before them comes what the CPU's generator has. */
static int leave (lua_State *L, int status, lua_KContext context) {
  swap *s = lua_touserdata(L, 1);
  heed_context *cx = enter(L)->cx;
  (void)status; (void)context;
  luaL_checkstack(L, 8, "rng_state");
  cell *left = push_cell(L);
  bool good = heed_rng_get(cx, s->other);
  put_back(cx, s);
  fill_state(L, left, good, s->other);
  lua_insert(L, 2);
  return lua_gettop(L) - 1;
}


/*
** with_generators(states, f, ...): f(...), while generators have these states ("rng": the CPU's,
** "rng.cuda:0"); the state in which f left the CPU's, and f's results.
*/
static int l_with_generators (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  luaL_checktype(L, 1, LUA_TTABLE);
  check_callable(L, 2);
  swap *s = lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &swap_key);
  lua_setmetatable(L, -2);
  if (!read_states(L, 1, s)) return raise_failure(L);
  lua_replace(L, 1);
  lua_toclose(L, 1);
  s->open = true;
  if (!set_others(cx, s)) return raise_failure(L);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, leave);
  return leave(L, LUA_OK, 0);
}

/* }================================================================== */


void open_generator (lua_State *L, int module, int internal) {
  static const luaL_Reg functions[] = {
    {"manual_seed", l_manual_seed}, {"rng_state", l_rng_state}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {
    {"rng_seeded", l_rng_seeded}, {"with_generators", l_with_generators}, {NULL, NULL}
  };
  static const luaL_Reg swaps[] = {{"__close", l_close_swap}, {NULL, NULL}};
  register_functions(L, functions, module);
  register_as(L, "rng_state", own, internal);
  register_metatable(L, swaps, &swap_key);
}
