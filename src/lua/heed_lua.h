/*
** heed_lua.h - the interface for hosts that embed Lua: the module, and tensors in and out of it.
**
**   luaL_requiref(L, "heed", luaopen_heed, 0);
**   heed_push(L, heed_lend(heed_context_in(L), HEED_FLOAT32, 1, &n, samples, NULL, NULL));
*/

#ifndef heed_lua_h
#define heed_lua_h

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

#include <lua.h>

HEED_API int luaopen_heed (lua_State *L);        /* the whole module, the Lua half included */
HEED_API int luaopen_heed_core (lua_State *L);   /* what C defines; the Lua half requires it */

/* The context of this state, once the module is open; NULL before. Raises nothing. */
HEED_API heed_context *heed_context_in (lua_State *L);
/* Pushes t as a tensor and takes it over; NULL pushes nil. May raise for lack of memory. */
HEED_API void heed_push (lua_State *L, heed_tensor *t);
/* The tensor at index i, which stays Lua's: heed_keep it to hold it. Raises if it is none. */
HEED_API heed_tensor *heed_check (lua_State *L, int i);

#ifdef __cplusplus
}
#endif

#endif
