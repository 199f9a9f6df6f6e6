/*
** lua_inflate.c - the rows of a PNG: inflated by the system's zlib, which is opened when a picture
** is read, then unfiltered (PNG specification, chapters 9 and 10).
*/

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"

typedef unsigned char byte;

enum {ENDED = 1, GOOD = 0};            /* zlib's Z_STREAM_END, Z_OK */

/* zlib's z_stream: its layout is part of zlib's binary interface */
typedef struct stream {
  const byte *in;
  unsigned in_left;
  unsigned long in_total;
  byte *out;
  unsigned out_left;
  unsigned long out_total;
  const char *message;
  void *state, *allocate, *release, *opaque;
  int data_type;
  unsigned long adler, reserved;
} stream;

typedef struct zlib {
  void *library;
  int (*begin) (stream *s, const char *version, int size);
  int (*go_on) (stream *s, int flush);
  int (*end) (stream *s);
} zlib;


static bool open_zlib (zlib *z) {
  static const char *const names[] = {"libz.so.1", "libz.1.dylib", NULL};
  for (int i = 0; names[i] != NULL; i++) {
    z->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (z->library == NULL) continue;
    void *begin = dlsym(z->library, "inflateInit_"), *go_on = dlsym(z->library, "inflate"),
         *end = dlsym(z->library, "inflateEnd");
    memcpy(&z->begin, &begin, sizeof begin);         /* C has no cast of data to functions */
    memcpy(&z->go_on, &go_on, sizeof go_on);
    memcpy(&z->end, &end, sizeof end);
    if (begin != NULL && go_on != NULL && end != NULL) return true;
    dlclose(z->library);
  }
  return false;
}


static unsigned part_of (size_t n) { return (unsigned)(n < POLLED_BYTES ? n : POLLED_BYTES); }


/* Inflates exactly 'n' bytes, in parts, between which interruptions are asked for. */
static bool inflate_parts (heed_context *cx, const zlib *z, stream *s, size_t in, byte *out,
                           size_t n) {
  byte more;
  size_t done_out = 0;
  int status = GOOD;
  s->in_left = 0;
  while (status == GOOD && !heed_interrupted(cx)) {
    unsigned room = part_of(n - done_out), fed = s->in_left;
    if (fed == 0) { s->in_left = fed = part_of(in); in -= fed; }
    s->out = room > 0 ? out + done_out : &more;
    s->out_left = room > 0 ? room : 1;
    unsigned given = s->out_left;
    status = z->go_on(s, 0);
    given -= s->out_left;
    if (room == 0 && given > 0) return false;        /* longer than 'n' */
    done_out += given;
    if (given == 0 && s->in_left == fed && status == GOOD) return false;
  }
  return status == ENDED && done_out == n;
}


static bool inflate_all (heed_context *cx, const byte *in, size_t size, byte *out, size_t n,
                         const char **why) {
  zlib z;
  stream s = {.in = in};
  *why = "it needs zlib, which is not here (apt install zlib1g)";
  if (!open_zlib(&z)) return false;
  *why = "its pixels are damaged, too few or too many";
  bool good = z.begin(&s, "1.2.3", (int)sizeof s) == GOOD;
  if (good) {
    good = inflate_parts(cx, &z, &s, size, out, n);
    z.end(&s);
  }
  dlclose(z.library);
  return good;
}


/* The one of three neighbours that is nearest to left + above - corner. */
static int paeth (int left, int above, int corner) {
  int l = abs(above - corner), a = abs(left - corner), c = abs(left + above - 2 * corner);
  return l <= a && l <= c ? left : a <= c ? above : corner;
}


/* Unfilters a row of 'n' bytes; 'above' is the row before it or NULL. */
static bool unfilter (const byte *row, const byte *above, byte *out, size_t n, size_t step) {
  int filter = *row++;
  for (size_t i = 0; i < n; i++) {
    int l = i >= step ? out[i - step] : 0, a = above != NULL ? above[i] : 0;
    int c = i >= step && above != NULL ? above[i - step] : 0;
    int guess = filter == 1 ? l : filter == 2 ? a : filter == 3 ? (l + a) / 2
                : filter == 4 ? paeth(l, a, c) : 0;
    out[i] = (byte)(row[i] + guess);
  }
  return filter <= 4;
}


/* Rows without their first byte, which says how each is filtered, from the tensor's start on. */
static bool unfilter_all (heed_context *cx, byte *data, size_t rows, size_t n, size_t step) {
  size_t since = 0;
  for (size_t r = 0; r < rows; r++, since += n) {
    if (since > POLLED_BYTES) {
      since = 0;
      if (heed_interrupted(cx)) return false;
    }
    const byte *above = r > 0 ? data + (r - 1) * n : NULL;
    if (!unfilter(data + r * (n + 1), above, data + r * n, n, step)) return false;
  }
  return true;
}


/* png_rows(tensor, bytes, rows, row, step): fills a uint8 tensor of rows * (row + 1) elements with
   rows * row bytes of pixels; true, or nil and why not */
static int l_png_rows (lua_State *L) {
  size_t size;
  enter(L);
  heed_tensor *t = check_tensor(L, 1);
  const char *in = luaL_checklstring(L, 2, &size);
  int64_t rows = check_integer(L, 3, "rows"), n = check_integer(L, 4, "row"),
          step = check_integer(L, 5, "step");
  if (rows < 1 || n < 1 || step < 1 || rows > INT64_MAX / (n + 1) ||
      heed_type_of(t) != HEED_UINT8 || !heed_contiguous(t) || heed_numel(t) != rows * (n + 1))
    raise_wrong(L, "tensor", "uint8 of rows * (row + 1) elements", 1);
  byte *data = heed_data(t);
  const char *why = NULL;
  if (data == NULL) return raise_failure(L);
  heed_context *cx = named(L);
  bool good = inflate_all(cx, (const byte *)in, size, data, (size_t)(rows * (n + 1)), &why);
  if (good) {
    why = "a row of its pixels has a filter that PNG does not know";
    good = unfilter_all(cx, data, (size_t)rows, (size_t)n, (size_t)step);
  }
  done(L, heed_error(cx) == NULL);
  lua_pushboolean(L, good);
  if (good) return 1;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}


void open_inflate (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {{"png_rows", l_png_rows}, {NULL, NULL}};
  register_files(L, functions, internal);
}
