/*
** train.h - a trainer: words that were counted, and the tokens that are made of them.
*/

#ifndef text_train_h
#define text_train_h

#include "text/tokenizer.h"

#pragma GCC visibility push(hidden)

/* A word of the texts, and how often it was there. */
typedef struct counted { uint64_t at; uint32_t n; int64_t count; } counted;

/* Words by their bytes: 'slots' is a power of two, more than twice the words. */
typedef struct word_counts {
  LIST(counted) words;
  LIST(char) bytes;
  uint32_t *slot;
  uint64_t slots;
} word_counts;

/* A token that was made: its name in the file. */
typedef struct made { uint64_t at; uint32_t n; bool special; } made;

typedef struct made_merge { uint32_t left, right; } made_merge;

struct heed_trainer {
  heed_context *cx;
  heed_tokenizer *t;               /* whose parts cut texts into words */
  LIST(made) tokens;
  LIST(char) names;
  LIST(made_merge) merges;
  uint32_t *slot;                  /* tokens by name, plus one */
  uint64_t slots;
};

/* words.c */
bool words_count (heed_tokenizer *t, const char *word, size_t n);
void words_free (heed_context *cx, word_counts *w);

/* train.c */
#define NOT_MADE UINT32_MAX
uint32_t made_find (const heed_trainer *r, const char *name, size_t n);      /* or NOT_MADE */
bool made_add (heed_trainer *r, const char *name, size_t n, bool special);

/* join.c: makes tokens of the most frequent neighbours, until there are 'most'. */
bool join_pairs (heed_trainer *r, int64_t most, int64_t least);

#pragma GCC visibility pop

#endif
