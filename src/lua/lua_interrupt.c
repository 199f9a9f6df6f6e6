/*
** lua_interrupt.c - Ctrl-C while heed computes.
**
** Lua's stand-alone interpreter answers the signal by setting a hook, which Lua runs at its next
** step: after the call of heed that runs, be it of hours. While the core works, it therefore asks
** here whether the state has a hook that was not there when the call began; then the call stops,
** and the hook runs in the place where Lua would have run it. Hooks that were there before, of a
** debugger or a sandbox, stop nothing.
*/

#include "lua_heed.h"


void note_hooks (binding *b, lua_State *L) {
  b->hook = lua_gethook(L);
  b->main_hook = L == b->main ? b->hook : lua_gethook(b->main);
}


/* Asked by the core, on the thread of the state. */
bool hook_appeared (void *self) {
  binding *b = self;
  b->stopped = lua_gethook(b->main) != b->main_hook || lua_gethook(running(b)) != b->hook;
  return b->stopped;
}


/* A hook of the main state moves to the coroutine that runs, which it was to stop. */
static lua_Hook take_hook (lua_State *L, const binding *b) {
  lua_Hook f = lua_gethook(L);
  if (f != b->hook) return f;
  f = lua_gethook(b->main);
  if (f == b->main_hook || f == NULL) return NULL;
  lua_sethook(L, f, lua_gethookmask(b->main), lua_gethookcount(b->main));
  lua_sethook(b->main, NULL, 0, 0);
  return f;
}


void run_hook (lua_State *L) {
  binding *b = binding_of(L);
  lua_Debug ar = {.event = LUA_HOOKCOUNT, .currentline = -1};
  if (!b->stopped) return;
  b->stopped = false;
  lua_Hook f = take_hook(L, b);
  if (f != NULL && lua_getstack(L, 0, &ar)) f(L, &ar);
}


void poll (lua_State *L, int64_t i) {
  if ((i & 0xfff) == 0xfff) done(L, !heed_interrupted(named(L)));
}


/* poll(function): for loops of the Lua half that make no other call */
int l_poll (lua_State *L) {
  heed_context *cx = enter(L)->cx;
  heed_set_caller(cx, luaL_checkstring(L, 1));
  return done(L, !heed_interrupted(cx));
}


/* hooked(): does a hook of Lua's, such as debug.sethook sets, watch this coroutine? */
int l_hooked (lua_State *L) {
  lua_pushboolean(L, lua_gethook(L) != NULL);
  return 1;
}
