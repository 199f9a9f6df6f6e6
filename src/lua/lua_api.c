/*
** lua_api.c - the table of functions that modules of others find in Lua's registry.
*/

#include <string.h>

#include "lua_heed.h"
#include "heed_api.h"
#include "heed_lua.h"

#undef heed_context_of


/* By a name that is none the context fails. */
static bool find_op (heed_context *cx, const char *name, heed_op *op) {
  if (cx == NULL || heed_error(cx) != NULL) return false;
  for (int i = 0; name != NULL && i < HEED_NOPS; i++) {
    *op = (heed_op)i;
    if (strcmp(heed_describe(cx, *op)->name, name) == 0) return true;
  }
  heed_fail(cx, "heed: there is no operation '%s'", name != NULL ? name : "NULL");
  return false;
}


static heed_tensor *call (heed_context *cx, const char *name, const heed_value *args, int n) {
  heed_op op;
  return find_op(cx, name, &op) ? heed_call(cx, op, args, n) : NULL;
}


static int apply (heed_context *cx, const char *name, const heed_value *args, int n,
                  heed_tensor *out[HEED_RESULTS]) {
  heed_op op;
  return find_op(cx, name, &op) ? heed_apply(cx, op, args, n, out) : 0;
}


static bool apply_in_place (heed_context *cx, const char *name, const heed_value *args, int n) {
  heed_op op;
  return find_op(cx, name, &op) && heed_apply_in_place(cx, op, args, n);
}


static int bound_raise (lua_State *L) { return raise_failure(L); }


/* As luaL_error, at the line of the Lua code that called the module's function. */
static int raise_last (lua_State *L) {
  push_bound(L, bound_raise, NULL);
  lua_call(L, 0, 0);
  return 0;
}


static const heed_api_table api = {
  .version = HEED_API_VERSION, .size = sizeof(heed_api_table),
  .context = heed_lua_context, .push = heed_push, .check = heed_check,
  .raise = raise_last, .error = heed_error, .clear = heed_clear, .fail = heed_fail,
  .empty = heed_empty, .from = heed_from, .lend = heed_lend, .number = heed_number,
  .keep = heed_keep, .drop = heed_drop, .detach = heed_detach,
  .context_of = heed_context_of, .type_of = heed_type_of, .device_of = heed_device_of,
  .rank = heed_rank, .size_of = heed_size, .stride = heed_stride, .numel = heed_numel,
  .contiguous = heed_contiguous, .data = heed_data, .read = heed_read, .write = heed_write,
  .call = call, .apply = apply, .apply_in_place = apply_in_place,
  .requires_grad = heed_requires_grad, .record_custom = heed_record_custom
};


void open_api (lua_State *L) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&api);
  lua_setfield(L, LUA_REGISTRYINDEX, HEED_API_KEY);
}
