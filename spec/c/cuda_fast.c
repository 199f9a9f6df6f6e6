/*
** cuda_fast.c - attention of halves on tensor cores (cuda/attention/fast.h) beside the CPU's: head
** sizes, ragged ends, all masks and options, numbers that are not finite; and that this way is
** taken.
*/

#include "attention_cases.h"

static const int times = 3;          /* random cases of each shape and type */

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


/* Weights are rounded to halves, so an error is small beside values, which may nearly cancel. */
static double loose (heed_type type) { return 4 * tolerance(type); }


/* Lengths of none, some and all keys, with whatever may stand behind them. */
static void behind_lengths (both *b, heed_type type, int bad) {
  const shape s = {3, 2, 1, 70, 100, 40, 40};
  options o = {.type = type, .aligned = true, .way = 0, .bad = bad};
  work w;
  forwards(&w, &s, &o);
  mask *m = &w.attention.mask;
  m->n = 1;
  m->node[0] = (mask_node){.kind = MASK_LENGTHS, .operand = ATTENTION_MASK, .high = s.S};
  w.in[ATTENTION_MASK] = fresh(HEED_INT64, 1, &s.B);
  memcpy(w.in[ATTENTION_MASK].data, (int64_t[]){0, 33, 100}, 3 * sizeof(int64_t));
  same(b, name_of("lengths", &s, &o, m), &w, loose(type));
  free_cases();
}


static void check_way (both *b, const char *name, const char *expected) {
  const char *way = b->gpu->way;
  if (went(b, expected)) return;
  b->failed++;
  printf("%s: %s taken, %s expected\n", name, way != NULL ? way : "no way", expected);
}


/* 'again': the same bits, also by a dense mask of the same pairs. */
static void attend (both *b, shape s, options o, bool again) {
  work w;
  int64_t fewest;
  o.aligned = true;
  forwards(&w, &s, &o);
  if (o.drop) w.attention.dropout = 0.3;
  const char *name = name_of("fast", &s, &o, &w.attention.mask);
  same(b, name, &w, loose(o.type));
  check_way(b, name, o.drop && s.S % 4 != 0 ? "exact" : "fast");
  if (again) same_again(b, name, &w);
  same_by_pairs(b, name, &w, allowed_pairs(&w, &s, &fewest));
  free_cases();
}


static options drawn_options (heed_type type, const shape *s) {
  options o = some_options(type, s);
  if (o.bad > 0 && chance(0.5)) o.bad = 4;
  return o;
}


int main (void) {
  static const heed_type types[] = {HEED_BFLOAT16, HEED_FLOAT16};
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 2; i++) {
    const heed_type type = types[i];
    EACH_SHAPE(s, shapes) {
      attend(&b, *s, (options){.type = type}, true);
      attend(&b, *s, (options){.type = type, .way = 1, .causal = true, .bad = 4}, true);
      attend(&b, *s, (options){.type = type, .way = 2, .bias = true, .cap = true, .relative = true,
                               .drop = true, .weights = true, .causal = true}, true);
      for (int k = 0; k < times; k++) attend(&b, *s, drawn_options(type, s), false);
    }
    for (int bad = 0; bad <= 4; bad++) behind_lengths(&b, type, bad);
  }
  return both_close(&b);
}
