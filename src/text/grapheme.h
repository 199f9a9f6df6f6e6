/*
** grapheme.h - what a reader takes for one character: extended grapheme clusters of UAX #29.
*/

#ifndef text_grapheme_h
#define text_grapheme_h

#include "text/unicode.h"

#pragma GCC visibility push(hidden)

/* How many bytes the cluster at p has; p < end. Emoji that a joiner connects, and consonants that a
   virama does, count as several. */
int64_t grapheme_length (const unicode *u, const unsigned char *p, const unsigned char *end);

#pragma GCC visibility pop

#endif
