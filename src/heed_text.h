/*
** heed_text.h - the C API of tokenizers, which need no tensor. Ids count from 1, positions in
** a text from 0.
*/

#ifndef HEED_TEXT_H
#define HEED_TEXT_H

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heed_tokenizer heed_tokenizer;

typedef struct heed_tokens {
  int64_t n;
  const int64_t *ids;
  const int64_t *offsets;           /* (n, 2): each token's first byte, and the one behind it */
  const int64_t *types;             /* of which text of a pair each token is, from 1 */
} heed_tokens;

typedef struct heed_tokenizing {
  bool special;                     /* the tokens that the model wants around a text */
  bool parse;                       /* special tokens that a text spells become those tokens */
  int64_t most;                     /* ids in all; 0: as many as there are */
  const int64_t *parts;             /* (nparts, 2): without 'parse', where they do all the same: */
  int64_t nparts;                   /* a part's first byte, and the one behind it, in order */
  bool left;                        /* a text that is too long loses its first ids, else the last */
} heed_tokenizing;

/* Of the text of a tokenizer.json; NULL: a failure that names the part that is not known. */
HEED_API heed_tokenizer *heed_tokenizer_read (heed_context *cx, const char *json, size_t n);
HEED_API void heed_tokenizer_drop (heed_tokenizer *t);
/* Tokens of a text, or of two (pair: NULL for none); they last until the tokenizer's next call.
   how: NULL is as if all of it were 0. */
HEED_API bool heed_tokenize (heed_tokenizer *t, const char *text, size_t n, const char *pair,
                             size_t npair, const heed_tokenizing *how, heed_tokens *tokens);

typedef struct heed_text { const char *at; size_t n; } heed_text;

/* The text of n ids, without special tokens unless 'special'; it lasts until the next call. */
HEED_API bool heed_detokenize (heed_tokenizer *t, const int64_t *ids, int64_t n, bool special,
                               heed_text *text);

/* A text that ids give one by one, in whole characters; zeros begin one, and 'special' is given. */
typedef struct heed_stream {
  bool special, begun;
  int32_t stripped, nheld;          /* at the start; bytes that wait for others */
  int64_t waiting;                  /* an id that is not known to be the last; or 0 */
  int64_t before;                   /* the id that was given before; or 0 */
  char held[72];
} heed_stream;
/* The text that is certain after one id more; it lasts until the tokenizer's next call. */
HEED_API bool heed_stream_push (heed_tokenizer *t, heed_stream *s, int64_t id, heed_text *text);
/* The rest; the stream is at the start of a text again. */
HEED_API bool heed_stream_finish (heed_tokenizer *t, heed_stream *s, heed_text *text);

/* A token's name in the file. */
HEED_API const char *heed_token_name (const heed_tokenizer *t, int64_t id, size_t *n);    /* NULL */
HEED_API bool heed_token_is_special (const heed_tokenizer *t, int64_t id);
HEED_API int64_t heed_token_id (const heed_tokenizer *t, const char *name, size_t n);     /* or 0 */
/* The id that the file pads texts with, or 0. */
HEED_API int64_t heed_token_padding (const heed_tokenizer *t);
HEED_API int64_t heed_token_unknown (const heed_tokenizer *t);        /* of what has none; or 0 */
HEED_API int64_t heed_token_count (const heed_tokenizer *t);
/* Does the file say that texts that are too long lose their first tokens? */
HEED_API bool heed_tokenizer_is_left (const heed_tokenizer *t);

/*
** Training. A trainer has the parts of a tokenizer.json that cut texts into words; its model is
** BPE without tokens, whose continuing_subword_prefix counts. Byte-level words are made of bytes,
** others of characters.
*/
typedef struct heed_trainer heed_trainer;

typedef struct heed_training {
  const heed_text *special;         /* the first tokens, none of them twice */
  int64_t nspecial;
  int64_t vocabulary;               /* tokens in all, at most */
  int64_t least;                    /* how often a pair must be there to become a token */
  int64_t characters;               /* the most frequent ones have tokens; without: byte-level */
} heed_training;

HEED_API heed_trainer *heed_trainer_new (heed_context *cx, const char *parts, size_t n);
HEED_API void heed_trainer_drop (heed_trainer *r);
HEED_API bool heed_trainer_feed (heed_trainer *r, const char *text, size_t n);
/* Makes tokens of all that was fed: the pair that is there most often becomes one, and of equal
   ones that with the smaller ids. A trainer may make them again, and be fed between. */
HEED_API bool heed_trainer_make (heed_trainer *r, const heed_training *how);
HEED_API int64_t heed_trainer_count (const heed_trainer *r);
HEED_API heed_text heed_trainer_token (const heed_trainer *r, int64_t id);   /* NULL: none */
/* The ids that are joined by merge i, which counts from 0; false: there are fewer. */
HEED_API bool heed_trainer_merge (const heed_trainer *r, int64_t i, int64_t ids[2]);

#ifdef __cplusplus
}
#endif

#endif
