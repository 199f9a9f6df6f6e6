/*
** lua_make.c - tensors from numbers, nested tables and bytes.
*/

#include <string.h>

#include "lua_heed.h"

/* What a nested table holds, found in a first pass over it. */
typedef struct nest {
  lua_State *L;
  int rank;                        /* -1: not known yet */
  int64_t size[HEED_RANK];
  int64_t position[HEED_RANK];     /* of what is looked at, for messages */
  bool floats, wholes, truths;
  heed_type tensors;               /* the type that tensors among the leaves ask for */
  bool any_tensor;
} nest;


/*
** {==================================================================
** First pass: shape and type
** ===================================================================
*/

static const char *place_text (nest *s, int depth) {
  luaL_Buffer buffer;
  luaL_buffinit(s->L, &buffer);
  for (int i = 0; i < depth; i++) {
    lua_pushfstring(s->L, "[%I]", (LUAI_UACINT)s->position[i]);
    luaL_addvalue(&buffer);
  }
  luaL_pushresult(&buffer);
  return lua_tostring(s->L, -1);
}

static void note_leaf (nest *s, int depth) {
  lua_State *L = s->L;
  heed_tensor *t;
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, -1)) s->wholes = true;
      else s->floats = true;
      return;
    case LUA_TBOOLEAN: s->truths = true; return;
    case LUA_TUSERDATA:
      t = raw_tensor(L, -1);
      if (t != NULL && heed_rank(t) == 0) {
        if (!s->any_tensor || heed_type_of(t) > s->tensors) s->tensors = heed_type_of(t);
        s->any_tensor = true;
        return;
      }
      if (t != NULL)
        raise(L, "tensor: a tensor with axes at %s; join such with heed.stack",
              place_text(s, depth));
      break;
    default: break;
  }
  raise(L, "tensor: a number, a truth or a table expected at %s, got %s",
        depth > 0 ? place_text(s, depth) : "the top", luaL_typename(L, -1));
}

/* Checks the table (or leaf) on top of the stack, which stands 'depth' tables deep. */
static void survey (nest *s, int depth) {
  lua_State *L = s->L;
  if (lua_type(L, -1) != LUA_TTABLE) {
    if (s->rank < 0) s->rank = depth;
    if (depth != s->rank)
      raise(L, "tensor: a table expected at %s, got %s", place_text(s, depth),
            luaL_typename(L, -1));
    note_leaf(s, depth);
    return;
  }
  if (depth == HEED_RANK || depth == s->rank)
    raise(L, depth == HEED_RANK ? "tensor: tables nested more than %d deep"
                                : "tensor: a number expected below depth %d, got a table", depth);
  int64_t n = (int64_t)lua_rawlen(L, -1);
  if (s->size[depth] < 0) s->size[depth] = n;
  if (n != s->size[depth])
    raise(L, "tensor: %I values expected at %s, got %I", (LUAI_UACINT)s->size[depth],
          depth > 0 ? place_text(s, depth) : "the top", (LUAI_UACINT)n);
  if (n == 0 && s->rank < 0) s->rank = depth + 1;
  luaL_checkstack(L, 4, "tensor");
  for (int64_t i = 1; i <= n; i++) {
    s->position[depth] = i;
    lua_rawgeti(L, -1, i);
    survey(s, depth + 1);
    lua_pop(L, 1);
  }
}

static heed_type type_of_nest (const nest *s) {
  if (s->any_tensor && !(s->floats && s->tensors < HEED_FLOAT16)) return s->tensors;
  if (s->floats) return HEED_FLOAT32;
  if (s->wholes) return HEED_INT64;
  return s->truths ? HEED_BOOL : HEED_FLOAT32;         /* nothing at all: the default */
}

/* }================================================================== */


/*
** {==================================================================
** Second pass: values. The table may not have changed meanwhile: no code ran.
** ===================================================================
*/

static bool read_leaf (lua_State *L, bool whole, void *at) {
  heed_tensor *t = raw_tensor(L, -1);
  heed_type type = whole ? HEED_INT64 : HEED_FLOAT64;
  if (t != NULL) return heed_read(t, type, at);
  if (whole) {
    int64_t i = lua_isboolean(L, -1) ? lua_toboolean(L, -1)
              : lua_isinteger(L, -1) ? lua_tointeger(L, -1) : (int64_t)lua_tonumber(L, -1);
    memcpy(at, &i, sizeof i);
  }
  else {
    double f = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
    memcpy(at, &f, sizeof f);
  }
  return true;
}

static bool gather (lua_State *L, bool whole, char **at) {
  if (lua_type(L, -1) != LUA_TTABLE) {
    bool good = read_leaf(L, whole, *at);
    *at += 8;
    return good;
  }
  int64_t n = (int64_t)lua_rawlen(L, -1);
  bool good = true;
  for (int64_t i = 1; good && i <= n; i++) {
    lua_rawgeti(L, -1, i);
    good = gather(L, whole, at);
    lua_pop(L, 1);
  }
  return good;
}

/* }================================================================== */


/* Numbers, truths and nested tables at i become a tensor of 'type' (NULL: what they ask for). */
heed_tensor *push_from_value (lua_State *L, int i, const heed_type *type) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  nest s = {.L = L, .rank = -1};
  for (int k = 0; k < HEED_RANK; k++) s.size[k] = -1;
  lua_pushvalue(L, i);
  survey(&s, 0);
  heed_type found = type_of_nest(&s), wanted = type != NULL ? *type : found;
  bool whole = found <= HEED_INT64 && wanted <= HEED_INT64;
  int64_t n = 1;
  for (int k = 0; k < s.rank; k++) n *= s.size[k] < 0 ? (s.size[k] = 0) : s.size[k];
  box *slot = push_box(L);
  char *data = lua_newuserdatauv(L, (size_t)(n + 1) * 8, 0), *at = data;
  lua_pushvalue(L, -3);
  if (!gather(L, whole, &at)) raise_failure(L);
  fill(L, slot, heed_empty(b->cx, wanted, s.rank, s.size));
  if (!heed_write(slot->t, whole ? HEED_INT64 : HEED_FLOAT64, data)) raise_failure(L);
  lua_pop(L, 2);
  lua_remove(L, -2);
  return slot->t;
}

/* Options of makers, from the table at i (or none there): which type, and a gradient? */
static void read_maker (lua_State *L, int i, heed_type *type, bool *typed, bool *grad) {
  static const char *const known[] = {"dtype", "requires_grad", "device"};
  *typed = *grad = false;
  if (lua_isnoneornil(L, i)) return;
  if (!lua_istable(L, i)) raise(L, "%s: a table of options expected, got %s", function_name(L),
                                luaL_typename(L, i));
  lua_pushnil(L);
  while (lua_next(L, i)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    if (strcmp(key, "dtype") == 0) {
      *type = check_type_name(L, lua_gettop(L), function_name(L));
      *typed = true;
    }
    else if (strcmp(key, "requires_grad") == 0) *grad = lua_toboolean(L, -1);
    else if (strcmp(key, "device") == 0) {
      if (lua_type(L, -1) != LUA_TSTRING || strcmp(lua_tostring(L, -1), "cpu") != 0)
        raise(L, "%s: argument 'device': %s is not here; there is \"cpu\"", function_name(L),
              luaL_tolstring(L, -1, NULL));
    }
    else unknown_option(L, function_name(L), key, 3, known);
    lua_pop(L, 1);
  }
}

/* tensor(values[, {dtype, requires_grad, device}]) */
static int l_tensor (lua_State *L) {
  enter(L);
  heed_type type = HEED_FLOAT32;
  bool typed, grad;
  lua_settop(L, 2);
  heed_tensor *given = raw_tensor(L, 1);
  read_maker(L, 2, &type, &typed, &grad);
  if (given != NULL) {             /* a tensor: a copy without history */
    box *slot = push_box(L);
    heed_tensor *plain = heed_detach(given);
    heed_type to = typed ? type : heed_type_of(given);
    heed_value args[] = {heed_t(plain), heed_i(to)};
    bool same = to == heed_type_of(given);
    heed_tensor *copy = heed_call(heed_context_of(given), same ? HEED_clone : HEED_to, args,
                                  same ? 1 : 2);
    heed_drop(plain);
    fill(L, slot, copy);
  }
  else push_from_value(L, 1, typed ? &type : NULL);
  if (grad && !heed_require_grad(raw_tensor(L, -1), true)) return raise_failure(L);
  return 1;
}

/* frombytes(s, shape[, {dtype}]): what x:data() gave */
static int l_frombytes (lua_State *L) {
  binding *b = enter(L);
  size_t bytes;
  heed_type type = HEED_FLOAT32;
  bool typed, grad;
  int64_t size[HEED_RANK], n;
  if (lua_type(L, 1) != LUA_TSTRING)
    return raise(L, "frombytes: a string of bytes expected, got %s", luaL_typename(L, 1));
  if (lua_type(L, 2) != LUA_TTABLE)
    return raise(L, "frombytes: argument 'shape': a table expected, got %s", luaL_typename(L, 2));
  const char *data = lua_tolstring(L, 1, &bytes);
  read_maker(L, 3, &type, &typed, &grad);
  int rank = (int)lua_rawlen(L, 2);
  if (rank > HEED_RANK) return raise(L, "frombytes: at most %d axes, got %d", HEED_RANK, rank);
  n = (int64_t)heed_type_size(type);
  for (int i = 0; i < rank; i++) {
    lua_rawgeti(L, 2, i + 1);
    size[i] = check_whole(L, -1, "frombytes", "shape");
    if (size[i] < 0 || __builtin_mul_overflow(n, size[i], &n))
      return raise(L, "frombytes: a shape with %I cannot be", (LUAI_UACINT)size[i]);
  }
  if ((size_t)n != bytes)
    return raise(L, "frombytes: %I bytes expected for this shape and %s, got %I", (LUAI_UACINT)n,
                 heed_type_name(type), (LUAI_UACINT)bytes);
  fill(L, push_box(L), heed_from(b->cx, type, rank, size, data));
  if (grad && !heed_require_grad(raw_tensor(L, -1), true)) return raise_failure(L);
  return 1;
}

static int l_is_tensor (lua_State *L) {
  lua_pushboolean(L, raw_tensor(L, 1) != NULL);
  return 1;
}

static int l_manual_seed (lua_State *L) {
  binding *b = enter(L);
  heed_seed(b->cx, (uint64_t)check_whole(L, 1, "manual_seed", "seed"));
  return 0;
}

/* rng_state() gives it as bytes in a uint8 tensor; rng_state(t) sets it */
static int l_rng_state (lua_State *L) {
  binding *b = enter(L);
  uint8_t state[HEED_RNG_BYTES];
  int64_t n = HEED_RNG_BYTES;
  if (lua_isnoneornil(L, 1)) {
    heed_rng_get(b->cx, state);
    return fill(L, push_box(L), heed_from(b->cx, HEED_UINT8, 1, &n, state));
  }
  heed_tensor *t = check_tensor(L, 1);
  if (heed_type_of(t) != HEED_UINT8 || heed_numel(t) != n)
    return raise(L, "rng_state: a uint8 tensor of %d elements expected", HEED_RNG_BYTES);
  if (!heed_read(t, HEED_UINT8, state) || !heed_rng_set(b->cx, state)) return raise_failure(L);
  return 0;
}

void open_make (lua_State *L, int module, int methods) {
  static const luaL_Reg functions[] = {
    {"frombytes", l_frombytes}, {"is_tensor", l_is_tensor}, {"manual_seed", l_manual_seed},
    {"rng_state", l_rng_state}, {"tensor", l_tensor}, {NULL, NULL}
  };
  (void)methods;
  register_functions(L, functions, module);
}
