/*
** lua_tokenizer.c - tokenizers: what lua/heed/tokenizer.lua is built on.
*/

#include "heed_text.h"
#include "lua_heed.h"

static const char tokenizer_key = 0, stream_key = 0;   /* name metatables in the registry */

typedef struct owner { heed_tokenizer *t; } owner;


static bool is_of (lua_State *L, int i, const void *key) {
  bool is = false;
  if (lua_getmetatable(L, i)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  return is;
}


static owner *owner_at (lua_State *L, int i) {
  return is_of(L, i, &tokenizer_key) ? lua_touserdata(L, i) : NULL;
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


/* The parts where special tokens are found, of Lua's: the first byte and the last. */
static void read_parts (lua_State *L, int i, size_t n, heed_tokenizing *how) {
  size_t bytes;
  const int64_t *given = raw_bytes(L, i, &bytes);
  if (given == NULL || lua_type(L, i) == LUA_TSTRING || bytes % (2 * sizeof *given) != 0)
    raise_wrong(L, "parse", "a dense int64 tensor of shape (N, 2) on the CPU", i);
  int64_t *at = lua_newuserdatauv(L, bytes + 1, 0), last = 0;
  how->nparts = (int64_t)(bytes / (2 * sizeof *given));
  for (int64_t k = 0; k < how->nparts; k++) {
    at[2 * k] = given[2 * k] - 1;
    at[2 * k + 1] = given[2 * k + 1];
    if (at[2 * k] < last || at[2 * k + 1] < at[2 * k] || at[2 * k + 1] > (int64_t)n)
      raise_wrong(L, "parse", "first and last bytes of parts of the text, in order", i);
    last = at[2 * k + 1];
  }
  how->parts = at;
}


/* encode(tokenizer, text, pair or nil, special, parse, most): ids, offsets for Lua: the first byte
   and the last; and types; parse may be parts of the text, as offsets are */
static int l_encode (lua_State *L) {
  size_t n, npair = 0;
  heed_context *cx = enter(L)->cx;
  lua_settop(L, 6);
  heed_tokenizer *t = check_tokenizer(L);
  const char *text = luaL_checklstring(L, 2, &n);
  const char *pair = lua_isnil(L, 3) ? NULL : luaL_checklstring(L, 3, &npair);
  heed_tokenizing how = {.special = lua_toboolean(L, 4), .most = luaL_optinteger(L, 6, 0)};
  if (lua_type(L, 5) == LUA_TUSERDATA) read_parts(L, 5, n, &how);
  else how.parse = lua_toboolean(L, 5);
  cell *ids = push_cell(L), *offsets = push_cell(L), *types = push_cell(L);
  heed_tokens tokens;
  named(L);
  bool good = heed_tokenize(t, text, n, pair, npair, &how, &tokens);
  if (good) {
    ids->t = tensor_of(cx, 1, tokens.n, tokens.ids);
    offsets->t = offsets_of(L, cx, &tokens);
    types->t = tensor_of(cx, 1, tokens.n, tokens.types);
    good = ids->t != NULL && offsets->t != NULL && types->t != NULL;
  }
  done(L, good);
  return 3;
}


/* token(tokenizer, id): its name, or nil */
static int l_token (lua_State *L) {
  size_t n = 0;
  enter(L);
  const heed_tokenizer *t = check_tokenizer(L);
  const char *name = heed_token_name(t, check_integer(L, 2, "id"), &n);
  if (name != NULL) lua_pushlstring(L, name, n);
  else lua_pushnil(L);
  return 1;
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


/* unknown(tokenizer): the id of what has no token, or nil */
static int l_unknown (lua_State *L) {
  enter(L);
  int64_t id = heed_token_unknown(check_tokenizer(L));
  if (id > 0) lua_pushinteger(L, id);
  else lua_pushnil(L);
  return 1;
}


static int l_count (lua_State *L) {
  enter(L);
  lua_pushinteger(L, heed_token_count(check_tokenizer(L)));
  return 1;
}


static int push_text (lua_State *L, bool good, const heed_text *text) {
  done(L, good);
  lua_pushlstring(L, text->at, text->n);
  return 1;
}


/* decode(tokenizer, ids, special): the text of an int64 tensor's tokens */
static int l_decode (lua_State *L) {
  enter(L);
  heed_tokenizer *t = check_tokenizer(L);
  size_t bytes;
  const int64_t *ids = raw_bytes(L, 2, &bytes);
  heed_text text = {"", 0};
  if (ids == NULL || lua_type(L, 2) == LUA_TSTRING)
    raise_wrong(L, "ids", "a dense int64 tensor on the CPU", 2);
  named(L);
  int64_t n = (int64_t)(bytes / sizeof *ids);
  return push_text(L, heed_detokenize(t, ids, n, lua_toboolean(L, 3), &text), &text);
}


/* stream(special): what push and finish go on with */
static int l_stream (lua_State *L) {
  enter(L);
  heed_stream *s = lua_newuserdatauv(L, sizeof *s, 0);
  *s = (heed_stream){.special = lua_toboolean(L, 1)};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &stream_key);
  lua_setmetatable(L, -2);
  return 1;
}


static heed_stream *check_stream (lua_State *L) {
  heed_stream *s = is_of(L, 2, &stream_key) ? lua_touserdata(L, 2) : NULL;
  if (s == NULL) raise(L, "a stream expected, got %s", describe(L, 2));
  return s;
}


/* push(tokenizer, stream, id): text */
static int l_push (lua_State *L) {
  enter(L);
  heed_tokenizer *t = check_tokenizer(L);
  heed_stream *s = check_stream(L);
  int64_t id = check_integer(L, 3, "id");
  heed_text text = {"", 0};
  named(L);
  return push_text(L, heed_stream_push(t, s, id, &text), &text);
}


/* finish(tokenizer, stream): text */
static int l_finish (lua_State *L) {
  enter(L);
  heed_tokenizer *t = check_tokenizer(L);
  heed_stream *s = check_stream(L);
  heed_text text = {"", 0};
  named(L);
  return push_text(L, heed_stream_finish(t, s, &text), &text);
}


void open_tokenizer (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"count", l_count}, {"decode", l_decode}, {"encode", l_encode}, {"find", l_find},
    {"finish", l_finish}, {"push", l_push}, {"read", l_read}, {"stream", l_stream},
    {"token", l_token}, {"unknown", l_unknown}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {{"__gc", l_drop}, {NULL, NULL}}, none[] = {{NULL, NULL}};
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, internal, "text");
  register_metatable(L, own, &tokenizer_key);
  register_metatable(L, none, &stream_key);
}
