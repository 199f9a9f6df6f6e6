/*
** regex.h - regular expressions of tokenizers, compiled once. The leftmost match is found, and of
** alternatives the first that fits, as Perl and Oniguruma have it.
**
** There are: literals, '.', classes with ranges, \s \S \d \D \w \W \p{..} \P{..}, groups (?:..),
** (..) and (?i:..), alternatives, lookahead (?=..) (?!..), ^ and $ of lines, and ? * + {m} {m,}
** {m,n} behind a character or class, also lazy or possessive; behind a group '?' alone. All else is
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

/* A search for all matches in a text. */
typedef struct regex_search {
  const regex *regex;
  const unsigned char *start, *end;        /* of the text */
  const unsigned char *from;               /* where the match before it ended, or start */
  const unsigned char *match, *match_end;  /* the last one: it may be empty */
} regex_search;

regex_search regex_begin (const regex *r, const unsigned char *start, const unsigned char *end);

/* The next match; an empty one behind another match is none, and an empty text has none. */
regex_result regex_next (regex_search *s);

#pragma GCC visibility pop

#endif
