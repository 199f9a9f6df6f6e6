/*
** gather.cu - reads elements by position.
*/

#include "cuda/index/index.h"


template <class S> KERNEL gather (iteration w, S *to, const S *from, int64_t n, faults f) {
  for (int64_t i = first_index(); i < n; i += index_step())
    to[element_offset(w.at, i)] = from[offset_by(w.at, w.inner, i) + displacement(w, f, i)];
}


const char *cuda_gather (cuda *self, const work *w) {
  const view *y = &w->out[0], *nothing = index_of_nothing(w);
  if (layout_numel(&y->at) == 0) return NULL;
  if (nothing != NULL) return refuse_index(self, nothing);
  indexing d = indexing_of(self, w, y, &w->in[0]);
  indexing_widen(&d);
  int64_t n = layout_numel(&d.at[0]);
  iteration all = iteration_over_all(&d);
  dim3 blocks = cuda_blocks(self, n, INDEX_THREADS);
  FOR_SIZE(d.size, return launch(self, blocks, INDEX_THREADS, 0, gather<S>, all, (S *)d.outer,
                                 (const S *)d.inner, n, cuda_faults(self)))
  return NULL;
}
