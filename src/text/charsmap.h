/*
** charsmap.h - the table of SentencePiece that says which characters become which.
*/

#ifndef text_charsmap_h
#define text_charsmap_h

#include "text/memory.h"

#pragma GCC visibility push(hidden)

/* A tree of bytes in one array, as Darts has it, and the texts that its leaves name. */
typedef struct charsmap {
  uint32_t *units;
  uint32_t count, length;
  char *texts;
} charsmap;

/* Of the table's bytes; NULL: a failure that says what is wrong with it. */
charsmap *charsmap_read (keeper *k, const char *bytes, size_t n);
/* Of base64. */
charsmap *charsmap_decode (keeper *k, const char *text, size_t n);
/* The text that the start of [p, end) becomes, *used bytes of it: of the shortest start that the
   table has, or the longest; NULL: it has none. */
const char *charsmap_find (const charsmap *m, const unsigned char *p, const unsigned char *end,
                           bool longest, size_t *n, size_t *used);

#pragma GCC visibility pop

#endif
