/*
** ends.c - texts, JSON, ids and rows that end where the memory ends, or begin where it begins:
** nothing beside them is read, and what comes out is what comes out elsewhere.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heed_json.h"
#include "heed_search.h"
#include "heed_text.h"

#define ROOM ((size_t)64 << 10)        /* a multiple of any page */
#define COUNT(list) (sizeof (list) / sizeof *(list))

static int failed;
static unsigned char *room;            /* beside it nothing may be touched */

static void check (bool good, const char *what, size_t i, size_t k) {
  if (good) return;
  printf("ends: %s: wrong at %zu, %zu\n", what, i, k);
  failed = 1;
}


static bool open_room (void) {
  unsigned char *memory = mmap(NULL, 3 * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  room = memory + ROOM;
  return mprotect(room, ROOM, PROT_READ | PROT_WRITE) == 0;
}


/* Bytes that stand at the start of the room or at its end. */
static const void *put (const void *bytes, size_t n, bool last) {
  unsigned char *at = last ? room + ROOM - n : room;
  if (n > 0) memcpy(at, bytes, n);
  return at;
}


/*
** {==================================================================
** Texts
** ===================================================================
*/

static const char *const PARTS[] = {
  "", "a", "ab", "b", " ", "  ", "\n", "\xc3\xa9", "e\xcc\x81", "\xcc\x81", "<m>", "<m", "'s", "'",
  "1", "12", ".", "A", "\xe1\x84\x92\xe1\x85\xa1", "\xed\x95\x9c", "\xef\xac\x81", "\xc3",
  "\xe2\x82", "\xf0\x9f\x98", "\xf0\x9f\x98\x80", "\xa9", "\xe2\x96\x81", "\xe4\xb8\x80", "##"
};

#define ADDED "\"added_tokens\":[{\"id\":12,\"content\":\"<m>\",\"lstrip\":true,\"rstrip\":true," \
  "\"single_word\":true,\"normalized\":false,\"special\":true}],"
#define NAMES "\"?\":0,\"a\":1,\"b\":2,\"ab\":3,\" \":4,\"e\":5,\"\xc3\xa9\":6,\"f\":7,\"##b\":8," \
  "\"i\":9,\"\xc4\xa0\":10,\"##\":11"
#define BPE "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[\"a b\"],\"vocab\":{" \
  NAMES "}}"
#define NORMAL(part) "{" ADDED "\"normalizer\":{\"type\":" part "}," BPE "}"
#define SPLIT(part) "{" ADDED "\"pre_tokenizer\":{\"type\":" part "}," BPE "}"
#define MODEL(part) "{" ADDED "\"model\":{\"type\":" part "}}"
#define CUT(pattern) SPLIT("\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":" \
  "\"Isolated\"")

static const char *const FILES[] = {
  "{" ADDED BPE "}",
  NORMAL("\"NFC\""), NORMAL("\"NFD\""), NORMAL("\"NFKC\""), NORMAL("\"NFKD\""), NORMAL("\"Nmt\""),
  NORMAL("\"Lowercase\""), NORMAL("\"StripAccents\""), NORMAL("\"ByteLevel\""),
  NORMAL("\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
         "\"strip_accents\":true,\"lowercase\":true"),
  NORMAL("\"Strip\",\"strip_left\":true,\"strip_right\":true"),
  NORMAL("\"Prepend\",\"prepend\":\"\xe2\x96\x81\""),
  NORMAL("\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"a\""),
  NORMAL("\"Replace\",\"pattern\":{\"Regex\":\"a+|\\\\s$\"},\"content\":\"ab\""),
  SPLIT("\"ByteLevel\",\"add_prefix_space\":true"), SPLIT("\"BertPreTokenizer\""),
  SPLIT("\"Whitespace\""), SPLIT("\"WhitespaceSplit\""), SPLIT("\"Punctuation\""),
  SPLIT("\"Digits\",\"individual_digits\":false"), SPLIT("\"FixedLength\",\"length\":2"),
  SPLIT("\"CharDelimiterSplit\",\"delimiter\":\"b\""),
  SPLIT("\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"first\""),
  CUT("^a|b$|\\\\n"), CUT("a(?!b)|a(?=b)"), CUT("(?i:'s|k)|.+?"), CUT("[^a]{2}|a*+b?"),
  MODEL("\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-3],[\"b\",-3],[\"ab\",-1],"
        "[\"\xc3\xa9\",-2]]"),
  MODEL("\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{" NAMES "}"),
  MODEL("\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{" NAMES "}")
};


/* A number that says what came out. */
static uint64_t tokenize (heed_tokenizer *t, const char *text, size_t n, bool paired) {
  const heed_tokenizing how = {.special = true, .parse = true};
  heed_tokens k;
  uint64_t sum = 7;
  if (!heed_tokenize(t, paired ? "a" : text, paired ? 1 : n, paired ? text : NULL, n, &how, &k))
    return 0;
  for (int64_t i = 0; i < k.n; i++)
    sum = sum * 31 + (uint64_t)(k.ids[i] + 7 * k.offsets[2 * i] + k.offsets[2 * i + 1]);
  return sum;
}


static void check_text (heed_tokenizer *t, size_t file, const char *text, size_t n) {
  const uint64_t wanted = tokenize(t, text, n, false), paired = tokenize(t, text, n, true);
  check(wanted != 0 && paired != 0, "a text has tokens", file, n);
  for (int last = 0; last < 2; last++) {
    const char *at = put(text, n, last);
    check(tokenize(t, at, n, false) == wanted, "a text", file, n);
    check(tokenize(t, at, n, true) == paired, "a second text", file, n);
    const int64_t id = heed_token_id(t, text, n);
    check(heed_token_id(t, at, n) == id, "a name", file, n);
  }
}


static void check_ids (heed_tokenizer *t, size_t file) {
  const int64_t ids[] = {2, 1, 4, 3, 4};
  heed_text text;
  for (size_t n = 0; n <= COUNT(ids); n++) {
    check(heed_detokenize(t, ids, (int64_t)n, true, &text), "ids have a text", file, n);
    char *wanted = calloc(text.n + 1, 1);
    memcpy(wanted, text.at, text.n);
    for (int last = 0; last < 2; last++)
      check(heed_detokenize(t, put(ids, n * sizeof *ids, last), (int64_t)n, true, &text) &&
            memcmp(text.at, wanted, text.n) == 0 && wanted[text.n] == '\0', "ids", file, n);
    free(wanted);
  }
}


static void check_texts (heed_context *cx) {
  for (size_t file = 0; file < COUNT(FILES); file++) {
    const char *json = FILES[file];
    heed_tokenizer *t = heed_tokenizer_read(cx, put(json, strlen(json), true), strlen(json));
    if (t == NULL) puts(heed_error(cx)), exit(1);
    for (size_t i = 0; i < COUNT(PARTS); i++) {
      for (size_t k = 0; k < COUNT(PARTS); k++) {
        char text[16];
        const int n = snprintf(text, sizeof text, "%s%s", PARTS[i], PARTS[k]);
        check_text(t, file, text, (size_t)n);
      }
    }
    check_ids(t, file);
    heed_tokenizer_drop(t);
  }
}


static void check_training (heed_context *cx) {
  static const char parts[] = "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":"
    "\"BPE\",\"vocab\":{},\"merges\":[]}}";
  const heed_text special = {put("<s>", 3, true), 3};
  const heed_training how = {&special, 1, 300, 1, 50};
  heed_trainer *r = heed_trainer_new(cx, parts, sizeof parts - 1);
  check(heed_trainer_make(r, &how) && heed_trainer_count(r) == 1, "special tokens", 0, 0);
  for (size_t i = 0; i < COUNT(PARTS); i++)
    for (int last = 0; last < 2; last++)
      check(heed_trainer_feed(r, put(PARTS[i], strlen(PARTS[i]), last), strlen(PARTS[i])),
            "texts are fed", i, 0);
  heed_trainer_drop(r);
}

/* }================================================================== */


/*
** {==================================================================
** JSON, cut behind each byte
** ===================================================================
*/

static const char DOCUMENT[] =
  " { \"a\\n\\u00e9\\ud83d\\ude00bcdefghi\\\\\" : [ 1.5e+3 , -0,true,false,null, 12, "
  "\"\xc3\xa9x\"],\"\":{},\"b\":[[]] , \"long enough for some words\": 1E-2 }  ";

/* All values, as heed_json.h has them; a number that says which, with what is wrong. */
static uint64_t read_value (heed_json *j) {
  heed_json_value v = {.start = 0};
  char text[64];
  const heed_json_kind kind = heed_json_read(j, &v);
  uint64_t sum = (uint64_t)kind;
  if (kind == HEED_JSON_TEXT) {
    const size_t n = heed_json_text(j->text, &v, text);
    for (size_t i = 0; i < n; i++) sum = sum * 31 + (unsigned char)text[i];
  }
  else if (kind == HEED_JSON_ARRAY || kind == HEED_JSON_OBJECT) {
    int more = heed_json_first(j, kind);
    for (; more > 0; more = heed_json_another(j, kind)) {
      if (kind == HEED_JSON_OBJECT && !heed_json_name(j, &v)) return sum;
      sum = sum * 31 + read_value(j);
      if (j->wrong[0] != '\0') return sum;
    }
    sum = sum * 31 + (uint64_t)more;
  }
  return sum * 31 + v.start * 7 + v.end;
}


static uint64_t read_json (const char *text, size_t n, heed_json *j) {
  uint64_t sum = heed_json_open(j, text, n, 8) ? read_value(j) : 5;
  if (j->wrong[0] == '\0') sum = sum * 2 + heed_json_ended(j);
  return sum;
}


static void check_json (void) {
  heed_json j, k;
  for (size_t from = 0; from < 80; from++) {
    for (size_t to = from; to < sizeof DOCUMENT; to++) {
      const size_t n = to - from;
      const uint64_t wanted = read_json(DOCUMENT + from, n, &j);
      for (int last = 0; last < 2; last++) {
        check(read_json(put(DOCUMENT + from, n, last), n, &k) == wanted, "JSON", from, to);
        check(strcmp(j.wrong, k.wrong) == 0, "what is wrong with JSON", from, to);
      }
    }
  }
  check(read_json(DOCUMENT, sizeof DOCUMENT - 1, &j) != 0 && j.wrong[0] == '\0', j.wrong, 0, 0);
}

/* }================================================================== */


/*
** {==================================================================
** Rows: those of one dim are searched from both ends
** ===================================================================
*/

enum { ROWS = 3, MOST_DIM = 70 };

static void check_rows (heed_context *cx, heed_rows_kind kind, int64_t dim) {
  const int64_t widths[] = {dim * (int64_t)sizeof (float), dim, (dim + 7) / 8};
  unsigned char bytes[ROWS * MOST_DIM * sizeof (float)];
  float floats[ROWS * MOST_DIM], scores[2][ROWS];
  int64_t positions[2][ROWS];
  for (size_t i = 0; i < COUNT(floats); i++) floats[i] = (float)((int)(i * 37 % 19) - 9) / 8;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 101 % 200 / 3);
  const int64_t width = widths[kind];
  const size_t n = ROWS * (size_t)width;
  const void *data = kind == HEED_ROWS_FLOAT32 ? (const void *)floats : bytes;
  heed_rows rows = {kind, ROWS, dim, width, data, NULL}, query = rows;
  query.n = 1;
  for (int exact = 0; exact < 2; exact++) {
    rows.data = query.data = data;
    const float *again = exact ? floats : NULL;
    check(heed_nearest(cx, &rows, &query, again, ROWS, positions[0], scores[0]), "rows are found",
          (size_t)kind, (size_t)dim);
    for (int last = 0; last < 2; last++) {
      rows.data = query.data = put(data, n, last);
      check(heed_nearest(cx, &rows, &query, again, ROWS, positions[1], scores[1]) &&
            memcmp(positions[0], positions[1], sizeof *positions) == 0 &&
            memcmp(scores[0], scores[1], sizeof *scores) == 0, "rows", (size_t)kind, (size_t)dim);
    }
  }
}

/* }================================================================== */


int main (void) {
  heed_context *cx = heed_open(NULL);
  if (cx == NULL || !open_room()) return 1;
  check_texts(cx);
  check_training(cx);
  check_json();
  for (int kind = HEED_ROWS_FLOAT32; kind <= HEED_ROWS_BITS; kind++)
    for (int64_t dim = 1; dim <= MOST_DIM; dim++) check_rows(cx, (heed_rows_kind)kind, dim);
  check(heed_error(cx) == NULL, heed_error(cx) != NULL ? heed_error(cx) : "no failure", 0, 0);
  heed_close(cx);
  return failed;
}
