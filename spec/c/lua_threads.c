/*
** lua_threads.c - four states in four threads, each training a model of its own.
*/

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"

static const char script[] =
  "local heed = require 'heed'\n"
  "local nn, optim, tasks = heed.nn, heed.optim, heed.tasks\n"
  "heed.threads(2)\n"
  "heed.manual_seed(1)\n"
  "local model = nn.Sequential{nn.Embedding(9, 8), nn.MultiHeadAttention(8, 2), nn.Linear(8, 1)}\n"
  "local opt = optim.Adam(model:parameters(), {lr = 1e-2})\n"
  "local batch, last = tasks.counting{size = 16}, nil\n"
  "for _ = 1, 20 do\n"
  "  local x, y = batch()\n"
  "  local loss = heed.bce_with_logits(model(x):mean(2), y)\n"
  "  opt:zero_grad(); loss:backward(); opt:step()\n"
  "  last = loss:item()\n"
  "end\n"
  "local a = heed.randn(200, 200)\n"
  "return last + a:matmul(a):sum():item()\n";

typedef struct job {
  double result;
  char message[256];
} job;

static void *run (void *arg) {
  job *j = arg;
  lua_State *L = luaL_newstate();
  if (L == NULL) { strcpy(j->message, "no state"); return NULL; }
  luaL_openlibs(L);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  lua_pop(L, 1);
  if (luaL_dostring(L, script) != LUA_OK)
    snprintf(j->message, sizeof j->message, "%s", lua_tostring(L, -1));
  else j->result = lua_tonumber(L, -1);
  lua_close(L);
  return NULL;
}

int main (void) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  job jobs[THREADS] = {{0, ""}};
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, &jobs[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    if (jobs[i].message[0] != '\0') printf("threads: %s\n", jobs[i].message);
    wrong += jobs[i].message[0] != '\0' || jobs[i].result != jobs[0].result;
  }
  printf("threads: four states, %d of them wrong, each with %.6f\n", wrong, jobs[0].result);
  return wrong;
}
