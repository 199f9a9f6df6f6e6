/*
** tensor.c - handles: made, owned, inspected, read and written.
*/

#include <inttypes.h>
#include <string.h>

#include "memory/packed.h"
#include "tensor/state.h"
#include "tensor/tensor.h"


/*
** {==================================================================
** Making
** ===================================================================
*/

static heed_tensor *new_handle (heed_context *cx, heed_type type, const layout *at) {
  heed_tensor *t = core_alloc(cx, sizeof *t);
  if (t == NULL) return NULL;
  t->cx = cx;
  t->refs = 1;
  t->store = NULL;
  layout_copy(&t->at, at);
  t->type = type;
  t->number = false;
  t->output = 0;
  t->node = NULL;
  t->frozen = NULL;
  t->base_order = 0;
  t->base = NULL;
  t->detached_view = false;
  t->ahead = 0;
  cx->tensors->alive++;
  return t;
}


/* Of 's', which the handle owns now; a NULL 's' gives none. */
static heed_tensor *handle_on (heed_context *cx, storage *s, heed_type type, const layout *at) {
  heed_tensor *t = s != NULL ? new_handle(cx, type, at) : NULL;
  if (t != NULL) t->store = s;
  else storage_drop(s);
  return t;
}


heed_tensor *tensor_on (heed_context *cx, storage *s, heed_type type, const layout *at) {
  storage_keep(s);
  return handle_on(cx, s, type, at);
}


/* A dense tensor of a type of blocks ends with an axis of whole ones. */
static bool check_blocks (heed_context *cx, const char *function, heed_type type,
                          const layout *at) {
  char text[LAYOUT_TEXT];
  const int elements = scalar_blocks[type].elements;
  return !scalar_is_block(type) ||
         (at->rank > 0 && layout_block_axis(at, elements) == at->rank - 1) ||
         core_fail(cx, function, "%s has rows of a multiple of %d elements, got the shape %s",
                   scalar_names[type], elements, layout_text(at, text));
}


/* Tensors in blocks are weights, which last. */
static storage *new_weight (heed_context *cx, device *where, size_t bytes) {
  const bool before = heed_memory_lasting(cx, true);
  storage *s = storage_new(cx, where, bytes);
  heed_memory_lasting(cx, before);
  return s;
}


static heed_tensor *new_dense (heed_context *cx, device *where, heed_type type, const layout *at) {
  if (!check_blocks(cx, NULL, type, at)) return NULL;
  size_t bytes = (size_t)scalar_bytes(type, layout_numel(at));
  storage *s = (scalar_is_block(type) ? new_weight : storage_new)(cx, where, bytes);
  return handle_on(cx, s, type, at);
}


heed_tensor *tensor_new (heed_context *cx, heed_type type, const layout *shape) {
  layout dense;
  char text[LAYOUT_TEXT];
  if (!layout_dense(&dense, shape->rank, shape->size))
    return core_fail(cx, NULL, "a tensor of shape %s has too many elements",
                     layout_text(shape, text));
  return new_dense(cx, cx->scope.device, type, &dense);
}


heed_tensor *tensor_number (heed_context *cx, scalar value) {
  layout at;
  layout_dense(&at, 0, NULL);
  heed_tensor *t = new_handle(cx, value.type, &at);
  if (t == NULL) return NULL;
  t->number = true;
  t->value = value;
  return t;
}


static bool uploaded (heed_context *cx, device *where, void *to, const void *from, size_t bytes) {
  if (!core_check_captured(cx, "to", where)) return false;
  core_begin(cx, where, HEED_copy);
  return core_end(cx, where, HEED_copy, where->upload(where, to, from, bytes));
}


static bool downloaded (heed_context *cx, device *where, void *to, const void *from,
                        size_t bytes) {
  core_begin(cx, where, CORE_READ);
  return core_end(cx, where, CORE_READ, where->download(where, to, from, bytes));
}


#define PIECE ((size_t)1 << 20)    /* bytes between two polls */

static bool copy_bytes (heed_context *cx, char *to, const char *from, size_t bytes) {
  for (; bytes > PIECE; bytes -= PIECE, to += PIECE, from += PIECE) {
    memcpy(to, from, PIECE);
    if (core_poll(cx, "from")) return false;
  }
  memcpy(to, from, bytes);
  return true;
}


/* As many bytes as s has, from the host. */
static bool put (heed_context *cx, storage *s, const void *data) {
  if (s->bytes == 0) return true;
  if (!s->where->host) return uploaded(cx, s->where, s->data, data, s->bytes);
  if (!storage_fix(s)) return false;
  return copy_bytes(cx, s->data, data, s->bytes);
}


bool tensor_materialize (heed_tensor *t) {
  if (t->store != NULL) return true;
  char element[sizeof(int64_t)];
  storage *s = storage_new(t->cx, t->cx->scope.device, scalar_sizes[t->type]);
  if (s == NULL) return false;
  const float_mode before = float_mode_begin();
  scalar_store(t->type, element, t->value);
  float_mode_end(before);
  if (put(t->cx, s, element)) { t->store = s; return true; }
  storage_drop(s);
  return false;
}


/* Another handle on what t has, without a graph. */
static heed_tensor *without_graph (heed_tensor *t, const layout *at) {
  heed_tensor *y = new_handle(t->cx, t->type, at);
  if (y == NULL) return NULL;
  storage_keep(t->store);
  y->store = t->store;
  y->number = t->number;
  if (t->number) y->value = t->value;
  return y;
}


heed_tensor *tensor_view (heed_tensor *t, const layout *at) {
  heed_tensor *y = tensor_materialize(t) ? without_graph(t, at) : NULL;
  if (y == NULL) return NULL;
  y->number = false;
  heed_tensor *base = tensor_viewed(t);
  y->detached_view = !t->cx->scope.recording || (base != NULL && t->detached_view);
  y->base = heed_keep(base != NULL ? base : t);        /* chains stay short */
  y->base_order = node_order(y->base->node);
  return y;
}


heed_tensor *heed_detach (heed_tensor *t) {
  return t != NULL && capture_input(t->cx, t) ? without_graph(t, &t->at) : NULL;
}


heed_tensor *heed_keep (heed_tensor *t) {
  if (t != NULL) t->refs++;
  return t;
}


void heed_drop (heed_tensor *t) {
  if (t == NULL || --t->refs > 0) return;
  heed_context *cx = t->cx;
  storage_drop(t->store);
  node_drop(t->node);
  node_drop(t->frozen);
  heed_drop(t->base);
  core_free(cx, t, sizeof *t);
  cx->tensors->alive--;
  tensor_left(cx);
}

/* }================================================================== */


/*
** {==================================================================
** Making one through the API
** ===================================================================
*/

bool tensor_check (heed_context *cx, const char *function, heed_type type, int rank,
                   const int64_t *size, layout *at) {
  if (!scalar_is_type(type))
    return core_fail(cx, function, "there is no type %d", (int)type);
  if (rank < 0 || rank > HEED_RANK || (rank > 0 && size == NULL))
    return core_fail(cx, function, "a rank from 0 to %d expected, got %d", HEED_RANK, rank);
  for (int i = 0; i < rank; i++)
    if (size[i] < 0)
      return core_fail(cx, function, "sizes are not negative, got %" PRId64, size[i]);
  if (layout_dense(at, rank, size)) return check_blocks(cx, function, type, at);
  at->rank = rank;
  memcpy(at->size, size, (size_t)rank * sizeof *size);
  char text[LAYOUT_TEXT];
  return core_fail(cx, function, "shape %s has too many elements", layout_text(at, text));
}


heed_tensor *heed_empty (heed_context *cx, heed_type type, int rank, const int64_t *size) {
  layout at;
  if (cx == NULL || !tensor_check(cx, "empty", type, rank, size, &at)) return NULL;
  return new_dense(cx, cx->scope.device, type, &at);
}


heed_tensor *heed_from (heed_context *cx, heed_type type, int rank, const int64_t *size,
                        const void *data) {
  layout at;
  if (cx == NULL || !tensor_check(cx, "from", type, rank, size, &at)) return NULL;
  if (data == NULL && layout_numel(&at) > 0) return core_fail(cx, "from", "there are no data");
  heed_tensor *t = new_dense(cx, cx->scope.device, type, &at);
  if (t == NULL) return NULL;
  bool written = type == HEED_BOOL || cx->capture.memory != NULL;     /* a replay writes it anew */
  if (written ? heed_write(t, type, data) : put(cx, t->store, data)) return t;
  heed_drop(t);
  return NULL;
}


heed_tensor *tensor_lend (heed_context *cx, device *where, heed_type type, int rank,
                          const int64_t *size, void *data, void (*release) (void *, void *),
                          void *self) {
  layout at;
  if (!tensor_check(cx, "lend", type, rank, size, &at)) return NULL;
  if (data == NULL && layout_numel(&at) > 0) return core_fail(cx, "lend", "there are no data");
  if ((uintptr_t)data % scalar_sizes[type] != 0)
    return core_fail(cx, "lend", "%s data expected at a multiple of %d bytes", scalar_names[type],
                     scalar_sizes[type]);
  size_t bytes = (size_t)scalar_bytes(type, layout_numel(&at));
  storage *s = storage_lend(cx, where, data, bytes, NULL, self);
  heed_tensor *t = handle_on(cx, s, type, &at);
  if (t != NULL) ((foreign *)s)->release = release;      /* not before: a failure leaves data */
  return t;
}


bool heed_pack (heed_tensor *t) {
  if (t == NULL || !tensor_materialize(t)) return false;
  return t->store->data == NULL || packed_ask(t->store, view_of(t).data);
}


heed_tensor *heed_lend (heed_context *cx, heed_type type, int rank, const int64_t *size,
                        void *data, void (*release) (void *self, void *data), void *self) {
  if (cx == NULL) return NULL;
  return tensor_lend(cx, cx->devices.list[0], type, rank, size, data, release, self);
}


heed_tensor *heed_number (heed_context *cx, double value) {
  return cx != NULL ? tensor_number(cx, (scalar){.type = HEED_FLOAT64, .f = value}) : NULL;
}


heed_tensor *heed_integer (heed_context *cx, int64_t value) {
  return cx != NULL ? tensor_number(cx, (scalar){.type = HEED_INT64, .i = value}) : NULL;
}


heed_tensor *heed_bool (heed_context *cx, bool value) {
  return cx != NULL ? tensor_number(cx, (scalar){.type = HEED_BOOL, .i = value}) : NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Properties
** ===================================================================
*/

heed_context *heed_context_of (const heed_tensor *t) { return t != NULL ? t->cx : NULL; }

bool heed_is_shared (const heed_tensor *t) {
  return t != NULL && (t->refs > 1 || t->base != NULL);
}

heed_type heed_type_of (const heed_tensor *t) { return t != NULL ? t->type : HEED_NTYPES; }

int heed_rank (const heed_tensor *t) { return t != NULL ? t->at.rank : 0; }

int64_t heed_numel (const heed_tensor *t) { return t != NULL ? layout_numel(&t->at) : 0; }

bool heed_contiguous (const heed_tensor *t) { return t != NULL && layout_is_dense(&t->at); }


int64_t heed_version (const heed_tensor *t) {
  return t != NULL && t->store != NULL ? t->store->version + t->ahead : 0;
}


device *tensor_device (const heed_tensor *t) { return t->store != NULL ? t->store->where : NULL; }


const char *heed_device_of (const heed_tensor *t) {
  return t != NULL ? tensor_where(t)->name : NULL;
}


/* -1 after a message, also when there is no tensor. */
static int axis_of (const heed_tensor *t, const char *function, int axis) {
  int i;
  if (t == NULL) return -1;
  if (t->at.rank > 0 && layout_axis(t->at.rank, axis, &i)) return i;
  core_fail(t->cx, function, "a tensor of rank %d has no axis %d", t->at.rank, axis);
  return -1;
}


int64_t heed_size (const heed_tensor *t, int axis) {
  int i = axis_of(t, "size", axis);
  return i >= 0 ? t->at.size[i] : 0;
}


int64_t heed_stride (const heed_tensor *t, int axis) {
  int i = axis_of(t, "stride", axis);
  return i >= 0 ? t->at.stride[i] : 0;
}


void *heed_data (heed_tensor *t) {
  if (t == NULL || !tensor_where(t)->host || !capture_value(t) || !tensor_materialize(t))
    return NULL;
  return core_check_reach(t->cx, "data", tensor_where(t)) ? view_of(t).data : NULL;
}

/* }================================================================== */


/*
** {==================================================================
** Reading and writing
** ===================================================================
*/

/* The host's 'data' as a view of t's shape, row by row. */
static view view_data (const heed_tensor *t, heed_type type, const void *data) {
  view v = {.type = type};
  layout_dense(&v.at, t->at.rank, t->at.size);
  memcpy(&v.data, &data, sizeof data);           /* read only, unless the caller may write */
  return v;
}


bool tensor_copies (const heed_tensor *t, const char *function) {
  layout dense;
  char text[LAYOUT_TEXT];
  const int elements = scalar_blocks[t->type].elements;
  if (!scalar_is_block(t->type) || layout_numel(&t->at) == 0) return true;
  layout_dense(&dense, t->at.rank, t->at.size);
  const int row = layout_block_axis(&t->at, elements);
  return row == layout_block_axis(&dense, elements) ||
         core_fail(t->cx, function, "rows of type %s stay whole, and lie along dimension %d of the "
                   "shape %s, not along the last one; x:to(\"float32\")", scalar_names[t->type],
                   row + 1, layout_text(&t->at, text));
}


static bool copy (heed_context *cx, device *where, view to, view from) {
  work w;
  work_copy(&w, COPY_APART, to, from);
  return core_run(cx, HEED_copy, where, &w);
}


/* A dense tensor of t's shape, of another type: what goes to and from devices. */
static heed_tensor *dense_like (const heed_tensor *t, device *where, heed_type type) {
  layout dense;
  layout_dense(&dense, t->at.rank, t->at.size);
  return new_dense(t->cx, where, type, &dense);
}


static bool download (const heed_tensor *t, heed_type type, void *data) {
  device *where = tensor_where(t);
  heed_tensor *dense = dense_like(t, where, type);
  bool good = dense != NULL && copy(t->cx, where, view_of(dense), view_of(t)) &&
    downloaded(t->cx, where, data, dense->store->data, dense->store->bytes);
  heed_drop(dense);
  return good;
}


static bool upload (const heed_tensor *t, heed_type type, const void *data) {
  device *where = tensor_where(t);
  heed_tensor *dense = dense_like(t, where, type);
  bool good = dense != NULL &&
    put(t->cx, dense->store, data) &&
    copy(t->cx, where, view_of(t), view_of(dense));
  heed_drop(dense);
  return good;
}


/* May elements of 'type' go to or come from 'data'? */
static bool check_data (const heed_tensor *t, const char *function, heed_type type,
                        const void *data) {
  if (!scalar_is_type(type))
    return core_fail(t->cx, function, "there is no type %d", (int)type);
  if (scalar_is_block(type) && type != t->type)
    return core_fail(t->cx, function, "a tensor of type %s has no data of type %s",
                     scalar_names[t->type], scalar_names[type]);
  if (scalar_is_block(type) && !tensor_copies(t, function)) return false;
  return data != NULL || layout_numel(&t->at) == 0 ||
         core_fail(t->cx, function, "there are no data");
}


#define LONG_READ 65536            /* elements: more are work, which can be stopped */

static bool read_host (heed_tensor *t, heed_type type, void *data) {
  view from = view_of(t);
  if (type == HEED_BOOL && from.type == HEED_BOOL) from.type = HEED_UINT8;   /* lent, perhaps */
  int64_t numel = layout_numel(&t->at);
  if (numel == 1 && scalar_widen(from.type, from.data, type, data)) return true;
  if (type != from.type || !layout_is_dense(&t->at) || numel > LONG_READ)
    return copy(t->cx, tensor_where(t), view_data(t, type, data), from);
  memcpy(data, view_of(t).data, (size_t)scalar_bytes(type, numel));
  return true;
}


bool heed_read (heed_tensor *t, heed_type type, void *data) {
  if (t == NULL || !check_data(t, "read", type, data) || !capture_value(t)) return false;
  if (!tensor_materialize(t)) return false;
  if (layout_numel(&t->at) == 0) return true;
  if (!tensor_where(t)->host) return download(t, type, data);
  if (!core_reaches(t->cx, tensor_where(t))) return capture_read(t, type, data);
  return read_host(t, type, data) && !core_lost(t->cx, "read");
}


/* t on the CPU, dense, of a type: t itself where it may be. One more owner. The CPU makes blocks
   of values for all devices. */
static heed_tensor *host_copy (heed_tensor *t, heed_type type) {
  device *cpu = t->cx->devices.list[0];
  const bool packs = scalar_is_block(type) && type != t->type;
  if (tensor_device(t) == cpu && t->type == type && layout_is_dense(&t->at)) return heed_keep(t);
  heed_tensor *y = dense_like(t, cpu, type), *values = NULL;
  if (y != NULL && packs) values = host_copy(t, t->type);
  const bool good = y != NULL && (!packs ? heed_read(t, type, y->store->data)
                    : values != NULL && copy(t->cx, cpu, view_of(y), view_of(values)));
  heed_drop(values);
  if (good) return y;
  heed_drop(y);
  return NULL;
}


heed_tensor *tensor_moved (heed_tensor *t, device *where, heed_type type) {
  heed_tensor *near = host_copy(t, type);
  if (near == NULL || where->host) return near;
  layout at = near->at;
  at.offset = 0;                                   /* a dense view may begin anywhere */
  heed_tensor *y = new_dense(t->cx, where, type, &at);
  if (y != NULL && !put(t->cx, y->store, view_of(near).data)) {
    heed_drop(y);
    y = NULL;
  }
  heed_drop(near);
  return y;
}


bool heed_write (heed_tensor *t, heed_type type, const void *data) {
  if (t == NULL || !check_data(t, "write", type, data)) return false;
  if (t->number) return core_fail(t->cx, "write", "a number cannot be changed in place");
  if (scalar_is_block(t->type) && type != t->type)
    return core_fail(t->cx, "write", "data of type %s expected, got %s", scalar_names[t->type],
                     scalar_names[type]);
  if (scalar_is_block(t->type) && t->store->packed && t->cx->capture.where != NULL)
    return core_fail(t->cx, "write", "blocks of which products keep copies cannot be changed in "
                     "captured work");
  if (layout_overlaps_itself(&t->at))
    return core_fail(t->cx, "write", "several positions of the tensor share one element");
  if (layout_numel(&t->at) == 0) return true;
  if (core_interrupted(t->cx, "write") || !capture_input(t->cx, t)) return false;
  if (t->type == HEED_BOOL && type == HEED_BOOL) type = HEED_UINT8;    /* where 2 is true too */
  core_hold(t->cx);
  bool good = !core_reaches(t->cx, tensor_where(t)) ? upload(t, type, data)
            : copy(t->cx, tensor_where(t), view_of(t), view_data(t, type, data));
  core_release(t->cx);
  t->store->version++;
  t->store->changer = HEED_copy;
  return good;
}

/* }================================================================== */
