/*
** utf8.c - code points in bytes.
*/

#include <string.h>

#include "text/utf8.h"


int utf8_get_long (const unsigned char *p, const unsigned char *end, uint32_t *point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  int n = *p < 128 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
  uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);
  *point = NO_POINT;
  if (n == 0 || end - p < n) return 1;
  for (int i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) return 1;
    c = c << 6 | (p[i] & 0x3f);
  }
  if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 1;
  *point = c;
  return n;
}


int utf8_before (const unsigned char *from, const unsigned char *p, uint32_t *point) {
  for (int n = 1; n <= 4 && n <= p - from; n++)
    if (utf8_get(p - n, p, point) == n && (n > 1 || p[-1] < 128)) return n;
  *point = NO_POINT;
  return 1;
}


int utf8_put (char *to, uint32_t c) {
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)((0xf00 >> n & 0xff) | c);
  return n;
}


size_t utf8_valid_bytes (const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  while (p < end) {
    uint64_t eight;
    uint32_t point;
    while (end - p >= 8 && (memcpy(&eight, p, 8), (eight & 0x8080808080808080u) == 0)) p += 8;
    if (p == end) break;
    int bytes = utf8_get(p, end, &point);
    if (bytes == 1 && *p >= 128) break;
    p += bytes;
  }
  return (size_t)(p - (const unsigned char *)text);
}
