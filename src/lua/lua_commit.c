/*
** lua_commit.c - changes of many tensors and fields of tables, made by one function of C. A hook
** of the script runs between Lua's instructions, so its error comes before all of them or after.
*/

#include <string.h>

#include "lua_heed.h"

static const char changes_key = 0;     /* its address names their metatable in the registry */

/*
** The contents of a table of changes. The tensors are those of its lists, one after the other;
** held: each has one more owner.
*/
typedef struct changes {
  heed_changes of;
  size_t n;
  bool held, armed;                /* armed: to be made when a call ends, however it does */
  heed_tensor *tensor[];
} changes;


/*
** {==================================================================
** Fields: a list of a table, a key, a value, the next table, ... The keys are there already, so
** that setting them takes no memory.
** ===================================================================
*/

void check_fields (lua_State *L, int fields) {
  if (lua_isnoneornil(L, fields)) return;
  luaL_checktype(L, fields, LUA_TTABLE);
  luaL_checkstack(L, 4, "commit");
  for (lua_Integer i = 1; lua_rawgeti(L, fields, i) != LUA_TNIL; i += 3) {
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_rawgeti(L, fields, i + 1);
    if (lua_rawget(L, -2) == LUA_TNIL) raise(L, "a key that is there expected");
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}


void set_fields (lua_State *L, int fields) {
  if (lua_isnoneornil(L, fields)) return;
  for (lua_Integer i = 1; lua_rawgeti(L, fields, i) != LUA_TNIL; i += 3) {
    lua_rawgeti(L, fields, i + 1);
    lua_rawgeti(L, fields, i + 2);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* }================================================================== */


/*
** {==================================================================
** Reading
** ===================================================================
*/

/*
** The keys of a table of changes: lists of tensors, in the order in which these lie in 'tensor';
** and what is no such list.
*/
enum { TARGETS, OPERANDS, TAKERS, GIVERS, GRADIENTS, FIELDS, OP, NUMBER, KEYS, LISTS = FIELDS };

static const char *const names[] = {
  "targets", "operands", "takers", "givers", "gradients", "fields", "op", "number"
};


static int key_of (const char *name) {
  int k = 0;
  while (k < KEYS && strcmp(names[k], name) != 0) k++;
  return k;
}


/* Pushes the values of all keys that the table at i may have; n: how long its lists are. */
static void push_values (lua_State *L, int i, size_t n[LISTS]) {
  const int first = lua_gettop(L) + 1;
  luaL_checktype(L, i, LUA_TTABLE);
  luaL_checkstack(L, KEYS + 8, "commit");
  lua_settop(L, first + KEYS - 1);
  lua_pushnil(L);
  while (lua_next(L, i)) {
    const int k = lua_type(L, -2) == LUA_TSTRING ? key_of(lua_tostring(L, -2)) : KEYS;
    if (k == KEYS) raise(L, "an unknown kind of changes: %s", describe(L, -2));
    if (k <= FIELDS) luaL_checktype(L, -1, LUA_TTABLE);
    if (k < LISTS) n[k] = lua_rawlen(L, -1);
    lua_replace(L, first + k);
  }
  bool fit = (n[OPERANDS] == n[TARGETS] || n[OPERANDS] == 0) &&
             (n[GIVERS] == n[TAKERS] || n[GIVERS] == 0) &&
             (n[GRADIENTS] == n[TAKERS] || n[GRADIENTS] == 0);
  if (!fit) raise(L, "lists of one length expected");
}


static heed_op check_op (lua_State *L, int i) {
  static const char *const options[] = {"copy", "lerp", "mul", NULL};
  static const heed_op ops[] = {HEED_copy, HEED_lerp, HEED_mul};
  return ops[luaL_checkoption(L, i, "copy", options)];
}


/* The tensors of the list at i; false: there is none. */
static void read_tensors (lua_State *L, int i, size_t n, heed_tensor **list) {
  for (size_t k = 0; k < n; k++) {
    lua_rawgeti(L, i, (lua_Integer)k + 1);
    list[k] = raw_tensor(L, -1);
    if (list[k] == NULL && lua_toboolean(L, -1)) check_tensor(L, -1);      /* raises */
    lua_pop(L, 1);
  }
}


/*
** Pushes the changes of the table at i, with their fields as user value. The tensors are those of
** Lua's tables, and have no owner here.
*/
static changes *push_changes (lua_State *L, int i) {
  size_t n[LISTS] = {0}, all = 0;
  int first = lua_gettop(L) + 1;
  push_values(L, i, n);
  for (int k = 0; k < LISTS; k++) all += n[k];
  changes *c = lua_newuserdatauv(L, sizeof *c + all * sizeof *c->tensor, 1);
  memset(c, 0, sizeof *c);
  c->n = all;
  c->of.op = check_op(L, first + OP);
  c->of.number = lua_tonumber(L, first + NUMBER);
  c->of.ntargets = (int)n[TARGETS];
  c->of.ntakers = (int)n[TAKERS];
  heed_tensor *const **at[LISTS] = {&c->of.targets, &c->of.operands, &c->of.takers, &c->of.givers,
                                    &c->of.gradients};
  for (size_t k = 0, begin = 0; k < LISTS; begin += n[k++]) {
    read_tensors(L, first + (int)k, n[k], c->tensor + begin);
    if (n[k] > 0) *at[k] = c->tensor + begin;
  }
  if (c->of.givers != NULL && in_finaliser(L))   /* the interrupted call may rely on the shape */
    raise(L, "a finaliser may not change what a tensor is");
  check_fields(L, first + FIELDS);
  lua_pushvalue(L, first + FIELDS);
  lua_setiuservalue(L, -2, 1);
  lua_replace(L, first);
  lua_settop(L, first);
  return c;
}


static void hold (changes *c) {
  for (size_t i = 0; !c->held && i < c->n; i++) heed_keep(c->tensor[i]);
  c->held = true;
}


static void let_go (changes *c) {
  for (size_t i = 0; c->held && i < c->n; i++) heed_drop(c->tensor[i]);
  c->held = false;
}

/* }================================================================== */


/* Makes the changes at i. False: the context has a failure. */
static bool make (lua_State *L, int i, const char *name) {
  heed_context *cx = binding_of(L)->cx;
  const changes *c = lua_touserdata(L, i);
  heed_set_caller(cx, name);
  bool good = heed_commit(cx, &c->of);
  heed_set_caller(cx, NULL);
  if (good && lua_getiuservalue(L, i, 1) == LUA_TTABLE) set_fields(L, lua_gettop(L));
  return good;
}


/*
** commit(name, changes): all of them, or an error of the function of that name. The table has
** lists of tensors: 'targets' are written by 'op' ("copy", "lerp", "mul") with 'operands' and
** 'number'; 'takers' take over what the 'givers' are, and have 'gradients', or none. 'fields': see
** above.
*/
static int l_commit (lua_State *L) {
  enter(L);
  const char *name = luaL_checkstring(L, 1);
  changes *c = push_changes(L, 2);
  hold(c);
  bool good = make(L, lua_gettop(L), name);
  let_go(c);
  return good ? 0 : raise_failure(L);
}


/* set_fields(fields): all of them, as commit does */
static int l_set_fields (lua_State *L) {
  check_fields(L, 1);
  set_fields(L, 1);
  return 0;
}


/*
** {==================================================================
** Changes for the time of a call
** ===================================================================
*/

/* Makes the changes at i, once, and drops them. */
static bool take_back (lua_State *L, int i) {
  changes *c = lua_touserdata(L, i);
  if (binding_of(L)->cx == NULL) return true;
  bool good = !c->armed || make(L, i, "commit_during");
  c->armed = false;
  let_go(c);
  return good;
}


/* __close(changes, error), __gc(changes): as frames, see lua_scope.c */
static int l_close_changes (lua_State *L) {
  enter(L);
  return take_back(L, 1) ? 0 : raise_failure(L);
}


static int l_collect_changes (lua_State *L) {
  changes *c = lua_touserdata(L, 1);
  if (binding_of(L)->cx != NULL) let_go(c);
  return 0;
}


/* The function's results stand behind the changes. */
static int leave (lua_State *L, int status, lua_KContext top) {
  (void)status;
  enter(L);
  const int last = lua_gettop(L);
  luaL_checkstack(L, 8, "commit");
  if (!take_back(L, 1)) return raise_failure(L);
  lua_settop(L, last);
  return last - (int)top;
}


/* As push_changes; the changes own their tensors until they are collected, at the latest. */
static changes *push_held (lua_State *L, int i) {
  changes *c = push_changes(L, i);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &changes_key);
  hold(c);
  lua_setmetatable(L, -2);
  return c;
}


/*
** commit_during(name, on, back, f, ...): f(...), between the changes 'on' and the changes 'back',
** which are made however the call ends.
*/
static int l_commit_during (lua_State *L) {
  enter(L);
  const int top = lua_gettop(L);
  const char *name = luaL_checkstring(L, 1);
  check_callable(L, 4);
  changes *on = push_held(L, 2), *back = push_held(L, 3);
  back->of.uninterrupted = true;
  lua_pushvalue(L, 1);
  lua_replace(L, 3);               /* the name, for as long as the call lasts */
  lua_replace(L, 1);
  lua_replace(L, 2);
  lua_toclose(L, 1);
  bool good = make(L, 2, name);
  let_go(on);
  if (!good) return raise_failure(L);
  lua_settop(L, top);
  back->armed = true;
  lua_callk(L, lua_gettop(L) - 4, LUA_MULTRET, 3, leave);
  return leave(L, LUA_OK, 3);
}

/* }================================================================== */


/* require_grad(list, yes[, fields]): of all tensors of the list, and fields as commit has them; or,
   after an error, none */
static int l_require_grad (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 3);
  check_fields(L, 3);
  const size_t n = lua_rawlen(L, 1);
  heed_tensor **list = lua_newuserdatauv(L, (n + 1) * sizeof *list, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    list[i] = check_tensor(L, -1);
    lua_pop(L, 1);
  }
  for (size_t i = 0; i < n; i++) heed_keep(list[i]);
  bool good = heed_require_grad_all(cx, (int)n, list, lua_toboolean(L, 2));
  for (size_t i = 0; i < n; i++) heed_drop(list[i]);
  if (!good) return raise_failure(L);
  set_fields(L, 3);
  return 0;
}


void open_commit (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"commit", l_commit}, {"commit_during", l_commit_during}, {"require_grad", l_require_grad},
    {"set_fields", l_set_fields}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {
    {"__close", l_close_changes}, {"__gc", l_collect_changes}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
  register_metatable(L, own, &changes_key);
}
