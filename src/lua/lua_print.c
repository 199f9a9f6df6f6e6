/*
** lua_print.c - tensors as text: aligned columns, slices of higher ranks, and a footer.
*/

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua_heed.h"

#define SUMMARY 1000               /* of more elements than this, the ends are printed */
#define CELL 448                   /* longest text of an element: "%99.99f" of the largest double */

/* How the elements of one tensor are written. */
typedef struct style {
  lua_State *L;
  const binding *b;
  int rank;
  heed_type type;                  /* of the copy that is printed: BOOL, INT64 or FLOAT64 */
  const char *data;                /* the copy, dense */
  int64_t size[HEED_RANK];
  int64_t edge;                    /* elements at each end of an axis; 0: all */
  const char *format;              /* the user's, or NULL */
  bool integers;                   /* floats that all are whole numbers */
  bool scientific;                 /* each with an exponent of its own */
  double least, most;              /* sizes of what is neither 0 nor infinite; 0: there is none */
  int width;                       /* of a column */
  int64_t visited;                 /* elements so far */
} style;


/*
** {==================================================================
** One element
** ===================================================================
*/

static int64_t integer_at (const style *s, int64_t i) {
  return ((const int64_t *)(const void *)s->data)[i];
}


static double number_at (const style *s, int64_t i) {
  if (s->type == HEED_INT64) return (double)integer_at(s, i);
  return ((const double *)(const void *)s->data)[i];
}


/* The host's locale may write a comma. */
static void put_point (char *text) {
  const char *point = localeconv()->decimal_point;
  char *at = strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
  if (at == NULL || *point == '\0') return;
  size_t n = strlen(point);
  *at = '.';
  memmove(at + 1, at + n, strlen(at + n) + 1);
}


static void write_number (const style *s, double x, char text[CELL]) {
  if (isnan(x)) strcpy(text, "nan");
  else if (isinf(x)) strcpy(text, x > 0 ? "inf" : "-inf");
  else if (s->format != NULL) snprintf(text, CELL, s->format, x);
  else if (s->scientific) snprintf(text, CELL, "%.*e", s->b->precision, x);
  else snprintf(text, CELL, "%.*f", s->integers ? 0 : s->b->precision, x);
  put_point(text);
}


static int write_element (const style *s, int64_t i, char text[CELL]) {
  if (s->type == HEED_BOOL) strcpy(text, s->data[i] ? "true" : "false");
  else if (s->type == HEED_INT64 && s->format == NULL)
    snprintf(text, CELL, "%lld", (long long)integer_at(s, i));
  else write_number(s, number_at(s, i), text);
  return (int)strlen(text);
}

/* }================================================================== */


/*
** {==================================================================
** The style of a tensor
** ===================================================================
*/

/* Does a row of n end after element i - 1, to go on with dots and its last elements? */
static bool at_gap (const style *s, int64_t i, int64_t n) {
  return s->edge > 0 && n > 2 * s->edge && i == s->edge;
}


static int64_t elements_below (const style *s, int axis) {
  int64_t n = 1;
  for (int i = axis + 1; i < s->rank; i++) n *= s->size[i];
  return n;
}


/* Calls visit for the elements that are printed, by their offset in the copy. */
static void each_printed (style *s, int axis, int64_t from, void (*visit) (style *s, int64_t i)) {
  if (axis == s->rank) {
    poll(s->L, s->visited++);
    visit(s, from);
    return;
  }
  int64_t n = s->size[axis], below = elements_below(s, axis);
  for (int64_t i = 0; i < n; i++) {
    if (at_gap(s, i, n)) i = n - s->edge;
    each_printed(s, axis + 1, from + i * below, visit);
  }
}


static void note_range (style *s, int64_t i) {
  double x = fabs(number_at(s, i));
  if (!isfinite(x)) return;
  if (x != floor(x)) s->integers = false;
  if (x > s->most) s->most = x;
  if (x > 0 && (x < s->least || s->least == 0)) s->least = x;
}


static void note_width (style *s, int64_t i) {
  char text[CELL];
  int n = write_element(s, i, text);
  if (n > s->width) s->width = n;
}


/*
** PyTorch's rule, of the least and the largest size: would the digits hide the small ones, or show
** too much of the large ones? (The float32 of 1e-4 lies a little below it.)
*/
static bool need_exponents (double least, double most) {
  return most > 1e8 || (least > 0 && (least < 0.9999999e-4 || most / least > 1000));
}


/* Whole numbers are written whole, where that takes no more than nine digits. */
static void choose_notation (style *s) {
  s->integers = s->integers && s->most < 1e9;
  s->scientific = !s->integers && need_exponents(s->least, s->most);
}


static void choose_style (style *s) {
  s->integers = true;
  s->width = 0;
  if (s->type == HEED_FLOAT64 && s->format == NULL) {
    each_printed(s, 0, 0, note_range);
    choose_notation(s);
  }
  each_printed(s, 0, 0, note_width);
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


/* Elements first .. last - 1 of the row of n that begins at 'from'. */
static void add_row (const style *s, luaL_Buffer *out, int64_t from, int64_t n, int64_t first,
                     int64_t last) {
  char text[CELL];
  for (int64_t i = first; i < last; i++) {
    luaL_addstring(out, "  ");
    if (at_gap(s, i, n)) {
      luaL_addstring(out, "...  ");
      i = n - s->edge;
    }
    poll(s->L, from + i);
    write_element(s, from + i, text);
    add_padded(out, text, s->width);
  }
}


static void add_block (const style *s, luaL_Buffer *out, int64_t from, int64_t rows, int64_t n,
                       int64_t first, int64_t last) {
  for (int64_t i = 0; i < rows; i++) {
    if (at_gap(s, i, rows)) {
      luaL_addstring(out, "  ...\n");
      i = rows - s->edge;
    }
    add_row(s, out, from + i * n, n, first, last);
    luaL_addchar(out, '\n');
  }
}


/* Rows that are too wide are printed as blocks of columns. */
static void add_matrix (const style *s, luaL_Buffer *out, int64_t from, int64_t rows, int64_t n) {
  int64_t fit = s->b->width / (s->width + 2);
  if (fit < 1) fit = 1;
  if (n <= fit || at_gap(s, s->edge, n)) {
    add_block(s, out, from, rows, n, 0, n);
    return;
  }
  for (int64_t first = 0; first < n; first += fit) {
    char title[64];
    int64_t last = first + fit < n ? first + fit : n;
    snprintf(title, sizeof title, "columns %lld to %lld:\n", (long long)first + 1,
             (long long)last);
    luaL_addstring(out, title);
    add_block(s, out, from, rows, n, first, last);
  }
}


/* "(1, 2, ., .) =": positions as they are in the tensor, of which a summary leaves some out. */
static void add_slice_title (const style *s, luaL_Buffer *out, const int64_t *position) {
  char text[32];
  luaL_addchar(out, '(');
  for (int i = 0; i < s->rank - 2; i++) {
    snprintf(text, sizeof text, "%lld, ", (long long)position[i]);
    luaL_addstring(out, text);
  }
  luaL_addstring(out, "., .) =\n");
}


/* 'sizes' are the tensor's own. */
static void add_slices (const style *s, luaL_Buffer *out, int axis, int64_t from,
                        const int64_t *sizes, int64_t *position) {
  if (axis == s->rank - 2) {
    if (s->rank > 2) add_slice_title(s, out, position);
    add_matrix(s, out, from, s->size[axis], s->size[axis + 1]);
    return;
  }
  int64_t n = s->size[axis], below = elements_below(s, axis);
  for (int64_t i = 0; i < n; i++) {
    if (at_gap(s, i, n)) {
      luaL_addstring(out, "...\n");
      i = n - s->edge;
    }
    position[axis] = i < s->edge || s->edge == 0 ? i + 1 : sizes[axis] - (n - i) + 1;
    add_slices(s, out, axis + 1, from + i * below, sizes, position);
  }
}


/* A vector that is too wide goes on in lines of as many elements as fit; the footer follows. */
static void add_vector (const style *s, luaL_Buffer *out) {
  char text[CELL];
  int64_t n = s->size[0], fit = (s->b->width + 2) / (s->width + 2);
  if (fit < 1) fit = 1;
  bool wraps = (at_gap(s, s->edge, n) ? 2 * s->edge + 1 : n) > fit;
  for (int64_t i = 0, place = 0; i < n; i++, place++) {
    if (place > 0) luaL_addstring(out, place % fit == 0 ? "\n" : "  ");
    if (at_gap(s, i, n)) {
      add_padded(out, "...", wraps ? s->width : 0);
      i = n - s->edge - 1;
      continue;
    }
    poll(s->L, i);
    write_element(s, i, text);
    add_padded(out, text, s->width);
  }
  luaL_addchar(out, wraps ? '\n' : ' ');
}


static void add_body (const style *s, luaL_Buffer *out, const int64_t *sizes) {
  int64_t position[HEED_RANK] = {0};
  if (s->rank > 1) add_slices(s, out, 0, 0, sizes, position);
  else add_vector(s, out);
}


static void add_footer (luaL_Buffer *out, const heed_tensor *t) {
  char text[32];
  luaL_addchar(out, '[');
  luaL_addstring(out, heed_type_name(heed_type_of(t)));
  luaL_addstring(out, " (");
  for (int i = 0; i < heed_rank(t); i++) {
    snprintf(text, sizeof text, i > 0 ? ", %lld" : "%lld", (long long)heed_size(t, i));
    luaL_addstring(out, text);
  }
  luaL_addstring(out, ") ");
  luaL_addstring(out, heed_device_of(t));
  if (heed_requires_grad(t)) luaL_addstring(out, " grad");
  luaL_addchar(out, ']');
}

/* }================================================================== */


/*
** {==================================================================
** From a tensor to its text
** ===================================================================
*/

/* One element stands alone. */
static int push_single (style *s) {
  char text[CELL];
  double x = s->type == HEED_FLOAT64 ? number_at(s, 0) : 0;
  s->scientific = isfinite(x) && need_exponents(fabs(x), fabs(x));
  write_element(s, 0, text);
  lua_pushstring(s->L, text);
  return 1;
}


static heed_tensor *ends (heed_context *cx, heed_tensor *t, int axis, int64_t n);


/* The ends, along the axes behind this one, of the elements first to last of it. */
static heed_tensor *ends_within (heed_context *cx, heed_tensor *t, int axis, int64_t n,
                                 int64_t first, int64_t last) {
  if (t == NULL) return NULL;
  heed_value slice[] = {heed_t(t), heed_i(axis), heed_i(first), heed_i(last)};
  heed_tensor *part = heed_call(cx, HEED_slice, slice, 4);
  heed_tensor *y = part != NULL ? ends(cx, part, axis + 1, n) : NULL;
  heed_drop(part);
  return y;
}


/* Blocks as values, of a tensor whose rows are divided from this axis on. */
static heed_tensor *values_of (heed_context *cx, heed_tensor *t, int axis) {
  const int last = heed_rank(t) - 1;
  if (heed_type_block(heed_type_of(t)) == 1) return heed_keep(t);
  if (axis < last && heed_stride(t, last) == 1) return heed_keep(t);
  return heed_call(cx, HEED_to, (heed_value[]){heed_t(t), heed_i(HEED_FLOAT32)}, 2);
}


/*
** The first and the last n elements of each axis from this one on, joined; axes that have hardly
** more stay whole. Views of the corners are made first: nothing else is read.
*/
static heed_tensor *ends (heed_context *cx, heed_tensor *t, int axis, int64_t n) {
  if (axis == heed_rank(t)) return heed_keep(t);
  int64_t size = heed_size(t, axis);
  if (size <= 2 * n) return ends(cx, t, axis + 1, n);
  t = values_of(cx, t, axis);
  heed_tensor *two[] = {ends_within(cx, t, axis, n, 1, n),
                        ends_within(cx, t, axis, n, size - n + 1, size)};
  heed_drop(t);
  heed_value join[] = {heed_ts(2, two), heed_i(axis)};
  bool good = two[0] != NULL && two[1] != NULL;
  heed_tensor *y = good ? heed_call(cx, HEED_cat, join, 2) : NULL;
  heed_drop(two[0]);
  heed_drop(two[1]);
  return y;
}


/*
** The part of t that is printed: all, or of long axes the ends with one element more at each, so
** that the axes are still too long and dots are printed.
*/
static heed_tensor *shown (const style *s, heed_tensor *t) {
  heed_tensor *y = heed_detach(t);
  if (s->edge == 0 || y == NULL) return y;
  heed_tensor *shorter = ends(s->b->cx, y, 0, s->edge + 1);
  heed_drop(y);
  return shorter;
}


/* Fills the cell with what is printed, and copies its elements. */
static void read_elements (style *s, cell *made, heed_tensor *t) {
  lua_State *L = s->L;
  s->rank = heed_rank(t);
  s->type = lua_type_of(t);
  s->edge = heed_numel(t) > SUMMARY ? s->b->edge : 0;
  named(L);
  fill(L, made, shown(s, t));
  for (int i = 0; i < s->rank; i++) s->size[i] = heed_size(made->t, i);
  char *data = lua_newuserdatauv(L, (size_t)heed_numel(made->t) * 8 + 8, 0);
  named(L);
  done(L, heed_read(made->t, s->type, data));
  s->data = data;
}


static int push_text (lua_State *L, const char *format) {
  luaL_Buffer out;
  binding *b = enter(L);
  luaL_checkstack(L, 2 * HEED_RANK + 20, "tostring");
  cell *made = push_cell(L);
  heed_tensor *t = check_tensor(L, 1);
  style s = {.L = L, .b = b, .format = format};
  int64_t sizes[HEED_RANK];
  read_elements(&s, made, t);
  for (int i = 0; i < s.rank; i++) sizes[i] = heed_size(t, i);
  if (s.rank == 0) return push_single(&s);
  luaL_buffinit(L, &out);
  if (heed_numel(t) > 0) {
    choose_style(&s);
    add_body(&s, &out, sizes);
  }
  add_footer(&out, t);
  luaL_pushresult(&out);
  return 1;
}


int l_tostring (lua_State *L) {
  if (raw_tensor(L, 1) != NULL) return push_text(L, NULL);
  lua_pushliteral(L, "[released tensor]");
  return 1;
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


/* format("%.3f"): the text of x, its elements written so */
static int l_format (lua_State *L) {
  at_most(L, 2);
  check_tensor(L, 1);
  size_t n = 0;
  const char *format = lua_type(L, 2) == LUA_TSTRING ? lua_tolstring(L, 2, &n) : NULL;
  if (format == NULL || strlen(format) != n || !good_format(format))
    return raise(L, "a format of one float such as '%%.3f' expected, got %s", describe(L, 2));
  return push_text(L, format);
}


static void set_print_option (lua_State *L, const char *key, int *option, int least, int most) {
  int i = lua_gettop(L);
  int64_t value = check_integer(L, i, key);
  if (value < least || value > most)
    raise(L, "argument '%s': a number from %d to %d expected, got %s", key, least, most,
          describe(L, i));
  *option = (int)value;
}


/* printoptions{precision, width, edge} */
static int l_printoptions (lua_State *L) {
  static const char *const known[] = {"precision", "width", "edge"};
  binding *b = enter(L);
  at_most(L, 1);
  const char *key;
  check_options(L, 1);
  lua_pushnil(L);
  while ((key = next_option(L, 1, 3, known)) != NULL) {
    if (key == known[0]) set_print_option(L, key, &b->precision, 0, 17);
    else if (key == known[1]) set_print_option(L, key, &b->width, 20, 10000);
    else set_print_option(L, key, &b->edge, 1, 100);
    lua_pop(L, 1);
  }
  return 0;
}

/* }================================================================== */


void open_print (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {{"printoptions", l_printoptions}, {NULL, NULL}};
  static const luaL_Reg tensor[] = {{"format", l_format}, {NULL, NULL}};
  register_functions(L, functions, module);
  register_methods(L, tensor, module, methods);
}
