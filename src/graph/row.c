/*
** row.c - the table of operations, which is handed down when a context opens.
*/

#include "graph/row.h"


bool graph_open (heed_context *cx, const struct op_row *rows) {
  cx->graph = core_alloc(cx, sizeof *cx->graph);
  if (cx->graph == NULL) return false;
  *cx->graph = (graph_state){.rows = rows};
  return true;
}


void graph_close (heed_context *cx) {
  graph_state *s = cx->graph;
  if (s == NULL) return;
  core_free(cx, s->temporaries.list,
            (size_t)s->temporaries.capacity * sizeof *s->temporaries.list);
  core_free(cx, s, sizeof *s);
  cx->graph = NULL;
}


const heed_signature *heed_describe (heed_context *cx, heed_op op) {
  if (cx == NULL) return NULL;
  if ((unsigned)op >= HEED_NOPS)
    return core_fail(cx, "heed", "there is no operation %d; they end at %d", (int)op,
                     HEED_NOPS - 1);
  return op_signature(cx, op);
}
