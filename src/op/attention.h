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

#define RULE_DEPTH 64              /* conditions of a rule that may wait to be joined */

/* The arguments, read. */
typedef struct attending {
  heed_context *cx;
  heed_op op;
  heed_tensor *query, *key, *value;
  heed_tensor *mask, *bias, *relative, *lengths;   /* NULL where left out */
  const heed_value *rule;                    /* of kind HEED_LIST or HEED_NONE */
  heed_tensor *const *operand;               /* the rule's tensors */
  int operands;                              /* how many of them */
  int says;                                  /* the ARG that messages about the rule name */
  int rank;                                  /* of query, key and value */
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
layout attention_distances (const attending *o);                     /* (H, T + S - 1) */

/*
** Lengths from 0 to 'most' only. Not checked on a device whose memory the host cannot read, which
** would have to be waited for: there a length below 0 means no key, and one beyond S all keys.
*/
bool attention_check_lengths (call *c, const attending *o, int i, const heed_tensor *lengths,
                              int64_t most);

/* attention_mask.c */
bool attention_check_rule (call *c, const attending *o);
bool attention_set_mask (work *w, const attending *o);               /* false for a failure */
/* The mask as bools that broadcast to (B, H, T, S); NULL: none is blocked; false: failure. */
bool attention_allowed (const attending *o, heed_tensor **allowed);

/* Made of other operations. 'ys' by OUT(attention, …); weights only if they are wanted. */
bool attention_composed (const attending *o, bool weights, heed_tensor *ys[OP_OUTS]);

/*
** 'gs' are gradients of the results, or NULL. 'ds', by ATTENTION_DQ and so on, holds zeros, or NULL
** for biases that want none.
*/
bool attention_composed_back (const attending *o, heed_tensor *const gs[OP_OUTS],
                              heed_tensor *ds[ATTENTION_BACK_OUTS]);

#pragma GCC visibility pop

#endif
