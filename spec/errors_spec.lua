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
  -- what is no tensor
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
  -- texts end where they end
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


-- The name that was called stands first, whatever did the work.
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
    assert.is_nil(x["grad\0"])
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
