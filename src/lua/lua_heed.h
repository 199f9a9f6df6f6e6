/*
** lua_heed.h - what the files of the binding share. It is a client of heed.h and of Lua's
** API like any other: nothing here sees inside a tensor.
**
** Every function has the binding as upvalue 1, the metatable of tensors as upvalue 2 and the
** name that messages give it as upvalue 3. Whatever calls Lua's API may raise, and may run a
** script's finalisers. So a function first makes the userdata of its results, then reads its
** arguments, and only then calls the core, holding what it got out of tables.
**
** Where the core would not name the function that the script called (it reads an element for
** 'item', and where memory ends it knows no function at all) the call stands between 'named' and
** 'done' or 'fill', with none of Lua's API in between. A failure of the core is raised as it is.
*/

#ifndef lua_heed_h
#define lua_heed_h

#include <lauxlib.h>
#include <lua.h>

#include "heed.h"

#pragma GCC visibility push(hidden)

typedef struct binding binding;

/*
** What the userdata of a tensor stands for. It lies in C's memory, so that what Lua forgot (a
** metatable can be taken away with 'debug') is found when the state closes.
*/
typedef struct slot {
  heed_tensor *t;                  /* NULL: not filled yet, or released */
  struct slot *newer, *older;      /* all of the state's, by age */
  int64_t age, scope;              /* the number of the scope that it was made in; 0: none */
  bool kept, spared;               /* scopes leave it alone: for ever, or once */
} slot;

/* The userdata itself. 'self' distinguishes it from foreign ones. */
typedef struct box {
  struct box *self;
  binding *owner;
  slot *at;                        /* NULL: released */
} box;

/*
** A call of scope, no_grad or enable_grad that runs, or a user's backward function. It holds for
** its coroutine: while that is suspended, so are its modes and scopes.
*/
typedef struct frame {
  struct frame *outer;             /* opened before it */
  lua_State *L;                    /* the coroutine */
  int64_t scope;                   /* its number, or 0: a mode */
  bool recording, open;
} frame;

typedef struct hook hook;          /* lua_grad.c */

struct binding {
  heed_context *cx;
  lua_State *main, *L;             /* L: of the call that runs, kept alive in the registry */
  slot *newest, *unused, *late;    /* late: released by finalisers, dropped when they are done */
  int64_t clock;                   /* ages, and numbers of scopes */
  frame *frames;
  hook *hooks;
  size_t debt, soft_limit;         /* bytes not yet reported to the collector; see lua_memory.c */
  bool collecting;
  bool recording;                  /* outside all frames */
  bool thrown;                     /* an error of a backward function waits in the registry */
  const char *called;              /* what messages name, while 'called' runs; else NULL */
  int precision, width, edge;      /* of printing */
  char home[512];                  /* "@.../lua/heed/": errors name the first line outside it */
};

static inline binding *binding_of (lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

/* The tensor at i, even a released one; NULL when it is none of this state's. */
static inline box *box_at (lua_State *L, const binding *b, int i) {
  box *x = lua_touserdata(L, i);
  if (x == NULL || lua_rawlen(L, i) != sizeof(box) || x->self != x) return NULL;
  return x->owner == b ? x : NULL;
}

static inline slot *slot_at (lua_State *L, const binding *b, int i) {
  box *x = box_at(L, b, i);
  return x != NULL ? x->at : NULL;
}

/* An element as Lua has it: HEED_BOOL, HEED_INT64 or HEED_FLOAT64. */
typedef struct element {
  heed_type type;
  union { bool boolean; int64_t integer; double number; };
} element;

/* lua_tensor.c */
void enter_anew (lua_State *L, binding *b);
slot *push_slot (lua_State *L);                          /* an empty one, in its userdata */
int fill (lua_State *L, slot *s, heed_tensor *t);        /* s := t, which it owns; or raises, as
                                                   'done' does; 1 */
void empty_slot (slot *s);                               /* drops its tensor */
void drop_slots (binding *b);                            /* at the end: all of them */
bool is_box (lua_State *L, int i);                       /* a tensor of this state, even released */
heed_tensor *raw_tensor (lua_State *L, int i);           /* NULL: none, or released */
heed_tensor *check_tensor (lua_State *L, int i);         /* raises */
void push_shape (lua_State *L, const heed_tensor *t);
bool in_finaliser (lua_State *L);
lua_State *running (binding *b);                         /* a coroutine that may be used now */
void open_tensor (lua_State *L, int module, int methods);

/* Every function that works begins with it. A finaliser may come after the context is gone. */
static inline binding *enter (lua_State *L) {
  binding *b = binding_of(L);
  if (b->L != L || b->frames != NULL || b->late != NULL || b->cx == NULL) enter_anew(L, b);
  return b;
}

/* lua_error.c: errors at the first line outside heed, "function: text" */
const char *function_name (lua_State *L);                /* as messages name what was called */
int raise (lua_State *L, const char *format, ...);
int raise_as (lua_State *L, const char *function, const char *format, ...);  /* NULL: no name */
int raise_failure (lua_State *L);                        /* the core's message */
int raise_wrong (lua_State *L, const char *argument, const char *wanted, int i);
                                                   /* "argument 'x': … expected, got …" */
const char *describe (lua_State *L, int i);              /* the value at i; pushes words */
bool to_integer (lua_State *L, int i, int64_t *value);   /* also of a float without a fraction */
int64_t check_integer (lua_State *L, int i, const char *name);
bool check_flag (lua_State *L, int i, const char *name);
const char *plain_text (lua_State *L, int i);            /* a string without zero bytes, or NULL */
heed_type check_type_name (lua_State *L, int i);
const char *check_device (lua_State *L, int i);
int64_t axis_of (lua_State *L, int64_t axis);            /* Lua's to C's */
void check_callable (lua_State *L, int i);
void open_error (lua_State *L, int module);

/* lua_options.c: lists and tables of options */
bool is_empty (lua_State *L, int i);                     /* of a table */
bool push_foreign_key (lua_State *L, int i);             /* one that is no position of the list */
int64_t check_list (lua_State *L, int i);                /* its length; or raises */
bool is_options (lua_State *L, int i);                   /* a table of named options */
void check_options (lua_State *L, int i);                /* a table at all */
int refuse_option (lua_State *L, const char *function, int key, int n, const char *const *known);
                                                   /* by the name at 'key', saying what there is */
/* Steps through the options at i (none there: none): the next one's name, as it stands in 'known',
   its value on top; raises if it is not known. Before the first, push nil; after each, pop one. */
const char *next_option (lua_State *L, int i, int n, const char *const *known);
void open_options (lua_State *L, int module);

/* The context, in which failures name the function that was called, until 'done' or 'fill'. */
static inline heed_context *named (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  heed_set_caller(cx, function_name(L));
  return cx;
}

/* Ends that, and raises the failure unless all is good; 0. */
static inline int done (lua_State *L, bool good) {
  heed_set_caller(binding_of(L)->cx, NULL);
  return good ? 0 : raise_failure(L);
}

/* lua_heed.c */
void push_function (lua_State *L, const char *name, lua_CFunction f);    /* with its upvalues */
void register_functions (lua_State *L, const luaL_Reg *functions, int table);
void register_as (lua_State *L, const char *name, const luaL_Reg *functions, int table);
                                                   /* messages say 'name' for all of them */
void register_metatable (lua_State *L, const luaL_Reg *functions, const void *key);
                                                   /* at 'key' in the registry; scripts see none */

/* lua_call.c */
void open_ops (lua_State *L, int module, int methods);

/* lua_make.c, lua_read.c */
void open_make (lua_State *L, int module);
void open_read (lua_State *L, int module, int methods);
bool read_element (heed_tensor *t, element *e);           /* of one element; NULL: false */
void push_element (lua_State *L, const element *e);
heed_tensor *push_from_value (lua_State *L, int i, const heed_type *type);  /* as heed.tensor */
heed_type lua_type_of (const heed_tensor *t);            /* of its 'element's */

/* lua_index.c */
int l_newindex (lua_State *L);
int index_by_key (lua_State *L);                       /* of the tensor at 1, by the key at 2 */

/* lua_print.c */
int l_tostring (lua_State *L);
void open_print (lua_State *L, int module, int methods);

/* lua_memory.c */
void reclaim_memory (void *self, size_t bytes, bool urgent);
void set_bytes (lua_State *L, const char *name, size_t bytes);   /* in the table on top */
void open_memory (lua_State *L, int module);

/* lua_cuda.c, lua_capture.c */
void open_cuda (lua_State *L, int module, int methods);
void open_capture (lua_State *L, int module);

/* lua_scope.c */
bool recording_in (const binding *b, lua_State *L);      /* what frames say; b has some */
int64_t scope_in (const binding *b, lua_State *L);       /* the innermost scope's number, or 0 */
void begin_frame (binding *b, lua_State *L, frame *f);
void end_frame (binding *b, lua_State *L, frame *f);
void open_scope (lua_State *L, int module);

/* lua_grad.c, lua_optim.c, lua_file.c */
void drop_hooks (binding *b);
void open_grad (lua_State *L, int module, int methods);
heed_step read_step (lua_State *L, int i);               /* of the options at i */
void open_optim (lua_State *L, int module);
void open_file (lua_State *L, int module);

#pragma GCC visibility pop

#endif
