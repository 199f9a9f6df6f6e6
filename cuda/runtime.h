/*
** runtime.h - the part of CUDA's runtime that heed uses: memory, streams, events, copies, graphs,
** launches. runtime.cu calls CUDA's own, spec/emulated/ emulates a GPU.
**
** A function of type int returns 0, or a code that runtime_text explains.
*/

#ifndef cuda_runtime_h
#define cuda_runtime_h

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __CUDACC__
#include "spec/emulated/emulate.h"
#endif

#if defined(__CUDACC__) && CUDART_VERSION < 12000
#error "heed needs CUDA 12.0 or later"
#endif

/* Handles; the structs have CUDA's own names. */
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUgraphExec_st *cuda_graph;
typedef struct CUctx_st *cuda_context;

#define RUNTIME_NO_MEMORY 2        /* the codes that are told apart, by CUDA's numbers */
#define RUNTIME_OLD_DRIVER 35
#define RUNTIME_NO_DEVICE 100
#define RUNTIME_NO_CODE 209        /* for this device */
#define RUNTIME_NEWER_CODE 222     /* than the driver can compile */
#define RUNTIME_NOT_READY 600

typedef struct runtime_device {
  char name[256];
  size_t memory;                   /* bytes */
  int major, minor;                /* compute capability */
  int multiprocessors;
  int block_shared;                /* most bytes of shared memory for a block */
} runtime_device;

int runtime_version (int *driver);              /* 13000 for 13.0; 0: there is no driver */
int runtime_needs (void);                       /* the version that this object was built for */
int runtime_count (int *n);
int runtime_device_read (int index, runtime_device *gpu);
/*
** Between these two the thread works on the context's device; *before is NULL where it had none.
** The runtime would choose by number, and what it can't restore so is "none": it makes a context.
*/
int runtime_context (int index, cuda_context *c);        /* the device's; made if there is none */
int runtime_enter (cuda_context c, cuda_context *before);
void runtime_leave (cuda_context c, cuda_context before);
int runtime_last (void);                        /* the last failure, which is cleared */
const char *runtime_text (int code);

int runtime_alloc (void **data, size_t bytes);  /* on the device; free waits for the device */
int runtime_free (void *data);
int runtime_alloc_in (void **data, size_t bytes, cuda_stream s);
int runtime_free_in (void *data, cuda_stream s);
int runtime_alloc_host (void **data, size_t bytes);      /* pinned; kernels can use it too */
int runtime_free_host (void *data);
int runtime_memory (size_t *free, size_t *total);

int runtime_stream_open (cuda_stream *s);       /* does not wait for the default stream */
int runtime_stream_close (cuda_stream s);
int runtime_stream_wait (cuda_stream s);        /* until all its work is done */
int runtime_stream_busy (cuda_stream s);        /* 0: all is done; RUNTIME_NOT_READY */
int runtime_stream_after (cuda_stream s, cuda_event e);  /* s waits for e, the host does not */
int runtime_event_open (cuda_event *e, bool timed);
int runtime_event_close (cuda_event e);
int runtime_event_put (cuda_event e, cuda_stream s);
int runtime_event_wait (cuda_event e);
int runtime_event_between (double *seconds, cuda_event from, cuda_event to);

/* In the stream: host memory must be pinned, and stay as it is until the copy was done. */
int runtime_copy (void *to, const void *from, size_t bytes, cuda_stream s);
int runtime_copy_between (void *to, int to_index, const void *from, int from_index, size_t bytes,
                          cuda_stream s);
int runtime_fill (void *to, int byte, size_t bytes, cuda_stream s);

int runtime_capture (cuda_stream s);            /* later work is recorded, not done */
int runtime_capture_end (cuda_stream s, cuda_graph *g);  /* the graph is NULL after a failure */
int runtime_graph_run (cuda_graph g, cuda_stream s);
int runtime_graph_close (cuda_graph g);

/* The configuration of a launch. */
typedef struct runtime_grid {
  dim3 blocks, threads;
  size_t shared;                   /* bytes of dynamic shared memory */
  cuda_stream stream;
} runtime_grid;

#define RUNTIME_SHARED 49152       /* more must be set for the kernel: see runtime_launch */

/* The contents of this memory are of no more use: an emulated GPU spoils them, in the stream. */
#ifdef __CUDACC__
static inline void runtime_spoil (void *, size_t, cuda_stream) {}
#else
void runtime_spoil (void *data, size_t bytes, cuda_stream s);
#endif

/* A kernel's parameters say what arguments are converted to. */
template <class P> struct argument_of { typedef P type; };
template <class P> using argument = typename argument_of<P>::type;

/* runtime_loads: loads a kernel for the thread's device, if there is code for that one. */

#ifdef __CUDACC__

template <class... P> int runtime_loads (void (*kernel) (P...)) {
  cudaFuncAttributes found;
  return cudaFuncGetAttributes(&found, kernel);
}

int runtime_launch_any (const runtime_grid &g, const void *kernel, void **arguments);

template <class... P>
int runtime_launch (const runtime_grid &g, void (*kernel) (P...), const argument<P> &... args) {
  void *at[] = {(void *)&args...};
  return runtime_launch_any(g, (const void *)kernel, at);
}

#else

template <class... P> int runtime_loads (void (*) (P...)) { return emulated_load(); }

template <class... P>
int runtime_launch (const runtime_grid &g, void (*kernel) (P...), const argument<P> &... args) {
  typedef emulated_call<P...> call;
  void *data = emulated_alloc(sizeof(call));
  if (data == NULL) return RUNTIME_NO_MEMORY;
  new (data) call(kernel, args...);
  const emulated_work work = {call::run, data, (const void *)kernel, call::parameters()};
  return emulated_launch(g.blocks, g.threads, g.shared, g.stream, &work);
}

#endif

#endif
