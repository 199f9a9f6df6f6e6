/*
** hex.h - digits of base 16.
*/

#ifndef text_hex_h
#define text_hex_h

/* A digit's value, or -1. */
static inline int hex_digit (char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
