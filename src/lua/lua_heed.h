/*
** lua_heed.h - what the files of the binding share. It is a client of heed.h and of Lua's
** API like any other: nothing here sees inside a tensor.
**
** Every function has the binding as upvalue 1 and the metatable of tensors as upvalue 2. A
** result's userdata is made before the call that fills it, so that an error of Lua's loses
** nothing; failures of the core are raised in one place, 'raise_failure'.
*/

#ifndef lua_heed_h
#define lua_heed_h

#include <lauxlib.h>
#include <lua.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

typedef struct binding binding;

/* The userdata of a tensor. 't' is NULL once released; 'self' tells it from strangers. */
typedef struct box {
  heed_tensor *t;
  struct box *self;
  binding *owner;
  struct box *newer, *older;       /* all of the state's boxes, by age */
  int64_t serial;
  bool kept;                       /* heed.keep: scopes leave it alone */
} box;

struct binding {
  heed_context *cx;
  lua_State *L;                    /* of the call that runs: the collector works on it */
  box *newest;
  int64_t serial;
  size_t debt, soft_limit;         /* bytes not yet told to the collector; see lua_memory.c */
  bool collecting;
  char home[512];                  /* "@…/lua/heed/": errors blame the first line outside it */
  int precision, width, edge;      /* of printing */
};

/* Every function that works begins with it. A finaliser may come after the context is gone. */
static inline binding *enter (lua_State *L) {
  binding *b = lua_touserdata(L, lua_upvalueindex(1));
  if (b->cx == NULL) luaL_error(L, "heed: the state is closing");
  b->L = L;
  return b;
}

/* lua_heed.c */
int raise_failure (lua_State *L);                        /* the core's message, at the caller */
int raise (lua_State *L, const char *format, ...);       /* a message of the binding's own */
void register_functions (lua_State *L, const luaL_Reg *functions, int table);
heed_tensor *raw_tensor (lua_State *L, int i);           /* NULL: no tensor of this state */
heed_tensor *check_tensor (lua_State *L, int i);         /* raises; also when released */
box *push_box (lua_State *L);                            /* an empty one */
int fill (lua_State *L, box *slot, heed_tensor *t);      /* slot owns t now; gives 1 */
void release_box (box *slot);
bool is_options (lua_State *L, int i);                   /* a table of named options */
bool to_whole (lua_State *L, int i, int64_t *value);     /* a whole number, float or integer */
int64_t check_whole (lua_State *L, int i, const char *function, const char *name);
heed_type check_type_name (lua_State *L, int i, const char *function);
int64_t axis_of (lua_State *L, int64_t axis, const char *function);   /* Lua's to C's */
void push_shape (lua_State *L, const heed_tensor *t);
void unknown_option (lua_State *L, const char *function, const char *key, int n,
                     const char *const *known);          /* raises, naming the nearest */
const char *function_name (lua_State *L);                /* upvalue 3, for messages */

/* lua_call.c */
void open_ops (lua_State *L, int module, int methods);

/* lua_make.c, lua_read.c */
void open_make (lua_State *L, int module, int methods);
void open_read (lua_State *L, int module, int methods);
void push_element (lua_State *L, heed_tensor *t);        /* a number or truth; t has one element */
heed_tensor *push_from_value (lua_State *L, int i, const heed_type *type);  /* as heed.tensor */

/* lua_index.c */
int l_newindex (lua_State *L);
int index_by_place (lua_State *L, heed_tensor *t);       /* key at 2; pushes the result */

/* lua_print.c */
int l_tostring (lua_State *L);
void open_print (lua_State *L, int module, int methods);

/* lua_memory.c */
void make_room (void *self, size_t bytes, bool urgent);
void open_memory (lua_State *L, int module, int methods);

/* lua_grad.c, lua_optim.c, lua_file.c */
void open_grad (lua_State *L, int module, int methods);
void open_optim (lua_State *L, int module);
void open_file (lua_State *L, int module);

#pragma GCC visibility pop

#endif
