/*
** heed_models.h - models from directories for C programs that know no Lua: vectors of texts,
** scores, classes, words.
**
**   heed_models *all = heed_models_open();
**   heed_model *model = heed_model_load(all, "a/model", NULL);
**   heed_tensor *vectors = heed_model_embed(model, texts, n, NULL);         (n, D)
**   if (!heed_read(vectors, HEED_FLOAT32, numbers)) puts(heed_error(heed_models_context(all)));
**   heed_drop(vectors);
**   heed_models_close(all);
**
** Functions are those of docs/models.md, by Lua that is inside the library: a program links
** -llua5.4 behind -lheed. They follow heed.h's rules: what a call returns is the caller's; NULL in,
** NULL out; a call that fails returns NULL, false or -1, and the context keeps the first message
** until heed_clear. Models and their tensors belong to one thread at a time, but for
** heed_interrupt, which ends the call that runs; threads of their own open libraries of their own,
** which share the memory of weights that are mapped. Strings need no 0 at their end unless they are
** of type const char *; they are read before a call returns.
*/

#ifndef HEED_MODELS_H
#define HEED_MODELS_H

#include "heed.h"
#include "heed_text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heed_models heed_models;
typedef struct heed_model heed_model;

/* NULL: too little memory. */
HEED_API heed_models *heed_models_open (void);
/* With all its models. Tensors that they gave are dropped before. */
HEED_API void heed_models_close (heed_models *all);
/* For heed_error, heed_clear, heed_interrupt, limits of memory, threads. */
HEED_API heed_context *heed_models_context (heed_models *all);

/* Fields that are NULL or false are left to heed.models.load. */
typedef struct heed_model_options {
  const char *device, *dtype;
  const char *quantize;             /* a type of blocks for matrices, "q8_0" */
  bool mapped;                      /* weights are views of the file */
} heed_model_options;

/* The model of a directory; options: NULL for none. */
HEED_API heed_model *heed_model_load (heed_models *all, const char *path,
                                      const heed_model_options *options);
HEED_API void heed_model_drop (heed_model *model);

/* How many tokens the model sees in a text, with those that it wants around it, even if it takes
   no more than the first of them; -1: a failure. */
HEED_API int64_t heed_model_tokens (heed_model *model, heed_text text);

/* Fields that are 0 are as the directory says. */
typedef struct heed_embed_options {
  const char *prompt;               /* the name of one of the directory's */
  bool plain;                       /* no prompt, where the directory has a default */
  int64_t dims;                     /* the first numbers of each vector alone */
  int64_t batch;                    /* texts at once */
} heed_embed_options;

/* Vectors of n texts, (n, D); options: NULL for none. */
HEED_API heed_tensor *heed_model_embed (heed_model *model, const heed_text *texts, int64_t n,
                                        const heed_embed_options *options);
/* How well each of n texts answers a query, (n), by a reranker. */
HEED_API heed_tensor *heed_model_score (heed_model *model, heed_text query,
                                        const heed_text *texts, int64_t n);

/* The name of a class, from 0 on; NULL: there is none. It stays as long as the model. */
HEED_API const char *heed_model_label (heed_model *model, int64_t number);

/* The class of a text or, by a model of tokens, of one of its tokens. */
typedef struct heed_class {
  int64_t text;                     /* the text's position in the list, from 0 on */
  size_t at, n;                     /* where the token's bytes begin, and how many; or all */
  const char *label;                /* of the class that is most probable */
  double probability;               /* that of this class */
  const double *probabilities;      /* those of all classes */
} heed_class;

/* One class more, which stays until the function returns; 'false' ends the call, no failure. */
typedef bool heed_classes (void *self, const heed_class *found);

/* The classes of n texts, in their order; with each a second one, where the model takes pairs. */
HEED_API bool heed_model_classify (heed_model *model, const heed_text *texts,
                                   const heed_text *pairs, int64_t n, heed_classes *classes,
                                   void *self);

/* Fields that are 0 are as the directory says, or as heed.generate has them. */
typedef struct heed_generate_options {
  int64_t max;                      /* new tokens at the most */
  bool greedy;                      /* the likeliest token each time */
  double temperature, top_p, min_p, repetition_penalty;
  int64_t top_k;
  int64_t seed;                     /* of a generator for this call alone */
  const char *const *stop;          /* texts that end it, with NULL behind them */
} heed_generate_options;

/* Text that is new, in whole characters; 'false' ends the generation, which is no failure. */
typedef bool heed_words (void *self, const char *text, size_t n);

/* Continues a text, piece by piece; options: NULL for none. */
HEED_API bool heed_model_generate (heed_model *model, heed_text prompt,
                                   const heed_generate_options *options, heed_words *words,
                                   void *self);

typedef struct heed_message {
  const char *role;                 /* "system", "user", "assistant" */
  heed_text content;
} heed_message;

/* Answers the last of n messages, by the directory's template; options: NULL for none. */
HEED_API bool heed_model_chat (heed_model *model, const heed_message *messages, int64_t n,
                               const heed_generate_options *options, heed_words *words,
                               void *self);

#ifdef __cplusplus
}
#endif

#endif
