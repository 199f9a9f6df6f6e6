/*
** elementwise.h - elementwise work: one kernel for each row of ops.def and computing type, which
** reads operands of any type and layout.
**
** Where all operands are dense, four elements are read at once; otherwise the offset of each
** element is computed, by divisions that all operands share.
*/

#ifndef cuda_elementwise_h
#define cuda_elementwise_h

#include "cuda/cuda.h"

#define OPERANDS (1 + DERIVATIVE_INS)    /* at most: the output, g, a, b, c, y */
#define AT_ONCE 4                  /* elements that a thread reads together */

typedef enum operand_kind {
  OPERAND_NUMBER, OPERAND_SPLAT, OPERAND_DENSE, OPERAND_STRIDED
} operand_kind;

/* The output, a tensor that is read, or a number. */
typedef struct operand {
  void *data;
  heed_type type;
  operand_kind kind;               /* SPLAT: one element for all */
  union { double f; int64_t i; };  /* a number, as the computing type has it */
  int64_t stride[HEED_RANK];
} operand;

typedef struct job {
  int64_t n;
  bool dense, small;               /* small: fewer than 2^31 elements */
  int rank;
  int64_t size[HEED_RANK];
  divisor by[HEED_RANK];
  operand at[OPERANDS];            /* 0: the output */
  double p, q;
  struct faults faults;
} job;

#pragma GCC visibility push(hidden)

/* Each for one computing type; 'which' is the input that the derivative is taken for. */
const char *map_float (cuda *self, int op, const job *j);
const char *map_double (cuda *self, int op, const job *j);
const char *map_integer (cuda *self, int op, const job *j);
const char *derivative_float (cuda *self, int op, int which, const job *j);
const char *derivative_double (cuda *self, int op, int which, const job *j);

#pragma GCC visibility pop

#endif
