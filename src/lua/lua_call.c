/*
** lua_call.c - every row of the table of operations as a function and a method.
**
** Arguments stand in the row's order; from any place on, a table of options may name the rest.
** Upvalue 3 is the op's number.
*/

#include <math.h>
#include <string.h>

#include "lua_heed.h"

#define ROOM 64                    /* integers of lists, in one call */

/* A call as it is read from Lua's stack. */
typedef struct reading {
  lua_State *L;
  binding *b;
  const heed_signature *row;
  int top;                         /* the last positional argument */
  int options;                     /* the stack place of the options, or 0 */
  int used;                        /* of 'room' */
  int nheld;
  bool requires_grad;
  heed_value args[HEED_ARGUMENTS];
  int64_t room[ROOM];
  heed_tensor *held[HEED_ARGUMENTS];
} reading;


/*
** {==================================================================
** One argument
** ===================================================================
*/

static int wrong (reading *r, const heed_parameter *p, int i, const char *wanted) {
  lua_State *L = r->L;
  if (lua_type(L, i) == LUA_TNUMBER)
    return raise(L, "%s: argument '%s': %s expected, got %s", r->row->name, p->name, wanted,
                 luaL_tolstring(L, i, NULL));
  return raise(L, "%s: argument '%s': %s expected, got %s", r->row->name, p->name, wanted,
               luaL_typename(L, i));
}

/* A tensor that this call holds on to: a finaliser might release it meanwhile. */
static heed_tensor *tensor_at (reading *r, const heed_parameter *p, int i) {
  heed_tensor *t = raw_tensor(r->L, i);
  if (t != NULL) return t;
  if (lua_type(r->L, i) == LUA_TUSERDATA)
    raise(r->L, "%s: argument '%s': the tensor was released, or is none", r->row->name, p->name);
  wrong(r, p, i, "a tensor");
  return NULL;
}

static heed_value read_tensor (reading *r, const heed_parameter *p, int i) {
  lua_State *L = r->L;
  switch (lua_type(L, i)) {
    case LUA_TNUMBER:
      return lua_isinteger(L, i) ? heed_i(lua_tointeger(L, i)) : heed_f(lua_tonumber(L, i));
    case LUA_TBOOLEAN: return heed_b(lua_toboolean(L, i));
    default: return heed_t(tensor_at(r, p, i));
  }
}

/* The tensors of the table at i, or all from i to 'last', in memory of Lua's. */
static heed_value read_tensors (reading *r, const heed_parameter *p, int *i) {
  lua_State *L = r->L;
  bool table = lua_type(L, *i) == LUA_TTABLE;
  int n = table ? (int)lua_rawlen(L, *i) : 0;
  while (!table && *i + n <= r->top && raw_tensor(L, *i + n) != NULL) n++;
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
  return heed_ts(n, list);
}

static int64_t whole_at (reading *r, const heed_parameter *p, int i) {
  int64_t value = 0;
  if (!to_whole(r->L, i, &value)) wrong(r, p, i, "a whole number");
  return value;
}

static int64_t list_entry (reading *r, const heed_parameter *p, int i) {
  int64_t value = whole_at(r, p, i);
  return p->want == HEED_WANT_AXES ? axis_of(r->L, value, r->row->name) : value;
}

static void add_entry (reading *r, const heed_parameter *p, int64_t value) {
  if (r->used == ROOM) raise(r->L, "%s: argument '%s': too many numbers", r->row->name, p->name);
  r->room[r->used++] = value;
}

/* May numbers that follow one another stand for a list? Only where nothing else could. */
static bool takes_rest (const heed_signature *row, const heed_parameter *p) {
  for (const heed_parameter *q = p + 1; q < row->parameter + row->parameters; q++)
    if (q->want != HEED_WANT_TYPE) return false;
  return true;
}

static heed_value read_list (reading *r, const heed_parameter *p, int *i) {
  lua_State *L = r->L;
  int from = r->used;
  if (lua_type(L, *i) == LUA_TTABLE) {
    lua_Unsigned n = lua_rawlen(L, *i);
    for (lua_Unsigned k = 1; k <= n; k++) {
      lua_rawgeti(L, *i, (lua_Integer)k);
      add_entry(r, p, list_entry(r, p, lua_gettop(L)));
      lua_pop(L, 1);
    }
    (*i)++;
  }
  else {
    bool rest = takes_rest(r->row, p);
    do add_entry(r, p, list_entry(r, p, (*i)++));
    while (rest && *i <= r->top && lua_type(L, *i) == LUA_TNUMBER);
  }
  return heed_l(r->used - from, r->room + from);
}

static heed_value read_number (reading *r, const heed_parameter *p, int i) {
  if (lua_type(r->L, i) != LUA_TNUMBER) wrong(r, p, i, "a number");
  return lua_isinteger(r->L, i) ? heed_i(lua_tointeger(r->L, i)) : heed_f(lua_tonumber(r->L, i));
}

static heed_value read_flag (reading *r, const heed_parameter *p, int i) {
  if (!lua_isboolean(r->L, i)) wrong(r, p, i, "true or false");
  return heed_b(lua_toboolean(r->L, i));
}

static heed_value read_text (reading *r, const heed_parameter *p, int i) {
  if (lua_type(r->L, i) != LUA_TSTRING) wrong(r, p, i, "a text");
  return heed_s(lua_tostring(r->L, i));
}

/* Reads what p wants at *i and moves *i behind it. */
static heed_value read_argument (reading *r, const heed_parameter *p, int *i) {
  if (lua_isnil(r->L, *i)) {
    (*i)++;
    return heed_none();
  }
  switch (p->want) {
    case HEED_WANT_TENSORS: return read_tensors(r, p, i);
    case HEED_WANT_AXES: case HEED_WANT_SHAPE: return read_list(r, p, i);
    case HEED_WANT_TENSOR: return read_tensor(r, p, (*i)++);
    case HEED_WANT_NUMBER: return read_number(r, p, (*i)++);
    case HEED_WANT_FLAG: return read_flag(r, p, (*i)++);
    case HEED_WANT_TYPE: return heed_i(check_type_name(r->L, (*i)++, r->row->name));
    case HEED_WANT_OPTION: case HEED_WANT_TEXT: return read_text(r, p, (*i)++);
    case HEED_WANT_AXIS: return heed_i(axis_of(r->L, whole_at(r, p, (*i)++), r->row->name));
    default: return heed_i(whole_at(r, p, (*i)++));
  }
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

static int refuse_option (reading *r, const char *key) {
  const char *known[HEED_ARGUMENTS];
  int n = 0, from = r->row->method ? 1 : 0;
  for (int i = from; i < r->row->parameters; i++) known[n++] = r->row->parameter[i].name;
  unknown_option(r->L, r->row->name, key, n, known);
  return 0;
}

/* Rows that make a tensor from nothing take the options of all such. */
static bool maker_option (reading *r, const char *key) {
  lua_State *L = r->L;
  if (r->row->method || parameter_called(r->row, "dtype") < 0) return false;
  if (strcmp(key, "requires_grad") == 0) {
    r->requires_grad = lua_toboolean(L, -1);
    return true;
  }
  if (strcmp(key, "device") != 0) return false;
  const char *device = lua_tostring(L, -1);
  if (device == NULL || strcmp(device, "cpu") != 0)
    raise(L, "%s: argument 'device': %s is not here; there is \"cpu\"", r->row->name,
          device != NULL ? device : luaL_typename(L, -1));
  return true;
}

static void read_option (reading *r) {
  lua_State *L = r->L;
  if (lua_type(L, -2) != LUA_TSTRING) raise(L, "%s: options are named", r->row->name);
  const char *key = lua_tostring(L, -2);
  int i = parameter_called(r->row, key), place = lua_gettop(L);
  if (i < 0) {
    if (!maker_option(r, key)) refuse_option(r, key);
    return;
  }
  if (r->args[i].kind != HEED_NONE)
    raise(L, "%s: argument '%s' is given twice", r->row->name, key);
  r->args[i] = read_argument(r, &r->row->parameter[i], &place);
}

static void read_options (reading *r) {
  lua_State *L = r->L;
  if (r->options == 0) return;
  lua_pushnil(L);
  while (lua_next(L, r->options)) {
    int top = lua_gettop(L);
    read_option(r);
    if (lua_gettop(L) > top) {     /* a list of tensors was made: it stays, below the pair */
      lua_insert(L, r->options + 1);
      lua_settop(L, top + 1);
    }
    lua_pop(L, 1);
  }
}

static bool wants_list (const heed_parameter *p) {
  return p->want == HEED_WANT_SHAPE || p->want == HEED_WANT_AXES || p->want == HEED_WANT_TENSORS;
}

/* Is the last argument an empty table of options? For a list it would be an empty list. */
static bool is_empty_options (const reading *r, int i, int next) {
  return i == r->top && r->options == 0 && lua_type(r->L, i) == LUA_TTABLE &&
         lua_rawlen(r->L, i) == 0 && !wants_list(&r->row->parameter[next]);
}

static void read_positional (reading *r) {
  int i = 1, next = 0;
  while (i <= r->top) {
    if (next == r->row->parameters)
      raise(r->L, "%s: at most %d arguments expected, got %d", r->row->name, r->row->parameters,
            r->top);
    if (is_empty_options(r, i, next)) return;
    r->args[next] = read_argument(r, &r->row->parameter[next], &i);
    next++;
  }
}

static void read_call (lua_State *L, reading *r) {
  r->L = L;
  r->b = enter(L);
  r->row = heed_describe(r->b->cx, (heed_op)lua_tointeger(L, lua_upvalueindex(3)));
  if (r->row == NULL) raise_failure(L);
  r->top = lua_gettop(L);
  while (r->top > 0 && lua_isnil(L, r->top)) r->top--;
  r->options = r->used = r->nheld = 0;
  r->requires_grad = false;
  for (int i = 0; i < r->row->parameters; i++) r->args[i].kind = HEED_NONE;
  luaL_checkstack(L, 20, r->row->name);
  if (r->top > 0 && is_options(L, r->top)) r->options = r->top--;
  read_positional(r);
  read_options(r);
}

/* Arguments are held while the call runs: making room may run a finaliser that releases one. */
static void hold (reading *r) {
  for (int i = 0; i < r->row->parameters; i++)
    if (r->args[i].kind == HEED_TENSOR) r->held[r->nheld++] = heed_keep(r->args[i].tensor);
}

static void let_go (reading *r) {
  while (r->nheld > 0) heed_drop(r->held[--r->nheld]);
}

/* }================================================================== */


/*
** {==================================================================
** Calls
** ===================================================================
*/

/* Of any() and all() over everything Lua wants to know the truth. */
static bool is_truth (const reading *r, heed_op op, const heed_tensor *y) {
  return (op == HEED_any || op == HEED_all) && heed_rank(y) == 0 &&
         r->args[1].kind == HEED_NONE;
}

static int push_results (reading *r, heed_op op, int n, box *const *slots) {
  lua_State *L = r->L;
  if (is_truth(r, op, slots[0]->t)) {
    lua_settop(L, lua_gettop(L) - n);
    push_element(L, slots[0]->t);
    return 1;
  }
  if (r->requires_grad && !heed_require_grad(slots[0]->t, true)) raise_failure(L);
  int base = lua_gettop(L) - n;
  for (int i = 0; i < n; i++) {
    if (slots[i]->t != NULL) continue;
    lua_pushnil(L);
    lua_replace(L, base + 1 + i);
  }
  while (n > 1 && lua_isnil(L, -1)) { lua_pop(L, 1); n--; }
  return n;
}

static int l_op (lua_State *L) {
  reading r;
  box *slots[HEED_RESULTS];
  heed_tensor *out[HEED_RESULTS];
  heed_op op = (heed_op)lua_tointeger(L, lua_upvalueindex(3));
  read_call(L, &r);
  int n = r.row->results;
  for (int i = 0; i < n; i++) slots[i] = push_box(L);
  hold(&r);
  bool good = heed_apply(r.b->cx, op, r.args, r.row->parameters, out) != 0;
  let_go(&r);
  if (!good) return raise_failure(L);
  for (int i = 0; i < n; i++) slots[i]->t = out[i];
  return push_results(&r, op, n, slots);
}

static int l_op_in_place (lua_State *L) {
  reading r;
  heed_op op = (heed_op)lua_tointeger(L, lua_upvalueindex(3));
  read_call(L, &r);
  if (r.args[0].kind != HEED_TENSOR)
    return raise(L, "%s_: a tensor expected as the first argument", r.row->name);
  hold(&r);
  bool good = heed_apply_in_place(r.b->cx, op, r.args, r.row->parameters);
  let_go(&r);
  if (!good) return raise_failure(L);
  lua_settop(L, 1);
  return 1;
}

/* An operator takes its two operands, whatever else Lua passes. Upvalue 3 is the op. */
static int l_operator (lua_State *L) {
  lua_settop(L, 2);
  return l_op(L);
}

static int l_minus (lua_State *L) {
  lua_settop(L, 1);
  return l_op(L);
}

/* & | ~ join truths only: on numbers they would mean bits */
static int l_logic (lua_State *L) {
  lua_settop(L, lua_tointeger(L, lua_upvalueindex(3)) == HEED_logical_not ? 1 : 2);
  for (int i = 1; i <= lua_gettop(L); i++) {
    heed_tensor *t = raw_tensor(L, i);
    if (t == NULL && lua_isboolean(L, i)) continue;
    if (t == NULL || heed_type_of(t) != HEED_BOOL)
      return raise(L, "&, |, ~: a bool tensor expected, got %s",
                   t != NULL ? heed_type_name(heed_type_of(t)) : luaL_typename(L, i));
  }
  return l_op(L);
}

/* }================================================================== */


static void push_op (lua_State *L, lua_CFunction f, heed_op op) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushinteger(L, op);
  lua_pushcclosure(L, f, 3);
}

/* A row's function, in the module and, where its first argument is a tensor, as a method. */
static void add_op (lua_State *L, heed_op op, const heed_signature *row, int module, int methods) {
  push_op(L, l_op, op);
  if (row->method) {
    lua_pushvalue(L, -1);
    lua_setfield(L, methods, row->name);
  }
  lua_setfield(L, module, row->name);
  if (!row->in_place) return;
  lua_pushfstring(L, "%s_", row->name);
  push_op(L, l_op_in_place, op);
  lua_pushvalue(L, -2);
  lua_pushvalue(L, -2);
  lua_settable(L, methods);
  lua_settable(L, module);
}

void open_ops (lua_State *L, int module, int methods) {
  static const struct { const char *name; lua_CFunction f; heed_op op; } operators[] = {
    {"__add", l_operator, HEED_add}, {"__sub", l_operator, HEED_sub},
    {"__mul", l_operator, HEED_mul}, {"__div", l_operator, HEED_div},
    {"__idiv", l_operator, HEED_floor_divide}, {"__mod", l_operator, HEED_remainder},
    {"__pow", l_operator, HEED_pow}, {"__unm", l_minus, HEED_neg},
    {"__band", l_logic, HEED_logical_and}, {"__bor", l_logic, HEED_logical_or},
    {"__bnot", l_logic, HEED_logical_not}
  };
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  for (int i = 0; i < HEED_NOPS; i++) {
    const heed_signature *row = heed_describe(b->cx, (heed_op)i);
    if (row == NULL) raise_failure(L);
    add_op(L, (heed_op)i, row, module, methods);
  }
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    push_op(L, operators[i].f, operators[i].op);
    lua_setfield(L, lua_upvalueindex(2), operators[i].name);
  }
}
