/*
** lua_header.c - a header of safetensors takes Lua at most four times its bytes, whatever stands in
** it: Lua's allocator counts.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

enum { TIMES = 4 };

/* Bytes that Lua has, and the most that it had. */
typedef struct counted {
  size_t bytes, most;
} counted;

static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  counted *c = self;
  void *grown = NULL;
  if (new_size > 0 && (grown = realloc(block, new_size)) == NULL) return NULL;
  if (new_size == 0) free(block);
  c->bytes += new_size - (block != NULL ? old_size : 0);
  if (c->bytes > c->most) c->most = c->bytes;
  return grown;
}

/* Writes a header of some 1.6 MB; returns its bytes. */
static const char maker[] =
  "local path, what = ...\n"
  "local N, list = 1600000, {}\n"
  "local entry = '\"%s%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]%s}'\n"
  "local function one(more) return '{' .. entry:format('t', 1, 0, 1, more) .. '}' end\n"
  "local made = {\n"
  "  lists = function() return one(',\"x\":[' .. ('[],'):rep(N // 3) .. '[]]') end,\n"
  "  objects = function() return one(',\"x\":[' .. ('{},'):rep(N // 3) .. '{}]') end,\n"
  "  sizes = function() return (one(''):gsub('%[1%]', '[' .. ('1,'):rep(N // 2) .. '1]')) end,\n"
  "  nested = function()\n"
  "    return (one(''):gsub('%[1%]', '[[' .. ('1,'):rep(N // 2) .. '1]]'))\n"
  "  end,\n"
  "  escapes = function() return '{\"' .. ('\\\\n'):rep(N // 2) .. '\":1}' end,\n"
  "  metadata = function()\n"
  "    for i = 1, 70000 do list[i] = ('\"metadata %d\":\"%d\"'):format(i, i) end\n"
  "    return '{\"__metadata__\":{' .. table.concat(list, ',') .. '}}'\n"
  "  end,\n"
  "  tensors = function()\n"
  "    for i = 1, N // 110 do\n"
  "      list[i] = entry:format(('layer.'):rep(9), i, i, i + 1, '')\n"
  "    end\n"
  "    return '{' .. table.concat(list, ',') .. '}'\n"
  "  end,\n"
  "}\n"
  "local text, file = made[what](), assert(io.open(path, 'wb'))\n"
  "file:write(string.pack('<I8', #text), text, 'x'):close()\n"
  "return #text\n";

static const char reader[] =
  "local heed, path = require 'heed', ...\n"
  "local loaded, why = heed.load(path)\n"
  "return loaded and 'loaded' or why\n";

static char path[] = "/tmp/heed-header-XXXXXX.safetensors";

static lua_State *open_state (counted *c) {
  lua_State *L = lua_newstate(resize, c);
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_pop(L, 1);
  return L;
}

static size_t make (const char *what) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  bool good = luaL_loadstring(L, maker) == LUA_OK;
  lua_pushstring(L, path);
  lua_pushstring(L, what);
  good = good && lua_pcall(L, 2, 1, 0) == LUA_OK;
  if (!good) printf("header: %s\n", lua_tostring(L, -1));
  size_t bytes = good ? (size_t)lua_tointeger(L, -1) : 0;
  lua_close(L);
  return bytes;
}

/* Did the load end as it should, with so much memory? */
static bool read_within (const char *what, const char *wanted) {
  counted c = {0, 0};
  const size_t bytes = make(what);
  lua_State *L = open_state(&c);
  luaL_loadstring(L, reader);
  lua_pushvalue(L, -1);
  lua_pushliteral(L, "/none.safetensors");       /* loads the modules */
  lua_pcall(L, 1, 0, 0);
  lua_pushstring(L, path);
  lua_gc(L, LUA_GCCOLLECT);
  const size_t before = c.most = c.bytes;
  lua_pcall(L, 1, 1, 0);
  const char *got = lua_tostring(L, -1);
  bool good = bytes > 0 && got != NULL && strstr(got, wanted) != NULL &&
              c.most - before <= TIMES * bytes;
  if (!good) printf("header: %s: %zu bytes for %zu, %s\n", what, c.most - before, bytes,
                    got != NULL ? got : "nothing");
  lua_close(L);
  return good;
}

int main (void) {
  static const char *const cases[][2] = {
    {"lists", "loaded"}, {"objects", "loaded"}, {"sizes", "has rank 800001"},
    {"nested", "has the size a list"},
    {"escapes", "no dtype"}, {"metadata", "at most 16386 entries"},
    {"tensors", "expected to begin at 0"}
  };
  bool good = true;
  int fd = mkstemps(path, 12);
  if (fd >= 0) close(fd);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    good = read_within(cases[i][0], cases[i][1]) && good;
  unlink(path);
  printf("header: %s\n", good ? "no header takes five times its bytes" : "wrong");
  return good ? 0 : 1;
}
