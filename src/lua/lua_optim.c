/*
** lua_optim.c - one optimiser step for all parameters, in one call.
*/

#include <string.h>

#include "lua_heed.h"

static double number_field (lua_State *L, const char *name, double otherwise) {
  lua_getfield(L, 5, name);
  double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return value;
}

static bool flag_field (lua_State *L, const char *name) {
  lua_getfield(L, 5, name);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

static void read_step (lua_State *L, heed_step *step) {
  memset(step, 0, sizeof *step);
  step->lr = number_field(L, "lr", 0);
  step->momentum = number_field(L, "momentum", 0);
  step->dampening = number_field(L, "dampening", 0);
  step->weight_decay = number_field(L, "weight_decay", 0);
  step->eps = number_field(L, "eps", 1e-8);
  step->step = (int64_t)number_field(L, "step", 1);
  step->nesterov = flag_field(L, "nesterov");
  step->amsgrad = flag_field(L, "amsgrad");
  step->maximize = flag_field(L, "maximize");
  lua_getfield(L, 5, "betas");
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    step->beta1 = lua_tonumber(L, -2);
    step->beta2 = lua_tonumber(L, -1);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
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

/* optim_step(kind, parameters, gradients, states, options): states is a list of lists */
static int l_optim_step (lua_State *L) {
  static const char *const kinds[] = {"sgd", "adam", "adamw", NULL};
  binding *b = enter(L);
  heed_step step;
  heed_optimizer kind = (heed_optimizer)luaL_checkoption(L, 1, NULL, kinds);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 2), nstates = (int)lua_rawlen(L, 4);
  if (nstates > 3) return raise(L, "optim_step: at most 3 states expected, got %d", nstates);
  heed_tensor **room = lua_newuserdatauv(L, (size_t)(5 * n + 1) * sizeof *room, 0);
  heed_tensor *const *states[3] = {NULL, NULL, NULL};
  read_step(L, &step);
  read_list(L, 2, n, room);
  read_list(L, 3, n, room + n);
  for (int s = 0; s < nstates; s++) {
    lua_rawgeti(L, 4, s + 1);
    read_list(L, lua_gettop(L), n, room + (2 + s) * n);
    lua_pop(L, 1);
    states[s] = room + (2 + s) * n;
  }
  if (!heed_optimize(b->cx, kind, &step, n, room, room + n, states)) return raise_failure(L);
  return 0;
}

void open_optim (lua_State *L, int module) {
  static const luaL_Reg functions[] = {{"optim_step", l_optim_step}, {NULL, NULL}};
  register_functions(L, functions, module);
}
