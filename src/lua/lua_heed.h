/*
** lua_heed.h - declarations that the files of the binding share. The binding is a client of heed.h
** and of Lua's API like any other: nothing here sees inside a tensor.
**
** Every function has the binding as upvalue 1, the metatable of tensors as upvalue 2 and the name
** that messages give it as upvalue 3; a method has true as upvalue 4. Calls of Lua's API may raise,
** and may run a script's finalisers. A function therefore makes the userdata of its results first,
** then reads its arguments, and only then calls the core, holding the tensors that it got out of
** tables.
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

#if LUA_VERSION_NUM != 504
#error "heed needs Lua 5.4: set LUA_INCDIR to the folder of its headers"
#endif

#pragma GCC visibility push(hidden)

typedef struct binding binding;

/*
** The owner of a tensor for its userdata. Cells lie in C's memory, so that a tensor whose finaliser
** never runs (a metatable can be taken away with 'debug') is found when the state closes.
*/
typedef struct cell {
  heed_tensor *t;                  /* NULL: not filled yet, or released */
  struct cell *newer, *older;      /* all of the state's, by age */
  int64_t age, scope;              /* the number of the scope that it was made in; 0: none */
  bool kept, spared;               /* scopes leave it alone: for ever, or once */
} cell;

/* The userdata itself. 'self' distinguishes it from foreign ones. Its user value: lua_anchor.c. */
typedef struct box {
  struct box *self;
  binding *owner;
  cell *at;                        /* NULL: released */
} box;

/* The settings of all calls while a frame is open. */
typedef struct modes {
  bool recording;
  heed_type autocast;
  int layer;                       /* that works */
} modes;

/*
** A call of scope, no_grad, enable_grad, autocast or a layer that runs, or a user's backward
** function. A frame applies to its coroutine: while that is suspended, so is what it sets.
*/
typedef struct frame {
  struct frame *outer;             /* opened before it, and still open */
  const struct frame *under;       /* what that was when it was opened */
  lua_State *L;                    /* the coroutine */
  int64_t scope;                   /* its number, or 0 */
  struct modes modes;              /* it sets: */
  bool moded, layered;             /* all but the layer; the layer */
  bool open, finalising;           /* opened in a finaliser */
  int slot, around;                /* of a layer's: its place in the list of those, from 1 on; the
                                      number of the layer around it */
} frame;

typedef struct hook hook;          /* lua_grad.c */

#define SPARES (HEED_RESULTS - 1)  /* as many as one call can leave empty */

struct binding {
  heed_context *cx;
  lua_State *main, *L;             /* L: of the call that runs, kept alive in the registry */
  cell *newest, *unused, *late;    /* late: released by finalisers, dropped when they are done */
  int spares;                      /* user values of the binding: empty userdata of tensors */
  int64_t clock;                   /* ages, and numbers of scopes */
  frame *frames;
  hook *hooks;
  size_t debt, soft_limit;         /* what steps of the collector will pay for; see lua_memory.c */
  bool collecting;
  bool capturing, collects;        /* lua_capture.c; collects, of a capture: the script's
                                      collector ran before it */
  struct modes modes;              /* outside all frames */
  bool modes_applied;              /* the core has those of L's own innermost frame */
  bool thrown;                     /* an error of a backward function waits in the registry */
  lua_Hook hook, main_hook;        /* of L and of main when the call began */
  bool stopped;                    /* one has appeared since: see lua_interrupt.c */
  bool attempting;                 /* a call of 'attempt' runs: lua_error.c */
  const char *called;              /* what messages name, while 'called' runs; else NULL */
  int precision, width, edge;      /* of printing */
  bool open;                       /* the module was made */
  bool stamped;                    /* calls of modules were stamped: see pass in lua_error.c */
  int watchers;                    /* calls that ask which layer works: lua_profile.c */
  int idle;                        /* frames of layers in slots before this one are open */
  bool sealed, no_files;           /* the host's options; see lua_sealed.c */
  int most_threads, loading;       /* of a sealed state; loading: files of the Lua half that run */
  char home[512];                  /* "@.../lua/heed/": errors name the first line outside it */
};

static inline binding *binding_of (lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

/* The tensor at i, even a released one; NULL when it is none of b's (NULL: of any binding's). */
static inline box *box_at (lua_State *L, const binding *b, int i) {
  box *x = lua_touserdata(L, i);
  if (x == NULL || lua_rawlen(L, i) != sizeof(box) || x->self != x) return NULL;
  return b == NULL || x->owner == b ? x : NULL;
}

static inline cell *cell_at (lua_State *L, const binding *b, int i) {
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
cell *push_cell_of (lua_State *L, binding *b);           /* an empty one, in its userdata */
static inline cell *push_cell (lua_State *L) { return push_cell_of(L, binding_of(L)); }
void put_aside (lua_State *L, binding *b, int i);        /* nil for the empty userdata at i, which
                                                   nothing else reaches: 'push_cell' gives them
                                                   again, as making and collecting cost more */
int fill (lua_State *L, cell *s, heed_tensor *t);        /* s := t, which it owns; or raises, as
                                                   'done' does; 1 */
void empty_cell (cell *s);                               /* drops its tensor */
void drop_cells (binding *b);                            /* at the end: all of them */
bool is_box (lua_State *L, int i);                       /* a tensor of this state, even released */
heed_tensor *raw_tensor (lua_State *L, int i);           /* NULL: none, or released */
heed_tensor *check_tensor (lua_State *L, int i);         /* raises */
void push_shape (lua_State *L, const heed_tensor *t);
bool in_finaliser (lua_State *L);
lua_State *running (binding *b);                         /* a coroutine that may be used now */
void open_tensor (lua_State *L, int module, int methods);

/* lua_interrupt.c */
void note_hooks (binding *b, lua_State *L);              /* hooks that stop nothing */
bool hook_appeared (void *self);
void run_hook (lua_State *L);                            /* the hook that has stopped a call, if
                                                   any: the hook may raise */
void poll (lua_State *L, int64_t i);                     /* step i of a loop over Lua values: raises
                                                   if it is to stop */

int l_poll (lua_State *L);
int l_hooked (lua_State *L);

/* Every function that works begins with it. A finaliser may come after the context is gone. */
static inline binding *enter (lua_State *L) {
  binding *b = binding_of(L);
  bool stale = b->frames != NULL && !b->modes_applied;
  bool odd = b->late != NULL || b->cx == NULL || b->capturing;
  if (b->L != L || stale || odd) enter_anew(L, b);
  note_hooks(b, L);
  return b;
}

/* lua_error.c: errors at the first line outside heed, "function: text" */
const char *function_name (lua_State *L);                /* as messages name what was called */
int raise (lua_State *L, const char *format, ...);
int raise_as (lua_State *L, const char *function, const char *format, ...);  /* NULL: no name */
int raise_failure (lua_State *L);                        /* the core's message */
bool has_yielded (lua_State *L);                         /* is the error on top that of a yield? */
int raise_caught (lua_State *L, const char *yielded);    /* the error on top; or, where a function
                                                   of the script's has yielded, this text */
int raise_wrong (lua_State *L, const char *argument, const char *wanted, int i);
                                                   /* "argument 'x': … expected, got …" */
void at_most (lua_State *L, int n);                      /* raises if more arguments are given; nils
                                                   behind them are none */
bool is_method (lua_State *L);                           /* was x.f called, not heed.f? */
int refuse_dot (lua_State *L);                           /* x.f(2), for x:f(2) */
const char *describe (lua_State *L, int i);              /* the value at i; pushes words */
bool to_integer (lua_State *L, int i, int64_t *value);   /* also of a float without a fraction */
int64_t check_integer (lua_State *L, int i, const char *name);
bool check_flag (lua_State *L, int i, const char *name);
const char *plain_text (lua_State *L, int i);            /* a string without zero bytes, or NULL */
heed_type check_type_name (lua_State *L, int i);
const char *nearest_type (const char *name);             /* the type that is meant, or NULL */
const char *check_device (lua_State *L, int i);
const char *keep_device (lua_State *L);  /* of an option on top; the call's stack keeps the name */
int64_t axis_of (lua_State *L, int64_t axis, const char *name);          /* Lua's to C's */
void check_callable (lua_State *L, int i);
void open_error (lua_State *L, int internal);

/* lua_options.c: lists and tables of options */
bool is_empty (lua_State *L, int i);                     /* of a table */
bool push_foreign_key (lua_State *L, int i);             /* one that is no position of the list */
int64_t check_list (lua_State *L, int i);                /* its length; or raises */
bool is_options (lua_State *L, int i);                   /* a table of named options */
void check_options (lua_State *L, int i);                /* a table at all */
const char *nearest (const char *word, int n, const char *const *names);  /* or NULL */
const char *push_hint (lua_State *L, const char *word, int n, const char *const *names);
                                                   /* "did you mean 'x'?", or "there are x, y" */
int refuse_option (lua_State *L, const char *function, int key, int n, const char *const *known);
int refuse_option_of (lua_State *L, const char *op, int key, int n, const char *const *known);
                                                   /* by the name at 'key', saying what there is */
/* Steps through the options at i (none there: none): the next one's name, as it stands in 'known',
   its value on top; raises if it is not known. Before the first, push nil; after each, pop one. */
const char *next_option (lua_State *L, int i, int n, const char *const *known);
void open_options (lua_State *L, int internal);

/* The context, in which failures name the function that was called, until 'done' or 'fill'. */
static inline heed_context *named (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  heed_set_caller(cx, function_name(L));
  return cx;
}

/* Ends that, and raises the failure unless all is good; 0. */
static inline int done_in (lua_State *L, const binding *b, bool good) {
  heed_set_caller(b->cx, NULL);
  return good ? 0 : raise_failure(L);
}
static inline int done (lua_State *L, bool good) { return done_in(L, binding_of(L), good); }

/* lua_heed.c */
binding *binding_in (lua_State *L);                /* NULL: the module is not open */
void push_function (lua_State *L, const char *name, lua_CFunction f);    /* with its upvalues */
void push_method (lua_State *L, const char *name, lua_CFunction f);      /* the same */
void register_functions (lua_State *L, const luaL_Reg *functions, int table);
void register_methods (lua_State *L, const luaL_Reg *functions, int module, int methods);
                                                   /* as functions and as methods */
void register_as (lua_State *L, const char *name, const luaL_Reg *functions, int table);
                                                   /* messages say 'name' for all of them */
void register_files (lua_State *L, const luaL_Reg *functions, int table);
                                                   /* functions that touch files */
void register_metatable (lua_State *L, const luaL_Reg *functions, const void *key);
                                                   /* at 'key' in the registry; scripts see none */
void push_binding (lua_State *L);                        /* made where there is none */
void push_bound (lua_State *L, lua_CFunction f, const char *name);   /* outside of any function */
void push_core (lua_State *L);                           /* heed.core, made anew */
void check_version (lua_State *L);                       /* of Lua; raises */

/* lua_sealed.c: for hosts that link the module */
int open_sealed (lua_State *L);                          /* the options at 1 */
bool push_sealed (lua_State *L);                         /* what that opened; false: nothing was */
const char *const *find_half (const char *name);         /* lua_half.c: name, chunk name, text */
int l_sources (lua_State *L);                            /* lua_half.c */

/* lua_api.c */
void open_api (lua_State *L);

/* lua_call.c */
void open_ops (lua_State *L, int module, int methods, int internal);

/* lua_describe.c */
bool takes_list (const heed_parameter *p);          /* of tensors, sizes or axes */
bool takes_rest (const heed_signature *row, const heed_parameter *p);    /* may numbers that follow
                                                   one another stand for the list p? */
void open_describe (lua_State *L, int internal);

#define LONGEST_LIST (1 << 24)     /* most entries of tables that one call gives to Lua */

/* lua_make.c, lua_read.c */
int read_sizes (lua_State *L, int i, int64_t size[HEED_RANK]);    /* of the table at i: how many */
void open_make (lua_State *L, int module);
void open_read (lua_State *L, int module, int methods);
bool read_element (heed_tensor *t, element *e);           /* of one element; NULL: false */
void push_element (lua_State *L, const element *e);
heed_tensor *push_from_value (lua_State *L, int i, const heed_type *type);  /* as heed.tensor */
heed_type lua_type_of (const heed_tensor *t);            /* of its 'element's */

/* lua_generator.c */
void open_generator (lua_State *L, int module, int internal);

/* lua_commit.c: fields are a list of a table, a key that is there, a value, the next table ... */
void check_fields (lua_State *L, int fields);            /* or raises; nil: there are none */
void set_fields (lua_State *L, int fields);              /* takes no memory, raises nothing */
void open_commit (lua_State *L, int internal);

/* lua_tokenizer.c */
void open_tokenizer (lua_State *L, int internal);

/* lua_json.c */
void open_json (lua_State *L, int internal);

/* lua_search.c */
void open_search (lua_State *L, int internal);

/* lua_inflate.c */
void open_inflate (lua_State *L, int internal);

/* lua_readline.c */
void open_readline (lua_State *L, int internal);

/* lua_index.c */
int l_newindex (lua_State *L);
int index_by_key (lua_State *L);                       /* of the tensor at 1, by the key at 2 */

/* lua_print.c */
int l_tostring (lua_State *L);
void open_print (lua_State *L, int module, int methods);

/* lua_memory.c */
void reclaim_memory (void *self, size_t bytes, bool urgent);
void set_bytes (lua_State *L, const char *name, size_t bytes);   /* in the table on top */
void set_limit (lua_State *L, int i);                    /* to the number of bytes at i */
void set_threads (lua_State *L, int i);
void check_room (lua_State *L, const char *function, size_t bytes, const char *what);
                                                   /* raises if the limit has no room for 'what' */
void check_entries (lua_State *L, const char *function, int64_t n, const char *what);
                                                   /* of tables that Lua is to get; likewise */
void open_memory (lua_State *L, int module, int internal);

/* lua_profile.c */
void watch_layers (lua_State *L, bool yes);              /* from now on; 'false' raises nothing */
void open_profile (lua_State *L, int internal);

/* lua_cuda.c, lua_capture.c */
void open_cuda (lua_State *L, int module, int methods);
void open_capture (lua_State *L, int internal);

/* lua_scope.c */
modes modes_now (const binding *b);
void set_modes (const binding *b, modes m);
void apply_modes (binding *b, lua_State *L);             /* of the innermost frame; b has some */
int64_t scope_in (const binding *b, lua_State *L);       /* the innermost scope's number, or 0: a
                                      finaliser has scopes of its own alone */
void begin_frame (binding *b, lua_State *L, frame *f);
void begin_layer (binding *b, lua_State *L, frame *f);   /* that sets a layer alone */
frame *push_frame (lua_State *L);                        /* that is to be begun; closed, it ends */
void end_frame (binding *b, lua_State *L, frame *f);
frame *own_frame (const binding *b, lua_State *L);       /* the innermost of L's own; or NULL */
void end_frames (binding *b, lua_State *L, const frame *own);   /* L's own, down to that one */
void open_scope (lua_State *L, int module);

/* lua_bytes.c, lua_file.c: the one file that opens, reads, writes and renames */
#define POLLED_BYTES ((size_t)1 << 20)             /* between two questions whether to stop */
uint32_t crc32_of (uint32_t before, const void *data, size_t n);
const void *raw_bytes (lua_State *L, int i, size_t *n);  /* of a string, or of a dense tensor on
                                                   the CPU; NULL: neither */
void open_bytes (lua_State *L, int module, int internal);
void open_file (lua_State *L, int internal);

/*
** lua_anchor.c: where Lua's collector sees the functions that a graph calls. An operation takes the
** anchors of its arguments and passes them to its results. Pushing a list or a keeper may run
** finalisers; no function raises once a call is done.
*/
int begin_anchors (lua_State *L, int top);               /* before arguments are read: pushes a
                                                   list if those up to 'top' have anchors; its
                                                   index, or 0 */
void take_anchors (lua_State *L, int top, int list);     /* when they were read */
int take_anchors_in_place (lua_State *L, int top, int list);     /* for the tensor at 1; 'list', or
                                                   0: nothing is to be passed on */
void pass_anchors (lua_State *L, int list, int from, int n);     /* to n tensors, from 'from' on */
int pass_anchor (lua_State *L, int from);                /* to the tensor on top, of the one that
                                                   it was made from; 1 */
void pin_anchors (lua_State *L, int from, int top);      /* the keepers of these tensors live
                                                   as long as the graph; pushes a list meanwhile */
void hold_keepers (lua_State *L, int i);                 /* those that the tensor at i leads to:
                                                   pushes what holds each, if there are any */
int64_t push_keeper (lua_State *L, int function, int inputs);    /* its number; 'inputs': the index
                                                   of a list, or 0 */
int64_t anchor_function (lua_State *L, int function, int i);    /* the number of its keeper, for the
                                                   graph of the tensor at i */
bool push_kept (lua_State *L, int64_t number);           /* the function; false: it is gone */
void set_keeper_caller (lua_State *L, int64_t number, void *caller);      /* until it is emptied */
void *keeper_caller (lua_State *L, int64_t number);      /* NULL: there is none */
void empty_keeper (lua_State *L, int64_t number);        /* its node is freed */
void open_anchor (lua_State *L);

/* lua_grad.c, lua_optim.c */
void drop_hooks (binding *b);
void open_grad (lua_State *L, int module, int methods, int internal);
heed_step read_step (lua_State *L, int i);               /* of the options at i */
void open_optim (lua_State *L, int internal);

#pragma GCC visibility pop

#endif
