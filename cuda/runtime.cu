/*
** runtime.cu - the functions of runtime.h by CUDA's own runtime.
*/

#include "cuda/runtime.h"

#ifdef __CUDACC__

#include <cuda.h>
#include <pthread.h>

int runtime_version (int *driver) { return cudaDriverGetVersion(driver); }

int runtime_needs (void) { return CUDART_VERSION; }

int runtime_count (int *n) { return cudaGetDeviceCount(n); }

int runtime_last (void) { return cudaGetLastError(); }

const char *runtime_text (int code) { return cudaGetErrorString((cudaError_t)code); }


int runtime_device_read (int index, runtime_device *gpu) {
  cudaDeviceProp p;
  cudaError_t code = cudaGetDeviceProperties(&p, index);
  if (code != cudaSuccess) return code;
  memcpy(gpu->name, p.name, sizeof gpu->name);
  gpu->name[sizeof gpu->name - 1] = '\0';
  gpu->memory = p.totalGlobalMem;
  gpu->major = p.major;
  gpu->minor = p.minor;
  gpu->multiprocessors = p.multiProcessorCount;
  gpu->block_shared = (int)p.sharedMemPerBlockOptin;
  return cudaSuccess;
}


/*
** {==================================================================
** Contexts: the driver's functions, which are not linked
** ===================================================================
*/

static struct driver {
  pthread_once_t once;
  int code;                        /* why there are none; 0: all are there */
  CUresult (*device) (CUdevice *d, int index);
  CUresult (*retain) (CUcontext *c, CUdevice d);
  CUresult (*get) (CUcontext *c);
  CUresult (*set) (CUcontext c);
} driver = {PTHREAD_ONCE_INIT, 0, NULL, NULL, NULL, NULL};


/* CUDA 12.5 added the version of a function to the question, CUDA 13 requires it. */
static cudaError_t ask_driver (const char *name, void **f,
                               cudaDriverEntryPointQueryResult *found) {
#if CUDART_VERSION >= 12050
  return cudaGetDriverEntryPointByVersion(name, f, 12000, cudaEnableDefault, found);
#else
  return cudaGetDriverEntryPoint(name, f, cudaEnableDefault, found);
#endif
}


static void *entry_point (const char *name) {
  void *f = NULL;
  cudaDriverEntryPointQueryResult found;
  cudaError_t code = ask_driver(name, &f, &found);
  if (code == cudaSuccess && (found != cudaDriverEntryPointSuccess || f == NULL))
    code = cudaErrorInsufficientDriver;
  if (driver.code == 0) driver.code = code;
  return f;
}


/* The driver is initialised first: a device's context may be the process's first call. */
static void find_driver (void) {
  CUresult (*init) (unsigned flags) = (CUresult (*) (unsigned))entry_point("cuInit");
  driver.device = (CUresult (*) (CUdevice *, int))entry_point("cuDeviceGet");
  driver.retain = (CUresult (*) (CUcontext *, CUdevice))entry_point("cuDevicePrimaryCtxRetain");
  driver.get = (CUresult (*) (CUcontext *))entry_point("cuCtxGetCurrent");
  driver.set = (CUresult (*) (CUcontext))entry_point("cuCtxSetCurrent");
  if (driver.code == 0) driver.code = init(0);
}


/* The context that the runtime uses too, never released, since the host may use it as well. */
int runtime_context (int index, cuda_context *c) {
  CUdevice d;
  pthread_once(&driver.once, find_driver);
  int code = driver.code;
  if (code == 0) code = driver.device(&d, index);
  return code != 0 ? code : driver.retain(c, d);
}


int runtime_enter (cuda_context c, cuda_context *before) {
  int code = driver.get(before);
  return code != 0 || *before == c ? code : driver.set(c);
}


void runtime_leave (cuda_context c, cuda_context before) {
  if (before != c) driver.set(before);
}

/* }================================================================== */


/*
** {==================================================================
** Memory
** ===================================================================
*/

int runtime_alloc (void **data, size_t bytes) { return cudaMalloc(data, bytes); }

int runtime_free (void *data) { return cudaFree(data); }

int runtime_alloc_in (void **data, size_t bytes, cuda_stream s) {
  return cudaMallocAsync(data, bytes, s);
}

int runtime_free_in (void *data, cuda_stream s) { return cudaFreeAsync(data, s); }

int runtime_alloc_host (void **data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
}

int runtime_free_host (void *data) { return cudaFreeHost(data); }

int runtime_memory (size_t *free, size_t *total) { return cudaMemGetInfo(free, total); }

/* }================================================================== */


/*
** {==================================================================
** Streams and events
** ===================================================================
*/

int runtime_stream_open (cuda_stream *s) {
  return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking);
}

int runtime_stream_close (cuda_stream s) { return cudaStreamDestroy(s); }

int runtime_stream_wait (cuda_stream s) { return cudaStreamSynchronize(s); }

int runtime_stream_busy (cuda_stream s) { return cudaStreamQuery(s); }

int runtime_stream_after (cuda_stream s, cuda_event e) { return cudaStreamWaitEvent(s, e, 0); }

int runtime_event_open (cuda_event *e, bool timed) {
  return cudaEventCreateWithFlags(e, timed ? cudaEventDefault : cudaEventDisableTiming);
}

int runtime_event_close (cuda_event e) { return cudaEventDestroy(e); }

int runtime_event_put (cuda_event e, cuda_stream s) { return cudaEventRecord(e, s); }

int runtime_event_wait (cuda_event e) { return cudaEventSynchronize(e); }

int runtime_event_between (double *seconds, cuda_event from, cuda_event to) {
  float milliseconds = 0;
  cudaError_t code = cudaEventElapsedTime(&milliseconds, from, to);
  *seconds = milliseconds * 1e-3;
  return code;
}

/* }================================================================== */


/*
** {==================================================================
** Copies and graphs
** ===================================================================
*/

int runtime_copy (void *to, const void *from, size_t bytes, cuda_stream s) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s);
}

int runtime_copy_between (void *to, int to_index, const void *from, int from_index, size_t bytes,
                          cuda_stream s) {
  return cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes, s);
}

int runtime_fill (void *to, int byte, size_t bytes, cuda_stream s) {
  return cudaMemsetAsync(to, byte, bytes, s);
}


/* Relaxed: memory is allocated while the capture goes on. */
int runtime_capture (cuda_stream s) {
  return cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
}

int runtime_capture_end (cuda_stream s, cuda_graph *g) {
  cudaGraph_t nodes = NULL;
  cudaError_t code = cudaStreamEndCapture(s, &nodes);
  *g = NULL;
  if (code == cudaSuccess) code = cudaGraphInstantiate(g, nodes, 0);
  if (nodes != NULL) cudaGraphDestroy(nodes);
  return code;
}

int runtime_graph_run (cuda_graph g, cuda_stream s) { return cudaGraphLaunch(g, s); }

int runtime_graph_close (cuda_graph g) { return cudaGraphExecDestroy(g); }


int runtime_launch_any (const runtime_grid &g, const void *kernel, void **arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = g.blocks;
  config.blockDim = g.threads;
  config.dynamicSmemBytes = g.shared;
  config.stream = g.stream;
  cudaError_t code = cudaSuccess;
  if (g.shared > RUNTIME_SHARED)
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)g.shared);
  return code == cudaSuccess ? cudaLaunchKernelExC(&config, kernel, arguments) : code;
}

/* }================================================================== */

#endif
