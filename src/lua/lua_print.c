/*
** lua_print.c - tensors as text: aligned columns, slices of higher ranks, and a footer.
*/

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_heed.h"

#define SUMMARY 1000               /* more elements than this are not all printed */
#define CELL 64                    /* longest text of an element */

/* How the elements of one tensor are written. */
typedef struct style {
  lua_State *L;
  const binding *b;
  const heed_tensor *t;
  heed_type type;                  /* of the copy that is printed: BOOL, INT64 or FLOAT64 */
  const char *data;                /* the copy, dense */
  int64_t size[HEED_RANK];
  int64_t edge;                    /* elements at each end of an axis; 0: all */
  const char *format;              /* the user's, or NULL */
  bool whole;                      /* floats that all are whole numbers */
  double scale;
  int width;
} style;


/*
** {==================================================================
** One element
** ===================================================================
*/

static double element (const style *s, int64_t i) {
  if (s->type == HEED_BOOL) return s->data[i];
  if (s->type == HEED_INT64) return (double)((const int64_t *)(const void *)s->data)[i];
  return ((const double *)(const void *)s->data)[i];
}

/* The host's locale may write a comma. */
static void plain_point (char *text) {
  const char *point = localeconv()->decimal_point;
  char *at = *point != '\0' && strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
  if (at == NULL) return;
  size_t n = strlen(point);
  *at = '.';
  memmove(at + 1, at + n, strlen(at + n) + 1);
}

static int write_float (const style *s, double x, char text[CELL]) {
  if (isnan(x)) return snprintf(text, CELL, "nan");
  if (isinf(x)) return snprintf(text, CELL, x > 0 ? "inf" : "-inf");
  if (s->format != NULL) snprintf(text, CELL, s->format, x);
  else snprintf(text, CELL, "%.*f", s->whole ? 0 : s->b->precision, x / s->scale);
  plain_point(text);
  return (int)strlen(text);
}

static int write_element (const style *s, int64_t i, char text[CELL]) {
  if (s->type == HEED_BOOL) return snprintf(text, CELL, s->data[i] ? "true" : "false");
  if (s->type == HEED_INT64 && s->format == NULL)
    return snprintf(text, CELL, "%lld", (long long)((const int64_t *)(const void *)s->data)[i]);
  return write_float(s, element(s, i), text);
}

/* }================================================================== */


/*
** {==================================================================
** The style of a tensor
** ===================================================================
*/

/* Calls visit for the elements that are printed, by their place in the copy. */
static void each_shown (const style *s, int axis, int64_t from, style *out,
                        void (*visit) (style *out, int64_t i)) {
  int rank = heed_rank(s->t);
  if (axis == rank) { visit(out, from); return; }
  int64_t n = s->size[axis], below = 1;
  for (int i = axis + 1; i < rank; i++) below *= s->size[i];
  for (int64_t i = 0; i < n; i++) {
    if (s->edge > 0 && n > 2 * s->edge && i == s->edge) i = n - s->edge;
    each_shown(s, axis + 1, from + i * below, out, visit);
  }
}

static void note_range (style *out, int64_t i) {
  double x = fabs(element(out, i));
  if (!isfinite(x)) return;
  if (x != floor(x)) out->whole = false;
  if (x > out->scale) out->scale = x;
}

static void note_width (style *out, int64_t i) {
  char text[CELL];
  int n = write_element(out, i, text);
  if (n > out->width) out->width = n;
}

/* A common scale only where four digits would show nothing, or too much. */
static void choose_scale (style *s) {
  double most = s->scale;
  s->scale = 1;
  if (s->whole) { s->whole = most < 1e9; if (s->whole) return; }
  if (most >= 1e5 || (most > 0 && most < 1e-4)) s->scale = pow(10, floor(log10(most)));
}

static void choose_style (style *s) {
  s->scale = 0;
  s->whole = true;
  s->width = 0;
  if (s->type == HEED_FLOAT64 && s->format == NULL) {
    each_shown(s, 0, 0, s, note_range);
    choose_scale(s);
  }
  each_shown(s, 0, 0, s, note_width);
}

/* }================================================================== */


/*
** {==================================================================
** Rows, matrices, slices
** ===================================================================
*/

static void add_padded (luaL_Buffer *out, const char *text, int width) {
  for (int n = (int)strlen(text); n < width; n++) luaL_addchar(out, ' ');
  luaL_addstring(out, text);
}

static void add_row (const style *s, luaL_Buffer *out, int64_t from, int64_t n) {
  char text[CELL];
  for (int64_t i = 0; i < n; i++) {
    if (s->edge > 0 && n > 2 * s->edge && i == s->edge) {
      luaL_addstring(out, "  ...");
      i = n - s->edge;
    }
    write_element(s, from + i, text);
    if (i > 0 || heed_rank(s->t) > 1) luaL_addstring(out, "  ");
    add_padded(out, text, s->width);
  }
}

static void add_matrix (const style *s, luaL_Buffer *out, int64_t from, int64_t rows,
                        int64_t columns) {
  for (int64_t i = 0; i < rows; i++) {
    if (s->edge > 0 && rows > 2 * s->edge && i == s->edge) {
      luaL_addstring(out, "  ...\n");
      i = rows - s->edge;
    }
    add_row(s, out, from + i * columns, columns);
    luaL_addchar(out, '\n');
  }
}

static void add_slice_title (luaL_Buffer *out, int n, const int64_t *position) {
  char text[32];
  luaL_addchar(out, '(');
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%lld, ", (long long)position[i] + 1);
    luaL_addstring(out, text);
  }
  luaL_addstring(out, "., .) =\n");
}

static void add_slices (const style *s, luaL_Buffer *out, int axis, int64_t from,
                        int64_t *position) {
  int rank = heed_rank(s->t);
  if (axis == rank - 2) {
    if (rank > 2) add_slice_title(out, rank - 2, position);
    add_matrix(s, out, from, s->size[axis], s->size[axis + 1]);
    return;
  }
  int64_t n = s->size[axis], below = 1;
  for (int i = axis + 1; i < rank; i++) below *= s->size[i];
  for (int64_t i = 0; i < n; i++) {
    if (s->edge > 0 && n > 2 * s->edge && i == s->edge) {
      luaL_addstring(out, "...\n");
      i = n - s->edge;
    }
    position[axis] = i;
    add_slices(s, out, axis + 1, from + i * below, position);
  }
}

static void add_scale (const style *s, luaL_Buffer *out) {
  char text[CELL];
  if (s->scale == 1 || s->scale == 0) return;
  snprintf(text, sizeof text, "%.0e *", s->scale);
  luaL_addstring(out, text);
  luaL_addchar(out, heed_rank(s->t) == 1 ? ' ' : '\n');
}

static void add_footer (const style *s, luaL_Buffer *out) {
  const heed_tensor *t = s->t;
  char text[32];
  luaL_addchar(out, '[');
  luaL_addstring(out, heed_type_name(heed_type_of(t)));
  luaL_addstring(out, " (");
  for (int i = 0; i < heed_rank(t); i++) {
    snprintf(text, sizeof text, i > 0 ? ", %lld" : "%lld", (long long)s->size[i]);
    luaL_addstring(out, text);
  }
  luaL_addstring(out, ") ");
  luaL_addstring(out, heed_device_of(t));
  if (heed_requires_grad(t)) luaL_addstring(out, " grad");
  luaL_addchar(out, ']');
}

static void add_body (const style *s, luaL_Buffer *out) {
  int64_t position[HEED_RANK] = {0};
  add_scale(s, out);
  if (heed_rank(s->t) == 1) {
    add_row(s, out, 0, s->size[0]);
    if (s->size[0] > 0) luaL_addchar(out, ' ');
  }
  else add_slices(s, out, 0, 0, position);
}

/* }================================================================== */


/*
** {==================================================================
** From a tensor to its text
** ===================================================================
*/

/* One element stands alone: as many digits as it takes, four behind the point. */
static int push_single (style *s) {
  char text[CELL];
  double x = element(s, 0), size = fabs(x);
  if (s->type == HEED_FLOAT64 && s->format == NULL && size != 0 && isfinite(x) &&
      (size >= 1e5 || size < 1e-4)) {
    snprintf(text, sizeof text, "%.*e", s->b->precision, x);
    plain_point(text);
  }
  else {
    s->scale = 1;
    s->whole = false;
    write_element(s, 0, text);
  }
  lua_pushstring(s->L, text);
  return 1;
}

/* The ends of every long axis, joined: what a summary shows. Pushes boxes. */
static heed_tensor *shorten (lua_State *L, heed_tensor *t, int axis, int64_t edge) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  box *slot = push_box(L);
  int64_t n = heed_size(t, axis);
  heed_tensor *ends[2];
  heed_value first[] = {heed_t(t), heed_i(axis), heed_i(1), heed_i(edge)};
  heed_value last[] = {heed_t(t), heed_i(axis), heed_i(n - edge + 1), heed_i(n)};
  ends[0] = heed_call(b->cx, HEED_slice, first, 4);
  ends[1] = heed_call(b->cx, HEED_slice, last, 4);
  heed_value join[] = {heed_ts(2, ends), heed_i(axis)};
  heed_tensor *y = ends[0] != NULL && ends[1] != NULL ? heed_call(b->cx, HEED_cat, join, 2) : NULL;
  heed_drop(ends[0]);
  heed_drop(ends[1]);
  fill(L, slot, y);
  return y;
}

/* Long axes keep their ends and one element between, which is printed as dots. */
static heed_tensor *summarise (style *s, heed_tensor *t) {
  for (int i = 0; i < heed_rank(t); i++) {
    if (heed_size(t, i) > 2 * s->edge + 1) t = shorten(s->L, t, i, s->edge + 1);
  }
  return t;
}

static void copy_elements (style *s, heed_tensor *t) {
  heed_type type = heed_type_of(t);
  s->type = type == HEED_BOOL ? type : type <= HEED_INT64 ? HEED_INT64 : HEED_FLOAT64;
  for (int i = 0; i < heed_rank(t); i++) s->size[i] = heed_size(t, i);
  char *data = lua_newuserdatauv(s->L, (size_t)heed_numel(t) * 8 + 8, 0);
  if (!heed_read(t, s->type, data)) raise_failure(s->L);
  s->data = data;
}

static int push_text (lua_State *L, heed_tensor *t, const char *format) {
  binding *b = enter(L);
  style s = {.L = L, .b = b, .t = t, .format = format};
  luaL_Buffer out;
  luaL_checkstack(L, 2 * HEED_RANK + 20, "tostring");
  s.edge = heed_numel(t) > SUMMARY ? b->edge : 0;
  bool recording = heed_set_recording(b->cx, false);
  heed_tensor *shown = s.edge > 0 ? summarise(&s, t) : t;
  heed_set_recording(b->cx, recording);
  copy_elements(&s, shown);
  if (heed_rank(t) == 0) return push_single(&s);
  bool empty = heed_numel(t) == 0;
  if (!empty) choose_style(&s);
  luaL_buffinit(L, &out);
  if (!empty) add_body(&s, &out);
  for (int i = 0; i < heed_rank(t); i++) s.size[i] = heed_size(t, i);
  add_footer(&s, &out);
  luaL_pushresult(&out);
  return 1;
}

int l_tostring (lua_State *L) {
  heed_tensor *t = raw_tensor(L, 1);
  if (t == NULL) {
    lua_pushliteral(L, "[released tensor]");
    return 1;
  }
  return push_text(L, t, NULL);
}

/* A format of one number: flags, width, precision, one of eEfFgG. */
static bool good_format (const char *s) {
  if (strlen(s) > 16 || *s != '%') return false;
  s += 1 + strspn(s + 1, "-+ #0");
  size_t width = strspn(s, "0123456789");
  s += width;
  size_t precision = *s == '.' ? strspn(s + 1, "0123456789") : 0;
  if (*s == '.') s += 1 + precision;
  return width <= 2 && precision <= 2 && *s != '\0' && strchr("eEfFgG", *s) != NULL &&
         s[1] == '\0';
}

/* x:format("%.3f"): its text with another format */
static int l_format (lua_State *L) {
  heed_tensor *t = check_tensor(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING || !good_format(lua_tostring(L, 2)))
    return raise(L, "format: a format of one float such as \"%%.3f\" expected, got %s",
                 luaL_tolstring(L, 2, NULL));
  return push_text(L, t, lua_tostring(L, 2));
}

static void set_print_option (lua_State *L, const char *key, int *option, int least, int most) {
  int64_t value = check_whole(L, lua_gettop(L), "printoptions", key);
  if (value < least || value > most)
    raise(L, "printoptions: '%s' from %d to %d expected, got %I", key, least, most,
          (LUAI_UACINT)value);
  *option = (int)value;
}

static int l_printoptions (lua_State *L) {
  static const char *const known[] = {"precision", "width", "edge"};
  binding *b = enter(L);
  if (!lua_istable(L, 1))
    return raise(L, "printoptions: a table of options expected, got %s", luaL_typename(L, 1));
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    if (strcmp(key, "precision") == 0) set_print_option(L, key, &b->precision, 0, 17);
    else if (strcmp(key, "width") == 0) set_print_option(L, key, &b->width, 20, 10000);
    else if (strcmp(key, "edge") == 0) set_print_option(L, key, &b->edge, 1, 100);
    else unknown_option(L, "printoptions", key, 3, known);
    lua_pop(L, 1);
  }
  return 0;
}

void open_print (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {{"printoptions", l_printoptions}, {NULL, NULL}};
  static const luaL_Reg tensor[] = {{"format", l_format}, {NULL, NULL}};
  register_functions(L, functions, module);
  register_functions(L, tensor, methods);
}

/* }================================================================== */
