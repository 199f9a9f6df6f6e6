/*
** lua_file.c - what the Lua half needs of the system: files read at once and written atomically,
** checksums, a clock. Failures come back as nil and a message.
*/

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lua_heed.h"

static int failed (lua_State *L, const char *path, const char *what) {
  int error = errno;
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s: %s", path, what, strerror(error));
  return 2;
}

/* Paths with a zero byte would name another file than they show. */
static const char *check_path (lua_State *L, int i) {
  size_t n;
  if (lua_type(L, i) != LUA_TSTRING) raise(L, "a path expected, got %s", luaL_typename(L, i));
  const char *path = lua_tolstring(L, i, &n);
  if (strlen(path) != n) raise(L, "the path holds a zero byte");
  return path;
}


/*
** {==================================================================
** Reading
** ===================================================================
*/

static bool read_all (int fd, char *data, size_t n) {
  while (n > 0) {
    ssize_t got = read(fd, data, n);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;         /* it shrank meanwhile */
    if (got <= 0) return false;
    data += got;
    n -= (size_t)got;
  }
  return true;
}

/* Opens a regular file of at most 'most' bytes; -1 with a message on the stack. */
static int open_regular (lua_State *L, const char *path, int64_t most, size_t *n) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &about) != 0) {
    failed(L, path, "cannot open");
    if (fd >= 0) close(fd);
    return -1;
  }
  *n = (size_t)about.st_size;
  if (S_ISREG(about.st_mode) && about.st_size <= most) return fd;
  close(fd);
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path,
                  S_ISREG(about.st_mode) ? "the file is too large" : "not a regular file");
  return -1;
}

/* read_file(path[, most]): the bytes of a regular file */
static int l_read_file (lua_State *L) {
  enter(L);
  const char *path = check_path(L, 1);
  int64_t most = lua_isnoneornil(L, 2) ? INT64_MAX : check_integer(L, 2, "most");
  size_t n;
  int fd = open_regular(L, path, most, &n);
  if (fd < 0) return 2;
  close(fd);                           /* the buffer may raise: nothing may be open then */
  luaL_Buffer buffer;
  char *data = luaL_buffinitsize(L, &buffer, n);
  fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool good = fd >= 0 && read_all(fd, data, n);
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  if (!good) return failed(L, path, "cannot read");
  luaL_pushresultsize(&buffer, n);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Writing
** ===================================================================
*/

static bool write_all (int fd, const char *data, size_t n) {
  while (n > 0) {
    ssize_t put = write(fd, data, n);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    data += put;
    n -= (size_t)put;
  }
  return true;
}

static bool write_parts (lua_State *L, int fd) {
  int n = (int)lua_rawlen(L, 2);
  bool good = true;
  for (int i = 1; good && i <= n; i++) {
    size_t bytes;
    lua_rawgeti(L, 2, i);
    const char *part = lua_tolstring(L, -1, &bytes);
    good = write_all(fd, part, bytes);
    lua_pop(L, 1);
  }
  return good;
}

static void check_parts (lua_State *L) {
  if (!lua_istable(L, 2)) raise(L, "a list of strings expected");
  int n = (int)lua_rawlen(L, 2);
  for (int i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 2, i) != LUA_TSTRING) raise(L, "a list of strings expected");
    lua_pop(L, 1);
  }
}

/*
** A new file beside path, whose name goes to 'temporary': with the old one's mode, or without an
** old one what the umask leaves of 0666: only the kernel can apply it without changing it for all
** threads.
*/
static int open_beside (const char *path, char *temporary) {
  struct stat old;
  struct timespec now;
  bool there = stat(path, &old) == 0;
  int fd = -1, attempts = 0;
  do {
    clock_gettime(CLOCK_REALTIME, &now);
    sprintf(temporary, "%s.tmp-%09ld", path, (long)now.tv_nsec);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, there ? 0600 : 0666);
  } while (fd < 0 && errno == EEXIST && ++attempts < 1000);
  if (fd >= 0 && there) fchmod(fd, old.st_mode & 07777);
  return fd;
}

/* A rename would put a file in the place of /dev/null. */
static bool is_special (const char *path) {
  struct stat old;
  return stat(path, &old) == 0 && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode);
}

/* The rename is durable once its directory is. */
static bool sync_directory (char *path) {
  char *slash = strrchr(path, '/');
  if (slash != NULL) slash[slash == path] = '\0';
  int fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool good = fsync(fd) == 0 || errno == EINVAL;     /* some file systems cannot */
  close(fd);
  return good;
}

/* write_file(path, parts): the old file or the new one stands there, at every moment */
static int l_write_file (lua_State *L) {
  enter(L);
  const char *path = check_path(L, 1);
  check_parts(L);
  if (is_special(path)) {
    lua_pushnil(L);
    lua_pushfstring(L, "%s: not a regular file", path);
    return 2;
  }
  char *temporary = lua_newuserdatauv(L, strlen(path) + 16, 0);
  int fd = open_beside(path, temporary);
  if (fd < 0) return failed(L, path, "cannot make a file beside it");
  bool good = write_parts(L, fd) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && good) { good = false; error = errno; }
  if (good && rename(temporary, path) != 0) { good = false; error = errno; }
  if (!good) {
    unlink(temporary);
    errno = error;
    return failed(L, path, "cannot write");
  }
  if (!sync_directory(temporary))
    return failed(L, path, "written, but its directory is not synced");
  lua_pushboolean(L, 1);
  return 1;
}

/* }================================================================== */


/*
** {==================================================================
** Bytes
** ===================================================================
*/

/* CRC-32 of ISO 3309, as zlib and PNG have it; four bits at a time. */
static int l_crc32 (lua_State *L) {
  static const uint32_t table[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
    0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4,
    0xa00ae278, 0xbdbdf21c
  };
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  uint32_t crc = ~(uint32_t)luaL_optinteger(L, 2, 0);
  for (size_t i = 0; i < n; i++) {
    crc ^= (unsigned char)s[i];
    crc = (crc >> 4) ^ table[crc & 15];
    crc = (crc >> 4) ^ table[crc & 15];
  }
  lua_pushinteger(L, (lua_Integer)(uint32_t)~crc);
  return 1;
}

static int64_t widened (const char *at, int bytes, bool with_sign) {
  uint32_t bits = 0;
  for (int i = bytes - 1; i >= 0; i--) bits = bits << 8 | (unsigned char)at[i];
  int shift = 32 - 8 * bytes;
  return with_sign ? (int32_t)(bits << shift) >> shift : (int64_t)bits;
}

/* widen(bytes, "i1" | "i2" | "i4" | "u1" | "u2" | "u4"): little-endian integers as int64 */
static int l_widen (lua_State *L) {
  static const char *const kinds[] = {"i1", "i2", "i4", "u1", "u2", "u4", NULL};
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  const char *kind = kinds[luaL_checkoption(L, 2, NULL, kinds)];
  size_t bytes = (size_t)(kind[1] - '0');
  luaL_Buffer buffer;
  char *out = luaL_buffinitsize(L, &buffer, n / bytes * 8);
  for (size_t i = 0; i < n / bytes; i++) {
    int64_t value = widened(s + i * bytes, (int)bytes, kind[0] == 'i');
    memcpy(out + 8 * i, &value, 8);
  }
  luaL_pushresultsize(&buffer, n / bytes * 8);
  return 1;
}

/* }================================================================== */


static int l_isatty (lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_optinteger(L, 1, 1)));
  return 1;
}

/* clock(): seconds of a clock that only goes forward */
static int l_clock (lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec * 1e-9);
  return 1;
}

void open_file (lua_State *L, int module) {
  static const luaL_Reg functions[] = {
    {"clock", l_clock}, {"crc32", l_crc32}, {"isatty", l_isatty}, {"read_file", l_read_file},
    {"widen", l_widen}, {"write_file", l_write_file}, {NULL, NULL}
  };
  register_functions(L, functions, module);
}
