/*
** lua_graph.c - captured work as a userdata. The Lua half decides when to capture and to replay.
*/

#include "lua_heed.h"

static const char graph_key = 0;       /* its address names the metatable in the registry */


static heed_capture **graph_at (lua_State *L, int i) {
  bool is = false;
  if (lua_getmetatable(L, i)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &graph_key);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  heed_capture **g = is ? lua_touserdata(L, i) : NULL;
  if (g == NULL || *g == NULL)
    raise(L, "%s: captured work expected, got %s", function_name(L), describe(L, i));
  return g;
}


/* capture_begin(card): what follows is kept, not done */
static int l_capture_begin (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  if (!heed_capture_begin(cx, (int)check_integer(L, 1, "capture", "card"))) return raise_failure(L);
  return 0;
}


/* capture_end(): what was kept; nil after an error that it has describe of */
static int l_capture_end (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  heed_capture **g = lua_newuserdatauv(L, sizeof *g, 0);
  *g = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &graph_key);
  lua_setmetatable(L, -2);
  *g = heed_capture_end(cx);
  return *g != NULL ? 1 : raise_failure(L);
}


static int l_replay (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  if (!heed_capture_replay(cx, *graph_at(L, 1))) return raise_failure(L);
  return 0;
}


/* graph_state(graph): "ready", "apart" or "stale": see heed.h */
static int l_graph_state (lua_State *L) {
  static const char *const names[] = {"ready", "apart", "stale"};
  enter(L);
  lua_pushstring(L, names[heed_capture_state_of(*graph_at(L, 1))]);
  return 1;
}


/* graph_changes(graph, t): does the work change t? */
static int l_graph_changes (lua_State *L) {
  enter(L);
  lua_pushboolean(L, heed_capture_changes(*graph_at(L, 1), check_tensor(L, 2)));
  return 1;
}


/* replay_step(graph, which, options): the numbers of an optimiser's step from now on */
static int l_replay_step (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  heed_capture *g = *graph_at(L, 1);
  int which = (int)check_integer(L, 2, "capture", "which");
  luaL_checktype(L, 3, LUA_TTABLE);
  heed_step step = read_step(L, 3);
  if (!heed_capture_set_step(cx, g, which, &step)) return raise_failure(L);
  return 0;
}


static int l_graph_gc (lua_State *L) {
  binding *b = binding_of(L);
  heed_capture **g = lua_touserdata(L, 1);
  if (b->cx != NULL) heed_capture_drop(b->cx, *g);
  *g = NULL;
  return 0;
}


/* works(card): how many works it has done; works(-1): the processor */
static int l_works (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  lua_pushinteger(L, heed_works(cx, (int)check_integer(L, 1, "works", "card")));
  return 1;
}


void open_graph (lua_State *L, int module) {
  static const luaL_Reg functions[] = {
    {"capture_begin", l_capture_begin}, {"capture_end", l_capture_end},
    {"graph_changes", l_graph_changes}, {"graph_state", l_graph_state}, {"replay", l_replay},
    {"replay_step", l_replay_step}, {"works", l_works}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {{"__gc", l_graph_gc}, {NULL, NULL}};
  register_functions(L, functions, module);
  lua_newtable(L);
  register_functions(L, own, -1);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &graph_key);
}
