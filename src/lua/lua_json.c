/*
** lua_json.c - JSON as Lua's values: what lua/heed/files/json.lua and header.lua are built on.
**
** Functions that take a position, from 1, go on from there in a text that 'check' has called right.
*/

#include <math.h>
#include <string.h>

#include "heed_json.h"
#include "lua_heed.h"

#define MOST_DEPTH 1000            /* of arrays and objects within each other, on C's stack */

typedef struct reader {
  heed_json j;
  int64_t values;                  /* that were read */
  int null, array;                 /* what stands for null, and arrays' metatable, on the stack */
  int twice;                       /* a name that an object has twice, on the stack; or 0 */
  bool range;                      /* a number is out of range */
  size_t place;                    /* where those begin, from 1 */
} reader;

static bool push_value (lua_State *L, reader *r);


/*
** {==================================================================
** Values
** ===================================================================
*/

static void push_text (lua_State *L, const heed_json *j, const heed_json_value *v) {
  luaL_Buffer b;
  size_t n = v->end - v->start;
  if (v->escaped) {
    char *to = luaL_buffinitsize(L, &b, n);
    luaL_pushresultsize(&b, heed_json_text(j->text, v, to));
  } else lua_pushlstring(L, j->text + v->start, n);
}


/* An integer of up to 18 digits, which 64 bits hold; -0 would lose its sign. */
static bool push_short (lua_State *L, const char *p, size_t n) {
  lua_Integer value = 0;
  bool minus = *p == '-';
  if (n > 18 || (minus && p[1] == '0')) return false;
  for (size_t i = minus; i < n; i++) value = value * 10 + (p[i] - '0');
  lua_pushinteger(L, minus ? -value : value);
  return true;
}


/* An integer without fraction and exponent where 64 bits hold it. Lua reads a point in every
   locale. */
static bool push_number (lua_State *L, reader *r, const heed_json_value *v) {
  const char *p = r->j.text + v->start;
  size_t n = v->end - v->start;
  if (v->whole && push_short(L, p, n)) return true;
  const char *text = lua_pushlstring(L, p, n);
  if (lua_stringtonumber(L, text) != 0) lua_remove(L, -2);
  if (lua_isinteger(L, -1) && lua_tointeger(L, -1) == 0) {
    lua_pushnumber(L, -0.0);
    lua_remove(L, -2);
  }
  if (lua_type(L, -1) == LUA_TNUMBER && isfinite(lua_tonumber(L, -1))) return true;
  r->range = true;
  r->place = v->start + 1;
  return false;
}


static bool push_array (lua_State *L, reader *r) {
  lua_newtable(L);
  int self = lua_gettop(L), more = heed_json_first(&r->j, HEED_JSON_ARRAY);
  lua_pushvalue(L, r->array);
  lua_setmetatable(L, self);
  for (lua_Integer n = 1; more > 0; n++) {
    if (!push_value(L, r)) return false;
    lua_rawseti(L, self, n);
    lua_settop(L, self);
    more = heed_json_another(&r->j, HEED_JSON_ARRAY);
  }
  return more == 0;
}


static bool push_member (lua_State *L, reader *r, int object) {
  heed_json_value name;
  if (!heed_json_name(&r->j, &name)) return false;
  push_text(L, &r->j, &name);
  int at = lua_gettop(L);
  lua_pushvalue(L, at);
  if (lua_rawget(L, object) != LUA_TNIL) {
    r->twice = at;
    r->place = name.start;
    return false;
  }
  if (!push_value(L, r)) return false;
  lua_pushvalue(L, at);
  lua_insert(L, -2);
  lua_rawset(L, object);
  return true;
}


static bool push_object (lua_State *L, reader *r) {
  lua_newtable(L);
  int self = lua_gettop(L), more = heed_json_first(&r->j, HEED_JSON_OBJECT);
  for (; more > 0; more = heed_json_another(&r->j, HEED_JSON_OBJECT)) {
    if (!push_member(L, r, self)) return false;
    lua_settop(L, self);
  }
  return more == 0;
}


/* False: the text is refused. Else the value is on top. */
static bool push_value (lua_State *L, reader *r) {
  heed_json_value v;
  poll(L, r->values++);
  luaL_checkstack(L, 8, NULL);
  switch (heed_json_read(&r->j, &v)) {
    case HEED_JSON_WRONG: return false;
    case HEED_JSON_NULL: lua_pushvalue(L, r->null); return true;
    case HEED_JSON_FALSE: case HEED_JSON_TRUE: lua_pushboolean(L, v.kind == HEED_JSON_TRUE);
      return true;
    case HEED_JSON_NUMBER: return push_number(L, r, &v);
    case HEED_JSON_TEXT: push_text(L, &r->j, &v); return true;
    case HEED_JSON_ARRAY: return push_array(L, r);
    case HEED_JSON_OBJECT: return push_object(L, r);
  }
  return false;
}


/* Goes over a number, which is read where it may be out of range. */
static bool skip_number (lua_State *L, reader *r, const heed_json_value *v) {
  const char *p = r->j.text + v->start;
  size_t n = v->end - v->start;
  if (n < 300 && memchr(p, 'e', n) == NULL && memchr(p, 'E', n) == NULL) return true;
  bool good = push_number(L, r, v);
  lua_pop(L, 1);                   /* the number, or its text */
  return good;
}


/* Goes over a value. */
static bool skip_value (lua_State *L, reader *r) {
  heed_json_value v, name;
  poll(L, r->values++);
  heed_json_kind kind = heed_json_read(&r->j, &v);
  if (kind == HEED_JSON_NUMBER) return skip_number(L, r, &v);
  if (kind != HEED_JSON_ARRAY && kind != HEED_JSON_OBJECT) return kind != HEED_JSON_WRONG;
  int more = heed_json_first(&r->j, kind);
  for (; more > 0; more = heed_json_another(&r->j, kind)) {
    if (kind == HEED_JSON_OBJECT && !heed_json_name(&r->j, &name)) return false;
    if (!skip_value(L, r)) return false;
  }
  return more == 0;
}

/* }================================================================== */


/* Why the text is refused: nil and a message, or nil, the message's beginning, a name and where it
   stands. */
static int push_refusal (lua_State *L, const reader *r) {
  lua_pushnil(L);
  if (r->range)
    lua_pushfstring(L, "number out of range at byte %I", (lua_Integer)r->place);
  else lua_pushstring(L, r->j.wrong);
  if (r->twice == 0) return 2;
  lua_pushvalue(L, r->twice);
  lua_pushinteger(L, (lua_Integer)r->place);
  return 4;
}


/* Goes to the start of the text at 1, whose depth stands at 2. */
static bool open_whole (lua_State *L, reader *r) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  int64_t depth = check_integer(L, 2, "depth");
  if (depth < 0 || depth > MOST_DEPTH) raise_wrong(L, "depth", "0 to 1000", 2);
  *r = (reader){.null = 3, .array = 4};
  return heed_json_open(&r->j, text, n, (int)depth);
}


/* decode(text, depth, null, metatable of arrays): a value; or as push_refusal */
static int l_decode (lua_State *L) {
  reader r;
  enter(L);
  lua_settop(L, 4);
  if (open_whole(L, &r) && push_value(L, &r) && heed_json_ended(&r.j)) return 1;
  return push_refusal(L, &r);
}


/* check(text, depth): true; or nil and a message. Names that come twice are not found */
static int l_check (lua_State *L) {
  reader r;
  enter(L);
  lua_settop(L, 2);
  bool good = open_whole(L, &r) && skip_value(L, &r) && heed_json_ended(&r.j);
  if (!good) return push_refusal(L, &r);
  lua_pushboolean(L, true);
  return 1;
}


/*
** {==================================================================
** By positions
** ===================================================================
*/

/* Goes to the position at 2 of the text at 1. */
static void open_at (lua_State *L, reader *r) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  int64_t at = check_integer(L, 2, "at");
  if (at < 1 || (uint64_t)at > n) raise_wrong(L, "at", "a position in the text", 2);
  *r = (reader){.j = {.text = text, .n = n, .at = (size_t)at - 1, .depth = MOST_DEPTH},
                .null = 3, .array = 4};
}


static int fail (lua_State *L, const reader *r) {
  return raise(L, "the text was not checked: %s", r->range ? "number out of range" : r->j.wrong);
}


static void push_position (lua_State *L, const reader *r) {
  lua_pushinteger(L, (lua_Integer)r->j.at + 1);
}


/* Where the next element begins; or nil, and the position behind them all. */
static int push_step (lua_State *L, const reader *r, int more) {
  if (more < 0) return fail(L, r);
  if (more == 0) lua_pushnil(L);
  push_position(L, r);
  return more == 0 ? 2 : 1;
}


/* first(text, at): in the array or object that begins there, by push_step */
static int l_first (lua_State *L) {
  reader r;
  heed_json_value v;
  enter(L);
  open_at(L, &r);
  heed_json_kind kind = heed_json_read(&r.j, &v);
  if (kind != HEED_JSON_ARRAY && kind != HEED_JSON_OBJECT) return fail(L, &r);
  return push_step(L, &r, heed_json_first(&r.j, kind));
}


/* another(text, at, whether in an object): behind an element, by push_step */
static int l_another (lua_State *L) {
  reader r;
  enter(L);
  open_at(L, &r);
  heed_json_kind kind = lua_toboolean(L, 3) ? HEED_JSON_OBJECT : HEED_JSON_ARRAY;
  return push_step(L, &r, heed_json_another(&r.j, kind));
}


/* member(text, at): a member's name, and where its value begins */
static int l_member (lua_State *L) {
  reader r;
  heed_json_value name;
  enter(L);
  open_at(L, &r);
  if (!heed_json_name(&r.j, &name)) return fail(L, &r);
  push_text(L, &r.j, &name);
  push_position(L, &r);
  return 2;
}


/* value(text, at, null, metatable of arrays): the value, and the position behind it; or as
   push_refusal */
static int l_value (lua_State *L) {
  reader r;
  enter(L);
  lua_settop(L, 4);
  open_at(L, &r);
  if (!push_value(L, &r)) return push_refusal(L, &r);
  push_position(L, &r);
  return 2;
}


/* behind(text, at): the position behind a value */
static int l_behind (lua_State *L) {
  reader r;
  enter(L);
  open_at(L, &r);
  if (!skip_value(L, &r)) return fail(L, &r);
  push_position(L, &r);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** What a header of safetensors says of a tensor
** ===================================================================
*/

enum { LONGEST = 9 };              /* elements that are kept of a shape or of offsets */
enum field { DTYPE, SHAPE, OFFSETS, FIELDS };


/* What a tensor's entry has: 'lists' are those of the shape and the offsets, on the stack, 'count'
   how many elements the file has there; -1: no list. */
typedef struct entry {
  bool given[FIELDS];
  int lists[FIELDS];
  lua_Integer count[FIELDS];
  int dtype, odd;                  /* names on the stack, or 0 */
} entry;


/* An element of a list; a nested one stands as words. */
static bool push_listed (lua_State *L, reader *r) {
  char c = r->j.text[r->j.at];
  if (c != '[' && c != '{') return push_value(L, r);
  lua_pushliteral(L, "a list");
  return skip_value(L, r);
}


/* Fills the table at 'list' with the first elements of an array. */
static bool fill_list (lua_State *L, reader *r, int list, lua_Integer *count) {
  heed_json_value v;
  if (r->j.text[r->j.at] != '[') return skip_value(L, r);
  heed_json_read(&r->j, &v);
  int more = heed_json_first(&r->j, v.kind);
  for (*count = 0; more > 0; more = heed_json_another(&r->j, v.kind)) {
    bool kept = ++*count <= LONGEST;
    if (!(kept ? push_listed(L, r) : skip_value(L, r))) return false;
    if (kept) lua_rawseti(L, list, *count);
  }
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, list); i > *count; i--) {
    lua_pushnil(L);
    lua_rawseti(L, list, i);
  }
  return more == 0;
}


/* Which field has the name on top? */
static int field_named (lua_State *L) {
  static const char *const names[FIELDS] = {"dtype", "shape", "data_offsets"};
  for (int i = 0; i < FIELDS; i++) {
    lua_pushstring(L, names[i]);
    bool is = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (is) return i;
  }
  return FIELDS;
}


/* A member whose name is on top, which may stay there once. */
static bool read_field (lua_State *L, reader *r, entry *e, int i, size_t place) {
  int name = lua_gettop(L);
  if (i == FIELDS) {
    lua_replace(L, e->odd);
    return skip_value(L, r);
  }
  if (e->given[i]) {
    r->twice = name;
    r->place = place;
    return false;
  }
  e->given[i] = true;
  if (i != DTYPE) return fill_list(L, r, e->lists[i], &e->count[i]);
  if (r->j.text[r->j.at] != '"') return skip_value(L, r);
  if (!push_value(L, r)) return false;
  lua_replace(L, e->dtype);
  return true;
}


static bool read_fields (lua_State *L, reader *r, entry *e) {
  heed_json_value v, name;
  if (r->j.text[r->j.at] != '{') return skip_value(L, r);
  heed_json_read(&r->j, &v);
  int more = heed_json_first(&r->j, v.kind);
  for (; more > 0; more = heed_json_another(&r->j, v.kind)) {
    if (!heed_json_name(&r->j, &name)) return false;
    push_text(L, &r->j, &name);
    if (!read_field(L, r, e, field_named(L), name.start)) return false;
  }
  return more == 0;
}


static void push_count (lua_State *L, lua_Integer n) {
  if (n < 0) lua_pushnil(L);
  else lua_pushinteger(L, n);
}


/* entry(text, at, null, sizes, offsets): the position behind a tensor's entry; its dtype, nil where
   no text is given; how many sizes and offsets there are, of which the first nine fill the lists,
   nil where no list is; and the last name that is none of the format's. Or as push_refusal */
static int l_entry (lua_State *L) {
  reader r;
  enter(L);
  lua_settop(L, 5);
  luaL_checktype(L, 4, LUA_TTABLE);
  luaL_checktype(L, 5, LUA_TTABLE);
  lua_settop(L, 7);
  open_at(L, &r);
  entry e = {.lists = {0, 4, 5}, .count = {-1, -1, -1}, .dtype = 6, .odd = 7};
  if (!read_fields(L, &r, &e)) return r.twice == 0 ? fail(L, &r) : push_refusal(L, &r);
  push_position(L, &r);
  lua_pushvalue(L, e.dtype);
  push_count(L, e.count[SHAPE]);
  push_count(L, e.count[OFFSETS]);
  lua_pushvalue(L, e.odd);
  return 5;
}

/* }================================================================== */


void open_json (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"another", l_another}, {"behind", l_behind}, {"check", l_check}, {"decode", l_decode},
    {"entry", l_entry}, {"first", l_first}, {"member", l_member}, {"value", l_value}, {NULL, NULL}
  };
  lua_newtable(L);
  register_functions(L, functions, -1);
  lua_setfield(L, internal, "json");
}
