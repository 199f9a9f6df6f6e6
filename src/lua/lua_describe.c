/*
** lua_describe.c - C's tables of operations and of masks as Lua's tables, for the Lua half.
*/

#include <string.h>

#include "lua_heed.h"


static const char *want_name (heed_want want) {
  switch (want) {
    case HEED_WANT_TENSOR: return "tensor";
    case HEED_WANT_TENSORS: return "tensors";
    case HEED_WANT_NUMBER: return "number";
    case HEED_WANT_COUNT: return "count";
    case HEED_WANT_POSITION: return "position";
    case HEED_WANT_AXIS: return "axis";
    case HEED_WANT_AXES: return "axes";
    case HEED_WANT_SHAPE: return "shape";
    case HEED_WANT_FLAG: return "flag";
    case HEED_WANT_DTYPE: return "dtype";
    case HEED_WANT_CHOICE: return "choice";
    case HEED_WANT_TEXT: return "text";
  }
  return "unknown";
}


static void set_string (lua_State *L, const char *name, const char *text) {
  lua_pushstring(L, text);                       /* nil for NULL */
  lua_setfield(L, -2, name);
}


static void set_flag (lua_State *L, const char *name, bool flag) {
  lua_pushboolean(L, flag);
  lua_setfield(L, -2, name);
}


/* Pushes a parameter's default, axes counted as Lua counts them; nil: it has none. */
static void push_default (lua_State *L, const heed_parameter *p) {
  const heed_value *v = &p->value;
  bool counted = p->want == HEED_WANT_AXIS && v->kind == HEED_INTEGER && v->integer >= 0;
  if (p->want == HEED_WANT_CHOICE) {
    size_t length = strcspn(p->words, "|");
    lua_pushlstring(L, p->words, length);
  } else if (v->kind == HEED_INTEGER) lua_pushinteger(L, v->integer + counted);
  else if (v->kind == HEED_FLAG) lua_pushboolean(L, v->integer != 0);
  else if (v->kind == HEED_FLOAT) lua_pushnumber(L, v->number);
  else lua_pushnil(L);
}


static void push_parameter (lua_State *L, const heed_signature *row, const heed_parameter *p) {
  lua_createtable(L, 0, 6);
  set_string(L, "name", p->name);
  set_string(L, "want", want_name(p->want));
  set_string(L, "words", p->words);
  set_flag(L, "optional", p->optional);
  bool list = p->want == HEED_WANT_AXES || p->want == HEED_WANT_SHAPE ||
              p->want == HEED_WANT_TENSORS;
  set_flag(L, "rest", list && takes_rest(row, p));
  push_default(L, p);
  lua_setfield(L, -2, "default");
}


static void push_row (lua_State *L, const heed_signature *row) {
  lua_createtable(L, 0, 5);
  set_string(L, "name", row->name);
  set_string(L, "in_place", heed_works_in_place(row) ? row->in_place_name : NULL);
  set_flag(L, "method", heed_is_method(row));
  lua_pushinteger(L, row->results);
  lua_setfield(L, -2, "results");
  lua_createtable(L, row->parameters, 0);
  for (int i = 0; i < row->parameters; i++) {
    push_parameter(L, row, &row->parameter[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "parameters");
}


/* operations(): a list of all rows of ops.def, in their order */
static int l_operations (lua_State *L) {
  lua_createtable(L, HEED_NOPS, 0);
  for (int i = 0; i < HEED_NOPS; i++) {
    push_row(L, heed_describe(binding_of(L)->cx, (heed_op)i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}


/* Pushes the axes of which 'dims' has the letters: {"B", "S"}. */
static void push_axes (lua_State *L, const char *dims) {
  lua_newtable(L);
  for (int i = 0; dims[i] != '\0'; i++) {
    lua_pushlstring(L, dims + i, 1);
    lua_rawseti(L, -2, i + 1);
  }
}


/*
** mask_words(): for each row of masks.def its number, by name, and its grammar, by number. A word
** without a tensor has no dims.
*/
static int l_mask_words (lua_State *L) {
  lua_createtable(L, 0, 2 * HEED_NMASKS);
  for (int i = 0; i < HEED_NMASKS; i++) {
    const heed_word *w = heed_describe_mask((heed_mask)i);
    lua_pushinteger(L, i);
    lua_setfield(L, -2, w->name);
    lua_createtable(L, 0, 4);
    set_string(L, "name", w->name);
    set_flag(L, "absolute", w->absolute);
    lua_pushinteger(L, w->numbers);
    lua_setfield(L, -2, "numbers");
    if (*w->dims != '\0') {
      push_axes(L, w->dims);
      lua_setfield(L, -2, "dims");
    }
    lua_rawseti(L, -2, i);
  }
  return 1;
}


void open_describe (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"mask_words", l_mask_words}, {"operations", l_operations}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
}
