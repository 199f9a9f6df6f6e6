/*
** arguments.c - what a host gives becomes the arguments that do_ functions read: one of each
** parameter's kind, with defaults filled in.
*/

#include <math.h>
#include <string.h>

#include "graph/call.h"
#include "graph/make.h"
#include "graph/record.h"
#include "tensor/capture.h"


static const char *kind_name (const heed_value *v) {
  static const char *const names[] = {"nothing", "a tensor", "a whole number", "a number",
                                      "a bool", "a list", "a list of tensors", "a text"};
  return names[v->kind];
}


static void *wrong_kind (heed_context *cx, const op_row *row, const heed_parameter *p,
                         const heed_value *v, const char *wanted) {
  return core_fail_at(cx, row->signature.name, p->name, "%s expected, got %s", wanted,
                      kind_name(v));
}


/* Blocks are no values: a row says which of its arguments may be of such a type. */
static bool accept_blocks (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_type type) {
  if (!scalar_is_block(type) || row->blocks >> (p - row->signature.parameter) & 1) return true;
  if (p->want == HEED_WANT_DTYPE)
    return core_fail_at(cx, row->signature.name, p->name, "a type of values expected, got %s, "
                        "which heed.quantize makes of a tensor", scalar_names[type]);
  return core_fail_at(cx, row->signature.name, p->name, "values expected, got blocks of type %s; "
                      "x:to(\"float32\")", scalar_names[type]);
}


static bool accept_tensor (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_value *v) {
  heed_tensor *t = NULL;
  switch (v->kind) {
    case HEED_TENSOR: t = v->tensor; break;
    case HEED_FLAG: t = op_hold(cx, heed_bool(cx, v->integer != 0)); break;
    case HEED_INTEGER: t = op_integer(cx, v->integer); break;
    case HEED_FLOAT: t = op_float(cx, v->number); break;
    case HEED_NONE: case HEED_LIST: case HEED_TENSORS: case HEED_TEXT:
      return wrong_kind(cx, row, p, v, "a tensor") != NULL;
  }
  if (t == NULL) return false;     /* a NULL that was passed on: its message stands */
  if (t->cx != cx)
    return core_fail(cx, row->signature.name, "argument '%s' belongs to another context", p->name);
  *v = heed_t(t);
  return accept_blocks(cx, row, p, t->type) && capture_input(cx, t);
}


static bool accept_tensors (heed_context *cx, const op_row *row, const heed_parameter *p,
                            const heed_value *v) {
  if (v->kind != HEED_TENSORS) return wrong_kind(cx, row, p, v, "a list of tensors") != NULL;
  for (int i = 0; i < v->n; i++) {
    if (v->tensors[i] != NULL && v->tensors[i]->cx != cx)
      return core_fail(cx, row->signature.name, "entry %d of '%s' belongs to another context",
                       i + 1, p->name);
    if (v->tensors[i] != NULL && !accept_blocks(cx, row, p, v->tensors[i]->type)) return false;
    if (!capture_input(cx, v->tensors[i])) return false;
  }
  return true;
}


static bool accept_integer (heed_context *cx, const op_row *row, const heed_parameter *p,
                          heed_value *v) {
  if (v->kind == HEED_INTEGER || v->kind == HEED_FLAG) return true;
  if (v->kind == HEED_FLOAT && v->number == floor(v->number) && fabs(v->number) < 0x1p62) {
    *v = heed_i((int64_t)v->number);
    return true;
  }
  if (v->kind == HEED_FLOAT)
    return core_fail_at(cx, row->signature.name, p->name, "a whole number expected, got %g",
                        v->number);
  return wrong_kind(cx, row, p, v, "a whole number") != NULL;
}


static bool accept_list (heed_context *cx, const op_row *row, const heed_parameter *p,
                         heed_value *v) {
  if (v->kind == HEED_LIST) return true;
  if (v->kind == HEED_INTEGER && p->want == HEED_WANT_AXES) {
    int64_t axis = v->integer;     /* one axis may stand for a list of one: kept as an integer */
    *v = heed_i(axis);
    return true;
  }
  return wrong_kind(cx, row, p, v, "a list") != NULL;
}


/* The number of 'word' among "mean|sum|none", or -1. */
static int choice_number (const char *words, const char *word) {
  size_t length = strlen(word);
  for (int i = 0; ; i++) {
    size_t n = strcspn(words, "|");
    if (n == length && memcmp(words, word, n) == 0) return i;
    if (words[n] == '\0') return -1;
    words += n + 1;
  }
}


static bool accept_choice (heed_context *cx, const op_row *row, const heed_parameter *p,
                           heed_value *v) {
  if (v->kind == HEED_INTEGER) return true;
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a word") != NULL;
  int number = choice_number(p->words, v->text);
  if (number < 0)
    return core_fail_at(cx, row->signature.name, p->name, "one of %s expected, got '%.40s'",
                        p->words, v->text);
  *v = heed_i(number);
  return true;
}


static bool accept_type (heed_context *cx, const op_row *row, const heed_parameter *p,
                         heed_value *v) {
  heed_type type;
  if (v->kind == HEED_INTEGER && v->integer >= 0 && v->integer < HEED_ALL_TYPES &&
      v->integer != HEED_NTYPES)
    return accept_blocks(cx, row, p, (heed_type)v->integer);
  if (v->kind != HEED_TEXT) return wrong_kind(cx, row, p, v, "a type") != NULL;
  if (!heed_type_find(v->text, &type))
    return core_fail_at(cx, row->signature.name, p->name, "no type is called '%.40s'", v->text);
  *v = heed_i(type);
  return accept_blocks(cx, row, p, type);
}


static bool accept_number (heed_context *cx, const op_row *row, const heed_parameter *p,
                           const heed_value *v) {
  if (v->kind == HEED_FLOAT || v->kind == HEED_INTEGER) return true;
  return wrong_kind(cx, row, p, v, "a number") != NULL;
}


/* Makes v what the parameter wants, or fails. */
static bool accept (heed_context *cx, const op_row *row, const heed_parameter *p, heed_value *v) {
  if (v->kind == HEED_NONE) {
    *v = p->value;
    if (v->kind != HEED_NONE || p->optional) return true;
    return core_fail(cx, row->signature.name, "argument '%s' is missing", p->name);
  }
  switch (p->want) {
    case HEED_WANT_TENSOR: return accept_tensor(cx, row, p, v);
    case HEED_WANT_TENSORS: return accept_tensors(cx, row, p, v);
    case HEED_WANT_NUMBER: return accept_number(cx, row, p, v);
    case HEED_WANT_AXES: case HEED_WANT_SHAPE: return accept_list(cx, row, p, v);
    case HEED_WANT_CHOICE: return accept_choice(cx, row, p, v);
    case HEED_WANT_DTYPE: return accept_type(cx, row, p, v);
    case HEED_WANT_TEXT:
      return v->kind == HEED_TEXT || wrong_kind(cx, row, p, v, "a text") != NULL;
    case HEED_WANT_COUNT: case HEED_WANT_POSITION: case HEED_WANT_AXIS: case HEED_WANT_FLAG:
      return accept_integer(cx, row, p, v);
  }
  return false;
}


/* A tensor of this context, which 'accept' leaves as it is: most arguments. */
static bool is_plain (const heed_context *cx, const heed_parameter *p, const heed_value *v) {
  return v->kind == HEED_TENSOR && p->want == HEED_WANT_TENSOR && v->tensor != NULL &&
         v->tensor->cx == cx && !scalar_is_block(v->tensor->type) && !capture_watches(cx);
}


/* The arguments as do_ functions see them; args holds all parameters. */
bool call_accept (heed_context *cx, heed_op op, const heed_value *given, int n,
                        heed_value *args) {
  const op_row *row = op_row_of(cx, op);
  const heed_signature *signature = op_signature(cx, op);
  if (n > signature->parameters)
    return core_fail(cx, signature->name, "at most %d arguments expected, got %d",
                     signature->parameters, n);
  for (int i = 0; i < signature->parameters; i++) {
    const heed_parameter *p = &signature->parameter[i];
    args[i] = i < n ? given[i] : heed_none();
    if (!is_plain(cx, p, &args[i]) && !accept(cx, row, p, &args[i])) return false;
  }
  return true;
}
