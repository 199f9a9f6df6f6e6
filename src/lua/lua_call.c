/*
** lua_call.c - every row of the table of operations as a function and a method.
**
** Arguments stand in the row's order; a table of options at the end may name those that are left
** out. Upvalue 5 is the op's number.
*/

#include <string.h>

#include "lua_heed.h"

#define INTEGERS 256               /* most in the lists of one call */

/* A call as it is read from Lua's stack. */
typedef struct reading {
  lua_State *L;
  binding *b;
  const heed_signature *row;
  int top;                         /* the last positional argument */
  int options;                     /* the stack index of the options, or 0 */
  int used;                        /* of 'integers' */
  bool lists;                      /* of tensors */
  bool requires_grad;
  const char *device;              /* of a factory, or NULL */
  heed_value args[HEED_ARGUMENTS];
  int64_t integers[INTEGERS];
} reading;


/*
** {==================================================================
** One argument
** ===================================================================
*/

static int wrong (const reading *r, const heed_parameter *p, int i, const char *wanted) {
  return raise_wrong(r->L, p->name, wanted, i);
}


static heed_tensor *tensor_at (const reading *r, const heed_parameter *p, int i) {
  cell *s = cell_at(r->L, r->b, i);
  if (s != NULL && s->t != NULL) return s->t;
  bool number = p->want == HEED_WANT_TENSOR && p != r->row->parameter;
  const char *wanted = number ? "a tensor or a number" : "a tensor";
  if (lua_istable(r->L, i))
    raise(r->L, "argument '%s': %s expected, got a table; heed.tensor makes one of a list of "
          "numbers", p->name, wanted);
  wrong(r, p, i, wanted);
  return NULL;
}


/* A boolean in place of a mask is most often what '==' made of two tensors. */
static heed_value read_bool (const reading *r, const heed_parameter *p, int i) {
  if (strcmp(p->name, "mask") == 0 || strcmp(p->name, "condition") == 0)
    wrong(r, p, i, "a bool tensor such as x:eq(2)");
  return heed_b(lua_toboolean(r->L, i));
}


static heed_value read_number (const reading *r, const heed_parameter *p, int i) {
  if (lua_type(r->L, i) != LUA_TNUMBER) wrong(r, p, i, "a number");
  return lua_isinteger(r->L, i) ? heed_i(lua_tointeger(r->L, i)) : heed_f(lua_tonumber(r->L, i));
}


static heed_value read_tensor (const reading *r, const heed_parameter *p, int i) {
  switch (lua_type(r->L, i)) {
    case LUA_TNUMBER: return read_number(r, p, i);
    case LUA_TBOOLEAN: return read_bool(r, p, i);
    default: return heed_t(tensor_at(r, p, i));
  }
}


/* The tensors of the table at *i, or all that follow one another, in memory of Lua's. */
static heed_value read_tensors (reading *r, const heed_parameter *p, int *i) {
  lua_State *L = r->L;
  bool table = lua_type(L, *i) == LUA_TTABLE;
  int n = table ? (int)check_list(L, *i) : 0;
  while (!table && *i + n <= r->top && is_box(L, *i + n)) n++;
  if (n == 0 && !table) wrong(r, p, *i, "a list of tensors");
  heed_tensor **list = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *list, 0);
  for (int k = 0; k < n; k++) {
    if (table) lua_rawgeti(L, *i, k + 1);
    else lua_pushvalue(L, *i + k);
    bool hole = table && lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    list[k] = hole ? NULL : tensor_at(r, p, lua_gettop(L));
    lua_pop(L, 1);
  }
  *i += table ? 1 : n;
  r->lists = true;
  return heed_ts(n, list);
}


static int64_t integer_at (const reading *r, const heed_parameter *p, int i) {
  int64_t value = 0;
  if (!to_integer(r->L, i, &value)) wrong(r, p, i, "a whole number");
  return value;
}


static void add_entry (reading *r, const heed_parameter *p, int i) {
  if (r->used == INTEGERS) raise(r->L, "argument '%s': too many numbers", p->name);
  int64_t value = integer_at(r, p, i);
  r->integers[r->used++] = p->want == HEED_WANT_AXES ? axis_of(r->L, value, p->name) : value;
}


static void add_table (reading *r, const heed_parameter *p, int i) {
  int64_t n = check_list(r->L, i);
  for (int64_t k = 1; k <= n; k++) {
    lua_rawgeti(r->L, i, k);
    add_entry(r, p, lua_gettop(r->L));
    lua_pop(r->L, 1);
  }
}


/* Numbers that follow one another have no hole among them, which would end their list. */
static void refuse_hole (const reading *r, const heed_parameter *p, int i) {
  int k = i;
  while (k < r->top && lua_isnil(r->L, k)) k++;
  if (k > i && lua_type(r->L, k) == LUA_TNUMBER && takes_rest(r->row, p))
    wrong(r, p, i, "a whole number");
}


static heed_value read_list (reading *r, const heed_parameter *p, int *i) {
  int from = r->used;
  if (lua_type(r->L, *i) == LUA_TTABLE) add_table(r, p, (*i)++);
  else {
    do add_entry(r, p, (*i)++);
    while (takes_rest(r->row, p) && *i <= r->top && lua_type(r->L, *i) == LUA_TNUMBER);
    refuse_hole(r, p, *i);
  }
  return heed_l(r->used - from, r->integers + from);
}


static heed_value read_text (const reading *r, const heed_parameter *p, int i) {
  const char *text = plain_text(r->L, i);
  if (text == NULL) wrong(r, p, i, "a text");
  return heed_s(text);
}


/* Reads what p wants at *i and moves *i behind it. */
static heed_value read_argument (reading *r, const heed_parameter *p, int *i) {
  if (lua_isnil(r->L, *i)) {
    if (p->want == HEED_WANT_AXES || p->want == HEED_WANT_SHAPE) refuse_hole(r, p, *i);
    (*i)++;
    return heed_none();
  }
  switch (p->want) {
    case HEED_WANT_TENSOR: return read_tensor(r, p, (*i)++);
    case HEED_WANT_TENSORS: return read_tensors(r, p, i);
    case HEED_WANT_AXES: case HEED_WANT_SHAPE: return read_list(r, p, i);
    case HEED_WANT_NUMBER: return read_number(r, p, (*i)++);
    case HEED_WANT_FLAG: return heed_b(check_flag(r->L, (*i)++, p->name));
    case HEED_WANT_DTYPE: return heed_i(check_type_name(r->L, (*i)++));
    case HEED_WANT_CHOICE: case HEED_WANT_TEXT: return read_text(r, p, (*i)++);
    case HEED_WANT_AXIS: return heed_i(axis_of(r->L, integer_at(r, p, (*i)++), p->name));
    case HEED_WANT_COUNT: case HEED_WANT_POSITION: break;
  }
  return heed_i(integer_at(r, p, (*i)++));
}

/* }================================================================== */


/*
** {==================================================================
** All arguments
** ===================================================================
*/

static int parameter_called (const heed_signature *row, const char *name) {
  for (int i = 0; i < row->parameters; i++)
    if (strcmp(row->parameter[i].name, name) == 0) return i;
  return -1;
}


/* Rows that make a tensor from nothing take the options of all such. */
static bool makes (const heed_signature *row) {
  return !heed_is_method(row) && parameter_called(row, "dtype") >= 0;
}


/* The name at 'key' is none of an option's. */
static int refuse_name (const reading *r, int key) {
  const char *known[HEED_ARGUMENTS + 2];
  int n = 0;
  for (int i = heed_is_method(r->row); i < r->row->parameters; i++)
    known[n++] = r->row->parameter[i].name;
  if (makes(r->row)) {
    known[n++] = "requires_grad";
    known[n++] = "device";
  }
  return refuse_option_of(r->L, r->row->name, key, n, known);
}


/* An option that is no parameter; its value is on top, its name below. */
static void read_factory (reading *r, const char *name) {
  int value = lua_gettop(r->L);
  bool known = name != NULL && makes(r->row);
  if (known && strcmp(name, "requires_grad") == 0) r->requires_grad = check_flag(r->L, value, name);
  else if (known && strcmp(name, "device") == 0) {
    r->device = check_device(r->L, value);
    lua_pushvalue(r->L, value);
  }
  else refuse_name(r, value - 1);
}


/* Name and value are on top. Userdata made of the value stay below them, so that they live on. */
static void read_option (reading *r) {
  lua_State *L = r->L;
  int value = lua_gettop(L);
  const char *name = plain_text(L, value - 1);
  int i = name != NULL ? parameter_called(r->row, name) : -1;
  if (i < 0) {
    read_factory(r, name);
    return;
  }
  if (r->args[i].kind != HEED_NONE) raise(L, "argument '%s' is given twice", name);
  r->args[i] = read_argument(r, &r->row->parameter[i], &value);
  if (r->args[i].kind == HEED_TEXT) lua_pushvalue(L, -1);
}


static void read_options (reading *r) {
  lua_State *L = r->L;
  luaL_checkstack(L, 2 * HEED_ARGUMENTS + 8, r->row->name);
  lua_pushnil(L);
  while (lua_next(L, r->options)) {
    int value = lua_gettop(L);
    read_option(r);
    if (lua_gettop(L) > value) lua_insert(L, value - 1);
    lua_pop(L, 1);
  }
}


/* May {} stand for no options here, and not for an empty list? */
static bool no_options (const reading *r, int i, int next) {
  if (i != r->top || lua_type(r->L, i) != LUA_TTABLE || !is_empty(r->L, i)) return false;
  return next == r->row->parameters || !takes_list(&r->row->parameter[next]);
}


/* Tensors come first, and are all that most calls have: how many. */
static int read_leading (reading *r, int top) {
  int n = 0;
  for (; n < top && n < r->row->parameters; n++) {
    if (r->row->parameter[n].want != HEED_WANT_TENSOR) break;
    const cell *s = cell_at(r->L, r->b, n + 1);
    if (s == NULL || s->t == NULL) break;
    r->args[n] = heed_t(s->t);
  }
  return n;
}


/* Reads the positional arguments behind the first n. */
static void read_positional (reading *r, int n) {
  const heed_signature *row = r->row;
  int i = n + 1, next = n;
  while (i <= r->top && next < row->parameters && !no_options(r, i, next)) {
    r->args[next] = read_argument(r, &row->parameter[next], &i);
    next++;
  }
  if (i > r->top || no_options(r, i, next)) return;
  const heed_parameter *last = &row->parameter[row->parameters - 1];
  const char *entry = last->want == HEED_WANT_TENSORS ? "a tensor" : "a whole number";
  if (takes_list(last) && !lua_istable(r->L, i - 1))
    wrong(r, last, i - lua_isnil(r->L, i - 1), entry);
  raise(r->L, "at most %d arguments expected, got %d", row->parameters, r->top);
}


/* The arguments that stand up to 'top'; other things may lie above. */
static void read_call (lua_State *L, reading *r, const heed_signature *row, int top) {
  r->L = L;
  r->row = row;
  r->options = r->used = 0;
  r->lists = r->requires_grad = false;
  r->device = NULL;
  int n = read_leading(r, top);
  for (int i = n; i < row->parameters; i++) r->args[i].kind = HEED_NONE;
  while (top > n && lua_isnil(L, top)) top--;
  r->top = top;
  if (top == n) return;
  if (is_options(L, top)) r->options = r->top--;
  read_positional(r, n);
  if (r->options != 0) read_options(r);
}

/* }================================================================== */


/*
** {==================================================================
** Calls
** ===================================================================
*/

static void own (heed_tensor *t, bool yes) {
  if (yes) heed_keep(t);
  else heed_drop(t);
}


/* Tensors out of tables are held while the call runs: finalisers may change the tables. */
static void hold_all (const reading *r, bool yes) {
  for (int i = 0; i < r->row->parameters; i++) {
    const heed_value *v = &r->args[i];
    if (v->kind == HEED_TENSOR) own(v->tensor, yes);
    for (int k = 0; v->kind == HEED_TENSORS && k < v->n; k++) own(v->tensors[k], yes);
  }
}


static inline void hold (const reading *r, bool yes) {
  if (r->lists || r->options != 0) hold_all(r, yes);
}


/* A verdict over all dimensions, without argument dim, is a boolean in Lua. */
static bool is_boolean (const reading *r, const heed_tensor *y) {
  return r->row->verdict && r->args[1].kind == HEED_NONE && heed_rank(y) == 0;
}


/* The results' userdata stand from 'base' on; a result that is NULL becomes nil, or nothing. */
static int give_results (const reading *r, int base, int n, cell *const *cells) {
  lua_State *L = r->L;
  if (r->requires_grad) {
    named(L);
    done(L, heed_require_grad(cells[0]->t, true));
  }
  if (is_boolean(r, cells[0]->t)) {
    element e;
    named(L);
    done(L, read_element(cells[0]->t, &e));
    push_element(L, &e);
    return 1;
  }
  if (n == 1 && lua_gettop(L) == base) return 1;
  int last = 0;
  for (int i = 0; i < n; i++)
    if (cells[i]->t != NULL) last = i;
    else put_aside(L, r->b, base + i);
  lua_settop(L, base + last);
  return last + 1;
}


static const heed_signature *row_of (lua_State *L, const binding *b, heed_op *op) {
  *op = (heed_op)lua_tointeger(L, lua_upvalueindex(5));
  const heed_signature *row = heed_describe(b->cx, *op);
  if (row == NULL) raise_failure(L);
  return row;
}


/* The core names rows by itself. */
static bool apply (const reading *r, heed_op op, heed_tensor *out[HEED_RESULTS]) {
  const int n = r->row->parameters;
  if (r->b->called != NULL) named(r->L);
  if (r->device == NULL) return heed_apply(r->b->cx, op, r->args, n, out) != 0;
  return heed_apply_on(r->b->cx, r->device, op, r->args, n, out) != 0;
}


/* Calls the row with the arguments, which are all that is on the stack. */
static int call_op (lua_State *L, int top) {
  reading r;
  heed_op op;
  cell *cells[HEED_RESULTS];
  heed_tensor *out[HEED_RESULTS];
  r.b = enter(L);
  const heed_signature *row = row_of(L, r.b, &op);
  for (int i = 0; i < row->results; i++) cells[i] = push_cell_of(L, r.b);
  int anchors = r.b->hooks != NULL ? begin_anchors(L, top) : 0;
  read_call(L, &r, row, top);
  if (anchors != 0) take_anchors(L, top, anchors);
  hold(&r, true);
  bool good = apply(&r, op, out);
  hold(&r, false);
  done_in(L, r.b, good);
  for (int i = 0; i < row->results; i++) cells[i]->t = out[i];
  if (anchors != 0) pass_anchors(L, anchors, top + 1, row->results);
  return give_results(&r, top + 1, row->results, cells);
}


/* Is a method called without its tensor? */
static bool lacks_self (lua_State *L) { return lua_type(L, 1) != LUA_TUSERDATA && is_method(L); }


static int l_op (lua_State *L) {
  return lacks_self(L) ? refuse_dot(L) : call_op(L, lua_gettop(L));
}


typedef struct operator_row {
  const char *event;
  heed_op op;
  int operands;
  bool logic;                      /* bools only: on numbers the operator would mean bits */
} operator_row;

static const operator_row operators[] = {
  {"__add", HEED_add, 2, false}, {"__sub", HEED_sub, 2, false}, {"__mul", HEED_mul, 2, false},
  {"__div", HEED_div, 2, false}, {"__idiv", HEED_floor_divide, 2, false},
  {"__mod", HEED_remainder, 2, false}, {"__pow", HEED_pow, 2, false},
  {"__unm", HEED_neg, 1, false}, {"__band", HEED_logical_and, 2, true},
  {"__bor", HEED_logical_or, 2, true}, {"__bxor", HEED_logical_xor, 2, true},
  {"__bnot", HEED_logical_not, 1, true}
};

#define OPERATORS ((int)(sizeof operators / sizeof *operators))


/* The operator that Lua called. */
static const operator_row *operator_called (lua_State *L) {
  const heed_op op = (heed_op)lua_tointeger(L, lua_upvalueindex(5));
  int i = 0;
  while (operators[i].op != op) i++;
  return &operators[i];
}


/* Tensors give way to a table that has an operator of its own, as masks and biases do. */
static bool gives_way (lua_State *L) {
  int table = lua_istable(L, 1) ? 1 : 2;
  if (!lua_istable(L, table) || !lua_getmetatable(L, table)) return false;
  if (lua_rawequal(L, -1, lua_upvalueindex(2))) return false;      /* a table posing as a tensor */
  if (luaL_getmetafield(L, table, operator_called(L)->event) == LUA_TNIL) return false;
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return true;
}


/* An operator takes its operands, whatever else Lua passes. */
static int call_operator (lua_State *L, int operands) {
  if (lua_gettop(L) != operands) lua_settop(L, operands);
  return call_op(L, operands);
}

static int l_binary (lua_State *L) { return gives_way(L) ? 1 : call_operator(L, 2); }

static int l_unary (lua_State *L) { return call_operator(L, 1); }


static int l_op_in_place (lua_State *L) {
  reading r;
  heed_op op;
  if (lacks_self(L)) return refuse_dot(L);
  r.b = enter(L);
  const heed_signature *row = row_of(L, r.b, &op);
  int top = lua_gettop(L), anchors = r.b->hooks != NULL ? begin_anchors(L, top) : 0;
  read_call(L, &r, row, top);
  if (r.args[0].kind != HEED_TENSOR)
    return raise(L, "a tensor expected as the first argument, got %s", describe(L, 1));
  if (anchors != 0) anchors = take_anchors_in_place(L, top, anchors);
  hold(&r, true);
  if (r.b->called != NULL) named(L);
  bool good = heed_apply_in_place(r.b->cx, op, r.args, row->parameters);
  hold(&r, false);
  done(L, good);
  if (anchors != 0) pass_anchors(L, anchors, 1, 1);
  lua_settop(L, 1);
  return 1;
}


/* & | ~ */
static int l_logic (lua_State *L) {
  const int n = operator_called(L)->operands;
  if (gives_way(L)) return 1;
  for (int i = 1; i <= n; i++) {
    heed_tensor *t = raw_tensor(L, i);
    if (t == NULL && lua_isboolean(L, i)) continue;
    if (t == NULL) return raise(L, "a bool tensor expected, got %s", describe(L, i));
    if (heed_type_of(t) != HEED_BOOL)
      return raise(L, "a bool tensor expected, got %s; compare first, as in x:gt(0)",
                   heed_type_name(heed_type_of(t)));
  }
  return call_operator(L, n);
}

/* }================================================================== */


static void push_op (lua_State *L, lua_CFunction f, const char *name, heed_op op, bool method) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushstring(L, name);
  lua_pushboolean(L, method);
  lua_pushinteger(L, op);
  lua_pushcclosure(L, f, 5);
}


/* As a function and, where the first argument is a tensor, as a method. */
static void set_op (lua_State *L, lua_CFunction f, const char *name, heed_op op, int module,
                    int methods) {
  push_op(L, f, name, op, false);
  lua_setfield(L, module, name);
  if (!heed_is_method(heed_describe(binding_of(L)->cx, op))) return;
  push_op(L, f, name, op, true);
  lua_setfield(L, methods, name);
}


static void add_op (lua_State *L, heed_op op, const heed_signature *row, int module, int methods) {
  set_op(L, l_op, row->name, op, module, methods);
  if (heed_works_in_place(row))
    set_op(L, l_op_in_place, row->in_place_name, op, module, methods);
}


static lua_CFunction function_of (const operator_row *o) {
  return o->logic ? l_logic : o->operands == 1 ? l_unary : l_binary;
}


static void add_operators (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  for (int i = 0; i < OPERATORS; i++) {
    const operator_row *o = &operators[i];
    const char *name = o->logic ? "&, |, ~" : heed_describe(cx, o->op)->name;
    push_op(L, function_of(o), name, o->op, false);
    lua_setfield(L, lua_upvalueindex(2), o->event);
  }
}


static int type_of_field (lua_State *L, const char *name) {
  lua_pushstring(L, name);
  const int type = lua_rawget(L, 1);
  lua_pop(L, 1);
  return type;
}


/*
** has_values(options): does attention get a table or a function as its mask or bias, a word as its
** mask, or a sink, so that heed/internal/attention.lua is needed? Asked for each call, hence here.
*/
static int l_has_values (lua_State *L) {
  lua_settop(L, 1);
  if (lua_istable(L, 1)) {
    const int mask = type_of_field(L, "mask"), bias = type_of_field(L, "bias");
    lua_pushboolean(L, mask == LUA_TTABLE || mask == LUA_TFUNCTION || mask == LUA_TSTRING ||
                    bias == LUA_TTABLE || bias == LUA_TFUNCTION ||
                    type_of_field(L, "sink") != LUA_TNIL || lua_getmetatable(L, 1));
  }
  else lua_pushboolean(L, false);
  return 1;
}


/* pack(t): t is a weight of many products: heed_pack */
static int l_pack (lua_State *L) {
  enter(L);
  if (!heed_pack(check_tensor(L, 1))) raise_failure(L);
  return 0;
}


/* The operations that the Lua half alone calls. */
static bool is_internal (heed_op op) { return op == HEED_attention_mask; }


void open_ops (lua_State *L, int module, int methods, int internal) {
  static const luaL_Reg functions[] = {
    {"has_values", l_has_values}, {"pack", l_pack}, {NULL, NULL}
  };
  register_functions(L, functions, internal);
  for (int i = 0; i < HEED_NOPS; i++) {
    const heed_signature *row = heed_describe(binding_of(L)->cx, (heed_op)i);
    if (row == NULL) raise_failure(L);
    add_op(L, (heed_op)i, row, is_internal((heed_op)i) ? internal : module, methods);
  }
  add_operators(L);
}
