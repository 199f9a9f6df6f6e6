/*
** small_stack.h - a function in a thread of 64 KiB, the stack that heed.h promises to do with;
** where no thread may have so little, as on ARM, it must not take more.
*/

#ifndef small_stack_h
#define small_stack_h

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_STACK ((size_t)64 << 10)
#define LEAST_STACK (SMALL_STACK > PTHREAD_STACK_MIN ? SMALL_STACK : (size_t)PTHREAD_STACK_MIN)
#define GUARD ((size_t)64 << 10)       /* below it, where nothing may be touched */
#define PAINT 0xa5

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1                    /* frames are several times as large */
#else
#define SANITIZED 0
#endif


/* Bytes that were written, from the stack's upper end down. */
static inline size_t painted_over (const unsigned char *stack) {
  size_t i = 0;
  while (i < LEAST_STACK && stack[i] == PAINT) i++;
  return LEAST_STACK - i;
}


/* Runs f(arg) and says what stack it took; what takes more than there is ends with a fault. */
static inline int on_small_stack (const char *name, void *(*f) (void *arg), void *arg) {
  unsigned char *memory = mmap(NULL, GUARD + LEAST_STACK, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *stack = memory + GUARD;
  pthread_attr_t attributes;
  pthread_t thread;
  if (memory == MAP_FAILED || mprotect(stack, LEAST_STACK, PROT_READ | PROT_WRITE) != 0) return 1;
  memset(stack, PAINT, LEAST_STACK);
  pthread_attr_init(&attributes);
  if (pthread_attr_setstack(&attributes, stack, LEAST_STACK) != 0 ||
      pthread_create(&thread, &attributes, f, arg) != 0) {
    printf("%s: no such thread\n", name);
    return 1;
  }
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  const size_t taken = painted_over(stack);
  printf("%s: %zu KiB of stack of %zu\n", name, (taken + 1023) >> 10, SMALL_STACK >> 10);
  munmap(memory, GUARD + LEAST_STACK);
  return taken > SMALL_STACK;
}

#endif
