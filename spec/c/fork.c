/*
** fork.c - a child of a process whose pool has worked computes what its parent does, by itself.
*/

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heed.h"

enum { N = 300, LIMIT = 60 };      /* seconds, of a child that waits for threads that it lacks */
enum { PATIENCE = 10000 };         /* milliseconds */

/* A product that is worth several threads. */
static bool compute (heed_context *cx, float *y) {
  const int64_t size[] = {N, N};
  heed_seed(cx, 1);
  heed_tensor *x = heed_call(cx, HEED_randn, (heed_value[]){heed_l(2, size)}, 1);
  heed_tensor *product = heed_call(cx, HEED_matmul, (heed_value[]){heed_t(x), heed_t(x)}, 2);
  bool good = heed_read(product, HEED_FLOAT32, y);
  heed_drop(product);
  heed_drop(x);
  return good;
}

/* In the child: the same bits, with the threads of before and with others. */
static int child (heed_context *cx, const float *wanted) {
  static float got[N * N];
  alarm(LIMIT);
  bool good = compute(cx, got) && memcmp(got, wanted, sizeof got) == 0;
  heed_set_threads(cx, 2);
  good = good && compute(cx, got) && memcmp(got, wanted, sizeof got) == 0;
  heed_close(cx);
#if !defined(__SANITIZE_THREAD__)          /* which starts no threads after a fork */
  heed_context *own = heed_open(&(heed_host){.threads = 4});
  good = good && compute(own, got) && memcmp(got, wanted, sizeof got) == 0;
  heed_close(own);
#endif
  return good ? 0 : 1;
}

/* Threads of this process that do not sleep, the caller among them. */
static int awake (void) {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 1;
  for (const struct dirent *e; (e = readdir(tasks)) != NULL;) {
    char path[300], state = 'S';
    if (*e->d_name == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
    FILE *f = fopen(path, "r");
    if (f == NULL) continue;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) == 1) n += state != 'S';
    fclose(f);
  }
  closedir(tasks);
  return n;
}

/* A worker that begins allocates, and AddressSanitizer's locks are not whole in a child. */
static void let_workers_begin (void) {
  for (int i = 0; i < PATIENCE && awake() > 1; i++) usleep(1000);
}

int main (void) {
  static float wanted[N * N], again[N * N];
  heed_context *cx = heed_open(&(heed_host){.threads = 4});
  bool good = compute(cx, wanted);
  let_workers_begin();
  pid_t pid = fork();
  if (pid == 0) _exit(child(cx, wanted));
  int status = 1;
  good = good && pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
  good = good && compute(cx, again) && memcmp(again, wanted, sizeof again) == 0;
  heed_close(cx);
  printf("fork: %s\n", good ? "parent and child compute the same" : "wrong");
  return good ? 0 : 1;
}
