/*
** lua_replace.c - writes whole files: at every moment the path has the old file or the new one.
**
** A file is written under another name beside its path and then renamed. Each path has one such
** name, so that the next save removes the file that a killed process left. A writer holds a lock on
** its file; a file without a lock is left over. On a file system without locks two processes must
** not save to one path at once: one of them would fail.
*/

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lua_file.h"

#define LINKS 40                       /* symbolic links to follow, as the kernel does */
#define MOST_UNSYNCED ((size_t)256 << 20)
#define SYNC 0.05
#define PATIENCE 5                     /* times 10 ms to wait for another process that writes */


static double seconds (void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}


/*
** How many bytes a file has got since its last sync, and after how many the next one is due.
** Nothing stops a sync: each is to take about SYNC seconds.
*/
typedef struct syncing {
  size_t some, due;
} syncing;


static bool sync_some (int fd, syncing *s, size_t more) {
  s->some += more;
  if (s->some < s->due) return true;
  const double begin = seconds();
  if (fdatasync(fd) != 0) return false;
  const double took = seconds() - begin;
  if (took > SYNC && s->due > POLLED_BYTES) s->due /= 2;
  if (took < SYNC / 2 && s->due < MOST_UNSYNCED) s->due *= 2;
  s->some = 0;
  return true;
}


/* Is the call to stop? Its name stays with the failure alone. */
static bool interrupted (lua_State *L) {
  heed_context *cx = named(L);
  bool is = heed_interrupted(cx);
  heed_set_caller(cx, NULL);
  return is;
}


/* Writes n bytes, and asks between pieces whether to stop. */
static bool write_pieces (lua_State *L, int fd, const char *data, size_t n, syncing *s) {
  for (size_t at = 0; at < n; at += POLLED_BYTES) {
    const size_t piece = n - at < POLLED_BYTES ? n - at : POLLED_BYTES;
    errno = EINTR;
    if (interrupted(L) || !write_bytes(fd, data + at, piece)) return false;
    if (!sync_some(fd, s, piece)) return false;
  }
  return true;
}


/* The size is compared since there are file systems that lose bytes without saying so. */
static bool write_parts (lua_State *L, int fd) {
  struct stat about;
  size_t total = 0, bytes;
  syncing s = {.due = 8 * POLLED_BYTES};
  int n = (int)lua_rawlen(L, 2);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    const char *part = raw_bytes(L, -1, &bytes);
    errno = EINVAL;
    if (part == NULL || !write_pieces(L, fd, part, bytes, &s)) return false;
    total += bytes;
    lua_pop(L, 1);
  }
  if (fsync(fd) != 0 || fstat(fd, &about) != 0) return false;
  errno = EIO;
  return (size_t)about.st_size == total;
}


static void check_parts (lua_State *L) {
  size_t bytes;
  if (!lua_istable(L, 2)) raise(L, "a list of strings and tensors expected");
  int n = (int)lua_rawlen(L, 2);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    if (raw_bytes(L, lua_gettop(L), &bytes) == NULL)
      raise(L, "a list of strings and dense tensors on the CPU expected");
    lua_pop(L, 1);
  }
}


/* Pushes what stands before the file's name: a folder with its slash, or nothing. */
static void push_folder (lua_State *L, const char *path) {
  const char *slash = strrchr(path, '/');
  lua_pushlstring(L, path, slash != NULL ? (size_t)(slash + 1 - path) : 0);
}


/* The path that a symbolic link names at last, also where nothing is there; NULL: errno. */
static const char *follow (lua_State *L, const char *path) {
  char link[4096];
  luaL_checkstack(L, LINKS + 4, "heed");
  for (int i = 0; i <= LINKS; i++) {
    ssize_t n = readlink(path, link, sizeof link);
    if (n < 0) return path;
    errno = ENAMETOOLONG;
    if ((size_t)n == sizeof link) return NULL;
    push_folder(L, link[0] == '/' ? "" : path);
    lua_pushlstring(L, link, (size_t)n);
    lua_concat(L, 2);
    path = lua_tostring(L, -1);
  }
  errno = ELOOP;
  return NULL;
}


static bool still_called (int fd, const char *name) {
  struct stat ours, theirs;
  return fstat(fd, &ours) == 0 && lstat(name, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}


/* False only where another process holds it. */
static bool lock (int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}


/* Removes what a killed process left under this name; true: the name may be free now. */
static bool remove_leftover (const char *name) {
  int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || (errno == ELOOP && unlink(name) == 0);
  bool free = lock(fd), good = true;
  if (free && still_called(fd, name)) good = unlink(name) == 0;
  int error = free ? errno : EBUSY;
  close(fd);
  errno = error;
  return free && good;
}


/* Makes the file that is written, locked. Between making and locking, another process may take it
   for left over. -1: errno, EBUSY where another one writes. */
static int make_temporary (const char *name, mode_t mode) {
  const struct timespec pause = {.tv_nsec = 10000000};
  for (int i = 0; i < PATIENCE; i++) {
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 && lock(fd) && still_called(fd, name)) return fd;
    if (fd >= 0) { close(fd); continue; }
    if (errno != EEXIST) return -1;
    if (remove_leftover(name)) continue;
    if (errno != EBUSY) return -1;
    nanosleep(&pause, NULL);
  }
  errno = EBUSY;
  return -1;
}


/*
** An old file's owner, where that is allowed, and its mode. A new one has what the umask leaves of
** 0666: only the kernel can apply that without changing it for all threads.
*/
static bool resemble (int fd, const struct stat *old) {
  if (fchown(fd, old->st_uid, old->st_gid) != 0 && errno != EPERM) return false;
  return fchmod(fd, old->st_mode & 07777) == 0;
}


/* The rename is durable once its folder is. */
static bool sync_folder (const char *folder) {
  int fd = open(folder[0] != '\0' ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool good = fsync(fd) == 0 || errno == EINVAL;     /* some file systems cannot */
  close(fd);
  return good;
}


/* Writes the parts under the temporary name and renames it, unless another took the name. */
static bool replace (lua_State *L, int fd, const char *temporary, const char *path,
                     const struct stat *old) {
  bool good = write_parts(L, fd) && (old == NULL || resemble(fd, old));
  if (good && !still_called(fd, temporary)) { good = false; errno = EBUSY; }
  if (good) good = rename(temporary, path) == 0;
  int error = errno;
  if (!good && still_called(fd, temporary)) unlink(temporary);
  close(fd);                           /* the lock ends with it */
  errno = error;
  return good;
}


static int not_written (lua_State *L, const char *path, const char *what) {
  bool busy = errno == EBUSY;
  if (busy) file_refused(L, path, "another process is writing it");
  else file_failed(L, path, what);
  lua_pushboolean(L, busy);
  return 3;
}


/* Why no file was made beside the path: often its folder, which ends with a slash, is missing. */
static int not_made (lua_State *L, const char *path, const char *folder) {
  if (errno != ENOENT) return not_written(L, path, "cannot make a file beside it");
  file_refused(L, path, lua_pushfstring(L, "there is no folder %s", folder));
  lua_pushboolean(L, false);
  return 3;
}


/* write_file(path[, parts]): strings and dense tensors on the CPU, one after the other; through a
   symbolic link, and never in the place of a pipe, a device or a folder. Without parts nothing is
   written: could it be? After a message: does another process write it? To wait for long is Lua's
   part, where it can be stopped. */
int l_write_file (lua_State *L) {
  struct stat old;
  enter(L);
  bool writes = !lua_isnoneornil(L, 2);
  if (writes) check_parts(L);
  const char *given = check_file_path(L, 1), *path = follow(L, given);
  if (path == NULL) return file_failed(L, given, "cannot write");
  bool there = stat(path, &old) == 0;
  if (there && !S_ISREG(old.st_mode)) return file_refused(L, given, "not a regular file");
  push_folder(L, path);
  const char *folder = lua_tostring(L, -1);
  const char *temporary = lua_pushfstring(L, "%s.heed-tmp", path);
  int fd = make_temporary(temporary, there ? 0600 : 0666);
  if (fd < 0) return not_made(L, given, folder[0] != '\0' ? folder : "./");
  if (!writes) {
    if (still_called(fd, temporary)) unlink(temporary);
    close(fd);
    lua_pushboolean(L, 1);
    return 1;
  }
  if (!replace(L, fd, temporary, path, there ? &old : NULL)) {
    done(L, heed_error(binding_of(L)->cx) == NULL);      /* interrupted */
    return not_written(L, given, "cannot write");
  }
  if (!sync_folder(folder))
    return file_failed(L, given, "written, but its directory is not synced");
  lua_pushboolean(L, 1);
  return 1;
}
