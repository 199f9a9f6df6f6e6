/*
** embed.c - a program without a line of Lua: it answers a query over a folder of text files.
**
**   make lib && build/release/embed MODEL FOLDER "a query"
**
** MODEL is a directory of sentence-transformers, as docs/models.md has them. The vector of each
** file stands beside that of the query; the nearest three are named.
*/

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heed_models.h"

#define MOST 1000                   /* files */
#define BEST 3

typedef struct folder {
  heed_text texts[MOST + 1];        /* the query is the last */
  char *names[MOST];
  int n;
} folder;

/* The first 64 KiB of a file; NULL: it cannot be read. */
static char *read_file (const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *text = f != NULL ? malloc(1 << 16) : NULL;
  if (text != NULL) *n = fread(text, 1, 1 << 16, f);
  if (f != NULL) fclose(f);
  return text;
}


/* The .txt files of a folder; false where there are none, which is said. */
static bool read_folder (const char *path, folder *all) {
  DIR *d = opendir(path);
  const struct dirent *entry;
  while (d != NULL && all->n < MOST && (entry = readdir(d)) != NULL) {
    char file[4096];
    size_t length = strlen(entry->d_name);
    if (length < 4 || strcmp(entry->d_name + length - 4, ".txt") != 0) continue;
    snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    heed_text *text = &all->texts[all->n];
    text->at = read_file(file, &text->n);
    all->names[all->n] = text->at != NULL ? strdup(entry->d_name) : NULL;
    if (all->names[all->n] != NULL) all->n++;
  }
  if (d == NULL) perror(path);
  else if (all->n == 0) fprintf(stderr, "%s: no .txt files\n", path);
  if (d != NULL) closedir(d);
  return all->n > 0;
}


static float dot (const float *a, const float *b, int64_t n) {
  float y = 0;
  for (int64_t i = 0; i < n; i++) y += a[i] * b[i];
  return y;
}


/* vectors: (n + 1, dim), of unit length; the last is the query's. */
static void rank (const folder *all, const float *vectors, int64_t dim) {
  const float *query = vectors + all->n * dim;
  float score[MOST];
  for (int i = 0; i < all->n; i++) score[i] = dot(vectors + i * dim, query, dim);
  for (int k = 0; k < BEST && k < all->n; k++) {
    int best = 0;
    for (int i = 1; i < all->n; i++)
      if (score[i] > score[best]) best = i;
    printf("%.4f  %s\n", score[best], all->names[best]);
    score[best] = -INFINITY;
  }
}


int main (int argc, char **argv) {
  static folder all;
  if (argc != 4) {
    fprintf(stderr, "usage: %s MODEL FOLDER QUERY\n", argv[0]);
    return 2;
  }
  if (!read_folder(argv[2], &all)) return 1;
  heed_models *models = heed_models_open();
  heed_model *model = heed_model_load(models, argv[1], &(heed_model_options){.mapped = true});
  all.texts[all.n] = (heed_text){argv[3], strlen(argv[3])};
  heed_tensor *vectors = heed_model_embed(model, all.texts, all.n + 1, NULL);
  int64_t dim = vectors != NULL ? heed_size(vectors, 1) : 0;
  float *numbers = malloc((size_t)((all.n + 1) * dim) * sizeof *numbers + 1);
  bool good = numbers != NULL && heed_read(vectors, HEED_FLOAT32, numbers);
  if (good) rank(&all, numbers, dim);
  else fprintf(stderr, "%s\n", models != NULL ? heed_error(heed_models_context(models))
                                              : "not enough memory");
  free(numbers);
  heed_drop(vectors);
  heed_models_close(models);
  for (int i = 0; i < all.n; i++) {
    free(all.names[i]);
    free((char *)all.texts[i].at);
  }
  return good ? 0 : 1;
}
