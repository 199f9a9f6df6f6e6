/*
** decode.h - decoders, and the ready texts of tokens.
*/

#ifndef text_decode_h
#define text_decode_h

#include "text/json_list.h"
#include "text/regex.h"

#pragma GCC visibility push(hidden)

typedef struct span { const char *at; uint32_t n; } span;

typedef enum decoder_kind {
  DECODE_BYTE_LEVEL, DECODE_REPLACE, DECODE_BYTES, DECODE_STRIP, DECODE_METASPACE,
  DECODE_WORDPIECE, DECODE_SUFFIX, DECODE_JOIN, DECODE_CTC
} decoder_kind;

/* A step from a token's name to its text. */
typedef struct decoder {
  decoder_kind kind;
  span from, to;                   /* of REPLACE; 'from': of STRIP, METASPACE, WORDPIECE, SUFFIX;
                                      of CTC: what goes, and what stands between words */
  const regex *pattern;            /* of REPLACE: instead of 'from' */
  int64_t start, stop;             /* of STRIP: how many at most, at both ends */
  bool flag;                       /* METASPACE: the first token loses it; others: cleans up */
} decoder;

/* The text of a token that stands between others. */
typedef struct ready { uint32_t at, n : 30, special : 1, known : 1; } ready;

#define MOST_DECODERS 8
#define TEXT_SLACK 16              /* bytes behind a text that may be read or written with it */

typedef LIST(char) chars;

typedef struct decoding {
  decoder steps[MOST_DECODERS];
  int n;
  bool fused;                      /* 'strip' is about the whole text; its 'from' may be empty */
  decoder strip;
  bool first_differs, last_differs;
  bool merges;                     /* equal neighbours are one */
  ready *ready;
  chars texts, work[2], out;
  int64_t most;                    /* bytes of all texts */
} decoding;

#pragma GCC visibility pop

#endif
