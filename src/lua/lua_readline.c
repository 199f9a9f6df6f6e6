/*
** lua_readline.c - completion and history, where the program reads lines by readline or libedit.
**
** Nothing is loaded here: the functions and variables are found in the program. readline hands its
** caller's completion no pointer; the editor begins with the string of word breaks, which readline
** keeps, and is found by it.
*/

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"

/* Characters that no name has. */
#define BREAKS " \t\n\"\\'`@$><=;|&{}()[].,:+-*/^%#~!?"

typedef char **completer (const char *text, int start, int end);

typedef struct editor {
  char breaks[sizeof BREAKS];          /* first, as *word_breaks points to it */
  lua_State *L;
  const char **word_breaks, *old_breaks;
  completer **complete, *old_complete;
  char **line;
  int *over, *append;
} editor;

typedef struct entry { const char *line; } entry;        /* a HIST_ENTRY begins so */

static const char editor_key = 0, complete_key = 0;      /* in the registry */


/*
** {==================================================================
** The functions of readline in this program
** ===================================================================
*/

/* A variable or function of the program; NULL if it has none. */
static void *find (const char *name) {
  void *program = dlopen(NULL, RTLD_LAZY);
  if (program == NULL) return NULL;
  void *found = dlsym(program, name);
  dlclose(program);
  return found;
}


static bool find_all (editor *e) {
  e->word_breaks = find("rl_completer_word_break_characters");
  e->complete = find("rl_attempted_completion_function");
  e->line = find("rl_line_buffer");
  e->over = find("rl_attempted_completion_over");
  e->append = find("rl_completion_append_character");
  return e->word_breaks != NULL && e->complete != NULL && e->line != NULL && e->over != NULL &&
         e->append != NULL;
}


/* A pointer to data as one to a function, which C has no cast for. */
#define as_function(f, found) memcpy(&(f), &(found), sizeof (f))

/* }================================================================== */


/*
** {==================================================================
** Completion
** ===================================================================
*/

typedef struct completion {
  const char *line;
  int end;
  char **list;                         /* ends with NULL; readline frees it */
} completion;


static char **drop_list (char **list) {
  for (char **s = list; s != NULL && *s != NULL; s++) free(*s);
  free(list);
  return NULL;
}


static char *copy_of (const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = malloc(n);
  return copy != NULL ? memcpy(copy, s, n) : NULL;
}


/* Calls complete(line, end), which gives what the texts have in common, and the texts. */
static int call_complete (lua_State *L) {
  completion *c = lua_touserdata(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key);
  lua_pushstring(L, c->line);
  lua_pushinteger(L, c->end);
  lua_call(L, 2, 1);
  if (!lua_istable(L, -1)) return 0;
  size_t n = lua_rawlen(L, -1);
  c->list = n > 0 ? calloc(n + 1, sizeof *c->list) : NULL;
  for (size_t i = 0; c->list != NULL && i < n; i++) {
    bool text = lua_rawgeti(L, -1, (lua_Integer)i + 1) == LUA_TSTRING;
    c->list[i] = text ? copy_of(lua_tostring(L, -1)) : NULL;
    if (c->list[i] == NULL) c->list = drop_list(c->list);
    lua_pop(L, 1);
  }
  return 0;
}


/* readline's: an error is no completion. */
static char **complete (const char *text, int start, int end) {
  const char *const *breaks = find("rl_completer_word_break_characters");
  (void)text; (void)start;
  if (breaks == NULL || *breaks == NULL || strcmp(*breaks, BREAKS) != 0) return NULL;
  const editor *e = (const void *)*breaks;
  lua_State *L = e->L;
  completion c = {.line = *e->line, .end = end};
  *e->over = 1;                        /* no names of files */
  *e->append = '\0';                   /* no space behind a name */
  if (!lua_checkstack(L, 8)) return NULL;
  lua_pushcfunction(L, call_complete);
  lua_pushlightuserdata(L, &c);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return c.list;
  lua_pop(L, 1);
  return drop_list(c.list);
}


/* The editor's finaliser. Another's completion or breaks stay; no pointer to what goes does. */
static int detach (lua_State *L) {
  editor *e = lua_touserdata(L, 1);
  if (*e->complete == complete) *e->complete = e->old_complete;
  if (*e->word_breaks == e->breaks) *e->word_breaks = e->old_breaks;
  return 0;
}


static void attach (editor *e) {
  memcpy(e->breaks, BREAKS, sizeof BREAKS);
  e->old_complete = *e->complete;
  e->old_breaks = *e->word_breaks;
  *e->complete = complete;
  *e->word_breaks = e->breaks;
}


/* attach(complete): whether the program has readline; from now on it completes by
   complete(line, end) */
static int l_attach (lua_State *L) {
  editor found = {.L = binding_of(L)->main};
  luaL_checktype(L, 1, LUA_TFUNCTION);
  bool here = find_all(&found);
  lua_pushboolean(L, here);
  if (!here || *found.complete == complete) return 1;
  editor *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = found;
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, detach);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &editor_key);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &complete_key);
  attach(e);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** History
** ===================================================================
*/

/* add(line): the newest line of the history */
static int l_add (lua_State *L) {
  const char *line = luaL_checkstring(L, 1);
  void *found = find("add_history");
  void (*add) (const char *);
  as_function(add, found);
  if (found != NULL) add(line);
  return 0;
}


/* lines(): all lines of the history, from the oldest on */
static int l_lines (lua_State *L) {
  void *found = find("history_get");
  const int *base = find("history_base"), *n = find("history_length");
  entry *(*get) (int);
  as_function(get, found);
  lua_newtable(L);
  for (int i = 0; found != NULL && base != NULL && n != NULL && i < *n; i++) {
    const entry *at = get(*base + i);
    lua_pushstring(L, at != NULL && at->line != NULL ? at->line : "");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* }================================================================== */


void open_readline (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"add", l_add}, {"attach", l_attach}, {"lines", l_lines}, {NULL, NULL}
  };
  lua_newtable(L);
  register_files(L, functions, -1);
  lua_setfield(L, internal, "readline");
}
