/*
** cuda_attention.c - attention and its gradients on a GPU: shapes, masks, options, NaN.
**
** Every case runs forwards, and if that is right, backwards with what came out; and both with a
** dense mask of the same pairs, which must give the same bits.
*/

#include "attention_cases.h"

static const int times = 4;          /* random cases of each shape and type */

/* On both devices, again, and by a dense mask. */
static bool run_ways (both *b, const char *name, const work *w, view pairs, double tolerance,
                      bool again) {
  if (!same(b, name, w, tolerance)) return false;
  if (again) same_again(b, name, w);
  return same_by_pairs(b, name, w, pairs);
}

/*
** Where dropout is, every query sees two keys or more: for one alone, gradients are 0, and the
** roundings that were left could not be compared.
*/
static void attend (both *b, shape s, options o, bool again) {
  work w;
  int64_t fewest;
  forwards(&w, &s, &o);
  view pairs = allowed_pairs(&w, &s, &fewest);
  if (o.drop && fewest > 1) w.attention.dropout = 0.3;
  const mask *m = &w.attention.mask;
  if (run_ways(b, name_of("attention", &s, &o, m), &w, pairs, tolerance(o.type), again)) {
    backwards(&w, &s, &o);
    run_ways(b, name_of("gradients", &s, &o, m), &w, pairs, tolerance_back(o.type), again);
  }
  free_cases();
}


static void shapes (both *b, heed_type type) {
  EACH_SHAPE(s, attention_shapes) {
    attend(b, *s, (options){.type = type}, true);
    attend(b, *s, (options){.type = type, .relative = true, .bad = 2}, false);
    for (int k = 0; k < times; k++) attend(b, *s, some_options(type, s), false);
  }
}


static void empty (both *b, heed_type type) {
  EACH_SHAPE(s, empty_shapes) attend(b, *s, (options){.type = type, .weights = true}, false);
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 4; i++) {
    shapes(&b, float_types[i]);
    empty(&b, float_types[i]);
  }
  return both_close(&b);
}
