/*
** cuda_cublas.c - products by cuBLASLt: where it is looked for, what is said of it, what it
** refuses. On an emulated GPU, by the stand-in of plugins/cublaslt.c.
*/

#include <sys/stat.h>

#include "cuda_child.h"

static char stand_in[4096];


static view matrix (heed_type type, int64_t rows, int64_t columns) {
  return filled(type, 2, (int64_t[]){rows, columns}, -1, 1);
}

/* Of float32 and float64, some with a bias, some of a matrix that lies across, some added. */
static void products (both *b) {
  for (int i = 0; i < 48; i++) {
    const heed_type type = i % 2 ? HEED_FLOAT64 : HEED_FLOAT32;
    const double tolerance = i % 2 ? 1e-13 : 6e-6;
    view x = matrix(type, 9, 20), y = matrix(type, 20, 12), z = matrix(type, 9, 12);
    view bias = i % 3 ? matrix(type, 1, 12) : view_none();
    if (i % 4 > 1) { y = matrix(type, 12, 20); y.at = layout_transpose(&y.at, 0, 1); }
    if (i % 3 == 1) bias.at = layout_remove(&bias.at, 0);
    work w;
    work_matmul(&w, i % 5 ? 1 : -0.5, i % 6 == 0, z, x, y, bias);
    check(same(b, "product", &w, tolerance), "a product is the CPU's");
  }
}

static const char *matmul (both *b) {
  static heed_device_properties p;
  check(heed_device_describe(b->cx, "cuda", &p), "its properties");
  return p.matmul;
}


static void used (both *b) {
  check(says(matmul(b), "cuBLASLt 130100: ") && says(matmul(b), "cublaslt.so"), "what is found");
  products(b);
  check(strstr(matmul(b), "refused") == NULL, "a bias that it refuses is added in another way");
}

static void refused (both *b) {
  products(b);
  check(says(matmul(b), "; it refused 48 of 48 products, which heed's own kernels did"),
        "what it refuses is said");
}

static void missing (both *b) {
  check(says(matmul(b), "heed's own kernels: /nowhere/lib.so: "), "what is not found");
  products(b);
  check(says(matmul(b), "heed's own kernels: /nowhere/lib.so: "), "and what is used instead");
}

static void not_named (both *b) {
  check(says(matmul(b), "heed's own kernels: libcublasLt"), "nothing is found");
}

/* Below CUDA_HOME, as in a toolkit. */
static void beside (both *b) {
  check(says(matmul(b), "cuBLASLt 130100: "), "a toolkit's library is found");
  products(b);
}


static void run_beside (void) {
  char home[] = "/tmp/heed-XXXXXX", path[64], library[128];
  if (mkdtemp(home) == NULL) return;
  snprintf(path, sizeof path, "%s/lib64", home);
  snprintf(library, sizeof library, "%s/libcublasLt_emulated.so", path);
  mkdir(path, 0700);
  check(symlink(stand_in, library) == 0, "a link");
  setenv("CUDA_HOME", home, 1);
  run("a toolkit", beside);
  unsetenv("CUDA_HOME");
  unlink(library);
  rmdir(path);
  rmdir(home);
}


int main (int n, char **arguments) {
  const char *slash = n > 0 ? strrchr(arguments[0], '/') : NULL;
  char relative[4000];
  if (slash == NULL || !is_emulated()) { puts("0 passed, 0 failed, 1 skipped"); return 0; }
  snprintf(relative, sizeof relative, "%.*splugins/cublaslt.so", (int)(slash - arguments[0] + 1),
           arguments[0]);
  if (realpath(relative, stand_in) == NULL) return 1;
  unsetenv("CUDA_PATH");
  unsetenv("CUDA_HOME");
  run("nothing is named", not_named);
  run_beside();
  setenv("HEED_CUBLASLT", stand_in, 1);
  run("used", used);
  setenv("HEED_STAND_IN", "refuse", 1);
  run("refused", refused);
  setenv("HEED_CUBLASLT", "/nowhere/lib.so", 1);
  run("missing", missing);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
