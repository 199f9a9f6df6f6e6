/*
** attention_plain.c - attention and its gradients as the formulas have them, in double; and the
** CPU's kernels held to that: each way that they take, at each level, on shapes at random.
**
** Read this before src/cpu/attention: the kernels there compute nothing else.
*/

#include "attention_cases.h"

typedef struct attention {           /* all dense and row-major */
  int64_t B, H, Hk, T, S, D, Dv;     /* batches, heads of q and of k, queries, keys, widths */
  double scale, softcap;             /* softcap 0: none */
  const double *q, *k, *v;           /* (B, H, T, D), (B, Hk, S, D), (B, Hk, S, Dv) */
  const double *bias, *relative;     /* (B, H, T, S), (H, T + S - 1) */
  const double *kept;                /* (B, H, T, S): of dropout, 0 or 1 / (1 - p) */
  const uint8_t *may;                /* (B, H, T, S): may query i attend to key j? */
  double *y, *lse, *weights;         /* (B, H, T, Dv), (B, H, T), (B, H, T, S) */
  const double *dy, *dlse;           /* the gradients of y and lse, for those of the others: */
  double *dq, *dk, *dv;              /* as q, k and v; they begin as 0 */
  double *dbias, *drelative;         /* (B, H, T, S), (B, H, T + S - 1) */
} attention;


static double dot (int64_t n, const double *a, const double *b) {
  double sum = 0;
  for (int64_t d = 0; d < n; d++) sum += a[d] * b[d];
  return sum;
}


/* The score of query i for key j, and its derivative by scale q k^T. */
static double score (const attention *a, int64_t b, int64_t h, int64_t i, int64_t j,
                     double *slope) {
  const int64_t row = (b * a->H + h) * a->T + i;                   /* of (B, H, T) */
  const int64_t key = (b * a->Hk + h / (a->H / a->Hk)) * a->S + j; /* of (B, Hk, S) */
  const double s = a->scale * dot(a->D, a->q + row * a->D, a->k + key * a->D);
  const double t = a->softcap == 0 ? 0 : tanh(s / a->softcap);
  *slope = 1 - t * t;
  return (a->softcap == 0 ? s : a->softcap * t) + a->bias[row * a->S + j]
         + a->relative[h * (a->T + a->S - 1) + i - j + a->S - 1];
}


/* y = softmax(score) v for query i; a key that is blocked is left out, whatever it holds. */
static void forward (const attention *a, int64_t b, int64_t h, int64_t i) {
  const int64_t row = (b * a->H + h) * a->T + i, hk = h / (a->H / a->Hk);
  const double *v = a->v + (b * a->Hk + hk) * a->S * a->Dv;        /* (S, Dv) */
  const double *kept = a->kept + row * a->S;                       /* (S) */
  const uint8_t *may = a->may + row * a->S;                        /* (S) */
  double *p = a->weights + row * a->S, *y = a->y + row * a->Dv;    /* (S), (Dv) */
  double top = -INFINITY, sum = 0, slope;
  for (int64_t j = 0; j < a->S; j++) {
    p[j] = may[j] ? score(a, b, h, i, j, &slope) : -INFINITY;
    top = fmax(top, p[j]);
  }
  for (int64_t j = 0; j < a->S; j++) sum += p[j] = may[j] ? exp(p[j] - top) : 0;
  for (int64_t e = 0; e < a->Dv; e++) y[e] = 0;
  for (int64_t j = 0; j < a->S; j++)
    if (may[j]) {
      p[j] *= kept[j] / sum;
      for (int64_t e = 0; e < a->Dv; e++) y[e] += p[j] * v[j * a->Dv + e];
    }
  a->lse[row] = top + log(sum);                /* -inf where nothing is attended to */
}


/* What query i adds to the gradients: from y and lse, with the weights computed again. */
static void backward (const attention *a, int64_t b, int64_t h, int64_t i) {
  const int64_t row = (b * a->H + h) * a->T + i, hk = h / (a->H / a->Hk);
  const double *q = a->q + row * a->D, *dy = a->dy + row * a->Dv;  /* (D), (Dv) */
  const double delta = dot(a->Dv, dy, a->y + row * a->Dv) - a->dlse[row];
  double *dq = a->dq + row * a->D;                                 /* (D) */
  double *drelative = a->drelative + (b * a->H + h) * (a->T + a->S - 1) + i + a->S - 1;
  for (int64_t j = 0; j < a->S; j++) {
    const int64_t pair = row * a->S + j, key = (b * a->Hk + hk) * a->S + j;
    const double *k = a->k + key * a->D, *v = a->v + key * a->Dv;  /* (D), (Dv) */
    double *dk = a->dk + key * a->D, *dv = a->dv + key * a->Dv;    /* (D), (Dv) */
    double slope;
    if (!a->may[pair]) continue;
    const double p = exp(score(a, b, h, i, j, &slope) - a->lse[row]);
    const double ds = p * (a->kept[pair] * dot(a->Dv, dy, v) - delta);
    a->dbias[pair] = ds;
    drelative[-j] += ds;
    for (int64_t d = 0; d < a->D; d++) dq[d] += a->scale * slope * ds * k[d];
    for (int64_t d = 0; d < a->D; d++) dk[d] += a->scale * slope * ds * q[d];
    for (int64_t e = 0; e < a->Dv; e++) dv[e] += p * a->kept[pair] * dy[e];
  }
}


static void each_query (const attention *a,
                        void (*run) (const attention *a, int64_t b, int64_t h, int64_t i)) {
  for (int64_t b = 0; b < a->B; b++)
    for (int64_t h = 0; h < a->H; h++)
      for (int64_t i = 0; i < a->T; i++) run(a, b, h, i);
}


/*
** {==================================================================
** The kernels' work as plain arrays
** ===================================================================
*/

static double *zeros (int64_t n) {
  double *x = make((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = 0;
  return x;
}

/* A copy of a view; n zeros of one that is none. */
static double *copied (const view *v, int64_t n) {
  double *x = zeros(n);
  for (int64_t i = 0; i < n && !view_is_none(v); i++) x[i] = get(v, i);
  return x;
}

static double *kept_pairs (const work *w, int64_t n) {
  double *x = zeros(n), p = w->attention.dropout;
  for (int64_t i = 0; i < n; i++)
    x[i] = p == 0 ? 1
         : philox_keeps(*(uint64_t *)w->in[ATTENTION_KEY].data, (uint64_t)i, p) ? 1 / (1 - p) : 0;
  return x;
}

/* Biases by distance are (H, T + S - 1), but none where T + S is 0. */
static int64_t distances (const shape *s) { return s->T + s->S > 0 ? s->T + s->S - 1 : 0; }

static attention plain_of (const work *w, const shape *s, view pairs) {
  const int64_t rows = s->B * s->H * s->T, keys = s->B * s->Hk * s->S;
  return (attention){
    .B = s->B, .H = s->H, .Hk = s->Hk, .T = s->T, .S = s->S, .D = s->D, .Dv = s->Dv,
    .scale = w->attention.scale, .softcap = w->attention.softcap,
    .q = copied(&w->in[ATTENTION_Q], rows * s->D), .k = copied(&w->in[ATTENTION_K], keys * s->D),
    .v = copied(&w->in[ATTENTION_V], keys * s->Dv),
    .bias = copied(&w->in[ATTENTION_BIAS], rows * s->S),
    .relative = copied(&w->in[ATTENTION_RELATIVE], s->H * distances(s)),
    .kept = kept_pairs(w, rows * s->S), .may = pairs.data,
    .y = zeros(rows * s->Dv), .lse = zeros(rows), .weights = zeros(rows * s->S),
    .dq = zeros(rows * s->D), .dk = zeros(keys * s->D), .dv = zeros(keys * s->Dv),
    .dbias = zeros(rows * s->S), .drelative = zeros(s->B * s->H * distances(s))
  };
}

/* The gradients begin with what a kernel made of y and lse, rounded as that is. */
static void take_results (attention *a, const work *w) {
  const int64_t rows = a->B * a->H * a->T;
  a->y = copied(&w->in[ATTENTION_OUTPUT], rows * a->Dv);
  a->lse = copied(&w->in[ATTENTION_LSE], rows);
  a->dy = copied(&w->in[ATTENTION_GRADIENT], rows * a->Dv);
  a->dlse = copied(&w->in[ATTENTION_GRADIENT_LSE], rows);
}

/* }================================================================== */


/*
** {==================================================================
** Cases
** ===================================================================
*/

static const char *const levels[] = {"base", "avx2", "avx512", "neon"};
static const int times = 5;          /* random cases of each shape and type */
static int tried, failed;

static void compare (const char *name, const char *level, const char *what, const view *v,
                     const double *plain, double tolerance) {
  const int64_t n = view_is_none(v) ? 0 : layout_numel(&v->at);
  const double scale = scale_of(HEED_FLOAT64, (const char *)plain, (size_t)n);
  tried++;
  for (int64_t i = 0; i < n; i++)
    if (!near(plain[i], get(v, i), tolerance, scale)) {
      printf("%s, %s: element %lld of %s is %.17g, not %.17g\n", name, level, (long long)i, what,
             get(v, i), plain[i]);
      failed++;
      return;
    }
}

static bool run (device *cpu, const char *name, const char *level, const work *w) {
  const char *why = cpu->run(cpu, w);
  failed += why != NULL;
  if (why != NULL) printf("%s, %s: %s\n", name, level, why);
  return why == NULL;
}

static void hold_forward (device *cpu, const char *name, const char *level, const work *w,
                          const attention *a, double most) {
  if (!run(cpu, name, level, w)) return;
  compare(name, level, "y", &w->out[ATTENTION_Y], a->y, most);
  compare(name, level, "lse", &w->out[ATTENTION_Y_LSE], a->lse, most);
  compare(name, level, "the weights", &w->out[ATTENTION_WEIGHTS], a->weights, most);
}

static void hold_backward (device *cpu, const char *name, const char *level, const work *w,
                           const attention *a, double most) {
  if (!run(cpu, name, level, w)) return;
  compare(name, level, "dq", &w->out[ATTENTION_DQ], a->dq, most);
  compare(name, level, "dk", &w->out[ATTENTION_DK], a->dk, most);
  compare(name, level, "dv", &w->out[ATTENTION_DV], a->dv, most);
  compare(name, level, "dbias", &w->out[ATTENTION_DBIAS], a->dbias, most);
  compare(name, level, "drelative", &w->out[ATTENTION_DRELATIVE], a->drelative, most);
}

/*
** At every level; the gradients follow from what the last of them gave. Where a weight may be 0 for
** a pair that is not blocked, no value is NaN: whether 0 times NaN is added is nowhere said. Where
** scores are steep, most gradients are what is left of numbers that nearly cancel.
*/
static void hold (heed_context *cx, shape s, options o) {
  const double steep = o.steep ? 1e4 : 1;
  if (o.drop || o.steep) o.bad = 0;
  device *cpu = cx->devices.list[0];
  work w;
  int64_t fewest;
  forwards(&w, &s, &o);
  const view pairs = allowed_pairs(&w, &s, &fewest);
  if (o.drop && fewest > 1) w.attention.dropout = 0.3;
  attention a = plain_of(&w, &s, pairs);
  each_query(&a, forward);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (heed_set_level(cx, levels[i]))
      hold_forward(cpu, name_of("attention", &s, &o, &w.attention.mask), levels[i], &w, &a,
                   tolerance(o.type));
  backwards(&w, &s, &o);
  take_results(&a, &w);
  each_query(&a, backward);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if (heed_set_level(cx, levels[i]))
      hold_backward(cpu, name_of("gradients", &s, &o, &w.attention.mask), levels[i], &w, &a,
                    tolerance_back(o.type) * steep);
  free_cases();
}

/* }================================================================== */


int main (void) {
  heed_context *cx = heed_open(NULL);
  for (int t = 0; t < 4; t++) {
    const heed_type type = float_types[t];
    EACH_SHAPE(s, attention_shapes) {
      hold(cx, *s, (options){.type = type, .weights = true});
      for (int k = 0; k < times; k++) {
        options o = some_options(type, s);
        o.steep = type == HEED_FLOAT64 && chance(0.5);
        hold(cx, *s, o);
      }
    }
    EACH_SHAPE(s, empty_shapes) hold(cx, *s, (options){.type = type, .weights = true});
  }
  printf("%d passed, %d failed\n", tried - failed, failed);
  free(made);
  heed_close(cx);
  return failed > 0;
}
