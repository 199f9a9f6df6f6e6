/*
** cuda_ways.c - which way attention and its gradients take on a GPU (cuda/attention/ways.h), at the
** sizes and layouts where one ends and another begins: results alone don't show it.
*/

#include "attention_cases.h"
#include "cuda_child.h"

typedef struct ways_case {
  shape s;
  options o;
  const char *way, *back;
} ways_case;

/* Exact, but for a GPU that is fast in TF32: three products of it; and by products of warpgroups
   on one that has them. */
static const char floats[] = "three products of TF32 or exact", halves[] = "warpgroups or fast";

static const ways_case cases[] = {
  {{2, 4, 1, 16, 100, 256, 256}, {.type = HEED_FLOAT32}, "few queries", "exact"},
  {{2, 4, 1, 1, 0, 5, 3}, {.type = HEED_FLOAT64, .way = 3}, "few queries", "exact"},
  {{2, 4, 1, 17, 100, 64, 64}, {.type = HEED_FLOAT32}, floats, "exact"},
  {{2, 4, 1, 1, 100, 257, 64}, {.type = HEED_BFLOAT16}, "exact", "exact"},
  {{2, 4, 1, 1, 100, 64, 257}, {.type = HEED_FLOAT16}, "exact", "exact"},
  {{2, 4, 1, 1, 100, 64, 64}, {.type = HEED_FLOAT32, .weights = true}, "few queries",
   "exact"},
  {{2, 4, 1, 1, 100, 64, 64}, {.type = HEED_FLOAT32, .drop = true}, floats, "exact"},
  {{2, 4, 4, 100, 100, 64, 64}, {.type = HEED_FLOAT32}, floats, "exact"},
  {{2, 4, 4, 100, 100, 64, 64}, {.type = HEED_FLOAT64}, "exact", "exact"},
  /* halves on tensor cores: of heads that are not too large … */
  {{2, 4, 2, 100, 100, 64, 64}, {.type = HEED_BFLOAT16, .aligned = true}, halves, halves},
  {{2, 4, 2, 100, 100, 64, 64}, {.type = HEED_FLOAT16, .aligned = true}, halves, halves},
  {{1, 1, 1, 30, 30, 256, 8}, {.type = HEED_FLOAT16, .aligned = true}, halves, "fast"},
  {{1, 1, 1, 30, 30, 264, 8}, {.type = HEED_FLOAT16}, "exact", "exact"},
  {{1, 1, 1, 30, 30, 8, 264}, {.type = HEED_FLOAT16}, "exact", "exact"},
  {{1, 1, 1, 30, 30, 0, 8}, {.type = HEED_FLOAT16}, "exact", "exact"},
  /* … whose rows lie at multiples of 16 bytes … */
  {{1, 2, 2, 30, 30, 12, 16}, {.type = HEED_FLOAT16}, "exact", "exact"},
  {{1, 2, 2, 30, 30, 12, 12}, {.type = HEED_FLOAT16, .aligned = true}, halves, halves},
  {{1, 2, 2, 30, 30, 16, 16}, {.type = HEED_FLOAT16, .way = 2}, "exact", "exact"},
  /* … gradients of y, too, for gradients … */
  {{1, 2, 2, 30, 30, 16, 16}, {.type = HEED_FLOAT16}, halves, "exact"},
  {{1, 2, 2, 30, 30, 16, 16}, {.type = HEED_FLOAT16, .aligned = true, .cap = true, .bias = true,
    .relative = true}, "fast", "fast"},
  /* … and with dropout that of whole fours of keys */
  {{1, 2, 2, 30, 30, 16, 16}, {.type = HEED_FLOAT16, .drop = true}, "exact", "exact"},
  {{1, 2, 2, 30, 30, 16, 16}, {.type = HEED_FLOAT16, .aligned = true, .drop = true}, "exact",
   "exact"},
  {{1, 2, 2, 30, 32, 16, 16}, {.type = HEED_FLOAT16, .aligned = true, .drop = true}, "fast",
   "fast"},
};


static bool has_tf32, has_groups, is_real;     /* of a real GPU it is not known */

static bool took (both *b, const char *expected) {
  if (expected == halves)
    return ((has_groups || is_real) && went(b, "warpgroups")) || (!has_groups && went(b, "fast"));
  if (expected != floats) return went(b, expected);
  return ((has_tf32 || is_real) && went(b, "three products of TF32")) ||
         (!has_tf32 && went(b, "exact"));
}


static void check_way (both *b, const char *name, const work *w, const char *expected) {
  char *got[WORK_OUTS];
  size_t bytes[WORK_OUTS];
  run_and_fetch(b, w, got, bytes);
  for (int i = 0; i < w->nout; i++) free(got[i]);
  b->tried++;
  if (took(b, expected)) return;
  const char *way = b->gpu->way;
  wrong++;
  printf("%s: %s taken, %s expected\n", name, way != NULL ? way : "no way", expected);
}


static void check_case (both *b, const ways_case *c) {
  work w;
  forwards(&w, &c->s, &c->o);
  if (c->o.drop) w.attention.dropout = 0.3;
  const mask *m = &w.attention.mask;
  check_way(b, name_of("attention", &c->s, &c->o, m), &w, c->way);
  backwards(&w, &c->s, &c->o);
  check_way(b, name_of("gradients", &c->s, &c->o, m), &w, c->back);
  free_cases();
}


static void check_all (both *b) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(b, &cases[i]);
}


static void check_some (both *b) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (cases[i].way == floats || cases[i].way == halves) check_case(b, &cases[i]);
}


/* All batches and heads are the same memory, so that 2^32 of them take none. */
static void multiply_heads (both *b, view *v) {
  if (view_is_none(v)) return;
  send_view(b, v);
  for (int i = 0; i < 2; i++) {
    v->at.size[i] = 1 << 16;
    v->at.stride[i] = 0;
  }
}

static void check_refusal (both *b, work w) {
  for (int i = 0; i < w.nin; i++) multiply_heads(b, &w.in[i]);
  for (int i = 0; i < w.nout; i++) multiply_heads(b, &w.out[i]);
  b->tried++;
  check(says(b->gpu->run(b->gpu, &w), "2^31 blocks are too many"), "2^32 heads are refused");
}

/* More blocks than a launch may have: their number in 32 bits would be 0, and nothing done. */
static void too_many (both *b) {
  static const shape one = {1, 1, 1, 1, 1, 8, 8};
  static const heed_type types[] = {HEED_BFLOAT16, HEED_FLOAT64};
  for (int i = 0; i < 2; i++) {
    const options o = {.type = types[i], .aligned = true};
    work w;
    forwards(&w, &one, &o);
    check_refusal(b, w);
    backwards(&w, &one, &o);
    check_refusal(b, w);
  }
  free_cases();
}


/* An emulated GPU is told its architecture by its shared memory; a real one may be any. */
int main (void) {
  is_real = !is_emulated();
  if (!is_real) setenv("HEED_EMULATED_SHARED", "99", 1);
  run(is_real ? "this GPU" : "8.6", check_all);
  run("too many heads", too_many);
  if (!is_real) {
    has_tf32 = true;
    setenv("HEED_EMULATED_SHARED", "163", 1);
    run("8.0", check_some);
    has_groups = true;
    setenv("HEED_EMULATED_SHARED", "227", 1);
    run("9.0", check_some);
  }
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
