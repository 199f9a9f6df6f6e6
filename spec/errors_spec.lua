-- Wrong calls: each gives an error that names what was wrong, at the line that made the call.

local heed = require "heed"
local nn, optim = heed.nn, heed.optim

local x = heed.arange(12, {dtype = "float32"}):reshape(3, 4)
local ids = heed.tensor{1, 2, 3}
local mask = x:gt(3)
local ones4 = heed.ones(4)
local nan, inf, huge = 0 / 0, math.huge, math.maxinteger
local near = x:cpu()                                     -- values are checked there only
local gone = heed.zeros(2)
gone:release()
local deep = 1
for _ = 1, 9 do deep = {deep} end

-- function, argument, pattern of the message
local cases = {
  -- arguments that are no tensors
  {heed.add, {1, "2"}, "add.*string"}, {heed.add, {x}, "add.*other.*missing"},
  {heed.add, {x, {}}, "add"}, {heed.exp, {}, "exp.*input"}, {heed.exp, {"1"}, "exp.*string"},
  {heed.exp, {print}, "exp.*function"}, {heed.exp, {io.stdout}, "exp"},
  {heed.exp, {gone}, "exp.*released"}, {heed.add, {x, gone}, "add.*released"},
  {heed.softmax, {nil, 1}, "softmax.*input"}, {heed.matmul, {x, nil}, "matmul.*other"},
  {heed.where, {1, x, x}, "where.*condition"}, {heed.where, {x, x, x}, "where.*bool"},
  {heed.cat, {{}}, "cat"}, {heed.cat, {{1, 2}}, "cat.*tensor"},
  {heed.stack, {{x, ids}}, "stack"}, {heed.cat, {{x, ids}, 1}, "cat"},
  {heed.item, {"x"}, "item.*string"}, {heed.numel, {}, "numel"}, {heed.totable, {5}, "totable"},
  -- options
  {heed.sum, {x, {dims = 1}}, "sum.*'dims'.*'dim'"}, {heed.sum, {x, {kepdim = true}}, "keepdim"},
  {heed.softmax, {x, {dmi = 1}}, "softmax.*'dmi'.*'dim'"},
  {heed.softmax, {x, -1, {zzzzzzzz = 1}}, "softmax: unknown option 'z+'; there are dim, dtype$"},
  {nn.Linear, {3, 4, {zzzzzzzz = 1}}, "nn.Linear: unknown option 'z+'; there are bias"},
  {heed.zeros_like, {x, {zzzzzzzz = 1}}, "zeros_like: unknown option 'z+'; there are dtype"},
  {heed.zeros, {2, {dtyp = "int64"}}, "zeros.*'dtyp'.*'dtype'"},
  {heed.tensor, {1, {dtipe = "bool"}}, "tensor.*'dtipe'.*'dtype'"},
  {heed.sum, {x, 1, {dim = 2}}, "sum.*twice"}, {heed.sum, {x, 1, 2}, "sum.*keepdim"},
  {heed.sum, {x, 1, true, "float32", 5}, "sum.*at most"},
  {heed.mse_loss, {x, x, {reduction = "avg"}}, "mse_loss.*mean|sum|none.*avg"},
  {heed.gelu, {x, {approximate = "fast"}}, "gelu.*none|tanh.*fast"},
  {heed.cross_entropy, {x, ids, {ignore = 1}}, "cross_entropy.*ignore_index"},
  {heed.sum, {x, {keepdim = 1}}, "sum.*keepdim.*true or false"},
  {heed.leaky_relu, {x, {negative_slope = "0.1"}}, "leaky_relu.*negative_slope.*number"},
  {heed.memory, {{limt = 5}}, "memory.*limt.*limit"},
  {heed.memory, {{limit = -5}}, "memory.*limit"},
  {heed.printoptions, {{precison = 3}}, "precison.*precision"},
  {heed.printoptions, {{precision = 99}}, "precision"},
  -- types
  {heed.zeros, {2, {dtype = "float"}}, "zeros.*float"}, {heed.zeros, {2, {dtype = 3}}, "dtype"},
  {heed.zeros, {2, {device = "tpu"}}, "zeros.*tpu"},
  {heed.zeros, {2, {device = "cuda:15"}}, "cuda"},
  {x.to, {x, "float31"}, "to.*float31"}, {x.to, {x}, "to"}, {x.to, {x, 5}, "to"},
  {heed.neg, {mask}, "neg.*bool"}, {heed.sub, {mask, mask}, "sub.*bool"},
  {heed.mean, {ids}, "mean.*int64"}, {heed.var, {ids}, "var.*int64"},
  {heed.matmul, {x, x:to("float64"):t()}, "matmul.*float32.*float64"},
  {heed.ones, {2, {dtype = "int64", requires_grad = true}}, "requires_grad.*int64"},
  {ids.requires_grad_, {ids}, "requires_grad.*int64"},
  {heed.layer_norm, {ids, {3}}, "layer_norm"}, {heed.dropout, {ids}, "dropout"},
  {ids.add_, {ids, 1.5}, "add_.*float32.*int64"}, {ids.mul_, {ids, x[1][1]}, "mul_.*int64"},
  {heed.masked_fill, {x, ids:reshape(3, 1), 0}, "masked_fill.*bool"},
  {heed.attention, {x, x, x, {mask = x}}, "bias"},
  {heed.attention, {x, x, x, {mask = 3}}, "mask"},
  {heed.attention, {ids, ids, ids}, "attention"},
  {heed.embedding, {x, x}, "embedding"}, {heed.gather, {x, 1, x}, "gather.*int64"},
  {heed.one_hot, {x}, "one_hot"}, {heed.bernoulli, {ids}, "bernoulli"},
  {heed.randn, {2, {dtype = "int64"}}, "randn.*int64"},
  {heed.rand, {2, {dtype = "bool"}}, "rand.*bool"},
  {heed.linear, {ids, x}, "linear: argument 'input': a float type.*int64; x:to%(\"float32\"%)"},
  {nn.MultiHeadAttention(4, 2), {heed.ones(1, 2, 4, "int64")}, "a float type.*int64; x:to"},
  {heed.linear, {x, x:to("float64")}, "float32 of 'input' and float64 of 'weight' differ; x:to"},
  {heed.matmul, {x, heed.ones(4, 2, "int64")}, "'other': a float type.*x:to%(\"float32\"%)"},
  {heed.matmul, {mask, mask:t()}, "bools"},
  {heed.layer_norm, {ids, {3}}, "a float type.*int64; x:to"},
  {heed.cross_entropy, {x, heed.ones(3)}, "probabilities.*labels are of type int64"},
  -- strings with zero bytes
  {heed.softmax, {x, {["dim\0x"] = 1}}, "softmax: options.*zero byte"},
  {heed.tensor, {1, {["dtype\0"] = "bool"}}, "tensor: options.*zero byte"},
  {heed.zeros, {2, {dtype = "int64\0x"}}, "zeros.*dtype.*zero byte"},
  {heed.zeros, {2, {device = "cpu\0x"}}, "zeros.*device.*zero byte"},
  {heed.einsum, {"i\0->i", ids}, "einsum.*equation.*zero byte"},
  {heed.mse_loss, {x, x, {reduction = "mean\0"}}, "reduction.*zero byte"},
  {x.to, {x, "float64\0"}, "to: .*zero byte"}, {heed.level, {"base\0"}, "level.*zero byte"},
  {heed.cuda.properties, {"cuda:0\0"}, "zero byte"},
  {heed.default_device, {"cpu\0"}, "zero byte"},
  -- shapes
  {heed.add, {x, heed.zeros(3)}, "add.*%(3, 4%).*%(3%)"},
  {heed.add, {x, heed.zeros(2, 4)}, "add.*%(3, 4%).*%(2, 4%)"},
  {heed.matmul, {x, x}, "matmul.*%(3, 4%).*%(3, 4%)"},
  {heed.matmul, {x, heed.tensor(2.0)}, "matmul"}, {heed.bmm, {x, x}, "bmm"},
  {heed.dot, {x, x}, "dot"}, {heed.outer, {x, x}, "outer"}, {heed.t, {heed.zeros(1, 2, 3)}, "t"},
  {heed.linear, {x, heed.zeros(5, 3)}, "linear.*%(3, 4%).*%(5, 3%)"},
  {heed.linear, {x, heed.zeros(5, 4), heed.zeros(4)}, "linear"},
  {heed.view, {x, 5, 2}, "view"}, {heed.view, {x, -1, -1}, "view"}, {heed.view, {x, -2}, "view"},
  {heed.view, {x:t(), 12}, "view.*reshape"}, {heed.reshape, {x, 5, -1}, "reshape"},
  {heed.expand, {x, 3, 5}, "expand"}, {heed.expand, {x, 4}, "expand"},
  {heed.expand_as, {x, ids}, "^[^:]*:%d+: expand_as: "}, {heed.argsort, {x, 5}, ": argsort: "},
  {heed.clamp, {x, ids, x}, ": clamp: "}, {heed.clamp, {heed.ones(3, 1), ones4, ids}, ": clamp: "},
  {x.clamp_, {x, ids, x}, ": clamp_: "}, {x.add_, {x:clone(), ids}, ": add_: "},
  {heed.clip, {x}, "clip: .*a bound"}, {heed.full_like, {x, "a"}, ": full_like: .*fill_value"},
  {heed.rand_like, {ids, {dtype = "bool"}}, ": rand_like: "},
  {heed.randn_like, {ids}, ": randn_like: .*int64"},
  {heed.randint_like, {x, 5, 1}, ": randint_like: "},
  {heed.mse_loss, {x, ids}, "mse_loss.*%(3, 4%).*%(3%)"},
  {heed.smooth_l1_loss, {x, ids}, "smooth_l1_loss"}, {heed.kl_div, {x, ids}, ": kl_div: "},
  {heed.l1_loss, {x, x, {weight = ids}}, "l1_loss: argument 'weight'.*%(3, 4%).*%(3%)"},
  {heed.cross_entropy, {x, heed.tensor{1, 2}}, "cross_entropy"},
  {heed.cross_entropy, {x, ids, heed.zeros(3)}, "cross_entropy"},
  {heed.nll_loss, {x, heed.tensor{1, 2}}, "nll_loss"},
  {heed.layer_norm, {x, {3}}, "layer_norm"},
  {heed.layer_norm, {x, {4}, heed.zeros(3)}, "layer_norm"},
  {heed.rms_norm, {x, {5}}, "rms_norm"}, {heed.gather, {x, 1, ids}, "gather"},
  {heed.masked_select, {x, heed.tensor{true, false}}, "masked_select"},
  {heed.attention, {x, heed.zeros(3, 5), x}, "attention"},
  {heed.attention, {x, x, heed.zeros(2, 4)}, "attention"},
  {heed.attention, {x, heed.zeros(2, 3, 4), x}, "attention"},
  {heed.attention, {heed.zeros(1, 3, 2, 4), heed.zeros(1, 2, 2, 4), heed.zeros(1, 2, 2, 4)},
   "attention"},
  {heed.attention, {x, x, x, {mask = heed.ones(2, 3, {dtype = "bool"})}}, "attention.*mask"},
  {heed.attention, {x, x, x, {bias = heed.zeros(5, 3)}}, "attention.*bias"},
  {heed.attention, {x, x, x, {lengths = x}}, "attention.*lengths"},
  {heed.einsum, {"ij,jk", x, x}, "einsum"}, {heed.einsum, {"ij", x, x}, "einsum"},
  {heed.einsum, {"i", x}, "einsum"}, {heed.einsum, {"ij->k", x}, "einsum"},
  {heed.einsum, {"i1->i", x}, "einsum"}, {heed.einsum, {5, x}, "einsum.*text"},
  {heed.einsum, {"ii", x}, "einsum"}, {heed.einsum, {"ij->ii", x}, "einsum"},
  {x.copy_, {x:clone(), heed.zeros(5)}, "copy"}, {x.item, {x}, "item.*%(3, 4%)"},
  {heed.frombytes, {"abc", {1}}, "frombytes.*4 bytes.*3"}, {heed.frombytes, {"abcd", 1}, "shape"},
  {heed.frombytes, {5, {1}}, "frombytes"}, {heed.frombytes, {"", {-1}}, "frombytes"},
  {heed.tensor, {{{1, 2}, {3}}}, "tensor.*%[2%]"}, {heed.tensor, {{1, {2}}}, "tensor"},
  {heed.tensor, {{1, "2"}}, "tensor.*string"}, {heed.tensor, {{{}, 1}}, "tensor"},
  {heed.tensor, {deep}, "tensor.*8"}, {heed.tensor, {{x}}, "tensor.*stack"},
  {heed.tensor, {print}, "tensor.*function"}, {heed.tensor, {{1, nil, 3, print}}, "tensor"},
  -- sizes
  {heed.zeros, {-1}, "zeros.*%-1"}, {heed.zeros, {1.5}, "zeros.*1.5"},
  {heed.zeros, {nan}, "zeros.*whole number"}, {heed.zeros, {inf}, "zeros.*whole number"},
  {heed.zeros, {1e300}, "zeros"}, {heed.zeros, {huge}, "zeros"}, {heed.zeros, {1 << 61}, "zeros"},
  {heed.zeros, {1 << 40, 1 << 40}, "zeros"}, {heed.zeros, {0, huge, huge}, "zeros"},
  {heed.zeros, {0, 1 << 20, 8796093022207}, "zeros"},
  {heed.zeros, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "8"},
  {heed.zeros, {"2"}, "zeros.*string"}, {heed.zeros, {{2, "3"}}, "zeros.*string"},
  {heed.zeros, {{{2}}}, "zeros.*table"}, {heed.zeros, {true}, "zeros"}, {heed.zeros, {}, "size"},
  {heed.full, {{2}}, "fill_value"}, {heed.full, {2, {}}, "full"}, {heed.eye, {-2}, "eye.*%-2"},
  {heed.eye, {1 << 40}, "eye"}, {heed.linspace, {0, 1, -5}, "linspace"},
  {heed.linspace, {0, 1, 2.5}, "linspace.*2.5"}, {heed.arange, {}, "arange"},
  {heed.arange, {1, 5, 0}, "arange.*0"}, {heed.arange, {1, inf}, "arange"},
  {heed.arange, {1, nan}, "arange"}, {heed.arange, {1, huge}, "arange"},
  {heed.arange, {"5"}, "arange"}, {heed.arange, {1, 2, 3, 4}, "arange"},
  {heed.randint, {5}, "randint"}, {heed.randint, {5, 1, {2}}, "randint"},
  {heed.randint, {0, 5, {-2}}, "randint"}, {heed.randperm, {-1}, "randperm"},
  {heed.randperm, {2.5}, "randperm.*2.5"}, {heed.tile, {x, -1}, "tile"},
  {heed.tile, {x, 1 << 40, 1 << 40}, "tile"},
  {heed.repeat_interleave, {x, -1}, "repeat_interleave"},
  {heed.repeat_interleave, {x, 1 << 62, 1}, "repeat_interleave"},
  {heed.pad, {x, {1}}, "pad"}, {heed.pad, {x, {1, 1, 1, 1, 1, 1}}, "pad"},
  {heed.pad, {x, {-9, 0}}, "pad"}, {heed.pad, {x, {huge, huge}}, "pad"},
  {heed.one_hot, {ids, 2}, "one_hot"}, {heed.topk, {x, 9}, "topk.*9"}, {heed.topk, {x, -1}, "topk"},
  {heed.unfold, {x, 2, 9, 1}, "unfold"}, {heed.unfold, {x, 2, 2, 0}, "unfold"},
  {heed.multinomial, {heed.ones(3), 5}, "multinomial"},
  {heed.multinomial, {-heed.ones(3), 1, true}, "multinomial"},
  -- axes and positions count from 1
  {heed.sum, {x, 0}, "sum.*from 1"}, {heed.sum, {x, 3}, "sum.*3"}, {heed.sum, {x, -3}, "sum"},
  {heed.sum, {x, {1, 1}}, "sum.*twice"}, {heed.sum, {x, 1.5}, "sum.*1.5"},
  {heed.softmax, {x}, "softmax.*dim"}, {heed.softmax, {x, 5}, "softmax.*5"},
  {heed.max, {x, 9}, "max.*9"}, {heed.cumsum, {x}, "cumsum.*dim"},
  {heed.cat, {{x, x}, 5}, "cat.*5"},
  {heed.stack, {{x, x}, 9}, "stack.*9"}, {heed.transpose, {x, 1, 3}, "transpose.*3"},
  {heed.transpose, {x, 0, 1}, "transpose.*from 1"}, {heed.permute, {x, 1}, "permute"},
  {heed.permute, {x, 1, 1}, "permute"}, {heed.permute, {x, 1, 2, 3}, "permute"},
  {heed.select, {x, 1, 0}, "select.*from 1"}, {heed.select, {x, 1, 4}, "select.*4"},
  {heed.select, {x, 1, -4}, "select"}, {heed.narrow, {x, 1, 2, 5}, "narrow"},
  {heed.narrow, {x, 1, 0, 1}, "narrow.*from 1"}, {heed.narrow, {x, 1, 1, -1}, "narrow"},
  {heed.unsqueeze, {x, 5}, "unsqueeze.*5"}, {heed.squeeze, {x, 7}, "squeeze.*7"},
  {heed.flatten, {x, 2, 1}, "flatten"}, {heed.flip, {x, 3}, "flip.*3"},
  {heed.roll, {x, 1, 4}, "roll"}, {heed.diagonal, {x, 0, 1, 1}, "diagonal"},
  {x.size, {x, 3}, "size.*3"}, {x.size, {x, 0}, "size.*from 1"}, {x.split, {x, 0}, "split"},
  {x.split, {x, {1, 1}}, "split"}, {x.chunk, {x, 0}, "chunk"}, {x.unbind, {x, 4}, "unbind.*4"},
  {heed.gather, {x, 1, heed.tensor{{0, 1}}}, "gather.*0"},
  {heed.gather, {x, 1, heed.tensor{{4}}}, "gather.*4.*1 to 3"},
  {heed.index_select, {x, 1, heed.tensor{4}}, "4"},
  {heed.index_select, {x, 1, heed.tensor{0}}, "0"},
  {heed.embedding, {heed.tensor{5}, x}, "5.*1 to 3"}, {heed.embedding, {heed.tensor{0}, x}, "%+ 1"},
  {heed.cross_entropy, {x, heed.tensor{1, 2, 5}}, "cross_entropy.*5.*1 to 4"},
  {heed.cross_entropy, {x, heed.tensor{0, 2, 3}}, "%+ 1"},
  {heed.nll_loss, {x, heed.tensor{1, 2, 7}}, "7"}, {heed.one_hot, {heed.tensor{0}}, "one_hot"},
  {heed.scatter, {x, 1, heed.tensor{{9}}, 1}, "9"},
  -- values
  {heed.floor_divide, {ids, 0}, "zero"}, {heed.remainder, {ids, heed.tensor{1, 0, 1}}, "zero"},
  {heed.fmod, {ids, 0}, "zero"}, {heed.pow, {ids, -1}, "pow.*negative"},
  {heed.max, {heed.zeros(0)}, "max"}, {heed.argmin, {heed.zeros(2, 0), 2}, "argmin"},
  {heed.dropout, {x, 1.5}, "dropout.*1.5"}, {heed.dropout, {x, nan}, "dropout"},
  {heed.attention, {x, x, x, {dropout = -1}}, "attention.*dropout"},
  {heed.bernoulli, {near}, "bernoulli"},
  {heed.binary_cross_entropy, {near, near}, "binary_cross_entropy"},
  {heed.index_select, {x, 1, heed.tensor{9}}, "index_select: index 9"},
  {x.to, {x, "float64", "int64"}, "to: two types are given, 'float64' and 'int64'"},
  {x.to, {x, "cpu", {device = "cuda"}}, "to: two devices are given, 'cpu' and 'cuda'"},
  {x.cuda, {x, "cpu"}, "cuda: argument 'device'"}, {x.cuda, {x, 0.5}, "cuda: argument 'device'"},
  {heed.load, {"x", {devise = "cpu"}}, "load: unknown option 'devise'; did you mean 'device'"},
  {heed.load, {"x", "cpu"}, "load: a table of options expected"},
  {heed.manual_seed, {"one"}, "manual_seed"}, {heed.rng_state, {x}, "rng_state"},
  {heed.level, {"sse9"}, "sse9"}, {heed.threads, {0}, "threads.*0"},
  {heed.threads, {1e9}, "threads"},
  {x.format, {x, "%d"}, "format"}, {x.format, {x, "%s%s"}, "format"}, {x.format, {x}, "format"},
  {x.allclose, {x, x, {tol = 1}}, "allclose.*tol"}, {heed.scope, {}, "scope"},
  {heed.no_grad, {}, "no_grad"}, {heed.custom, {{}}, "custom"}, {heed.grad, {x, 5}, "grad"},
  {x.backward, {x}, "backward"}, {heed.keep, {5}, "keep"},
  -- layers and optimisers
  {nn.Linear, {3}, "Linear"}, {nn.Linear, {3, -4}, "Linear"},
  {nn.Linear, {3, 4, {bia = 1}}, "bias"},
  {nn.Embedding, {0, 4}, "Embedding"}, {nn.MultiHeadAttention, {6, 4}, "MultiHeadAttention"},
  {nn.Dropout, {2}, "Dropout"}, {optim.Adam, {}, "Adam"}, {optim.Adam, {{x}, {lrr = 1}}, "lr"},
  {optim.SGD, {{x, x}}, "SGD"}, {heed.train, {}, "train"}, {heed.tasks.counting, {{lenght = 3}},
   "length"}, {heed.save, {5, {}}, "save"}, {heed.plot.heat, {5}, "heat"},
}


-- A message begins with the function that was called, also where other operations do its work.
local wishes = {requires_grad = true, dtype = "int64"}
local wanting = heed.ones(2, {requires_grad = true})
local named = {
  {x.add_, {x, "a"}, "add_"}, {x.add_, {x}, "add_"}, {x.add_, {x, x, 1, 1}, "add_"},
  {x.fill_, {x, {1}}, "fill_"}, {x.mul_, {x, x, {foo = 1}}, "mul_"}, {heed.add_, {5, 1}, "add_"},
  {x.add, {x, "a"}, "add"}, {x.normal_, {ids}, "normal_"}, {x.uniform_, {x, 2, 1}, "uniform_"},
  {x.add_, {x, heed.ones(5)}, "add_"}, {x.masked_fill_, {x, ids, 1}, "masked_fill_"},
  {heed.tensor, {{1, 2}, wishes}, "tensor: argument 'requires_grad'"},
  {heed.zeros, {2, wishes}, "zeros: argument 'requires_grad'"},
  {ids.requires_grad_, {ids}, "requires_grad_"}, {heed.grad, {x, x}, "grad"},
  {heed.grad, {wanting * 1, wanting}, "grad"},
  {heed.grad, {wanting * 1, wanting, heed.ones(3)}, "grad"},
  {heed.tasks.counting, {{seed = "a"}}, "tasks.counting"},
  {heed.tasks.counting, {{seed = 1.5}}, "tasks.counting"},
}


describe("a wrong call", function()
  it("has a message by the name that was called", function()
    for _, case in ipairs(named) do
      local _, message = pcall(case[1], table.unpack(case[2]))
      assert.equal(case[3], message:gsub("^[^ ]*: ", ""):sub(1, #case[3]))
      assert.equal(":", message:gsub("^[^ ]*: ", ""):sub(#case[3] + 1, #case[3] + 1))
    end
  end)

  it("is of more than 200 kinds here", function() assert.is_true(#cases > 200, #cases) end)

  for i, case in ipairs(cases) do
    it(("%d is refused: %s"):format(i, case[3]), function()
      local n = 0
      for k in pairs(case[2]) do n = math.max(n, k) end
      local good, message = pcall(case[1], table.unpack(case[2], 1, n))
      assert.is_false(good)
      assert.is_string(message)
      assert.matches(case[3], message)
    end)
  end

  it("is reported at its own line", function()
    local function line() return debug.getinfo(2, "l").currentline end
    local function line_of(f)
      local _, message = pcall(f)
      return tonumber(message:match("errors_spec.lua:(%d+):"))
    end
    local wanted = line() + 1
    assert.equal(wanted, line_of(function() local _ = x + heed.zeros(5) end))
    assert.equal(wanted + 1, line_of(function() x:split(0) end))
    assert.equal(wanted + 2, line_of(function() nn.Linear(3, 4)(heed.zeros(2, 5)) end))
    assert.equal(wanted + 3, line_of(function() local _ = x[9] end))
    assert.equal(wanted + 4, line_of(function() x[{1, 2, 3}] = 0 end))
    assert.equal(wanted + 5, line_of(function() optim.Adam{} end))
  end)

  it("through an operator or an index says what to do", function()
    assert.error_matches(function() return x < x end, "lt")
    assert.error_matches(function() return x & x end, "bool")
    assert.error_matches(function() return x[true] end, "x:eq")
    assert.error_matches(function() return x[{1, 2, 3}] end, "indices")
    assert.error_matches(function() return x[0] end, "from 1")
    assert.error_matches(function() return x[1.5] end, "1.5")
    assert.error_matches(function() return x[{{1, 2, 3, 4}}] end, "range")
    assert.error_matches(function() return x[{{1, 9}}] end, "index: argument 'stop'")
    assert.error_matches(function() return x[heed.tensor{9}] end, "index: index 9 at position 1")
    assert.error_matches(function() x[heed.tensor{9}] = 1 end, "index: index 9 at position 1")
    assert.error_matches(function() x.colour = 1 end, "index: .*colour")
    assert.error_matches(function() x["grad\0"] = nil end, "index: .*zero byte")
    assert.error_matches(function() return x["grad\0"] end, "index: .*zero byte")
    assert.error_matches(function() x.requires_gard = true end, "did you mean 'requires_grad'%?")
    assert.error_matches(function() x.grad = 5 end, "grad: a tensor or nil expected, got 5")
    assert.error_matches(function() x.requires_grad = 5 end, "requires_grad: true or false")
    assert.error_matches(function() x[1] = "a" end, "string")
    assert.error_matches(function() return gone + 1 end, "released")
    assert.error_matches(function() return gone.shape end, "released")
    assert.error_matches(function() return #gone end, "#: .*released")
    assert.error_matches(function() gone[1] = 2 end, "index: .*released")
    assert.equal("[released tensor]", tostring(gone))
  end)

  it("shows a NaN without the sign that this machine gives it", function()
    assert.error_matches(function() heed.zeros(nan) end, "got nan")
    assert.error_matches(function() heed.dropout(x, nan) end, "got nan")
    assert.error_matches(function() heed.dropout(x, -nan) end, "got nan")
  end)

  it("with a foreign userdata is an error and no crash", function()
    local mt = debug.getmetatable(x)
    assert.is_false(getmetatable(x))
    local file = io.tmpfile()
    local own = debug.getmetatable(file)
    debug.setmetatable(file, mt)
    assert.has_error(function() return file + 1 end)
    assert.has_error(function() return file.shape end)
    assert.has_error(function() return mt.__index(file, "shape") end)
    mt.__gc(file)
    debug.setmetatable(file, own)
    file:close()
    local y = heed.zeros(3)
    mt.__gc(y)
    mt.__gc(y)
    assert.error_matches(function() return y + 1 end, "released")
  end)
end)


describe("a script that has debug", function()
  it("makes no tensor of heed's other userdata, nor of a table", function()
    local tensors = debug.getmetatable(x)
    for _, value in pairs(debug.getregistry()) do
      local own = type(value) == "userdata" and debug.getmetatable(value)
      if own and own ~= tensors then
        debug.setmetatable(value, tensors)
        local good, why = pcall(function() return value + 1 end)
        debug.setmetatable(value, own)
        assert.is_false(good)
        assert.matches("a tensor expected, got a userdata", why)
      end
    end
    local table_ = debug.setmetatable({}, tensors)
    assert.error_matches(function() return table_ + 1 end, "a tensor expected, got a table")
  end)
end)


describe("functions of heed's that call themselves without end", function()
  local function forever(f) assert.error_matches(f, "stack overflow") end

  it("end with Lua's error, forward and backward", function()
    local function outer() return 1 + heed.no_grad(outer) end
    forever(outer)
    local one = heed.ones(1)
    local function call(t) return 1 * heed.checkpoint(call, t) end
    forever(function() call(one) end)
    local custom
    custom = heed.custom {
      forward = function(_, t) return t * 1 end,
      backward = function(_, g)
        heed.enable_grad(function() custom(heed.ones(1):requires_grad_()):backward() end)
        return g
      end,
    }
    forever(function() custom(heed.ones(1):requires_grad_()):backward() end)
    assert.is_true(heed.is_grad_enabled())
  end)
end)


-- The message of f, without its place.
local function message_of(f, ...)
  local good, message = pcall(f, ...)
  assert.is_false(good)
  return (message:gsub("^[^ ]*: ", ""))
end


describe("a method without its tensor", function()
  it("is refused, with what to write, where a number would do for a function", function()
    local wanted = "a tensor expected as the first argument, got "
    for call, f in pairs {
      ["sum: %s2; write x:sum(2)"] = function() return x.sum(2) end,
      ["sqrt: %s4; write x:sqrt(4)"] = function() return x.sqrt(4) end,
      ["relu: %snothing; write x:relu()"] = function() return x.relu() end,
      ["sum: %s1; write x:sum(1, true)"] = function() return x.sum(1, true) end,
      ["softmax: %sa table; write x:softmax(...)"] = function() return x.softmax{dim = 1} end,
      ["mul: %s2; write x:mul(...)"] = function() return x.mul(2, x) end,
      ["add_: %s5; write x:add_(5, 1)"] = function() return x.add_(5, 1) end,
      ["eq: %strue; write x:eq(true, false)"] = function() return x.eq(true, false) end,
      ["size: %s1; write x:size(1)"] = function() return x.size(1) end,
      ["to: %sthe string 'cpu'; write x:to('cpu')"] = function() return x.to("cpu") end,
      ["item: %snothing; write x:item()"] = function() return x.item() end,
      ["backward: %snothing; write x:backward()"] = function() return x.backward() end,
    } do assert.equal(call:format(wanted), message_of(f)) end
  end)

  it("is refused where it is written in Lua", function()
    for name, given in pairs {
      max = {2}, min = {2, x}, div = {7, 2}, div_ = {7}, round = {1.5}, round_ = {1.5}, norm = {3},
      var = {2}, std = {true}, repeat_interleave = {3, 2}, where = {2, mask, 1}, split = {2},
      chunk = {2}, unbind = {1}, allclose = {1, x}, float = {2}, long = {2}, cpu = {}, cuda = {0},
    } do
      local message = message_of(x[name], table.unpack(given))
      assert.matches("^" .. name .. ": a tensor expected as the first argument.*write x:" .. name
                     .. "%(", message)
    end
    assert.matches("write x:div%(", message_of(x.div, 7, 2, {rounding_mode = "floor"}))
    assert.matches("write x:div%(", message_of(x.div, 7, 2, {rounding_mode = "trunc"}))
    assert.matches("write x:round%(", message_of(x.round, 1.25, {decimals = 1}))
  end)

  it("is a function still where the module has it", function()
    assert.equal(2, heed.sum(2):item())
    assert.equal(2, heed.sqrt(4):item())
    assert.equal(3, heed.max(2, heed.tensor(3)):item())
    assert.equal(x:sum():item(), x.sum(x):item())
  end)
end)


describe("a name that does not exist", function()
  it("raises on a tensor, with the one that is near", function()
    for name, wanted in pairs {
      requires_gard = "; did you mean 'requires_grad'?", sofmax = "; did you mean 'softmax'?",
      item_ = "; did you mean 'item'?", shpae = "; did you mean 'shape'?", colour = "",
      devcie = "; did you mean 'device'?", grda = "; did you mean 'grad'?", foo = "",
    } do
      assert.equal(("tensor: there is no '%s'%s"):format(name, wanted),
                   message_of(function() return x[name] end))
    end
    assert.matches("did you mean 'softmax'", message_of(function() return x:sofmax(1) end))
  end)

  it("raises on heed.cuda", function()
    assert.equal("heed.cuda: there is no 'availabel'; did you mean 'available'?",
                 message_of(function() return heed.cuda.availabel() end))
    assert.equal("heed.cuda: there is no 'is_available'; write heed.cuda.available()",
                 message_of(function() return heed.cuda.is_available() end))
  end)

  it("says what to write where PyTorch has it", function()
    for name, wanted in pairs {
      numpy = "x:totable%(%)", tolist = "x:totable%(%)", ndim = "x:dim%(%)", mm = "x:matmul%(y%)",
      type = "x%.dtype", detach_ = "x:detach%(%)", is_cuda = "x%.device", int = 'x:to%("int64"%)',
      moveaxis = "x:movedim", ["repeat"] = "x:tile",
    } do
      assert.matches("^tensor: there is no '" .. name .. "'; write .*" .. wanted,
                     message_of(function() return x[name] end))
    end
  end)

  it("is advised about only as long as it is none of heed's", function()
    local torch = require "heed.internal.torch_names"
    for where, live in pairs{tensor = x, cuda = heed.cuda} do
      for name, advice in pairs(torch[where]) do
        assert.is_false(pcall(function() return live[name] end), name)
        assert.is_nil(advice:find("^write"))
      end
    end
  end)

  it("is nothing that Python's slices or next could be", function()
    for _, key in ipairs {":", "1:2", "...", "1", "", "é"} do
      assert.matches("^index: the string '.*' is no index; write {} for all",
                     message_of(function() return x[key] end))
    end
    assert.matches("^pairs: a tensor is no table; write for i, row in ipairs%(x%)",
                   message_of(pairs, x))
  end)

  it("is nil where other programs look for it", function()
    for _, name in ipairs {"__name", "__index", "__tojson", "_NAME", "_"} do
      assert.is_nil(x[name])
    end
    assert.is_nil(x.grad)
  end)

  it("suggests near ones only", function()
    for _, name in ipairs {"foo", "colour", "lr", "z"} do
      assert.equal(("heed: there is no '%s'"):format(name),
                   message_of(function() return heed[name] end))
    end
    assert.matches("did you mean 'softmax'", message_of(function() return heed.sfotmax end))
    assert.matches("did you mean 'softmax'", message_of(function() return heed.soft end))
    assert.matches("did you mean 'zeros'", message_of(function() return heed.zeors end))
    assert.matches("there are dim, keepdim, dtype", message_of(heed.sum, x, {tim2 = 1}))
  end)
end)


describe("a message", function()
  it("names the argument that was given, none of an operation within", function()
    assert.matches("^softmax: argument 'dim': dimensions count from 1", message_of(x.softmax, x, 0))
    assert.matches("^sum: argument 'dim': dimensions count", message_of(x.sum, x, {1, 0}))
    assert.matches("^size: argument 'dim': dimensions count", message_of(x.size, x, 0))
    assert.matches("^multinomial: argument 'num_samples': 5 draws",
                   message_of(heed.multinomial, heed.zeros(0, 3), 5))
    assert.matches("^expand_as: argument 'other': shape %(3, 4%) cannot be expanded to %(3%)",
                   message_of(heed.expand_as, x, ids))
  end)

  it("names a type that is near, where a type or a device may stand", function()
    assert.equal("to: no type is called 'flot32'; did you mean 'float32'?",
                 message_of(x.to, x, "flot32"))
    assert.equal("to: no type is called 'float'; did you mean 'float32'?",
                 message_of(x.to, x, "float"))
    assert.matches("^to: device 'cpu'", message_of(x.to, x, "tpu"))
    assert.equal("zeros: argument 'dtype': no type is called 'itn64'; did you mean 'int64'?",
                 message_of(heed.zeros, 2, "itn64"))
  end)

  it("counts memory in units that people read", function()
    local limit = heed.memory().limit
    heed.memory{limit = 22814449920}
    local message = message_of(heed.zeros, 1 << 33, {device = "cpu"})
    heed.memory{limit = limit}
    assert.matches("^zeros: memory limit of 21%.2 GiB: .* in use, a tensor needs 32%.0 GiB more$",
                   message)
  end)

  it("names isatty as heed does", function()
    assert.equal("isatty: argument 'descriptor': a whole number expected, got the string 'x'",
                 message_of(heed.isatty, "x"))
    assert.is_false(heed.isatty(1 << 40))
  end)
end)


describe("surplus arguments", function()
  local path = os.tmpname()
  local saved = {x = heed.ones(2)}
  local function batches() return x, x end
  local calls = {
    available = {heed.cuda.available, 1}, contiguous = {x.is_contiguous, x, 1},
    curve = {heed.plot.curve, {1, 2}, {}, 5}, detach = {x.detach, x, 1}, dim = {x.dim, x, 2},
    equal = {heed.equal, x, x, 3}, heat = {heed.plot.heat, {{1}}, {}, 5},
    is_tensor = {heed.is_tensor, x, 1}, item = {heed.item, 1, 2}, keep = {heed.keep, x, 1},
    level = {heed.level, "base", 1}, load = {heed.load, path, {}, 1},
    lookup = {heed.lookup, {"a"}, 1, 2}, manual_seed = {heed.manual_seed, 1, 2},
    memory = {heed.memory, {}, 1}, numel = {x.numel, x, 1}, row = {heed.plot.row, {}, 1},
    save = {heed.save, path, saved, {}, 1}, size = {x.size, x, 1, 2},
    tasks = {heed.tasks.counting, {}, 1}, threads = {heed.threads, nil, 1},
    totable = {x.totable, x, 1},
    train = {heed.train, {model = nn.Linear(4, 4), loss = heed.mse_loss, batches = batches}, {}},
  }
  for name, call in pairs(calls) do
    it("are refused by " .. name, function()
      assert.matches("argument.* expected, got ", message_of(table.unpack(call, 1, 9)))
    end)
  end
end)


describe("a module's field", function()
  it("is no name that the library reads itself", function()
    local M = nn.Module:extend("M")
    function M:init(name, value) self[name] = value end
    assert.matches("^M: 'children' is a method of modules", message_of(M, "children", {}))
    assert.matches("^M: field 'training': a boolean expected, got Linear",
                   message_of(M, "training", nn.Linear(1, 1)))
  end)
end)


describe("a file's metadata", function()
  it("are no options of load_state", function()
    local m = nn.Linear(1, 1)
    local opt = optim.SGD(m:parameters())
    local advice = "of heed.load's results write the first alone: (heed.load(path))"
    for _, thing in ipairs{m, opt} do
      local why = message_of(thing.load_state, thing, thing:state(), {note = "n"})
      assert.is_truthy(why:find(advice, 1, true))
    end
  end)
end)


describe("an optimiser's number", function()
  it("is not nil", function()
    local opt = optim.SGD(nn.Linear(1, 1):parameters())
    local why = message_of(function() opt.lr = nil end)
    assert.matches("a value expected as lr, got nil", why)
    assert.equal(1e-3, opt.lr)
  end)
end)
