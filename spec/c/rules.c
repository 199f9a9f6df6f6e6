/*
** rules.c - rules of who may attend, as numbers: what only a host written in C can get wrong in
** them, and what each word lets through at its bounds.
*/

#include <stdio.h>
#include <string.h>

#include "heed.h"

static int failed;
static heed_context *cx;

static void check (bool good, const char *what) {
  if (good) return;
  printf("rules: %s: wrong\n", what);
  failed = 1;
}

static heed_tensor *mask_of (int rank, const int64_t *size, int n, const int64_t *rule,
                             int operands, heed_tensor *const *ts) {
  heed_value args[] = {heed_l(rank, size), heed_l(n, rule), heed_ts(operands, ts)};
  return heed_call(cx, HEED_attention_mask, args, 3);
}

static const int64_t square[] = {2, 1, 3, 3};        /* B, H, T, S */

#define RULE(...) (int)(sizeof (int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static void refused (const char *message, int n, const int64_t *rule, int operands,
                     heed_tensor *const *ts) {
  char wanted[200];
  heed_tensor *y = mask_of(4, square, n, rule, operands, ts);
  const char *got = heed_error(cx);
  snprintf(wanted, sizeof wanted, "attention_mask: argument 'rule': %s", message);
  if (y != NULL || got == NULL || strcmp(got, wanted) != 0)
    printf("rules: \"%s\" expected, got \"%s\"\n", wanted, got != NULL ? got : "");
  failed |= y != NULL || got == NULL || strcmp(got, wanted) != 0;
  heed_clear(cx);
  heed_drop(y);
}

/* The pairs of the first sequence that may attend, as bits: query 1 first. */
static void lets (int wanted, int n, const int64_t *rule, int operands, heed_tensor *const *ts) {
  bool may[18];
  int bits = 0;
  heed_tensor *y = mask_of(4, square, n, rule, operands, ts);
  check(heed_read(y, HEED_BOOL, may), "a rule");
  for (int i = 0; i < 9; i++) bits |= may[i] << i;
  if (bits != wanted) printf("rules: %o expected, got %o\n", (unsigned)wanted, (unsigned)bits);
  failed |= bits != wanted;
  heed_clear(cx);
  heed_drop(y);
}

static void words (void) {
  lets(0777, 0, NULL, 0, NULL);
  lets(0631, RULE(HEED_MASK_BAND, -1, 0), 0, NULL);
  lets(0421, RULE(HEED_MASK_BAND, 0, 0), 0, NULL);
  lets(0463, RULE(HEED_MASK_BAND_FROM, 1, -1, 0), 0, NULL);
  lets(0631, RULE(HEED_MASK_BAND, -1, -1, HEED_MASK_BAND, 0, 0, HEED_MASK_OR), 0, NULL);
  lets(0000, RULE(HEED_MASK_BAND, -1, -1, HEED_MASK_BAND, 0, 0, HEED_MASK_AND), 0, NULL);
  lets(0000, RULE(HEED_MASK_FIRST, 0), 0, NULL);
  lets(0111, RULE(HEED_MASK_FIRST, 1), 0, NULL);
  lets(0777, RULE(HEED_MASK_FIRST, 3), 0, NULL);
  lets(0777, RULE(HEED_MASK_FIRST, INT64_MAX), 0, NULL);
  lets(0666, RULE(HEED_MASK_FIRST, 1, HEED_MASK_NOT), 0, NULL);
  lets(0777, RULE(HEED_MASK_EVERY, 1), 0, NULL);
  lets(0525, RULE(HEED_MASK_EVERY, 2), 0, NULL);
  lets(0433, RULE(HEED_MASK_BLOCKS, 2, 0, 0), 0, NULL);
  lets(0421, RULE(HEED_MASK_BLOCKS, 1, 0, 0), 0, NULL);
}

static void operands (void) {
  const int64_t two[] = {2}, three[] = {3};
  heed_tensor *lengths = heed_from(cx, HEED_INT64, 1, two, (int64_t[]){2, 3});
  heed_tensor *none = heed_from(cx, HEED_INT64, 1, two, (int64_t[]){0, 0});
  heed_tensor *far = heed_from(cx, HEED_INT64, 1, two, (int64_t[]){4, 0});
  heed_tensor *below = heed_from(cx, HEED_INT64, 1, two, (int64_t[]){0, -1});
  heed_tensor *wide = heed_from(cx, HEED_INT64, 1, three, (int64_t[]){1, 1, 2});
  heed_tensor *bools = heed_from(cx, HEED_BOOL, 1, three, (bool[]){true, false, true});
  lets(0333, RULE(HEED_MASK_LENGTHS), 1, &lengths);
  lets(0000, RULE(HEED_MASK_LENGTHS), 1, &none);
  lets(0333, RULE(HEED_MASK_PREFIX), 1, &lengths);
  lets(0777, RULE(HEED_MASK_PREFIX), 1, &far);
  lets(0433, RULE(HEED_MASK_DOCUMENTS), 1, &wide);
  lets(0555, RULE(HEED_MASK_KEYS), 1, &bools);
  lets(0555, RULE(HEED_MASK_TENSOR), 1, &bools);
  lets(0111, RULE(HEED_MASK_TENSOR, HEED_MASK_LENGTHS, HEED_MASK_AND), 2,
       (heed_tensor *[]){bools, lengths});
  refused("lengths: its tensor is missing", RULE(HEED_MASK_LENGTHS), 0, NULL);
  refused("keys: its tensor is missing", RULE(HEED_MASK_LENGTHS, HEED_MASK_KEYS, HEED_MASK_AND), 1,
          &lengths);
  refused("lengths: an int64 tensor of a shape that broadcasts to (2) expected, got bool of shape "
          "(3)", RULE(HEED_MASK_LENGTHS), 1, &bools);
  refused("lengths: an int64 tensor of a shape that broadcasts to (2) expected, got int64 of shape "
          "(3)", RULE(HEED_MASK_LENGTHS), 1, &wide);
  refused("keys: a bool tensor of a shape that broadcasts to (2, 3) expected, got int64 of shape "
          "(2)", RULE(HEED_MASK_KEYS), 1, &lengths);
  refused("documents: an int64 tensor of a shape that broadcasts to (2, 3) expected, got int64 of "
          "shape (2)", RULE(HEED_MASK_DOCUMENTS), 1, &lengths);
  for (int i = 0; i < 2; i++) {
    heed_tensor *y = mask_of(4, square, RULE(HEED_MASK_LENGTHS), 1, i == 0 ? &far : &below);
    check(y == NULL && heed_error(cx) != NULL, "lengths that no sequence has");
    heed_clear(cx);
  }
  heed_drop(lengths); heed_drop(none); heed_drop(far); heed_drop(below); heed_drop(wide);
  heed_drop(bools);
}

static void wrong_rules (void) {
  check(heed_describe_mask(HEED_NMASKS) == NULL && heed_describe_mask((heed_mask)-1) == NULL,
        "words that there are not");
  refused("prefix: a number of keys from 0 on expected, got -1", RULE(HEED_MASK_FIRST, -1), 0,
          NULL);
  refused("blocks: a size from 1 on expected, got 0", RULE(HEED_MASK_BLOCKS, 0, 0, 0), 0, NULL);
  refused("every: a distance from 1 on expected, got 0", RULE(HEED_MASK_EVERY, 0), 0, NULL);
  refused("'and' lacks what it joins", RULE(HEED_MASK_AND), 0, NULL);
  refused("'and' lacks what it joins", RULE(HEED_MASK_BAND, 0, 0, HEED_MASK_AND), 0, NULL);
  refused("'or' lacks what it joins", RULE(HEED_MASK_BAND, 0, 0, HEED_MASK_OR), 0, NULL);
  refused("'not' lacks what it joins", RULE(HEED_MASK_NOT, HEED_MASK_BAND, 0, 0), 0, NULL);
  refused("2 conditions are not joined", RULE(HEED_MASK_FIRST, 1, HEED_MASK_FIRST, 1), 0, NULL);
  refused("no word of a rule, with its numbers, stands at number 1", RULE(HEED_MASK_BAND, 1), 0,
          NULL);
  refused("no word of a rule, with its numbers, stands at number 3", RULE(HEED_MASK_FIRST, 1, -1),
          0, NULL);
  refused("no word of a rule, with its numbers, stands at number 3",
          RULE(HEED_MASK_FIRST, 1, HEED_NMASKS), 0, NULL);
  refused("no word of a rule, with its numbers, stands at number 3",
          RULE(HEED_MASK_FIRST, 1, HEED_MASK_FIRST), 0, NULL);
  int64_t many[65 * 2 + 64];
  for (int i = 0; i < 65; i++) many[2 * i] = HEED_MASK_FIRST, many[2 * i + 1] = 1;
  for (int i = 0; i < 64; i++) many[65 * 2 + i] = HEED_MASK_AND;
  refused("more than 64 conditions wait to be joined", 65 * 2 + 64, many, 0, NULL);
  for (int rank = 3; rank < 6; rank += 2) {
    const int64_t size[] = {1, 1, 2, 2, 2};
    char wanted[100];
    heed_tensor *y = mask_of(rank, size, 0, NULL, 0, NULL);
    snprintf(wanted, sizeof wanted,
             "attention_mask: argument 'size': four sizes expected (B, H, T, S), got %d", rank);
    check(y == NULL && heed_error(cx) != NULL && strcmp(heed_error(cx), wanted) == 0, wanted);
    heed_clear(cx);
  }
}

int main (void) {
  cx = heed_open(NULL);
  words();
  operands();
  wrong_rules();
  heed_close(cx);
  if (!failed) puts("rules: as heed.h says");
  return failed;
}
