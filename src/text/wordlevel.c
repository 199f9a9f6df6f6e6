/*
** wordlevel.c - WordLevel: a word is a token, or unknown.
*/

#include <string.h>

#include "memory/failure.h"
#include "text/tokenizer.h"


bool wordlevel_read (heed_tokenizer *t, const json *j, const json_value *model) {
  const json_value *name = json_get(j, model, "unk_token");
  bool given = json_kind_is(name, HEED_JSON_TEXT);
  t->cut = wordlevel_cut;
  t->unknown = given ? table_find(t, &t->by_name, json_text(j, name), name->length) : NO_ID;
  return own_read(t, &t->by_raw, (span){"", 0});
}


bool wordlevel_cut (heed_tokenizer *t, const char *word, size_t n) {
  uint32_t id = table_find(t, &t->by_raw, word, n);
  if (id == NO_ID || !may_be(t, id)) id = t->unknown;
  t->slices.n = 0;
  if (id != NO_ID) return give_slice(t, id, (uint32_t)n);
  int shown = n < 60 ? (int)n : 60;
  core_fail(t->cx, NULL, "the WordLevel model: a word of the vocabulary, or an unk_token in it, "
            "expected, got '%.*s'", shown, word);
  return false;
}
