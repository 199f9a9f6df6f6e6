/*
** text_stops.c - tokenizers that are interrupted: every loop over a text polls, so that a long one
** ends soon, wherever it is; the call after it is as before. See polls.h.
*/

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heed_text.h"
#include "polls.h"

static int failures = 0;


static void check (bool good, const char *name, const char *what, long at) {
  if (good) return;
  printf("text_stops: %s: %s, poll %ld of %ld\n", name, what, at, polls);
  failures++;
}


#define BYTES (1 << 19)
#define NAMES "\"?\":0,\"a\":1,\"b\":2,\"ab\":3"

/* A text repeats two bytes, which become a token, or four, which become two. A loop over the bytes
   polls 32 times, once in 0x4000 steps, one over tokens 16 times: 'least' is what all loops do
   together, less a few, so that none can lose its polls; nor does one poll at each step. */
static const struct row { const char *name, *file, *text; long least; } ROWS[] = {
  /* letters, symbols, pairs, joins of pairs; tokens of the word; given, widened, in a template */
  {"BPE", "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"merges\":[\"a b\"],\"vocab\":{"
   NAMES "}}}", "ab", 236},
  /* ways, places, tokens from the end; given, widened, in a template */
  {"Unigram", "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-3],"
   "[\"b\",-3],[\"ab\",-1]]}}", "ab", 188},
  /* each word is looked up: a poll in 256; widened, in a template */
  {"words", "{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{\"type\":\"WordLevel\","
   "\"unk_token\":\"?\",\"vocab\":{" NAMES "}}}", "a ", 1068},
  /* a Replace goes over the text, and what it makes is a word */
  {"Replace", "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":"
   "\"a\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-3],"
   "[\"aa\",-1]]}}", "ab", 220},
  /* Unigram, and a normalizer that keeps all */
  {"Strip", "{\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},"
   "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-3],[\"b\",-3],"
   "[\"ab\",-1]]}}", "ab", 220},
  /* Unigram, and letters are taken apart, side by side or each alone */
  {"NFD", "{\"normalizer\":{\"type\":\"NFD\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
   "\"vocab\":[[\"?\",-9],[\"e\\u0301\",-3]]}}", "\xc3\xa9", 252},
  {"NFD alone", "{\"normalizer\":{\"type\":\"NFD\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
   "\"vocab\":[[\"?\",-9],[\"e\\u0301\",-3],[\"aa\",-3]]}}", "\xc3\xa9" "aa", 204},
  /* Unigram, and normalizers that change nothing here: bytes, and characters */
  {"normalizers", "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
   "\"ByteLevel\"},{\"type\":\"Lowercase\"},{\"type\":\"NFD\"},{\"type\":\"NFKC\"},{\"type\":"
   "\"Nmt\"},{\"type\":\"StripAccents\"},{\"type\":\"BertNormalizer\",\"clean_text\":true,"
   "\"handle_chinese_chars\":true,\"strip_accents\":true,\"lowercase\":true}]},\"model\":{\"type\":"
   "\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",-9],[\"a\",-3],[\"b\",-3],[\"ab\",-1]]}}", "ab",
   252},
};


static int64_t tokens_of (heed_tokenizer *t, const char *text) {
  const heed_tokenizing how = {.special = true};
  heed_tokens tokens;
  return heed_tokenize(t, text, BYTES, NULL, 0, &how, &tokens) ? tokens.n : -1;
}


static void check_row (const struct row *row, char *text) {
  heed_context *cx = heed_open(NULL);
  heed_tokenizer *t = heed_tokenizer_read(cx, row->file, strlen(row->file));
  if (t == NULL) puts(heed_error(cx)), exit(1);
  for (int i = 0; i < BYTES; i++) text[i] = row->text[(size_t)i % strlen(row->text)];
  polls = 0;
  check(tokens_of(t, text) == BYTES / 2, row->name, "tokens", 0);
  long all = polls;
  check(all >= row->least, row->name, "polls expected", row->least);
  check(all <= row->least + row->least / 4, row->name, "polls at most", row->least);
  for (long at = 0; at < all; at += 1 + all / 20) {
    countdown = at;
    polls = 0;
    check(tokens_of(t, text) == -1, row->name, "an interrupt ends the call", at);
    check(polls == at + 1, row->name, "an interrupt ends it at once", at);
    check(heed_error(cx) != NULL && strstr(heed_error(cx), "interrupted") != NULL, row->name,
          "the failure says so", at);
    heed_clear(cx);
  }
  countdown = -1;
  polls = 0;
  check(tokens_of(t, text) == BYTES / 2 && polls == all, row->name, "the call after it", 0);
  heed_tokenizer_drop(t);
  heed_close(cx);
}


/* At each place of a text the bytes of a long piece are compared, which ends otherwise. */
static void check_tail (void) {
  enum { PIECE = 1 << 14, TEXT = 2 * PIECE };
  static char letters[TEXT + 1], file[PIECE + 99];
  memset(letters, 'a', TEXT);
  snprintf(file, sizeof file, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
           "[\"?\",-9],[\"a\",-3],[\"%.*sb\",-1]]}}", PIECE, letters);
  heed_context *cx = heed_open(NULL);
  heed_tokenizer *t = heed_tokenizer_read(cx, file, strlen(file));
  heed_tokens tokens;
  polls = 0;
  check(heed_tokenize(t, letters, TEXT, NULL, 0, NULL, &tokens) && tokens.n == TEXT, "tail",
        "tokens", 0);
  check(polls >= PIECE / 2, "tail", "polls expected", PIECE / 2);
  heed_tokenizer_drop(t);
  heed_close(cx);
}


/* Ids are turned into a text, which looks 0x10000 of them up between two polls. */
static void check_ids (void) {
  enum { IDS = 1 << 18, POLLS = 4 };
  const char *file = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{"
                     NAMES "}}}";
  static int64_t ids[IDS];
  heed_context *cx = heed_open(NULL);
  heed_tokenizer *t = heed_tokenizer_read(cx, file, strlen(file));
  heed_text text;
  for (int i = 0; i < IDS; i++) ids[i] = 2;
  for (countdown = 0; countdown < POLLS; ) {
    const long at = countdown;
    polls = 0;
    check(!heed_detokenize(t, ids, IDS, true, &text), "ids", "an interrupt ends the call", at);
    check(polls == at + 1, "ids", "an interrupt ends it at once", at);
    heed_clear(cx);
    countdown = at + 1;
  }
  countdown = -1;
  polls = 0;
  check(heed_detokenize(t, ids, IDS, true, &text) && text.n >= IDS, "ids", "the call after it", 0);
  check(polls == POLLS, "ids", "polls expected", POLLS);
  heed_tokenizer_drop(t);
  heed_close(cx);
}


int main (void) {
  check_tail();
  check_ids();
  char *text = malloc(BYTES);
  for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) check_row(&ROWS[i], text);
  free(text);
  return failures > 0;
}
