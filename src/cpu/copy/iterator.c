/*
** iterator.c - a view as a row of elements: read and written piece by piece, in row-major order.
*/

#include "cpu/copy/copy_row.h"
#include "cpu/copy/iterator.h"


static bool all_one (const layout *at) {
  for (int i = 0; i < at->rank; i++)
    if (at->size[i] != 1 && at->stride[i] != 0) return false;
  return true;
}


void iterator_open (iterator *s, const view *v, heed_type as) {
  s->type = v->type;
  s->data = v->data;
  s->kind = ITERATOR_SPLAT;
  if (v->data == NULL && v->at.rank == 0) {
    scalar_store(as, s->item, v->value);
    s->type = as;
    s->data = s->item;
  }
  else if (layout_is_dense(&v->at)) s->kind = ITERATOR_DENSE;
  else if (!all_one(&v->at)) {
    s->kind = ITERATOR_STRIDED;
    s->at = v->at;
    layout_fuse((layout *[]){&s->at}, 1);
  }
}


int64_t iterator_offset (const layout *at, int64_t index) {
  int64_t offset = 0;
  for (int i = at->rank - 1; i > 0; i--) {
    int64_t rest = index / at->size[i];
    offset += (index - rest * at->size[i]) * at->stride[i];
    index = rest;
  }
  return offset + (at->rank > 0 ? index * at->stride[0] : 0);
}


/* The state of an iteration: 'left' elements of its row begin at 'offset'. */
typedef struct cursor {
  const layout *at;
  int64_t position[HEED_RANK];     /* in all axes but the last */
  int64_t offset, left;
} cursor;


static void cursor_set (cursor *c, const layout *at, int64_t index) {
  c->at = at;
  c->offset = 0;
  for (int i = at->rank - 1; i >= 0; i--) {
    int64_t rest = i > 0 ? index / at->size[i] : 0;
    c->position[i] = index - rest * at->size[i];
    c->offset += c->position[i] * at->stride[i];
    index = rest;
  }
  c->left = at->size[at->rank - 1] - c->position[at->rank - 1];
}


/* Over n elements of this row, and to the next row at its end. */
static void cursor_advance (cursor *c, int64_t n) {
  const layout *at = c->at;
  int i = at->rank - 1;
  c->offset += n * at->stride[i];
  c->left -= n;
  if (c->left > 0) return;
  c->left = at->size[i];
  c->offset -= at->size[i] * at->stride[i];
  while (--i >= 0) {
    c->offset += at->stride[i];
    if (++c->position[i] < at->size[i]) return;
    c->offset -= at->size[i] * at->stride[i];
    c->position[i] = 0;
  }
}


/* n elements of one stride as type 'as'. */
static void bring (const cpu *self, int64_t n, heed_type as, void *to, heed_type type,
                   const void *from, int64_t stride) {
  bool computed = as == HEED_FLOAT32 || as == HEED_FLOAT64 || as == HEED_INT64;
  if (type == as && !computed) copy_row(scalar_sizes[type], n, to, 1, from, stride);
  else self->level->load(n, as, to, type, from, stride);
}


/* n elements from the cursor on, between workspace (dense) and the view, unconverted. */
static void gather (const iterator *s, cursor *c, int64_t n, char *workspace, bool writing) {
  size_t size = scalar_sizes[s->type];
  int64_t stride = s->at.stride[s->at.rank - 1];
  while (n > 0) {
    int64_t now = c->left < n ? c->left : n;
    char *at = s->data + c->offset * (int64_t)size;
    if (writing) copy_row(size, now, at, stride, workspace, 1);
    else copy_row(size, now, workspace, 1, at, stride);
    workspace += (size_t)now * size;
    n -= now;
    cursor_advance(c, now);
  }
}


#define PIECE 512
/* Elements of several rows, of another type than 'as': through a small buffer. */
static void gather_as (const cpu *self, const iterator *s, cursor *c, int64_t n, heed_type as,
                       char *workspace) {
  char raw[PIECE * 8];
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t now = n - i < PIECE ? n - i : PIECE;
    gather(s, c, now, raw, false);
    self->level->load(now, as, workspace + i * scalar_sizes[as], s->type, raw, 1);
  }
}


/* Dense, of another type, or splat: one piece, whatever 'from' is. */
static const void *read_plain (const cpu *self, const iterator *s, int64_t from, int64_t n,
                               heed_type as, void *workspace) {
  bool dense = s->kind == ITERATOR_DENSE;
  const char *at = dense ? s->data + from * scalar_sizes[s->type] : s->data;
  bring(self, n, as, workspace, s->type, at, dense);
  return workspace;
}


static const void *read_row (const cpu *self, const iterator *s, int64_t from, int64_t n,
                             heed_type as, void *workspace) {
  if (s->kind != ITERATOR_STRIDED) return read_plain(self, s, from, n, as, workspace);
  cursor c;
  cursor_set(&c, &s->at, from);
  int64_t stride = s->at.stride[s->at.rank - 1];
  if (c.left >= n) {
    const char *at = s->data + c.offset * scalar_sizes[s->type];
    if (s->type == as && stride == 1) return at;
    bring(self, n, as, workspace, s->type, at, stride);
  }
  else if (s->type == as) gather(s, &c, n, workspace, false);
  else gather_as(self, s, &c, n, as, workspace);
  return workspace;
}


/* A long row is brought in parts, so that it can be stopped; it may lie where it is read. */
static const void *read_parts (const cpu *self, const iterator *s, int64_t from, int64_t n,
                               heed_type as, char *workspace) {
  const void *in_place = iterator_target(s, from, n, as, NULL);
  if (in_place != NULL) return in_place;
  for (int64_t i = 0; i < n && !cpu_stopped(self); i += MOVED_ELEMENTS) {
    int64_t now = n - i < MOVED_ELEMENTS ? n - i : MOVED_ELEMENTS;
    char *to = workspace + (size_t)i * scalar_sizes[as];
    const void *part = read_row(self, s, from + i, now, as, to);
    if (part != to) memcpy(to, part, (size_t)now * scalar_sizes[as]);
  }
  return workspace;
}


const void *iterator_bring (const cpu *self, const iterator *s, int64_t from, int64_t n,
                            heed_type as, void *workspace) {
  return n > MOVED_ELEMENTS ? read_parts(self, s, from, n, as, workspace)
                            : read_row(self, s, from, n, as, workspace);
}


void *iterator_place (const iterator *s, int64_t from, int64_t n, heed_type as, void *workspace) {
  if (s->type != as || s->kind != ITERATOR_STRIDED) return workspace;
  cursor c;
  cursor_set(&c, &s->at, from);
  bool one_piece = c.left >= n && s->at.stride[s->at.rank - 1] == 1;
  return one_piece ? s->data + c.offset * scalar_sizes[s->type] : workspace;
}


/* As gather_as, the other way. */
static void scatter_from (const cpu *self, const iterator *s, cursor *c, int64_t n, heed_type as,
                          const char *workspace) {
  char raw[PIECE * 8];
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t now = n - i < PIECE ? n - i : PIECE;
    self->level->store(now, s->type, raw, 1, as, workspace + i * scalar_sizes[as]);
    gather(s, c, now, raw, true);
  }
}


static void write_row (const cpu *self, const iterator *s, int64_t from, int64_t n, heed_type as,
                       const void *workspace) {
  if (s->kind == ITERATOR_DENSE) {
    self->level->store(n, s->type, s->data + from * scalar_sizes[s->type], 1, as, workspace);
    return;
  }
  if (s->kind == ITERATOR_SPLAT) {
    if (s->type == as) memcpy(s->data, workspace, scalar_sizes[as]);
    else self->level->store(1, s->type, s->data, 1, as, workspace);
    return;
  }
  cursor c;
  cursor_set(&c, &s->at, from);
  int64_t stride = s->at.stride[s->at.rank - 1];
  char *at = s->data + c.offset * scalar_sizes[s->type];
  if (s->type == as && c.left >= n && stride == 1) return;
  if (s->type == as) gather(s, &c, n, (char *)(uintptr_t)workspace, true);
  else if (c.left >= n) self->level->store(n, s->type, at, stride, as, workspace);
  else scatter_from(self, s, &c, n, as, workspace);
}


static void write_parts (const cpu *self, const iterator *s, int64_t from, int64_t n, heed_type as,
                         const char *workspace) {
  for (int64_t i = 0; i < n && !cpu_stopped(self); i += MOVED_ELEMENTS) {
    int64_t now = n - i < MOVED_ELEMENTS ? n - i : MOVED_ELEMENTS;
    const char *part = workspace + (size_t)i * scalar_sizes[as];
    void *at = iterator_target(s, from + i, now, as, NULL);
    if (at != NULL) memcpy(at, part, (size_t)now * scalar_sizes[as]);
    else write_row(self, s, from + i, now, as, part);
  }
}


void iterator_put (const cpu *self, const iterator *s, int64_t from, int64_t n, heed_type as,
                   const void *workspace) {
  if (n <= MOVED_ELEMENTS) write_row(self, s, from, n, as, workspace);
  else if (iterator_target(s, from, n, as, NULL) == NULL)
    write_parts(self, s, from, n, as, workspace);
}
