/*
** lua_models.c - models from directories for C programs: a Lua state inside, of which they see
** nothing. Each function of heed_models.h runs a function of Lua's API in protected mode.
*/

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "heed_lua.h"
#include "heed_models.h"

struct heed_models {
  lua_State *L;
  heed_context *cx;
  heed_model *first;
};

struct heed_model {
  heed_models *all;
  heed_model *next;
  int at;                          /* in the registry; LUA_NOREF: not loaded yet */
};


/*
** {==================================================================
** Calls
** ===================================================================
*/

/* Runs f(job). Its stack is as before, since a callback may call from within a call. */
static bool run (heed_models *all, lua_CFunction f, void *job) {
  lua_State *L = all->L;
  if (heed_error(all->cx) != NULL) return false;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 4)) {
    heed_fail(all->cx, "heed: not enough memory for a call");
    return false;
  }
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, job);
  bool good = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (!good) {
    const char *text = lua_tostring(L, -1);
    heed_clear(all->cx);
    heed_fail(all->cx, "%s", text != NULL ? text : "heed: an error that is no text");
  }
  lua_settop(L, top);
  return good;
}


/* Pushes a method of the model and the model. */
static void push_method (lua_State *L, const heed_model *model, const char *name) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, model->at);
  lua_getfield(L, -1, name);
  lua_insert(L, -2);
}


/* Text i of a list, from 1; 0: the only one. */
static void push_text (lua_State *L, const char *function, int64_t i, heed_text text) {
  if (text.at == NULL && text.n > 0 && i > 0)
    luaL_error(L, "%s: a text expected at position %I, got NULL of length %I", function,
               (lua_Integer)i, (lua_Integer)text.n);
  else if (text.at == NULL && text.n > 0)
    luaL_error(L, "%s: a text expected, got NULL of length %I", function, (lua_Integer)text.n);
  lua_pushlstring(L, text.n > 0 ? text.at : "", text.n);
}


/* Lists that C programs give: what Lua could not check any more. */
static bool check_list (heed_models *all, const char *function, const void *list, int64_t n) {
  if (n >= 0 && (list != NULL || n == 0)) return true;
  heed_fail(all->cx, "%s: a list expected, got %s of length %lld", function,
            list != NULL ? "one" : "NULL", (long long)n);
  return false;
}


static void push_texts (lua_State *L, const char *function, const heed_text *texts, int64_t n) {
  lua_newtable(L);
  for (int64_t i = 0; i < n; i++) {
    push_text(L, function, i + 1, texts[i]);
    lua_rawseti(L, -2, i + 1);
  }
}


/* Options of the table on top; what is 0 or NULL is left out. */

static void set_text (lua_State *L, const char *name, const char *text) {
  if (text == NULL) return;
  lua_pushstring(L, text);
  lua_setfield(L, -2, name);
}

static void set_integer (lua_State *L, const char *name, int64_t i) {
  if (i == 0) return;
  lua_pushinteger(L, i);
  lua_setfield(L, -2, name);
}

static void set_number (lua_State *L, const char *name, double x) {
  if (x == 0) return;
  lua_pushnumber(L, x);
  lua_setfield(L, -2, name);
}

/* }================================================================== */


/*
** {==================================================================
** The library and its models
** ===================================================================
*/

/* heed is open, and so is its context, before anything else can fail. */
static int open_library (lua_State *L) {
  heed_models *all = lua_touserdata(L, 1);
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  all->cx = heed_lua_context(L);
  lua_getfield(L, -1, "models");
  return 0;
}


/* Lua's memory; its own default allocator is part of a library that a program may share. */
static void *resize (void *self, void *block, size_t old_size, size_t new_size) {
  (void)self, (void)old_size;
  if (new_size > 0) return realloc(block, new_size);
  free(block);
  return NULL;
}


heed_models *heed_models_open (void) {
  heed_models *all = calloc(1, sizeof *all);
  if (all == NULL) return NULL;
  all->L = lua_newstate(resize, NULL);
  if (all->L != NULL) {
    lua_pushcfunction(all->L, open_library);
    lua_pushlightuserdata(all->L, all);
    if (lua_pcall(all->L, 1, 0, 0) == LUA_OK) return all;
    lua_close(all->L);
  }
  free(all);
  return NULL;
}


void heed_models_close (heed_models *all) {
  if (all == NULL) return;
  while (all->first != NULL) {
    heed_model *model = all->first;
    all->first = model->next;
    free(model);
  }
  lua_close(all->L);
  free(all);
}


heed_context *heed_models_context (heed_models *all) { return all != NULL ? all->cx : NULL; }


typedef struct loading {
  heed_model *model;
  const char *path;
  const heed_model_options *options;
} loading;

static int load (lua_State *L) {
  const loading *job = lua_touserdata(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "heed.models");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "load");
  lua_pushstring(L, job->path);
  lua_newtable(L);
  if (job->options != NULL) {
    set_text(L, "device", job->options->device);
    set_text(L, "dtype", job->options->dtype);
    set_text(L, "quantize", job->options->quantize);
    lua_pushboolean(L, job->options->mapped);
    lua_setfield(L, -2, "mapped");
  }
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2)) return lua_error(L);           /* the second result is the message */
  lua_settop(L, -2);
  job->model->at = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}


heed_model *heed_model_load (heed_models *all, const char *path,
                             const heed_model_options *options) {
  if (all == NULL) return NULL;
  heed_model *model = path != NULL ? malloc(sizeof *model) : NULL;
  if (model == NULL) {
    heed_fail(all->cx, path != NULL ? "models.load: not enough memory"
                                    : "models.load: a path expected, got NULL");
    return NULL;
  }
  *model = (heed_model){.all = all, .at = LUA_NOREF};
  if (!run(all, load, &(loading){model, path, options})) {
    free(model);
    return NULL;
  }
  model->next = all->first;
  all->first = model;
  return model;
}


void heed_model_drop (heed_model *model) {
  if (model == NULL) return;
  heed_model **link = &model->all->first;
  while (*link != model) link = &(*link)->next;
  *link = model->next;
  luaL_unref(model->all->L, LUA_REGISTRYINDEX, model->at);
  free(model);
}

/* }================================================================== */


/*
** {==================================================================
** Texts in, numbers out
** ===================================================================
*/

typedef struct counting {
  const heed_model *model;
  heed_text text;
  int64_t n;
} counting;

static int count (lua_State *L) {
  counting *job = lua_touserdata(L, 1);
  push_method(L, job->model, "ids");
  push_text(L, "tokens", 0, job->text);
  lua_newtable(L);
  set_integer(L, "max", LUA_MAXINTEGER);               /* all of them, not those that it takes */
  lua_call(L, 3, 1);
  job->n = (int64_t)lua_rawlen(L, -1);
  return 0;
}


int64_t heed_model_tokens (heed_model *model, heed_text text) {
  counting job = {model, text, -1};
  return model != NULL && run(model->all, count, &job) ? job.n : -1;
}


/* A call with texts, and a query or options or neither; its answer is a tensor. */
typedef struct asking {
  const heed_model *model;
  const char *method;
  const heed_text *query, *texts;
  int64_t n;
  const heed_embed_options *options;
  heed_tensor *answer;
} asking;

static int ask (lua_State *L) {
  asking *job = lua_touserdata(L, 1);
  push_method(L, job->model, job->method);
  if (job->query != NULL) push_text(L, "score: the query", 0, *job->query);
  push_texts(L, job->method, job->texts, job->n);
  lua_newtable(L);
  if (job->options != NULL) {
    set_text(L, "prompt", job->options->prompt);
    if (job->options->plain) {
      lua_pushboolean(L, false);
      lua_setfield(L, -2, "prompt");
    }
    set_integer(L, "dims", job->options->dims);
    set_integer(L, "batch", job->options->batch);
  }
  lua_call(L, job->query != NULL ? 4 : 3, 1);
  job->answer = heed_keep(heed_check(L, -1));
  return 0;
}


static heed_tensor *answer (asking *job) {
  const heed_model *model = job->model;
  bool good = model != NULL && check_list(model->all, job->method, job->texts, job->n) &&
              run(model->all, ask, job);
  return good ? job->answer : NULL;
}


heed_tensor *heed_model_embed (heed_model *model, const heed_text *texts, int64_t n,
                               const heed_embed_options *options) {
  asking job = {model, "embed", NULL, texts, n, options, NULL};
  return answer(&job);
}


heed_tensor *heed_model_score (heed_model *model, heed_text query, const heed_text *texts,
                               int64_t n) {
  asking job = {model, "score", &query, texts, n, NULL, NULL};
  return answer(&job);
}

/* }================================================================== */


/*
** {==================================================================
** Classes
** ===================================================================
*/

/* Pushes the list of names, and returns how many classes there are: 0 if the model has none. */
static int64_t push_names (lua_State *L, const heed_model *model) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, model->at);
  lua_getfield(L, -1, "classes");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "names");
  else lua_newtable(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return (int64_t)lua_rawlen(L, -1);
}


typedef struct naming {
  const heed_model *model;
  int64_t number;
  const char *label;
} naming;

static int name (lua_State *L) {
  naming *job = lua_touserdata(L, 1);
  int64_t n = push_names(L, job->model);
  if (job->number < 0 || job->number >= n) return 0;
  lua_rawgeti(L, -1, job->number + 1);
  job->label = lua_tostring(L, -1);                    /* the list keeps it */
  return 0;
}


const char *heed_model_label (heed_model *model, int64_t number) {
  naming job = {model, number, NULL};
  return model != NULL && run(model->all, name, &job) ? job.label : NULL;
}


typedef struct classing {
  const heed_model *model;
  const heed_text *texts, *pairs;
  int64_t n;
  heed_classes *classes;
  void *self;
} classing;


/* A field of the table on top that is a number, or what is said. */
static double number_or (lua_State *L, const char *field, double otherwise) {
  lua_getfield(L, -1, field);
  double x = lua_isnil(L, -1) ? otherwise : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return x;
}


/* The program hears of the class on top; names stand at 2, room for probabilities at 3. */
static bool tell (lua_State *L, const classing *job, int64_t text) {
  heed_class found = {.text = text, .probability = number_or(L, "probability", 0)};
  double *probabilities = lua_touserdata(L, 3);
  size_t first = (size_t)number_or(L, "first", 1),
    last = (size_t)number_or(L, "last", (double)job->texts[text].n);
  int64_t classes = (int64_t)lua_rawlen(L, 2);
  found.at = first - 1;
  found.n = last - found.at;
  lua_getfield(L, -1, "label");
  found.label = lua_tostring(L, -1);
  lua_getfield(L, -2, "probabilities");
  for (int64_t i = 0; i < classes; i++) {
    lua_rawgeti(L, 2, i + 1);
    lua_rawget(L, -2);
    probabilities[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  found.probabilities = probabilities;
  bool more = job->classes(job->self, &found);
  lua_pop(L, 2);
  return more;
}


/* Those of a text's tokens, in the list on top. */
static bool tell_tokens (lua_State *L, const classing *job, int64_t text) {
  bool more = true;
  int64_t n = (int64_t)lua_rawlen(L, -1);
  for (int64_t i = 1; more && i <= n; i++) {
    lua_rawgeti(L, -1, i);
    more = tell(L, job, text);
    lua_pop(L, 1);
  }
  return more;
}


static int classify (lua_State *L) {
  const classing *job = lua_touserdata(L, 1);
  int64_t classes = push_names(L, job->model);
  bool more = true;
  lua_newuserdatauv(L, (size_t)classes * sizeof(double), 0);
  push_method(L, job->model, "classify");
  push_texts(L, "classify", job->texts, job->n);
  lua_newtable(L);
  if (job->pairs != NULL) {
    push_texts(L, "classify: option pair", job->pairs, job->n);
    lua_setfield(L, -2, "pair");
  }
  lua_call(L, 3, 1);
  for (int64_t i = 0; more && i < job->n; i++) {
    lua_rawgeti(L, -1, i + 1);
    lua_getfield(L, -1, "label");
    bool whole = !lua_isnil(L, -1);
    lua_pop(L, 1);
    more = whole ? tell(L, job, i) : tell_tokens(L, job, i);
    lua_pop(L, 1);
  }
  return 0;
}


bool heed_model_classify (heed_model *model, const heed_text *texts, const heed_text *pairs,
                          int64_t n, heed_classes *classes, void *self) {
  if (model == NULL) return false;
  classing job = {model, texts, pairs, n, classes, self};
  if (classes != NULL)
    return check_list(model->all, "classify", texts, n) && run(model->all, classify, &job);
  heed_fail(model->all->cx, "classify: a function of classes expected, got NULL");
  return false;
}

/* }================================================================== */


/*
** {==================================================================
** Words
** ===================================================================
*/

typedef struct talking {
  const heed_model *model;
  const heed_text *prompt;           /* or */
  const heed_message *messages;
  int64_t n;
  const heed_generate_options *options;
  heed_words *words;
  void *self;
} talking;


/* Upvalue 1: the talk. Gives false where the program has enough. */
static int hear (lua_State *L) {
  const talking *job = lua_touserdata(L, lua_upvalueindex(1));
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  lua_pushboolean(L, job->words(job->self, text, n));
  return 1;
}


static void push_messages (lua_State *L, const heed_message *messages, int64_t n) {
  lua_newtable(L);
  for (int64_t i = 0; i < n; i++) {
    lua_newtable(L);
    set_text(L, "role", messages[i].role);
    push_text(L, "generate: the content", i + 1, messages[i].content);
    lua_setfield(L, -2, "content");
    lua_rawseti(L, -2, i + 1);
  }
}


static void set_generating (lua_State *L, const heed_generate_options *o) {
  set_integer(L, "max", o->max);
  set_number(L, "temperature", o->temperature);
  set_integer(L, "top_k", o->top_k);
  set_number(L, "top_p", o->top_p);
  set_number(L, "min_p", o->min_p);
  set_number(L, "repetition_penalty", o->repetition_penalty);
  set_integer(L, "seed", o->seed);
  if (o->greedy) {
    lua_pushinteger(L, 0);
    lua_setfield(L, -2, "temperature");
  }
  if (o->stop == NULL) return;
  lua_newtable(L);
  for (int i = 0; o->stop[i] != NULL; i++) {
    lua_pushstring(L, o->stop[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "stop");
}


static int talk (lua_State *L) {
  talking *job = lua_touserdata(L, 1);
  push_method(L, job->model, "generate");
  if (job->prompt != NULL) push_text(L, "generate", 0, *job->prompt);
  else push_messages(L, job->messages, job->n);
  lua_newtable(L);
  if (job->options != NULL) set_generating(L, job->options);
  lua_pushlightuserdata(L, job);
  lua_pushcclosure(L, hear, 1);
  lua_setfield(L, -2, "on_text");
  lua_call(L, 3, 0);
  return 0;
}


static bool speak (talking *job) {
  if (job->model == NULL) return false;
  heed_models *all = job->model->all;
  if (job->words == NULL) heed_fail(all->cx, "generate: a function of words expected, got NULL");
  else if (job->prompt != NULL || check_list(all, "generate", job->messages, job->n))
    return run(all, talk, job);
  return false;
}


bool heed_model_generate (heed_model *model, heed_text prompt,
                          const heed_generate_options *options, heed_words *words, void *self) {
  talking job = {model, &prompt, NULL, 0, options, words, self};
  return speak(&job);
}


bool heed_model_chat (heed_model *model, const heed_message *messages, int64_t n,
                      const heed_generate_options *options, heed_words *words, void *self) {
  talking job = {model, NULL, messages, n, options, words, self};
  return speak(&job);
}

/* }================================================================== */
