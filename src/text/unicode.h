/*
** unicode.h - categories of code points, and marks that say which of them a normal form may change.
*/

#ifndef text_unicode_h
#define text_unicode_h

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define UNICODE_DIRECT 0x20000     /* code points below it have a place in the table */

/* Marks, beside the number of the category. */
#define UNICODE_CATEGORY 31
#define UNICODE_JOINS 32           /* may compose with others before it, or never stays composed */
#define UNICODE_DECOMPOSES 64      /* has a canonical decomposition, or a combining class */
#define UNICODE_COMPATIBLE 128     /* has a compatible one */

/* Categories and marks by code point; a tokenizer has one. */
typedef struct unicode { uint8_t about[UNICODE_DIRECT]; } unicode;

void unicode_open (unicode *u);
int unicode_category_long (uint32_t point);      /* by search */
static inline int unicode_category (const unicode *u, uint32_t point) {
  if (point >= UNICODE_DIRECT) return unicode_category_long(point);
  return u->about[point] & UNICODE_CATEGORY;
}
/* Of n rows in order, 'columns' numbers each: the last one that does not begin behind the point, or
   the first one. */
const uint32_t *unicode_row (const uint32_t *rows, int n, int columns, uint32_t point);
int unicode_class (uint32_t point);              /* the combining class; 0: none */
uint32_t unicode_lower (uint32_t point);         /* of one character */

/* Sets of categories: bit i for number i. */
uint32_t unicode_named (const char *name, size_t n);     /* "L", "Lu" ...; 0: there is none */
uint32_t unicode_blanks (void);                  /* White_Space */
uint32_t unicode_word (void);                    /* \w: letters, marks, digits, ... */

static inline bool unicode_in (const unicode *u, uint32_t point, uint32_t set) {
  return set >> unicode_category(u, point) & 1;
}

#pragma GCC visibility pop

#endif
