/*
** emulate_fibre.cc - fibres: stacks on which the thread that runs a kernel goes on by turns.
*/

#include "spec/emulated/machine.h"

#include <sys/mman.h>

#define STACK ((size_t)256 << 10)
#define GUARD ((size_t)4096)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif


struct fibre {
  void *stack_pointer;
  char *stack;                     /* its lowest byte; NULL: the host thread's own */
  bool started;
  struct fibre *next;              /* of those that are idle */
#ifdef __SANITIZE_ADDRESS__
  void *fake;
  const void *bottom;
  size_t size;
#endif
};

static fibre host, fibres[MACHINE_THREADS], *idle, *current;
static void (*body) (void);        /* of each; does not return */

static void begin (void);


/*
** {==================================================================
** Stacks
** ===================================================================
*/

#if defined(__x86_64__)

/* Saves the registers that a call preserves, and the stack; goes on where 'to' was left. */
extern "C" void emulated_switch (void **from, void *to) __attribute__((visibility("hidden")));
asm(".text\n"
    ".hidden emulated_switch\n"
    ".globl emulated_switch\n"
    "emulated_switch:\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n"
    "  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
    "  ret\n");

static void start_fibre (fibre *f) {
  void **top = (void **)(f->stack + STACK) - 1;  /* aligned as a call leaves it */
  *top = NULL;                     /* the return address: never used */
  *--top = (void *)begin;
  f->stack_pointer = top - 6;
}

static void switch_stack (fibre *from, fibre *to) {
  emulated_switch(&from->stack_pointer, to->stack_pointer);
}

#else

#include <ucontext.h>

static ucontext_t contexts[MACHINE_THREADS + 1];

static ucontext_t *context_of (fibre *f) {
  return &contexts[f == &host ? MACHINE_THREADS : f - fibres];
}

static void start_fibre (fibre *f) {
  ucontext_t *c = context_of(f);
  getcontext(c);
  c->uc_stack.ss_sp = f->stack;
  c->uc_stack.ss_size = STACK;
  makecontext(c, begin, 0);
}

static void switch_stack (fibre *from, fibre *to) { swapcontext(context_of(from), context_of(to)); }

#endif


#ifdef __SANITIZE_ADDRESS__

static fibre *left;

static void before_switch (fibre *from, fibre *to) {
  left = from;
  __sanitizer_start_switch_fiber(&from->fake, to == &host ? host.bottom : to->stack,
                                 to == &host ? host.size : STACK);
}

/* A switch from the host's stack is how its bounds become known. */
static void after_switch (fibre *f) {
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(f->fake, &bottom, &size);
  if (left == &host) { host.bottom = bottom; host.size = size; }
}

#else
static void before_switch (fibre *from, fibre *to) { (void)from; (void)to; }
static void after_switch (fibre *f) { (void)f; }
#endif

/* }================================================================== */


static void begin (void) {
  after_switch(current);
  body();
}


void fibre_switch (fibre *to) {
  fibre *from = current;
  if (to == NULL) to = &host;
  if (to == from) return;
  if (!to->started) { start_fibre(to); to->started = true; }
  current = to;
  before_switch(from, to);
  switch_stack(from, to);
  after_switch(from);
}


fibre *fibre_current (void) { return current; }


fibre *fibre_take (void) {
  fibre *f = idle;
  idle = f->next;
  return f;
}


void fibre_rest (void) {
  current->next = idle;
  idle = current;
}


/* All of them idle and not started, wherever they were left. */
void fibres_clear (void) {
  idle = NULL;
  for (int i = MACHINE_THREADS - 1; i >= 0; i--) {
    fibre *f = &fibres[i];
#ifdef __SANITIZE_ADDRESS__
    if (f->started) ASAN_UNPOISON_MEMORY_REGION(f->stack, STACK);
    f->fake = NULL;
#endif
    f->started = false;
    f->next = idle;
    idle = f;
  }
}


/* Stacks, each with a guard page below it. */
bool fibres_make (void (*f) (void)) {
  body = f;
  current = &host;
  host.started = true;
  if (fibres[0].stack != NULL) return true;
  size_t bytes = MACHINE_THREADS * (STACK + GUARD);
  char *stacks = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == (char *)MAP_FAILED) return false;
  for (int i = 0; i < MACHINE_THREADS; i++) {
    char *low = stacks + (size_t)i * (STACK + GUARD);
    mprotect(low, GUARD, PROT_NONE);
    fibres[i].stack = low + GUARD;
  }
  fibres_clear();
  return true;
}
