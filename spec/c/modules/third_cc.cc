// A C++ module of somebody else's: a moving average of a vector, and a gradient of its own.
#include <vector>

#include "heed_api.h"

static int l_smooth (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_tensor *t = heed->check(L, 1), *smooth = nullptr;
  {
    std::vector<double> x(static_cast<std::size_t>(heed->numel(t))), y;
    if (heed->read(t, HEED_FLOAT64, x.data())) {
      for (std::size_t i = 1; i < x.size(); i++) y.push_back((x[i - 1] + x[i]) / 2);
      const int64_t n = static_cast<int64_t>(y.size());
      smooth = heed->from(heed->context(L), HEED_FLOAT64, 1, &n, y.data());
    }
  }                                // what can raise comes after the vectors are gone
  if (smooth == nullptr) return heed->raise(L);
  heed->push(L, smooth);
  return 1;
}

struct reversal {
  const heed_api_table *heed;
};

static bool reverse (void *self, int, heed_tensor *const *gradients, int, heed_tensor **results) {
  const heed_api_table *heed = static_cast<reversal *>(self)->heed;
  const heed_value g = heed_t(gradients[0]);
  results[0] = heed->call(heed->context_of(gradients[0]), "neg", &g, 1);
  return results[0] != nullptr;
}

static void release (void *self) { delete static_cast<reversal *>(self); }

// reverse_gradient(t): t, whose gradient is reversed
static int l_reverse_gradient (lua_State *L) {
  const heed_api_table *heed = heed_api(L);
  heed_tensor *t = heed->check(L, 1), *same = heed->detach(t);
  const heed_custom custom = {reverse, release, new reversal{heed}};
  if (!heed->record_custom(heed->context(L), &custom, 1, &t, 1, &same)) {
    heed->drop(same);
    return heed->raise(L);
  }
  heed->push(L, same);
  return 1;
}

extern "C" HEED_API int luaopen_third_cc (lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, l_smooth);
  lua_setfield(L, -2, "smooth");
  lua_pushcfunction(L, l_reverse_gradient);
  lua_setfield(L, -2, "reverse_gradient");
  return 1;
}
