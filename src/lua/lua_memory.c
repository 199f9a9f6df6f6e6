/*
** lua_memory.c - Lua's collector counts a few bytes of each tensor: here the rest is reported to
** it, of the smallest too, since what is freed late has left the caches. Also the default device,
** the CPU's level and threads.
*/

#include "lua_heed.h"

#define BATCH ((size_t)1 << 17)        /* bytes that steps pay for between two reports */
#define HANDLES 320                    /* of a tensor beside its data, roughly: handle, node … */
#define DATA_PART 4                    /* steps pay for handles, and for a part of the data: Lua
                                          would run a cycle for as many bytes as its own heap has,
                                          a few large tensors */

/*
** Live bytes may grow so far between full collections. Where these are cheap, as Lua's own heap is
** small, they grow by few tensors: what a loop drops and takes again stays in the CPU's caches.
*/
#define SLACK ((size_t)48 << 20)
#define NEAR_SLACK ((size_t)8 << 20)
#define FEW_TENSORS 5
#define SMALL_HEAP 2048                /* KiB; a full collection takes about 0.3 ms */


/*
** {==================================================================
** Driving the collector
** ===================================================================
*/

static void step (lua_State *L, size_t bytes) {
#if LUA_VERSION_NUM >= 505
  lua_gc(L, LUA_GCSTEP, bytes);
#else
  lua_gc(L, LUA_GCSTEP, (int)(bytes >> 10 > 1 << 20 ? 1 << 20 : bytes >> 10));
#endif
}


/* 'bytes': of the tensor that is being made. */
static size_t slack_for (lua_State *L, size_t bytes) {
  if (bytes > SLACK / FEW_TENSORS || lua_gc(L, LUA_GCCOUNT) > SMALL_HEAP) return SLACK;
  return FEW_TENSORS * bytes > NEAR_SLACK ? FEW_TENSORS * bytes : NEAR_SLACK;
}


/* The next full collection comes when live bytes have grown by half, or by the slack. */
static void collect (binding *b, lua_State *L, size_t bytes) {
  lua_gc(L, LUA_GCCOLLECT);
  size_t live = heed_memory_now(b->cx).live, slack = slack_for(L, bytes);
  b->soft_limit = live + (live / 2 > slack ? live / 2 : slack);
}


/*
** Steps alone do not keep memory flat when a script holds many objects, nor in the generational
** mode: the soft limit does. A collector that the script has stopped works only if it is urgent.
** The core has the name of the call again afterwards.
*/
static void report (binding *b, size_t bytes, bool urgent) {
  lua_State *L = running(b), *was = b->L;
  lua_Hook own = b->hook, of_main = b->main_hook;
  int collector = lua_gc(L, LUA_GCISRUNNING);      /* -1: it is in a finaliser */
  if (collector < 0 || (collector == 0 && !urgent && !(b->capturing && b->collects)))
    return;
  size_t debt = b->debt;
  const modes call = modes_now(b);                 /* finalisers have the script's modes */
  heed_set_caller(b->cx, NULL);                    /* and names of their own */
  b->debt = 0;
  b->collecting = true;                            /* finalisers may allocate: they come here */
  if (urgent || heed_memory_now(b->cx).live + bytes > b->soft_limit) collect(b, L, bytes);
  else step(L, debt);
  b->collecting = false;
  if (b->capturing) heed_capture_pause(b->cx, false);
  b->L = was;
  b->hook = own;
  b->main_hook = of_main;
  set_modes(b, call);
  b->modes_applied = false;
}


/* Called by the core before it allocates. */
void reclaim_memory (void *self, size_t bytes, bool urgent) {
  binding *b = self;
  b->debt += bytes / DATA_PART + HANDLES;
  if (!b->collecting && (b->debt >= BATCH || urgent)) report(b, bytes, urgent);
}

/* }================================================================== */


void set_limit (lua_State *L, int i) {
  const binding *b = binding_of(L);
  int64_t limit = check_integer(L, i, "limit");
  if (limit <= 0) raise_wrong(L, "limit", "a number of bytes above 0", i);
  size_t now = heed_memory_now(b->cx).limit;
  if (b->sealed && (size_t)limit > now)
    raise(L, "argument 'limit': it can only be lowered in this state: at most %I bytes expected, "
          "got %I", (LUAI_UACINT)now, (LUAI_UACINT)limit);
  heed_memory_limit(b->cx, (size_t)limit);
}


static void read_options (lua_State *L) {
  static const char *const known[] = {"limit"};
  lua_pushnil(L);
  while (next_option(L, 1, 1, known) != NULL) {
    set_limit(L, lua_gettop(L));
    lua_pop(L, 1);
  }
}


void set_bytes (lua_State *L, const char *name, size_t bytes) {
  lua_pushinteger(L, bytes <= INT64_MAX ? (lua_Integer)bytes : INT64_MAX);
  lua_setfield(L, -2, name);
}


/* memory() reports; memory{limit = bytes} sets the limit */
static int l_memory (lua_State *L) {
  binding *b = enter(L);
  at_most(L, 1);
  read_options(L);
  heed_memory now = heed_memory_now(b->cx);
  lua_createtable(L, 0, 5);
  set_bytes(L, "live", now.live);
  set_bytes(L, "cached", now.cached);
  set_bytes(L, "peak", now.peak);
  set_bytes(L, "limit", now.limit);
  set_bytes(L, "other", now.other);
  return 1;
}


/* level() names the instructions that are used; level(name) chooses */
static int l_level (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  at_most(L, 1);
  if (!lua_isnoneornil(L, 1)) {
    const char *name = plain_text(L, 1);
    if (name == NULL) raise_wrong(L, "name", "a level's name", 1);
    if (binding_of(L)->sealed) raise(L, "only its host can choose this state's level");
    done(L, heed_set_level(named(L), name));
  }
  lua_pushstring(L, heed_level(cx));
  return 1;
}


void set_threads (lua_State *L, int i) {
  const binding *b = binding_of(L);
  int64_t n = check_integer(L, i, "n");
  if (n < 1 || n > 256) raise_wrong(L, "n", "a number from 1 to 256", i);
  if (b->sealed && n > b->most_threads)
    raise(L, "argument 'n': at most the %d threads that the host allows expected, got %I",
          b->most_threads, (LUAI_UACINT)n);
  done(L, heed_set_threads(named(L), (int)n));
}


/* threads() is how many work; threads(n) sets it */
static int l_threads (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  at_most(L, 1);
  if (!lua_isnoneornil(L, 1)) set_threads(L, 1);
  lua_pushinteger(L, heed_threads(cx));
  return 1;
}


/* default_device() is where new tensors go; default_device(name) sets it */
static int l_default_device (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  at_most(L, 1);
  if (!lua_isnoneornil(L, 1)) {
    const char *name = check_device(L, 1);
    done(L, heed_set_device(named(L), name));
  }
  lua_pushstring(L, heed_device(cx));
  return 1;
}


/*
** {==================================================================
** Before the Lua half, or Lua itself, allocates
** ===================================================================
*/

#define ENTRY 32                   /* bytes of one in a table that grows, roughly */


void check_room (lua_State *L, const char *function, size_t bytes, const char *what) {
  heed_context *cx = binding_of(L)->cx;
  heed_set_caller(cx, function);
  done(L, heed_memory_room(cx, bytes, what));
}


void check_entries (lua_State *L, const char *function, int64_t n, const char *what) {
  if (n > LONGEST_LIST)
    raise_as(L, function, "%s: at most %d entries in all tables expected, got %I", what,
             LONGEST_LIST, (LUAI_UACINT)n);
  check_room(L, function, (size_t)n * ENTRY, what);
}


/* Products of sizes that a script gave: they may be beyond the integers. */
static int64_t read_amount (lua_State *L, int i) {
  lua_Number n = luaL_checknumber(L, i);
  return n < 0x1p62 ? (int64_t)n : INT64_MAX;
}


/* check_room(function, bytes, what) */
static int l_check_room (lua_State *L) {
  enter(L);
  check_room(L, luaL_checkstring(L, 1), (size_t)read_amount(L, 2), luaL_checkstring(L, 3));
  return 0;
}


/* check_entries(function, n, what) */
static int l_check_entries (lua_State *L) {
  enter(L);
  check_entries(L, luaL_checkstring(L, 1), read_amount(L, 2), luaL_checkstring(L, 3));
  return 0;
}

/* }================================================================== */


/* lasting(f, ...): f's results; tensors that are made meanwhile live long, as weights do */
static int l_lasting (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  check_callable(L, 1);
  const bool before = heed_memory_lasting(cx, true);
  const int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  heed_memory_lasting(cx, before);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}


void open_memory (lua_State *L, int module, int internal) {
  static const luaL_Reg functions[] = {
    {"default_device", l_default_device}, {"level", l_level}, {"memory", l_memory},
    {"threads", l_threads}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {
    {"check_entries", l_check_entries}, {"check_room", l_check_room}, {"lasting", l_lasting},
    {NULL, NULL}
  };
  register_functions(L, functions, module);
  register_functions(L, own, internal);
}
