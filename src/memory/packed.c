/*
** packed.c - second copies of weights. A copy takes as much memory as the weight, and is a gift:
** where there is no memory for it, products read the weight as it lies.
*/

#include "memory/context.h"
#include "memory/packed.h"

static packed_copy **entry_of (heed_context *cx, const void *from) {
  const uintptr_t at = (uintptr_t)from / 64;
  return &cx->storages.packed->entry[(at ^ at / PACKED_ENTRIES) % PACKED_ENTRIES];
}


static void forget (packed_copy *p) {
  if (p->data == NULL) return;
  storage_give_data(p->of->cx, p->of->where, p->data, p->bytes);
  p->of->cx->storages.account.live -= p->bytes;
  p->data = NULL;
}


static void destroy (packed_copy *p) {
  forget(p);
  core_free(p->of->cx, p, sizeof *p);
}


static packed_table *table_of (heed_context *cx) {
  if (cx->storages.packed != NULL) return cx->storages.packed;
  packed_table *table = core_alloc(cx, sizeof *table);
  if (table != NULL) *table = (packed_table){{NULL}};
  return cx->storages.packed = table;
}


packed_copy *packed_find (const storage *s, const void *from) {
  if (!s->packed) return NULL;
  packed_copy *p = *entry_of(s->cx, from);
  while (p != NULL && (p->of != s || p->from != from)) p = p->next;
  return p;
}


bool packed_ask (storage *s, const void *from) {
  heed_context *cx = s->cx;
  if (!s->where->host || packed_find(s, from) != NULL) return true;
  if (table_of(cx) == NULL) return false;
  packed_copy *p = core_alloc(cx, sizeof *p);
  if (p == NULL) return false;
  packed_copy **entry = entry_of(cx, from);
  *p = (packed_copy){.next = *entry, .of = s, .from = from};
  *entry = p;
  s->packed = true;
  return true;
}


void packed_drop (storage *s) {
  packed_table *table = s->cx->storages.packed;
  s->packed = false;
  for (int i = 0; i < PACKED_ENTRIES; i++)
    for (packed_copy **at = &table->entry[i], *p; (p = *at) != NULL;) {
      if (p->of != s) { at = &p->next; continue; }
      *at = p->next;
      destroy(p);
    }
}


void packed_close (heed_context *cx) {
  core_free(cx, cx->storages.packed, sizeof *cx->storages.packed);
  cx->storages.packed = NULL;
}


void *packed_data (const packed_copy *p, const packed_key *key) {
  const packed_key *k = &p->key;
  const bool good = p->data != NULL && p->version == p->of->version && k->from == key->from
                    && k->by == key->by && k->rows == key->rows && k->columns == key->columns
                    && k->size == key->size;
  return good ? p->data : NULL;
}


void *packed_renew (packed_copy *p, const packed_key *key, size_t bytes) {
  heed_context *cx = p->of->cx;
  if (key->from != p->from) return NULL;
  p->key = (packed_key){0};
  if (p->data != NULL && p->bytes == bytes) return p->data;
  forget(p);
  if (!account_fits(&cx->storages.account, bytes)) return NULL;
  const bool before = heed_memory_lasting(cx, true);     /* the copy shares huge pages */
  p->data = storage_take_data(cx, p->of->where, bytes);
  heed_memory_lasting(cx, before);
  if (p->data == NULL) return NULL;
  p->bytes = bytes;
  cx->storages.account.live += bytes;
  account_note_peak(&cx->storages.account);
  return p->data;
}


void packed_done (packed_copy *p, const packed_key *key) {
  p->version = p->of->version;
  p->key = *key;
}
