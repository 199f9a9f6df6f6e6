/*
** lua_profile.c - profiles of a function, and which layer works.
**
** Layers have numbers, which the Lua half gives them. While a profile runs or work is captured, a
** call of a module opens a frame that sets its number; else it costs nothing: what changes is the
** __index of the table that is asked for a module's hooks. These frames serve again, so that a call
** takes no memory.
*/

#include "lua_heed.h"

static const char box_key = 0;         /* their addresses name the metatable of profiles, */
static const char meta_key = 0;        /* and what 'watched' was given, */
static const char on_key = 0;          /* in the registry */
static const char off_key = 0;

/* Upvalues of 'enter', behind those that all functions have. */
enum {NUMBERS = 4, CALLS, FIND, FRAMES};


/*
** {==================================================================
** Layers
** ===================================================================
*/

/* layer(): the number of the one that works; 0: none */
static int l_layer (lua_State *L) {
  lua_pushinteger(L, heed_layer(enter(L)->cx));
  return 1;
}


/* Pushes a frame that is not open, and may serve again once it is closed. FRAMES is weak, so that
   frames of coroutines that nobody resumes are collected with them. */
static frame *push_layer_frame (lua_State *L, binding *b) {
  frame *f = NULL;
  int slot = b->idle > 0 ? b->idle : 1;
  for (;; slot++, lua_pop(L, 1)) {
    lua_rawgeti(L, lua_upvalueindex(FRAMES), slot);
    f = lua_touserdata(L, -1);
    if (f == NULL || !f->open) break;
  }
  if (f == NULL) {
    lua_pop(L, 1);
    f = push_frame(L);
    f->layered = true;
    f->slot = slot;
    lua_pushvalue(L, -1);
    lua_rawseti(L, lua_upvalueindex(FRAMES), slot);
  } else if (f->L != L) {
    lua_pushthread(L);
    lua_setiuservalue(L, -2, 1);
  }
  b->idle = slot + 1;
  return f;
}


/* Pushes what FIND(module, parent) gives, which is asked once. */
static int number_of (lua_State *L, int parent) {
  lua_pushvalue(L, 1);
  if (lua_rawget(L, lua_upvalueindex(NUMBERS)) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    lua_rawset(L, lua_upvalueindex(NUMBERS));
  }
  if (lua_rawgeti(L, -1, parent) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(FIND));
    lua_pushvalue(L, 1);
    lua_pushinteger(L, parent);
    lua_call(L, 2, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, parent);
  }
  int number = (int)lua_tointeger(L, -1);
  lua_pop(L, 2);
  return number;
}


static void count_call (lua_State *L, int number) {
  lua_rawgeti(L, lua_upvalueindex(CALLS), number);
  lua_pushinteger(L, lua_tointeger(L, -1) + 1);
  lua_rawseti(L, lua_upvalueindex(CALLS), number);
  lua_pop(L, 1);
}


/* enter(module): a frame in which this layer works, until it is closed */
static int l_enter_layer (lua_State *L) {
  binding *b = enter(L);
  lua_settop(L, 1);
  int number = number_of(L, heed_layer(b->cx));
  count_call(L, number);
  frame *f = push_layer_frame(L, b);
  f->modes.layer = number;
  begin_layer(b, L, f);
  return 1;
}


/*
** layer_enterer(numbers, calls, find): the function 'enter', of the Lua half's tables: module ->
** {[parent] = number}, and how many calls a number had; find(module, parent) gives new numbers.
*/
static int l_layer_enterer (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  for (int i = 1; i < NUMBERS; i++) {
    lua_pushvalue(L, lua_upvalueindex(i));
    lua_insert(L, i);
  }
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, l_enter_layer, FRAMES);
  return 1;
}


/* The field is there, so that to set it takes no memory. */
static void set_index (lua_State *L, bool yes) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key) == LUA_TTABLE) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, yes ? &on_key : &off_key);
    lua_setfield(L, -2, "__index");
  }
  lua_pop(L, 1);
}


void watch_layers (lua_State *L, bool yes) {
  binding *b = binding_of(L);
  if (b->watchers == 0 || (b->watchers == 1 && !yes)) set_index(L, yes);
  b->watchers += yes ? 1 : -1;
}


/* watched(meta, on, off): the __index of this metatable is 'on' while layers are watched, else
   'off', as it is now */
static int l_watched (lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &off_key);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &on_key);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
  if (binding_of(L)->watchers > 0) set_index(L, true);
  return 0;
}

/* }================================================================== */


/*
** {==================================================================
** Profiles
** ===================================================================
*/

/* Its profile, if it still has one, which has ended. */
static void empty_box (lua_State *L, heed_profile **p) {
  heed_context *cx = binding_of(L)->cx;
  if (cx != NULL) heed_profile_drop(cx, *p);
  *p = NULL;
}


static int l_collect (lua_State *L) {
  empty_box(L, lua_touserdata(L, 1));
  return 0;
}


static heed_profile **push_profile (lua_State *L) {
  heed_profile **p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &box_key);
  lua_setmetatable(L, -2);
  return p;
}


static void set_integer (lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, name);
}


static void push_record (lua_State *L, const heed_profile_record *r) {
  lua_createtable(L, 0, 7);
  lua_pushstring(L, r->name);
  lua_setfield(L, -2, "name");
  lua_pushboolean(L, r->gradient);
  lua_setfield(L, -2, "gradient");
  lua_pushnumber(L, r->seconds);
  lua_setfield(L, -2, "seconds");
  set_integer(L, "layer", r->layer);
  set_integer(L, "calls", r->calls);
  set_integer(L, "bytes", (int64_t)r->bytes);
  set_integer(L, "peak", (int64_t)r->peak);
}


static void push_records (lua_State *L, const heed_profile *p) {
  int64_t n = heed_profile_records(p);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    const heed_profile_record r = heed_profile_record_at(p, i);
    push_record(L, &r);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}


static heed_profile *begin (lua_State *L) {
  watch_layers(L, true);
  heed_profile *p = heed_profile_begin(named(L));
  if (p == NULL) watch_layers(L, false);
  done(L, p != NULL);
  return p;
}


/* False: the context has a failure. */
static bool end (lua_State *L) {
  binding *b = enter(L);
  bool whole = heed_profile_end(b->cx);
  watch_layers(L, false);
  return whole;
}


/* measured(f, ...): the records of f(...), and its results; layers are watched meanwhile */
static int l_measured (lua_State *L) {
  enter(L);
  check_callable(L, 1);
  luaL_checkstack(L, LUA_MINSTACK, "profile");
  heed_profile **p = push_profile(L);
  lua_insert(L, 1);
  *p = begin(L);
  const frame *own = own_frame(binding_of(L), L);
  int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  bool whole = end(L);
  end_frames(binding_of(L), L, own);   /* a hook's error may come before Lua would close one */
  if (status != LUA_OK) {
    heed_clear(binding_of(L)->cx);
    empty_box(L, p);
    return raise_caught(L, "f may not yield while it is profiled");
  }
  if (!whole) return raise_failure(L);
  luaL_checkstack(L, LUA_MINSTACK, "profile");
  push_records(L, *p);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* }================================================================== */


void open_profile (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"layer", l_layer}, {"layer_enterer", l_layer_enterer}, {"measured", l_measured},
    {"watched", l_watched}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {{"__gc", l_collect}, {NULL, NULL}};
  register_as(L, "profile", functions, internal);
  register_metatable(L, own, &box_key);
}
