/*
** charsmap.c - the table of SentencePiece that says which characters become which. A unit of its
** tree has a label, the distance to its children, and whether a leaf is among them; a leaf has the
** place of a text, which ends with a zero byte. All distances are checked as they are followed.
*/

#include <string.h>

#include "memory/failure.h"
#include "text/charsmap.h"
#include "text/utf8.h"


static void *refuse (keeper *k, const char *wanted) {
  return core_fail(k->cx, NULL, "the normalizer Precompiled: %s expected", wanted);
}


static uint32_t read_u32 (const char *p) {
  const unsigned char *b = (const unsigned char *)p;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}


charsmap *charsmap_read (keeper *k, const char *bytes, size_t n) {
  uint32_t size = n >= 4 ? read_u32(bytes) : 0;
  if (n < 8 || size % 4 != 0 || size < 4 || size > n - 4 || n > UINT32_MAX)
    return refuse(k, "a tree and texts");
  if (utf8_valid_bytes(bytes + 4 + size, n - 4 - size) < n - 4 - size)
    return refuse(k, "texts in UTF-8");
  charsmap *m = keep(k, sizeof *m);
  if (m == NULL) return NULL;
  *m = (charsmap){.count = size / 4, .length = (uint32_t)(n - 4 - size)};
  m->units = keep(k, size);
  m->texts = keep(k, m->length + 1);
  if (m->units == NULL || m->texts == NULL) return NULL;
  for (uint32_t i = 0; i < m->count; i++) m->units[i] = read_u32(bytes + 4 + 4 * i);
  memcpy(m->texts, bytes + 4 + size, m->length);
  return m;
}


static int digit_of (char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *found = c != '\0' ? strchr(digits, c) : NULL;
  return found != NULL ? (int)(found - digits) : -1;
}


charsmap *charsmap_decode (keeper *k, const char *text, size_t n) {
  int8_t digits[256];
  for (int c = 0; c < 256; c++) digits[c] = (int8_t)digit_of((char)c);
  size_t length = 0;
  for (int i = 0; i < 2 && n > 0 && text[n - 1] == '='; i++) n--;
  char *bytes = keep(k, n / 4 * 3 + 3);
  if (bytes == NULL) return NULL;
  for (size_t i = 0; i < n; i += 4) {
    uint32_t word = 0, count = n - i < 4 ? (uint32_t)(n - i) : 4;
    for (uint32_t c = 0; c < count; c++) {
      int digit = digits[(unsigned char)text[i + c]];
      if (digit < 0 || count == 1) return refuse(k, "base64");
      word |= (uint32_t)digit << (18 - 6 * c);
    }
    for (uint32_t c = 1; c < count; c++) bytes[length++] = (char)(word >> (24 - 8 * c));
  }
  return charsmap_read(k, bytes, length);
}


static uint32_t distance (uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }


/* The text at a place, if one begins there. */
static const char *text_at (const charsmap *m, uint32_t at, size_t *n) {
  if (at >= m->length || (m->texts[at] & 0xc0) == 0x80) return NULL;
  *n = strnlen(m->texts + at, m->length - at);
  return m->texts + at;
}


const char *charsmap_find (const charsmap *m, const unsigned char *p, const unsigned char *end,
                           bool longest, size_t *n, size_t *used) {
  const char *found = NULL;
  uint32_t at = distance(m->units[0]);
  for (const unsigned char *from = p; p < end && *p != 0; p++) {
    at ^= *p;
    if (at >= m->count || (m->units[at] & (1u << 31 | 0xff)) != *p) break;
    uint32_t unit = m->units[at];
    at ^= distance(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (at >= m->count) break;
    const char *text = text_at(m, m->units[at] & ~(1u << 31), n);
    if (text == NULL) break;
    found = text;
    *used = (size_t)(p + 1 - from);
    if (!longest) break;
  }
  if (found != NULL) *n = strnlen(found, m->length - (size_t)(found - m->texts));
  return found;
}
