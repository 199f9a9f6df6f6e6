/*
** operands.h - what attention reads and writes: heads and rows of them, panels, lines of numbers
** for each query; and how a workspace is shared out (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

typedef struct FN(operand) {       /* of one head: (S, D) or (S, Dv) */
  const T *at;
  int64_t row, column;
} FN(operand);

typedef struct FN(matrix) {        /* unbroken rows */
  T *at;
  int64_t row;
} FN(matrix);

typedef struct FN(share) {         /* of a workspace */
  T **part;
  int64_t size;
} FN(share);


/* Shares out the workspace at 'base', and counts its bytes; with NULL it only counts. */
static size_t FN(share_out) (size_t n, const FN(share) *share, T *base) {
  size_t used = 0;
  for (size_t i = 0; i < n; i++) {
    *share[i].part = base + used;
    used += (size_t)round_up(share[i].size, PANEL);
  }
  return used * sizeof(T);
}

#define SHARE_OUT(shares, base) FN(share_out)(sizeof shares / sizeof *shares, shares, base)


static bool FN(has_dense_rows) (const view *v) { return v->type == TYPE && v->at.stride[3] == 1; }


/* n elements of row i from column j on, as T. */
static void FN(load_row) (const attend *a, const view *v, int64_t b, int64_t h, int64_t i,
                          int64_t j, int64_t n, T *to) {
  a->self->level->load(n, TYPE, to, v->type, view_at(v, b, h, i, j), v->at.stride[3]);
}


/* Rows of a head: in place, or converted to 'workspace', one by one. */
static FN(operand) FN(rows_of) (const attend *a, const view *v, int64_t b, int64_t h,
                                key_range rows, bool in_place, T *workspace) {
  const int64_t columns = v->at.size[3];
  if (in_place)
    return (FN(operand)){view_at(v, b, h, rows.from, 0), v->at.stride[2], v->at.stride[3]};
  for (int64_t i = 0; i < rows.to - rows.from && !cpu_stops(a->self, i, columns); i++)
    FN(load_row)(a, v, b, h, rows.from + i, 0, columns, workspace + i * columns);
  return (FN(operand)){workspace, columns, 1};
}


/* A head of k or v: in place with any strides. */
static FN(operand) FN(head_of) (const attend *a, const view *v, int64_t b, int64_t h,
                                T *workspace) {
  return FN(rows_of)(a, v, b, h, (key_range){0, v->at.size[2]}, v->type == TYPE, workspace);
}


/* n rows of unbroken elements from row i on, stored from column j on. */
static void FN(store_rows) (const attend *a, const view *v, const tile *x, int64_t j,
                            int64_t columns, const T *from, int64_t from_row) {
  for (int64_t i = 0; i < x->n; i++)
    a->self->level->store(columns, v->type, view_at(v, x->b, x->h, x->i + i, j),
                          v->at.stride[3], TYPE, from + i * from_row);
}


/* Rows i .. i + n - 1 of (T, columns), times a factor, transposed: a panel (columns, PANEL). */
static void FN(load_panel) (const attend *a, const view *v, const tile *x, T factor, T *spare,
                            T *panel) {
  const FN(operand) rows = FN(rows_of)(a, v, x->b, x->h, (key_range){x->i, x->i + x->n},
                                       FN(has_dense_rows)(v), spare);
  FN(transpose)(x->n, v->at.size[3], x->n > LANES ? PANEL : LANES, factor, rows.at, rows.row,
                panel, PANEL);
}


/* A panel (columns, from_row), transposed to rows i .. of a view, from its column j on. */
static void FN(store_panel) (const attend *a, const view *v, const tile *x, int64_t j,
                             int64_t columns, const T *panel, int64_t from_row, T *spare) {
  const bool in_place = FN(has_dense_rows)(v);
  T *to = in_place ? view_at(v, x->b, x->h, x->i, j) : spare;
  FN(transpose)(columns, x->n, columns, 1, panel, from_row, to,
                in_place ? v->at.stride[2] : columns);
  if (!in_place) FN(store_rows)(a, v, x, j, columns, spare, columns);
}


/* One number for each query of a tile, of (B, H, T): normalisers or their gradients. */
static void FN(load_line) (const attend *a, const view *v, const tile *x, T *to) {
  a->self->level->load(x->n, TYPE, to, v->type, view_at(v, x->b, x->h, x->i, 0),
                       v->at.stride[2]);
}


static void FN(store_line) (const attend *a, const view *v, const tile *x, const T *from) {
  a->self->level->store(x->n, v->type, view_at(v, x->b, x->h, x->i, 0), v->at.stride[2], TYPE,
                        from);
}

#endif
