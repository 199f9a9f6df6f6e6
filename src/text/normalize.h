/*
** normalize.h - normalizers: a text is rewritten, and each byte of the new one knows the character
** of the original that it came from.
*/

#ifndef text_normalize_h
#define text_normalize_h

#include "text/tokenizer.h"

#pragma GCC visibility push(hidden)

/* A text that is rewritten from its first character to its last one. */
typedef struct rewriting {
  heed_tokenizer *t;
  bytes p;                         /* what is left of the old text */
  const passage *old;
  draft *to;
  int64_t most;                    /* bytes of the new text */
} rewriting;

#define RAW_BYTE 0x110000u         /* and above: a byte that is part of no character */

int rewriting_get (const rewriting *r, uint32_t *point);         /* the next one's bytes; p stays */
/* Writes a character: in the place of the old one that is next (change: 0), or of that one and n
   more (-n); or behind the old one that was last (1). */
bool rewriting_put (rewriting *r, uint32_t point, int64_t change);
bool rewriting_keep (rewriting *r, bytes until);                 /* as they are */

/* normal_form.c */
bool form_changes (heed_tokenizer *t, const normalizer *n, const passage *text);
bool form_run (const normalizer *n, rewriting *r);

/* precompiled.c */
bool precompiled_run (const normalizer *n, rewriting *r);

#pragma GCC visibility pop

#endif
