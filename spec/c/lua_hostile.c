/*
** lua_hostile.c - computations in hosts that round otherwise, flush denormals, write numbers with
** commas, have small stacks or leave libraries out: results have the bits that they have in a plain
** host, and the host finds its environment as it was.
*/

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua/heed_lua.h"
#include "small_stack.h"

#define MOST 64                          /* computations */

static int failed;


/*
** {==================================================================
** What is computed: values as bytes, which no locale changes
** ===================================================================
*/

static const char script[] =
  "local heed = ...\n"
  "heed.threads(2)\n"
  "local function bytes(list)\n"
  "  for i, v in ipairs(list) do\n"
  "    if heed.is_tensor(v) then v = bytes_of(v) end\n"
  "    list[i] = type(v) == 'number' and string.pack('n', v) or tostring(v)\n"
  "  end\n"
  "  return table.concat(list, ' ')\n"
  "end\n"
  "function bytes_of(t)\n"
  "  local list = t:detach():to('float64'):reshape(-1):totable()\n"
  "  for i, v in ipairs(list) do list[i] = string.pack('d', v) end\n"
  "  return table.concat(list)\n"
  "end\n"
  "local tenth, milli, tiny = 0.1, 1e-3, 1e-40\n"
  "local function leaf(size) return heed.randn(size, {requires_grad = true}) end\n"
  "local list = {\n"
  "  'randn', function() return heed.randn(100), heed.rand(40), heed.randint(1, 9, {20}) end,\n"
  "  'normal', function() return heed.zeros(40, 'float64'):normal_(tenth, 3) end,\n"
  "  'arange', function() return heed.arange(0, 1, tenth), heed.linspace(0, tenth, 17) end,\n"
  "  'elementwise', function()\n"
  "    local x, y = heed.randn(1000), heed.randn(1000)\n"
  "    return x + y, x * y, x / y, x:exp(), x:tanh(), x:sin(), x:abs():log(), x:erf(), x:gelu()\n"
  "  end,\n"
  "  'with numbers', function()\n"
  "    local x = heed.randn(50)\n"
  "    return x * tenth, x + tenth, x / 3, x ^ 3, x:clamp(-tenth, tenth), x:lerp(x * 2, tenth)\n"
  "  end,\n"
  "  'float64', function()\n"
  "    local x = heed.randn(1000, 'float64')\n"
  "    return x:exp(), x:sigmoid(), x:square():sqrt(), x:cumsum(1), x:sum(), x:std()\n"
  "  end,\n"
  "  'half', function()\n"
  "    local x = heed.randn(300)\n"
  "    return x:to('float16'), x:to('bfloat16'), x:to('float16'):exp()\n"
  "  end,\n"
  "  'denormals', function()\n"
  "    local x = heed.full({70}, tiny)\n"
  "    return x, x * 1, x + x, x:sum(), heed.full({9}, tiny, 'float64') * 1e30 * 1e10,\n"
  "      x:to('float64'), x:sign()\n"
  "  end,\n"
  "  'made from Lua', function()\n"
  "    return heed.tensor{tenth, tiny, 7}, heed.full({3}, tenth), heed.ones(3) * tenth\n"
  "  end,\n"
  "  'reductions', function()\n"
  "    local x = heed.randn(33, 65)\n"
  "    return x:sum(), x:mean(1), x:var(2), x:norm(), x:logsumexp(2), x:prod(1), x:cumprod(2)\n"
  "  end,\n"
  "  'products', function()\n"
  "    local a, b = heed.randn(70, 130), heed.randn(130, 50)\n"
  "    return a:matmul(b), a[1]:matmul(b), a:matmul(b:t():contiguous():t()),\n"
  "      heed.einsum('ij,jk->k', a, b), a:double():matmul(b:double())\n"
  "  end,\n"
  "  'rows', function()\n"
  "    local x = heed.randn(20, 40)\n"
  "    return x:softmax(2), x:log_softmax(1), x:layer_norm{40}, x:rms_norm{40}, (x:sort(2))\n"
  "  end,\n"
  "  'attention', function()\n"
  "    local q, k, v = leaf{2, 2, 20, 8}, leaf{2, 2, 20, 8}, leaf{2, 2, 20, 8}\n"
  "    local y = heed.attention(q, k, v, {causal = true, softcap = 5})\n"
  "    y:sum():backward()\n"
  "    return y, q.grad, k.grad, v.grad\n"
  "  end,\n"
  "  'dropout', function() return heed.ones(200):dropout(tenth), heed.rand(9):bernoulli() end,\n"
  "  'losses', function()\n"
  "    local x = leaf{30, 10}\n"
  "    local y = x:cross_entropy(heed.randint(1, 10, {30}), {label_smoothing = tenth})\n"
  "    y:backward()\n"
  "    return y, x.grad, x:mse_loss(x * 2), x:sigmoid():binary_cross_entropy(heed.rand(30, 10))\n"
  "  end,\n"
  "  'training', function()\n"
  "    local nn = heed.nn\n"
  "    local model = nn.Sequential{nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)}\n"
  "    local opt = heed.optim.AdamW(model:parameters(), {lr = milli})\n"
  "    local sgd = heed.optim.SGD(model:parameters(), {lr = tenth, momentum = 0.5})\n"
  "    for _ = 1, 3 do\n"
  "      opt:zero_grad()\n"
  "      model(heed.randn(5, 4)):square():mean():backward()\n"
  "      heed.optim.clip_grad_norm(model:parameters(), tenth)\n"
  "      opt:step()\n"
  "      sgd:step()\n"
  "    end\n"
  "    return table.unpack(model:parameters())\n"
  "  end,\n"
  "  'checkpoint', function()\n"
  "    local w = leaf{8}\n"
  "    heed.checkpoint(function(t) return t:exp():dropout(tenth) end, w):sum():backward()\n"
  "    return w.grad\n"
  "  end,\n"
  "  'text', function()\n"
  "    local x = heed.tensor{0.5, -1.25, 1000}\n"
  "    return tostring(x), x:format('%.3f'), tostring(heed.tensor(0.5)), x .. ''\n"
  "  end,\n"
  "  'errors', function()\n"
  "    return select(2, pcall(heed.dropout, heed.ones(2), 3))\n"
  "  end,\n"
  "}\n"
  "local n = 0\n"
  "for i = 1, #list, 2 do\n"
  "  n = n + 1\n"
  "  local f = list[i + 1]\n"
  "  computations[n] = {list[i], function()\n"
  "    heed.manual_seed(7)\n"
  "    return (bytes{f()})\n"
  "  end}\n"
  "end\n";

/* A result; NULL: it raised an error. */
typedef struct result {
  char *data;
  size_t length;
} result;

static result copy_of (lua_State *L, int i) {
  result r = {NULL, 0};
  const char *s = lua_tolstring(L, i, &r.length);
  if (s != NULL && (r.data = malloc(r.length + 1)) != NULL) memcpy(r.data, s, r.length + 1);
  return r;
}

static bool same (const result *a, const result *b) {
  return a->data != NULL && b->data != NULL && a->length == b->length &&
         memcmp(a->data, b->data, a->length) == 0;
}

/* }================================================================== */


/*
** {==================================================================
** Environments
** ===================================================================
*/

/* State of the host that heed must leave alone. */
typedef struct surroundings {
  int rounding;
  unsigned flush;
  char locale[256], folder[1024];
  sigset_t mask;
  struct sigaction handler[32];
  off_t written;                   /* to stdout */
} surroundings;

#if defined(__SSE__)
#define FLUSH 0x8040u              /* flush results, and operands, to zero */
static unsigned get_flush (void) { return __builtin_ia32_stmxcsr() & ~0x3fu; }
static void set_flush (void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH); }
#else
#define FLUSH 0u
static unsigned get_flush (void) { return 0; }
static void set_flush (void) {}
#endif

static surroundings look (void) {
  surroundings s;
  struct stat out;
  memset(&s, 0, sizeof s);
  s.rounding = fegetround();
  s.flush = get_flush();
  snprintf(s.locale, sizeof s.locale, "%s", setlocale(LC_ALL, NULL));
  if (getcwd(s.folder, sizeof s.folder) == NULL) s.folder[0] = '\0';
  sigprocmask(SIG_BLOCK, NULL, &s.mask);
  for (int i = 1; i < 32; i++) sigaction(i, NULL, &s.handler[i]);
  fflush(stdout);
  s.written = fstat(STDOUT_FILENO, &out) == 0 ? out.st_size : 0;
  return s;
}

static const char *difference (const surroundings *a, const surroundings *b) {
  if (a->rounding != b->rounding) return "the rounding mode";
  if (a->flush != b->flush) return "the floating-point mode";
  if (strcmp(a->locale, b->locale) != 0) return "the locale";
  if (strcmp(a->folder, b->folder) != 0) return "the working directory";
  for (int i = 1; i < 32; i++) {
    if (sigismember(&a->mask, i) != sigismember(&b->mask, i)) return "the signal mask";
    if (a->handler[i].sa_handler != b->handler[i].sa_handler) return "a signal's handler";
  }
  return a->written != b->written ? "what stdout got" : NULL;
}

/* A locale that writes 0,5; compiled where the system has none. */
static bool set_comma (void) {
  char folder[] = "/tmp/heed-locale-XXXXXX", command[256];
  if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL) return true;
  if (mkdtemp(folder) == NULL) return false;
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
           folder);
  bool made = system(command) == 0;
  setenv("LOCPATH", folder, 1);
  made = made && setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
  unsetenv("LOCPATH");
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) == 0 && made;
}

typedef enum kind { PLAIN, ROUNDING, FLUSHING, COMMA, STACK, BARE } kind;

typedef struct host {
  const char *name;
  kind kind;
  int rounding;
} host;

/* }================================================================== */


/*
** {==================================================================
** Runs
** ===================================================================
*/

typedef struct run {
  const host *host;
  result results[MOST];
  int n;
} run;

static const result *wanted;             /* of the plain host */

static void open_libraries (lua_State *L, bool bare) {
  static const luaL_Reg few[] = {
    {"_G", luaopen_base}, {"package", luaopen_package}, {"coroutine", luaopen_coroutine},
    {"table", luaopen_table}, {"string", luaopen_string}, {"math", luaopen_math},
    {"utf8", luaopen_utf8}, {NULL, NULL}
  };
  if (!bare) luaL_openlibs(L);
  for (const luaL_Reg *l = few; bare && l->name != NULL; l++) {
    luaL_requiref(L, l->name, l->func, 1);
    lua_pop(L, 1);
  }
}

/* Opens the module and loads the computations, which stay on the stack. */
static int prepare (lua_State *L) {
  bool bare = lua_toboolean(L, 1);
  open_libraries(L, bare);
  luaL_requiref(L, "heed", luaopen_heed, 0);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setglobal(L, "computations");
  if (luaL_loadstring(L, script) != LUA_OK) return lua_error(L);
  lua_pushvalue(L, -3);
  lua_call(L, 1, 0);
  return 1;
}

static void report (const host *h, const char *name, const char *text) {
  fprintf(stderr, "hostile: %s: %s: %s\n", h->name, name, text);
  failed = 1;
}

/* One computation, of the list at 1, in the host's rounding mode. */
static void compute (lua_State *L, run *r, int i) {
  lua_rawgeti(L, 1, i + 1);
  lua_rawgeti(L, -1, 1);
  const char *name = lua_tostring(L, -1);
  lua_rawgeti(L, -2, 2);
  fesetround(r->host->kind == ROUNDING ? r->host->rounding : FE_TONEAREST);
  surroundings before = look();
  int status = lua_pcall(L, 0, 1, 0);
  surroundings after = look();
  fesetround(FE_TONEAREST);
  const char *changed = difference(&before, &after);
  if (changed != NULL) report(r->host, name, changed);
  if (status == LUA_OK) r->results[i] = copy_of(L, -1);
  else report(r->host, name, lua_tostring(L, -1));
  if (status == LUA_OK && wanted != NULL && !same(&r->results[i], &wanted[i]))
    report(r->host, name, "other bits than in a plain host");
  lua_settop(L, 1);
}

static void *run_all (void *arg) {
  run *r = arg;
  if (r->host->kind == FLUSHING) set_flush();
  lua_State *L = luaL_newstate();
  lua_pushcfunction(L, prepare);
  lua_pushboolean(L, r->host->kind == BARE);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) report(r->host, "the module", lua_tostring(L, -1));
  else r->n = (int)lua_rawlen(L, 1);
  for (int i = 0; i < r->n && i < MOST; i++) compute(L, r, i);
  lua_close(L);
  printf("%s: %d computations\n", r->host->name, r->n);
  return NULL;
}

/* In a thread of its own, whose floating-point mode ends with it. */
static bool run_thread (run *r, size_t stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  bool good = stack == 0 || pthread_attr_setstacksize(&attributes, stack) == 0;
  good = good && pthread_create(&thread, &attributes, run_all, r) == 0;
  if (good) pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  return good;
}

/* In a process of its own, which a stack that is too small ends. A sanitizer needs a larger one. */
static bool run_small (run *r) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)r;
  return false;
#else
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    bool good = run_thread(r, LEAST_STACK);
    fflush(stdout);
    _exit(good ? failed : 2);
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (WIFSIGNALED(status)) report(r->host, "all", "the process crashed");
  failed |= status != 0;
  return !WIFEXITED(status) || WEXITSTATUS(status) != 2;
#endif
}

static bool run_host (run *r) {
  if (r->host->kind == STACK) return run_small(r);
  if (r->host->kind == COMMA && !set_comma()) return false;
  bool good = run_thread(r, 0);
  setlocale(LC_ALL, "C");
  return good;
}

static void drop_results (run *r) {
  for (int i = 0; i < MOST; i++) free(r->results[i].data);
}

/* }================================================================== */


int main (void) {
  static const host hosts[] = {
    {"plain", PLAIN, 0}, {"plain again", PLAIN, 0}, {"rounding up", ROUNDING, FE_UPWARD},
    {"rounding down", ROUNDING, FE_DOWNWARD}, {"rounding to zero", ROUNDING, FE_TOWARDZERO},
    {"flushing denormals", FLUSHING, 0}, {"commas", COMMA, 0},
    {"without io, os and debug", BARE, 0}, {"a small stack", STACK, 0}
  };
  static run plain;
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    run r = {.host = &hosts[i]};
    if (!run_host(&r)) printf("SKIPPED: %s: not to be had here\n", hosts[i].name);
    if (i > 0) { drop_results(&r); continue; }
    plain = r;
    wanted = plain.results;
  }
  drop_results(&plain);
  if (!failed) puts("hostile: the same bits in every host");
  return failed;
}
