/*
** path.cu - layouts for kernels, which iterate over them.
*/

#include "cuda/cuda.h"


path path_of (const layout *at) {
  path p;
  int64_t numel = layout_numel(at);
  p.rank = at->rank;
  p.small = numel < 1ll << 31;
  for (int i = 0; i < at->rank; i++) {
    p.size[i] = at->size[i];
    p.stride[i] = at->stride[i];
    p.by[i] = divisor_of(at->size[i]);
  }
  return p;
}


void paths_of (int n, const layout *const *at, path *paths) {
  layout copies[WORK_INS], *all[WORK_INS] = {NULL};
  for (int i = 0; i < n; i++) {
    copies[i] = *at[i];
    all[i] = &copies[i];
  }
  layout_fuse(all, n);
  for (int i = 0; i < n; i++) paths[i] = path_of(&copies[i]);
}
