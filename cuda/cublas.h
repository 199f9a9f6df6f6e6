/*
** cublas.h - matrix products by NVIDIA's cuBLASLt, where it is found when a program runs.
*/

#ifndef cuda_cublas_h
#define cuda_cublas_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* Is the product done, or is *why not NULL? Otherwise it is left to the kernels of matmul.cu. */
bool cublas_matmul (cuda *self, const work *w, const char **why);

#pragma GCC visibility pop

#endif
