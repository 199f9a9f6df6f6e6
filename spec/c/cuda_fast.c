/*
** cuda_fast.c - attention on tensor cores (cuda/attention/fast_forward.h, fast_groups.h) beside the
** CPU's, of halves, and of floats by three products of TF32 or one: head sizes, ragged ends, all
** masks and options, numbers that are not finite; and that this way is taken.
*/

#include "attention_cases.h"

#include <sys/wait.h>
#include <unistd.h>

/* Weights are rounded to halves, so an error is small beside values, which may nearly cancel. */
typedef struct kind {
  heed_type type;
  const char *way;
  int precision;                   /* of heed.matmul_precision: 0 highest, 1 high */
  const char *shared;              /* KiB of an emulated GPU: 99 is an 8.6, 227 a 9.0 */
  double most;                     /* error */
  int times;                       /* random cases of each shape */
} kind;

static const kind kinds[] = {
  {HEED_BFLOAT16, "fast", 0, "99", 4 * 1.6e-2, 3},
  {HEED_FLOAT16, "fast", 0, "99", 4 * 2e-3, 3},
  {HEED_BFLOAT16, "warpgroups", 0, "227", 4 * 1.6e-2, 1},
  {HEED_FLOAT16, "warpgroups", 0, "227", 4 * 2e-3, 1},
  {HEED_FLOAT32, "three products of TF32", 0, "227", 6e-5, 1},
  {HEED_FLOAT32, "one product of TF32", 1, "99", 3e-2, 1}
};

static const shape shapes[] = {
  /* each width, full, and with columns that are not there */
  {1, 2, 2, 130, 70, 64, 64}, {1, 1, 1, 70, 140, 128, 128}, {1, 1, 1, 66, 70, 256, 256},
  {1, 2, 1, 33, 65, 8, 8}, {2, 1, 1, 17, 100, 16, 16}, {1, 1, 1, 129, 64, 20, 20},
  {1, 1, 1, 64, 63, 32, 40}, {1, 2, 2, 40, 36, 72, 80}, {1, 1, 1, 50, 129, 96, 24},
  {1, 1, 1, 130, 33, 160, 130}, {1, 1, 1, 65, 32, 24, 200},
  /* grouped heads, one key, many keys and queries */
  {2, 6, 2, 30, 44, 32, 32}, {1, 2, 2, 200, 1, 16, 16}, {1, 1, 1, 20, 2200, 8, 8},
  {1, 1, 1, 600, 60, 8, 8}, {3, 4, 1, 65, 200, 48, 48}
};


/* Lengths of none, some and all keys, with whatever may stand behind them. */
static void behind_lengths (both *b, const kind *how, int bad) {
  const shape s = {3, 2, 1, 70, 100, 40, 40};
  options o = {.type = how->type, .aligned = true, .way = 0, .bad = bad};
  work w;
  forwards(&w, &s, &o);
  mask *m = &w.attention.mask;
  m->n = 1;
  m->node[0] = (mask_node){.kind = MASK_LENGTHS, .operand = ATTENTION_MASK, .high = s.S};
  w.in[ATTENTION_MASK] = fresh(HEED_INT64, 1, &s.B);
  memcpy(w.in[ATTENTION_MASK].data, (int64_t[]){0, 33, 100}, 3 * sizeof(int64_t));
  same(b, name_of("lengths", &s, &o, m), &w, how->most);
  free_cases();
}


/* A GPU takes the way that its architecture has; that of an emulated one is known. */
static bool took (both *b, const kind *how, const char *expected) {
  const bool emulated = emulates(b->cx);
  const bool halves = how->type != HEED_FLOAT32, any = !emulated && how->precision == 0;
  if (went(b, expected)) return true;
  return any && (halves ? went(b, "fast") || went(b, "warpgroups") : went(b, "exact"));
}


static const char *way_of (const kind *how, const shape *s, const options *o) {
  if (o->drop && s->S % 4 != 0) return "exact";
  const bool asks = o->bias || o->cap || o->relative || o->drop;
  return asks && strcmp(how->way, "warpgroups") == 0 ? "fast" : how->way;
}


static void check_way (both *b, const char *name, const kind *how, const char *expected) {
  const char *way = b->gpu->way;
  if (took(b, how, expected)) return;
  b->failed++;
  printf("%s: %s taken, %s expected\n", name, way != NULL ? way : "no way", expected);
}


/*
** 'again': the same bits, also by a dense mask of the same pairs. That may show a block NaN in
** tiles which it had not read; floats are then multiplied in another way.
*/
static void attend (both *b, const kind *how, shape s, options o, bool again) {
  work w;
  int64_t fewest;
  o.type = how->type;
  o.aligned = true;
  forwards(&w, &s, &o);
  if (o.drop) w.attention.dropout = 0.3;
  const char *name = name_of("fast", &s, &o, &w.attention.mask);
  same(b, name, &w, how->most);
  check_way(b, name, how, way_of(how, &s, &o));
  if (again) same_again(b, name, &w);
  if (o.bad == 0 || how->type != HEED_FLOAT32)
    same_by_pairs(b, name, &w, allowed_pairs(&w, &s, &fewest));
  free_cases();
}


static options drawn_options (heed_type type, const shape *s) {
  options o = some_options(type, s);
  if (o.bad > 0 && chance(0.5)) o.bad = 4;
  return o;
}


/* Numbers whose rounding to TF32 is infinite, or whose products are. */
static void ends (both *b, const kind *how) {
  static const float values[] = {3.4028e38f, -3.4028e38f, 1e30f, 1e-40f};
  const shape s = {1, 1, 1, 20, 70, 40, 40};
  const options o = {.type = how->type, .aligned = true};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    work w;
    forwards(&w, &s, &o);
    put(&w.in[ATTENTION_V], 3 * s.Dv + 5, values[i]);
    if (i > 1) put(&w.in[ATTENTION_K], 7 * s.D + 1, values[i]);
    same(b, name_of("ends", &s, &o, &w.attention.mask), &w, how->most);
    free_cases();
  }
}


static int run_kind (const kind *how) {
  both b;
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("HEED_EMULATED_SHARED", how->shared, 1);
  if (!both_open(&b)) return 0;
  b.gpu->accelerator->precision(b.gpu, how->precision);
  EACH_SHAPE(s, shapes) {
    attend(&b, how, *s, (options){0}, true);
    attend(&b, how, *s, (options){.way = 1, .causal = true, .bad = 4}, true);
    attend(&b, how, *s, (options){.way = 2, .bias = true, .cap = true, .relative = true,
                                  .drop = true, .weights = true, .causal = true}, true);
    for (int k = 0; k < how->times; k++)
      attend(&b, how, *s, drawn_options(how->type, s), false);
  }
  for (int bad = 0; bad <= 4; bad++) behind_lengths(&b, how, bad);
  if (how->type == HEED_FLOAT32) ends(&b, how);
  return both_close(&b);
}


int main (void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) exit(run_kind(&kinds[i]));
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) failed++;
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", kinds[i].way, WTERMSIG(status));
  }
  return failed > 0;
}
