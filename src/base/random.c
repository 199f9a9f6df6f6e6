/*
** random.c - Mersenne Twister with 32-bit numbers, seeded, generated and saved as PyTorch does.
*/

#include "base/random.h"

#include <math.h>

#define N 624
#define M 397


/* The recurrence of Matsumoto and Nishimura; only the low 32 bits of a seed count. */
void generator_seed (generator *g, uint64_t seed) {
  memset(g, 0, sizeof *g);
  g->seed = seed;
  g->state[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < N; i++)
    g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
  g->left = 1;
  g->seeded = true;
}


static uint32_t twist (uint32_t high, uint32_t low) {
  uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ (low & 1 ? 0x9908b0dfu : 0);
}


static void next_state (generator *g) {
  uint32_t *s = g->state;
  for (int i = 0; i < N - M; i++) s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
  for (int i = N - M; i < N - 1; i++) s[i] = s[i + M - N] ^ twist(s[i], s[i + 1]);
  s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
  g->left = N;
  g->next = 0;
}


static uint32_t temper (uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}


static void temper_all (int n, uint32_t *restrict to, const uint32_t *restrict from) {
  for (int i = 0; i < n; i++) to[i] = temper(from[i]);
}


uint32_t generator_32 (generator *g) {
  if (--g->left == 0) next_state(g);
  return temper(g->state[g->next++]);
}


/* 'left' is one more than what the block still holds: it is counted down first. */
void generator_fill (generator *g, int64_t n, uint32_t *numbers) {
  while (n > 0) {
    if (g->left == 1) {
      next_state(g);
      g->left = N + 1;
    }
    const int now = n < g->left - 1 ? (int)n : g->left - 1;
    temper_all(now, numbers, g->state + g->next);
    g->next += now;
    g->left -= now;
    numbers += now;
    n -= now;
  }
}


uint64_t generator_64 (generator *g) {
  uint64_t high = generator_32(g);
  return high << 32 | generator_32(g);
}


double generator_uniform_double (generator *g) {
  return (double)(generator_64(g) & 0x1fffffffffffff) * 0x1p-53;
}


/* Box and Muller's pair: one now, the other at the next call. */
double generator_normal (generator *g) {
  if (g->has_normal) {
    g->has_normal = false;
    return g->normal;
  }
  double angle = 2 * 3.14159265358979323846 * generator_uniform_double(g);
  double length = sqrt(-2 * log1p(-generator_uniform_double(g)));
  g->normal = length * sin(angle);
  g->has_normal = true;
  return length * cos(angle);
}


/*
** PyTorch's legacy state. Its first part is that of torch7: what was left of the block of
** 624, the state in 64-bit words, and the normal number kept.
*/
typedef struct state_bytes {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t state[N];
  double normal_x, normal_y, normal_rho;
  int32_t has_normal;
  float normal_float;
  uint8_t has_normal_float;
} state_bytes;

_Static_assert(sizeof(state_bytes) == HEED_RNG_BYTES, "PyTorch's state has 5056 bytes");


void generator_save (const generator *g, uint8_t state[HEED_RNG_BYTES]) {
  state_bytes s;
  memset(&s, 0, sizeof s);
  s.seed = g->seed;
  s.left = g->left;
  s.seeded = g->seeded;
  s.next = (uint64_t)g->next;
  for (int i = 0; i < N; i++) s.state[i] = g->state[i];
  s.has_normal = g->has_normal;
  s.normal_y = g->has_normal ? g->normal : 0;
  s.has_normal_float = g->has_normal_float;
  s.normal_float = g->has_normal_float ? g->normal_float : 0;
  memcpy(state, &s, sizeof s);
}


bool generator_load (generator *g, const uint8_t state[HEED_RNG_BYTES]) {
  state_bytes s;
  memcpy(&s, state, sizeof s);
  bool valid = s.seeded == 1 && s.left > 0 && s.left <= N && s.next <= N &&
               s.next + (uint64_t)s.left <= N + 1;
  if (!valid) return false;
  g->seed = s.seed;
  g->left = s.left;
  g->seeded = true;
  g->next = (int)s.next;
  for (int i = 0; i < N; i++) g->state[i] = (uint32_t)s.state[i];
  g->has_normal = s.has_normal != 0;
  g->normal = s.normal_y;
  g->has_normal_float = s.has_normal_float != 0;
  g->normal_float = s.normal_float;
  return true;
}
