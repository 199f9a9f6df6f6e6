/*
** lua_anchor.c - the functions of Lua's that a graph calls, where Lua's collector sees them.
**
** A node of the user's has only a number. Its function lies in a keeper, a userdata that a weak
** table finds by this number. An anchor is a keeper or a list of anchors, and a keeper has the
** anchor of its node's inputs. Every tensor whose graph leads to such nodes has an anchor as the
** user value of its userdata, by which all of their functions are reached. A function that leads
** back to a tensor of this graph is thus part of a cycle that the collector sees whole.
**
** Operations pass anchors on. Where a tensor's graph can be reached without its userdata (views
** share in-place changes, a host may hold a tensor), keepers are pinned instead: the registry holds
** them until their nodes are freed.
**
** A pass frees a node before it visits the node's inputs, and a keeper whose node is freed leads to
** nothing. Hence each keeper is pinned by itself, and those of a pass are held by itself meanwhile.
*/

#include "lua_heed.h"

static const char keepers_key = 0;       /* in the registry: all keepers by number, weak */
static const char pins_key = 0;          /* and those that are pinned */

enum { FUNCTION = 1, INPUTS = 2 };       /* user values of a keeper */

/* Other than a box in size. 'self' distinguishes it from foreign ones. */
typedef struct keeper {
  struct keeper *self;
  int64_t number;
  void *caller;                    /* what the core has for its function; NULL: it is freed */
} keeper;


static keeper *keeper_at (lua_State *L, int i) {
  keeper *k = lua_touserdata(L, i);
  return k != NULL && lua_rawlen(L, i) == sizeof *k && k->self == k ? k : NULL;
}


/*
** {==================================================================
** Keepers
** ===================================================================
*/

/* The table at 'key' in the registry gets the value at i under this number. */
static void enlist (lua_State *L, const void *key, int64_t number, int i) {
  i = lua_absindex(L, i);
  lua_rawgetp(L, LUA_REGISTRYINDEX, key);
  lua_pushvalue(L, i);
  lua_rawseti(L, -2, number);
  lua_pop(L, 1);
}


int64_t push_keeper (lua_State *L, int function, int inputs) {
  keeper *k = lua_newuserdatauv(L, sizeof *k, 2);
  *k = (keeper){.self = k, .number = ++binding_of(L)->clock};
  lua_pushvalue(L, function);
  lua_setiuservalue(L, -2, FUNCTION);
  if (inputs != 0) {
    lua_pushvalue(L, inputs);
    lua_setiuservalue(L, -2, INPUTS);
  }
  enlist(L, &keepers_key, k->number, -1);
  return k->number;
}


bool push_kept (lua_State *L, int64_t number) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &keepers_key);
  lua_rawgeti(L, -1, number);
  if (keeper_at(L, -1) == NULL) lua_pushnil(L);
  else lua_getiuservalue(L, -1, FUNCTION);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return lua_isfunction(L, -1);
}


/* The keeper with this number, on top of the stack; or NULL, and whatever there is. */
static keeper *push_numbered (lua_State *L, int64_t number) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &keepers_key);
  lua_rawgeti(L, -1, number);
  lua_replace(L, -2);
  return keeper_at(L, -1);
}


void set_keeper_caller (lua_State *L, int64_t number, void *caller) {
  keeper *k = push_numbered(L, number);
  if (k != NULL) k->caller = caller;
  lua_pop(L, 1);
}


void *keeper_caller (lua_State *L, int64_t number) {
  const keeper *k = push_numbered(L, number);
  lua_pop(L, 1);
  return k != NULL ? k->caller : NULL;
}


/* Raises nothing: the graph is being freed, by a finaliser perhaps. */
void empty_keeper (lua_State *L, int64_t number) {
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 5)) return;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pins_key);
  if (lua_rawgeti(L, -1, number) != LUA_TNIL) {            /* Lua 5.4.0 makes room for a new nil */
    lua_pushnil(L);
    lua_rawseti(L, -3, number);
  }
  keeper *k = push_numbered(L, number);
  if (k != NULL) k->caller = NULL;
  for (int i = FUNCTION; k != NULL && i <= INPUTS; i++) {
    lua_pushnil(L);
    lua_setiuservalue(L, -2, i);
  }
  lua_settop(L, top);
}

/* }================================================================== */


/*
** {==================================================================
** Anchors of a call's arguments
** ===================================================================
*/

/* Pushes the anchor of the value at i; false: there is none, or its node was freed. */
static bool push_anchor (lua_State *L, int i) {
  if (!is_box(L, i) || lua_getiuservalue(L, i, 1) == LUA_TNIL) return false;
  if (keeper_at(L, -1) == NULL) return lua_istable(L, -1);
  lua_getiuservalue(L, -1, FUNCTION);
  bool empty = lua_isnil(L, -1);
  lua_pop(L, 1);
  return !empty;
}


/*
** Adds the anchors that the value at i leads to: a tensor, a list, or options with lists. 'list' 0:
** none are added. True: there are some.
*/
static bool gather (lua_State *L, int i, int list, int depth) {
  int top = lua_gettop(L);
  bool found = push_anchor(L, i);
  if (found && list != 0) lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
  lua_settop(L, top);
  if (depth == 0 || !lua_istable(L, i)) return found;
  lua_pushnil(L);
  while ((list != 0 || !found) && lua_next(L, i)) {
    if (gather(L, top + 2, list, depth - 1)) found = true;
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
  return found;
}


/* From index 'from' to 'top'. */
static bool gather_all (lua_State *L, int from, int top, int list) {
  bool found = false;
  luaL_checkstack(L, 12, "heed");
  for (int i = from; i <= top; i++)
    if (gather(L, i, list, 2)) found = true;
  return found;
}


int begin_anchors (lua_State *L, int top) {
  if (!gather_all(L, 1, top, 0)) return 0;
  lua_newtable(L);
  return lua_gettop(L);
}


void take_anchors (lua_State *L, int top, int list) { gather_all(L, 1, top, list); }


/* Pushes one value for the list: its only entry, if all are the same; nil, if there is none. */
static void push_joined (lua_State *L, int list) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  lua_rawgeti(L, list, 1);
  for (lua_Integer i = 2; i <= n; i++) {
    lua_rawgeti(L, list, i);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (same) continue;
    lua_pop(L, 1);
    lua_pushvalue(L, list);
    return;
  }
}


/* The tensor at i gets the anchor on top, which it pops, if it has a graph. */
static void set_anchor (lua_State *L, int i) {
  const heed_tensor *t = raw_tensor(L, i);
  if (t != NULL && heed_requires_grad(t)) lua_setiuservalue(L, i, 1);
  else lua_pop(L, 1);
}


void pass_anchors (lua_State *L, int list, int from, int n) {
  push_joined(L, list);
  for (int i = from; i < from + n; i++) {
    lua_pushvalue(L, -1);
    set_anchor(L, i);
  }
  lua_pop(L, 1);
}


int pass_anchor (lua_State *L, int from) {
  int made = lua_gettop(L);
  if (binding_of(L)->hooks != NULL && push_anchor(L, from)) set_anchor(L, made);
  lua_settop(L, made);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Pins
** ===================================================================
*/

/* Adds the value on top, which it pops, behind the n entries of 'work'; how many there are then. */
static lua_Integer add_work (lua_State *L, int work, lua_Integer n) {
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  else lua_rawseti(L, work, ++n);
  return n;
}


/* Adds to 'work' whatever the keeper or list at i leads to. Entry 0 of a list is a mark. */
static lua_Integer add_entries (lua_State *L, int i, int work, lua_Integer n) {
  if (keeper_at(L, i) != NULL) {
    lua_getiuservalue(L, i, INPUTS);
    return add_work(L, work, n);
  }
  for (lua_Integer k = (lua_Integer)lua_rawlen(L, i); k > 0; k--) {
    lua_rawgeti(L, i, k);
    n = add_work(L, work, n);
  }
  return n;
}


static bool is_emptied (lua_State *L, int i) {
  bool emptied = lua_getiuservalue(L, i, FUNCTION) == LUA_TNIL;
  lua_pop(L, 1);
  return emptied;
}


/* Pins the keeper or marks the list at i; false: that is done already, or it leads to nothing. */
static bool pin (lua_State *L, int i) {
  const keeper *k = keeper_at(L, i);
  if (k == NULL) lua_pushvalue(L, i);
  else lua_rawgetp(L, LUA_REGISTRYINDEX, &pins_key);
  bool done = lua_rawgeti(L, -1, k != NULL ? k->number : 0) != LUA_TNIL;
  lua_pop(L, 2);
  if (done || (k != NULL && is_emptied(L, i))) return false;
  if (k != NULL) {
    enlist(L, &pins_key, k->number, i);
    return true;
  }
  lua_pushboolean(L, true);
  lua_rawseti(L, i, 0);
  return true;
}


/* The table at 'held' gets the keeper or list at i as a key; false: it has had it. */
static bool hold (lua_State *L, int i, int held) {
  lua_pushvalue(L, i);
  bool done = lua_rawget(L, held) != LUA_TNIL;
  lua_pop(L, 1);
  if (done) return false;
  lua_pushvalue(L, i);
  lua_pushboolean(L, true);
  lua_rawset(L, held);
  return true;
}


/*
** Pins all keepers that the list leads to, or holds them in the table at 'held', unless that is 0.
** The list serves as its own stack.
*/
static void take_all (lua_State *L, int list, int held) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  while (n > 0) {
    lua_rawgeti(L, list, n--);
    int entry = lua_gettop(L);
    bool leads = keeper_at(L, entry) != NULL || lua_istable(L, entry);
    if (leads && (held != 0 ? hold(L, entry, held) : pin(L, entry)))
      n = add_entries(L, entry, list, n);
    lua_settop(L, entry - 1);
  }
}


void pin_anchors (lua_State *L, int from, int top) {
  if (binding_of(L)->hooks == NULL || !gather_all(L, from, top, 0)) return;
  lua_newtable(L);
  int list = lua_gettop(L);
  gather_all(L, from, top, list);
  take_all(L, list, 0);
  lua_settop(L, list - 1);
}


void hold_keepers (lua_State *L, int i) {
  if (binding_of(L)->hooks == NULL || !gather_all(L, i, i, 0)) return;
  lua_newtable(L);
  int held = lua_gettop(L);
  lua_newtable(L);
  gather_all(L, i, i, held + 1);
  take_all(L, held + 1, held);
  lua_settop(L, held);
}


/* The list of the anchors at i and k. */
static void push_pair (lua_State *L, int i, int k) {
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, i);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, k);
  lua_rawseti(L, -2, 2);
}


/*
** A function gets called for the gradient of the tensor at i. Its keeper stands beside the anchor
** that the tensor has, and is emptied alone when the function goes.
*/
int64_t anchor_function (lua_State *L, int function, int i) {
  int top = lua_gettop(L);
  bool anchored = push_anchor(L, i);
  lua_settop(L, anchored ? top + 1 : top);
  int64_t number = push_keeper(L, function, 0);
  if (heed_graph_is_shared(raw_tensor(L, i))) enlist(L, &pins_key, number, -1);
  else {
    if (anchored) push_pair(L, top + 1, top + 2);
    set_anchor(L, i);
  }
  lua_settop(L, top);
  return number;
}


int take_anchors_in_place (lua_State *L, int top, int list) {
  const heed_tensor *target = raw_tensor(L, 1);
  if (!heed_recording(binding_of(L)->cx)) return 0;
  bool sole = target != NULL && !heed_is_shared(target);
  gather_all(L, sole || target == NULL ? 1 : 2, top, list);
  if (sole) return list;
  take_all(L, list, 0);
  return 0;
}

/* }================================================================== */


/* One pair for a state, however often the module is opened. */
void open_anchor (lua_State *L) {
  bool open = lua_rawgetp(L, LUA_REGISTRYINDEX, &pins_key) != LUA_TNIL;
  lua_pop(L, 1);
  if (open) return;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &keepers_key);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &pins_key);
}
