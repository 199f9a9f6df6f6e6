-- Wrong calls: each gives an error that names what was wrong, at the line that made the call.

local heed = require "heed"
local indices = require "spec.support.refusals_index"
local more_refusals = require "spec.support.refusals_training"
local refusals = require "spec.support.refusals"
local shapes = require "spec.support.refusals_shapes"
local values = require "spec.support.refusals_values"
local nn, optim = heed.nn, heed.optim

table.move(more_refusals, 1, #more_refusals, #refusals + 1, refusals)
table.move(indices, 1, #indices, #refusals + 1, refusals)
table.move(shapes, 1, #shapes, #refusals + 1, refusals)
table.move(values, 1, #values, #refusals + 1, refusals)

local x = heed.arange(12, {dtype = "float32"}):reshape(3, 4)
local ids = heed.tensor{1, 2, 3}
local mask = x:gt(3)
local nan = 0 / 0
local gone = heed.zeros(2)
gone:release()
local deep = 1
for _ = 1, 9 do deep = {deep} end


describe("a wrong call", function()
  it("is of more than 200 kinds here", function() assert.is_true(#refusals > 200, #refusals) end)

  for i, case in ipairs(refusals) do
    local f, arguments, text, is_pattern = table.unpack(case, 1, 4)
    it(("%d is refused: %s"):format(i, text), function()
      local n = 0
      for k in pairs(arguments) do n = math.max(n, k) end
      local good, message = pcall(f, table.unpack(arguments, 1, n))
      assert.is_false(good)
      message = message:gsub("^[^ ]*:%d+: ", ""):match("^[^\n]*")
      if is_pattern then assert.matches(text, message) else assert.equal(text, message) end
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

  it("raises as an option of what makes a tensor, with the one that is near or all", function()
    for _, maker in ipairs {heed.zeros, heed.randn} do
      for name, wanted in pairs {
        requires_gard = "; did you mean 'requires_grad'?", devcie = "; did you mean 'device'?",
        dtyp = "; did you mean 'dtype'?", foo = "; there are size, dtype, requires_grad, device",
      } do
        assert.matches(("unknown option '%s'%s"):format(name, wanted),
                       message_of(maker, 2, {[name] = 1}), 1, true)
      end
    end
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

  it("says so on heed and its parts", function()
    for name, wanted in pairs {
      Generator = "heed.manual_seed(n)", Variable = "heed.tensor(values, {requires_grad = true})",
      rearrange = "x:permute", var_mean = "x:var(dim)", version = "heed._VERSION",
    } do
      assert.is_truthy(message_of(function() return heed[name] end)
                       :find(("heed: there is no '%s'; write %s"):format(name, wanted), 1, true))
    end
    assert.matches("write nn.Patches", message_of(function() return heed.nn.Conv2d end))
    assert.equal("save: the path comes first: heed.save(path, tensors)",
                 message_of(heed.save, {x = x}, "a.safetensors"))
    assert.equal("nn.MultiHeadAttention: true, which is RMSNorm, or a function expected as option "
                 .. "qk_norm, got the string 'rms'",
                 message_of(heed.nn.MultiHeadAttention, 4, 2, {qk_norm = "rms"}))
  end)

  it("is advised about only as long as it is none of heed's", function()
    local torch = require "heed.internal.torch_words"
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
    assert.matches("^multinomial: argument 'input': row 2 has no weight",
                   message_of(heed.multinomial, heed.tensor{{0.0, 1.0}, {0.0, 0.0}}, 1))
    for _, sizes in ipairs{{}, {1, 1, 1}} do
      assert.matches("^multinomial: argument 'input': a tensor of rank 1 to 2 expected",
                     message_of(heed.multinomial, heed.zeros(sizes), 1))
    end
    assert.matches("^cross_entropy: argument 'input': there are no classes",
                   message_of(heed.cross_entropy, heed.zeros(2, 0), heed.zeros(2, 0)))
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
    save = {heed.save, path, saved, {}, nil, 1}, size = {x.size, x, 1, 2},
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
    assert.is_truthy(message_of(opt.load_state, opt, opt:state(), {}):find(advice, 1, true))
    m:load_state(m:state(), {})
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
