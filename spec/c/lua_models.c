/*
** lua_models.c - models from directories for a program without Lua: what heed_models.h gives is
** what Lua has, and what a program gets wrong, or memory that ends, is said by the context. The
** program runs in the root of the sources, where it finds models.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "heed_models.h"
#include "lua/heed_lua.h"

#define PLACE "spec/golden/models/st/"
#define DIM 192

static const char folder[] = PLACE "bert_concat", ranker[] = PLACE "cross_encoder",
  writer[] = "spec/golden/models/llama3";
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


static void starve_one (long n, const float *wanted) {
  static float got[4 * DIM];
  countdown = n;
  if (embeds(got)) check(memcmp(got, wanted, sizeof got) == 0, "vectors with little memory");
  countdown = -1;
}


/* Forty of all requests, as far as they go, and more of those that open the library. */
static void starve (const float *wanted) {
  long whole, tried = 0;
  static float got[4 * DIM];
  requests = 0;
  check(embeds(got), "vectors");
  whole = requests;
  for (long n = 0; n < whole; n += 1 + whole / 40, tried++) starve_one(n, wanted);
  for (long n = 1; n < whole; n += n) starve_one(n, wanted);
  check(tried > 30, "how many requests there are");
}

/* }================================================================== */


/* Runs a script that gives a tensor of n numbers. */
static void ask_lua (const char *script, float *numbers, int64_t n) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 1);
  lua_pushliteral(L, PLACE);
  lua_setglobal(L, "place");
  lua_settop(L, 0);
  if (luaL_dostring(L, script) != LUA_OK) puts(lua_tostring(L, -1)), exit(1);
  heed_tensor *t = heed_check(L, -1);
  check(heed_numel(t) == n && heed_read(t, HEED_FLOAT32, numbers), "Lua's numbers");
  lua_close(L);
}


/* The same bits. */
static void same (heed_tensor *got, const float *wanted, int64_t n, const char *what) {
  float *numbers = malloc((size_t)n * sizeof *numbers);
  check(got != NULL && heed_numel(got) == n && heed_read(got, HEED_FLOAT32, numbers) &&
        memcmp(numbers, wanted, (size_t)n * sizeof *numbers) == 0, what);
  free(numbers);
  heed_drop(got);
}


static void right_calls (heed_models *all, heed_model *model) {
  static float plain[4 * DIM], query[4 * DIM], short_ones[8], scores[3];
  list some = texts(4, words);
  heed_embed_options none = {.plain = true}, other = {.prompt = "query", .batch = 1},
    two = {.dims = 2};
#define LOAD "local model = assert(heed.models.load(place .. 'bert_concat'))\n"
#define WORDS "{'the cat sat', 'a dog', '', 'the dog ran the cat'}"
  ask_lua(LOAD "return model:embed(" WORDS ", {prompt = false})", plain, 4 * DIM);
  ask_lua(LOAD "return model:embed(" WORDS ", {prompt = 'query', batch = 1})", query, 4 * DIM);
  ask_lua(LOAD "return model:embed(" WORDS ", {dims = 2})", short_ones, 8);
  ask_lua("local model = assert(heed.models.load(place .. 'cross_encoder'))\n"
          "return model:score('a dog', {'the cat sat', 'a dog', ''})", scores, 3);
  same(heed_model_embed(model, some.at, 4, &none), plain, 4 * DIM, "vectors without a prompt");
  heed_text bare[] = {some.at[0], some.at[1], {NULL, 0}, some.at[3]};
  same(heed_model_embed(model, bare, 4, &none), plain, 4 * DIM, "vectors of no text");
  same(heed_model_embed(model, some.at, 4, &other), query, 4 * DIM, "vectors with a prompt");
  same(heed_model_embed(model, some.at, 4, &two), short_ones, 8, "short vectors");
  heed_tensor *vectors = heed_model_embed(model, some.at, 4, NULL);
  check(heed_rank(vectors) == 2 && heed_size(vectors, 0) == 4 && heed_size(vectors, 1) == DIM,
        "the shape of vectors");
  heed_drop(vectors);
  heed_model *pairs = heed_model_load(all, ranker, &(heed_model_options){.mapped = true});
  same(heed_model_score(pairs, some.at[1], some.at, 3), scores, 3, "scores");
  bare[0] = some.at[1];
  bare[1] = (heed_text){NULL, 0};
  ask_lua("local model = assert(heed.models.load(place .. 'cross_encoder'))\n"
          "return model:score('', {'a dog', ''})", scores, 2);
  same(heed_model_score(pairs, bare[1], bare, 2), scores, 2, "scores of no text");
  check(heed_model_tokens(pairs, (heed_text){NULL, 0}) == 2, "tokens of no text");
  check(heed_model_tokens(pairs, some.at[3]) > 6, "tokens of a text");
  heed_model_drop(pairs);
  heed_model *wide = heed_model_load(all, folder, &(heed_model_options){.dtype = "float64"});
  vectors = heed_model_embed(wide, some.at, 1, NULL);
  check(heed_type_of(vectors) == HEED_FLOAT64, "the type of vectors");
  heed_model_drop(wide);
  heed_model *small = heed_model_load(all, folder, &(heed_model_options){.quantize = "q4_0"});
  ask_lua("local model = assert(heed.models.load(place .. 'bert_concat', {quantize = 'q4_0'}))\n"
          "return model:embed(" WORDS ", {prompt = false})", query, 4 * DIM);
  same(heed_model_embed(small, some.at, 4, &none), query, 4 * DIM, "vectors of small weights");
  check(memcmp(plain, query, sizeof plain) != 0, "small weights");
  heed_model_drop(small);
  heed_drop(vectors);
  check(heed_error(heed_models_context(all)) == NULL, "no failure");
}


/* Classes as numbers: text, where its bytes begin, how many, the probability of each class. */
typedef struct classified {
  heed_model *model;
  float numbers[64];
  int n, most, classes;
} classified;

static bool note (void *self, const heed_class *found) {
  classified *y = self;
  int best = 0;
  y->numbers[y->n++] = (float)found->text;
  y->numbers[y->n++] = (float)found->at;
  y->numbers[y->n++] = (float)found->n;
  for (int i = 0; i < y->classes; i++) {
    y->numbers[y->n++] = (float)found->probabilities[i];
    if (found->probabilities[i] > found->probabilities[best]) best = i;
  }
  check(strcmp(found->label, heed_model_label(y->model, best)) == 0 &&
        found->probability == found->probabilities[best], "the class that is most probable");
  return --y->most != 0;
}


static void are_classes (heed_model *model, bool good, classified *got, const char *script, int n) {
  static float wanted[64];
  ask_lua(script, wanted, n);
  check(good && got->n == n && memcmp(got->numbers, wanted, (size_t)n * sizeof *wanted) == 0,
        script);
  *got = (classified){.model = model, .classes = got->classes};
}


/* A directory like one of three classes, whose classes are those of tokens. */
static void make_tagger (char *path) {
  static char script[1024];
  snprintf(script, sizeof script,
    "local path = '%s'\n"
    "assert(os.execute('cp -r ' .. place .. 'cross_encoder_3/. ' .. path))\n"
    "local file <close> = assert(io.open(path .. '/config.json'))\n"
    "local text = file:read 'a':gsub('ForSequenceClass', 'ForTokenClass')\n"
    "local out <close> = assert(io.open(path .. '/config.json', 'w'))\n"
    "out:write(text)\n"
    "return heed.tensor{#text}", mkdtemp(path));
  float n;
  ask_lua(script, &n, 1);
}


static void remove_place (const char *path) {
  char command[64];
  snprintf(command, sizeof command, "rm -r '%s'", path);
  check(system(command) == 0, "a directory that is removed");
}


static void classifies (heed_models *all) {
#define CLASSES(model, pair) \
  "local model = assert(heed.models.load('" model "'))\n" \
  "local texts, y = {'the cat sat', 'a dog'}, {}\n" \
  "for i, c in ipairs(model:classify(texts, {pair = " pair "})) do\n" \
  "  for _, c in ipairs(c.label and {c} or c) do\n" \
  "    local first, last = c.first or 1, c.last or #texts[i]\n" \
  "    table.move({i - 1, first - 1, last - first + 1}, 1, 3, #y + 1, y)\n" \
  "    for _, name in ipairs(model.classes.names) do y[#y + 1] = c.probabilities[name] end\n" \
  "  end\n" \
  "end\n" \
  "return heed.tensor(y)"
  list some = texts(2, words), second = texts(2, words + 1);
  heed_model *model = heed_model_load(all, PLACE "cross_encoder_3", NULL);
  classified got = {.model = model, .classes = 3};
  are_classes(model, heed_model_classify(model, some.at, NULL, 2, note, &got), &got,
              CLASSES(PLACE "cross_encoder_3", "nil"), 12);
  are_classes(model, heed_model_classify(model, some.at, second.at, 2, note, &got), &got,
              CLASSES(PLACE "cross_encoder_3", "{'a dog', ''}"), 12);
  got.most = 1;
  check(heed_model_classify(model, some.at, NULL, 2, note, &got) && got.n == 6,
        "an end that the program wants");
  check(heed_model_label(model, 3) == NULL && heed_model_label(model, -1) == NULL,
        "names of no classes");
  refused(all, heed_model_classify(model, some.at, NULL, 2, NULL, NULL), "a function of classes");
  refused(all, heed_model_classify(model, NULL, NULL, 2, note, &got), "classify: a list expected");
  refused(all, heed_model_classify(model, some.at, NULL, 0, note, &got), "classify: ");
  heed_model_drop(model);
  char path[] = "/tmp/heed-tagger-XXXXXX", script[1024];
  make_tagger(path);
  model = heed_model_load(all, path, NULL);
  snprintf(script, sizeof script, CLASSES("%s", "nil"), path);
  got = (classified){.model = model, .classes = 3};
  are_classes(model, heed_model_classify(model, some.at, NULL, 2, note, &got), &got, script,
              6 * 8);
  got.most = 2;
  check(heed_model_classify(model, some.at, NULL, 2, note, &got) && got.n == 12,
        "an end within a text");
  heed_model_drop(model);
  remove_place(path);
  model = heed_model_load(all, folder, NULL);
  check(heed_model_label(model, 0) == NULL, "names of a model without classes");
  refused(all, heed_model_classify(model, some.at, NULL, 2, note, &got), "a model with classes");
  heed_model_drop(model);
}


/* The words of a model, and after how many pieces it is to end; 0: never. */
typedef struct speech {
  char text[4096];
  size_t n;
  int pieces, most;
  heed_model *model;               /* that counts its tokens meanwhile; or NULL */
} speech;

static bool say (void *self, const char *text, size_t n) {
  speech *s = self;
  check(s->n + n < sizeof s->text, "how much is said");
  memcpy(s->text + s->n, text, n);
  s->n += n;
  if (s->model != NULL) check(heed_model_tokens(s->model, (heed_text){text, n}) > 0, "a count");
  return ++s->pieces != s->most;
}


/* What Lua's string says, an expression of 'model'. */
static void say_in_lua (const char *expression, speech *wanted) {
  char script[512];
  static float bytes[4096], n;
  snprintf(script, sizeof script, "local model = assert(heed.models.load('%s'))\n"
    "text = %s\nreturn heed.tensor{#text}", writer, expression);
  ask_lua(script, &n, 1);
  snprintf(script, sizeof script, "local model = assert(heed.models.load('%s'))\n"
    "local text = %s\nreturn heed.tensor{text:byte(1, -1)}", writer, expression);
  wanted->n = (size_t)n;
  if (wanted->n > 0) ask_lua(script, bytes, (int64_t)wanted->n);
  for (size_t i = 0; i < wanted->n; i++) wanted->text[i] = (char)bytes[i];
}


static void is_said (bool good, speech *got, const char *expression) {
  speech wanted = {0};
  say_in_lua(expression, &wanted);
  check(good && wanted.n > 0 && got->n == wanted.n && memcmp(got->text, wanted.text, got->n) == 0,
        expression);
  *got = (speech){.model = got->model};
}


static void speaks (heed_models *all) {
  heed_model *model = heed_model_load(all, writer, NULL);
  heed_text prompt = {"The text", 8};
  const char *const stop[] = {"e", NULL};
  heed_message messages[] = {{"user", {"Who are you?", 12}}};
  heed_generate_options few = {.max = 6, .greedy = true},
    drawn = {.max = 6, .temperature = 0.5, .top_k = 20, .top_p = 0.9, .min_p = 0.01,
             .repetition_penalty = 1.1, .seed = 3},
    ended = {.max = 40, .greedy = true, .stop = stop};
  speech got = {.model = model};
  is_said(heed_model_generate(model, prompt, &few, say, &got), &got,
          "model:generate('The text', {max = 6, temperature = 0})");
  is_said(heed_model_generate(model, prompt, &drawn, say, &got), &got,
          "model:generate('The text', {max = 6, temperature = 0.5, top_k = 20, top_p = 0.9, "
          "min_p = 0.01, repetition_penalty = 1.1, seed = 3})");
  is_said(heed_model_generate(model, prompt, &ended, say, &got), &got,
          "model:generate('The text', {max = 40, temperature = 0, stop = {'e'}})");
  is_said(heed_model_chat(model, messages, 1, &few, say, &got), &got,
          "model:generate({{role = 'user', content = 'Who are you?'}}, {max = 6, "
          "temperature = 0})");
  got.most = 1;
  check(heed_model_generate(model, prompt, &ended, say, &got) && got.pieces == 1,
        "an end that the program wants");
  messages[0].role = NULL;
  refused(all, heed_model_chat(model, messages, 1, NULL, say, &got), "a text, ids, messages");
  refused(all, heed_model_generate(model, prompt, &(heed_generate_options){.max = -1}, say, &got),
          "generate: ");
  const struct { const char *name; heed_generate_options options; } odd[] = {
    {"max", {.max = -1}}, {"temperature", {.temperature = -1}}, {"top_k", {.top_k = -1}},
    {"top_p", {.top_p = 2}}, {"min_p", {.min_p = 2}},
    {"repetition_penalty", {.repetition_penalty = -1}}
  };
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    refused(all, heed_model_generate(model, prompt, &odd[i].options, say, &got), odd[i].name);
  static char first[sizeof got.text];
  bool differ = false;
  for (int seed = 1; seed <= 6; seed++) {
    got = (speech){.most = 0};
    drawn = (heed_generate_options){.max = 8, .temperature = 5, .seed = seed};
    check(heed_model_generate(model, prompt, &drawn, say, &got), "what a seed draws");
    if (seed == 1) memcpy(first, got.text, sizeof first);
    else differ |= memcmp(first, got.text, sizeof first) != 0;
  }
  check(differ, "that seeds draw alike");
  heed_model_drop(model);
}


/* Tokens are those of the vectors, also where a text spells special ones; more than the model takes
   are counted, too. */
static void counts (heed_models *all) {
  static const char *const folders[] = {"bert_concat", "cross_encoder", "model2vec",
                                        "static_embedding"};
  static char long_text[6 * 4096];
  heed_text spelt = {"[SEP] [SEP] the cat", 19}, many = {long_text, sizeof long_text};
  for (size_t i = 0; i < sizeof long_text; i += 6) memcpy(long_text + i, "a dog ", 6);
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char path[64], script[256];
    float wanted;
    snprintf(path, sizeof path, PLACE "%s", folders[i]);
    snprintf(script, sizeof script, "local model = assert(heed.models.load(place .. '%s'))\n"
             "return heed.tensor{#model:ids('[SEP] [SEP] the cat')}", folders[i]);
    ask_lua(script, &wanted, 1);
    heed_model *model = heed_model_load(all, path, NULL);
    check(heed_model_tokens(model, spelt) == (int64_t)wanted, folders[i]);
    check(heed_model_tokens(model, many) >= 2 * 4096, "tokens of a long text");
    heed_model_drop(model);
  }
}


/* Texts that are NULL, but not empty. */
static void bare_texts (heed_models *all, heed_model *model) {
  const heed_text bare = {NULL, 4}, some[] = {{"a", 1}, {NULL, 4}}, good[] = {{"a", 1}, {"b", 1}};
  heed_message said[] = {{"user", {NULL, 4}}};
  classified got = {0};
  heed_model *pairs = heed_model_load(all, ranker, NULL), *speaker = heed_model_load(all, writer,
                                                                                     NULL);
  refused(all, heed_model_embed(model, some, 2, NULL) != NULL,
          "embed: a text expected at position 2, got NULL of length 4");
  refused(all, heed_model_tokens(model, bare) != -1,
          "tokens: a text expected, got NULL of length 4");
  refused(all, heed_model_score(pairs, bare, good, 2) != NULL,
          "score: the query: a text expected, got NULL of length 4");
  refused(all, heed_model_score(pairs, good[0], some, 2) != NULL,
          "score: a text expected at position 2, got NULL of length 4");
  refused(all, heed_model_classify(pairs, some, NULL, 2, note, &got),
          "classify: a text expected at position 2, got NULL of length 4");
  refused(all, heed_model_classify(pairs, good, some, 2, note, &got),
          "classify: option pair: a text expected at position 2, got NULL of length 4");
  refused(all, heed_model_generate(speaker, bare, NULL, say, NULL),
          "generate: a text expected, got NULL of length 4");
  refused(all, heed_model_chat(speaker, said, 1, NULL, say, NULL),
          "generate: the content: a text expected at position 1, got NULL of length 4");
  heed_model_drop(pairs);
  heed_model_drop(speaker);
}


static void wrong_calls (heed_models *all, heed_model *model) {
  list some = texts(2, words);
  heed_embed_options odd = {.prompt = "nowhere"}, large = {.dims = 999}, few = {.batch = -1};
  refused(all, heed_model_load(all, "/no/such/place", NULL), "/no/such/place");
  refused(all, heed_model_load(all, NULL, NULL), "models.load: a path expected, got NULL");
  refused(all, heed_model_load(all, folder, &(heed_model_options){.dtype = "float3"}), "float3");
  refused(all, heed_model_load(all, folder, &(heed_model_options){.quantize = "q9"}), "'q9'");
  refused(all, heed_model_load(all, folder, &(heed_model_options){.device = "x"}), "x");
  refused(all, heed_model_embed(model, some.at, 2, &odd), "nowhere");
  refused(all, heed_model_embed(model, some.at, 2, &large), "at most 192 expected");
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
        heed_model_tokens(NULL, some.at[0]) == -1 && heed_model_label(NULL, 0) == NULL &&
        !heed_model_classify(NULL, some.at, NULL, 2, note, NULL) &&
        !heed_model_generate(NULL, some.at[0], NULL, say, NULL) &&
        !heed_model_chat(NULL, NULL, 0, NULL, say, NULL), "NULL in, NULL out");
  heed_model_drop(NULL);
  heed_models_close(NULL);
}


/* There is little memory for what is left of models that were dropped. */
static void drops (heed_models *all) {
  heed_context *cx = heed_models_context(all);
  const heed_memory now = heed_memory_now(cx);
  heed_memory_limit(cx, now.live + now.other + (8 << 20));
  for (int i = 0; i < 20; i++) {
    heed_model *model = heed_model_load(all, folder, NULL);
    check(model != NULL, "a model in the memory of those that were dropped");
    heed_model_drop(model);
  }
  heed_clear(cx);
  heed_memory_limit(cx, 0);
}


int main (void) {
  static float wanted[4 * DIM];
  ask_lua(LOAD "return model:embed(" WORDS ")", wanted, 4 * DIM);
  heed_models *all = heed_models_open();
  heed_model *model = heed_model_load(all, folder, NULL);
  right_calls(all, model);
  wrong_calls(all, model);
  right_calls(all, model);
  drops(all);
  counts(all);
  bare_texts(all, model);
  classifies(all);
  speaks(all);
  heed_models_close(all);
  starve(wanted);
  if (!failed) puts("models: what Lua has, and each mistake is reported");
  return failed;
}
