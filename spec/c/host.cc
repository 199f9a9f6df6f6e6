// A C++ program without Lua: heed.h as C++ reads it, and a gradient through attention.
#include <cstdio>

#include "heed.h"

int main () {
  heed_context *cx = heed_open(nullptr);
  const float numbers[] = {1, 2, 3, 4};
  const int64_t size[] = {2, 2};
  heed_tensor *x = heed_from(cx, HEED_FLOAT32, 2, size, numbers);
  heed_require_grad(x, true);
  heed_value args[HEED_ARGS(attention)] = {};
  args[HEED_ARG(attention, query)] = args[HEED_ARG(attention, key)] = heed_t(x);
  args[HEED_ARG(attention, value)] = heed_t(x);
  heed_tensor *y = heed_call(cx, HEED_attention, args, HEED_ARGS(attention));
  const heed_value whole[] = {heed_t(y)};
  heed_tensor *sum = heed_call(cx, HEED_sum, whole, 1);
  bool good = heed_backward(sum, nullptr, false);
  heed_tensor *g = heed_gradient(x);
  float first[4];
  good = good && heed_read(g, HEED_FLOAT32, first);
  if (good) std::printf("%g %g\n", first[0], first[1]);
  else std::puts(heed_error(cx));
  heed_drop(g); heed_drop(sum); heed_drop(y); heed_drop(x);
  const heed_value none[] = {heed_none()};
  bool refused = heed_call(cx, HEED_exp, none, 1) == nullptr && heed_error(cx) != nullptr;
  heed_close(cx);
  return good && refused ? 0 : 1;
}
