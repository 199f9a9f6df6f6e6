/*
** grapheme.c - extended grapheme clusters: which characters stay with the one before them. Sets are
** those of GraphemeBreakProperty.txt, as far as categories do not say it.
*/

#include "text/grapheme.h"
#include "text/utf8.h"

typedef enum sort {
  ANY, CONTROL, PREPEND, EXTEND, LEADING, VOWEL, TRAILING, SYLLABLE, CLOSED, FLAG
} sort;
typedef struct range { uint32_t first, last; } range;

/* Combining marks with a width of their own that stay with nothing. */
static const range apart[] = {
  {0x102b, 0x102c}, {0x1038, 0x1038}, {0x1062, 0x1064}, {0x1067, 0x106d}, {0x1083, 0x1083},
  {0x1087, 0x108c}, {0x108f, 0x108f}, {0x109a, 0x109c}, {0x1a61, 0x1a61}, {0x1a63, 0x1a64},
  {0xaa7b, 0xaa7b}, {0xaa7d, 0xaa7d}, {0x11720, 0x11721}
};

/* No marks by category, but of the same use. */
static const range attached[] = {
  {0xe33, 0xe33}, {0xeb3, 0xeb3}, {0x200c, 0x200d}, {0xff9e, 0xff9f}, {0x1f3fb, 0x1f3ff},
  {0xe0020, 0xe007f}
};

static const range prepended[] = {
  {0x600, 0x605}, {0x6dd, 0x6dd}, {0x70f, 0x70f}, {0x890, 0x891}, {0x8e2, 0x8e2}, {0xd4e, 0xd4e},
  {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x111c2, 0x111c3}, {0x1193f, 0x1193f},
  {0x11941, 0x11941}, {0x11a3a, 0x11a3a}, {0x11a84, 0x11a89}, {0x11d46, 0x11d46},
  {0x11f02, 0x11f02}
};


static bool is_within (const range *ranges, size_t n, uint32_t c) {
  size_t i = 0;
  while (i < n && ranges[i].last < c) i++;
  return i < n && ranges[i].first <= c;
}

#define IN(ranges, c) is_within(ranges, sizeof ranges / sizeof *ranges, c)


/* Hangul's letters, and syllables that another letter may end. */
static sort hangul_sort (uint32_t c) {
  if ((c >= 0x1100 && c < 0x1160) || (c >= 0xa960 && c < 0xa97d)) return LEADING;
  if ((c >= 0x1160 && c < 0x11a8) || (c >= 0xd7b0 && c < 0xd7c7)) return VOWEL;
  if ((c >= 0x11a8 && c < 0x1200) || (c >= 0xd7cb && c < 0xd7fc)) return TRAILING;
  if (c >= 0xac00 && c < 0xd7a4) return (c - 0xac00) % 28 == 0 ? SYLLABLE : CLOSED;
  return ANY;
}


static sort sort_of (const unicode *u, uint32_t c) {
  if (c < 0x300) return c < 32 || (c >= 127 && c < 160) || c == 0xad ? CONTROL : ANY;
  if (IN(attached, c)) return EXTEND;
  if (IN(prepended, c)) return PREPEND;
  if (unicode_in(u, c, unicode_named("M", 1))) return IN(apart, c) ? ANY : EXTEND;
  uint32_t controls = unicode_named("Cc", 2) | unicode_named("Cf", 2) | unicode_named("Cs", 2) |
                      unicode_named("Zl", 2) | unicode_named("Zp", 2);
  if (unicode_in(u, c, controls)) return CONTROL;
  if (c >= 0x1f1e6 && c <= 0x1f1ff) return FLAG;
  return hangul_sort(c);
}


static bool stays (sort before, sort c) {
  if (c == CONTROL) return false;
  if (c == EXTEND || before == PREPEND) return true;
  switch (before) {
    case LEADING: return c == LEADING || c == VOWEL || c == SYLLABLE || c == CLOSED;
    case VOWEL: case SYLLABLE: return c == VOWEL || c == TRAILING;
    case TRAILING: case CLOSED: return c == TRAILING;
    case ANY: case CONTROL: case PREPEND: case EXTEND: case FLAG: break;
  }
  return false;
}


int64_t grapheme_length (const unicode *u, const unsigned char *p, const unsigned char *end) {
  const unsigned char *from = p;
  uint32_t point;
  if (end - p > 1 && p[0] == '\r' && p[1] == '\n') return 2;
  p += utf8_get(p, end, &point);
  sort before = sort_of(u, point);
  if (before == CONTROL) return p - from;
  for (bool flag = false; p < end; ) {
    int n = utf8_get(p, end, &point);
    sort now = sort_of(u, point);
    flag = before == FLAG && now == FLAG && !flag;
    if (!flag && !stays(before, now)) break;
    before = now;
    p += n;
  }
  return p - from;
}
