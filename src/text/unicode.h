/*
** unicode.h - categories of code points.
*/

#ifndef text_unicode_h
#define text_unicode_h

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define UNICODE_DIRECT 0x20000     /* code points below it have a place in the table */

/* The categories' numbers, by code point; a tokenizer has one. */
typedef struct unicode { uint8_t category[UNICODE_DIRECT]; } unicode;

void unicode_open (unicode *u);
int unicode_category_long (uint32_t point);      /* by search */
static inline int unicode_category (const unicode *u, uint32_t point) {
  return point < UNICODE_DIRECT ? u->category[point] : unicode_category_long(point);
}

/* Sets of categories: bit i for number i. */
uint32_t unicode_named (const char *name, size_t n);     /* "L", "Lu" ...; 0: there is none */
uint32_t unicode_blanks (void);                  /* White_Space */
uint32_t unicode_word (void);                    /* letters, marks, digits, connectors */

static inline bool unicode_in (const unicode *u, uint32_t point, uint32_t set) {
  return set >> unicode_category(u, point) & 1;
}

#pragma GCC visibility pop

#endif
