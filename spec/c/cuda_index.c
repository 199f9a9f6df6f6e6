/*
** cuda_index.c - what goes by position on a GPU: gathers, scatters, sorts, what is not 0.
*/

#include "cuda_cases.h"


/* Of sums of n elements, which a half rounds one by one. */
static double tolerance (heed_type type, int64_t n) {
  return type == HEED_FLOAT32 ? 3e-6 : type == HEED_FLOAT64 ? 1e-14
       : type == HEED_FLOAT16 ? (n > 8 ? 2e-2 : 4e-3)
       : type == HEED_BFLOAT16 ? (n > 8 ? 1.5e-1 : 3e-2) : 0;
}

static view numbers (heed_type type, int rank, const int64_t *size) {
  bool from_0 = type == HEED_BOOL || type == HEED_UINT8;
  double high = type == HEED_BOOL ? 2 : type == HEED_UINT8 ? 256 : 50;
  return laid(type, rank, size, some_layout(), from_0 ? 0 : -50, high);
}

static view positions (int rank, const int64_t *size, int64_t limit) {
  return laid(HEED_INT64, rank, size, some_layout(), 1, (double)limit + 1);
}


static const char *run_moved (both *b, const work *on_gpu, const reached *r, char *got) {
  const char *why = b->gpu->run(b->gpu, on_gpu);
  return why != NULL ? why : b->gpu->download(b->gpu, got, r->copy, r->bytes);
}

/* The memory of a scatter has the same bits again when it starts from the same. */
static bool moved_again (both *b, const char *name, const work *on_gpu, const reached *r,
                         const char *kept, const char *got) {
  char *again = malloc(r->bytes + 1);
  b->gpu->upload(b->gpu, r->copy, kept, r->bytes);
  bool good = run_moved(b, on_gpu, r, again) == NULL && memcmp(got, again, r->bytes) == 0;
  if (!good) printf("%s: not the same again\n", name);
  free(again);
  return good;
}

static bool compare_moved (both *b, const char *name, const work *w, const view *held,
                           double allowed, const work *on_gpu, const reached *r) {
  const bool scatter = w->kind == WORK_SCATTER;
  char *got = malloc(r->bytes + 1), *kept = malloc(r->bytes + 1);
  if (r->bytes > 0) memcpy(kept, r->start, r->bytes);
  const char *cpu = b->cpu->run(b->cpu, w), *gpu = run_moved(b, on_gpu, r, got);
  bool good = same_words(name, cpu, gpu);
  if (good && cpu == NULL) {
    good = same_memory(name, 0, scatter ? held : &w->out[0], r, got, allowed);
    if (scatter) good = moved_again(b, name, on_gpu, r, kept, got) && good;
  }
  if (scatter) memcpy(r->start, kept, r->bytes);
  free(got);
  free(kept);
  return good;
}

/*
** As 'same', where positions move in[0] of a gather, or out[0] of a scatter, over all of 'held';
** a scatter leaves that as it was.
*/
static void same_moved (both *b, const char *name, const work *w, const view *held,
                        double allowed) {
  work on_gpu = *w;
  view h = *held;
  const bool scatter = w->kind == WORK_SCATTER;
  reached all[WORK_INS + 2] = {send_view(b, &h)};
  int n = 1;
  view *moved = scatter ? &on_gpu.out[0] : &on_gpu.in[0];
  if (all[0].bytes > 0) moved->data = all[0].copy + ((char *)moved->data - all[0].start);
  for (int i = scatter ? 0 : 1; i < w->nin; i++) all[n++] = send_view(b, &on_gpu.in[i]);
  if (!scatter) all[n++] = send_view(b, &on_gpu.out[0]);
  bool good = compare_moved(b, name, w, held, allowed, &on_gpu, &all[scatter ? 0 : n - 1]);
  free_copies(b, n, all);
  b->tried++;
  b->failed += !good;
}


/* n axes along which 'v' stays where it is, then its own from 'first' on. */
static view behind (view v, int n, const int64_t *size, int first) {
  view r = v;
  r.at.rank = n + v.at.rank - first;
  for (int i = 0; i < r.at.rank; i++) {
    r.at.size[i] = i < n ? size[i] : v.at.size[first + i - n];
    r.at.stride[i] = i < n ? 0 : v.at.stride[first + i - n];
  }
  return r;
}

/* With more axes, up to 'rank', along which it stays. */
static view before (view v, int rank, const int64_t *size) {
  for (int i = v.at.rank; i < rank; i++) {
    v.at.size[i] = size[i];
    v.at.stride[i] = 0;
  }
  v.at.rank = rank;
  return v;
}

/* A tensor, and what its first axes are indexed with. */
typedef struct taking {
  heed_type type;
  view held;
  int indices, rank;                 /* of what is taken: */
  int64_t size[HEED_RANK];           /* the index's axes (m of them), then held's last ones */
  int m;
  bool from_end;                     /* some positions are negative */
  bool bad;                          /* some are outside */
} taking;

static taking some_taking (void) {
  taking t = {.type = (heed_type)pick(HEED_NTYPES), .m = (int)pick(3)};
  t.indices = (int)between(1, 3);
  const int free_axes = (int)pick(3), rank = t.indices + free_axes;
  const int64_t most = chance(0.2) ? 40 : 7;
  int64_t size[HEED_RANK];
  for (int i = 0; i < rank; i++) size[i] = between(1, 6);
  if (free_axes > 0 && chance(0.3)) size[rank - 1] = 16 * between(1, 5);
  t.held = numbers(t.type, rank, size);
  spoil(&t.held, 3);
  t.rank = t.m + free_axes;
  for (int i = 0; i < t.rank; i++)
    t.size[i] = i < t.m ? between(1, most) : size[t.indices + i - t.m];
  t.from_end = chance(0.5);
  t.bad = chance(0.1);
  return t;
}

/* An index: repeated along an axis, or one number, now and then. */
static view some_index (const taking *t, int which) {
  const int64_t limit = t->held.at.size[which];
  view v = positions(t->m, t->size, limit);
  for (int i = 0; i < 3 && t->from_end; i++)
    put(&v, pick(layout_numel(&v.at)), (double)-between(1, limit));
  if (t->bad && which == 0) {
    const int64_t below = t->from_end ? -limit - 1 : -pick(2);
    for (int i = 0; i < 3; i++)
      put(&v, pick(layout_numel(&v.at)), (double)(chance(0.5) ? limit + 1 : below));
  }
  else if (chance(0.1))
    return view_number(integer(t->from_end ? -between(1, limit) : between(1, limit)));
  else if (t->m > 0 && chance(0.25))
    v.at.stride[pick(t->m)] = 0;
  return before(v, t->rank, t->size);
}

/* held[i, j, ..] and held[i, j, ..] = x, += x. */
static void take (both *b) {
  taking t = some_taking();
  work w;
  view moved = behind(t.held, t.m, t.size, t.indices), x = numbers(t.type, t.rank, t.size);
  for (int k = 0; k < t.indices; k++) {
    w.in[1 + k] = some_index(&t, k);
    w.index.stride[k] = t.held.at.stride[k];
    w.index.size[k] = t.held.at.size[k];
  }
  work_gather(&w, t.indices, t.from_end, output(t.type, t.rank, t.size), moved);
  same_moved(b, describe("gather", &w), &w, &t.held, 0);
  spoil(&x, 2);
  if (t.rank > 0 && chance(0.2)) x.at.stride[pick(t.rank)] = 0;
  work_scatter(&w, SCATTER_SET, t.indices, t.from_end, moved, x);
  same_moved(b, describe("set", &w), &w, &t.held, 0);
  w.op = SCATTER_ADD;
  int64_t n = t.m > 0 ? t.size[0] * t.size[t.m - 1] : 1;
  same_moved(b, describe("add", &w), &w, &t.held, 8 * tolerance(t.type, n));
}


/* x (n, m), or (m, n), into 'held' of another width along that axis: held.scatter(axis, ..). */
static void along (both *b, heed_type type, int64_t n, int64_t m, int64_t width) {
  const int axis = chance(0.5);
  const int64_t held_size[] = {axis ? n : width, axis ? width : n};
  const int64_t size[] = {axis ? n : m, axis ? m : n};
  view held = laid(type, 2, held_size, some_layout(), low_of(type), high_of(type));
  view moved = held;
  memcpy(moved.at.size, size, sizeof size);
  moved.at.stride[axis] = 0;
  work w;
  work_scatter(&w, SCATTER_SET, 1, false, moved, input(type, 2, size));
  w.in[1] = positions(2, size, width);
  w.index.stride[0] = held.at.stride[axis];
  w.index.size[0] = width;
  for (w.op = SCATTER_SET; w.op <= SCATTER_ADD; w.op++)
    same_moved(b, describe("along", &w), &w, &held,
               w.op == SCATTER_ADD ? 8 * tolerance(type, 100) : 0);
}


/* Rows of a table by number, and the sums of their gradients: many to few, few to many. */
static void embedding (both *b, heed_type type, int64_t rows, int64_t columns) {
  const int64_t n = 2000, size[] = {n, columns};
  view table = filled(type, 2, SIZES(rows, columns), -1, 1);
  const view moved = behind(table, 1, &n, 1);
  work w;
  work_gather(&w, 1, false, fresh(type, 2, size), moved);
  w.in[1] = before(filled(HEED_INT64, 1, &n, 1, (double)rows + 1), 2, size);
  w.index.stride[0] = columns;
  w.index.size[0] = rows;
  same_moved(b, describe("embedding", &w), &w, &table, 0);
  work_scatter(&w, SCATTER_SET, 1, false, moved, filled(type, 2, size, -1, 1));
  same_moved(b, describe("embedding set", &w), &w, &table, 0);
  w.op = SCATTER_ADD;
  bool many = rows < 10;             /* to each row: sums of halves lose most of their bits */
  double allowed = many && scalar_is_half(type) ? 1.5 : tolerance(type, n) * (many ? 30 : 1);
  same_moved(b, describe("embedding back", &w), &w, &table, allowed);
}


/* Without an index: windows that overlap, every element into one, a single one. */
static void windows (both *b) {
  work w;
  for (int64_t step = 1; step < 6; step++) {
    view held = filled(HEED_FLOAT32, 1, SIZES(200), -1, 1);
    view moved = behind(held, 2, SIZES((200 - 8) / step + 1, 8), 1);
    moved.at.stride[0] = step;
    moved.at.stride[1] = 1;
    work_scatter(&w, SCATTER_ADD, 0, false, moved, filled(HEED_FLOAT32, 2, moved.at.size, -1, 1));
    same_moved(b, "windows", &w, &held, 1e-6);
  }
  view held = filled(HEED_FLOAT64, 1, SIZES(1), -1, 1);
  view x = filled(HEED_FLOAT64, 1, SIZES(70000), -1, 1);
  work_scatter(&w, SCATTER_ADD, 0, false, behind(held, 1, SIZES(70000), 1), x);
  same_moved(b, "all to one", &w, &held, 1e-9);
  held = filled(HEED_FLOAT32, 0, NULL, -1, 1);
  work_scatter(&w, SCATTER_ADD, 0, false, held, filled(HEED_FLOAT32, 0, NULL, -1, 1));
  same_moved(b, "one to one", &w, &held, 1e-6);
}

/* Nothing to take from is refused; nothing to take is not. */
static void nothing (both *b) {
  work w;
  view held = filled(HEED_FLOAT32, 2, SIZES(0, 4), 0, 1);
  work_gather(&w, 1, false, fresh(HEED_FLOAT32, 2, SIZES(3, 4)), behind(held, 1, SIZES(3), 1));
  w.in[1] = before(filled(HEED_INT64, 1, SIZES(3), 1, 5), 2, SIZES(3, 4));
  w.index.stride[0] = 4;
  w.index.size[0] = 0;
  same_moved(b, "from nothing", &w, &held, 0);
  held = filled(HEED_FLOAT32, 2, SIZES(5, 4), 0, 1);
  work_gather(&w, 1, false, fresh(HEED_FLOAT32, 2, SIZES(0, 4)), behind(held, 1, SIZES(0), 1));
  w.in[1] = before(filled(HEED_INT64, 1, SIZES(0), 1, 5), 2, SIZES(0, 4));
  w.index.size[0] = 5;
  same(b, "nothing", &w, 0);
}


/* The first k of each row, with their positions. */
static void sort (both *b, view x, int64_t k, bool descending) {
  const int rank = x.at.rank;
  work w;
  int64_t size[HEED_RANK];
  for (int i = 0; i < rank; i++) size[i] = i < rank - 1 ? x.at.size[i] : k;
  view y = output(x.type, rank, size), order = output(HEED_INT64, rank, size);
  work_sort(&w, descending, k, y, order, x);
  same(b, describe(descending ? "descending sort" : "ascending sort", &w), &w, 0);
}

/* Often many are equal; the ends of their type are among them. */
static view unsorted (heed_type type, int rank, const int64_t *size) {
  bool equal = chance(0.4);
  view x = equal ? laid(type, rank, size, some_layout(), low_of(type), high_of(type))
                 : numbers(type, rank, size);
  if (equal && scalar_is_float(type)) coarsen(&x);
  spoil(&x, 8);
  if (type == HEED_INT64 && layout_numel(&x.at) > 1) {
    *(int64_t *)element(&x, 0) = INT64_MAX;
    *(int64_t *)element(&x, 1) = INT64_MIN;
  }
  if (rank > 1 && chance(0.2)) x.at.stride[0] = 0;
  return x;
}

static void sorts (both *b, heed_type type) {
  static const int64_t lengths[] = {1, 2, 3, 17, 32, 33, 100, 500, 2048, 2049, 3000, 0};
  for (int i = 0; i < 12; i++) {
    const int64_t n = lengths[i], size[] = {between(1, 3), between(1, n > 400 ? 2 : 9), n};
    bool descending = chance(0.5);
    sort(b, unsorted(type, 3, size), n, descending);
    sort(b, unsorted(type, 3, size), between(n > 0, n > 600 ? 600 : n), !descending);
    sort(b, unsorted(type, 1, &n), n > 50 ? 50 : n, descending);
    free_cases();
  }
}

/* A number, long rows, few of many, many rows. */
static void large_sorts (both *b) {
  static const struct { heed_type type; int64_t rows, n, k; bool descending; } all[] = {
    {HEED_FLOAT32, 1, 70000, 70000, false}, {HEED_INT64, 1, 70000, 70000, true},
    {HEED_FLOAT32, 1, 70000, 512, true}, {HEED_BFLOAT16, 2, 300000, 300, true},
    {HEED_BFLOAT16, 1, 300000, 700, true}, {HEED_FLOAT16, 7000, 8, 2, true},
    {HEED_FLOAT64, 6, 2500, 2500, true}, {HEED_UINT8, 4, 9000, 9000, true}
  };
  sort(b, unsorted(HEED_FLOAT32, 0, NULL), 1, false);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sort(b, unsorted(all[i].type, 2, SIZES(all[i].rows, all[i].n)), all[i].k,
         all[i].descending);
    free_cases();
  }
}


/* About half of the elements are 0; now and then fewer positions are asked for. */
static void not_zero (both *b, heed_type type, int rank, const int64_t *size) {
  view x = input(type, rank, size);
  if (chance(0.2) && rank > 1) x.at.stride[0] = 0;
  int64_t n = 0, numel = layout_numel(&x.at);
  for (int64_t i = 0; i < numel; i++) if (chance(0.5)) put(&x, i, 0);
  spoil(&x, 3);
  for (int64_t i = 0; i < numel; i++) n += get(&x, i) != 0;
  if (n > 2 && chance(0.2)) n -= 2;
  work w;
  work_nonzero(&w, output(HEED_INT64, 2, SIZES(n, rank)), x);
  same(b, describe("not 0", &w), &w, 0);
}

static void not_zeros (both *b) {
  for (heed_type type = 0; type < HEED_NTYPES; type++)
    for (int i = 0; i < 20; i++)
      not_zero(b, type, i % 4, SIZES(between(1, 9), between(1, 9), between(1, 30)));
  not_zero(b, HEED_BOOL, 2, SIZES(300, 1000));
  not_zero(b, HEED_FLOAT32, 1, SIZES(2049));
  not_zero(b, HEED_FLOAT32, 2, SIZES(0, 5));
  free_cases();
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 300; i++) { take(&b); free_cases(); }
  for (int i = 0; i < 60; i++)
    along(&b, (heed_type)(i % HEED_NTYPES), between(1, 12), between(1, 12), between(1, 8));
  for (int i = 0; i < 6; i++) along(&b, float_types[i % 2], 60, 90, 5 + 100 * i);
  for (int i = 0; i < 4; i++) {
    embedding(&b, float_types[i], 5000, 48);
    embedding(&b, float_types[i], 3, 24);
  }
  free_cases();
  windows(&b);
  nothing(&b);
  for (heed_type type = 0; type < HEED_NTYPES; type++) sorts(&b, type);
  large_sorts(&b);
  not_zeros(&b);
  return both_close(&b);
}
