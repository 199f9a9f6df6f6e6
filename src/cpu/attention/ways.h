/*
** ways.h - which way attention takes: the first of its table that fits. The choice depends on
** shapes and types alone, so results do not depend on threads (read once for each type).
*/

#ifndef T
#include "cpu/attention/attention.h"
#else

/* The operands of a mask have types of their own. */
static bool FN(has_one_type) (const work *w) {
  for (int i = 0; i < w->nin; i++)
    if ((i <= ATTENTION_V || i >= ATTENTION_INS) && !view_is_none(&w->in[i])
        && w->in[i].type != TYPE)
      return false;
  for (int i = 0; i < w->nout; i++)
    if (!view_is_none(&w->out[i]) && w->out[i].type != TYPE) return false;
  return true;
}


/* With few queries most lanes of a tile would be empty. Dropout is computed by tiles alone. */
static bool FN(fits_few) (const attend *a) { return a->queries <= FEW_QUERIES && a->drop == 0; }


/*
** Small heads with nothing but masks, which fill at least half of the lanes, unless the other way
** would be that of few queries, which is slower for them.
*/
static bool FN(fits_heads) (const attend *a) {
  const int64_t heads = a->B * a->H, vectors = (a->queries + a->keys) * (a->D + a->Dv);
  const bool few = a->w->kind == WORK_ATTENTION && FN(fits_few)(a);
  if (heads == 0 || (heads * 2 <= LANES && !few)) return false;
  if (vectors > HEADS_VECTORS || a->queries > HEADS_QUERIES || a->keys > TILE_KEYS) return false;
  if (a->queries * a->keys == 0 || a->shared != 1 || !a->plain || a->drop != 0) return false;
  return FN(has_one_type)(a->w);
}


static bool FN(fits_any) (const attend *a) {
  (void)a;
  return true;
}


static const attend_way FN(attention_ways)[] = {
  {FN(fits_heads), FN(heads_workspace), FN(attend_in_heads)},  /* a lane for each head */
  {FN(fits_few), FN(few_workspace), FN(attend_few)},           /* lanes hold keys */
  {FN(fits_any), FN(tiles_workspace), FN(attend_tiles)}        /* lanes hold queries */
};

static const attend_way FN(attention_back_ways)[] = {
  {FN(fits_heads), FN(heads_workspace), FN(attend_in_heads)},
  {FN(fits_any), FN(back_workspace), FN(attend_back)}
};

#endif
