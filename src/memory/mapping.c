/*
** mapping.c - files in memory.
**
** A page that a file no longer has, since it became shorter or its disk fails, raises SIGBUS where
** it is touched, and would end the host. The handler of this file, which stands while a file is
** mapped, puts zeros there and stops the context, whose calls fail until the file is unmapped. It
** passes on what is not its own, to the handler that was there before.
**
** A handler of signals gets no argument, so that the list of mapped files is the one variable of
** the core that all contexts share.
*/

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/context.h"
#include "memory/mapping.h"

#define MOST 256                   /* files mapped at once, in the whole process */
#define NAME 128

/* 'last' is written last and read first: it is 0 where nothing is mapped. */
typedef struct place {
  _Atomic(uintptr_t) first, last;  /* addresses, the last one behind it */
  _Atomic(heed_context *) cx;
  atomic_bool lost;                /* false where the place is free */
  char name[NAME];                 /* of the file, in messages */
} place;

struct heed_mapping {
  heed_context *cx;
  place *place;
  char *data;
  size_t size;
  int refs;
};

static struct {
  pthread_mutex_t lock;            /* of all but what the handler reads */
  int used;
  bool standing;                   /* the handler, perhaps below one of the host's */
  struct sigaction before;
  place places[MOST];
} mapped = {.lock = PTHREAD_MUTEX_INITIALIZER};


/*
** {==================================================================
** The handler
** ===================================================================
*/

static place *place_of (uintptr_t address) {
  for (int i = 0; i < MOST; i++) {
    place *p = &mapped.places[i];
    uintptr_t last = atomic_load(&p->last), first = atomic_load(&p->first);
    if (first <= address && address < last && atomic_load(&p->last) == last) return p;
  }
  return NULL;
}


/* Pages that follow are lost too: zeros, up to the end. */
static bool fill_with_zeros (const place *p, uintptr_t address) {
  uintptr_t page = address - address % (uintptr_t)sysconf(_SC_PAGESIZE);
  return mmap((void *)page, atomic_load(&p->last) - page, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}


static void lose (place *p) {
  heed_context *cx = atomic_load(&p->cx);
  atomic_store(&p->lost, true);
  atomic_store(&cx->stop.lost, p->name);
  heed_interrupt(cx);
}


/* As if the handler before had been called; the default one ends the process when it returns. */
static void pass_on (int number, siginfo_t *info, void *machine) {
  const struct sigaction *before = &mapped.before;
  if (before->sa_flags & SA_SIGINFO) before->sa_sigaction(number, info, machine);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler(number);
  else if (before->sa_handler == SIG_DFL || info->si_code > 0) {
    sigaction(SIGBUS, before, NULL);
    if (info->si_code <= 0) pthread_kill(pthread_self(), number);
  }
}


/* A code above 0 is of the kernel: the thread that gets it touched the address. */
static void answer (int number, siginfo_t *info, void *machine) {
  int error = errno;
  place *p = info->si_code > 0 ? place_of((uintptr_t)info->si_addr) : NULL;
  if (p != NULL && fill_with_zeros(p, (uintptr_t)info->si_addr)) lose(p);
  else pass_on(number, info, machine);
  errno = error;
}


static bool is_ours (const struct sigaction *a) {
  return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == answer;
}


static bool install (void) {
  struct sigaction ours = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&ours.sa_mask);
  return sigaction(SIGBUS, &ours, &mapped.before) == 0;
}


/* Does it stand, perhaps below one of the host's? Not where the host has put none there since. */
static bool stands (void) {
  struct sigaction now;
  if (!mapped.standing || sigaction(SIGBUS, NULL, &now) != 0) return mapped.standing;
  return (now.sa_flags & SA_SIGINFO) ||
         (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
}


/* Below a handler that the host has put above it, this one stays. */
static void remove_handler (void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now) != 0 || !is_ours(&now)) return;
  mapped.standing = sigaction(SIGBUS, &mapped.before, NULL) != 0;
}

/* }================================================================== */


/*
** {==================================================================
** Mapped files
** ===================================================================
*/

/* Where no place is free NULL. */
static place *take_place (heed_context *cx, const char *name, char *data, size_t size) {
  for (int i = 0; i < MOST; i++) {
    place *p = &mapped.places[i];
    if (atomic_load(&p->cx) != NULL) continue;
    snprintf(p->name, sizeof p->name, "%s", name != NULL ? name : "a file");
    atomic_store(&p->cx, cx);
    atomic_store(&p->first, (uintptr_t)data);
    atomic_store(&p->last, (uintptr_t)data + size);
    return p;
  }
  return NULL;
}


/* The place of a mapping, while the handler stands; NULL: there is none. */
static place *enter (heed_context *cx, const char *name, char *data, size_t size) {
  pthread_mutex_lock(&mapped.lock);
  mapped.standing = stands() || install();
  place *p = mapped.standing ? take_place(cx, name, data, size) : NULL;
  mapped.used += p != NULL;
  pthread_mutex_unlock(&mapped.lock);
  return p;
}


static void leave (place *p) {
  pthread_mutex_lock(&mapped.lock);
  atomic_store(&p->last, 0);
  atomic_store(&p->cx, NULL);
  if (--mapped.used == 0) remove_handler();
  pthread_mutex_unlock(&mapped.lock);
}


/* Another lost file of the context stops its calls as this one did. */
static void forgive (heed_context *cx) {
  const char *name = NULL;
  for (int i = 0; i < MOST; i++) {
    const place *p = &mapped.places[i];
    if (atomic_load(&p->cx) == cx && atomic_load(&p->lost)) name = p->name;
  }
  atomic_store(&cx->stop.lost, name);
  atomic_store(&cx->stop.asked, name != NULL);
}


heed_mapping *heed_map (heed_context *cx, int file, const char *name) {
  struct stat about;
  if (cx == NULL) return NULL;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0)
    return core_fail(cx, "map", "a file that is not empty expected");
  heed_mapping *m = core_alloc(cx, sizeof *m);
  if (m == NULL) return NULL;
  *m = (heed_mapping){.cx = cx, .size = (size_t)about.st_size, .refs = 1};
  void *data = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  if (data != MAP_FAILED) {
    m->data = data;
    m->place = enter(cx, name, m->data, m->size);
    if (m->place != NULL) return m;
    munmap(m->data, m->size);
  }
  core_fail(cx, "map", "%s of a file cannot be mapped", core_bytes(m->size).text);
  core_free(cx, m, sizeof *m);
  return NULL;
}


void heed_unmap (heed_mapping *m) {
  if (m == NULL || --m->refs > 0) return;
  if (atomic_exchange(&m->place->lost, false)) forgive(m->cx);     /* while its name is there */
  leave(m->place);
  munmap(m->data, m->size);
  core_free(m->cx, m, sizeof *m);
}


void mapping_keep (heed_mapping *m) { m->refs++; }


heed_context *mapping_context (const heed_mapping *m) { return m->cx; }


void *mapping_bytes (heed_mapping *m, size_t at, size_t n) {
  if (at <= m->size && n <= m->size - at) return m->data + at;
  return core_fail(m->cx, "map", "%s from byte %zu on expected in a file of %s",
                   core_bytes(n).text, at, core_bytes(m->size).text);
}

/* }================================================================== */
