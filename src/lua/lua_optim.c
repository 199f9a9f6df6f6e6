/*
** lua_optim.c - one optimiser step for all parameters, or the norm of all gradients, in one call.
** The Lua half calls these functions and checks options; the checks here are those that keep the
** host safe.
*/

#include <string.h>

#include "lua_heed.h"


/* Numbers and flags that are missing are 0. */
static double number_field (lua_State *L, int i, const char *name) {
  double value = 0;
  int type = lua_getfield(L, i, name);
  if (type == LUA_TNUMBER) value = lua_tonumber(L, -1);
  else if (type != LUA_TNIL) raise_wrong(L, name, "a number", lua_gettop(L));
  lua_pop(L, 1);
  return value;
}


static bool flag_field (lua_State *L, int i, const char *name) {
  lua_getfield(L, i, name);
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}


/* Entry k of a field that is a list. */
static double entry_field (lua_State *L, int i, const char *name, int k) {
  double value = 0;
  if (lua_getfield(L, i, name) == LUA_TTABLE) {
    lua_rawgeti(L, -1, k);
    value = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return value;
}


/* But for the number of the step. */
static heed_step read_numbers (lua_State *L, int i) {
  heed_step step;
  memset(&step, 0, sizeof step);
#define NUMBER(name, ...) step.name = number_field(L, i, #name);
#define ENTRY(name, list, k, ...) step.name = entry_field(L, i, #list, k);
#define FLAG(name) step.name = flag_field(L, i, #name);
#include "op/optimizers.def"
  return step;
}


heed_step read_step (lua_State *L, int i) {
  heed_step step = read_numbers(L, i);
  lua_getfield(L, i, "step");
  step.step = lua_isnil(L, -1) ? 1 : check_integer(L, lua_gettop(L), "step");
  lua_pop(L, 1);
  return step;
}


/* The tensors of the list at i, NULL for false, into list[0 .. n - 1]. */
static void read_list (lua_State *L, int i, int n, heed_tensor **list) {
  luaL_checktype(L, i, LUA_TTABLE);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    list[k] = raw_tensor(L, -1);
    if (list[k] == NULL && lua_toboolean(L, -1)) check_tensor(L, -1);      /* raises */
    lua_pop(L, 1);
  }
}


/* Reads a list of tensors, NULL for entries that are none. */
static void read_living (lua_State *L, int i, int n, heed_tensor **list) {
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    list[k] = raw_tensor(L, lua_gettop(L));
    lua_pop(L, 1);
  }
}


/*
** Steps as heed_commit takes them. The values of their entries lie on the stack, the tensors of
** their lists in one array: parameters, states and gradients of each step.
*/
typedef struct stepped {
  heed_optimization of;
  heed_step step;
  heed_tensor *const *states[HEED_STATES];
  int first, nstates;              /* the index of its values; how many states there are */
  bool own;                        /* the gradients are the parameters' own */
} stepped;

/* The values of an entry of the list of steps. */
enum { KIND, PARAMETERS, GRADIENTS, STATES, NUMBERS, NUMBER, VALUES };

enum { FEW = 4 };                  /* steps that lie on the stack of C */

static heed_optimizer check_kind (lua_State *L, int i) {
  static const char *const kinds[] = {
#define OPTIMIZER(NAME, name, ...) #name,
#include "op/optimizers.def"
    NULL
  };
  return (heed_optimizer)luaL_checkoption(L, i, NULL, kinds);
}


/* Pushes the values of entry k and reads them, but for the lists. That may call a script. */
static void read_entry (lua_State *L, int k, stepped *s) {
  const int first = lua_gettop(L) + 1;
  luaL_checkstack(L, VALUES + 8, "step");
  for (int i = 0; i < VALUES; i++) {
    lua_rawgeti(L, 1, k * VALUES + i + 1);
    if (i == PARAMETERS || i == STATES || i == NUMBERS) luaL_checktype(L, -1, LUA_TTABLE);
  }
  *s = (stepped){.first = first, .own = !lua_toboolean(L, first + GRADIENTS)};
  s->of.kind = check_kind(L, first + KIND);
  s->step = read_numbers(L, first + NUMBERS);
  s->step.step = check_integer(L, first + NUMBER, "step");
  s->of.n = (int)lua_rawlen(L, first + PARAMETERS);
  size_t nstates = lua_rawlen(L, first + STATES);
  if (nstates > HEED_STATES)
    raise(L, "at most %d states expected, got %d", HEED_STATES, (int)nstates);
  s->nstates = (int)nstates;
}


/* Reads the lists of an entry into 'tensor' and on; where they end. */
static heed_tensor **read_lists (lua_State *L, stepped *s, heed_tensor **tensor) {
  const int n = s->of.n;
  s->of.parameters = tensor;
  s->of.states = s->states;
  s->of.step = &s->step;
  if (s->own) read_living(L, s->first + PARAMETERS, n, tensor);
  else read_list(L, s->first + PARAMETERS, n, tensor);
  for (int i = 0; i < s->nstates; i++) {
    s->states[i] = tensor += n;
    lua_rawgeti(L, s->first + STATES, i + 1);
    read_list(L, lua_gettop(L), n, tensor);
    lua_pop(L, 1);
  }
  s->of.gradients = tensor += n;
  if (!s->own) read_list(L, s->first + GRADIENTS, n, tensor);
  return tensor + n;
}


/* Takes the parameters' own gradients, which it owns then; false: one has none, or is released. */
static bool take_own (const stepped *s) {
  heed_tensor **gradients = (heed_tensor **)s->of.gradients;
  for (int i = 0; i < s->of.n; i++) {
    gradients[i] = heed_gradient(s->of.parameters[i]);
    if (gradients[i] != NULL) continue;
    while (i > 0) heed_drop(gradients[--i]);
    return false;
  }
  return true;
}


/* The tensors of n steps get an owner; of how many: of n, if all gradients are there. */
static int hold (int n, stepped *s) {
  for (int k = 0; k < n; k++) {
    if (s[k].own && !take_own(&s[k])) return k;
    heed_tensor *const *end = s[k].of.gradients + (s[k].own ? 0 : s[k].of.n);
    for (heed_tensor *const *t = s[k].of.parameters; t < end; t++) heed_keep(*t);
  }
  return n;
}


static void let_go (int n, const stepped *s) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < (2 + s[k].nstates) * s[k].of.n; i++) heed_drop(s[k].of.parameters[i]);
}


/* The tensors of the lists at 3 and 4, which lie one after the other, get an owner or lose it. */
static void own_all (const heed_changes *c, bool yes) {
  for (int i = 0; i < 2 * c->ntargets; i++) {
    if (yes) heed_keep(c->targets[i]);
    else heed_drop(c->targets[i]);
  }
}


/* Makes the steps of c, whose entries are read, and writes the targets at 3: true, or false for a
   missing gradient; -1: a failure. */
static int make_steps (lua_State *L, stepped *s, heed_optimization *of, heed_changes *c) {
  const int n = c->nsteps;
  size_t tensors = 1 + 2 * (size_t)c->ntargets;
  for (int k = 0; k < n; k++) tensors += (size_t)(2 + s[k].nstates) * (size_t)s[k].of.n;
  heed_tensor **end = lua_newuserdatauv(L, tensors * sizeof *end, 0);
  for (int k = 0; k < n; k++) end = read_lists(L, &s[k], end);
  for (int i = 0; i < 2 && c->ntargets > 0; i++)
    read_list(L, 3 + i, c->ntargets, end + i * c->ntargets);
  c->targets = end;
  c->operands = end + c->ntargets;
  const int held = hold(n, s);
  for (int k = 0; k < n; k++) of[k] = s[k].of;
  own_all(c, true);
  bool good = held < n || heed_commit(binding_of(L)->cx, c);
  own_all(c, false);
  let_go(held, s);
  return good ? held == n : -1;
}


/* Steps along the parameters' own gradients count on by themselves. */
static void count_on (lua_State *L, int n, const stepped *s) {
  for (int k = 0; k < n; k++) {
    if (!s[k].own) continue;
    lua_pushinteger(L, (lua_Integer)s[k].step.step + 1);
    lua_rawseti(L, 1, k * VALUES + NUMBER + 1);
  }
}


/* How many tensors the lists at 3 and 4 have. */
static int count_targets (lua_State *L) {
  if (lua_isnil(L, 3)) return 0;
  luaL_checktype(L, 3, LUA_TTABLE);
  luaL_checktype(L, 4, LUA_TTABLE);
  if (lua_rawlen(L, 3) != lua_rawlen(L, 4)) raise(L, "lists of one length expected");
  return (int)lua_rawlen(L, 3);
}


/*
** optim_step(steps[, fields[, targets, operands]]): all of the steps, then the targets are set to
** their operands, and the fields are set (lua_commit.c); all or nothing. Each step is six values of
** the list: the name of an optimizer, parameters, gradients (false: the parameters' own, and the
** result is false if one of these has none), a list of lists of states, its numbers by name, and
** the number of the step, which goes on to the next one for such steps.
*/
static int l_optim_step (lua_State *L) {
  stepped few[FEW], *s = few;
  heed_optimization few_of[FEW], *of = few_of;
  enter(L);
  lua_settop(L, 4);
  luaL_checktype(L, 1, LUA_TTABLE);
  check_fields(L, 2);
  const int n = (int)(lua_rawlen(L, 1) / VALUES);
  heed_changes c = {.nsteps = n, .op = HEED_copy, .ntargets = count_targets(L)};
  if (n > FEW) {
    s = lua_newuserdatauv(L, (size_t)n * sizeof *s, 0);
    of = lua_newuserdatauv(L, (size_t)n * sizeof *of, 0);
  }
  for (int k = 0; k < n; k++) read_entry(L, k, &s[k]);
  c.steps = of;
  int made = make_steps(L, s, of, &c);
  if (made < 0) return raise_failure(L);
  if (made) {
    count_on(L, n, s);
    set_fields(L, 2);
  }
  lua_pushboolean(L, made);
  return 1;
}


/* clip_gradients(parameters, p, max): their norm; without 'max' nothing is scaled */
static int l_clip_gradients (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  luaL_checktype(L, 1, LUA_TTABLE);
  const double p = luaL_checknumber(L, 2), max = luaL_optnumber(L, 3, 0);
  const bool scales = !lua_isnoneornil(L, 3);
  const size_t n = lua_rawlen(L, 1);
  heed_tensor **list = lua_newuserdatauv(L, (n + 1) * sizeof *list, 0);
  cell *s = push_cell(L);
  read_list(L, 1, (int)n, list);
  for (size_t i = 0; i < n; i++) heed_keep(list[i]);
  heed_tensor *norm = scales ? heed_clip_gradients(cx, max, p, (int)n, list)
                             : heed_gradient_norm(cx, p, (int)n, list);
  for (size_t i = 0; i < n; i++) heed_drop(list[i]);
  return fill(L, s, norm);
}


void open_optim (lua_State *L, int internal) {
  static const luaL_Reg stepping[] = {{"optim_step", l_optim_step}, {NULL, NULL}};
  static const luaL_Reg clips[] = {{"clip_gradients", l_clip_gradients}, {NULL, NULL}};
  register_as(L, "step", stepping, internal);
  register_as(L, "clip_grad_norm", clips, internal);
}
