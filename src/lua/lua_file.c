/*
** lua_file.c - files: read, also into tensors, and written at their end. With lua_replace.c it is
** all that reaches files for scripts; a state without files is opened without open_file.
*/

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lua_file.h"

#define CHUNK ((size_t)256 << 10)      /* bytes read at a time, and summed while they are warm */

static const char file_key = 0;        /* its address names the metatable in the registry */

/* An open file, closed by Lua's collector at the latest. */
typedef struct file {
  int fd;                              /* -1: closed */
  size_t size;                         /* of a regular file when it was opened; else 0 */
  bool summed;
  uint32_t sum;                        /* CRC-32 of what tensors got from it, if it is summed */
  heed_mapping *map;                   /* what tensors are views of, if it is mapped; or NULL */
} file;


int file_failed (lua_State *L, const char *path, const char *what) {
  int error = errno;
  const char *why = error == 0 ? "the file became shorter" : strerror(error);
  lua_pushnil(L);
  if (path != NULL) lua_pushfstring(L, "%s: %s: %s", path, what, why);
  else lua_pushfstring(L, "%s: %s", what, why);
  return 2;
}


int file_refused (lua_State *L, const char *path, const char *why) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, why);
  return 2;
}


const char *check_file_path (lua_State *L, int i) {
  if (lua_type(L, i) != LUA_TSTRING) raise(L, "a path expected, got %s", describe(L, i));
  const char *path = plain_text(L, i);
  if (path == NULL) raise(L, "the path holds a zero byte");
  return path;
}


/*
** {==================================================================
** Open files
** ===================================================================
*/

static file *push_file (lua_State *L) {
  file *f = lua_newuserdatauv(L, sizeof *f, 0);
  *f = (file){.fd = -1};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &file_key);
  lua_setmetatable(L, -2);
  return f;
}


static file *file_at (lua_State *L, int i) {
  bool is = false;
  if (lua_getmetatable(L, i)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &file_key);
    is = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  return is ? lua_touserdata(L, i) : NULL;
}


static file *check_file (lua_State *L, int i) {
  file *f = file_at(L, i);
  if (f == NULL || f->fd < 0) raise(L, "an open file expected, got %s", describe(L, i));
  return f;
}


static void close_file (file *f) {
  if (f->fd >= 0) close(f->fd);
  heed_unmap(f->map);
  f->fd = -1;
  f->map = NULL;
}


static int l_close (lua_State *L) {
  file *f = file_at(L, 1);
  if (f != NULL) close_file(f);
  return 0;
}


static int l_length (lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_file(L, 1)->size);
  return 1;
}


/* Opens a regular file to be read; 0, or how many results tell why not: the third is whether
   there is no such file. */
static int open_regular (lua_State *L, file *f, const char *path) {
  struct stat about;
  f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (f->fd < 0 || fstat(f->fd, &about) != 0) {
    bool missing = errno == ENOENT;
    file_failed(L, path, "cannot open");
    lua_pushboolean(L, missing);
    return 3;
  }
  if (!S_ISREG(about.st_mode)) return file_refused(L, path, "not a regular file");
  f->size = (size_t)about.st_size;
  return 0;
}


/* open_file(path): a regular file, whose length is #file */
static int l_open_file (lua_State *L) {
  enter(L);
  const char *path = check_file_path(L, 1);
  file *f = push_file(L);
  int problem = open_regular(L, f, path);
  if (problem == 0) return 1;
  close_file(f);
  return problem;
}

/* }================================================================== */


/*
** {==================================================================
** Reading. A file may shrink at any time: it is read, unless the caller asks for it to be mapped.
** ===================================================================
*/

static bool read_all (file *f, size_t at, char *data, size_t n) {
  while (n > 0) {
    ssize_t got = pread(f->fd, data, n, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    data += got;
    at += (size_t)got;
    n -= (size_t)got;
  }
  return true;
}


static bool read_summed (lua_State *L, file *f, size_t at, char *data, size_t n) {
  for (size_t i = 0; i < n; i += CHUNK) {
    size_t part = n - i < CHUNK ? n - i : CHUNK;
    done(L, !heed_interrupted(named(L)));
    if (!read_all(f, at + i, data + i, part)) return false;
    if (f->summed) f->sum = crc32_of(f->sum, data + i, part);
  }
  return true;
}


static size_t check_range (lua_State *L, const file *f, int64_t at, int64_t n) {
  if (at < 0 || n < 0 || (size_t)at > f->size || (size_t)n > f->size - (size_t)at)
    raise(L, "a part of the file's %I bytes expected, got %I from %I on",
          (LUAI_UACINT)f->size, (LUAI_UACINT)n, (LUAI_UACINT)at);
  return (size_t)n;
}


static int push_bytes (lua_State *L, file *f, size_t at, size_t n) {
  luaL_Buffer buffer;
  char *data = luaL_buffinitsize(L, &buffer, n);
  if (!read_all(f, at, data, n)) return file_failed(L, NULL, "cannot read");
  luaL_pushresultsize(&buffer, n);
  return 1;
}


/* file_bytes(file, at, n): n bytes from offset 'at' on */
static int l_file_bytes (lua_State *L) {
  enter(L);
  file *f = check_file(L, 1);
  int64_t at = check_integer(L, 2, "at");
  return push_bytes(L, f, (size_t)at, check_range(L, f, at, check_integer(L, 3, "n")));
}


/* read_file(path): all bytes of a regular file */
static int l_read_file (lua_State *L) {
  enter(L);
  const char *path = check_file_path(L, 1);
  file *f = push_file(L);
  int results = open_regular(L, f, path);
  if (results == 0) results = push_bytes(L, f, 0, f->size);
  close_file(f);
  return results;
}


/* file_sum(file, before): sums what tensors get from now on; file_sum(file): the sum */
static int l_file_sum (lua_State *L) {
  enter(L);
  file *f = check_file(L, 1);
  if (!lua_isnoneornil(L, 2)) {
    f->sum = (uint32_t)check_integer(L, 2, "before");
    f->summed = true;
  }
  lua_pushinteger(L, (lua_Integer)f->sum);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Tensors from files: read where they stay
** ===================================================================
*/

/* A type of the file: a tensor's own, or an integer's that becomes int64. */
typedef struct kind {
  heed_type type;
  int bytes;                           /* of an element in the file; of blocks 1 */
  bool widen, sign;
} kind;


static kind read_kind (lua_State *L, int dtype, int widen) {
  static const char *const names[] = {"i1", "i2", "i4", "u1", "u2", "u4", NULL};
  kind k = {.type = check_type_name(L, dtype)};
  k.bytes = heed_type_block(k.type) > 1 ? 1 : (int)heed_type_size(k.type);
  if (lua_isnoneornil(L, widen)) return k;
  const char *name = names[luaL_checkoption(L, widen, NULL, names)];
  if (k.type != HEED_INT64) raise_wrong(L, "dtype", "int64", dtype);
  return (kind){HEED_INT64, name[1] - '0', true, name[0] == 'i'};
}


static int64_t widened (const unsigned char *at, const kind *k) {
  uint32_t bits = 0;
  for (int i = k->bytes - 1; i >= 0; i--) bits = bits << 8 | at[i];
  int shift = 32 - 8 * k->bytes;
  return k->sign ? (int32_t)(bits << shift) >> shift : (int64_t)bits;
}


/* Small integers stand at the end of the memory that they fill as large ones: none is overwritten
   before it was read. */
static void widen (char *data, size_t n, const kind *k) {
  const char *from = data + n * (8 - (size_t)k->bytes);
  for (size_t i = 0; i < n; i++) {
    int64_t value = widened((const unsigned char *)from + i * (size_t)k->bytes, k);
    memcpy(data + 8 * i, &value, 8);
  }
}


static bool are_booleans (const char *data, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (data[i] & ~1) return false;
  return true;
}


/* Booleans are checked, and small integers widened, where they were read. */
static bool may_be_mapped (const file *f, int64_t at, size_t n, const kind *k) {
  return f->map != NULL && n > 0 && !k->widen && k->type != HEED_BOOL && at % k->bytes == 0;
}


static void sum_mapped (lua_State *L, file *f, const char *data, size_t n) {
  for (size_t i = 0; f->summed && i < n; i += CHUNK) {
    done(L, !heed_interrupted(named(L)));
    f->sum = crc32_of(f->sum, data + i, n - i < CHUNK ? n - i : CHUNK);
  }
}


static heed_tensor *allocate (lua_State *L, const char *who, const kind *k, int rank,
                              const int64_t *size) {
  heed_context *cx = binding_of(L)->cx;
  heed_tensor *out[HEED_RESULTS];
  heed_value args[] = {heed_l(rank, size), heed_i(k->type)};
  heed_set_caller(cx, who);
  const bool before = heed_memory_lasting(cx, true);
  heed_apply_on(cx, "cpu", HEED_empty, args, 2, out);
  heed_memory_lasting(cx, before);
  heed_set_caller(cx, NULL);
  return out[0];
}


/* A file too large for the memory is a file that cannot be loaded, not a wrong call. */
static int too_large (lua_State *L) {
  heed_context *cx = binding_of(L)->cx;
  const char *message = heed_error(cx);
  lua_pushnil(L);
  lua_pushstring(L, message != NULL ? message : "not enough memory");
  heed_clear(cx);
  return 2;
}


static int64_t bytes_of (lua_State *L, const kind *k, int rank, const int64_t *size) {
  int64_t n = heed_type_block(k->type) > 1 ? 2 : k->bytes;     /* at most, of an element */
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(n, size[i], &n)) raise(L, "argument 'shape': too many elements");
  return heed_type_block(k->type) > 1 ? (int64_t)heed_type_bytes(k->type, n / 2) : n;
}


static bool fill_from (lua_State *L, file *f, size_t at, size_t n, heed_tensor *t,
                       const kind *k) {
  char *data = heed_data(t);
  size_t count = n / (size_t)k->bytes;
  if (n == 0) return true;
  done(L, data != NULL);           /* not while work is captured */
  if (!read_summed(L, f, at, k->widen ? data + count * 8 - n : data, n)) return false;
  if (k->widen) widen(data, count, k);
  return true;
}


/* file_tensor(file, at, who, shape, dtype[, widen]): on the CPU, from offset 'at' on; 'who' is
   its name in messages, 'widen' the type of the file's integers where int64 is made of them */
static int l_file_tensor (lua_State *L) {
  enter(L);
  int64_t size[HEED_RANK];
  lua_settop(L, 6);
  cell *s = push_cell(L);
  file *f = check_file(L, 1);
  int64_t at = check_integer(L, 2, "at");
  const char *who = luaL_checkstring(L, 3);
  int rank = read_sizes(L, 4, size);
  kind k = read_kind(L, 5, 6);
  size_t n = check_range(L, f, at, bytes_of(L, &k, rank, size));
  if (may_be_mapped(f, at, n, &k)) {
    s->t = heed_map_tensor(f->map, k.type, rank, size, (size_t)at);
    if (s->t == NULL) return too_large(L);
    sum_mapped(L, f, heed_data(s->t), n);
    return 1;
  }
  s->t = allocate(L, who, &k, rank, size);
  if (s->t == NULL) return too_large(L);
  if (!fill_from(L, f, (size_t)at, n, s->t, &k)) return file_failed(L, who, "cannot read");
  if (k.type == HEED_BOOL && !are_booleans(heed_data(s->t), n))
    return file_refused(L, who, "a boolean is neither 0 nor 1");
  return 1;
}


/* map_file(file, name): tensors are views of it from now on, where they can be */
static int l_map_file (lua_State *L) {
  enter(L);
  file *f = check_file(L, 1);
  const char *name = luaL_checkstring(L, 2);
  if (f->map == NULL) f->map = heed_map(binding_of(L)->cx, f->fd, name);
  if (f->map == NULL) return too_large(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Writing at the end: logs
** ===================================================================
*/

/* append_file(path): a file, pipe or terminal; each put goes to its end, at once */
static int l_append_file (lua_State *L) {
  struct stat about;
  enter(L);
  const char *path = check_file_path(L, 1);
  file *f = push_file(L);
  f->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (f->fd < 0 || fcntl(f->fd, F_SETFL, O_APPEND) != 0 || fstat(f->fd, &about) != 0)
    return file_failed(L, path, "cannot open");
  if (S_ISREG(about.st_mode)) f->size = (size_t)about.st_size;
  return 1;
}


/* put_file(file, text) */
static int l_put_file (lua_State *L) {
  size_t n;
  enter(L);
  file *f = check_file(L, 1);
  const char *text = luaL_checklstring(L, 2, &n);
  if (!write_bytes(f->fd, text, n)) return file_failed(L, NULL, "cannot write");
  lua_pushboolean(L, 1);
  return 1;
}


/* cut_file(file, n): the first n bytes stay */
static int l_cut_file (lua_State *L) {
  enter(L);
  file *f = check_file(L, 1);
  int64_t n = check_integer(L, 2, "n");
  if (n < 0) raise_wrong(L, "n", "a number of at least 0", 2);
  if ((size_t)n < f->size && ftruncate(f->fd, (off_t)n) != 0)
    return file_failed(L, NULL, "cannot cut");
  lua_pushboolean(L, 1);
  return 1;
}


/* sync_file(file): what was put survives a power cut; pipes and terminals have nothing to keep */
static int l_sync_file (lua_State *L) {
  enter(L);
  file *f = check_file(L, 1);
  bool good = fsync(f->fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
  if (!good) return file_failed(L, NULL, "cannot write");
  lua_pushboolean(L, 1);
  return 1;
}

/* make_folder(path): a folder is there */
static int l_make_folder (lua_State *L) {
  struct stat there;
  enter(L);
  const char *path = check_file_path(L, 1);
  bool is = mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &there) == 0);
  if (is && stat(path, &there) == 0 && !S_ISDIR(there.st_mode)) {
    is = false;
    errno = ENOTDIR;
  }
  if (!is) return file_failed(L, path, "cannot make this folder");
  lua_pushboolean(L, 1);
  return 1;
}

/* }================================================================== */


/* All that reaches a file, in one table: a state that has none is opened without it. */
void open_file (lua_State *L, int internal) {
  static const luaL_Reg functions[] = {
    {"append_file", l_append_file}, {"cut_file", l_cut_file}, {"file_bytes", l_file_bytes},
    {"file_sum", l_file_sum}, {"file_tensor", l_file_tensor},
    {"make_folder", l_make_folder}, {"map_file", l_map_file},
    {"open_file", l_open_file}, {"put_file", l_put_file}, {"read_file", l_read_file},
    {"sync_file", l_sync_file}, {"write_file", l_write_file}, {NULL, NULL}
  };
  static const luaL_Reg own[] = {
    {"__close", l_close}, {"__gc", l_close}, {"__len", l_length}, {NULL, NULL}
  };
  register_files(L, functions, internal);
  register_metatable(L, own, &file_key);
}
