/*
** lua_scope.c - calls that change what happens while they run: no_grad, enable_grad, autocast,
** scope; and the frames of such calls.
**
** Each call has a frame, a userdata on the stack of its coroutine that Lua closes however the call
** ends: by its return, an error, or the coroutine's end. Functions in it may yield.
*/

#include "lua_heed.h"

static const char frame_key = 0;       /* its address names the frames' metatable in the registry */


/*
** {==================================================================
** Frames
** ===================================================================
*/

typedef enum what { MODES, LAYER, SCOPE } what;       /* a frame sets */

static bool sets (const frame *f, what w) {
  return w == MODES ? f->moded : w == LAYER ? f->layered : f->scope != 0;
}


/*
** The innermost frame that sets something, for code in L: one of its own, or else of a coroutine
** that waits for it. The frames of a suspended coroutine do not count until it is resumed. *others:
** is it, or may it become, another coroutine's?
*/
static const frame *innermost (const binding *b, lua_State *L, what w, bool *others) {
  const frame *found = NULL;
  for (const frame *f = b->frames; f != NULL; f = f->outer) {
    if (!sets(f, w)) continue;
    if (f->L == L) return f;
    *others = true;
    if (found == NULL && lua_status(f->L) == LUA_OK) found = f;
  }
  return found;
}


modes modes_now (const binding *b) {
  return (modes){.recording = heed_recording(b->cx), .autocast = heed_autocast(b->cx),
                 .layer = heed_layer(b->cx)};
}


void set_modes (const binding *b, modes m) {
  heed_set_recording(b->cx, m.recording);
  heed_set_autocast(b->cx, m.autocast);
  heed_set_layer(b->cx, m.layer);
}


/* Modes from frames of L's own hold until a frame is opened or closed, or another coroutine calls;
   those of others may change. */
void apply_modes (binding *b, lua_State *L) {
  bool others = false;
  const frame *f = innermost(b, L, MODES, &others), *layer = innermost(b, L, LAYER, &others);
  modes m = f != NULL ? f->modes : b->modes;
  m.layer = layer != NULL ? layer->modes.layer : b->modes.layer;
  set_modes(b, m);
  b->modes_applied = !others && b->L == L;
}


int64_t scope_in (const binding *b, lua_State *L) {
  bool others;
  const frame *f = innermost(b, L, SCOPE, &others);
  return f != NULL && f->finalising == in_finaliser(L) ? f->scope : 0;
}


/* Does the core have the modes of the code in L, whatever other coroutines do? */
static bool has_modes_of (const binding *b, lua_State *L) {
  return b->L == L && (b->frames == NULL || b->modes_applied);
}


static void open_frame (binding *b, lua_State *L, frame *f) {
  if (b->frames == NULL) b->modes = modes_now(b);
  f->L = L;
  f->open = true;
  f->finalising = in_finaliser(L);
  f->outer = b->frames;
  f->under = b->frames;
  b->frames = f;
}


void begin_frame (binding *b, lua_State *L, frame *f) {
  open_frame(b, L, f);
  apply_modes(b, L);
}


/* As begin_frame, which looks at all frames: a layer leaves the other modes alone. */
void begin_layer (binding *b, lua_State *L, frame *f) {
  const bool quick = has_modes_of(b, L);
  f->around = heed_layer(b->cx);
  open_frame(b, L, f);
  if (!quick) { apply_modes(b, L); return; }
  heed_set_layer(b->cx, f->modes.layer);
  b->modes_applied = true;
}


/* Frames of other coroutines may have been opened since, and may stay. */
void end_frame (binding *b, lua_State *L, frame *f) {
  frame **at = &b->frames;
  if (!f->open) return;
  const bool quick = f->slot > 0 && b->frames == f && f->outer == f->under && f->L == L &&
                     has_modes_of(b, L);
  f->open = false;
  while (*at != f) at = &(*at)->outer;
  *at = f->outer;
  if (f->slot > 0 && f->slot < b->idle) b->idle = f->slot;
  if (b->cx == NULL) return;
  if (quick) heed_set_layer(b->cx, f->around);
  else apply_modes(b, L);
}

frame *own_frame (const binding *b, lua_State *L) {
  frame *f = b->frames;
  while (f != NULL && f->L != L) f = f->outer;
  return f;
}


void end_frames (binding *b, lua_State *L, const frame *own) {
  frame *f;
  while ((f = own_frame(b, L)) != NULL && f != own) end_frame(b, L, f);
}

/* }================================================================== */


/*
** {==================================================================
** Tensors that outlive a scope
** ===================================================================
*/

typedef void (*visit) (cell *s, int64_t scope);

static void spare (cell *s, int64_t scope) { s->spared = s->age > scope; }

static void keep_forever (cell *s, int64_t scope) {
  (void)scope;
  s->kept = true;
}


/*
** Visits all tensors that the value on top leads to through tables, and pops it. 'visited' is the
** stack index of the set of tables that were looked into. Values still to be visited lie in a
** list, so that deep structures need no C stack.
*/
static void visit_reachable (lua_State *L, int visited, visit f, int64_t scope) {
  const binding *b = binding_of(L);
  lua_Integer n = 1;
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  int list = lua_gettop(L) - 1;
  lua_rawseti(L, list, 1);
  while (n > 0) {
    lua_rawgeti(L, list, n);
    lua_pushnil(L);
    lua_rawseti(L, list, n--);
    cell *s = cell_at(L, b, -1);
    if (s != NULL) f(s, scope);
    if (!lua_istable(L, -1)) { lua_pop(L, 1); continue; }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, visited) != LUA_TNIL) { lua_pop(L, 2); continue; }
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, visited);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      int type = lua_type(L, -1);
      if (type == LUA_TTABLE || type == LUA_TUSERDATA) lua_rawseti(L, list, ++n);
      else lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}


/* Visits what the values from stack index 'from' on lead to. */
static void visit_values (lua_State *L, int from, visit f, int64_t scope) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, "scope");
  lua_newtable(L);
  for (int i = from; i <= top; i++) {
    lua_pushvalue(L, i);
    visit_reachable(L, top + 1, f, scope);
  }
  lua_settop(L, top);
}


static bool must_stay (const cell *s) {
  return s->kept || s->spared || (heed_requires_grad(s->t) && heed_is_leaf(s->t));
}


/* Releases the tensors made in the scope; spared tensors belong to the scope around it. */
static void release_made_in (binding *b, int64_t scope, int64_t around) {
  for (cell *s = b->newest; s != NULL && s->age > scope; s = s->older) {
    if (s->scope == scope) {
      s->scope = around;
      if (s->t != NULL && !must_stay(s)) empty_cell(s);
    }
    s->spared = false;
  }
}


/* The values from stack index 'from' on stay. */
static void end_scope (lua_State *L, frame *f, int from) {
  if (!f->open || binding_of(L)->cx == NULL) return;
  binding *b = enter(L);
  visit_values(L, from, spare, f->scope);
  end_frame(b, L, f);
  release_made_in(b, f->scope, b->frames != NULL ? scope_in(b, L) : 0);
}

/* }================================================================== */


/*
** {==================================================================
** Calls
** ===================================================================
*/

static frame *frame_at (lua_State *L, int i) {
  return lua_rawlen(L, i) == sizeof(frame) ? lua_touserdata(L, i) : NULL;
}


/* __close(frame, error): after an error what it leads to stays */
static int l_close_frame (lua_State *L) {
  frame *f = frame_at(L, 1);
  lua_settop(L, 2);
  if (f == NULL) return 0;
  if (f->scope != 0) end_scope(L, f, 2);
  end_frame(binding_of(L), L, f);
  return 0;
}


/* __gc: its coroutine was suspended in it, and collected */
static int l_collect_frame (lua_State *L) {
  frame *f = frame_at(L, 1);
  if (f != NULL) end_frame(binding_of(L), L, f);
  return 0;
}


/* The function's results stand behind the frame. */
static int leave (lua_State *L, int status, lua_KContext context) {
  frame *f = lua_touserdata(L, 1);
  (void)status; (void)context;
  if (f->scope != 0) end_scope(L, f, 2);
  end_frame(binding_of(L), L, f);
  return lua_gettop(L) - 1;
}


frame *push_frame (lua_State *L) {
  frame *f = lua_newuserdatauv(L, sizeof *f, 1);
  *f = (frame){.open = false};
  lua_pushthread(L);                   /* lives as long as the frame that names it */
  lua_setiuservalue(L, -2, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &frame_key);
  lua_setmetatable(L, -2);
  return f;
}


/* Calls the function at 1 with the arguments behind it, in a frame. */
static int call_in (lua_State *L, binding *b, frame how) {
  frame *f = push_frame(L);
  *f = how;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  begin_frame(b, L, f);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, leave);
  return leave(L, LUA_OK, 0);
}


static int call_recording (lua_State *L, bool recording) {
  binding *b = enter(L);
  check_callable(L, 1);
  modes m = {.recording = recording, .autocast = heed_autocast(b->cx)};
  return call_in(L, b, (frame){.modes = m, .moded = true});
}


/* no_grad(f, ...): f(...), of which nothing is recorded */
static int l_no_grad (lua_State *L) {
  return call_recording(L, false);
}


/* enable_grad(f, ...): f(...), recorded also within no_grad */
static int l_enable_grad (lua_State *L) {
  return call_recording(L, true);
}


/* The type at 1: false for none. */
static heed_type check_low_type (lua_State *L) {
  heed_type type = HEED_FLOAT32;
  if (lua_type(L, 1) == LUA_TBOOLEAN && !lua_toboolean(L, 1)) return type;
  if (lua_type(L, 1) != LUA_TSTRING || !heed_type_find(lua_tostring(L, 1), &type) ||
      (type != HEED_FLOAT16 && type != HEED_BFLOAT16))
    raise_wrong(L, "dtype", "'bfloat16', 'float16' or false", 1);
  return type;
}


/* autocast(dtype, f, ...): f(...), in mixed precision */
static int l_autocast (lua_State *L) {
  binding *b = enter(L);
  modes m = {.recording = heed_recording(b->cx), .autocast = check_low_type(L)};
  lua_remove(L, 1);
  check_callable(L, 1);
  return call_in(L, b, (frame){.modes = m, .moded = true});
}


/* autocast_dtype(): its type, or nil */
static int l_autocast_dtype (lua_State *L) {
  at_most(L, 0);
  const heed_type type = heed_autocast(enter(L)->cx);
  if (type == HEED_FLOAT32) lua_pushnil(L);
  else lua_pushstring(L, heed_type_name(type));
  return 1;
}


static int l_is_grad_enabled (lua_State *L) {
  at_most(L, 0);
  lua_pushboolean(L, heed_recording(enter(L)->cx));
  return 1;
}


/* scope(f, ...): f(...); then frees what f made, but for what its results lead to */
static int l_scope (lua_State *L) {
  binding *b = enter(L);
  check_callable(L, 1);
  return call_in(L, b, (frame){.scope = ++b->clock});
}


/* keep(value): scopes leave it, or the tensors that it leads to, alone from now on */
static int l_keep (lua_State *L) {
  enter(L);
  at_most(L, 1);
  lua_settop(L, 1);
  if (!lua_istable(L, 1)) check_tensor(L, 1);
  visit_values(L, 1, keep_forever, 0);
  return 1;
}

/* }================================================================== */


void open_scope (lua_State *L, int module) {
  static const luaL_Reg functions[] = {
    {"autocast", l_autocast}, {"autocast_dtype", l_autocast_dtype},
    {"enable_grad", l_enable_grad}, {"is_grad_enabled", l_is_grad_enabled}, {"keep", l_keep},
    {"no_grad", l_no_grad}, {"scope", l_scope}, {NULL, NULL}
  };
  static const luaL_Reg frames[] = {
    {"__close", l_close_frame}, {"__gc", l_collect_frame}, {NULL, NULL}
  };
  register_functions(L, functions, module);
  register_metatable(L, frames, &frame_key);
}
