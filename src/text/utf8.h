/*
** utf8.h - code points in bytes. A byte that is part of none is a character of its own, which
** counts as U+FFFD.
*/

#ifndef text_utf8_h
#define text_utf8_h

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define NO_POINT 0xfffdu           /* of a byte that is part of no character */

/* How many bytes the character at p has, with its code point; p < end. */
int utf8_get_long (const unsigned char *p, const unsigned char *end, uint32_t *point);

static inline int utf8_get (const unsigned char *p, const unsigned char *end, uint32_t *point) {
  if (*p >= 128) return utf8_get_long(p, end, point);
  *point = *p;
  return 1;
}

/* How many bytes the character before p has; from < p, and a character begins at 'from'. */
int utf8_before (const unsigned char *from, const unsigned char *p, uint32_t *point);

int utf8_put (char *to, uint32_t point);     /* how many bytes it wrote, at most 4 */
/* How many bytes from the start on are UTF-8: all n, or those before the first that is part of no
   character. */
size_t utf8_valid_bytes (const char *text, size_t n);

#pragma GCC visibility pop

#endif
