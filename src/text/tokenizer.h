/*
** tokenizer.h - a tokenizer: the parts that tokenizer.json names, in the order in which a text
** passes them.
*/

#ifndef text_tokenizer_h
#define text_tokenizer_h

#include "heed_text.h"
#include "text/decode.h"

#pragma GCC visibility push(hidden)

typedef const unsigned char *bytes;

#define NO_ID UINT32_MAX           /* ids count from 0 on this floor */

typedef struct token {
  span name, raw;                  /* as the file has it; the bytes that it stands for */
  bool own, added, special;        /* own: of the model's vocabulary */
} token;

/*
** Unigram: pieces as a tree of bytes in one array. The child of node i for a byte c is the node at
** its base ^ c, if the parent of that is i. A node that one piece alone goes on from has no
** children, but a tail: the bytes of that piece that follow.
*/
#define NODE_BITS 0x7fffffffu
typedef struct node {
  double score;                    /* of the piece that ends here; -infinity: none does */
  uint32_t base : 31, special : 1; /* special: that piece */
  uint32_t parent : 31, has_tail : 1;
} node;

/* The best way to a place in a word: its score, where its last piece begins and that piece's
   node. */
typedef struct way { double score; uint32_t from, node; } way;

typedef struct unigram {
  node *nodes;
  uint32_t *ids;                   /* of the pieces that end in nodes or their tails */
  double unknown;                  /* the score of a character that is no piece */
  LIST(way) best;
} unigram;

/* Ids by bytes, without a copy of them: 'slots' is a power of two, at least twice what it holds. */
typedef struct id_table {
  uint32_t *slot, slots;
  bool raw;                        /* by the bytes that tokens stand for, else by their names */
  uint32_t skip;                   /* bytes that are left out in front */
} id_table;

typedef struct merge { uint64_t pair; uint32_t rank, id; } merge;    /* pair: NO_PAIR if empty */
#define NO_PAIR UINT64_MAX

typedef struct added_token {
  uint32_t id;
  span text;                       /* as it is looked for: normalized, where texts are */
  bool single_word, left, right, special;
} added_token;

/* Those that are looked for together; 'first' is by first byte, 'other' leads to the next. */
typedef struct added_set { added_token *at; int32_t n, first[256], *other; } added_set;

typedef enum behaviour { ISOLATED, REMOVED, PREVIOUS, NEXT, CONTIGUOUS } behaviour;

typedef struct splitter {
  const regex *pattern;
  behaviour behaviour;
  bool invert;
  bool mapped;                     /* behind ByteLevel: it sees the characters of names */
} splitter;

/* A character of the original text: its first byte, and the one behind it. */
typedef struct origin { uint32_t from, end; } origin;

/* A part of a text on its way to the model. 'origins' has its bytes' characters; NULL: they are the
   original's bytes, from 'shift' on. */
typedef struct passage {
  bytes from, end;
  const origin *origins;
  int64_t shift;
} passage;

/* A text in the making. */
typedef struct draft {
  LIST(unsigned char) text;
  LIST(origin) origins;
} draft;

typedef struct rewriting rewriting;
typedef struct normalizer normalizer;

#define DROPPED 128

struct normalizer {
  bool (*run) (const normalizer *n, rewriting *r);
  bool (*changes) (heed_tokenizer *t, const normalizer *n, const passage *text);   /* NULL: yes */
  bool composed, compatible;       /* of a normal form */
  bool nmt, clean, ideographs, decomposes, lower;     /* of characters, in this order */
  uint32_t dropped;                /* categories, behind decomposition */
  unsigned char ascii[128];        /* what becomes of a character of ASCII, or DROPPED */
  const regex *pattern;            /* of a replacement */
  const struct charsmap *map;      /* of Precompiled */
  bool longest;                    /* matches, as SentencePiece has them */
  span text;                       /* what is put there, or before all */
  bool left, right;                /* where blanks are stripped */
};

/* A code point of a normal form in the making. */
typedef struct unit { uint32_t point; int32_t class; int64_t change; } unit;

typedef enum { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct metaspace {
  uint32_t mark;                   /* what blanks become */
  int width;                       /* its bytes; 0: there is no such pre-tokenizer */
  prepend_scheme scheme;
  bool splits, doubles;            /* at marks; a mark in front of one, too */
} metaspace;

typedef enum { PIECE_FIRST, PIECE_SECOND, PIECE_TOKEN } piece_kind;
#define MOST_TYPE 255
/* Tokens around a text, or those of a text, which are of the text 'of', from 0. */
typedef struct piece { piece_kind kind; uint32_t id, of; } piece;
typedef LIST(piece) template;

/* A token of the word that is cut, of n bytes; 0: of the same bytes as the one before it. */
typedef struct slice { uint32_t id, n; } slice;

#define CACHE_KEY 24
#define CACHE_IDS 7
#define CACHE_SLOTS (1 << 14)

/* A word that was cut before. */
typedef struct cached {
  uint8_t length, n;
  char key[CACHE_KEY];
  uint8_t bytes[CACHE_IDS];
  bool parse;                      /* as special tokens */
  uint32_t id[CACHE_IDS];
} cached;

/* A token in the making, of a word that is cut. */
typedef struct symbol { uint32_t id, n; int32_t before, next; } symbol;
typedef struct join { uint32_t rank; int32_t at; uint64_t pair; } join;

#define MOST_SPLITTERS 8

struct heed_tokenizer {
  heed_context *cx;
  keeper memory;
  unicode u;
  token *tokens;
  const char *names;               /* of all tokens, one behind the other */
  uint32_t count, padding;         /* padding: an id, or NO_ID */
  id_table by_name;
  id_table by_raw;                 /* own tokens, of models that look for whole words */
  bool byte_level;                 /* characters of names stand for bytes */
  bool left;                       /* texts that are too long lose their first tokens */
  /* the model */
  bool (*cut) (heed_tokenizer *t, const char *word, size_t n);    /* into slices */
  uint32_t unknown;                /* what has no token, or NO_ID */
  bool fuse_unknown;               /* neighbours without a token share one */
  uint32_t byte_id[256];           /* of byte fallback, or NO_ID */
  merge *merges;
  uint64_t merge_slots;
  uint32_t start_id[4][256];       /* of a byte; 1: the first of a word, 2: the last, 3: both */
  span prefix, suffix;             /* of characters in a word, of its last one */
  bool whole_words;                /* ignore_merges */
  unigram unigram;
  id_table continuing;             /* of WordPiece: tokens with the prefix, without it */
  uint32_t longest;                /* its longest token */
  int64_t word_most;               /* characters of a word; longer ones are unknown */
  LIST(normalizer) normalizers;
  int64_t growth;                  /* bytes that they may still make of the text */
  added_set added[2];              /* looked for first, and in what is left */
  splitter splitters[MOST_SPLITTERS];   /* without a pattern: 'metaspace' */
  metaspace metaspace;
  int nsplitters;
  bool maps_bytes;                 /* splitters that follow are behind ByteLevel */
  template single, pair;
  bool trims, trims_prefix;        /* offsets lose blanks; the first one's stays */
  cached *cache;
  decoding decoding;
  /* what a call makes */
  LIST(int64_t) ids;
  LIST(int64_t) offsets;
  LIST(int64_t) result;
  LIST(int64_t) result_offsets;
  LIST(int64_t) result_types;      /* of which text each one is, from 1 */
  LIST(slice) slices;
  LIST(symbol) symbols;
  LIST(join) joins;
  draft drafts[2], marked;
  chars mapped[MOST_SPLITTERS];    /* what splitters behind ByteLevel see */
  LIST(unit) units, sorted;
  passage now;                     /* where tokens are given */
  int64_t section;                 /* its place in the text */
  bool parse;
  const int64_t *parts;            /* of the text, where special tokens are found all the same */
  int64_t nparts;
  int64_t words;                   /* cut so far */
  struct word_counts *counts;      /* of a trainer: words are counted, and give no tokens */
};

uint64_t bytes_hash (const char *p, size_t n);

/* vocabulary.c */
uint32_t table_find (const heed_tokenizer *t, const id_table *table, const char *p, size_t n);
/* The byte that a character of byte-level names stands for, or -1. */
int byte_of (uint32_t point);
uint32_t point_of (unsigned char byte);          /* the character of a byte */
/* The bytes of a byte-level name, written to 'to'; false: a character of it stands for none. */
bool name_bytes (span name, char *to, uint32_t *n);
bool vocabulary_read (heed_tokenizer *t, const json *j, const json_value *model,
                      const json_value *added);
/* The model's own token of that name, or NO_ID. */
uint32_t own_find (const heed_tokenizer *t, const char *p, size_t n);
/* A table of the model's own tokens that begin with the prefix, by the bytes behind it. */
bool own_read (heed_tokenizer *t, id_table *table, span prefix);

/* bpe.c */
bool bpe_read (heed_tokenizer *t, const json *j, const json_value *model);
bool bpe_cut (heed_tokenizer *t, const char *word, size_t n);

/* unigram.c */
bool unigram_read (heed_tokenizer *t, const json *j, const json_value *model);
bool unigram_cut (heed_tokenizer *t, const char *word, size_t n);
void unigram_free (heed_tokenizer *t);

/* wordpiece.c */
bool wordpiece_read (heed_tokenizer *t, const json *j, const json_value *model);
bool wordpiece_cut (heed_tokenizer *t, const char *word, size_t n);

/* wordlevel.c */
bool wordlevel_read (heed_tokenizer *t, const json *j, const json_value *model);
bool wordlevel_cut (heed_tokenizer *t, const char *word, size_t n);

/* model.c */
bool model_read (heed_tokenizer *t, const json *j, const json_value *model);
void model_fallback (heed_tokenizer *t, const json *j, const json_value *model);
bool give_slice (heed_tokenizer *t, uint32_t id, uint32_t n);
/* May a text that spells the token become it? Special ones are added tokens, found before. */
static inline bool may_be (const heed_tokenizer *t, uint32_t id) {
  return t->parse || !t->tokens[id].special;
}
bool word_encode (heed_tokenizer *t, const char *word, size_t n, int64_t at);

/* added.c */
bool added_read (heed_tokenizer *t, const json *j, const json_value *list);
/* Calls 'between' for what lies between those tokens, and gives their ids. */
bool added_split (heed_tokenizer *t, int which, bytes from, bytes end,
                  bool (*between) (heed_tokenizer *t, bytes from, bytes end));

/* normalize.c */
bool normalize_read (heed_tokenizer *t, const json *j, const json_value *v);
void normalize_free (heed_tokenizer *t);
void normalize_begin (heed_tokenizer *t, int64_t size);    /* of all that is normalized next */
bool normalize (heed_tokenizer *t, passage *text);     /* which lasts until the next call */

/* decode.c */
bool decode_read (heed_tokenizer *t, const json *j, const json_value *v);
void decode_free (heed_tokenizer *t);
int fallback_byte (const char *name, size_t n);

/* split.c */
bool split_read (heed_tokenizer *t, const json *j, const json_value *v);
bool split_words (heed_tokenizer *t, bytes from, bytes end);
/* {"Regex": ..} or {"String": ..}; NULL: a failure that names the part. */
const regex *read_pattern (heed_tokenizer *t, const json *j, const json_value *v,
                           const char *part);

/* metaspace.c */
typedef bool (*word_taker) (heed_tokenizer *t, int level, bytes from, bytes end);
bool metaspace_read (heed_tokenizer *t, const json *j, const json_value *v);
/* A blank in front of a text that has none there, which nothing is cut at. */
bool metaspace_prefix (heed_tokenizer *t);
bool metaspace_split (heed_tokenizer *t, int level, bytes from, bytes end, word_taker each);

/* template.c */
bool template_read (heed_tokenizer *t, const json *j, const json_value *v);
bool template_fill (heed_tokenizer *t, const heed_tokenizing *how, int64_t first, bool pair);

/* A token of the passage's bytes [from, to). */
bool give_token (heed_tokenizer *t, uint32_t id, int64_t from, int64_t to);
bool refuse_part (heed_tokenizer *t, const json *j, const char *what, const json_value *v);

#pragma GCC visibility pop

#endif
