/*
** lua_make.c - tensors from numbers, nested tables and bytes; random numbers' state.
*/

#include <string.h>

#include "lua_heed.h"

/* The shape and type of a nested table, found in a first pass over it. */
typedef struct nest {
  lua_State *L;
  int rank;                        /* -1: not known yet */
  int64_t size[HEED_RANK];         /* -1: not known yet */
  int64_t position[HEED_RANK];     /* of what is looked at, for messages */
  heed_type type;                  /* that the leaves promote to */
  bool any;                        /* leaf at all */
  int64_t visited;
} nest;


/*
** {==================================================================
** First pass: shape and type
** ===================================================================
*/

static const char *index_text (const nest *s, int depth) {
  luaL_Buffer buffer;
  if (depth == 0) return "the top";
  luaL_buffinit(s->L, &buffer);
  for (int i = 0; i < depth; i++) {
    lua_pushfstring(s->L, "[%I]", (LUAI_UACINT)s->position[i]);
    luaL_addvalue(&buffer);
  }
  luaL_pushresult(&buffer);
  return lua_tostring(s->L, -1);
}


/* Types stand in order of promotion, but for the two of 16 bits. */
static void join_type (nest *s, heed_type type) {
  heed_type low = s->any && s->type < type ? s->type : type;
  heed_type high = s->any && s->type > type ? s->type : type;
  s->type = low == HEED_FLOAT16 && high == HEED_BFLOAT16 ? HEED_FLOAT32 : high;
  s->any = true;
}


/* The type of the leaf on top; raises if it is none. */
static heed_type type_of_leaf (const nest *s, int depth) {
  lua_State *L = s->L;
  heed_tensor *t = raw_tensor(L, -1);
  if (t != NULL && heed_rank(t) == 0) return heed_type_of(t);
  if (t != NULL)
    raise(L, "numbers or tensors of rank 0 expected, got one with dimensions at %s; "
          "heed.stack joins such", index_text(s, depth));
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER: return lua_isinteger(L, -1) ? HEED_INT64 : HEED_FLOAT32;
    case LUA_TBOOLEAN: return HEED_BOOL;
  }
  const char *got = describe(L, -1);
  raise(L, "a number, a boolean or a table expected at %s, got %s", index_text(s, depth), got);
  return HEED_BOOL;
}


/* At the first leaf all sizes are known, and none is 0. A table within itself may stand for very
   many elements. */
static void check_amount (const nest *s) {
  uint64_t n = 8, limit = heed_memory_now(binding_of(s->L)->cx).limit;
  for (int i = 0; i < s->rank; i++) {
    if (n > limit / (uint64_t)s->size[i])
      raise(s->L, "not enough memory: the tables hold more than %I elements",
            (LUAI_UACINT)(limit / 8));
    n *= (uint64_t)s->size[i];
  }
}


static void survey_leaf (nest *s, int depth) {
  if (s->rank < 0) {
    s->rank = depth;
    check_amount(s);
  }
  if (depth != s->rank) {
    const char *got = describe(s->L, -1);
    raise(s->L, "a table expected at %s, got %s", index_text(s, depth), got);
  }
  join_type(s, type_of_leaf(s, depth));
}


static void check_size (nest *s, int depth, int64_t n) {
  if (depth == HEED_RANK)
    raise(s->L, "tables nested more than %d deep", HEED_RANK);
  if (depth == s->rank)
    raise(s->L, "a number expected at %s, got a table", index_text(s, depth));
  if (s->size[depth] < 0) s->size[depth] = n;
  if (n != s->size[depth])
    raise(s->L, "%I values expected at %s, got %I", (LUAI_UACINT)s->size[depth],
          index_text(s, depth), (LUAI_UACINT)n);
  if (n == 0 && s->rank < 0) s->rank = depth + 1;
}


/* Looks at the table or leaf on top, which stands 'depth' tables deep. */
static void survey (nest *s, int depth) {
  lua_State *L = s->L;
  poll(L, s->visited++);
  if (lua_type(L, -1) != LUA_TTABLE) {
    survey_leaf(s, depth);
    return;
  }
  int64_t n = check_list(L, -1);
  check_size(s, depth, n);
  for (int64_t i = 1; i <= n; i++) {
    s->position[depth] = i;
    lua_rawgeti(L, -1, i);
    survey(s, depth + 1);
    lua_pop(L, 1);
  }
}

/* }================================================================== */


/*
** {==================================================================
** Second pass: values. A finaliser may have changed the tables since the first.
** ===================================================================
*/

static void refuse_change (const nest *s) {
  raise(s->L, "the table was changed while it was read");
}


/* The leaf on top, as an integer or a float. */
static void read_leaf (const nest *s, heed_type type, void *at) {
  lua_State *L = s->L;
  heed_tensor *t = raw_tensor(L, -1);
  if (t != NULL && heed_rank(t) == 0) {
    named(L);
    done(L, heed_read(t, type, at));
    return;
  }
  bool boolean = lua_isboolean(L, -1);
  if (!boolean && lua_type(L, -1) != LUA_TNUMBER) refuse_change(s);
  if (type == HEED_INT64) {
    int64_t i = boolean ? lua_toboolean(L, -1) : lua_tointeger(L, -1);
    memcpy(at, &i, sizeof i);
  }
  else {
    double f = boolean ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
    memcpy(at, &f, sizeof f);
  }
}


static void gather (nest *s, int depth, heed_type type, char **at) {
  lua_State *L = s->L;
  poll(L, s->visited++);
  if (depth == s->rank) {
    read_leaf(s, type, *at);
    *at += 8;
    return;
  }
  if (lua_type(L, -1) != LUA_TTABLE) refuse_change(s);
  for (int64_t i = 1; i <= s->size[depth]; i++) {
    lua_rawgeti(L, -1, i);
    gather(s, depth + 1, type, at);
    lua_pop(L, 1);
  }
}

/* }================================================================== */


/* Numbers, bools and nested tables at i become a tensor of 'type' (NULL: what they promote to). */
heed_tensor *push_from_value (lua_State *L, int i, const heed_type *type) {
  nest s = {.L = L, .rank = -1, .type = HEED_FLOAT32};
  i = lua_absindex(L, i);
  for (int k = 0; k < HEED_RANK; k++) s.size[k] = -1;
  cell *made = push_cell(L);
  lua_pushvalue(L, i);
  survey(&s, 0);
  heed_type wanted = type != NULL ? *type : s.type;
  heed_type read = s.type <= HEED_INT64 ? HEED_INT64 : HEED_FLOAT64;
  size_t n = 1;
  for (int k = 0; k < s.rank; k++) n *= (size_t)(s.size[k] < 0 ? (s.size[k] = 0) : s.size[k]);
  check_room(L, function_name(L), n * 8, "what the tables hold");
  char *data = lua_newuserdatauv(L, n * 8, 0), *at = data;
  lua_insert(L, -2);
  gather(&s, 0, read, &at);
  fill(L, made, heed_empty(named(L), wanted, s.rank, s.size));
  named(L);
  done(L, heed_write(made->t, read, data));
  lua_pop(L, 2);
  return made->t;
}


/*
** {==================================================================
** Functions
** ===================================================================
*/

/* Options of factories. */
typedef struct factory {
  bool has_type, requires_grad;
  heed_type type;
  const char *device;              /* or NULL: the default device */
} factory;

/* From index i on: a type's name, options, or both, as after the sizes of zeros(). */
static factory read_factory (lua_State *L, int i) {
  static const char *const known[] = {"dtype", "requires_grad", "device"};
  factory m = {.type = HEED_FLOAT32};
  const char *key;
  if (lua_type(L, i) == LUA_TSTRING) {
    m.type = check_type_name(L, i++);
    m.has_type = true;
  }
  lua_pushnil(L);
  while ((key = next_option(L, i, 3, known)) != NULL) {
    int value = lua_gettop(L);
    if (key == known[0]) {
      m.type = check_type_name(L, value);
      m.has_type = true;
    }
    else if (key == known[2]) m.device = keep_device(L);
    else m.requires_grad = check_flag(L, value, key);
    lua_pop(L, 1);
  }
  return m;
}


/* The tensor on top, on that device. */
static void move (lua_State *L, const char *device) {
  heed_value to[] = {heed_t(raw_tensor(L, -1)), heed_none(), heed_s(device)};
  cell *s = push_cell(L);
  fill(L, s, heed_call(named(L), HEED_to, to, 3));
}


static int finish (lua_State *L, const factory *m) {
  if (m->device != NULL) move(L, m->device);
  if (!m->requires_grad) return 1;
  named(L);
  done(L, heed_require_grad(raw_tensor(L, -1), true));
  return 1;
}


/* A copy without a graph. */
static heed_tensor *copied (heed_context *cx, heed_tensor *t, heed_type type) {
  heed_tensor *plain = heed_detach(t);
  heed_value to[] = {heed_t(plain), heed_i(type)};
  heed_tensor *copy = type == heed_type_of(t) ? heed_call(cx, HEED_clone, to, 1)
                                              : heed_call(cx, HEED_to, to, 2);
  heed_drop(plain);
  return copy;
}


/* tensor(values[, dtype][, {dtype, requires_grad, device}]) */
static int l_tensor (lua_State *L) {
  enter(L);
  lua_settop(L, lua_gettop(L) < 3 ? 3 : lua_gettop(L));
  factory m = read_factory(L, 2);
  if (!is_box(L, 1)) push_from_value(L, 1, m.has_type ? &m.type : NULL);
  else {
    cell *s = push_cell(L);
    heed_tensor *t = check_tensor(L, 1);
    fill(L, s, copied(named(L), t, m.has_type ? m.type : heed_type_of(t)));
  }
  return finish(L, &m);
}


int read_sizes (lua_State *L, int i, int64_t size[HEED_RANK]) {
  if (!lua_istable(L, i)) raise_wrong(L, "shape", "a table of sizes", i);
  int64_t rank = check_list(L, i);
  if (rank > HEED_RANK)
    raise(L, "argument 'shape': at most %d dimensions, got %d", HEED_RANK, (int)rank);
  for (int k = 0; k < (int)rank; k++) {
    lua_rawgeti(L, i, k + 1);
    size[k] = check_integer(L, lua_gettop(L), "shape");
    if (size[k] < 0) raise_wrong(L, "shape", "sizes of at least 0", lua_gettop(L));
    lua_pop(L, 1);
  }
  return (int)rank;
}


static void check_bytes (lua_State *L, heed_type type, int rank, const int64_t *size,
                         size_t bytes) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(n, size[i], &n) || n > INT64_MAX / 16)
      raise(L, "argument 'shape': too many elements");
  size_t wanted = heed_type_bytes(type, n);
  if (wanted != bytes)
    raise(L, "%I bytes expected for this shape and %s, got %I", (LUAI_UACINT)wanted,
          heed_type_name(type), (LUAI_UACINT)bytes);
}


/* frombytes(bytes, shape[, dtype][, {dtype, requires_grad, device}]): what x:data() gave */
static int l_frombytes (lua_State *L) {
  enter(L);
  size_t bytes;
  int64_t size[HEED_RANK];
  if (lua_type(L, 1) != LUA_TSTRING) raise_wrong(L, "bytes", "a string", 1);
  const char *data = lua_tolstring(L, 1, &bytes);
  lua_settop(L, lua_gettop(L) < 4 ? 4 : lua_gettop(L));
  int rank = read_sizes(L, 2, size);
  factory m = read_factory(L, 3);
  check_bytes(L, m.type, rank, size, bytes);
  cell *s = push_cell(L);
  fill(L, s, heed_from(named(L), m.type, rank, size, data));
  return finish(L, &m);
}

/* }================================================================== */


void open_make (lua_State *L, int module) {
  static const luaL_Reg functions[] = {
    {"frombytes", l_frombytes}, {"tensor", l_tensor}, {NULL, NULL}
  };
  register_functions(L, functions, module);
}
