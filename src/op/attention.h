/*
** attention.h - what the files of attention share.
**
** Inside, all is (B, H, T, D): queries of rank 3 have one head, those of rank 2 one batch too.
** Positions i of queries and j of keys count from 0; B, H, Hk, T, S, D, Dv as in the papers.
*/

#ifndef op_attention_h
#define op_attention_h

#include "op/compose.h"

#pragma GCC visibility push(hidden)

/* The arguments, read. */
typedef struct attending {
  heed_context *cx;
  heed_op op;
  heed_tensor *query, *key, *value;
  heed_tensor *mask, *bias, *lengths;        /* NULL where left out */
  heed_tensor *dropout_key;                  /* or NULL */
  int64_t B, H, Hk, T, S, D, Dv;
  double scale, softcap, dropout;
  bool causal, fused;
  int64_t offset;                  /* j <= i + offset, when causal; between -T and S */
} attending;

static inline bool attention_is_empty (const attending *o) {
  return o->B == 0 || o->H == 0 || o->T == 0 || o->S == 0;
}

/* A layout as the caller gave it, with the axes of heads and batch that queries may lack. */
layout attention_layout (const attending *o, const layout *at);

/* (B, H, T, last), and (B, H, T) for a 'last' of -1, without the axes that queries lack. */
layout attention_shape (const attending *o, int64_t last);

layout attention_square (const attending *o, const heed_tensor *t);  /* mask, bias: (B, H, T, S) */
layout attention_lengths (const attending *o);                       /* lengths: (B) */

/* Made of other operations. 'ys' by OUT(attention, …); weights only if they are wanted. */
bool attention_composed (const attending *o, bool weights, heed_tensor *ys[OP_OUTS]);

/*
** 'gs' are gradients of the results, or NULL. 'ds', by ATTENTION_DQ and so on, holds zeros, or NULL
** for a bias that wants none.
*/
bool attention_composed_back (const attending *o, heed_tensor *const gs[OP_OUTS],
                              heed_tensor *ds[ATTENTION_BACK_OUTS]);

#pragma GCC visibility pop

#endif
