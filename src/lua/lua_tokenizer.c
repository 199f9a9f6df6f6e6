/*
** lua_tokenizer.c - tokenizers: what lua/heed/tokenizer.lua is built on.
*/

#include "heed_text.h"
#include "lua_heed.h"

static const char tokenizer_key = 0;   /* its address names the metatable in the registry */

typedef struct owner { heed_tokenizer *t; } owner;


static owner *owner_at (lua_State *L, int i) {
  bool is = false;
  if (lua_getmetatable(L, i)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &tokenizer_key);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  return is ? lua_touserdata(L, i) : NULL;
}


static heed_tokenizer *check_tokenizer (lua_State *L) {
  owner *o = owner_at(L, 1);
  if (o == NULL || o->t == NULL) raise(L, "a tokenizer expected, got %s", describe(L, 1));
  return o->t;
}


/* After the context nothing is left to free. */
static int l_drop (lua_State *L) {
  owner *o = owner_at(L, 1);
  if (o != NULL && binding_of(L)->cx != NULL) heed_tokenizer_drop(o->t);
  if (o != NULL) o->t = NULL;
  return 0;
}


/* read(json): a tokenizer, or nil and why not */
static int l_read (lua_State *L) {
  size_t n;
  heed_context *cx = enter(L)->cx;
  const char *text = luaL_checklstring(L, 1, &n);
  owner *o = lua_newuserdatauv(L, sizeof *o, 0);
  o->t = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &tokenizer_key);
  lua_setmetatable(L, -2);
  o->t = heed_tokenizer_read(cx, text, n);
  if (o->t != NULL) return 1;
  lua_pushnil(L);
  lua_pushstring(L, heed_error(cx));
  heed_clear(cx);
  return 2;
}


static heed_tensor *tensor_of (heed_context *cx, int rank, int64_t n, const int64_t *data) {
  const int64_t size[2] = {n, 2};
  return heed_from(cx, HEED_INT64, rank, size, data);
}


/* The first byte and the last of each token, for Lua. */
static heed_tensor *offsets_of (lua_State *L, heed_context *cx, const heed_tokens *tokens) {
  int64_t *at = lua_newuserdatauv(L, 2 * (size_t)tokens->n * sizeof *at + 1, 0);
  for (int64_t i = 0; i < 2 * tokens->n; i++) at[i] = tokens->offsets[i] + (i % 2 == 0);
  heed_tensor *t = tensor_of(cx, 2, tokens->n, at);
  lua_pop(L, 1);
  return t;
}


/* encode(tokenizer, text, pair or nil, special, parse, most): ids, and offsets for Lua: the first
   byte and the last */
static int l_encode (lua_State *L) {
  size_t n, npair = 0;
  heed_context *cx = enter(L)->cx;
  lua_settop(L, 6);
  heed_tokenizer *t = check_tokenizer(L);
  const char *text = luaL_checklstring(L, 2, &n);
  const char *pair = lua_isnil(L, 3) ? NULL : luaL_checklstring(L, 3, &npair);
  heed_tokenizing how = {lua_toboolean(L, 4), lua_toboolean(L, 5), luaL_optinteger(L, 6, 0)};
  cell *ids = push_cell(L), *offsets = push_cell(L);
  heed_tokens tokens;
  named(L);
  bool good = heed_tokenize(t, text, n, pair, npair, &how, &tokens);
  if (good) {
    ids->t = tensor_of(cx, 1, tokens.n, tokens.ids);
    offsets->t = offsets_of(L, cx, &tokens);
    good = ids->t != NULL && offsets->t != NULL;
  }
  done(L, good);
  return 2;
}


/* bytes(tokenizer, id): what it stands for, its name, whether it is special; nothing: no token */
static int l_token (lua_State *L) {
  size_t n;
  enter(L);
  const heed_tokenizer *t = check_tokenizer(L);
  int64_t id = check_integer(L, 2, "id");
  const char *text = heed_token_bytes(t, id, &n);
  if (text == NULL) return 0;
  lua_pushlstring(L, text, n);
  text = heed_token_name(t, id, &n);
  lua_pushlstring(L, text, n);
  lua_pushboolean(L, heed_token_is_special(t, id));
  return 3;
}


/* find(tokenizer, name): its id, or nil */
static int l_find (lua_State *L) {
  size_t n;
  enter(L);
  const heed_tokenizer *t = check_tokenizer(L);
  const char *name = luaL_checklstring(L, 2, &n);
  int64_t id = heed_token_id(t, name, n);
  if (id > 0) lua_pushinteger(L, id);
  else lua_pushnil(L);
  return 1;
}


static int l_count (lua_State *L) {
  enter(L);
  lua_pushinteger(L, heed_token_count(check_tokenizer(L)));
  return 1;
}


/* decode(tokenizer, ids, special): the bytes of an int64 tensor's tokens */
static int l_decode (lua_State *L) {
  enter(L);
  const heed_tokenizer *t = check_tokenizer(L);
  size_t bytes, n;
  const int64_t *id = raw_bytes(L, 2, &bytes);
  bool special = lua_toboolean(L, 3);
  luaL_Buffer buffer;
  if (id == NULL || lua_type(L, 2) == LUA_TSTRING)
    raise_wrong(L, "ids", "a dense int64 tensor on the CPU", 2);
  luaL_buffinit(L, &buffer);
  for (size_t i = 0; i < bytes / sizeof *id; i++) {
    const char *text = heed_token_bytes(t, id[i], &n);
    if (text == NULL)
      raise(L, "ids from 1 to %I expected, got %I at position %I", heed_token_count(t), id[i],
            (LUAI_UACINT)i + 1);
    if (special || !heed_token_is_special(t, id[i])) luaL_addlstring(&buffer, text, n);
    poll(L, (int64_t)i);
  }
  luaL_pushresult(&buffer);
  return 1;
}


void open_tokenizer (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"count", l_count}, {"decode", l_decode}, {"encode", l_encode}, {"find", l_find},
    {"read", l_read}, {"token", l_token}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {{"__gc", l_drop}, {NULL, NULL}};
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, internal, "text");
  register_metatable(L, own, &tokenizer_key);
}
