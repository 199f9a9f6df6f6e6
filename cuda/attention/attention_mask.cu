/*
** attention_mask.cu - what is known of attention's mask before its kernels run.
*/

#include "cuda/attention/attention_mask.h"

#define MASK_THREADS 256


/*
** {==================================================================
** The tree for kernels: numbers that fit an int, and mean what they did
** ===================================================================
*/

static int64_t within (int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

/* Differences of positions and of blocks are between -2^31 and 2^31. */
static int as_limit (int64_t x) { return (int)within(x, -INT32_MAX, INT32_MAX); }


/*
** Whole blocks of the offset move the limits. A size beyond all queries and keys is cut, and the
** rest of the offset with it, so that the same query is the first of its block.
*/
static void count_blocks (mask_step *s, const mask_node *node, int64_t most) {
  const int64_t far = 1ll << 40;               /* and too large for sums to wrap */
  int64_t rest = node->offset % node->size;
  if (rest < 0) rest += node->size;
  const int64_t blocks = within((node->offset - rest) / node->size, -far, far);
  s->low = as_limit(within(node->low, -far, far) + blocks);
  s->high = as_limit(within(node->high, -far, far) + blocks);
  s->size = (int)within(node->size, 1, most);
  s->offset = (int)within(rest - (node->size - s->size), 0, rest);
}


static void step_of_dense (mask_step *, const mask_node *, int64_t) {}

static void step_of_band (mask_step *s, const mask_node *node, int64_t) {
  s->low = as_limit(node->low);
  s->high = as_limit(node->high);
}

static void step_of_lengths (mask_step *s, const mask_node *node, int64_t) {
  s->high = as_limit(node->high);
}

static void step_of_documents (mask_step *s, const mask_node *node, int64_t) {
  s->offset = as_limit(node->offset);
}

static void step_of_blocks (mask_step *s, const mask_node *node, int64_t most) {
  count_blocks(s, node, most);
}

static void step_of_every (mask_step *s, const mask_node *node, int64_t) {
  s->size = as_limit(node->size);
  s->offset = as_limit(node->offset);
}


/* 'most': of T and S, the larger. */
static mask_step step_of (const mask_node *node, int64_t most) {
  mask_step s = {};
  s.kind = node->kind;
  if (mask_has_operand(s.kind)) s.operand = node->operand - ATTENTION_MASK;
  switch (s.kind) {
#define LEAF(NAME, name, ...) case MASK_##NAME: step_of_##name(&s, node, most); break;
#define JOIN(NAME, ...) case MASK_##NAME:
#include "op/masks.def"
    case MASK_KINDS: break;
  }
  s.by = divisor_of(s.size);
  return s;
}


/* Of two operands the one that needs the deeper stack comes first: see MASK_DEPTH. */
typedef struct ordering {
  int first[MASK_NODES], depth[MASK_NODES];    /* of the tree below a node: its first node */
  int n, node[MASK_NODES];                     /* the nodes in their new order */
} ordering;

static void put_in_order (ordering *o, const mask_node *node, int k) {
  const mask_kind kind = node[k].kind;
  if (kind == MASK_NOT) put_in_order(o, node, k - 1);
  if (kind == MASK_AND || kind == MASK_OR) {
    const int right = k - 1, left = o->first[right] - 1;
    const bool swapped = o->depth[right] > o->depth[left];
    put_in_order(o, node, swapped ? right : left);
    put_in_order(o, node, swapped ? left : right);
  }
  o->node[o->n++] = k;
}

static ordering order_of (const struct mask *tree) {
  ordering o = {};
  for (int k = 0; k < tree->n; k++) {
    const mask_kind kind = tree->node[k].kind;
    o.first[k] = k;
    o.depth[k] = 1;
    if (kind == MASK_NOT) {
      o.first[k] = o.first[k - 1];
      o.depth[k] = o.depth[k - 1];
    }
    if (kind == MASK_AND || kind == MASK_OR) {
      const int right = k - 1, left = o.first[right] - 1;
      o.first[k] = o.first[left];
      o.depth[k] = max(max(o.depth[left], o.depth[right]),
                       min(o.depth[left], o.depth[right]) + 1);
    }
  }
  if (tree->n > 0) put_in_order(&o, tree->node, tree->n - 1);
  return o;
}


attend_mask cuda_mask_of (const work *w) {
  attend_mask m = {};
  const struct mask *tree = &w->attention.mask;
  const ordering order = order_of(tree);
  const int64_t T = w->in[ATTENTION_Q].at.size[2], S = w->in[ATTENTION_K].at.size[2];
  m.n = tree->n;
  m.T = as_limit(T);
  m.S = as_limit(S);
  for (int i = 0; i < m.n; i++) {
    const mask_node *node = &tree->node[order.node[i]];
    m.step[i] = step_of(node, max(max(T, S), (int64_t)1));
    if (mask_has_operand(m.step[i].kind))
      m.in[m.step[i].operand] = head_operand_of(&w->in[node->operand]);
  }
  return m;
}

/* }================================================================== */


KERNEL find_bad_length (const int64_t *length, int64_t step, int64_t n, int64_t most, faults f) {
  for (int64_t b = first_index(); b < n; b += index_step()) {
    const int64_t x = length[b * step];
    if (x < 0 || x > most) report(f, FAULT_LENGTH, 0, b + 1, x, most);
  }
}


const char *cuda_check_lengths (cuda *self, const attend_mask *m, int64_t B) {
  const char *why = NULL;
  for (int i = 0; i < m->n && why == NULL; i++) {
    if (m->step[i].kind != MASK_LENGTHS) continue;
    const head_operand &o = m->in[m->step[i].operand];
    const int64_t n = o.stride[0] != 0 ? B : min(B, (int64_t)1);
    const int64_t most = m->step[i].high < INT32_MAX ? m->step[i].high : INT64_MAX;
    const int threads = cuda_threads(n, MASK_THREADS);
    why = launch(self, cuda_blocks(self, n, MASK_THREADS), threads, 0, find_bad_length,
                 (const int64_t *)o.data, o.stride[0], n, most, cuda_faults(self));
  }
  return why;
}


/* A warp for the 'side' keys of a tile. */
KERNEL find_ids (head_operand o, id_range *ids, int64_t n, int tiles, int S, int side) {
  for (int64_t at = first_index() / 32; at < n; at += index_step() / 32) {
    const int64_t *id = (const int64_t *)o.data + at / tiles * o.stride[0];
    const int first = (int)(at % tiles) * side, end = min(first + side, S);
    id_range range = {INT64_MAX, INT64_MIN};
    for (int j = first + lane_of(); j < end; j += 32) {
      const int64_t x = id[j * o.stride[1]];
      range = id_range{min(range.least, x), max(range.most, x)};
    }
    range = id_range{warp_reduce(smaller(), range.least), warp_reduce(larger(), range.most)};
    if (lane_of() == 0) ids[at] = range;
  }
}


/* 'side' is a power of 2. */
const char *cuda_find_ids (cuda *self, attend_mask *m, int64_t B, int side) {
  const char *why = NULL;
  for (m->side_bits = 0; 1 << m->side_bits < side;) m->side_bits++;
  m->tiles = (m->S + side - 1) / side;
  const int64_t n = B * m->tiles;
  for (int i = 0; i < m->n && why == NULL; i++) {
    const int operand = m->step[i].operand;
    if (m->step[i].kind != MASK_DOCUMENTS || m->ids[operand] != NULL) continue;
    m->ids[operand] = (id_range *)cuda_scratch(self, (size_t)n * sizeof(id_range));
    if (m->ids[operand] == NULL) return cuda_no_memory;
    why = launch(self, cuda_blocks(self, n * 32, MASK_THREADS), dim3(MASK_THREADS), 0, find_ids,
                 m->in[operand], m->ids[operand], n, m->tiles, m->S, side);
  }
  return why;
}
