/*
** text.c - tokenizers where memory ends: at each allocation of reading, encoding, decoding and
** training in turn. A failure leaves nothing behind, and the next call is as before. And NULL in
** the place of what they want.
*/

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing.h"
#include "heed_text.h"
#include "memory/block.h"
#include "text/train.h"

static int failures = 0;

static void check (bool good, const char *what, long at) {
  if (good) return;
  printf("text: %s, allocation %ld\n", what, at);
  failures++;
}


#define ADDED \
  "\"added_tokens\":[{\"id\":9,\"content\":\"<m>\",\"special\":true,\"normalized\":true}],"
#define NORMALIZERS \
  "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}," \
  "{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":true," \
  "\"handle_chinese_chars\":true,\"clean_text\":true},{\"type\":\"Nmt\"},{\"type\":\"Replace\"," \
  "\"pattern\":{\"Regex\":\"z+\"},\"content\":\"b\"},{\"type\":\"Prepend\",\"prepend\":\"a\"}," \
  "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAA=\"}]},"
#define TEMPLATE \
  "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"<m>\",9],\"sep\":[\"<m>\",9]},"
#define NAMES \
  "\"?\":0,\"a\":1,\"b\":2,\"ab\":3,\"##b\":4,\"\\u2581a\":5,\"\\u0120\":6,\"c\":7," \
  "\"<0x41>\":8"
#define FOUR(x) x x x x
#define LONG(x) FOUR(FOUR(FOUR(x x x x x)))             /* two of them take more than 512 bytes */
#define LONG_NAMES "\"" LONG("x") "\":10,\"" LONG("y") "\":11,\"" LONG("x") LONG("y") "\":12"

/* Files of each kind of model, with parts that keep memory. */
static const char *const FILES[] = {
  "{" ADDED NORMALIZERS TEMPLATE "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
  "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
  "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
  "\"vocab\":{" NAMES "}}}",
  "{" ADDED TEMPLATE "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},"
  "\"decoder\":{\"type\":\"ByteLevel\"},"
  "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[\"a b\",\"" LONG("x") " " LONG("y")
  "\"],\"vocab\":{" NAMES "," LONG_NAMES "}}}",
  "{" ADDED NORMALIZERS "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
  "\"prepend_scheme\":\"always\"},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
  "{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}]},"
  "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"?\",0],"
  "[\"a\",-1],[\"b\",-2],[\"ab\",-1.5],[\"##b\",-3],[\"\\u2581a\",-2],[\"x\",-3],[\"c\",-4],"
  "[\"<0x41>\",-5]]}}",
  /* each letter at the text's end is two bytes, of which the list of tokens is full */
  "{" ADDED "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,"
  "\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-2],[\"ab\",-1.5],[\"<0xC3>\",-3],[\"<0xA9>\",-2],"
  "[\"z\",-3],[\"x\",-4],[\"d\",-5]]}}",
  "{" ADDED "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+|(?:a|b)c\"},"
  "\"behavior\":\"Removed\"},\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"?\","
  "\"word_delimiter_token\":\"a\"},"
  "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{" NAMES "}}}",
  "{" ADDED "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\","
  "\"use_regex\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"b+\"},\"behavior\":"
  "\"Isolated\"}]},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{" NAMES "}}}"
};
enum { FILES_THERE = sizeof FILES / sizeof *FILES };

static const char TEXT[] =
  "ab <m>abzzz  \xc3\xa9" "A ab\xff zc <m> the text is long enough to need "
  "abababababababababababababababababababababababababababababababababab"
  LONG("\xc3\xa9");



/* A number that says what came out; 0: a failure. */
static uint64_t use (heed_tokenizer *t) {
  const heed_tokenizing how = {.special = true, .parse = true};
  heed_tokens tokens;
  heed_text text;
  heed_stream stream = {.special = true};
  uint64_t sum = 1;
  if (!heed_tokenize(t, TEXT, sizeof TEXT - 1, "ab c", 4, &how, &tokens)) return 0;
  int64_t n = tokens.n, *ids = malloc((size_t)n * sizeof *ids);
  for (int64_t i = 0; i < n; i++) {
    ids[i] = tokens.ids[i];
    sum = sum * 31 + (uint64_t)(ids[i] + 7 * tokens.offsets[2 * i] + tokens.offsets[2 * i + 1] +
                                tokens.types[i]);
  }
  bool good = heed_detokenize(t, ids, n, true, &text);
  if (good) sum = sum * 31 + text.n;
  for (int64_t i = 0; good && i < n; i++) {
    good = heed_stream_push(t, &stream, ids[i], &text);
    if (good) sum = sum * 31 + text.n;
  }
  good = good && heed_stream_finish(t, &stream, &text);
  free(ids);
  return good ? sum : 0;
}


static uint64_t learn (heed_context *cx, bool byte_level) {
  static const char *const parts[] = {
    "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},"
    "\"merges\":[],\"continuing_subword_prefix\":\"##\"}}",
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},"
    "\"merges\":[]}}"
  };
  const heed_text special = {"<s>", 3};
  const heed_training how = {&special, 1, 300, 1, 50};
  heed_trainer *r = heed_trainer_new(cx, parts[byte_level], strlen(parts[byte_level]));
  bool good = r != NULL && heed_trainer_feed(r, TEXT, sizeof TEXT - 1) &&
              heed_trainer_feed(r, "and more words", 14) &&
              heed_trainer_make(r, &how) && heed_trainer_make(r, &how);     /* the same again */
  uint64_t sum = (uint64_t)heed_trainer_count(r);
  int64_t ids[2];
  for (int64_t i = 0; heed_trainer_merge(r, i, ids); i++)
    sum = sum * 31 + (uint64_t)(ids[0] - ids[1]);
  heed_trainer_drop(r);
  return good ? sum : 0;
}


/* The trial: reading and using a file, or training. */
static uint64_t run (heed_context *cx, int which) {
  if (which >= FILES_THERE) return learn(cx, which > FILES_THERE);
  heed_tokenizer *t = heed_tokenizer_read(cx, FILES[which], strlen(FILES[which]));
  uint64_t sum = t != NULL ? use(t) : 0;
  heed_tokenizer_drop(t);
  return sum;
}


/* A call that fails in a tokenizer that stays, which works as before then. */
static void check_kept (heed_context *cx, failing *memory, int which, uint64_t wanted) {
  for (long at = 0; ; at++) {
    heed_tokenizer *t = heed_tokenizer_read(cx, FILES[which], strlen(FILES[which]));
    memory->failed = false;
    memory->countdown = at;
    uint64_t sum = use(t);
    memory->countdown = -1;
    bool failed = memory->failed;
    check(failed ? sum == 0 || sum == wanted : sum == wanted, "what fails says so", at);
    heed_clear(cx);
    check(use(t) == wanted, "the tokenizer works as before", at);
    heed_tokenizer_drop(t);
    if (!failed) break;
  }
}


enum { ONCE, TWICE, ONWARDS, WAYS };

static void check_run (int which, int fails) {
  failing memory = {.countdown = -1, .twice = fails == TWICE, .onwards = fails == ONWARDS};
  heed_host host = {.resize = failing_resize, .self = &memory};
  heed_context *cx = heed_open(&host);
  if (cx == NULL) {
    check(false, "a context opens", 0);
    return;
  }
  uint64_t wanted = run(cx, which);
  check(wanted != 0 && heed_error(cx) == NULL, heed_error(cx) ? heed_error(cx) : "it works", 0);
  long at = 0;
  for (bool failed = true; failed; at++) {
    core_trim(cx);
    long alive = memory.alive, taken = memory.bytes;
    memory.failed = false;
    memory.countdown = at;
    uint64_t sum = run(cx, which);
    memory.countdown = -1;
    failed = memory.failed;
    check(sum == (heed_error(cx) != NULL ? 0 : wanted), "a result, or a failure", at);
    heed_clear(cx);
    core_trim(cx);
    check(memory.alive == alive && memory.bytes == taken, "nothing stays behind", at);
  }
  check(at > 10, "there were allocations", at);
  if (which < FILES_THERE && fails != ONWARDS) check_kept(cx, &memory, which, wanted);
  heed_close(cx);
  check(memory.alive == 0 && memory.bytes == 0, "the context takes all with it", 0);
}


/* What the file says of its tokens. */
static void check_tokens (void) {
  heed_context *cx = heed_open(NULL);
  heed_tokenizer *t = heed_tokenizer_read(cx, FILES[0], strlen(FILES[0]));
  for (int64_t id = -1; id < 20; id++)
    check(heed_token_is_special(t, id) == (id == 10), "<m> alone is special", (long)id);
  check(!heed_token_is_special(NULL, 10), "nothing is special without a tokenizer", 0);
  heed_tokenizer_drop(t);
  heed_close(cx);
}


/* A call with NULL failed, with a message, which is cleared; the calls go by their numbers. */
static long calls;

static void refused (heed_context *cx, bool failed, const char *message) {
  const char *got = heed_error(cx);
  calls++;
  check(failed && got != NULL && strcmp(got, message) == 0, got != NULL ? got : message, calls);
  heed_clear(cx);
}


static void check_null_tokens (heed_context *cx) {
  heed_tokenizer *t = heed_tokenizer_read(cx, FILES[0], strlen(FILES[0]));
  const heed_tokenizing plain = {.special = false}, parts = {.nparts = 1};
  heed_stream s = {.special = true};
  heed_tokens k;
  heed_text text;
  size_t n;
  refused(cx, !heed_tokenize(t, NULL, 1, NULL, 0, &plain, &k),
          "tokenize: a text expected, got NULL");
  refused(cx, !heed_tokenize(t, "a", 1, NULL, 0, &plain, NULL),
          "tokenize: a place for tokens expected, got NULL");
  refused(cx, !heed_tokenize(t, "a", 1, NULL, 0, &parts, &k),
          "tokenize: a list of parts expected, got NULL");
  check(heed_tokenize(t, "<m>", 3, NULL, 7, &plain, &k), "tokens without options", 0);
  int64_t wanted = k.n;
  check(heed_tokenize(t, "<m>", 3, NULL, 0, NULL, &k) && k.n == wanted, "zeros are as NULL", 0);
  check(heed_tokenize(t, NULL, 0, NULL, 0, NULL, &k), "an empty text may be NULL", 0);
  refused(cx, !heed_detokenize(t, NULL, 1, false, &text),
          "detokenize: a list of ids expected, got NULL");
  refused(cx, !heed_detokenize(t, (int64_t[]){2}, 1, false, NULL),
          "detokenize: a place for the text expected, got NULL");
  check(heed_detokenize(t, NULL, 0, false, &text) && text.n == 0, "no ids may be NULL", 0);
  refused(cx, !heed_stream_push(t, NULL, 1, &text), "stream_push: a stream expected, got NULL");
  refused(cx, !heed_stream_push(t, &s, 1, NULL),
          "stream_push: a place for the text expected, got NULL");
  refused(cx, !heed_stream_finish(t, NULL, &text), "stream_finish: a stream expected, got NULL");
  refused(cx, !heed_stream_finish(t, &s, NULL),
          "stream_finish: a place for the text expected, got NULL");
  refused(cx, heed_token_name(t, 1, NULL) == NULL,
          "token_name: a place for the length expected, got NULL");
  check(heed_token_name(t, 99, NULL) == NULL, "no token has no name", 0);
  refused(cx, heed_token_id(t, NULL, 1) == 0, "token_id: a name expected, got NULL");
  check(heed_token_id(t, NULL, 0) == 0 && heed_error(cx) == NULL, "an empty name is none", 0);
  check(!heed_tokenize(NULL, NULL, 1, NULL, 0, NULL, NULL) && heed_token_id(NULL, NULL, 3) == 0 &&
        !heed_detokenize(NULL, NULL, 1, false, NULL) && !heed_stream_push(NULL, NULL, 1, NULL) &&
        !heed_stream_finish(NULL, NULL, NULL) && heed_token_name(NULL, 1, &n) == NULL &&
        heed_token_padding(NULL) == 0 && heed_token_unknown(NULL) == 0 &&
        heed_token_count(NULL) == 0 && !heed_tokenizer_is_left(NULL), "NULL in, NULL out", 0);
  heed_tokenizer_drop(t);
  heed_tokenizer_drop(NULL);
}


static void check_null_training (heed_context *cx) {
  static const char parts[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}";
  const heed_text bare = {NULL, 2};          /* characters are tokens once, without a prefix */
  const heed_training none = {NULL, 1, 300, 1, 50}, wrong = {&bare, 1, 300, 1, 50},
    good = {NULL, 0, 300, 1, 50};
  int64_t ids[2];
  heed_trainer *r = heed_trainer_new(cx, parts, sizeof parts - 1);
  check(heed_trainer_feed(r, "abab", 4) && heed_trainer_feed(r, NULL, 0), "texts are fed", 0);
  refused(cx, !heed_trainer_feed(r, NULL, 1), "trainer_feed: a text expected, got NULL");
  refused(cx, !heed_trainer_make(r, NULL), "trainer_make: what to make expected, got NULL");
  refused(cx, !heed_trainer_make(r, &none),
          "trainer_make: a list of special tokens expected, got NULL");
  refused(cx, !heed_trainer_make(r, &wrong),
          "trainer_make: the text of a special token expected, got NULL");
  check(heed_trainer_make(r, &good) && heed_trainer_merge(r, 0, ids) &&
        heed_trainer_count(r) == 4, "tokens are made: a, b, ab, abab", heed_trainer_count(r));
  refused(cx, !heed_trainer_merge(r, 0, NULL),
          "trainer_merge: a place for two ids expected, got NULL");
  check(heed_trainer_new(NULL, parts, 1) == NULL && !heed_trainer_feed(NULL, NULL, 1) &&
        !heed_trainer_make(NULL, NULL) && heed_trainer_count(NULL) == 0 &&
        heed_trainer_token(NULL, 1).at == NULL && !heed_trainer_merge(NULL, 0, NULL),
        "NULL in, NULL out", 0);
  heed_trainer_drop(r);
  heed_trainer_drop(NULL);
}


static void check_null (void) {
  heed_context *cx = heed_open(NULL);
  refused(cx, heed_tokenizer_read(cx, NULL, 5) == NULL,
          "tokenizer: a text of JSON expected, got NULL");
  refused(cx, heed_trainer_new(cx, NULL, 4) == NULL,
          "tokenizer: a text of JSON expected, got NULL");
  check(heed_tokenizer_read(NULL, NULL, 5) == NULL, "NULL in, NULL out", 0);
  check_null_tokens(cx);
  check_null_training(cx);
  heed_close(cx);
}


/* No byte behind a text is read, where a piece goes on as far as it ends, or beyond. */
static void check_ends (void) {
  static const char file[] =
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
    "[[\"?\",-9],[\"abcd\",-1],[\"b\",-1]]}}";
  heed_context *cx = heed_open(NULL);
  heed_tokenizer *t = heed_tokenizer_read(cx, file, sizeof file - 1);
  heed_tokens k = {0};
  for (size_t n = 1; n <= 4; n++) {
    char *text = malloc(n);
    if (text == NULL) break;
    memcpy(text, "abcd", n);
    check(heed_tokenize(t, text, n, NULL, 0, NULL, &k) && k.ids[0] == (n == 4 ? 2 : 1),
          "a text without a byte behind it", (long)n);
    free(text);
  }
  heed_tokenizer_drop(t);
  heed_close(cx);
}


/* A word stands once among those that were counted, however many there are. */
static void check_words (void) {
  enum { WORDS = 5000 };
  static const char parts[] =
    "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},"
    "\"merges\":[]}}";
  heed_context *cx = heed_open(NULL);
  heed_trainer *r = heed_trainer_new(cx, parts, sizeof parts - 1);
  for (int i = 0; i < 2 * WORDS; i++) {
    char word[16];
    int n = snprintf(word, sizeof word, "w%d", i % WORDS);
    check(heed_trainer_feed(r, word, (size_t)n), "a word is counted", i);
  }
  int64_t twice = 0, n = r->t->counts->words.n;
  for (int64_t i = 0; i < n; i++) twice += r->t->counts->words.at[i].count == 2;
  check(n == WORDS && twice == WORDS, "each word is there once, counted twice", (long)n);
  heed_trainer_drop(r);
  heed_close(cx);
}


int main (void) {
  check_words();
  check_tokens();
  check_ends();
  check_null();
  for (int which = 0; which < FILES_THERE + 2; which++)
    for (int fails = 0; fails < WAYS; fails++) check_run(which, fails);
  return failures > 0;
}
