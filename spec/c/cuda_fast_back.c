/*
** cuda_fast_back.c - gradients of attention of halves on tensor cores (cuda/attention/fast_back.h,
** fast_groups_back.h) beside the CPU's: head sizes, ragged ends, all masks and options, numbers
** that are not finite; and that this way is taken.
*/

#include "attention_cases.h"

#include <sys/wait.h>
#include <unistd.h>

static const int times = 3;          /* random cases of each shape and type */

static const shape shapes[] = {
  /* each width, full, and with columns that are not there */
  {1, 2, 2, 130, 70, 64, 64}, {1, 1, 1, 70, 140, 128, 128}, {1, 1, 1, 66, 70, 256, 256},
  {1, 2, 1, 33, 65, 8, 8}, {2, 1, 1, 17, 100, 20, 16}, {1, 1, 1, 64, 63, 32, 40},
  {1, 1, 1, 50, 129, 96, 24}, {1, 1, 1, 40, 33, 160, 130}, {1, 1, 1, 65, 32, 24, 200},
  /* grouped heads, many keys and queries */
  {2, 6, 2, 30, 44, 32, 32}, {1, 2, 2, 150, 12, 16, 16}, {1, 1, 1, 20, 2200, 8, 8},
  {1, 1, 1, 2200, 20, 8, 8}, {3, 4, 1, 65, 200, 48, 48}, {1, 4, 1, 100, 70, 72, 100}
};


/*
** Weights and their gradients are rounded to halves, so an error is small beside what is summed,
** which may nearly cancel: single elements are held to several times their mean size, and all of
** them by their norm.
*/
static double loose (heed_type type) { return 16 * tolerance_back(type); }

static double norm_bound (heed_type type) { return type == HEED_BFLOAT16 ? 1e-2 : 1.5e-3; }

static double worst;                 /* of the norms of a type */

/* |gpu - cpu| / |cpu| of what is finite. */
static double norm_error (const view *v, const char *got) {
  const reached r = reach_of(v);
  const size_t size = scalar_sizes[v->type];
  double difference = 0, all = 0;
  for (size_t i = 0; i < r.bytes; i += size) {
    double x = scalar_double(scalar_load(v->type, r.start + i));
    double y = scalar_double(scalar_load(v->type, got + i));
    if (!isfinite(x) || !isfinite(y)) continue;
    difference += (x - y) * (x - y);
    all += x * x;
  }
  return all > 0 ? sqrt(difference / all) : 0;
}


static void check_norms (both *b, const char *name, const work *w, heed_type type) {
  char *got[WORK_OUTS];
  size_t bytes[WORK_OUTS];
  if (is_left_out(b, w)) return;
  run_and_fetch(b, w, got, bytes);
  for (int i = 0; i < w->nout; i++) {
    double error = bytes[i] > 0 ? norm_error(&w->out[i], got[i]) : 0;
    if (error > worst) worst = error;
    if (error > norm_bound(type)) {
      b->failed++;
      printf("%s: out[%d] differs by %g of its norm\n", name, i, error);
    }
    free(got[i]);
  }
  b->tried++;
}


/*
** Where queries see few keys, gradients nearly vanish, and roundings are all that is left: then
** there is no mask.
*/
static void leave_keys (work *w, const shape *s, view pairs) {
  const uint8_t *may = pairs.data;
  int64_t n = 0;
  for (int64_t i = 0; i < s->B * s->H * s->T * s->S; i++) n += may[i];
  if (n < 3 * s->B * s->H * s->T) w->attention.mask.n = 0;
}


/* Has the GPU products of warpgroups? Of a real one it is not known. */
static bool has_groups, is_real;

static const char *way_of (const work *w, const shape *s, const options *o) {
  const bool drops = w->attention.dropout > 0;
  if (drops && s->S % 4 != 0) return "exact";
  const bool asks = o->bias || o->cap || o->relative || drops;
  return has_groups && !asks && s->D <= 128 && s->Dv <= 128 ? "warpgroups" : "fast";
}


static void check_way (both *b, const char *name, const char *expected) {
  if (went(b, expected) || (is_real && went(b, "warpgroups"))) return;
  b->failed++;
  printf("%s: %s taken, %s expected\n", name, b->gpu->way != NULL ? b->gpu->way : "no way",
         expected);
}


/*
** 'again': the same bits. So they are by a dense mask of the same pairs, unless tiles that one of
** them passes over hold numbers that are not finite, and the other one begins again.
*/
static void differentiate (both *b, shape s, options o, bool again) {
  work w;
  int64_t fewest;
  o.aligned = true;
  o.weights = false;
  forwards(&w, &s, &o);
  view pairs = allowed_pairs(&w, &s, &fewest);
  leave_keys(&w, &s, pairs);
  if (o.drop && s.S > 3) w.attention.dropout = 0.3;
  b->cpu->run(b->cpu, &w);
  backwards(&w, &s, &o);
  const char *name = name_of("fast gradients", &s, &o, &w.attention.mask);
  same(b, name, &w, loose(o.type));
  check_way(b, name, way_of(&w, &s, &o));
  check_norms(b, name, &w, o.type);
  if (again) same_again(b, name, &w);
  if (o.bad == 0) same_by_pairs(b, name, &w, pairs);
  free_cases();
}


static int run_on (const char *shared) {
  static const heed_type types[] = {HEED_BFLOAT16, HEED_FLOAT16};
  both b;
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("HEED_EMULATED_SHARED", shared, 1);
  if (!both_open(&b)) return 0;
  is_real = !emulates();
  for (int i = 0; i < 2; i++) {
    const heed_type type = types[i];
    EACH_SHAPE(s, shapes) {
      differentiate(&b, *s, (options){.type = type}, true);
      differentiate(&b, *s, (options){.type = type, .way = 1, .causal = true, .lse = true}, true);
      differentiate(&b, *s, (options){.type = type, .causal = true, .bad = 3}, false);
      if (has_groups) continue;        /* what follows takes the same way as before */
      differentiate(&b, *s, (options){.type = type, .causal = true, .bad = 3, .cap = true,
                                      .relative = true}, false);
      differentiate(&b, *s, (options){.type = type, .way = 2, .bias = true, .cap = true,
                                      .relative = true, .drop = true, .causal = true}, true);
      differentiate(&b, *s, (options){.type = type, .bias = true, .low = true, .lse = true}, true);
      for (int k = 0; k < times; k++) differentiate(&b, *s, some_options(type, s), false);
    }
    printf("%s: at most %.2g of a norm\n", scalar_names[type], worst);
    worst = 0;
  }
  return both_close(&b);
}


/* An emulated GPU of 8.6, and one of 9.0. */
int main (void) {
  static const char *const shared[] = {"99", "227"};
  int failed = 0;
  for (int i = 0; i < 2; i++) {
    has_groups = i == 1;
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    if (child == 0) exit(run_on(shared[i]));
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) failed++;
    if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
  }
  return failed > 0;
}
