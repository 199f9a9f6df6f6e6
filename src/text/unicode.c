/*
** unicode.c - categories of code points.
*/

#include <string.h>

#include "text/unicode.h"
#include "text/unicode_tables.h"

enum { RANGES = sizeof category_ranges / sizeof *category_ranges };

/* The categories, and control characters that are blanks. */
typedef enum category {
#define X(name) category_##name,
  CATEGORIES
#undef X
  category_blank
} category;

#define BIT(name) (1u << category_##name)

static const char names[][3] = {
#define X(name) #name,
  CATEGORIES
#undef X
};


int unicode_category_long (uint32_t point) {
  int low = 0, high = RANGES;      /* the range begins in [low, high) */
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (category_ranges[middle] >> 5 <= point) low = middle;
    else high = middle;
  }
  return (int)(category_ranges[low] & 31);
}


void unicode_open (unicode *u) {
  for (int i = 0; i + 1 < RANGES; i++) {
    uint32_t from = category_ranges[i] >> 5, to = category_ranges[i + 1] >> 5;
    if (from >= UNICODE_DIRECT) break;
    if (to > UNICODE_DIRECT) to = UNICODE_DIRECT;
    memset(u->category + from, (int)(category_ranges[i] & 31), to - from);
  }
}


uint32_t unicode_named (const char *name, size_t n) {
  uint32_t set = 0;
  for (size_t i = 0; (n == 1 || n == 2) && i < sizeof names / sizeof *names; i++)
    if (memcmp(names[i], name, n) == 0) set |= 1u << i;
  return set & BIT(Cc) ? set | BIT(blank) : set;
}


uint32_t unicode_blanks (void) { return BIT(blank) | BIT(Zs) | BIT(Zl) | BIT(Zp); }


uint32_t unicode_word (void) {
  return unicode_named("L", 1) | unicode_named("M", 1) | BIT(Nd) | BIT(Pc);
}
