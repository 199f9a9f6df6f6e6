/*
** lua_write.c - bytes written to a file, whose failures are errors and no signals.
*/

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "lua_write.h"


/* Takes the signal back that a write of this thread's has raised. */
static void take_signal (int signal) {
  sigset_t raised;
  int taken;
  if (sigpending(&raised) != 0 || !sigismember(&raised, signal)) return;
  sigemptyset(&raised);
  sigaddset(&raised, signal);
  sigwait(&raised, &taken);
}


/*
** A file beyond the limit of its size and a pipe that nobody reads are errors: their signals, which
** would end the host, are blocked meanwhile. A signal that waited before stays.
*/
static ssize_t write_unsignalled (int fd, const char *data, size_t n) {
  static const int fatal[] = {SIGXFSZ, SIGPIPE};
  sigset_t ours, theirs, waiting;
  sigemptyset(&ours);
  for (int i = 0; i < 2; i++) sigaddset(&ours, fatal[i]);
  pthread_sigmask(SIG_BLOCK, &ours, &theirs);
  bool known = sigpending(&waiting) == 0;
  ssize_t put = write(fd, data, n);
  int error = errno;
  for (int i = 0; i < 2; i++)
    if (put < 0 && known && !sigismember(&waiting, fatal[i])) take_signal(fatal[i]);
  pthread_sigmask(SIG_SETMASK, &theirs, NULL);
  errno = error;
  return put;
}


bool write_bytes (int fd, const char *data, size_t n) {
  while (n > 0) {
    ssize_t put = write_unsignalled(fd, data, n);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    data += put;
    n -= (size_t)put;
  }
  return true;
}
