/*
** regex.h - regular expressions of tokenizers, compiled once. The leftmost match is found, and of
** alternatives the first that fits, as Perl and Oniguruma have it.
**
** There are: literals, '.', classes with ranges, \s \S \d \D \w \W \p{..} \P{..}, groups (?:..),
** (..) and (?i:..), alternatives, lookahead (?=..) (?!..), ^ and $, and ? * + {m} {m,} {m,n}
** behind a character or class, also lazy or possessive; behind a group '?' alone. All else is
** refused. Matching comes back to what it tried before; so that no pattern takes the host's time, a
** search of more than 100,000 steps, and 256 for each byte of the text, is refused too, and an
** interrupt ends it.
*/

#ifndef text_regex_h
#define text_regex_h

#include "text/memory.h"
#include "text/unicode.h"

#pragma GCC visibility push(hidden)

typedef struct regex regex;

/* NULL: a failure that quotes what is not known. */
regex *regex_compile (keeper *k, const unicode *u, const char *pattern, size_t n);

typedef enum regex_result { REGEX_NONE, REGEX_FOUND, REGEX_FAILED } regex_result;

/* The next match in [from, end) of a text that begins at 'start'. */
regex_result regex_find (const regex *r, const unsigned char *start, const unsigned char *from,
                         const unsigned char *end, const unsigned char **match,
                         const unsigned char **match_end);

#pragma GCC visibility pop

#endif
