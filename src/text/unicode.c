/*
** unicode.c - categories of code points, combining classes and lower case.
*/

#include <string.h>

#include "text/unicode.h"
#include "text/unicode_tables.h"

enum {
  RANGES = sizeof category_ranges / sizeof *category_ranges,
  CLASSES = sizeof class_ranges / sizeof *class_ranges / 3,
  LOWER = sizeof lower_runs / sizeof *lower_runs / 4
};

/* The categories, control characters that are blanks, and symbols that are letters. */
typedef enum category {
#define X(name) category_##name,
  CATEGORIES
#undef X
  category_blank, category_enclosed
} category;

#define BIT(name) (1u << category_##name)

static const char names[][3] = {
#define X(name) #name,
  CATEGORIES
#undef X
};


const uint32_t *unicode_row (const uint32_t *rows, int n, int columns, uint32_t point) {
  int low = 0, high = n;           /* the row is in [low, high) */
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (rows[middle * columns] <= point) low = middle;
    else high = middle;
  }
  return rows + low * columns;
}


int unicode_category_long (uint32_t point) {
  return (int)(*unicode_row(category_ranges, RANGES, 1, point << 5 | 31) & 31);
}


static void mark_classes (unicode *u) {
  for (int i = 0; i < 3 * CLASSES; i += 3)
    for (uint32_t k = class_ranges[i]; k <= class_ranges[i + 1] && k < UNICODE_DIRECT; k++)
      u->about[k] |= UNICODE_JOINS | UNICODE_DECOMPOSES;
}


void unicode_open (unicode *u) {
  for (int i = 0; i + 1 < RANGES; i++) {
    uint32_t from = category_ranges[i] >> 5, to = category_ranges[i + 1] >> 5;
    if (from >= UNICODE_DIRECT) break;
    if (to > UNICODE_DIRECT) to = UNICODE_DIRECT;
    memset(u->about + from, (int)(category_ranges[i] & 31), to - from);
  }
  mark_classes(u);
}


int unicode_class (uint32_t point) {
  const uint32_t *range = unicode_row(class_ranges, CLASSES, 3, point);
  return point >= range[0] && point <= range[1] ? (int)range[2] : 0;
}


uint32_t unicode_lower (uint32_t point) {
  const uint32_t *run = unicode_row(lower_runs, LOWER, 4, point);
  bool has = point >= run[0] && point <= run[1] && (point - run[0]) % run[2] == 0;
  return has ? run[3] + (point - run[0]) : point;
}


uint32_t unicode_named (const char *name, size_t n) {
  uint32_t set = 0;
  for (size_t i = 0; (n == 1 || n == 2) && i < sizeof names / sizeof *names; i++)
    if (memcmp(names[i], name, n) == 0) set |= 1u << i;
  if (set & BIT(Cc)) set |= BIT(blank);
  return set & BIT(So) ? set | BIT(enclosed) : set;
}


uint32_t unicode_blanks (void) { return BIT(blank) | BIT(Zs) | BIT(Zl) | BIT(Zp); }


uint32_t unicode_word (void) {
  return unicode_named("L", 1) | unicode_named("M", 1) | BIT(Nd) | BIT(Nl) | BIT(Pc) |
         BIT(enclosed);
}

