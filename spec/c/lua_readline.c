/*
** lua_readline.c - completion and history in a program whose readline is this file: what heed sets
** and gives back, what it completes, and what it does where a variable or function is missing.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("lua_readline: %s: wrong\n", what);
  failed = 1;
}


/*
** {==================================================================
** A readline
** ===================================================================
*/

typedef char **completer (const char *text, int start, int end);
typedef struct entry { const char *line; void *more; } entry;

static const char own_breaks[] = " .";
static const char *word_breaks = own_breaks;
static completer *attempted;
static char *line_buffer;
static int over, append = ' ';
static entry history[4];
static int base = 7, length;

static void add_history (const char *line) {
  history[length].line = line;
  history[length++].more = NULL;
}

/* None of line "gone". */
static entry *history_get (int i) {
  entry *e = &history[i - base];
  return e->line != NULL && strcmp(e->line, "gone") == 0 ? NULL : e;
}

static const char *hidden = "";          /* what the program lacks */

void *__real_dlsym (void *program, const char *name);
void *__wrap_dlsym (void *program, const char *name);

#define is(word) (strcmp(name, word) == 0)

static void *function (void (*f) (void)) {
  void *found;
  memcpy(&found, &f, sizeof found);
  return found;
}

void *__wrap_dlsym (void *program, const char *name) {
  if (is(hidden)) return NULL;
  if (is("rl_completer_word_break_characters")) return &word_breaks;
  if (is("rl_attempted_completion_function")) return &attempted;
  if (is("rl_line_buffer")) return &line_buffer;
  if (is("rl_attempted_completion_over")) return &over;
  if (is("rl_completion_append_character")) return &append;
  if (is("history_base")) return &base;
  if (is("history_length")) return &length;
  if (is("add_history")) return function((void (*) (void))add_history);
  if (is("history_get")) return function((void (*) (void))history_get);
  return __real_dlsym(program, name);
}

/* }================================================================== */


static lua_State *new_state (void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_settop(L, 0);
  if (luaL_dostring(L, "readline = require('heed.core').readline") != LUA_OK)
    check(false, lua_tostring(L, -1));
  return L;
}

/* The script raises what is wrong. */
static void run (lua_State *L, const char *script) {
  if (luaL_dostring(L, script) != LUA_OK) check(false, lua_tostring(L, -1));
  lua_settop(L, 0);
}

/* Completions that Tab gives behind the line, with blanks between; "none" is no list. */
static const char *completed (lua_State *L, const char *line) {
  static char all[100];
  char buffer[20];
  line_buffer = strcpy(buffer, line);
  over = 0, append = ' ';
  all[0] = '\0';
  char **list = attempted("text", 1, (int)strlen(line));
  for (char **s = list; s != NULL && *s != NULL; s++) {
    strcat(strcat(all, all[0] != '\0' ? " " : ""), *s);
    free(*s);
  }
  free(list);
  check(lua_gettop(L) == 0, "the stack is as it was");
  return list != NULL ? all : "none";
}


static const char answers[] =
  "local function answer(line, at)\n"
  "  seen = line .. '|' .. at\n"
  "  if line == 'error' then error('no') end\n"
  "  return ({one = {'one'}, three = {'a', 'ab', 'ac'}, none = {}, text = 'one', number = {5},\n"
  "           gap = {'a', 5, 'c'}, late = {'a', 'b', {}}})[line]\n"
  "end\n"
  "local good = coroutine.wrap(function() return readline.attach(answer) end)()\n"
  "assert(good == true)\n"
  "assert(readline.attach(function() error('the first one stays') end) == true)\n"
  "collectgarbage() collectgarbage()\n";

static void test_completion (void) {
  lua_State *L = new_state();
  run(L, "assert(not pcall(readline.attach)) assert(not pcall(readline.attach, 5))");
  check(attempted == NULL && word_breaks == own_breaks, "nothing is set for a wrong value");
  run(L, answers);
  check(attempted != NULL && strcmp(word_breaks, " \t\n\"\\'`@$><=;|&{}()[].,:+-*/^%#~!?") == 0,
        "breaks");
  static const char *const wanted[][2] = {
    {"one", "one"}, {"three", "a ab ac"}, {"none", "none"}, {"text", "none"}, {"number", "none"},
    {"gap", "none"}, {"late", "none"}, {"error", "none"}, {"other", "none"}, {"", "none"},
    {"one", "one"}
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    check(strcmp(completed(L, wanted[i][0]), wanted[i][1]) == 0, wanted[i][0]);
    check(over == 1 && append == '\0', "no names of files, and no blank behind a name");
  }
  completed(L, "three");
  run(L, "assert(seen == 'three|5', seen)");
  const char *ours = word_breaks, *none = NULL;
  for (int i = 0; i < 2; i++) {
    word_breaks = i == 0 ? own_breaks : none;
    check(strcmp(completed(L, "one"), "none") == 0 && over == 0 && append == ' ',
          "other breaks are of another editor");
  }
  word_breaks = ours;
  hidden = "rl_completer_word_break_characters";
  check(strcmp(completed(L, "one"), "none") == 0, "no breaks");
  hidden = "";
  lua_close(L);
  check(attempted == NULL && word_breaks == own_breaks, "what was before comes back");
}


static char **another (const char *text, int start, int end) {
  (void)text; (void)start; (void)end;
  return NULL;
}

/* Values that were set after heed's stay, and nothing leads to heed. */
static void test_others (void) {
  for (int i = 0; i < 3; i++) {
    attempted = another;
    lua_State *L = new_state();
    run(L, "assert(readline.attach(print))");
    check(attempted != another && word_breaks != own_breaks, "attached");
    if (i == 1) attempted = NULL;
    if (i == 2) word_breaks = "x";
    lua_close(L);
    check(attempted == (i == 1 ? NULL : another), "the completion that was set");
    check(strcmp(word_breaks, i == 2 ? "x" : own_breaks) == 0, "the breaks that were set");
    word_breaks = own_breaks;
  }
  attempted = NULL;
}


static void test_missing (void) {
  static const char *const names[] = {
    "rl_completer_word_break_characters", "rl_attempted_completion_function", "rl_line_buffer",
    "rl_attempted_completion_over", "rl_completion_append_character"
  };
  lua_State *L = new_state();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hidden = names[i];
    run(L, "assert(readline.attach(print) == false)");
    check(attempted == NULL && word_breaks == own_breaks, names[i]);
  }
  hidden = "";
  lua_close(L);
}


static void test_history (void) {
  static const char *const names[] = {"history_get", "history_base", "history_length"};
  lua_State *L = new_state();
  run(L, "assert(#readline.lines() == 0) assert(not pcall(readline.add))");
  hidden = "add_history";
  run(L, "readline.add('lost')");
  check(length == 0, "no history");
  hidden = "";
  run(L, "first, second = 'print(1)', 'gone'\n"
         "assert(select('#', readline.add(first)) == 0)\n"
         "readline.add(second)\n");
  check(length == 2, "lines are added");
  history[length++].line = NULL;
  run(L, "readline.add(first)\n"
         "local lines = readline.lines()\n"
         "assert(table.concat(lines, ',') == 'print(1),,,print(1)' and #lines == 4)\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hidden = names[i];
    run(L, "assert(#readline.lines() == 0)");
  }
  hidden = "";
  lua_close(L);
}


int main (void) {
  test_completion();
  test_others();
  test_missing();
  test_history();
  printf("lua_readline: %s\n", failed ? "wrong" : "completion and history are as they should be");
  return failed;
}
