/*
** lua_tensor.c - tensors as userdata: made, released, their fields.
*/

#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"


/*
** {==================================================================
** Cells
** ===================================================================
*/

static cell *new_cell (binding *b, lua_State *L) {
  cell *s = b->unused;
  if (s != NULL) b->unused = s->older;
  else s = malloc(sizeof *s);
  if (s == NULL) return NULL;
  s->t = NULL;
  s->kept = s->spared = false;
  s->age = ++b->clock;
  s->scope = b->frames != NULL ? scope_in(b, L) : 0;
  s->newer = NULL;
  s->older = b->newest;
  if (s->older != NULL) s->older->newer = s;
  b->newest = s;
  return s;
}


static void unlink_cell (binding *b, cell *s) {
  *(s->newer != NULL ? &s->newer->older : &b->newest) = s->older;
  if (s->older != NULL) s->older->newer = s->newer;
}


void empty_cell (cell *s) {
  heed_tensor *t = s->t;
  s->t = NULL;
  heed_drop(t);
}


static void put_on (cell **list, cell *s) {
  s->older = *list;
  *list = s;
}


/* Drops what finalisers released. */
static void drop_late (binding *b) {
  cell *s;
  while ((s = b->late) != NULL) {
    b->late = s->older;
    empty_cell(s);
    put_on(&b->unused, s);
  }
}


void drop_cells (binding *b) {
  cell *s;
  drop_late(b);
  while ((s = b->newest) != NULL) {
    b->newest = s->older;
    empty_cell(s);
    put_on(&b->unused, s);
  }
  while ((s = b->unused) != NULL) {
    b->unused = s->older;
    free(s);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Entering
** ===================================================================
*/

/* lua_gc refuses while the collector calls finalisers (from Lua 5.4.4 on). */
bool in_finaliser (lua_State *L) { return lua_gc(L, LUA_GCCOUNT) < 0; }


lua_State *running (binding *b) {
  return lua_status(b->L) == LUA_OK ? b->L : b->main;
}


/* The coroutine that calls has changed, or frames are open, or finalisers released something. */
void enter_anew (lua_State *L, binding *b) {
  if (b->cx == NULL) luaL_error(L, "heed: the state is closing");
  if (b->L != L) {
    b->L = L;
    lua_pushthread(L);             /* kept: the host may call the core when it has ended */
    lua_rawsetp(L, LUA_REGISTRYINDEX, b);
  }
  if (b->frames != NULL) apply_modes(b, L);
  if (b->capturing) heed_capture_pause(b->cx, in_finaliser(L));
  if (b->late != NULL && !in_finaliser(L)) drop_late(b);
}

/* }================================================================== */


/*
** {==================================================================
** Boxes
** ===================================================================
*/

/* Pushes userdata that were put aside; NULL: there are none, and nothing is pushed. */
static box *push_spare (lua_State *L, binding *b) {
  if (b->spares == 0) return NULL;
  lua_getiuservalue(L, lua_upvalueindex(1), b->spares);
  lua_pushnil(L);
  lua_setiuservalue(L, lua_upvalueindex(1), b->spares--);
  box *x = box_at(L, b, -1);
  if (x != NULL && x->at == NULL) return x;
  lua_pop(L, 1);                   /* 'debug' has put something else there */
  return NULL;
}


static box *push_box (lua_State *L, binding *b) {
  box *x = lua_newuserdatauv(L, sizeof *x, 1);
  *x = (box){.self = x, .owner = b};
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setmetatable(L, -2);
  return x;
}


cell *push_cell_of (lua_State *L, binding *b) {
  box *x = push_spare(L, b);
  if (x == NULL) x = push_box(L, b);
  x->at = new_cell(b, L);
  if (x->at == NULL) luaL_error(L, "not enough memory");
  return x->at;
}


void put_aside (lua_State *L, binding *b, int i) {
  box *x = box_at(L, b, i);
  if (b->spares < SPARES) {
    unlink_cell(b, x->at);
    put_on(&b->unused, x->at);
    x->at = NULL;
    lua_pushvalue(L, i);
    lua_setiuservalue(L, lua_upvalueindex(1), ++b->spares);
  }
  lua_pushnil(L);
  lua_replace(L, i);
}


int fill (lua_State *L, cell *s, heed_tensor *t) {
  s->t = t;
  done(L, t != NULL);
  return 1;
}


bool is_box (lua_State *L, int i) { return box_at(L, binding_of(L), i) != NULL; }


heed_tensor *raw_tensor (lua_State *L, int i) {
  cell *s = cell_at(L, binding_of(L), i);
  return s != NULL ? s->t : NULL;
}


heed_tensor *check_tensor (lua_State *L, int i) {
  heed_tensor *t = raw_tensor(L, i);
  if (t != NULL) return t;
  if (is_box(L, i)) raise(L, "the tensor was released");
  if (i == 1 && is_method(L)) refuse_dot(L);
  raise(L, "a tensor expected, got %s", describe(L, i));
  return NULL;
}


/*
** release() and __close: twice does no harm. In a finaliser only the userdata lets go of it now:
** the function that it interrupts may be about to read the tensor.
*/
static int l_release (lua_State *L) {
  box *x = box_at(L, binding_of(L), 1);
  if (x == NULL) check_tensor(L, 1);
  binding *b = x->owner;
  cell *s = x->at;
  if (s == NULL || b->cx == NULL) return 0;
  enter(L);
  at_most(L, 1);
  x->at = NULL;
  unlink_cell(b, s);
  put_on(&b->late, s);
  if (!in_finaliser(L)) drop_late(b);
  return 0;
}


/* A script cannot call it; 'debug' can, with anything, and again. */
static int l_gc (lua_State *L) {
  box *x = box_at(L, NULL, 1);
  if (x == NULL || x->at == NULL) return 0;
  binding *b = x->owner;
  cell *s = x->at;
  lua_State *was = b->L;
  x->at = NULL;
  unlink_cell(b, s);
  b->L = L;                        /* the graph may release functions */
  empty_cell(s);
  b->L = was;
  put_on(&b->unused, s);
  return 0;
}

/* }================================================================== */


/*
** {==================================================================
** Shapes
** ===================================================================
*/

void push_shape (lua_State *L, const heed_tensor *t) {
  int rank = heed_rank(t);
  lua_createtable(L, rank, 0);
  for (int i = 0; i < rank; i++) {
    lua_pushinteger(L, heed_size(t, i));
    lua_rawseti(L, -2, i + 1);
  }
  luaL_setmetatable(L, "heed.shape");
}


/* Shapes are the script's own tables: anything may stand in them by now. */
static int shape_tostring (lua_State *L) {
  luaL_Buffer buffer;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  luaL_buffinit(L, &buffer);
  luaL_addchar(&buffer, '(');
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) luaL_addstring(&buffer, ", ");
    lua_rawgeti(L, 1, i);
    luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    luaL_addvalue(&buffer);
  }
  luaL_addchar(&buffer, ')');
  luaL_pushresult(&buffer);
  return 1;
}


static int shape_eq (lua_State *L) {
  if (!lua_istable(L, 1) || !lua_istable(L, 2)) return 0;
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  bool same = n == (lua_Integer)lua_rawlen(L, 2);
  for (lua_Integer i = 1; same && i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}


/* shape[-1] is the last size. */
static int shape_index (lua_State *L) {
  int64_t i;
  luaL_checktype(L, 1, LUA_TTABLE);
  bool whole = to_integer(L, 2, &i);
  if (whole && i == 0) return luaL_error(L, "shape: dimensions count from 1, got 0");
  if (whole && i < 0) lua_rawgeti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1 + i);
  else lua_pushnil(L);
  return 1;
}


static int l_concat (lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}


static void open_shape (lua_State *L) {
  static const luaL_Reg functions[] = {
    {"__concat", l_concat}, {"__eq", shape_eq}, {"__index", shape_index},
    {"__tostring", shape_tostring}, {NULL, NULL}
  };
  if (luaL_newmetatable(L, "heed.shape")) {
    luaL_setfuncs(L, functions, 0);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_pop(L, 1);
}

/* }================================================================== */


/*
** {==================================================================
** Fields, methods, and what Lua's operators do with a tensor
** ===================================================================
*/

static void push_gradient (lua_State *L) {
  cell *s = push_cell(L);
  s->t = heed_gradient(check_tensor(L, 1));
  s->kept = true;
  if (s->t == NULL) lua_pushnil(L);
}


/* x.T: all axes in reverse; x.mT: the last two exchanged. The results are views. */
static int push_transposed (lua_State *L, const char *key) {
  int64_t axes[HEED_RANK];
  heed_context *cx = binding_of(L)->cx;
  cell *s = push_cell(L);
  heed_tensor *t = check_tensor(L, 1);
  int rank = heed_rank(t);
  bool all = strcmp(key, "T") == 0;
  if (!all && rank < 2)
    return raise_as(L, key, "at least 2 dimensions expected, got %s", describe(L, 1));
  for (int i = 0; i < rank; i++) axes[i] = rank - 1 - i;
  heed_value permute[] = {heed_t(t), heed_l(rank, axes)};
  heed_value transpose[] = {heed_t(t), heed_i(-2), heed_i(-1)};
  heed_set_caller(cx, key);
  fill(L, s, all ? heed_call(cx, HEED_permute, permute, 2)
                 : heed_call(cx, HEED_transpose, transpose, 3));
  return pass_anchor(L, 1);
}


/* A field's name at 2; others the methods' own metatable refuses. Upvalue 3: the methods. */
static int push_field (lua_State *L, const char *key) {
  heed_tensor *t = raw_tensor(L, 1);
  if (t == NULL) return raise_as(L, key, "the tensor was released");
  if (strcmp(key, "shape") == 0) push_shape(L, t);
  else if (strcmp(key, "dtype") == 0) lua_pushstring(L, heed_type_name(heed_type_of(t)));
  else if (strcmp(key, "device") == 0) lua_pushstring(L, heed_device_of(t));
  else if (strcmp(key, "grad") == 0) push_gradient(L);
  else if (strcmp(key, "requires_grad") == 0) lua_pushboolean(L, heed_requires_grad(t));
  else if (strcmp(key, "is_leaf") == 0) lua_pushboolean(L, heed_is_leaf(t));
  else if (strcmp(key, "T") == 0 || strcmp(key, "mT") == 0) return push_transposed(L, key);
  else {
    lua_pushvalue(L, 2);
    lua_gettable(L, lua_upvalueindex(3));
  }
  return 1;
}


/* A name is a method or a field, anything else an index. Upvalue 3: the methods. */
static int l_index (lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return index_by_key(L);
  enter(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(3)) != LUA_TNIL) return 1;
  if (!is_box(L, 1)) return raise(L, "a tensor expected, got %s", describe(L, 1));
  const char *key = plain_text(L, 2);
  if (key == NULL) return raise(L, "a name or an index expected, got %s", describe(L, 2));
  return push_field(L, key);
}


static int l_len (lua_State *L) {
  heed_tensor *t = check_tensor(L, 1);
  if (heed_rank(t) == 0) return raise(L, "a tensor of rank 0 has no length");
  lua_pushinteger(L, heed_size(t, 0));
  return 1;
}


static int l_compare (lua_State *L) {
  return raise_as(L, NULL, "'<' and '<=' give one boolean in Lua: compare tensors with x:lt(y), "
                  "x:le(y), x:gt(y) or x:ge(y)");
}


static int l_pairs (lua_State *L) {
  return raise(L, "a tensor is no table; write for i, row in ipairs(x), or pairs(x:totable())");
}


static int l_is_tensor (lua_State *L) {
  at_most(L, 1);
  lua_pushboolean(L, is_box(L, 1));
  return 1;
}

/* }================================================================== */


/* Fills the metatable too, which is upvalue 2. */
void open_tensor (lua_State *L, int module, int methods) {
  static const struct { const char *field, *name; lua_CFunction f; } metamethods[] = {
    {"__close", "release", l_release}, {"__concat", "concat", l_concat}, {"__gc", "gc", l_gc},
    {"__le", "<=", l_compare}, {"__len", "#", l_len}, {"__lt", "<", l_compare},
    {"__newindex", "index", l_newindex}, {"__pairs", "pairs", l_pairs},
    {"__tostring", "tostring", l_tostring}
  };
  static const luaL_Reg own[] = {{"is_tensor", l_is_tensor}, {"release", l_release}, {NULL, NULL}};
  open_shape(L);
  register_methods(L, own, module, methods);
  lua_pushvalue(L, lua_upvalueindex(2));
  for (size_t i = 0; i < sizeof metamethods / sizeof *metamethods; i++) {
    push_function(L, metamethods[i].name, metamethods[i].f);
    lua_setfield(L, -2, metamethods[i].field);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, methods);
  lua_pushcclosure(L, l_index, 3);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "heed.tensor");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}
