/*
** lua_tokenizer.c - tokenizers: what lua/heed/tokenizer.lua is built on.
*/

#include "heed_text.h"
#include "lua_heed.h"

#include <string.h>

static const char tokenizer_key = 0, stream_key = 0, trainer_key = 0;     /* of metatables */

typedef struct owner {
  heed_tokenizer *t;
  uint64_t calls;                  /* of functions that write its result */
} owner;


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


static owner *check_owner (lua_State *L) {
  owner *o = owner_at(L, 1);
  if (o == NULL || o->t == NULL) raise(L, "a tokenizer expected, got %s", describe(L, 1));
  return o;
}

static heed_tokenizer *check_tokenizer (lua_State *L) { return check_owner(L)->t; }


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
  *o = (owner){NULL, 0};
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


/*
** The text's tokens in memory of their own, a userdata: to make room for it can run finalizers,
** which may call the tokenizer, whose result they change. Then the text is read once more. Types
** and offsets are copied where they are wanted.
*/
static bool tokenize (lua_State *L, owner *o, const heed_text text[2], const heed_tokenizing *how,
                      bool offsets, bool types, heed_tokens *own) {
  heed_tokens all;
  int64_t room = -1, *at = NULL;
  const size_t each = 1 + (types ? 1 : 0) + (offsets ? 2 : 0);
  uint64_t call;
  do {
    call = ++o->calls;
    if (!heed_tokenize(o->t, text[0].at, text[0].n, text[1].at, text[1].n, how, &all)) return false;
    if (all.n > room) {
      if (at != NULL) lua_pop(L, 1);
      room = all.n;
      at = lua_newuserdatauv(L, each * (size_t)room * sizeof *at + 1, 0);
    }
  } while (o->calls != call);
  size_t bytes = (size_t)all.n * sizeof *at;
  int64_t *places = at + (types ? 2 : 1) * all.n;
  *own = (heed_tokens){.n = all.n, .ids = at, .types = at + all.n, .offsets = places};
  if (all.n == 0) return true;
  memcpy(at, all.ids, bytes);
  if (types) memcpy(at + all.n, all.types, bytes);
  for (int64_t i = 0; offsets && i < 2 * all.n; i++) {
    places[i] = all.offsets[i] + (i % 2 == 0);     /* the first byte and the last, for Lua */
    if ((i & 0xffff) == 0xffff && heed_interrupted(binding_of(L)->cx)) return false;
  }
  return true;
}


/* The parts where special tokens are found, of Lua's: the first byte and the last. */
static void read_parts (lua_State *L, int i, size_t n, heed_tokenizing *how) {
  size_t bytes;
  const int64_t *given = raw_bytes(L, i, &bytes);
  if (given == NULL || lua_type(L, i) == LUA_TSTRING || bytes % (2 * sizeof *given) != 0)
    raise_wrong(L, "parse", "a dense int64 tensor of shape (N, 2) on the CPU", i);
  int64_t *at = lua_newuserdatauv(L, bytes + 1, 0), last = 0;
  size_t now;
  given = raw_bytes(L, i, &now);               /* finalizers may have given it other memory */
  if (given == NULL || now != bytes) raise(L, "argument 'parse' was changed meanwhile");
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


/* encode(tokenizer, text, pair or nil, special, parse, most, whether offsets, whether types,
   whether the first ids go): ids; offsets for Lua, the first byte and the last; types: nil where
   they are not asked for. 'parse' may be parts of the text, as offsets are */
static int l_encode (lua_State *L) {
  heed_text text[2] = {{NULL, 0}, {NULL, 0}};
  heed_context *cx = enter(L)->cx;
  lua_settop(L, 9);
  owner *o = check_owner(L);
  text[0].at = luaL_checklstring(L, 2, &text[0].n);
  if (!lua_isnil(L, 3)) text[1].at = luaL_checklstring(L, 3, &text[1].n);
  heed_tokenizing how = {.special = lua_toboolean(L, 4), .most = luaL_optinteger(L, 6, 0),
                         .left = lua_toboolean(L, 9)};
  if (lua_type(L, 5) == LUA_TUSERDATA) read_parts(L, 5, text[0].n, &how);
  else how.parse = lua_toboolean(L, 5);
  bool offsets = lua_toboolean(L, 7), types = lua_toboolean(L, 8);
  heed_tokens tokens = {0};
  named(L);
  done(L, tokenize(L, o, text, &how, offsets, types, &tokens));
  cell *made[3] = {push_cell(L)};
  for (int i = 1; i < 3; i++) {
    if (i == 1 ? offsets : types) made[i] = push_cell(L);
    else lua_pushnil(L);
  }
  named(L);
  bool good = (made[0]->t = tensor_of(cx, 1, tokens.n, tokens.ids)) != NULL;
  if (good && offsets) good = (made[1]->t = tensor_of(cx, 2, tokens.n, tokens.offsets)) != NULL;
  if (good && types) good = (made[2]->t = tensor_of(cx, 1, tokens.n, tokens.types)) != NULL;
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


/* padding(tokenizer): the id that the file pads texts with, or nil */
static int l_padding (lua_State *L) {
  enter(L);
  int64_t id = heed_token_padding(check_tokenizer(L));
  if (id > 0) lua_pushinteger(L, id);
  else lua_pushnil(L);
  return 1;
}


/* left(tokenizer): whether texts that are too long lose their first ids, by the file */
static int l_left (lua_State *L) {
  enter(L);
  lua_pushboolean(L, heed_tokenizer_is_left(check_tokenizer(L)));
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
  owner *o = check_owner(L);
  size_t bytes;
  const int64_t *ids = raw_bytes(L, 2, &bytes);
  heed_text text = {"", 0};
  if (ids == NULL || lua_type(L, 2) == LUA_TSTRING)
    raise_wrong(L, "ids", "a dense int64 tensor on the CPU", 2);
  o->calls++;
  named(L);
  int64_t n = (int64_t)(bytes / sizeof *ids);
  return push_text(L, heed_detokenize(o->t, ids, n, lua_toboolean(L, 3), &text), &text);
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
  owner *o = check_owner(L);
  heed_stream *s = check_stream(L);
  int64_t id = check_integer(L, 3, "id");
  heed_text text = {"", 0};
  o->calls++;
  named(L);
  return push_text(L, heed_stream_push(o->t, s, id, &text), &text);
}


/* finish(tokenizer, stream): text */
static int l_finish (lua_State *L) {
  enter(L);
  owner *o = check_owner(L);
  heed_stream *s = check_stream(L);
  heed_text text = {"", 0};
  o->calls++;
  named(L);
  return push_text(L, heed_stream_finish(o->t, s, &text), &text);
}


/*
** {==================================================================
** Training
** ===================================================================
*/

typedef struct trainer { heed_trainer *r; } trainer;


static int l_drop_trainer (lua_State *L) {
  trainer *o = is_of(L, 1, &trainer_key) ? lua_touserdata(L, 1) : NULL;
  if (o != NULL && binding_of(L)->cx != NULL) heed_trainer_drop(o->r);
  if (o != NULL) o->r = NULL;
  return 0;
}


static heed_trainer *check_trainer (lua_State *L) {
  trainer *o = is_of(L, 1, &trainer_key) ? lua_touserdata(L, 1) : NULL;
  if (o == NULL || o->r == NULL) raise(L, "a trainer expected, got %s", describe(L, 1));
  return o->r;
}


/* trainer(json): of the parts of a tokenizer.json */
static int l_trainer (lua_State *L) {
  size_t n;
  heed_context *cx = enter(L)->cx;
  const char *text = luaL_checklstring(L, 1, &n);
  trainer *o = lua_newuserdatauv(L, sizeof *o, 0);
  o->r = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &trainer_key);
  lua_setmetatable(L, -2);
  named(L);
  o->r = heed_trainer_new(cx, text, n);
  done(L, o->r != NULL);
  return 1;
}


/* feed(trainer, text) */
static int l_feed (lua_State *L) {
  size_t n;
  enter(L);
  heed_trainer *r = check_trainer(L);
  const char *text = luaL_checklstring(L, 2, &n);
  named(L);
  done(L, heed_trainer_feed(r, text, n));
  return 0;
}


static void push_tokens (lua_State *L, const heed_trainer *r) {
  int64_t n = heed_trainer_count(r);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 1; i <= n; i++) {
    heed_text name = heed_trainer_token(r, i);
    lua_pushlstring(L, name.at, name.n);
    lua_rawseti(L, -2, i);
  }
}


/* Both names with a blank between them, by the list of tokens at 'names'. */
static void push_merges (lua_State *L, const heed_trainer *r, int names) {
  int64_t ids[2];
  lua_newtable(L);
  for (int64_t i = 0; heed_trainer_merge(r, i, ids); i++) {
    lua_rawgeti(L, names, ids[0]);
    lua_pushliteral(L, " ");
    lua_rawgeti(L, names, ids[1]);
    lua_concat(L, 3);
    lua_rawseti(L, -2, i + 1);
  }
}


/* make(trainer, special tokens, vocabulary, least, characters): the names of tokens, and merges */
static int l_make (lua_State *L) {
  enter(L);
  heed_trainer *r = check_trainer(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  int64_t n = (int64_t)lua_rawlen(L, 2);
  heed_training how = {NULL, n, check_integer(L, 3, "vocabulary"), check_integer(L, 4, "least"),
                       check_integer(L, 5, "characters")};
  heed_text *special = lua_newuserdatauv(L, (size_t)n * sizeof *special + 1, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);                  /* the list keeps the string */
    special[i].at = luaL_checklstring(L, -1, &special[i].n);
    lua_pop(L, 1);
  }
  how.special = special;
  named(L);
  done(L, heed_trainer_make(r, &how));
  push_tokens(L, r);
  push_merges(L, r, lua_gettop(L));
  return 2;
}

/* }================================================================== */


void open_tokenizer (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"count", l_count}, {"decode", l_decode}, {"encode", l_encode}, {"feed", l_feed},
    {"find", l_find}, {"finish", l_finish}, {"left", l_left}, {"make", l_make},
    {"padding", l_padding}, {"push", l_push}, {"read", l_read}, {"stream", l_stream},
    {"token", l_token}, {"trainer", l_trainer}, {"unknown", l_unknown}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {{"__gc", l_drop}, {NULL, NULL}}, none[] = {{NULL, NULL}};
  static const luaL_Reg of_trainer[] = {{"__gc", l_drop_trainer}, {NULL, NULL}};
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, internal, "text");
  register_metatable(L, own, &tokenizer_key);
  register_metatable(L, none, &stream_key);
  register_metatable(L, of_trainer, &trainer_key);
}
