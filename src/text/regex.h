/*
** regex.h - regular expressions of tokenizers, compiled once. The leftmost match is found, and of
** alternatives the first that fits, as Perl and Oniguruma have it.
**
** There are: literals, '.', classes with ranges, \s \S \d \D \w \W \p{..} \P{..}, groups (?:..),
** (..) and (?i:..), alternatives, lookahead (?=..) (?!..), ^ and $, and ? * + {m} {m,} {m,n}
** behind a character or class, also lazy or possessive; behind a group '?' alone, so that the time
** of a match is bounded. All else is refused.
*/

#ifndef text_regex_h
#define text_regex_h

#include "text/memory.h"
#include "text/unicode.h"

#pragma GCC visibility push(hidden)

typedef struct regex regex;

/* NULL: a failure that quotes what is not known. */
regex *regex_compile (keeper *k, const unicode *u, const char *pattern, size_t n);

/* The next match in [from, end) of a text that begins at 'start'; false: there is none. */
bool regex_find (const regex *r, const unsigned char *start, const unsigned char *from,
                 const unsigned char *end, const unsigned char **match,
                 const unsigned char **match_end);

#pragma GCC visibility pop

#endif
