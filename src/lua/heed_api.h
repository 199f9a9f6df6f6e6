/*
** heed_api.h - tensors for C modules of others, which are not linked against heed.
**
**   static int l_sum (lua_State *L) {
**     const heed_api_table *heed = heed_api(L);
**     heed_value x = heed_t(heed->check(L, 1));
**     heed_context *cx = heed->context(L);
**     heed_tensor *y = heed->call(cx, "sum", &x, 1);
**     if (y == NULL) return heed->raise(L);
**     heed->push(L, y);
**     return 1;
**   }
**
** 'require "heed"' puts the table into Lua's registry, whatever object it came from. The members
** are the functions of heed.h and heed_lua.h, but that operations are called by name: the numbers
** in heed.h are those of the module's own build. 'push', 'check' and 'raise' leave C++ code by
** longjmp: they are called while no object has a destructor to run.
*/

#ifndef heed_api_h
#define heed_api_h

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

#include <lauxlib.h>
#include <lua.h>

#define HEED_API_KEY "heed.api"    /* of the registry: a light userdata, the table's address */
#define HEED_API_VERSION 1         /* grows when what is there changes; 'size', by what is added */

typedef struct heed_api_table {
  int version;
  size_t size;                     /* bytes of the table */

  /* Between C and Lua; the context is NULL once the state closes. */
  heed_context *(*context) (lua_State *L);
  void (*push) (lua_State *L, heed_tensor *t);
  heed_tensor *(*check) (lua_State *L, int i);

  /* The first failure, until it is cleared; 'raise' makes it Lua's, at the caller's line. */
  int (*raise) (lua_State *L);
  const char *(*error) (heed_context *cx);
  void (*clear) (heed_context *cx);
  void (*fail) (heed_context *cx, const char *format, ...) __attribute__((format(printf, 2, 3)));

  /* Making */
  heed_tensor *(*empty) (heed_context *cx, heed_type type, int rank, const int64_t *size);
  heed_tensor *(*from) (heed_context *cx, heed_type type, int rank, const int64_t *size,
                        const void *data);
  heed_tensor *(*lend) (heed_context *cx, heed_type type, int rank, const int64_t *size,
                        void *data, void (*release) (void *self, void *data), void *self);
  heed_tensor *(*number) (heed_context *cx, double value);
  heed_tensor *(*keep) (heed_tensor *t);
  void (*drop) (heed_tensor *t);
  heed_tensor *(*detach) (heed_tensor *t);

  /* Looking */
  heed_context *(*context_of) (const heed_tensor *t);
  heed_type (*type_of) (const heed_tensor *t);
  const char *(*device_of) (const heed_tensor *t);
  int (*rank) (const heed_tensor *t);
  int64_t (*size_of) (const heed_tensor *t, int axis);
  int64_t (*stride) (const heed_tensor *t, int axis);
  int64_t (*numel) (const heed_tensor *t);
  bool (*contiguous) (const heed_tensor *t);
  void *(*data) (heed_tensor *t);
  bool (*read) (heed_tensor *t, heed_type type, void *data);
  bool (*write) (heed_tensor *t, heed_type type, const void *data);

  /* Operations and gradients */
  heed_tensor *(*call) (heed_context *cx, const char *op, const heed_value *args, int n);
  int (*apply) (heed_context *cx, const char *op, const heed_value *args, int n,
                heed_tensor *out[HEED_RESULTS]);
  bool (*apply_in_place) (heed_context *cx, const char *op, const heed_value *args, int n);
  bool (*requires_grad) (const heed_tensor *t);
  bool (*record_custom) (heed_context *cx, const heed_custom *custom, int ninputs,
                         heed_tensor *const *inputs, int noutputs, heed_tensor *const *outputs);
} heed_api_table;

/* Raises where heed is not loaded, or is not of the version that the module was built for. */
static inline const heed_api_table *heed_api (lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, HEED_API_KEY);
  const heed_api_table *api = (const heed_api_table *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (api == NULL) luaL_error(L, "heed is not loaded in this state: require \"heed\" first");
  if (api->version != HEED_API_VERSION || api->size < sizeof *api)
    luaL_error(L, "this module was built for version %d of heed's interface (%d bytes), the heed "
               "that is loaded has version %d (%d bytes)", HEED_API_VERSION, (int)sizeof *api,
               api->version, (int)api->size);
  return api;
}

#ifdef __cplusplus
}
#endif

#endif
