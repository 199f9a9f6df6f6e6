/*
** lua_bytes.c - what the Lua half needs of the machine and that touches no file: checksums, a
** clock, whether a stream is a terminal.
*/

#include <time.h>
#include <unistd.h>

#include "lua_heed.h"


/*
** {==================================================================
** CRC-32 of ISO 3309, as zlib and PNG have it
** ===================================================================
*/

#define SLICE 8                        /* bytes at a time, with a table for each */

/* table[k][b]: what byte b does to the sum, k bytes later */
static void make_tables (uint32_t table[SLICE][256]) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t sum = b;
    for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    table[0][b] = sum;
  }
  for (int k = 1; k < SLICE; k++)
    for (int b = 0; b < 256; b++)
      table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}


static uint32_t low_word (const unsigned char *s) {
  return s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
}


/* The tables are made for each call, in the time that 4 KiB take: they are no globals to guard. */
uint32_t crc32_of (uint32_t before, const void *data, size_t n) {
  uint32_t t[SLICE][256], sum = ~before;
  const unsigned char *s = data;
  make_tables(t);
  for (; n >= SLICE; n -= SLICE, s += SLICE) {
    uint32_t a = sum ^ low_word(s), b = low_word(s + 4);
    sum = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^
          t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
  }
  for (; n > 0; n--, s++) sum = sum >> 8 ^ t[0][(sum ^ *s) & 255];
  return ~sum;
}


const void *raw_bytes (lua_State *L, int i, size_t *n) {
  if (lua_type(L, i) == LUA_TSTRING) return lua_tolstring(L, i, n);
  heed_tensor *t = raw_tensor(L, i);
  if (t == NULL || !heed_contiguous(t)) return NULL;
  *n = heed_type_bytes(heed_type_of(t), heed_numel(t));
  const void *data = heed_data(t);
  if (data == NULL && *n > 0) done(L, heed_error(binding_of(L)->cx) == NULL);
  return data == NULL && *n == 0 ? "" : data;
}


/* crc32(bytes or tensor[, before]) */
static int l_crc32 (lua_State *L) {
  size_t n;
  enter(L);
  uint32_t sum = (uint32_t)luaL_optinteger(L, 2, 0);
  const char *data = raw_bytes(L, 1, &n);
  if (data == NULL) raise_wrong(L, "bytes", "a string or a dense tensor on the CPU", 1);
  for (size_t at = 0; at < n; at += POLLED_BYTES) {
    if (at > 0) done(L, !heed_interrupted(named(L)));
    sum = crc32_of(sum, data + at, n - at < POLLED_BYTES ? n - at : POLLED_BYTES);
  }
  lua_pushinteger(L, (lua_Integer)sum);
  return 1;
}

/* }================================================================== */


static int l_isatty (lua_State *L) {
  at_most(L, 1);
  int64_t descriptor = lua_isnoneornil(L, 1) ? 1 : check_integer(L, 1, "descriptor");
  lua_pushboolean(L, descriptor == (int)descriptor && isatty((int)descriptor));
  return 1;
}


/* clock(): seconds of a clock that only goes forward */
static int l_clock (lua_State *L) {
  at_most(L, 0);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec * 1e-9);
  return 1;
}


void open_bytes (lua_State *L, int module, int internal) {
  static const luaL_Reg functions[] = {{"clock", l_clock}, {"isatty", l_isatty}, {NULL, NULL}};
  static const luaL_Reg sums[] = {{"crc32", l_crc32}, {NULL, NULL}};
  register_functions(L, functions, module);
  register_functions(L, sums, internal);
}
