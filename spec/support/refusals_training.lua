-- Wrong calls of schedules, scalers, averages, caches and accuracy, as spec/support/refusals.lua
-- has them.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local x = heed.arange(12, {dtype = "float32"}):reshape(3, 4)
local cube = x:unsqueeze(1)
local ids, fours = heed.tensor{1, 2, 3}, heed.tensor{4, 4, 4, 4}
local nan, inf = 0 / 0, math.huge
local p = nn.Parameter(heed.ones(2))
local scaler, ema = optim.Scaler{}, optim.EMA({p})

-- A cache of three rows.
local function filled(o)
  local layer, cache = nn.MultiHeadAttention(4, 2), nn.Cache(o)
  heed.no_grad(function() layer(x:unsqueeze(2), {cache = cache, causal = true}) end)
  return cache
end

local grown, fixed = filled(), filled{capacity = 8}

-- A dimension 3 of two.
local function beyond(name, ...)
  return {heed[name], {...}, name .. ": argument 'dim': dimension 3 of a tensor of rank 2; there "
          .. "are 1 to 2, or -1 to -2"}
end

-- An argument of another rank than is expected.
local function ranked(name, argument, rank, shape, ...)
  return {heed[name], {...}, ("%s: argument '%s': a tensor of rank %s expected, got one of "
                              .. "shape %s"):format(name, argument, rank, shape)}
end

-- A call with integers as an argument that is of a float type.
local function integers(name, argument, ...)
  return {heed[name], {...}, ("%s: argument '%s': a float type expected, got int64; "
                              .. 'x:to("float32")'):format(name, argument)}
end


return {
  {optim.cosine, {}, "optim.cosine: a whole number of at least 1 expected as steps, got nil"},
  {optim.cosine, {1.5}, "optim.cosine: a whole number of at least 1 expected as steps, got 1.5"},
  {optim.cosine, {5, {mn = 1}}, "optim.cosine: unknown option 'mn'; there are min"},
  {optim.cosine, {5, {min = "a"}},
   "optim.cosine: a number expected as option min, got the string 'a'"},
  {optim.cosine, {5, {}, 3}, "optim.cosine: at most 2 arguments expected, got 3 as argument 3"},
  {optim.linear, {0}, "optim.linear: a whole number of at least 1 expected as steps, got 0"},
  {optim.linear, {5, {form = 1}}, "optim.linear: unknown option 'form'; did you mean 'from'?"},
  {optim.linear, {5, {to = true}}, "optim.linear: a number expected as option to, got true"},
  {optim.linear, {5, nil, 3}, "optim.linear: at most 2 arguments expected, got 3 as argument 3"},
  {optim.step, {-1}, "optim.step: a whole number of at least 1 expected as steps, got -1"},
  {optim.step, {5, {gama = 1}}, "optim.step: unknown option 'gama'; did you mean 'gamma'?"},
  {optim.step, {5, 0.1}, "optim.step: a table of options expected, got 0.1"},
  {optim.step, {5, {}, 1}, "optim.step: at most 2 arguments expected, got 1 as argument 3"},
  {optim.warmup, {-1}, "optim.warmup: a whole number of at least 0 expected as steps, got -1"},
  {optim.warmup, {5, {}},
   "optim.warmup: a function expected as the schedule that follows, got an empty table"},
  {optim.warmup, {5, print, 1}, "optim.warmup: at most 2 arguments expected, got 1 as argument 3"},
  {optim.cosine(5), {1, 2}, "optim.cosine: at most 1 argument expected, got 2 as argument 2"},
  {optim.warmup(5), {0}, "optim.warmup: a whole number of at least 1 expected as step, got 0"},
  {optim.Scaler, {{init = 1}}, "optim.Scaler: unknown option 'init'; did you mean 'init_scale'?"},
  {optim.Scaler, {{init_scale = 0}},
   "optim.Scaler: a finite number above 0 expected as init_scale, got 0"},
  {optim.Scaler, {{init_scale = inf}},
   "optim.Scaler: a finite number above 0 expected as init_scale, got inf"},
  {optim.Scaler, {{growth_factor = 0.5}},
   "optim.Scaler: growth_factor of at least 1 and backoff_factor of at most 1 expected, got " ..
   "0.5 and 0.5"},
  {optim.Scaler, {{backoff_factor = 2}},
   "optim.Scaler: growth_factor of at least 1 and backoff_factor of at most 1 expected, got " ..
   "2 and 2"},
  {optim.Scaler, {{growth_interval = 0}},
   "optim.Scaler: a whole number of at least 1 expected as growth_interval, got 0"},
  {optim.Scaler, {{growth_factor = nan}},
   "optim.Scaler: a finite number above 0 expected as growth_factor, got nan"},
  {optim.Scaler, {{}, 1}, "optim.Scaler: at most 1 argument expected, got 1 as argument 2"},
  {scaler.scale, {scaler, 5}, "scale: a tensor expected as loss, got 5"},
  {scaler.scale, {5},
   "scale: a scaler expected as the first argument, got 5; write scaler:scale(...)"},
  {scaler.step, {scaler, p}, "step: an optimizer expected, got a tensor of shape (2)"},
  {scaler.step, {scaler}, "step: an optimizer expected, got nil"},
  {scaler.unscale_, {scaler, {}}, "unscale_: an optimizer expected, got an empty table"},
  {scaler.update, {scaler}, "update: a step expected since the last update, there was none"},
  {scaler.update, {scaler, 1}, "update: no argument expected, got 1 as argument 1"},
  {scaler.get_scale, {scaler, 1}, "get_scale: no argument expected, got 1 as argument 1"},
  {scaler.load_state, {scaler, 5}, "load_state: a table of tensors by name expected, got 5"},
  {scaler.load_state, {scaler, {}}, "load_state: the state does not fit, nothing was loaded"},
  {optim.EMA, {}, "optim.EMA: a list of tensors expected, such as model:parameters(), got nil"},
  {optim.EMA, {{}},
   "optim.EMA: a list of tensors expected, such as model:parameters(), got an empty table"},
  {optim.EMA, {{p, p}}, "optim.EMA: every parameter once expected, got parameter 1 as 2 again"},
  {optim.EMA, {{p}, {decay = 1.5}}, "optim.EMA: a number from 0 to 1 expected as decay, got 1.5"},
  {optim.EMA, {{p}, {dcay = 1}}, "optim.EMA: unknown option 'dcay'; did you mean 'decay'?"},
  {optim.EMA, {{p}, {warmup = 1}}, "optim.EMA: a boolean expected as option warmup, got 1"},
  {optim.EMA, {{p}, {}, 1}, "optim.EMA: at most 2 arguments expected, got 1 as argument 3"},
  {optim.EMA, {nn.Dropout()}, "optim.EMA: a module with parameters expected, got one without"},
  {ema.apply, {ema, 5}, "apply: a function expected as f, got 5"},
  {ema.update, {ema, 1}, "update: no argument expected, got 1 as argument 1"},
  {ema.load_state, {ema, {}}, "load_state: the state does not fit, nothing was loaded"},
  {ema.update, {5}, "update: averages expected as the first argument, got 5; write ema:update()"},
  {grown.reorder, {grown},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got nil"},
  {grown.reorder, {grown, {0}}, "reorder: rows from 1 to 3 expected, got 0 at position 1"},
  {grown.reorder, {grown, {4}}, "reorder: rows from 1 to 3 expected, got 4 at position 1"},
  {grown.reorder, {grown, {1.5}}, "reorder: rows from 1 to 3 expected, got 1.5 at position 1"},
  {grown.reorder, {grown, {a = 1}},
   "reorder: a list expected, got one with the string 'a' as a key"},
  {grown.reorder, {grown, x},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got a tensor of " ..
   "shape (3, 4) and type float32"},
  {grown.reorder, {grown, {1}, 2}, "reorder: at most 1 argument expected, got 2 as argument 2"},
  {grown.reorder, {grown, ids:to("float32")},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got a tensor of " ..
   "shape (3) and type float32"},
  {grown.reorder, {grown, ids:reshape(3, 1)},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got a tensor of " ..
   "shape (3, 1) and type int64"},
  {fixed.reorder, {fixed, {1, 2}},
   "reorder: as many rows as before expected, 3, since the cache has a capacity, got 2"},
  {fixed.reorder, {fixed, {1, 2, 4}}, "reorder: rows from 1 to 3 expected, got 4 at position 3"},
  {fixed.reorder, {fixed, {1, 2, 0}}, "reorder: rows from 1 to 3 expected, got 0 at position 3"},
  {fixed.reorder, {fixed},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got nil"},
  {fixed.reorder, {fixed, {1, 2, 1.5}},
   "reorder: rows from 1 to 3 expected, got 1.5 at position 3"},
  {fixed.reorder, {fixed, {a = 1}},
   "reorder: a list expected, got one with the string 'a' as a key"},
  {fixed.reorder, {fixed, 5},
   "reorder: an int64 tensor of one dimension, or a list of rows expected, got 5"},
  {heed.accuracy, {5, ids},
   "accuracy: argument 'logits': a float tensor with classes expected, got 5"},
  {heed.accuracy, {ids, ids},
   "accuracy: argument 'logits': a float tensor with classes expected, got a tensor of " ..
   "shape (3) and type int64; of predicted ids, p:eq(ids):float():mean()"},
  {heed.accuracy, {x, 5}, "accuracy: argument 'ids': an int64 tensor expected, got 5"},
  {heed.accuracy, {x, x},
   "accuracy: argument 'ids': an int64 tensor expected, got a tensor of shape (3, 4) and " ..
   "type float32"},
  {heed.accuracy, {x, ids:reshape(1, 3)},
   "accuracy: argument 'ids': shape (3) expected, for logits of shape (3, 4) with their " ..
   "classes in dimension -1, got (1, 3)"},
  {heed.accuracy, {x, ids - 1},
   "accuracy: argument 'ids': ids from 1 to 4 expected, got 0; ids count from 1: ids + 1"},
  {heed.accuracy, {x, ids + 2}, "accuracy: argument 'ids': ids from 1 to 4 expected, got 5"},
  {heed.accuracy, {x, ids, {dim = 3}},
   "accuracy: option dim: an axis from 1 to 2 or -2 to -1 expected, got 3 for logits of " ..
   "shape (3, 4)"},
  {heed.accuracy, {x, ids, {dim = 0}},
   "accuracy: option dim: an axis from 1 to 2 or -2 to -1 expected, got 0 for logits of " ..
   "shape (3, 4)"},
  {heed.accuracy, {x, ids, {ignore = 0}},
   "accuracy: unknown option 'ignore'; did you mean 'ignore_index'?"},
  {heed.accuracy, {x, ids, {}, 1}, "accuracy: at most 3 arguments expected, got 1 as argument 4"},
  {heed.sample, {5}, "sample: argument 'logits': a float tensor (..., V) expected, got 5"},
  {heed.sample, {ids},
   "sample: argument 'logits': a float tensor (..., V) expected, got a tensor of shape (3) and " ..
   "type int64"},
  {heed.bmm, {cube, x},
   "bmm: argument 'mat2': a tensor of rank 3 expected, got one of shape (3, 4)"},
  {heed.bmm, {cube, cube},
   "bmm: shapes (1, 3, 4) of 'input' and (1, 3, 4) of 'mat2' do not fit: 4 columns meet 3 rows"},
  {heed.bmm, {cube, heed.ones(2, 4, 3)},
   "bmm: shapes (1, 3, 4) of 'input' and (2, 4, 3) of 'mat2' do not fit: they are batches " ..
   "of different sizes"},
  {heed.cosine_similarity, {x, heed.ones(3)},
   "cosine_similarity: argument 'x2': shape (3) does not broadcast with the shape (3, 4) of " ..
   "argument 'x1'"},
  {heed.linear, {x, x, heed.ones(3, "float64")},
   "linear: types float32 of 'input' and float64 of 'bias' differ; x:to(\"float64\")"},
  integers("linear", "bias", x, x, ids),
  {heed.baddbmm, {heed.ones(1, 2, 2), heed.ones(2, 2, 3), heed.ones(1, 3, 2)},
   "baddbmm: shapes (2, 2, 3) of 'batch1' and (1, 3, 2) of 'batch2' do not fit: they are " ..
   "batches of different sizes"},
  {heed.addmm, {x, x, x},
   "addmm: shapes (3, 4) of 'mat1' and (3, 4) of 'mat2' do not fit: 4 columns meet 3 rows"},
  {heed.addmm, {heed.ones(3, 3, "float64"), x, heed.ones(4, 3)},
   "addmm: types float32 of 'mat1' and float64 of 'input' differ; x:to(\"float64\")"},
  {heed.index_select, {x, 1, heed.ones(3)},
   "index_select: argument 'index': positions are of type int64, got float32; convert with " ..
   "to(\"int64\")"},
  {heed.take_along_dim, {x, x, 1},
   "take_along_dim: argument 'indices': positions are of type int64, got float32; convert with " ..
   "to(\"int64\")"},
  {heed.masked_fill, {x, heed.ones(3, "bool"), 0},
   "masked_fill: argument 'mask': shape (3) does not broadcast with the shape (3, 4) of " ..
   "argument 'input'"},
  {heed.masked_select, {x, x},
   "masked_select: argument 'mask': a tensor of type bool expected, got float32"},
  beyond("repeat_interleave", x, 2, 3),
  beyond("normalize", x, 2, 3),
  beyond("cosine_similarity", x, x, 3),
  beyond("cumsum", x, 3),
  beyond("unflatten", x, 3, {1, 4}),
  ranked("attention", "value", "2", "(1, 3, 4)", x, x, cube),
  ranked("addmm", "mat1", "2", "(1, 3, 4)", x, cube, x),
  ranked("addmm", "mat2", "2", "(1, 3, 4)", x, x, cube),
  ranked("rotate_pairs", "cos", "at least 1", "()", x, heed.tensor(1.0), heed.tensor(1.0)),
  ranked("rotate_pairs", "input", "at least 1", "()", heed.tensor(1.0), heed.ones(1),
         heed.ones(1)),
  ranked("take_along_dim", "input", "at least 1", "()", heed.tensor(1.0), heed.tensor(1), 1),
  integers("cross_entropy", "input", heed.ones(3, 4, "int64"), ids),
  integers("cross_entropy", "weight", x, ids, {weight = fours}),
  integers("nll_loss", "weight", x, ids, {weight = fours}),
  integers("layer_norm", "weight", x, {4}, fours),
  integers("layer_norm", "bias", x, {4}, nil, fours),
  integers("rms_norm", "weight", x, {4}, fours),
  integers("rotate_pairs", "input", fours, heed.ones(2), heed.ones(2)),
  integers("rotate_pairs", "cos", x, heed.tensor{1, 1}, heed.ones(2)),
  integers("rotate_pairs", "sin", x, heed.ones(2), heed.tensor{1, 1}),
  integers("attention", "query", heed.ones(3, 4, "int64"), x, x),
  integers("attention", "bias", x, x, x, {bias = ids}),
  integers("attention", "relative", x, x, x, {relative = heed.ones(5, "int64")}),
  integers("cosine_similarity", "x1", fours, x),
  integers("cosine_similarity", "x2", x, fours),
  integers("normalize", "input", ids),
  integers("norm", "input", ids),
  integers("std", "input", ids),
  integers("mse_loss", "input", ids, 1),
  integers("l1_loss", "input", ids, ids),
  integers("huber_loss", "input", ids, ids),
  integers("smooth_l1_loss", "input", ids, ids),
  integers("kl_div", "input", ids, ids),
  integers("bce_with_logits", "input", ids, ids),
  integers("binary_cross_entropy", "input", ids, ids),
  integers("uniform", "input", ids),
  integers("multinomial", "input", ids, 1),
}
