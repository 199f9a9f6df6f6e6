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

/* The algorithm is chosen for the bias that is added: of 48 products, 16 have one of float32. */
static void biased (both *b) {
  products(b);
  check(says(matmul(b), "; it refused 32 of 48 products"), "a bias is there when it is asked for");
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
static void newest (both *b) {
  check(says(matmul(b), "cuBLASLt 130100: ") && says(matmul(b), "_emulated.so.13"),
        "a toolkit's library is found");
  products(b);
  check(says(matmul(b), "_emulated.so.13"), "and used");
}

static void older (both *b) {
  check(says(matmul(b), "cuBLASLt 130100: ") && says(matmul(b), "_emulated.so.12"),
        "an older library is found");
  products(b);
  check(says(matmul(b), "_emulated.so.12"), "and used");
}

static void too_new (both *b) {
  products(b);
  check(says(matmul(b), "cuBLASLt 130100: ") && says(matmul(b), "_emulated.so.12"),
        "an older library is used where the newest can't be");
}

static void unusable (both *b) {
  products(b);
  check(says(matmul(b), "heed's own kernels: libcublasLt_emulated.so.13: it can't be used here, "
             "code 1"), "a library that can't be used is said to be so");
}


/* A toolkit with copies of the stand-in that have these names, up to NULL. */
static void run_beside (const char *name, void (*f) (both *b), const char *const *libraries) {
  char home[] = "/tmp/heed-XXXXXX", path[64], library[2][128];
  if (mkdtemp(home) == NULL) return;
  snprintf(path, sizeof path, "%s/lib64", home);
  mkdir(path, 0700);
  for (int i = 0; libraries[i] != NULL; i++) {
    char command[5000];
    snprintf(library[i], sizeof library[i], "%s/%s", path, libraries[i]);
    snprintf(command, sizeof command, "cp '%s' '%s'", stand_in, library[i]);
    check(system(command) == 0, "a copy");
  }
  setenv("CUDA_HOME", home, 1);
  run(name, f);
  unsetenv("CUDA_HOME");
  for (int i = 0; libraries[i] != NULL; i++) unlink(library[i]);
  rmdir(path);
  rmdir(home);
}


static void run_toolkits (void) {
  const char *const names[] = {"libcublasLt_emulated.so.12", "libcublasLt_emulated.so.13", NULL};
  run_beside("a toolkit", newest, names);
  run_beside("an older toolkit", older, (const char *const[]){names[0], NULL});
  setenv("HEED_STAND_IN", "old", 1);
  run_beside("an old driver", too_new, names);
  run_beside("an old driver alone", unusable, names + 1);
  unsetenv("HEED_STAND_IN");
}


int main (int n, char **arguments) {
  const char *slash = n > 0 ? strrchr(arguments[0], '/') : NULL;
  char relative[4000];
  if (slash == NULL || !is_emulated()) { puts("0 passed, 0 failed, 1 skipped"); return 0; }
  snprintf(relative, sizeof relative, "%.*splugins/cublaslt.so", (int)(slash - arguments[0] + 1),
           arguments[0]);
  if (realpath(relative, stand_in) == NULL) return 1;
  unsetenv("HEED_SOME");           /* all products are counted */
  unsetenv("CUDA_PATH");
  unsetenv("CUDA_HOME");
  run("nothing is named", not_named);
  run_toolkits();
  setenv("HEED_CUBLASLT", stand_in, 1);
  run("used", used);
  setenv("HEED_STAND_IN", "refuse", 1);
  run("refused", refused);
  setenv("HEED_STAND_IN", "bias", 1);
  run("biased", biased);
  setenv("HEED_CUBLASLT", "/nowhere/lib.so", 1);
  run("missing", missing);
  printf("%d wrong\n", wrong);
  return wrong > 0;
}
