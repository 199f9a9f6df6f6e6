/*
** attention_back.h - the gradients of attention, tile by tile.
**
** With weights p = 2^(s - lse), computed again, and g the gradient of y: dv = p^T g, dp = g v^T,
** ds = p (dp - delta), delta = sum(g y) less the gradient of lse; dq = scale ds k, dk = scale
** ds^T q. A piece of work is a group of tiles of keys of one (b, hk), with all queries; dq and the
** gradient of biases by distance are summed over groups afterwards, in their order. Groups depend
** on the shape alone, so results do not depend on threads.
*/

#ifndef attention_back_h
#define attention_back_h

#include "cpu/attention/attention.h"

#define BACK_PIECES 16             /* wanted at least, as long as groups stay large … */
#define GROUP_TILES 4              /* … of this many tiles */

typedef struct attend_back {
  attend a;                        /* first */
  int64_t group, groups;           /* keys of a group; groups of a head */
  void *sums;                      /* (groups, B, H, panels, D, PANEL): dq, if there are several */
  void *relative;                  /* (groups, B, H, T + S - 1): sums of ds by distance */
} attend_back;


#define LOOPS "cpu/attention/attention_back_loops.h"
#include "cpu/for_floats.h"


static const char *attention_back (cpu *self, const work *w) {
  attend_back d = {.a = attend_open(self, w)};
  const bool wide = w->in[ATTENTION_Q].type == HEED_FLOAT64;
  if ((wide ? attend_in_heads_double : attend_in_heads_float)(&d.a, false))
    return d.a.failed ? cpu_no_memory : NULL;
  const int64_t tiles = (d.a.keys + TILE_KEYS - 1) / TILE_KEYS, heads = larger(d.a.B * d.a.Hk, 1);
  d.groups = larger(1, smaller(BACK_PIECES / heads, tiles / GROUP_TILES));
  d.group = larger(1, (tiles + d.groups - 1) / d.groups) * TILE_KEYS;
  d.groups = larger(1, (d.a.keys + d.group - 1) / d.group);
  if (wide) attend_back_double(&d);
  else attend_back_float(&d);
  return d.a.failed ? cpu_no_memory : NULL;
}

#endif
