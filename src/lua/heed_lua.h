/*
** heed_lua.h - the interface for hosts that embed Lua: the module, and tensors in and out of it.
**
**   luaL_requiref(L, "heed", luaopen_heed, 0);
**   heed_push(L, heed_lend(heed_lua_context(L), HEED_FLOAT32, 1, &n, samples, NULL, NULL));
**
** A host that runs scripts which it does not trust opens the module with options, before they run:
**
**   lua_pushcfunction(L, luaopen_heed);
**   lua_newtable(L);
**   lua_pushboolean(L, 0);
**   lua_setfield(L, -2, "files");       no function of heed touches files or processes
**   lua_pushinteger(L, 1 << 30);
**   lua_setfield(L, -2, "limit");       bytes of all tensors; scripts can only lower it
**   lua_pushinteger(L, 2);
**   lua_setfield(L, -2, "threads");     scripts can take fewer
**   lua_call(L, 1, 1);                  heed; 'require "heed"' gives it too
**
** Any table, also an empty one, seals the state: heed, its parts and its classes are read-only, and
** a proxy stands for each, so that rawset does not write to them either; objects of a script's own
** work as in any state; scripts that change the globals do not change the library. Scripts in one
** state still share its generator, limit, default device and print options, and the host's own
** tables: 'package', and what string methods (("x"):rep) find, which the library uses too. 'io',
** 'os', 'debug' and 'require' of files are the host's to take away. Only hosts that link the
** library have options: from Lua, 'require "heed"' takes none.
*/

#ifndef heed_lua_h
#define heed_lua_h

#include "heed.h"

#ifdef __cplusplus
extern "C" {
#endif

#include <lua.h>

/*
** The whole module, the Lua half included; needs Lua's standard libraries in the state. An option
** that it does not know raises.
*/
HEED_API int luaopen_heed (lua_State *L);
HEED_API int luaopen_heed_core (lua_State *L);   /* what C defines; the Lua half requires it */

/*
** From now on no function of heed touches files or processes, as if the state had been opened with
** files = false: the host opens models first, and leaves them to scripts in globals. For a state
** that was opened with options, be they none; others stay as they are. May raise for lack of
** memory, with files taken.
*/
HEED_API void heed_lua_close_files (lua_State *L);

/* The context of this state, once the module is open; NULL before. Raises nothing. */
HEED_API heed_context *heed_lua_context (lua_State *L);
/* Pushes t as a tensor and takes it over; NULL pushes nil. May raise for lack of memory. */
HEED_API void heed_push (lua_State *L, heed_tensor *t);
/* The tensor at index i, which stays Lua's: heed_keep it to hold it. Raises if it is none. The
   functions of Lua's that its graph calls live from now on until the graph is freed. */
HEED_API heed_tensor *heed_check (lua_State *L, int i);

#ifdef __cplusplus
}
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
/* The context of a tensor; a lua_State, whose context is heed_lua_context, does not compile. */
#define heed_context_of(t) _Generic((t), heed_tensor *: heed_context_of, \
  const heed_tensor *: heed_context_of, void *: heed_context_of)(t)
#endif

#endif
