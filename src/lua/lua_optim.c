/*
** lua_optim.c - one optimiser step for all parameters, or the norm of all gradients, in one call.
** The Lua half calls these functions and checks options; the checks here are those that keep the
** host safe.
*/

#include <string.h>

#include "lua_heed.h"


/* Numbers and flags that are missing are 0. */
static double number_field (lua_State *L, int i, const char *name) {
  double value = 0;
  int type = lua_getfield(L, i, name);
  if (type == LUA_TNUMBER) value = lua_tonumber(L, -1);
  else if (type != LUA_TNIL) raise_wrong(L, name, "a number", lua_gettop(L));
  lua_pop(L, 1);
  return value;
}


static bool flag_field (lua_State *L, int i, const char *name) {
  lua_getfield(L, i, name);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}


/* Entry k of a field that is a list. */
static double entry_field (lua_State *L, int i, const char *name, int k) {
  double value = 0;
  if (lua_getfield(L, i, name) == LUA_TTABLE) {
    lua_rawgeti(L, -1, k);
    value = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return value;
}


heed_step read_step (lua_State *L, int i) {
  heed_step step;
  memset(&step, 0, sizeof step);
#define NUMBER(name, ...) step.name = number_field(L, i, #name);
#define ENTRY(name, list, k, ...) step.name = entry_field(L, i, #list, k);
#define FLAG(name) step.name = flag_field(L, i, #name);
#include "op/optimizers.def"
  lua_getfield(L, i, "step");
  step.step = lua_isnil(L, -1) ? 1 : check_integer(L, lua_gettop(L), "step");
  lua_pop(L, 1);
  return step;
}


/* The tensors of the list at i, NULL for false, into list[0 .. n - 1]. */
static void read_list (lua_State *L, int i, int n, heed_tensor **list) {
  luaL_checktype(L, i, LUA_TTABLE);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    list[k] = lua_toboolean(L, -1) ? check_tensor(L, -1) : NULL;
    lua_pop(L, 1);
  }
}


/* Reads a list of tensors, NULL for entries that are none; false: there is such an entry. */
static bool read_living (lua_State *L, int i, int n, heed_tensor **list) {
  bool all = true;
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    list[k] = raw_tensor(L, lua_gettop(L));
    all = all && list[k] != NULL;
    lua_pop(L, 1);
  }
  return all;
}


/* The gradients of n tensors, owned; false: one has none, and nothing is owned. */
static bool take_gradients (int n, heed_tensor *const *ts, heed_tensor **gradients) {
  for (int i = 0; i < n; i++) {
    gradients[i] = heed_gradient(ts[i]);
    if (gradients[i] != NULL) continue;
    while (i > 0) heed_drop(gradients[--i]);
    return false;
  }
  return true;
}


/*
** optim_step(kind, parameters, gradients, states, options): kind is the name of an optimizer, and
** states is a list of lists. With nil for gradients they are the parameters' own, and the result is
** false if one of these has none.
*/
static int l_optim_step (lua_State *L) {
  static const char *const kinds[] = {
#define OPTIMIZER(NAME, name, ...) #name,
#include "op/optimizers.def"
    NULL
  };
  binding *b = enter(L);
  heed_optimizer kind = (heed_optimizer)luaL_checkoption(L, 1, NULL, kinds);
  const bool own = lua_isnil(L, 3);
  for (int i = 2; i <= 5; i++)
    if (i != 3 || !own) luaL_checktype(L, i, LUA_TTABLE);
  size_t n = lua_rawlen(L, 2), nstates = lua_rawlen(L, 4);
  if (nstates > HEED_STATES)
    return raise(L, "at most %d states expected, got %d", HEED_STATES, (int)nstates);
  heed_step step = read_step(L, 5);
  heed_tensor **list = lua_newuserdatauv(L, ((2 + HEED_STATES) * n + 1) * sizeof *list, 0);
  heed_tensor *const *states[HEED_STATES] = {NULL};
  if (!own) {
    read_list(L, 2, (int)n, list);
    read_list(L, 3, (int)n, list + n);
  }
  else if (!read_living(L, 2, (int)n, list)) return lua_pushboolean(L, false), 1;
  for (size_t s = 0; s < nstates; s++) {
    states[s] = list + (2 + s) * n;
    lua_rawgeti(L, 4, (lua_Integer)s + 1);
    read_list(L, lua_gettop(L), (int)n, list + (2 + s) * n);
    lua_pop(L, 1);
  }
  size_t held = (2 + nstates) * n;
  if (own && !take_gradients((int)n, list, list + n)) return lua_pushboolean(L, false), 1;
  for (size_t i = 0; i < held; i++)
    if (!own || i < n || i >= 2 * n) heed_keep(list[i]);
  bool good = heed_optimize(b->cx, kind, &step, (int)n, list, list + n, states);
  for (size_t i = 0; i < held; i++) heed_drop(list[i]);
  if (!good) return raise_failure(L);
  lua_pushboolean(L, true);
  return 1;
}


/* clip_gradients(parameters, p, max): their norm; without 'max' nothing is scaled */
static int l_clip_gradients (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  luaL_checktype(L, 1, LUA_TTABLE);
  const double p = luaL_checknumber(L, 2), max = luaL_optnumber(L, 3, 0);
  const bool scales = !lua_isnoneornil(L, 3);
  const size_t n = lua_rawlen(L, 1);
  heed_tensor **list = lua_newuserdatauv(L, (n + 1) * sizeof *list, 0);
  slot *s = push_slot(L);
  read_list(L, 1, (int)n, list);
  for (size_t i = 0; i < n; i++) heed_keep(list[i]);
  heed_tensor *norm = scales ? heed_clip_gradients(cx, max, p, (int)n, list)
                             : heed_gradient_norm(cx, p, (int)n, list);
  for (size_t i = 0; i < n; i++) heed_drop(list[i]);
  return fill(L, s, norm);
}


void open_optim (lua_State *L, int internal) {
  static const luaL_Reg steps[] = {{"optim_step", l_optim_step}, {NULL, NULL}};
  static const luaL_Reg clips[] = {{"clip_gradients", l_clip_gradients}, {NULL, NULL}};
  register_as(L, "step", steps, internal);
  register_as(L, "clip_grad_norm", clips, internal);
}
