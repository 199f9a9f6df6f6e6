/*
** third.c - a C module of somebody else's, which takes tensors and is not linked against heed.
*/

#include "heed_api.h"

/* The mean of a tensor's squares, with its gradient. */
static int l_mean_square (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_value x = heed_t(heed->check(L, 1));
  heed_context *cx = heed->context(L);
  heed_tensor *squares = heed->call(cx, "square", &x, 1);
  heed_value y = heed_t(squares);
  heed_tensor *mean = heed->call(cx, "mean", &y, 1);
  heed->drop(squares);
  if (mean == NULL) return heed->raise(L);
  heed->push(L, mean);
  return 1;
}

/* call(name, t): an operation by its name, which may be none */
static int l_call (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_tensor *out[HEED_RESULTS];
  const char *name = luaL_checkstring(L, 1);
  heed_value x = heed_t(heed->check(L, 2));
  int n = heed->apply(heed->context(L), name, &x, 1, out);
  if (n == 0) return heed->raise(L);
  for (int i = 1; i < n; i++) heed->drop(out[i]);
  heed->push(L, out[0]);
  return 1;
}

/* change(name, t): t, which an operation in place has changed */
static int l_change (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_value x = heed_t(heed->check(L, 2));
  lua_settop(L, 2);
  if (!heed->apply_in_place(heed->context(L), luaL_checkstring(L, 1), &x, 1))
    return heed->raise(L);
  return 1;
}

/* The sum of a float32 matrix, read where it lies. */
static int l_sum (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_tensor *t = heed->check(L, 1);
  luaL_argcheck(L, heed->type_of(t) == HEED_FLOAT32 && heed->rank(t) == 2, 1, "a float32 matrix");
  const float *data = heed->data(t);
  double sum = 0;
  for (int64_t i = 0; i < heed->size_of(t, 0); i++)
    for (int64_t j = 0; j < heed->size_of(t, 1); j++)
      sum += data[i * heed->stride(t, 0) + j * heed->stride(t, 1)];
  lua_pushnumber(L, sum);
  return 1;
}

static void give_back (void *self, void *data) {
  (void)data;
  *(int *)self += 1;
}

/* lend(): a tensor over memory of the module's; given_back(): how often it was let go */
static int l_lend (lua_State *L) {
  static float samples[3] = {1, 2, 3};
  const heed_api_table *heed = heed_api(L);
  const int64_t n = 3;
  int *count = lua_touserdata(L, lua_upvalueindex(1));
  heed->push(L, heed->lend(heed->context(L), HEED_FLOAT32, 1, &n, samples, give_back, count));
  return 1;
}

static int l_given_back (lua_State *L) {
  lua_pushinteger(L, *(int *)lua_touserdata(L, lua_upvalueindex(1)));
  return 1;
}

static int try_api (lua_State *L) {
  heed_api(L);
  return 0;
}

/* other(version, size): what 'heed_api' says of such a table */
static int l_other (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_api_table other = *heed;
  other.version = (int)luaL_checkinteger(L, 1);
  other.size = (size_t)luaL_checkinteger(L, 2);
  lua_pushlightuserdata(L, &other);
  lua_setfield(L, LUA_REGISTRYINDEX, HEED_API_KEY);
  lua_pushcfunction(L, try_api);
  int status = lua_pcall(L, 0, 1, 0);
  lua_pushlightuserdata(L, (void *)(uintptr_t)heed);
  lua_setfield(L, LUA_REGISTRYINDEX, HEED_API_KEY);
  return status != LUA_OK;
}

HEED_API int luaopen_third (lua_State *L);

int luaopen_third (lua_State *L) {
  static const luaL_Reg functions[] = {
    {"call", l_call}, {"change", l_change}, {"given_back", l_given_back}, {"lend", l_lend},
    {"mean_square", l_mean_square}, {"other", l_other}, {"sum", l_sum}, {NULL, NULL}
  };
  heed_api(L);                     /* raises at once where there is none */
  luaL_newlibtable(L, functions);
  *(int *)lua_newuserdatauv(L, sizeof(int), 0) = 0;
  luaL_setfuncs(L, functions, 1);
  return 1;
}
