/*
** cuda_few.c - attention of few queries on a GPU (cuda/attention/few.cu): heads that share keys,
** parts of keys, rows that are aligned and that are not, keys that nobody may see.
**
** Every case is compared with the CPU, runs twice, and must take this way; keys of another layout,
** a dense mask of the same pairs, and a batch of one must give the same bits.
*/

#include "attention_cases.h"

static const int times = 3;          /* random masks of each shape and type */

/* One part and several, whole tiles and not; some have Hk so large that parts are longer. */
static const shape shapes[] = {
  {1, 1, 1, 1, 1, 1, 1}, {3, 4, 1, 1, 64, 64, 64}, {2, 8, 1, 1, 65, 128, 128},
  {1, 8, 8, 1, 256, 32, 32}, {3, 8, 2, 1, 257, 128, 64}, {2, 16, 2, 1, 700, 64, 72},
  {1, 5, 5, 2, 1000, 20, 33}, {1, 4, 1, 4, 2500, 80, 96}, {2, 8, 1, 2, 300, 256, 248},
  {1, 1, 1, 16, 777, 40, 256}, {1, 6, 2, 7, 130, 16, 8}, {1, 8, 1, 16, 600, 24, 16},
  {1, 32, 32, 1, 3000, 8, 8}, {1, 3, 1, 11, 513, 100, 5}, {2, 2, 1, 5, 3, 0, 4}
};

/* No keys, queries, values, batch. */
static const shape empty[] = {
  {2, 4, 2, 1, 0, 8, 8}, {1, 2, 1, 0, 300, 8, 8}, {1, 2, 1, 3, 300, 8, 0}, {0, 2, 1, 3, 300, 8, 8}
};


/* Keys and values that no query may see become NaN, or infinite. */
static void spoil_unseen (work *w, const shape *s, const view *pairs) {
  for (int64_t head = 0; head < s->B * s->Hk; head++)
    for (int64_t j = 0; j < s->S; j++) {
      const int64_t rows = s->H / s->Hk * s->T;
      bool seen = false;
      for (int64_t r = 0; r < rows && !seen; r++)
        seen = ((uint8_t *)pairs->data)[(head * rows + r) * s->S + j] != 0;
      for (int64_t d = 0; d < s->D && !seen; d++)
        put(&w->in[ATTENTION_K], (head * s->S + j) * s->D + d, d % 2 == 0 ? NAN : INFINITY);
      for (int64_t d = 0; d < s->Dv && !seen; d++)
        put(&w->in[ATTENTION_V], (head * s->S + j) * s->Dv + d, d % 2 == 0 ? -INFINITY : NAN);
    }
}


/* The same elements, as rows of one more, so that they are not aligned to 16 bytes. */
static view not_aligned (const view *v) {
  int64_t size[4];
  for (int i = 0; i < 4; i++) size[i] = v->at.size[i] + (i == 3);
  view y = fresh(v->type, 4, size);
  y.at = layout_narrow(&y.at, 3, 0, v->at.size[3], 1);
  for (int64_t n = 0; n < layout_numel(&v->at); n++) put(&y, n, get(v, n));
  return y;
}


static void check_way (both *b, const char *name) {
  b->tried++;
  if (went(b, "few queries")) return;
  b->failed++;
  printf("%s: %s taken\n", name, b->gpu->way != NULL ? b->gpu->way : "no way");
}


/* Results are the same where weights are not wanted. */
static void without_weights (both *b, const char *name, const work *w) {
  char *first[WORK_OUTS], *second[WORK_OUTS];
  size_t bytes[WORK_OUTS], others[WORK_OUTS];
  work other = *w;
  other.out[ATTENTION_WEIGHTS] = view_none();
  run_and_fetch(b, w, first, bytes);
  run_and_fetch(b, &other, second, others);
  b->tried++;
  for (int i = 0; i < w->nout; i++) {
    if (i != ATTENTION_WEIGHTS && memcmp(first[i], second[i], bytes[i]) != 0) {
      printf("%s: out[%d] is not the same without weights\n", name, i);
      b->failed++;
    }
    free(first[i]);
    free(second[i]);
  }
}


static void attend (both *b, const shape *s, const options *o) {
  work w;
  int64_t fewest;
  forwards(&w, s, o);
  const view pairs = allowed_pairs(&w, s, &fewest);
  const char *name = name_of("few", s, o, &w.attention.mask);
  if (o->bad > 0 && w.attention.mask.n > 0) spoil_unseen(&w, s, &pairs);
  if (same(b, name, &w, tolerance(o->type))) {
    check_way(b, name);
    if (o->weights) without_weights(b, name, &w);
    work other = w;
    other.in[ATTENTION_K] = not_aligned(&w.in[ATTENTION_K]);
    other.in[ATTENTION_V] = not_aligned(&w.in[ATTENTION_V]);
    same_bits(b, name, "when keys are not aligned", &w, &other);
    same_again(b, name, &w);
    other = with_pairs(&w, pairs);
    if (w.attention.mask.n > 0) same_bits(b, name, "by a dense mask", &w, &other);
  }
  free_cases();
}


static view one_of (const view *v, int64_t i) {
  view one = *v;
  if (view_is_none(v)) return one;
  one.at = layout_narrow(&one.at, 0, i, 1, 1);
  return without_offset(one);
}

/* The last sequence of a batch has the bits that it has alone. */
static void alone (both *b, heed_type type) {
  shape s = {5, 8, 2, 1, 1200, 64, 64};
  options o = {.type = type};
  char *of_all[WORK_OUTS], *of_one[WORK_OUTS];
  size_t bytes[WORK_OUTS], one_bytes[WORK_OUTS];
  work w, one;
  forwards(&w, &s, &o);
  one = w;
  for (int i = ATTENTION_Q; i <= ATTENTION_V; i++) one.in[i] = one_of(&w.in[i], s.B - 1);
  for (int i = 0; i < ATTENTION_WEIGHTS; i++) one.out[i] = one_of(&w.out[i], s.B - 1);
  run_and_fetch(b, &w, of_all, bytes);
  run_and_fetch(b, &one, of_one, one_bytes);
  b->tried++;
  for (int i = 0; i < w.nout; i++) {
    if (memcmp(of_all[i] + bytes[i] - one_bytes[i], of_one[i], one_bytes[i]) != 0) {
      printf("few %s: out[%d] of one sequence depends on the batch\n", scalar_names[type], i);
      b->failed++;
    }
    free(of_all[i]);
    free(of_one[i]);
  }
  free_cases();
}


int main (void) {
  both b;
  if (!both_open(&b)) return 0;
  for (int i = 0; i < 4; i++) {
    const heed_type type = float_types[i];
    EACH_SHAPE(s, empty) attend(&b, s, &(options){.type = type});
    EACH_SHAPE(s, shapes) {
      attend(&b, s, &(options){.type = type});
      for (int k = 0; k < times; k++) {
        options o = some_options(type, s);
        o.drop = false;
        o.way = chance(0.5) ? 0 : o.way;
        attend(&b, s, &o);
      }
    }
    alone(&b, type);
  }
  return both_close(&b);
}
