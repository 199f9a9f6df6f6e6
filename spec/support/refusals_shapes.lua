-- Wrong calls and what they raise, as in spec/support/refusals.lua: shapes that do not go together,
-- are too large, or have too many dimensions.

local heed = require "heed"

local ones8 = heed.ones(1, 1, 1, 1, 1, 1, 1, 1)
local none = heed.zeros({0}, {dtype = "int64"})
local ids = heed.ones({4, 3}, {dtype = "int64"})
local list = heed.ones({8}, {dtype = "int64"})

local most = heed.zeros(1, 0):expand((1 << 60) - 1, 0)                   -- no element at all

local function zeros(...) return heed.zeros{...} end
local function near(t) return heed.tensor(t, {device = "cpu"}) end       -- values are checked there

-- Rows without memory of their own.
local function wide(...) return heed.zeros(1):expand(...) end

local function refused(what, q, k, v)
  return {heed.attention, {zeros(table.unpack(q)), zeros(table.unpack(k)), zeros(table.unpack(v))},
          ("attention: shapes (%s) of 'query', (%s) of 'key' and (%s) of 'value' do not fit: %s")
          :format(table.concat(q, ", "), table.concat(k, ", "), table.concat(v, ", "), what)}
end

return {
  refused("batches differ", {2, 1, 3, 4}, {3, 1, 3, 4}, {3, 1, 3, 4}),
  refused("batches differ", {2, 1, 3, 4}, {2, 1, 3, 4}, {3, 1, 3, 4}),
  refused("batches differ", {2, 1, 3, 4}, {3, 1, 3, 4}, {2, 1, 3, 4}),
  refused("keys and values have not as many heads", {2, 2, 3, 4}, {2, 2, 3, 4}, {2, 1, 3, 4}),
  refused("keys and values have not as many heads", {2, 4, 3, 4}, {2, 2, 3, 4}, {2, 4, 3, 4}),
  refused("the heads of queries are no multiple of those of keys", {2, 3, 3, 4}, {2, 2, 3, 4},
          {2, 2, 3, 4}),
  refused("there are not as many keys as values", {2, 2, 3, 4}, {2, 2, 3, 4}, {2, 2, 4, 4}),
  refused("queries and keys are not of one size", {2, 2, 3, 4}, {2, 2, 3, 5}, {2, 2, 3, 4}),
  {heed.cat, {{heed.tensor(1.0), heed.tensor(2.0)}},
   "cat: argument 'tensors': tensor 1 has rank 0; use stack"},
  {heed.cat, {{zeros(1), heed.tensor(2.0)}},
   "cat: argument 'tensors': tensor 2 has rank 0; use stack"},
  {heed.cat, {{wide(1 << 59), wide(1 << 59)}},
   "cat: argument 'tensors': a shape of (1152921504606846976) has too many elements"},
  {heed.cat, {{most, most, most, most, most, most, most, most, most}},
   "cat: argument 'tensors': together they have too many elements"},
  {heed.constant_pad_nd, {zeros(1, 1), {1 << 40, 0, 1 << 40, 0}},
   "constant_pad_nd: argument 'pad': too many elements"},
  {heed.tile, {zeros(2), {1, 1, 1, 1, 1, 1, 1, 1, 1}},
   "tile: argument 'dims': at most 8 dimensions, got 9"},
  {heed.expand, {zeros(1, 1), {1 << 40, 1 << 40}},
   "expand: argument 'size': a shape of (1099511627776, 1099511627776) has too many elements"},
  {heed.softmax, {zeros(2), 1, "int64"},
   "softmax: argument 'dtype': a float type expected, got int64"},
  {heed.log_softmax, {zeros(2), 1, "bool"},
   "log_softmax: argument 'dtype': a float type expected, got bool"},
  {heed.frombytes, {"", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
   "frombytes: argument 'shape': at most 8 dimensions, got 9"},
  {heed.frombytes, {"", {1, 1, 1, 1, 1, 1, 1, 1}},
   "frombytes: 4 bytes expected for this shape and float32, got 0"},
  {heed.frombytes, {"", {1 << 40, 1 << 40}},
   "frombytes: argument 'shape': too many elements"},
  {heed.frombytes, {"", {1 << 59}}, "frombytes: argument 'shape': too many elements"},
  {heed.frombytes, {"", {1 << 58}},
   "frombytes: 1152921504606846976 bytes expected for this shape and float32, got 0"},
  {heed.frombytes, {"", {2, -1}},
   "frombytes: argument 'shape': sizes of at least 0 expected, got -1"},
  {heed.topk, {heed.tensor(1.0), 0},
   "topk: argument 'k': 0 elements do not stand along dimension 1 of size 1"},
  {heed.stack, {{ones8, ones8}},
   "stack: argument 'tensors': tensors of rank 8 cannot be stacked"},
  {heed.einsum, {"..i,..i->", zeros(2), zeros(2)},
   "einsum: '..i,..i->': dots come in threes, once for each operand"},
  {heed.einsum, {".i.->i", zeros(2)},
   "einsum: '.i.->i': dots come in threes, once for each operand"},
  {heed.einsum, {".j.i->i", zeros(2, 2)},
   "einsum: '.j.i->i': dots come in threes, once for each operand"},
  {heed.einsum, {"...i...,i->i", zeros(2), zeros(2)},
   "einsum: '...i...,i->i': dots come in threes, once for each operand"},
  {heed.einsum, {"i->j->k", zeros(2)}, "einsum: 'i->j->k': one result expected"},
  {heed.einsum, {"abcde,fghi->abcdefghi", zeros(1, 1, 1, 1, 1), zeros(1, 1, 1, 1)},
   "einsum: 'abcde,fghi->abcdefghi': a result has at most 8 dimensions"},
  {heed.one_hot, {none},
   "one_hot: argument 'num_classes': without labels, the number of classes must be given"},
  {heed.one_hot, {list, 1 << 60},
   "one_hot: argument 'num_classes': 1152921504606846976 classes are too many elements"},
  {heed.matmul, {zeros(2, 3, 4), zeros(3, 4, 5)},
   "matmul: shapes (2, 3, 4) of 'input' and (3, 4, 5) of 'other' do not fit: "
   .. "the dimensions before the last two do not broadcast"},
  {heed.matmul, {wide(1 << 31, 1), wide(1, 1 << 33)},
   "matmul: shapes (2147483648, 1) of 'input' and (1, 8589934592) of 'other' do not fit: "
   .. "the result has too many elements"},
  {heed.matmul, {wide(1 << 20, 1, 1 << 30, 1), wide(1 << 20, 1, 1, 1 << 20)},
   "matmul: shapes (1048576, 1, 1073741824, 1) of 'input' and (1048576, 1, 1, 1048576) of 'other' "
   .. "do not fit: the result has too many elements"},
  {heed.dot, {zeros(3), zeros(4)},
   "dot: shapes (3) of 'input' and (4) of 'other' do not fit: they are of different lengths"},
  {heed.multinomial, {near{1.0, math.huge}, 1},
   "multinomial: argument 'input': row 1 is not finite"},
  {heed.multinomial, {near{{1.0, 0.0}, {0.0, 0.0}}, 1},
   "multinomial: argument 'input': row 2 has no weight"},
  {heed.multinomial, {near{{1.0, 1.0}, {1.0, 0.0}}, 2},
   "multinomial: argument 'num_samples': 2 draws without replacement from 1 weights above 0 in "
   .. "row 2"},
  {heed.multinomial, {near{1.0, 1.0}, 1 << 62, true},
   "multinomial: argument 'num_samples': 4611686018427387904 draws are too many elements"},
  {heed.diag_embed, {zeros(2, 3), 0, 2, 2},
   "diag_embed: argument 'dim2': dimension 2 is named twice"},
  {heed.diag_embed, {zeros(2), 0, 5, 2},
   "diag_embed: argument 'dim1': dimension 5 of a tensor of rank 2; there are 1 to 2, or -1 to -2"},
  {heed.diag_embed, {zeros(2), 0, 1, 5},
   "diag_embed: argument 'dim2': dimension 5 of a tensor of rank 2; there are 1 to 2, or -1 to -2"},
  {heed.diag_embed, {zeros(2), math.maxinteger},
   "diag_embed: argument 'offset': too many elements"},
  {heed.diag_embed, {zeros(2), math.mininteger},
   "diag_embed: argument 'offset': too many elements"},
  {heed.diag_embed, {zeros(2), 1 << 32},
   "diag_embed: argument 'offset': too many elements"},
  {heed.unflatten, {ones8, 1, {1, 1}},
   "unflatten: argument 'sizes': a result of rank 9; there are at most 8 dimensions"},
  {heed.view, {zeros(0), {-1, 0}}, "view: argument 'size': -1 in (-1, 0) may be any size"},
  {heed.reshape, {zeros(0), {0, -1}}, "reshape: argument 'shape': -1 in (0, -1) may be any size"},
  {heed.take_along_dim, {zeros(2, 3), ids, 2},
   "take_along_dim: argument 'indices': positions of shape (4, 3) do not broadcast to (2, 3) "
   .. "beside dimension 2"},
  {function() return ones8[heed.ones({1, 1}, {dtype = "int64"})] end, {},
   "index: argument 'indices': a result of rank 9; there are at most 8 dimensions"},
  {function() return wide(2, 1 << 57)[{list}] end, {},
   "index: argument 'indices': a result of shape (8, 144115188075855872) has too many elements"},
}
