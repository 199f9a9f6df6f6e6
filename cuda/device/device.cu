/*
** device.cu - a GPU as a device: its work, its faults, its memory.
**
** Every function that the core calls makes this device the thread's and then restores the host's;
** a device that failed is lost from then on, and in a child of fork there is none.
*/

#include "cuda/device/device.h"
#include "cuda/device/memory.h"
#include "cuda/device/transfer.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

const char cuda_forked[] = "the GPU belongs to the process that forked this one";
const char cuda_no_memory[] = "not enough memory on the GPU";


/*
** {==================================================================
** Messages
** ===================================================================
*/

const char *cuda_refuse (cuda *self, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(self->message, sizeof self->message, format, args);
  va_end(args);
  return self->message;
}


/* A failure may be of one call, or of the device: then every later call fails too. */
const char *cuda_check (cuda *self, int code) {
  if (code == 0) return NULL;
  runtime_last();
  if (code == RUNTIME_NO_MEMORY) return cuda_no_memory;
  self->lost = !self->capturing && runtime_stream_wait(self->stream) != 0;
  runtime_last();
  return cuda_refuse(self, "%s%s", self->lost ? "device lost: " : "", runtime_text(code));
}

/* }================================================================== */


/*
** {==================================================================
** Forks: the driver does not survive them
** ===================================================================
*/

static struct once {
  pthread_once_t once;
  bool forked;                     /* a child process, whose parent has counted devices */
} process = {PTHREAD_ONCE_INIT, false};

static void note_fork (void) { process.forked = true; }

static void watch_forks (void) { pthread_atfork(NULL, NULL, note_fork); }

bool cuda_is_forked (void) { return process.forked; }

void cuda_watch_forks (void) { pthread_once(&process.once, watch_forks); }

/* }================================================================== */


/*
** {==================================================================
** The device of the thread
** ===================================================================
*/

static const char *device_gone (device *d) {
  if (process.forked) return cuda_forked;
  return ((cuda *)d)->lost ? ((cuda *)d)->message : NULL;
}


const char *cuda_enter (cuda *self, cuda_context *before) {
  const char *why = device_gone(&self->device);
  return why != NULL ? why : cuda_check(self, runtime_enter(self->context, before));
}


void cuda_leave (const cuda *self, cuda_context before) { runtime_leave(self->context, before); }

/* }================================================================== */


/*
** {==================================================================
** Faults
** ===================================================================
*/

/* Launches have numbers from 1; 0 owns a record that none of them may add to. */
faults cuda_faults (cuda *self) {
  faults f = {self->record, &self->note->raised, self->device.op, ++self->launches};
  self->reports = self->reports || self->capturing;
  return f;
}


KERNEL seal (fault_record *r) {
  if (r->launch != ~0ull) r->launch = 0;
}

/* A replay does launches of the same numbers again. */
const char *cuda_seal_faults (cuda *self) {
  bool reports = self->reports;
  self->reports = false;
  return reports ? launch(self, 1, 1, 0, seal, self->record) : NULL;
}


int cuda_clear_faults (cuda *self) {
  return runtime_fill(self->record, 0xff, sizeof *self->record, self->stream);
}


/* A fault, as it was reported. */
typedef struct fault {
  fault_kind kind;
  int op;
  int64_t position, value, limit;
} fault;

static int64_t number_of (const fault_word *digits) {
  fault_word x = 0;
  for (int k = 0; k < FAULT_DIGITS; k++) x |= (digits[k] & FAULT_DIGIT_MASK) << FAULT_DIGIT * k;
  return (int64_t)x;
}

static fault fault_of (const fault_record *r) {
  fault f;
  f.kind = (fault_kind)(r->what & 15);
  f.op = (int)(r->what >> 4 & 0xffff);
  f.position = (int64_t)(r->what >> FAULT_DIGIT & ((1ull << 40) - 1));
  f.value = number_of(r->value);
  f.limit = number_of(r->limit);
  return f;
}


static const char asynchronous_note[] =
    " (asynchronous: of an earlier call; blocking names the line)";


static const char *position_text (cuda *self, const fault *f, const char *note) {
  if (f->limit == 0)
    return cuda_refuse(self, "index %lld at position %lld: there are no elements%s",
                       (long long)f->value, (long long)f->position, note);
  return cuda_refuse(self, "index %lld at position %lld is outside 1 to %lld%s%s",
                     (long long)f->value, (long long)f->position, (long long)f->limit,
                     f->value == 0 ? "; positions count from 1: + 1?" : "", note);
}


static const char *fault_text (cuda *self, const fault *f, const char *note) {
  const long long value = f->value, position = f->position, limit = f->limit;
  double p;
  memcpy(&p, &f->value, sizeof p);
  switch (f->kind) {
    case FAULT_POSITION: return position_text(self, f, note);
    case FAULT_LABEL:
      return cuda_refuse(self, "label %lld at position %lld is outside 1 to %lld; labels count "
                         "from 1%s%s", value, position, limit, value == 0 ? ": + 1?" : "", note);
    case FAULT_LENGTH:
      if (limit == INT64_MAX)
        return cuda_refuse(self, "length %lld at position %lld is below 0%s", value, position,
                           note);
      return cuda_refuse(self, "length %lld at position %lld is outside 0 to %lld%s", value,
                         position, limit, note);
    case FAULT_PROBABILITY:
      return cuda_refuse(self, "probability %g at position %lld is outside 0 to 1%s", p, position,
                         note);
    case FAULT_DIVISION: break;
  }
  return cuda_refuse(self, "division by zero at position %lld%s", position, note);
}


static bool has_fault (const cuda *self) {
  return *(const volatile int *)&self->note->raised != 0;
}


/* Copies the record and clears it, after a wait for the stream: no kernel reports any more. */
static int read_record (cuda *self) {
  int code = runtime_copy(&self->note->seen, self->record, sizeof *self->record, self->stream);
  if (code == 0) code = cuda_clear_faults(self);
  if (code == 0) code = runtime_stream_wait(self->stream);
  self->note->raised = 0;
  return code;
}


static const char *take_fault (cuda *self, bool asynchronous) {
  if (!has_fault(self)) return NULL;
  const char *why = cuda_check(self, read_record(self));
  if (why != NULL) return why;
  const fault f = fault_of(&self->note->seen);
  self->device.op = f.op;
  return fault_text(self, &f, asynchronous ? asynchronous_note : "");
}


static const char *wait_for (cuda *self, bool asynchronous) {
  if (self->capturing) return "a value is read back while work is captured";
  const char *why = cuda_check(self, runtime_stream_wait(self->stream));
  return why != NULL ? why : take_fault(self, asynchronous);
}


const char *cuda_wait (cuda *self) { return wait_for(self, true); }

/* }================================================================== */


/*
** {==================================================================
** Memory and copies for kernels
** ===================================================================
*/

void *cuda_scratch (cuda *self, size_t bytes) {
  int most = (int)(sizeof self->scratch / sizeof *self->scratch);
  if (self->nscratch == most) return NULL;
  void *data = memory_take(self->memory, bytes);
  if (data != NULL) self->scratch[self->nscratch++] = data;
  return data;
}


static void drop_scratch (cuda *self, int from) {
  while (self->nscratch > from) memory_give(self->memory, self->scratch[--self->nscratch]);
}


/* Was there no pinned memory for a copy because the device is lost? */
static const char *check_copy (cuda *self, const char *why) {
  if (why == NULL || self->staging != NULL || self->capturing) return why;
  const char *lost = cuda_check(self, runtime_stream_wait(self->stream));
  return lost != NULL ? lost : why;
}


const char *cuda_read (cuda *self, void *to, const void *from, size_t bytes) {
  if (self->capturing) return "a value is read back while work is captured";
  return check_copy(self, transfer_down(self, to, from, bytes));
}


const char *cuda_zero (cuda *self, void *to, size_t bytes) {
  return bytes == 0 ? NULL : cuda_check(self, runtime_fill(to, 0, bytes, self->stream));
}


const char *cuda_send (cuda *self, void *to, const void *from, size_t bytes) {
  return check_copy(self, transfer_up(self, to, from, bytes));
}


/* Why there was no memory: perhaps the device is lost. */
static const char *why_no_memory (cuda *self) {
  const char *why = cuda_check(self, memory_code(self->memory));
  return why != NULL ? why : cuda_no_memory;
}


bool cuda_gave_room (cuda *self) {
  runtime_last();
  return !self->capturing && memory_trim(self->memory) > 0;
}


/* 32 blocks are the most that a multiprocessor holds at once. */
dim3 cuda_blocks (const cuda *self, int64_t n, int threads) {
  int64_t blocks = (n + threads - 1) / threads, most = (int64_t)self->gpu.multiprocessors * 32;
  return dim3((unsigned)(blocks < most ? blocks : most), 1, 1);
}

/* }================================================================== */


/*
** {==================================================================
** Work
** ===================================================================
*/

static bool is_elementwise (int op) {
  static constexpr bool elementwise[HEED_NOPS] = {
#define UNARY(name, ...) true,
#define BINARY(name, ...) true,
#define TERNARY(name, ...) true,
#define OP(name, ...) false,
#define COMPOSED(name, ...) false,
#define PLAIN(name, ...) false,
#include "op/ops.def"
  };
  return op >= 0 && op < HEED_NOPS && elementwise[op];
}


typedef const char *(*worker) (cuda *self, const work *w);

static const worker workers[WORK_KINDS] = {
#define KIND(NAME, name, ...) cuda_##name,
#define NUMBERED(NAME, name, ...) cuda_##name,
#include "base/works.def"
};


static const char *kind_name (work_kind kind) {
  static const char *const names[WORK_KINDS] = {
#define KIND(NAME, name, text, ops) text,
#define NUMBERED(NAME, name, text, n) text,
#include "base/works.def"
  };
  return (unsigned)kind < WORK_KINDS ? names[kind] : "an unknown kind of work";
}


static bool device_supports (const device *d, work_kind kind, int op) {
  static const int ops[WORK_KINDS] = {
#define KIND(NAME, ...) WORK_##NAME##_OPS,
#define NUMBERED(NAME, ...) WORK_##NAME##_OPS,
#include "base/works.def"
  };
  (void)d;
  if ((unsigned)kind >= WORK_KINDS || workers[kind] == NULL) return false;
  if (kind == WORK_MAP || kind == WORK_DERIVATIVE) return is_elementwise(op);
  if (kind == WORK_BLOCKS && op == BLOCKS_PACK) return false;    /* blocks are made by the host */
  return op >= 0 && op < ops[kind];
}


const char *cuda_run (cuda *self, const work *w) {
  if (!device_supports(&self->device, w->kind, w->op))
    return cuda_refuse(self, "the GPU has no operation %d of %s", w->op, kind_name(w->kind));
  return workers[w->kind](self, w);
}


const char *cuda_asynchronous_error (cuda *self) {
  return has_fault(self) && !self->capturing ? wait_for(self, true) : NULL;
}


const char *cuda_block (cuda *self) {
  return self->blocking && !self->capturing ? wait_for(self, false) : NULL;
}


/* If an earlier work reported a fault, this one is not done. */
static const char *run_entered (cuda *self, const work *w) {
  const char *why = cuda_asynchronous_error(self);
  if (why != NULL) return why;
  self->device.way = NULL;
  why = cuda_run(self, w);
  if (why == cuda_no_memory) why = why_no_memory(self);
  drop_scratch(self, 0);
  return why == NULL ? cuda_block(self) : why;
}


static const char *device_run (device *d, const work *w) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = run_entered(self, w);
  cuda_leave(self, before);
  return why;
}

/* }================================================================== */


/*
** {==================================================================
** Memory and copies
** ===================================================================
*/

static void *device_alloc (device *d, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  if (cuda_enter(self, &before) != NULL) return NULL;
  void *data = memory_take(self->memory, bytes);
  if (data == NULL) why_no_memory(self);
  cuda_leave(self, before);
  return data;
}


static void device_free (device *d, void *data, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  (void)bytes;
  if (cuda_enter(self, &before) != NULL) return;
  memory_give(self->memory, data);
  cuda_leave(self, before);
}


static const char *device_upload (device *d, void *to, const void *from, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_send(self, to, from, bytes);
  cuda_leave(self, before);
  return why;
}


/* Reports faults as well. */
static const char *device_download (device *d, void *to, const void *from, size_t bytes) {
  cuda *self = (cuda *)d;
  cuda_context before;
  const char *why = cuda_enter(self, &before);
  if (why != NULL) return why;
  why = cuda_read(self, to, from, bytes);
  if (why == NULL) why = cuda_asynchronous_error(self);
  cuda_leave(self, before);
  return why;
}

/* }================================================================== */


void cuda_prepare (cuda *self) {
  self->device.name = self->name;
  self->device.alloc = device_alloc;
  self->device.free = device_free;
  self->device.upload = device_upload;
  self->device.download = device_download;
  self->device.run = device_run;
  self->device.supports = device_supports;
  self->device.gone = device_gone;
}
