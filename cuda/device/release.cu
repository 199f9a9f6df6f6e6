/*
** release.cu - memory goes back to the driver at once, or, while work is captured, after that.
**
** The driver frees memory once its device is idle, and to wait for a device whose stream is being
** captured is an error that ends the capture. A finaliser or another thread can't know of it, so
** captures are counted here for the whole process.
*/

#include "cuda/device/release.h"
#include "cuda/runtime.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct waiting {
  void *data;
  int (*free) (void *data);
  struct waiting *next;
} waiting;

static struct releases {
  pthread_mutex_t lock;
  int captures;                    /* that go on */
  waiting *first;
} releases = {PTHREAD_MUTEX_INITIALIZER, 0, NULL};


static void release (void *data, int (*free_now) (void *)) {
  if (data == NULL) return;
  pthread_mutex_lock(&releases.lock);
  if (releases.captures == 0) free_now(data);
  else {
    waiting *w = (waiting *)malloc(sizeof *w);
    if (w != NULL) {               /* else the process has it until its end */
      *w = waiting{data, free_now, releases.first};
      releases.first = w;
    }
  }
  pthread_mutex_unlock(&releases.lock);
}

void release_device (void *data) { release(data, runtime_free); }

void release_pinned (void *data) { release(data, runtime_free_host); }


void release_hold (void) {
  pthread_mutex_lock(&releases.lock);
  releases.captures++;
  pthread_mutex_unlock(&releases.lock);
}


void release_resume (void) {
  pthread_mutex_lock(&releases.lock);
  releases.captures--;
  while (releases.captures == 0 && releases.first != NULL) {
    waiting *w = releases.first;
    releases.first = w->next;
    w->free(w->data);
    free(w);
  }
  pthread_mutex_unlock(&releases.lock);
}
