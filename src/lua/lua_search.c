/*
** lua_search.c - search among vectors: what lua/heed/search.lua is built on.
*/

#include "heed_search.h"
#include "lua_heed.h"

static const char *const kinds[] = {"float32", "int8", "bits", NULL};


static int64_t width_of (heed_rows_kind kind, int64_t dim) {
  switch (kind) {
    case HEED_ROWS_FLOAT32: return dim * (int64_t)sizeof (float);
    case HEED_ROWS_INT8: return dim;
    case HEED_ROWS_BITS: return (dim + 63) / 64 * 8;
  }
  return 0;
}


/* The tensor at i, of at least n elements of 'size' bytes. */
static const void *check_bytes (lua_State *L, int i, int64_t n, int64_t size, const char *what) {
  size_t bytes = 0;
  const void *data = lua_type(L, i) == LUA_TSTRING ? NULL : raw_bytes(L, i, &bytes);
  if (data == NULL || n < 0 || size < 1 || bytes / (size_t)size < (size_t)n)
    raise_wrong(L, what, "a dense tensor on the CPU that is large enough", i);
  return data;
}


/* n rows at i, and what they are multiplied by at i + 1, or nil. */
static heed_rows check_rows (lua_State *L, int i, heed_rows_kind kind, int64_t n, int64_t dim) {
  heed_rows rows = {.kind = kind, .n = n, .dim = dim, .width = width_of(kind, dim)};
  rows.data = check_bytes(L, i, n, rows.width, "rows");
  if (!lua_isnil(L, i + 1)) rows.scale = check_bytes(L, i + 1, n, sizeof (float), "scales");
  return rows;
}


/* nearest(kind, dim, k, n, rows, scales or nil, nq, queries, scales or nil, exact or nil,
   positions, scores): fills the last two (nq, k), positions from 1 */
static int l_nearest (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  lua_settop(L, 12);
  heed_rows_kind kind = (heed_rows_kind)luaL_checkoption(L, 1, NULL, kinds);
  int64_t dim = check_integer(L, 2, "dim"), k = check_integer(L, 3, "k");
  int64_t n = check_integer(L, 4, "n");
  if (dim < 1 || dim > 1 << 16) raise(L, "from 1 to 65536 numbers of a row expected");
  if (k < 0 || k > n) raise(L, "at most as many as there are rows expected");
  heed_rows rows = check_rows(L, 5, kind, n, dim);
  heed_rows queries = check_rows(L, 8, kind, check_integer(L, 7, "n"), dim);
  const float *exact = lua_isnil(L, 10) ? NULL :
                       check_bytes(L, 10, queries.n, dim * (int64_t)sizeof (float), "queries");
  int64_t many = 0;
  if (__builtin_mul_overflow(queries.n, k, &many)) raise(L, "fewer results expected");
  int64_t *positions = (int64_t *)check_bytes(L, 11, many, sizeof *positions, "positions");
  float *scores = (float *)check_bytes(L, 12, many, sizeof *scores, "scores");
  named(L);
  done(L, heed_nearest(cx, &rows, &queries, exact, k, positions, scores));
  for (int64_t i = 0; i < many; i++) positions[i]++;
  return 0;
}


/* bytes(string): a uint8 tensor; bytes(tensor): its bytes as a string */
static int l_bytes (lua_State *L) {
  size_t n = 0;
  heed_context *cx = enter(L)->cx;
  const char *data = raw_bytes(L, 1, &n);
  if (data == NULL) raise_wrong(L, "bytes", "a string or a dense tensor on the CPU", 1);
  if (lua_type(L, 1) != LUA_TSTRING) {
    lua_pushlstring(L, data, n);
    return 1;
  }
  const int64_t size = (int64_t)n;
  return fill(L, push_cell(L), heed_from(cx, HEED_UINT8, 1, &size, data));
}


void open_search (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {{"bytes", l_bytes}, {"nearest", l_nearest}, {NULL, NULL}};
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, internal, "vectors");
}
