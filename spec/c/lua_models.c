/*
** lua_models.c - models from directories for a program without Lua: what heed_models.h gives is what
** Lua has, and what a program gets wrong, or memory that ends, is said by the context.
*/

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "heed_models.h"
#include "lua/heed_lua.h"

#define DIM 8

static char folder[64];
static int failed;

static void check (bool good, const char *what) {
  if (good) return;
  printf("models: %s: wrong\n", what);
  failed = 1;
}

static void refused (heed_models *all, bool good, const char *message) {
  const char *got = heed_error(heed_models_context(all));
  bool right = !good && got != NULL && strstr(got, message) != NULL;
  if (!right) printf("models: \"%s\" expected, got \"%s\"\n", message, got != NULL ? got : "");
  failed |= !right;
  heed_clear(heed_models_context(all));
}

/* n texts that end with a 0. */
#define MOST 4
typedef struct list { heed_text at[MOST]; } list;
static list texts (int n, const char *const *words) {
  list y = {0};
  for (int i = 0; i < n; i++) y.at[i] = (heed_text){words[i], strlen(words[i])};
  return y;
}

static const char *const words[] = {"the cat sat", "a dog", "", "the dog ran the cat"};


/*
** {==================================================================
** What allocates: every request of a call may fail
** ===================================================================
*/

static long countdown = -1, requests;

void *__real_realloc (void *block, size_t n);
void *__wrap_realloc (void *block, size_t n);

/* Lua relies on blocks to shrink, and this program knows no sizes: only new blocks fail. */
void *__wrap_realloc (void *block, size_t n) {
  requests++;
  if (block == NULL && countdown >= 0 && countdown-- == 0) return NULL;
  return __real_realloc(block, n);
}


static bool embeds (float *numbers) {
  list some = texts(4, words);
  heed_models *all = heed_models_open();
  heed_model *model = heed_model_load(all, folder, NULL);
  heed_tensor *vectors = heed_model_embed(model, some.at, 4, NULL);
  bool good = vectors != NULL && heed_read(vectors, HEED_FLOAT32, numbers);
  check(good || all == NULL || heed_error(heed_models_context(all)) != NULL, "a failure's message");
  heed_drop(vectors);
  heed_models_close(all);
  return good;
}


/* Each hundredth request of all, as far as they go. */
static void starve (const float *wanted) {
  long whole, tried = 0;
  float got[4 * DIM];
  requests = 0;
  check(embeds(got), "vectors");
  whole = requests;
  for (long n = 0; n < whole; n += 1 + whole / 100, tried++) {
    countdown = n;
    if (embeds(got)) check(memcmp(got, wanted, sizeof got) == 0, "vectors with little memory");
    countdown = -1;
  }
  check(tried > 50, "how many requests there are");
}

/* }================================================================== */


/* Writes the directories; gives the vectors that Lua has of 'words'. */
static void make (float *vectors) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_settop(L, 0);
  lua_pushstring(L, folder);
  lua_setglobal(L, "folder");
  const char *script =
    "assert(loadfile('spec/c/scripts/models.lua'))(folder)\n"
    "local model = assert(heed.models.load(folder))\n"
    "return model:embed{'the cat sat', 'a dog', '', 'the dog ran the cat'}\n";
  if (luaL_dostring(L, script) != LUA_OK) puts(lua_tostring(L, -1)), exit(1);
  heed_tensor *t = heed_check(L, -1);
  check(heed_size(t, 1) == DIM && heed_read(t, HEED_FLOAT32, vectors), "Lua's vectors");
  lua_close(L);
}


static void right_calls (heed_models *all, heed_model *model, const float *wanted) {
  float got[4 * DIM];
  list some = texts(4, words);
  heed_tensor *vectors = heed_model_embed(model, some.at, 4, NULL);
  check(heed_rank(vectors) == 2 && heed_size(vectors, 0) == 4 && heed_size(vectors, 1) == DIM,
        "the shape of vectors");
  check(heed_read(vectors, HEED_FLOAT32, got) && memcmp(got, wanted, sizeof got) == 0, "vectors");
  heed_embed_options two = {.dims = 2, .batch = 1, .plain = true};
  heed_tensor *first = heed_model_embed(model, some.at, 4, &two);
  check(heed_size(first, 1) == 2 && heed_read(first, HEED_FLOAT32, got), "two numbers of each");
  check(fabsf(got[0] * got[0] + got[1] * got[1] - 1) < 1e-5f, "the length of a short vector");
  check(heed_model_tokens(model, some.at[0]) == 5, "tokens");
  check(heed_model_tokens(model, (heed_text){NULL, 0}) == 2, "tokens of no text");
  heed_drop(first);
  heed_drop(vectors);
  heed_model *mapped = heed_model_load(all, folder, &(heed_model_options){.mapped = true,
                                                                         .dtype = "float64"});
  vectors = heed_model_embed(mapped, some.at, 4, NULL);
  heed_model_drop(mapped);
  check(heed_read(vectors, HEED_FLOAT32, got), "vectors of another type");
  for (int i = 0; i < 4 * DIM; i++) check(fabsf(got[i] - wanted[i]) < 1e-5f, "numbers of them");
  heed_drop(vectors);
  check(heed_error(heed_models_context(all)) == NULL, "no failure");
}


static bool say (void *self, const char *text, size_t n) {
  (void)self, (void)text, (void)n;
  return true;
}


static void wrong_calls (heed_models *all, heed_model *model) {
  list some = texts(2, words);
  heed_embed_options odd = {.prompt = "nowhere"}, large = {.dims = 99}, few = {.batch = -1};
  refused(all, heed_model_load(all, "/no/such/place", NULL), "/no/such/place");
  refused(all, heed_model_load(all, NULL, NULL), "models.load: a path expected, got NULL");
  refused(all, heed_model_load(all, folder, &(heed_model_options){.dtype = "float3"}), "float3");
  refused(all, heed_model_load(all, folder, &(heed_model_options){.device = "x"}), "x");
  refused(all, heed_model_embed(model, some.at, 2, &odd), "nowhere");
  refused(all, heed_model_embed(model, some.at, 2, &large), "at most 8 expected");
  refused(all, heed_model_embed(model, some.at, 2, &few), "embed: ");
  refused(all, heed_model_embed(model, some.at, 0, NULL), "embed: ");
  refused(all, heed_model_embed(model, some.at, -1, NULL), "embed: a list expected");
  refused(all, heed_model_embed(model, NULL, 1, NULL), "embed: a list expected, got NULL");
  refused(all, heed_model_generate(model, some.at[0], NULL, NULL, NULL), "a function of words");
  refused(all, heed_model_chat(model, NULL, 1, NULL, say, NULL), "generate: a list expected");
  heed_interrupt(heed_models_context(all));
  refused(all, heed_model_embed(model, some.at, 2, NULL), "interrupted");
  heed_memory_limit(heed_models_context(all), 1);
  refused(all, heed_model_embed(model, some.at, 2, NULL), "memory");
  heed_memory_limit(heed_models_context(all), 0);
  heed_fail(heed_models_context(all), "of the program");
  check(heed_model_embed(model, some.at, 2, NULL) == NULL, "a call behind a failure");
  check(heed_model_tokens(model, some.at[0]) == -1, "a count behind a failure");
  refused(all, false, "of the program");
  check(heed_model_load(NULL, folder, NULL) == NULL && heed_models_context(NULL) == NULL &&
        heed_model_embed(NULL, some.at, 2, NULL) == NULL &&
        heed_model_score(NULL, some.at[0], some.at, 2) == NULL &&
        heed_model_tokens(NULL, some.at[0]) == -1 &&
        !heed_model_generate(NULL, some.at[0], NULL, say, NULL) &&
        !heed_model_chat(NULL, NULL, 0, NULL, say, NULL), "NULL in, NULL out");
  heed_model_drop(NULL);
  heed_models_close(NULL);
}


static void remove_folder (void) {
  static const char *const files[] = {"config.json", "vocab.txt", "tokenizer_config.json",
    "modules.json", "model.safetensors", "1_Pooling/config.json", "1_Pooling", ""};
  for (int i = 0; i < (int)(sizeof files / sizeof *files); i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    remove(path);
  }
}


int main (void) {
  float wanted[4 * DIM];
  char pooling[80];
  const char *temporary = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.40s/heed-XXXXXX", temporary != NULL ? temporary : "/tmp");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(pooling, sizeof pooling, "%s/1_Pooling", folder);
  check(mkdir(pooling, 0700) == 0, "a folder");
  make(wanted);
  heed_models *all = heed_models_open();
  heed_model *model = heed_model_load(all, folder, NULL);
  right_calls(all, model, wanted);
  wrong_calls(all, model);
  right_calls(all, model, wanted);
  heed_models_close(all);
  starve(wanted);
  remove_folder();
  if (!failed) puts("models: what Lua has, and each mistake is reported");
  return failed;
}
