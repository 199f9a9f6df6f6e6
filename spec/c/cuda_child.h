/*
** cuda_child.h - cases that run in a child each, since settings and lost devices are the process's;
** and works on vectors.
*/

#ifndef cuda_child_h
#define cuda_child_h

#include <sys/wait.h>
#include <unistd.h>

#include "cuda_cases.h"

#define N 1000

static int wrong;

static inline void check (bool good, const char *what) {
  if (good) return;
  printf("not so: %s\n", what);
  wrong++;
}

static inline bool says (const char *text, const char *part) {
  bool good = text != NULL && strstr(text, part) != NULL;
  if (!good) printf("'%s' expected, got '%s'\n", part, text != NULL ? text : "nothing");
  return good;
}


/* Device memory for N elements, as a view. */
static inline view vector_on (device *d, heed_type type) {
  view v = {.type = type};
  layout_dense(&v.at, 1, (int64_t[]){N});
  v.data = d->alloc(d, N * scalar_sizes[type]);
  return v;
}

static inline const char *set (device *d, view v, scalar value) {
  work w;
  work_copy(&w, COPY_APART, v, view_number(value));
  return d->run(d, &w);
}

static inline const char *map (device *d, heed_op op, view y, view a, view b) {
  work w;
  work_map(&w, op, y.type, 2);
  w.map.number[0] = 1;
  w.map.number[1] = 0;
  w.out[0] = y;
  w.in[0] = a;
  w.in[1] = b;
  d->op = op;
  return d->run(d, &w);
}

static inline scalar number (double f) { return (scalar){.type = HEED_FLOAT64, .f = f}; }


/* In a child: there is a GPU, or nothing is to be tested. */
static inline void run (const char *name, void (*f) (both *b)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    both b;
    wrong = 0;
    if (both_open(&b)) f(&b);
    heed_close(b.cx);
    fflush(stdout);
    _exit(wrong > 0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("%s: %s\n", name, status == 0 ? "good" : "bad");
  wrong += status != 0;
}


/* In a child: this process opens no device, so that its children may. */
static inline bool is_emulated (void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(emulates(heed_open(NULL)));
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

#endif
