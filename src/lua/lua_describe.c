/*
** lua_describe.c - C's tables of operations, masks, optimizers and blocks as tables of Lua.
*/

#include <math.h>
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


bool takes_list (const heed_parameter *p) {
  return p->want == HEED_WANT_AXES || p->want == HEED_WANT_SHAPE || p->want == HEED_WANT_TENSORS;
}


bool takes_rest (const heed_signature *row, const heed_parameter *p) {
  for (const heed_parameter *q = p + 1; q < row->parameter + row->parameters; q++)
    if (q->want != HEED_WANT_DTYPE) return false;
  return true;
}


static void push_parameter (lua_State *L, const heed_signature *row, const heed_parameter *p) {
  lua_createtable(L, 0, 6);
  set_string(L, "name", p->name);
  set_string(L, "want", want_name(p->want));
  set_string(L, "words", p->words);
  set_flag(L, "optional", p->optional);
  set_flag(L, "rest", takes_list(p) && takes_rest(row, p));
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
  heed_context *cx = enter(L)->cx;
  lua_createtable(L, HEED_NOPS, 0);
  for (int i = 0; i < HEED_NOPS; i++) {
    push_row(L, heed_describe(cx, (heed_op)i));
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


/* A number or a flag of heed_step. */
typedef struct field {
  const char *name, *option;       /* of heed_step; of Lua, which is a list where they differ */
  int entry;                       /* of that list, from 1 */
  bool flag;
  double least, below;
} field;

static const field fields[] = {
#define NUMBER(name, least, below) {#name, #name, 0, false, least, below},
#define ENTRY(name, list, i, least, below) {#name, #list, i, false, least, below},
#define FLAG(name) {#name, #name, 0, true, 0, 1},
#include "op/optimizers.def"
};


/* Sets an option in the table on top of the stack: {default =, least =, below =}. */
static void set_option (lua_State *L, const char *name, double value) {
  const field *f = fields;
  while (strcmp(f->name, name) != 0) f++;
  if (f->entry <= 1) lua_createtable(L, 0, 3);
  else lua_getfield(L, -1, f->option);
  if (f->entry == 1) lua_newtable(L);
  else if (f->entry > 1) lua_getfield(L, -1, "default");
  if (f->flag) lua_pushboolean(L, value != 0);
  else lua_pushnumber(L, value);
  if (f->entry > 0) lua_rawseti(L, -2, f->entry);
  lua_setfield(L, -2, "default");
  if (!f->flag) {
    lua_pushnumber(L, f->least);
    lua_setfield(L, -2, "least");
    lua_pushnumber(L, f->below);
    lua_setfield(L, -2, "below");
  }
  lua_setfield(L, -2, f->option);
}


/* Appends a state to the list on top of the stack: {name =, option =}. */
static void add_state (lua_State *L, const char *name, const char *option) {
  lua_createtable(L, 0, 2);
  set_string(L, "name", name);
  set_string(L, "option", option);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}


/*
** optimizers(): the rows of optimizers.def by name: whether the first step fills the states, the
** options by name, and the states, of which one with an option is there where that is not 0.
*/
static int l_optimizers (lua_State *L) {
  enum { ZEROS, FILLED };
  lua_newtable(L);
#define OPTIMIZER(NAME, name, formula, decay, begin, options, states) \
  lua_createtable(L, 0, 3); \
  set_flag(L, "fills", begin == FILLED); \
  lua_newtable(L); \
  options \
  lua_setfield(L, -2, "options"); \
  lua_newtable(L); \
  states \
  lua_setfield(L, -2, "states"); \
  lua_setfield(L, -2, #name);
#define HAS(name, value) set_option(L, #name, value);
#define STATE(name) add_state(L, #name, NULL);
#define STATE_IF(name, option) add_state(L, #name, #option);
#include "op/optimizers.def"
  return 1;
}


/* blocks(): the types of blocks by name: {elements =, bytes =, written =} */
static int l_blocks (lua_State *L) {
  lua_newtable(L);
  for (int i = HEED_NTYPES + 1; i < HEED_ALL_TYPES; i++) {
    const heed_type type = (heed_type)i;
    const int elements = heed_type_block(type);
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, elements);
    lua_setfield(L, -2, "elements");
    lua_pushinteger(L, (lua_Integer)heed_type_bytes(type, elements));
    lua_setfield(L, -2, "bytes");
    set_flag(L, "written", heed_type_written(type));
    lua_setfield(L, -2, heed_type_name(type));
  }
  return 1;
}


/* Blocks serve floats of any type. */
static bool serves (heed_type weight, heed_type x) {
  return weight == x || (heed_type_block(weight) > 1 && x >= HEED_FLOAT16 && x < HEED_NTYPES);
}


/* serves(weight, x): are both tensors, of types that go together? Linear layers ask for each call,
   hence here. */
static int l_serves (lua_State *L) {
  const heed_tensor *weight = raw_tensor(L, 1), *x = raw_tensor(L, 2);
  lua_pushboolean(L, weight != NULL && x != NULL &&
                  serves(heed_type_of(weight), heed_type_of(x)));
  return 1;
}


void open_describe (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"blocks", l_blocks}, {"mask_words", l_mask_words}, {"operations", l_operations},
    {"optimizers", l_optimizers}, {"serves", l_serves}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
}
