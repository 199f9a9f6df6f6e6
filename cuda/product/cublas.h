/*
** cublas.h - matrix products by NVIDIA's cuBLASLt, where it is found when a program runs.
*/

#ifndef cuda_cublas_h
#define cuda_cublas_h

#include "cuda/cuda.h"

#pragma GCC visibility push(hidden)

/* True: the product is done, or *why says why not. False: it is left to matmul.cu's kernels. */
bool cublas_matmul (cuda *self, const work *w, const char **why);

#pragma GCC visibility pop

#endif
