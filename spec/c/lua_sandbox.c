/*
** lua_sandbox.c - a state that a host opened with options: what a hostile script tries in it
** (spec/c/scripts/hostile.lua) reaches no file and no other script.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

#define SCRIPTS "spec/c/scripts/"
#define LIMIT (1 << 28)

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("sandbox: %s\n", what);
  failed = 1;
}

static void run_text (lua_State *L, const char *text) {
  if (luaL_dostring(L, text) != LUA_OK) check(false, lua_tostring(L, -1));
}

/* Opens heed with the options that the chunk returns; the module, or the message, on top. */
static int open_with (lua_State *L, const char *options) {
  lua_pushcfunction(L, luaopen_heed);
  check(luaL_dostring(L, options) == LUA_OK, options);
  return lua_pcall(L, 1, 1, 0);
}

/* Takes globals away before untrusted scripts run; gives a copy of the globals. */
static const char take_away[] =
  "io, os, debug, dofile, loadfile = nil\n"
  "package.loaded.io, package.loaded.os, package.loaded.debug = nil\n"
  "package.path, package.cpath, package.searchers[3], package.searchers[4] = '', '', nil\n"
  "local own = {}\n"
  "for name, f in pairs(string) do own[name] = f end\n"
  "local strings = getmetatable('')\n"
  "strings.__index, strings.__metatable = own, false\n"
  "local copy = {}\n"
  "for name, f in pairs(_G) do copy[name] = f end\n"
  "return copy\n";


/*
** {==================================================================
** Scripts
** ===================================================================
*/

/* Runs a script with heed and n values from the top; its results stay. */
static void run (lua_State *L, const char *path, int n) {
  int base = lua_gettop(L) - n;
  if (luaL_loadfile(L, path) == LUA_OK) {
    lua_insert(L, base + 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "module");
    lua_insert(L, base + 2);
    if (lua_pcall(L, n + 1, LUA_MULTRET, 0) == LUA_OK) return;
  }
  printf("sandbox: %s\n", lua_tostring(L, -1));
  failed = 1;
  lua_settop(L, base);
}

/* Runs an honest script, which gives three values. */
static void run_honest (lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "globals");
  run(L, SCRIPTS "honest.lua", 1);
}

static void hostile_between_honest (void) {
  char path[] = "/tmp/heed-sandbox-XXXXXX", new[sizeof path + 4];
  int fd = mkstemp(path);
  check(fd >= 0 && write(fd, "secret", 6) == 6 && close(fd) == 0, "cannot write to /tmp");
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  check(luaL_dostring(L, take_away) == LUA_OK, "the host's own script fails");
  lua_setfield(L, LUA_REGISTRYINDEX, "globals");
  check(open_with(L, "return {files = false, limit = 1 << 28, threads = 2}") == LUA_OK,
        lua_tostring(L, -1));
  lua_setfield(L, LUA_REGISTRYINDEX, "module");
  run_honest(L);
  check(lua_gettop(L) == 3, "the honest script does not give three values");
  lua_pushstring(L, path);
  lua_pushinteger(L, LIMIT);
  run(L, SCRIPTS "hostile.lua", 2);
  run_honest(L);
  for (int i = 1; i <= 3; i++)
    check(lua_compare(L, i, i + 3, LUA_OPEQ), "a hostile script has changed what another one sees");
  check(heed_memory_now(heed_lua_context(L)).limit < LIMIT, "the limit was lifted");
  lua_close(L);
  char text[7] = "";
  FILE *file = fopen(path, "r");
  check(file != NULL && fread(text, 1, 7, file) == 6 && strcmp(text, "secret") == 0,
        "a file was written");
  snprintf(new, sizeof new, "%s.new", path);
  check(access(new, F_OK) != 0, "a file was made");
  if (file != NULL) fclose(file);
  unlink(path);
}

/* }================================================================== */


/*
** {==================================================================
** Options
** ===================================================================
*/

static void refused (bool open, const char *options, const char *wanted) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (open) luaL_requiref(L, "heed", luaopen_heed, 1);
  int status = open_with(L, options);
  const char *got = status != LUA_OK ? lua_tostring(L, -1) : "no error";
  if (strstr(got, wanted) == NULL) {
    printf("sandbox: \"%s\" expected, got \"%s\"\n", wanted, got);
    failed = 1;
  }
  lua_close(L);
}

static void odd_options (void) {
  refused(false, "return {file = false}",
          "luaopen_heed: unknown option 'file'; did you mean 'files'?");
  refused(false, "return {files = 0}", "argument 'files': true or false expected, got 0");
  refused(false, "return {limit = 0}", "'limit': a number of bytes above 0 expected, got 0");
  refused(false, "return {threads = 1000}", "a number from 1 to 256 expected, got 1000");
  refused(true, "return {}", "luaopen_heed: the module is open in this state already");
}

/* Opening, once more, by a function of C, which has a message with this in it. */
static void refused_by (lua_State *L, lua_CFunction f, const char *wanted) {
  lua_pushcfunction(L, f);
  check(lua_pcall(L, 0, 0, 0) != LUA_OK && strstr(lua_tostring(L, -1), wanted) != NULL, wanted);
  lua_pop(L, 1);
}

static int push_number (lua_State *L) {
  heed_push(L, NULL);
  return 0;
}

/* States that are not open, or are sealed. */
static void other_openings (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  check(heed_lua_context(L) == NULL, "a context of a state without heed");
  refused_by(L, push_number, "heed: the module is not open in this state");
  lua_close(L);
  L = luaL_newstate();
  luaL_openlibs(L);
  check(open_with(L, "return {}") == LUA_OK, lua_tostring(L, -1));
  refused_by(L, luaopen_heed_core, "heed: this state's scripts cannot reach 'heed.core'");
  check(open_with(L, "return {}") != LUA_OK, "options twice");
  lua_close(L);
}

static const char with_files[] =
  "local path = os.tmpname()\n"
  "local heed = require 'heed'\n"
  "io, os = nil\n"
  "assert(heed == require 'heed' and not pcall(rawset, heed, 'x', 1))\n"
  "assert(heed.save(path, {x = heed.ones(2)}))\n"
  "assert(heed.load(path).x:sum():item() == 2)\n"
  "local model = heed.nn.Linear(1, 1)\n"
  "local x = heed.ones(1, 1)\n"
  "heed.train{model = model, loss = heed.mse_loss, steps = 1, print = false, checkpoint = path,\n"
  "  optimizer = heed.optim.SGD(model:parameters()), batches = function() return x, x end}\n"
  "return path\n";

/* A state without files = false has them, also where its scripts have no 'io'. */
static void sealed_with_files (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  check(open_with(L, "return {}") == LUA_OK, lua_tostring(L, -1));
  luaL_requiref(L, "heed", luaopen_heed, 0);
  check(lua_rawequal(L, -1, -2), "opening again gives another module");
  run_text(L, with_files);
  if (lua_isstring(L, -1)) unlink(lua_tostring(L, -1));
  lua_close(L);
}

/* Scripts see stand-ins of the library's tables. */
static void proxies_stand_for_tables (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  check(open_with(L, "return {}") == LUA_OK, lua_tostring(L, -1));
  lua_setfield(L, LUA_REGISTRYINDEX, "module");
  run(L, SCRIPTS "proxies.lua", 0);
  check(lua_gettop(L) == 0, "what opening leaves on the stack");
  lua_close(L);
}

/* Opens models before untrusted scripts run. */
static const char open_models[] =
  "local heed = require 'heed'\n"
  "local folder = 'spec/golden/models/'\n"
  "ranker = assert(heed.models.load(folder .. 'st/cross_encoder', {mapped = true}))\n"
  "writer = assert(heed.models.load(folder .. 'llama3'))\n"
  "words = assert(heed.tokenizer.load(folder .. 'llama3'))\n"
  "index = heed.search.index{dim = 2}:add({1, 2}, heed.eye(2))\n"
  "io, os, debug, dofile, loadfile = nil\n";

static const char use_models[] =
  "local heed = require 'heed'\n"
  "assert(ranker:score('a question', {'a text', 'another'}):size(1) == 2)\n"
  "assert(#writer:generate('the', {max = 3}) > 0 and #words:encode('the') > 0)\n"
  "assert(index:query(heed.tensor{1.0, 0.0}, 1))\n"
  "local folder = 'spec/golden/models/'\n"
  "for name, f in pairs{\n"
  "  load = function() return heed.models.load(folder .. 'llama3') end,\n"
  "  again = function() return heed.models.load(folder .. 'qwen2', {mapped = true}) end,\n"
  "  gguf = function() return heed.models.load 'spec/golden/gguf/llama.gguf' end,\n"
  "  save = function() return heed.models.save('/tmp/heed-model', writer) end,\n"
  "  adapters = function() return heed.models.load_adapters(folder .. 'adapters', writer) end,\n"
  "  words = function() return heed.tokenizer.load(folder .. 'llama3') end,\n"
  "  tensors = function() return heed.load(folder .. 'llama3/model.safetensors') end,\n"
  "  store = function() return heed.save('/tmp/heed-model', {x = heed.ones(1)}) end,\n"
  "  index = function() return index:save '/tmp/heed-model' end,\n"
  "  picture = function() return heed.plot.curve{1, 2}:save '/tmp/heed-model.svg' end,\n"
  "} do\n"
  "  local good, why, more = pcall(f)\n"
  "  local message = tostring(good and more or why)\n"
  "  assert(not (good and why) and message:find('has taken files', 1, true), name .. message)\n"
  "end\n";

/* A host leaves models to scripts that can open no others. */
static void models_without_files (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  heed_lua_close_files(L);                 /* no module: nothing */
  check(open_with(L, "return {}") == LUA_OK, lua_tostring(L, -1));
  run_text(L, open_models);
  const int top = lua_gettop(L);
  heed_lua_close_files(L);
  check(lua_gettop(L) == top, "closing files leaves something on the stack");
  run_text(L, use_models);
  lua_close(L);
}

/* }================================================================== */


int main (void) {
#ifdef __SANITIZE_THREAD__
  puts("sandbox: skipped, since ThreadSanitizer keeps the frames that Lua's errors leave");
  puts("0 passed, 0 failed, 1 skipped");
  return 0;
#endif
  hostile_between_honest();
  odd_options();
  other_openings();
  sealed_with_files();
  proxies_stand_for_tables();
  models_without_files();
  if (!failed) puts("sandbox: no file and no other script was reached");
  return failed;
}
