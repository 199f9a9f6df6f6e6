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

/* Arguments, by their number; those before CAUSAL are tensors. */
enum {
  QUERY, KEY, VALUE, MASK, BIAS, LENGTHS, CAUSAL, OFFSET, SCALE, SOFTCAP, DROPOUT, WEIGHTS, LSE,
  FUSED
};

/* Results; the last one is for the gradient only. */
enum { RESULT, RESULT_WEIGHTS, RESULT_LSE, RESULT_STATE };

/* The arguments, read. */
typedef struct attending {
  heed_context *cx;
  heed_op op;
  heed_tensor *in[LENGTHS + 1];    /* NULL where left out */
  heed_tensor *key;                /* of dropout, or NULL */
  int64_t B, H, Hk, T, S, D, Dv;
  double scale, softcap, dropout;
  bool causal, fused;
  int64_t offset;                  /* j <= i + offset, when causal; between -T and S */
} attending;

/* A layout as the caller sees it, with the axes of heads and batch that queries may lack. */
layout attention_layout (const attending *o, const layout *at);

/* (B, H, T, last), and (B, H, T) for a 'last' of -1, without the axes that queries lack. */
layout attention_shape (const attending *o, int64_t last);

/* Tensor argument i as seen above: mask and bias (B, H, T, S), lengths (B). */
layout attention_operand (const attending *o, int i);

/* Made of other operations. Results that are not asked for are NULL. */
bool attention_composed (const attending *o, heed_tensor *ys[3], bool weights);
/* gs[] are gradients of the results, or NULL; ds[] of query, key, value and bias. */
bool attention_composed_back (const attending *o, heed_tensor *const gs[3], heed_tensor *ds[4]);

#pragma GCC visibility pop

#endif
