/*
** lua_options.c - lists, and tables of options: one reader, with one measure of which names are
** alike, for C and for the Lua half.
*/

#include <string.h>

#include "lua_heed.h"

#define LONGEST 40                 /* longer words are like no other */
#define FAR LONGEST                /* a distance that nothing near has */

static const char told_key = 0;    /* in the registry: what is told of options, by operation */

enum { NAMES = 1, ELSEWHERE };     /* the entries of that */


/*
** {==================================================================
** Names that are alike
** ===================================================================
*/

static int least (int a, int b) { return a < b ? a : b; }


/*
** How many letters must be changed, left out, added or swapped to make b of a (the optimal string
** alignment distance), row by row of the table of all their beginnings.
*/
static int distance (const char *a, const char *b) {
  int rows[3][LONGEST + 1];
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return FAR;
  for (size_t j = 0; j <= m; j++) rows[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int *row = rows[i % 3];
    const int *last = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before[j - 2] + 1);
    }
  }
  return rows[n % 3][m];
}


/* A third of the letters may be wrong. The beginning of a name is near to it, too. */
const char *nearest (const char *word, int n, const char *const *names) {
  const char *best = NULL;
  size_t length = strlen(word);
  int bound = (int)(length / 3);
  for (int i = 0; i < n; i++) {
    bool begins = length > 2 && strncmp(names[i], word, length) == 0;
    int d = begins ? 1 : distance(word, names[i]);
    if (d > bound || d == FAR) continue;
    best = names[i];
    bound = d - 1;                 /* a later name must be nearer */
  }
  return best;
}


/* The end of a message about a word that is not among the names. */
const char *push_hint (lua_State *L, const char *word, int n, const char *const *names) {
  luaL_Buffer buffer;
  const char *best = nearest(word, n, names);
  if (best != NULL) return lua_pushfstring(L, "did you mean '%s'?", best);
  luaL_buffinit(L, &buffer);
  luaL_addstring(&buffer, n == 0 ? "there are none" : "there are ");
  for (int i = 0; i < n; i++) {
    if (i > 0) luaL_addstring(&buffer, ", ");
    luaL_addstring(&buffer, names[i]);
  }
  luaL_pushresult(&buffer);
  return lua_tostring(L, -1);
}


/* Pushes Lua memory with the strings of the list at i, which live as long as the list. */
static const char **read_names (lua_State *L, int i, int *n) {
  luaL_checktype(L, i, LUA_TTABLE);
  *n = (int)lua_rawlen(L, i);
  const char **names = lua_newuserdatauv(L, (size_t)(*n + 1) * sizeof *names, 0);
  for (int k = 0; k < *n; k++) {
    luaL_argcheck(L, lua_rawgeti(L, i, k + 1) == LUA_TSTRING, i, "a list of names expected");
    names[k] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  return names;
}


/* nearest(word, names): the name that is most like the word, or nil if none is near */
static int l_nearest (lua_State *L) {
  int n;
  const char *word = luaL_checkstring(L, 1);
  const char **names = read_names(L, 2, &n);
  lua_pushstring(L, nearest(word, n, names));
  return 1;
}


/* hint(word, names): "did you mean 'x'?", or "there are x, y" */
static int l_hint (lua_State *L) {
  int n;
  const char *word = luaL_checkstring(L, 1);
  const char **names = read_names(L, 2, &n);
  push_hint(L, word, n, names);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Lists
** ===================================================================
*/

bool is_empty (lua_State *L, int i) {
  lua_pushnil(L);
  if (!lua_next(L, i)) return true;
  lua_pop(L, 2);
  return false;
}


/* The key at the top is none of the list's, which has n entries. */
static void refuse_key (lua_State *L, int64_t n) {
  const char *key = plain_text(L, -1);
  if (key != NULL)
    raise(L, "a list expected, got one with the key '%s'; options stand in a table of their own, "
          "behind it: {%s = ...}", key, key);
  if (lua_isinteger(L, -1) && lua_tointeger(L, -1) > n)
    raise(L, "a list without holes expected, got an entry at [%I] and none at [%I]",
          (LUAI_UACINT)lua_tointeger(L, -1), (LUAI_UACINT)n + 1);
  raise(L, "a list expected, got one with %s as a key", describe(L, -1));
}


bool push_foreign_key (lua_State *L, int i) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, i);
  i = lua_absindex(L, i);
  luaL_checkstack(L, 4, "heed");
  lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || lua_tointeger(L, -1) > n) return true;
  }
  return false;
}


int64_t check_list (lua_State *L, int i) {
  int64_t n = (int64_t)lua_rawlen(L, i);
  if (push_foreign_key(L, i)) refuse_key(L, n);
  return n;
}

/* }================================================================== */


/*
** {==================================================================
** Options
** ===================================================================
*/

/* {} is none: it may be an empty shape. */
bool is_options (lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TTABLE || lua_rawlen(L, i) != 0) return false;
  lua_pushnil(L);
  if (!lua_next(L, i)) return false;
  bool by_name = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return by_name;
}


void check_options (lua_State *L, int i) {
  if (!lua_istable(L, i)) raise(L, "a table of options expected, got %s", describe(L, i));
}


int refuse_option (lua_State *L, const char *function, int key, int n, const char *const *known) {
  const char *name = plain_text(L, key);
  if (name != NULL)
    return raise_as(L, function, "unknown option '%s'; %s", name, push_hint(L, name, n, known));
  if (n == 0)
    return raise_as(L, function, "no options expected, got one at [%s]", describe(L, key));
  return raise_as(L, function, "options by name expected, as in {%s = ...}, got one at [%s]",
                  known[0], describe(L, key));
}


/* Pushes what the Lua half has told of an operation's options: entry i, or nil. */
static int push_told (lua_State *L, const char *op, int i) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &told_key);
  if (!lua_istable(L, -1) || lua_getfield(L, -1, op) != LUA_TTABLE) lua_pushnil(L);
  else lua_rawgeti(L, -1, i);
  return lua_type(L, -1);
}


int refuse_option_of (lua_State *L, const char *op, int key, int n, const char *const *known) {
  const char *name = plain_text(L, key);
  key = lua_absindex(L, key);
  luaL_checkstack(L, 12, "heed");
  if (name != NULL && push_told(L, op, ELSEWHERE) == LUA_TTABLE &&
      lua_getfield(L, -1, name) == LUA_TSTRING)
    return raise(L, "unknown option '%s'; write %s", name, lua_tostring(L, -1));
  if (push_told(L, op, NAMES) == LUA_TTABLE) known = read_names(L, lua_gettop(L), &n);
  return refuse_option(L, function_name(L), key, n, known);
}


/*
** tell_options(op, names, elsewhere): those that the operation says it has, where it has none of a
** given name, and what to write for others.
*/
static int l_tell_options (lua_State *L) {
  const char *op = luaL_checkstring(L, 1);
  lua_settop(L, 3);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &told_key) != LUA_TTABLE) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &told_key);
  }
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, NAMES);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, ELSEWHERE);
  lua_setfield(L, -2, op);
  return 0;
}


const char *next_option (lua_State *L, int i, int n, const char *const *known) {
  if (lua_isnoneornil(L, i)) return NULL;
  check_options(L, i);
  if (!lua_next(L, i)) return NULL;
  const char *name = plain_text(L, -2);
  for (int k = 0; name != NULL && k < n; k++)
    if (strcmp(name, known[k]) == 0) return known[k];
  refuse_option(L, function_name(L), lua_absindex(L, -2), n, known);
  return NULL;
}


/* refuse_option(function, key, names): the Lua half refuses in the same words */
static int l_refuse_option (lua_State *L) {
  int n;
  const char *function = luaL_checkstring(L, 1);
  const char **names = read_names(L, 3, &n);
  return refuse_option(L, function, 2, n, names);
}

/* }================================================================== */


void open_options (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"hint", l_hint}, {"nearest", l_nearest}, {"refuse_option", l_refuse_option},
    {"tell_options", l_tell_options}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
}
