-- Behaviour that only a GPU has: moves between devices, asynchronous errors, memory, times. The
-- other specs run on a GPU, real or emulated, with HEED_DEVICE=cuda.

local heed = require "heed"
local device = require "spec.support.device"
local directories = require "spec.support.directories"
local nn = require "heed.nn"
local optim = require "heed.optim"
local printed = require "spec.support.printed"

local there, reason = heed.cuda.available()


describe("heed.cuda", function()
  it("takes a device where a device is meant, and nothing else", function()
    for _, name in ipairs{"synchronize", "properties", "memory"} do
      local _, message = pcall(heed.cuda[name], "cpu")
      assert.matches("a GPU's number from 0, or its name expected, got the string 'cpu'", message,
                     1, true)
      _, message = pcall(heed.cuda[name], 0, 1)
      assert.matches("at most 1 argument expected, got 2", message, 1, true)
    end
  end)
end)


describe("the plugin", function()
  it("says why when HEED_CUDA names none that can be loaded", function()
    local script = [[print(require("heed").cuda.available())]]
    assert.matches("false%s+HEED_CUDA names a file that is not there: /nowhere/cuda%.so",
                   printed("HEED_CUDA=/nowhere/cuda.so", script))
    assert.matches("false%s+cuda%.so can't be loaded: .*README%.md.+",
                   printed("HEED_CUDA=./README.md", script))
    assert.is_true(#printed("HEED_CUDA=/" .. ("x/"):rep(3000), script) < 400)
  end)

  it("is the one beside the core, wherever that is", function()
    local core = package.searchpath("heed.core", package.cpath)
    if not core then pending "the core is part of the host"; return end
    local folder <close> = directories.free()
    assert(os.execute(("mkdir -p '%s/heed' && cp '%s' '%s/heed'"):format(folder.path, core,
                                                                        folder.path)))
    directories.write(folder.path .. "/heed/cuda.so", "no plugin")
    local settings = ("HEED_CUDA= LUA_CPATH='%s/?.so'"):format(folder.path)
    assert.matches("false%s+cuda%.so can't be loaded: .*/heed/cuda%.so",
                   printed(settings, [[print(require("heed").cuda.available())]]))
  end)
end)


describe("without a GPU", function()
  if there then return end

  it("the reason is given, and everything else works", function()
    assert.is_false(heed.cuda.available())
    assert.is_string(reason)
    assert.equal(0, heed.cuda.device_count())
    for _, f in ipairs{
      function() return heed.zeros(2, {device = "cuda"}) end,
      function() return heed.zeros(2):to("cuda") end,
      function() return heed.default_device("cuda:0") end,
      function() return heed.cuda.synchronize() end,
      function() return heed.cuda.properties() end,
      function() return heed.cuda.memory() end,
    } do
      assert.error_matches(f, reason, 1, true)
    end
    assert.equal("cpu", heed.default_device())
  end)
end)


describe("a GPU", function()
  if not there then
    pending("is not here (" .. reason .. "): its own specs are skipped")
    return
  end

  local gpu = {device = "cuda"}

  setup(device.cpu)
  teardown(device.back)

  it("has a name, memory and a number", function()
    local properties = heed.cuda.properties(0)
    assert.is_true(#properties.name > 0)
    assert.is_true(properties.memory > 0 and properties.multiprocessors > 0)
    assert.matches("^%d+%.%d$", properties.capability)
    assert.error_matches(function() heed.cuda.properties(99) end, "cuda:99.*count from 0")
    assert.error_matches(function() heed.zeros(2, {device = "cuda:x"}) end, "cuda:x")
  end)

  it("has a name of one form, wherever it is named", function()
    assert.same(heed.cuda.properties(0), heed.cuda.properties("cuda:0"))
    assert.same(heed.cuda.properties(0), heed.cuda.properties("cuda"))
    for _, name in ipairs{
      "cuda:", "cuda:0garbage", "cuda:1x", "cuda: 0", "cuda:-1", "cuda:4294967296",
      "cuda:99999999999999", "cuda0", "cpu",
    } do
      for _, f in ipairs{"properties", "memory", "synchronize", "reset_peak", "empty_cache"} do
        assert.error_matches(function() heed.cuda[f](name) end,
                             f .. ": argument 'device': a GPU's number.*got")
      end
    end
  end)

  it("has a number of a byte, or of two digits in a name", function()
    local expected = "argument 'device': a GPU's number from 0, or its name expected, got "
    for given, said in pairs{
      [99] = "there is no 'cuda:99'; devices count from 0", ["cuda:99"] = "there is no 'cuda:99'",
      [255] = "there is no 'cuda:255'", [256] = expected .. "256", [-1] = expected .. "-1",
      [0.5] = expected .. "0.5", ["cuda:100"] = expected .. "the string 'cuda:100'",
    } do
      assert.error_matches(function() heed.cuda.properties(given) end, "properties: " .. said, 1,
                           true)
    end
    assert.error_matches(function() heed.zeros(1, {device = "cuda:16"}) end,
                         "device 'cuda:16': there are fewer GPUs", 1, true)
    local _, said = pcall(heed.zeros, 1, {device = "cuda:15"})
    assert.is_nil(tostring(said):find("there are fewer GPUs", 1, true))
  end)

  it("is lost when it failed: all that needs it says so, and the CPU works", function()
    if not heed.cuda.properties().name:find("[Ee]mulated") then
      return pending "no GPU is lost by order"
    end
    local text = printed("HEED_EMULATED_LOST=25", [[
      local heed = require "heed"
      local x
      for _ = 1, 2 do
        for _, f in ipairs{
          function() x = heed.arange(5, {device = "cuda"}) * 2 end,
          function() return x:cpu() end,
          function() return heed.zeros(2, {device = "cuda"}) end,
          function() return heed.cuda.memory() end,
          heed.cuda.synchronize,
        } do print(select(2, pcall(f))) end
      end
      print(heed.ones(3):sum():item())]])
    local lost = select(2, text:gsub("[^\n]*device lost: unspecified launch failure\n", ""))
    assert.is_true(lost >= 8, text)
    assert.is_nil(text:find("not enough memory", 1, true), text)
    assert.matches("\n3%.0\n$", text)
  end)

  it("is not the default of finalisers that run meanwhile", function()
    local devices = {}
    for _ = 1, 20 do
      setmetatable({}, {__gc = function() devices[heed.zeros(1).device] = true end})
      for _ = 1, 100 do heed.zeros(500, 500, gpu):add_(1) end
    end
    collectgarbage()
    assert.same({cpu = true}, devices)
  end)

  it("takes tensors and gives them back, of any type and layout", function()
    for _, dtype in ipairs{
      "bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64",
    } do
      local x = heed.randint(0, 1, {3, 4, 5}):to(dtype)
      for _, y in ipairs{x, x:transpose(1, 3), x[{{}, {1, 4, 2}}], x[{1, 1, 1}], x[{{1, 0}}]} do
        if heed.is_tensor(y) then
          local there_and_back = y:to("cuda"):cpu()
          assert.equal("cpu", there_and_back.device)
          assert.is_true(there_and_back:equal(y), dtype)
        end
      end
    end
    assert.same({1, 2}, heed.tensor{1, 2}:cuda():to("float64"):to("cpu"):totable())
    assert.equal("cuda:0", heed.tensor({1}, gpu).device)
  end)

  it("takes parts of a tensor that begin anywhere in it", function()
    local rows = heed.arange(12, {device = "cpu"}):view(4, 3)
    for from = 1, 4 do
      local part = rows:narrow(1, from, 5 - from)
      assert.are.same(part:totable(), part:to("cuda"):totable())
      assert.are.same(part:totable(), (part:to("cuda") + 0):to("cpu"):totable())
    end
  end)

  it("does not mix with another device, but for single elements", function()
    local x, y = heed.ones(3, gpu), heed.ones(3)
    assert.error_matches(function() return x + y end,
                         "add: argument 'other' is on cpu, argument 'input' on cuda:0")
    assert.error_matches(function() return heed.cat{x, y} end, "cpu.*cuda:0")
    assert.error_matches(function() y:add_(x) end, "add")
    assert.same({3, 3, 3}, (x + heed.tensor(2.0)):totable())
    y:copy_(x * 5)
    assert.same({5, 5, 5}, y:totable())
    x:copy_(y)
    assert.same({5, 5, 5}, x:totable())
  end)

  it("takes the host's single elements to where other tensors are, and no others", function()
    local x, far = heed.ones(3, gpu), heed.tensor(3.0, gpu)
    local near, row = heed.tensor(2.0), heed.ones(3)
    for _, y in ipairs{x + near, near + x, far + near, near + far, x:clone():add_(near)} do
      assert.equal("cuda:0", y.device)
      assert.equal(3.0 + (y:dim() == 0 and 2 or 0), y:sum():item() / y:numel())
    end
    heed.default_device("cuda")
    assert.equal("cpu", (near + near).device)
    assert.equal("cpu", heed.where(row:gt(0), near, near).device)
    heed.default_device("cpu")
    for said, f in pairs{
      ["add: argument 'other' is on cuda:0, argument 'input' on cpu; move one with to()"] =
        function() return row + far end,
      ["add: argument 'other' is on cpu, argument 'input' on cuda:0; move one with to()"] =
        function() return far + row end,
      ["add_: argument 'other' is on cuda:0, argument 'input' on cpu; move one with to()"] =
        function() near:clone():add_(far) end,
      ["cat: entry 3 of 'tensors' is on cpu, entry 1 of 'tensors' on cuda:0; move one with to()"] =
        function() return heed.cat{x, x, row} end,
    } do
      assert.error_matches(f, said, 1, true)
    end
  end)

  it("leaves gradients on the devices of their tensors", function()
    local x = heed.tensor({1.0, 2.0}, {requires_grad = true})
    local scale = heed.tensor(3.0, {requires_grad = true});
    (x:to("cuda") * scale):square():sum():backward()
    assert.equal("cpu", x.grad.device)
    assert.same({18, 36}, x.grad:totable())
    assert.equal(30.0, scale.grad:item())
  end)

  it("takes a model, its gradients and its optimiser's memory", function()
    heed.manual_seed(2)
    local model = nn.Sequential{nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)}
    local opt = optim.Adam(model:parameters(), {lr = 0.01})
    local function step(on)
      local x = heed.arange(6):reshape(2, 3):to("float32"):to(on)
      opt:zero_grad()
      local loss = model(x):square():mean()
      loss:backward()
      opt:step()
      return loss:item()
    end
    local first = step("cpu")
    model:to("cuda")
    for _, p in ipairs(model:parameters()) do
      assert.equal("cuda:0", p.device)
      assert.equal("cuda:0", p.grad.device)
    end
    local second = step("cuda")
    model:to("cpu")
    assert.is_true(second < first and step("cpu") < second)
  end)

  it("says at once, or asynchronously, which position was bad, and goes on", function()
    local table_, ids = heed.randn(5, 2):to("cuda"), heed.tensor({1, 9}, gpu)
    heed.cuda.blocking(true)
    assert.error_matches(function() return heed.embedding(ids, table_) end,
                         "embedding: index 9 at position 2 is outside 1 to 5")
    heed.cuda.blocking(false)
    assert.has_no_error(function() return heed.embedding(ids, table_) end)
    assert.error_matches(heed.cuda.synchronize, "embedding: index 9 at position 2.*asynchronous")
    assert.has_no_error(heed.cuda.synchronize)
    assert.equal(2, heed.ones(2, gpu):sum():item())
    heed.cuda.blocking(device.gpu)
  end)

  it("names no layer that an asynchronous error is not of", function()
    local ids, layer = heed.tensor({1, 9}, gpu), heed.nn.Linear(2, 2):to("cuda")
    local Late = heed.nn.Module:extend("Late")
    function Late:init() self.inner = heed.nn.Sequential{layer} end
    function Late:forward(x)
      heed.embedding(ids, heed.randn(5, 2, gpu))
      for _ = 1, 100 do self.inner(x) end
    end
    heed.cuda.blocking(false)
    local good, message = pcall(Late(), heed.randn(1, 2, gpu))
    if good then good, message = pcall(heed.cuda.synchronize) end
    heed.cuda.blocking(device.gpu)
    assert.is_false(good)
    assert.matches("embedding: index 9 at position 2.*earlier call[^\n]*$", message)
  end)

  -- The error of f's work: raised after f, or by f's next work, if the GPU was quicker.
  local function error_of(f)
    heed.cuda.blocking(false)
    local good, message = pcall(f)
    if good then good, message = pcall(heed.cuda.synchronize) end
    heed.cuda.blocking(device.gpu)
    assert.is_false(good)
    return message
  end

  it("checks labels while it works, and reports them asynchronously", function()
    local scores = heed.zeros(3, 4, gpu)
    for _, label in ipairs{0, 5, -1} do
      local labels = heed.tensor({1, -100, label}, gpu)
      assert.matches("nll_loss: index %-?" .. math.abs(label) ..
                     " at position 3.*1 to 4.*asynchronous",
                     error_of(function() heed.nll_loss(scores, labels) end))
    end
    local none, labels = heed.zeros(2, 0, gpu), heed.tensor({1, 1}, gpu)
    assert.error_matches(function() heed.nll_loss(none, labels) end, "there are no classes")
    local x = heed.randn(3, 4):log_softmax(2)
    local weight = heed.rand(4)
    labels = heed.tensor{4, -100, 2}
    assert.is_true(heed.nll_loss(x:cuda(), labels:cuda(), weight:cuda()):cpu()
                     :allclose(heed.nll_loss(x, labels, weight)))
  end)

  it("checks probabilities while it works, and reports them asynchronously", function()
    local good = heed.tensor({0, 0.5, 1}, gpu)
    for value, text in pairs{[1.5] = "1%.5", [-0.25] = "%-0%.25"} do
      local bad = heed.tensor({0.5, value, 0.25}, {device = "cuda", dtype = "float64"})
      local said = "probability " .. text .. " at position 2 is outside 0 to 1.*asynchronous"
      assert.matches("bernoulli: " .. said, error_of(function() bad:bernoulli() end))
      for _, f in ipairs{
        function() heed.binary_cross_entropy(bad, good:double()) end,
        function() heed.binary_cross_entropy(good:double(), bad) end,
      } do
        assert.matches("binary_cross_entropy: " .. said, error_of(f))
      end
    end
    local nan = heed.tensor({{0.5, 0.25}, {0 / 0, 1}}, gpu)
    assert.matches("bernoulli: probability %-?nan at position 3",
                   error_of(function() nan:bernoulli() end))
    assert.matches("binary_cross_entropy: probability %-?nan at position 2",
                   error_of(function() heed.binary_cross_entropy(nan:t(), nan:gt(0):float()) end))
    assert.has_no_error(heed.cuda.synchronize)
    assert.equal(3, good:bernoulli():numel())
  end)

  it("checks attention's lengths while it works, and reports them asynchronously", function()
    local x = heed.randn(3, 4, 8, gpu)
    for value, text in pairs{[5] = "5", [-1] = "%-1"} do
      local lengths = heed.tensor({4, 0, value}, gpu)
      assert.matches("attention: length " .. text .. " at position 3 is outside 0 to 4.*asynchr",
                     error_of(function() heed.attention(x, x, x, {lengths = lengths}) end))
    end
    local one = heed.tensor({9}, gpu)
    assert.matches("length 9 at position 1",
                   error_of(function() heed.attention(x, x, x, {lengths = one}) end))
    assert.has_no_error(heed.cuda.synchronize)
  end)

  it("says what it multiplies matrices with, and why not with something else", function()
    heed.ones(3, 3, gpu):matmul(heed.ones(3, 3, gpu))
    local text = heed.cuda.properties().matmul
    assert.is_truthy(text:find("^cuBLASLt %d+: .") or text:find("^heed's own kernels: .+: ."), text)
    text = printed("HEED_CUBLASLT=/nowhere/lib.so",
                   [[print(require("heed").cuda.properties().matmul)]])
    assert.matches("heed's own kernels: /nowhere/lib.so: ", text, 1, true)
  end)

  it("captures while finalisers free pinned memory, and an optimiser steps", function()
    heed.manual_seed(3)
    local layer = nn.Linear(3, 2):to("cuda")
    local opt = optim.AdamW(layer:parameters(), {lr = 0.01})
    local pinned = {}
    local f = heed.capture(function(x)
      while #pinned > 0 do table.remove(pinned) end
      collectgarbage()
      opt:zero_grad()
      local loss = layer(x):square():sum()
      loss:backward()
      opt:step()
      collectgarbage()
      return loss
    end)
    local x, last = heed.randn(4, 3, gpu), math.huge
    for _ = 1, 4 do
      for i = 1, 5 do pinned[i] = heed.ones(100):pin_memory() end
      local loss = f(x):item()
      assert.is_true(loss < last)
      last = loss
    end
  end)

  it("captures losses and random numbers whose values the CPU would check", function()
    local f = heed.capture(function(x, labels)
      return heed.nll_loss(x:log_softmax(2), labels), x:sigmoid():bernoulli(),
             heed.binary_cross_entropy(x:sigmoid(), x:gt(0):float())
    end)
    for _ = 1, 3 do
      local x, labels = heed.randn(5, 3, gpu), heed.randint(1, 3, {5}, gpu)
      local loss, drawn, distance = f(x, labels)
      assert.is_true(loss:allclose(heed.cross_entropy(x, labels)))
      assert.is_true((drawn:eq(0) | drawn:eq(1)):all())
      assert.is_true(distance:allclose(heed.bce_with_logits(x, x:gt(0):float()), {rtol = 1e-4}))
    end
  end)

  it("names what reads a value back while work is captured", function()
    for name, f in pairs{
      item = function(x) x:sum():item() end, totable = function(x) x:totable() end,
      data = function(x) x:data() end, tostring = function(x) tostring(x) end,
      tensor = function(x) heed.tensor{x:sum()} end, index = function(x) return x[x:gt(1)] end,
      masked_select = function(x) return x:masked_select(x:gt(1)) end,
      nonzero = function(x) return x:nonzero() end, to = function(x) return x:cpu() end,
      any = function(x) return x:gt(1):any() end, equal = function(x) return x:equal(x + 1) end,
      multinomial = function(x) return x:multinomial(2) end,
    } do
      local x, g = heed.tensor({1.0, 2.0}, gpu), heed.capture(function(x) f(x) return x + 1 end)
      assert.same({2, 3}, g(x):totable())
      assert.error_matches(function() g(x) end,
                           "%f[%a]" .. name .. ": a value is read back while work is captured")
      assert.same({2, 3}, (x + 1):totable())
    end
  end)

  it("names what was called, not what that is made of", function()
    local x, y, far = heed.zeros(3, gpu), heed.zeros(3), heed.tensor({7}, gpu)
    assert.matches("index: index 7 at position 1", error_of(function() return x[far] end))
    assert.matches("index: index 7 at position 1", error_of(function() x:clone()[far] = 1 end))
    assert.matches("index_select: index 7", error_of(function() x:index_select(1, far) end))
    assert.matches("take: index 7", error_of(function() x:take{far} end))
    for name, f in pairs{
      ["equal: argument 'other' is on cpu, argument 'input' on cuda:0"] = x.equal,
      ["allclose: argument 'other' is on cpu, argument 'input' on cuda:0"] = x.allclose,
      ["cat: entry 2 of 'tensors' is on cpu, entry 1 of 'tensors' on cuda:0"] =
        function(...) return heed.cat{...} end,
      ["stack: entry 2 of 'tensors' is on cpu, entry 1 of 'tensors' on cuda:0"] =
        function(...) return heed.stack{...} end,
      ["index: entry 1 of 'indices' is on cpu, argument 'input' on cuda:0"] =
        function(a) return a[heed.tensor{1}] end,
    } do
      assert.error_matches(function() f(x, y) end, name, 1, true)
    end
    assert.is_true(x:allclose(heed.tensor(0.0)))
  end)

  it("checks gradients of its tensors", function()
    local x, y = heed.randn(2, 3, gpu), heed.randn(3, gpu)
    assert.is_true(heed.gradcheck(function(a, b) return a * b, a:sum(1) end, {x, y}))
  end)

  it("is named by number, too", function()
    local x = heed.ones(2)
    for _, device_ in ipairs{0, 0.0, "cuda", "cuda:0"} do
      assert.equal("cuda:0", x:cuda(device_).device)
    end
    assert.error_matches(function() x:cuda(15) end, "cuda:15")
    assert.error_matches(function() x:to("cuda", "cuda:1") end,
                         "to: two devices are given, 'cuda' and 'cuda:1'")
  end)

  it("reaches pinned memory, which is the host's", function()
    local x = heed.arange(6):reshape(2, 3):t():pin_memory()
    assert.equal("cpu", x.device)
    assert.same({{1, 4}, {2, 5}, {3, 6}}, x:totable())
    assert.same({{1, 4}, {2, 5}, {3, 6}}, x:to("cuda", {non_blocking = true}):totable())
    local many = {}
    for i = 1, 20 do many[i] = heed.full({1000}, i):pin_memory() end
    for i = 1, 20 do assert.equal(1000.0 * i, many[i]:sum():item()) end
    assert.same({0}, heed.zeros(0):pin_memory().shape)
  end)

  it("multiplies with the precision that is set", function()
    local x = heed.randn(40, 40, gpu)
    local exact = x:matmul(x)
    heed.matmul_precision("medium")
    assert.is_true(x:matmul(x):allclose(exact, {atol = 0.5}))
    assert.is_false(x:matmul(x):equal(exact))
    heed.matmul_precision("highest")
    assert.is_true(x:matmul(x):equal(exact))
    assert.equal("false\n", printed("", [[
      local heed = require "heed"
      heed.matmul_precision("medium")
      local x = heed.arange(1600):sin():view(40, 40):to("cuda")
      local first = x:matmul(x)
      heed.matmul_precision("highest")
      print(first:equal(x:matmul(x)))]]))
  end)

  it("waits for each operation while a profile runs", function()
    local table_, ids = heed.randn(5, 2, gpu), heed.tensor({1, 9}, gpu)
    heed.cuda.blocking(false)
    local good, said = pcall(heed.profile, function()
      heed.embedding(ids, table_)
      error("behind", 0)
    end)
    assert.is_false(good)
    assert.matches("embedding: index 9 at position 2 is outside 1 to 5$", said)
    assert.has_no_error(function() return heed.embedding(ids, table_) end)
    assert.error_matches(heed.cuda.synchronize, "embedding: index 9 .*asynchronous")
    heed.cuda.blocking(device.gpu)
    assert.matches("^false\t[^\n]*embedding: index 9 at position 2 is", printed("", [[
      local heed = require "heed"
      local gpu = {device = "cuda"}                      -- first used by what is profiled
      print(pcall(heed.profile, function()
        heed.embedding(heed.tensor({1, 9}, gpu), heed.randn(5, 2, gpu))
        error("behind", 0)
      end))]]))
  end)

  it("measures how long something took", function()
    local function f(n) return heed.ones(n, gpu):sum():item(), n end
    local seconds, a, b = heed.cuda.elapsed(f, 9)
    assert.is_true(seconds >= 0)
    assert.same({9, 9}, {a, b})
    assert.error_matches(function() heed.cuda.elapsed(function() error("no", 0) end) end, "^no$")
  end)

  it("gives the same random numbers for the same seed and state", function()
    heed.manual_seed(4)
    local a = heed.randn(50, gpu):data()
    local state = heed.cuda.rng_state()
    local b = heed.randn(50, gpu):data()
    heed.manual_seed(4)
    assert.equal(a, heed.randn(50, gpu):data())
    assert.equal(b, heed.randn(50, gpu):data())
    heed.cuda.rng_state(state)
    assert.equal(b, heed.randn(50, gpu):data())
    assert.not_equal(a, b)
  end)

  it("has a generator's state of a seed and a count, from its first use on", function()
    heed.manual_seed(4)
    assert.same({4, 0}, heed.cuda.rng_state():totable())
    local drawn = heed.randn(50, gpu):data()
    local state = heed.cuda.rng_state(nil, "cuda:0")
    assert.equal("int64", state.dtype)
    assert.is_true(state[1] == 4 and state[2] > 0)
    heed.cuda.rng_state(heed.tensor{7, 8}, 0)
    assert.same({7, 8}, heed.cuda.rng_state():totable())
    for _, bad in ipairs{heed.tensor{1, 2, 3}, heed.tensor{1.0, 2.0}, heed.tensor(1)} do
      assert.error_matches(function() heed.cuda.rng_state(bad) end,
                           "rng_state: an int64 tensor of 2 elements expected, got a tensor")
    end
    local text = printed("", [[
      local heed = require "heed"
      heed.manual_seed(4)
      print(heed.randn(50, {device = "cuda"}):cpu():equal(heed.zeros(50)))
      io.write((heed.cuda.rng_state():totable()[1]), " ")
      heed.manual_seed(4)
      for _, x in ipairs(heed.randn(50, {device = "cuda"}):totable()) do io.write(x, " ") end]])
    assert.matches("^false\n4 ", text)
    heed.manual_seed(4)
    local numbers = table.concat(heed.randn(50, gpu):totable(), " ") .. " "
    assert.equal("false\n4 " .. numbers, text)
    heed.manual_seed(4)
    assert.equal(drawn, heed.randn(50, gpu):data())
  end)

  it("drops the share that is asked for", function()
    local y = heed.dropout(heed.ones(2000, gpu), 0.3)
    assert.near(0.3, y:eq(0):float():mean():item(), 0.05)
    assert.near(1.0, y:mean():item(), 0.1)
  end)

  if heed.cuda.device_count() > 1 then
    it("exchanges tensors with another GPU", function()
      local x = heed.arange(5, gpu):to("cuda:1")
      assert.equal("cuda:1", x.device)
      assert.same({1, 2, 3, 4, 5}, x:totable())
      assert.error_matches(function() return x + heed.ones(5, gpu) end, "cuda:0.*cuda:1")
      assert.same({2, 4, 6, 8, 10}, (x:to("cuda:0") * 2):totable())
    end)

    it("is the default device where none is named", function()
      heed.default_device("cuda:1")
      local x = heed.zeros(1 << 20)
      local seconds = heed.cuda.elapsed(x.add_, x, 1)
      local memory = heed.cuda.memory()
      heed.cuda.blocking(false)
      local bad = heed.embedding(heed.tensor{9}, heed.randn(5, 2))
      local good, message = pcall(heed.cuda.synchronize)
      heed.cuda.blocking(device.gpu)
      heed.default_device("cpu")
      assert.is_true(seconds >= 0 and memory.live >= 4 << 20)
      assert.is_false(good)
      assert.matches("embedding: index 9 at position 1.*asynchronous", message)
      assert.has_no_error(heed.cuda.synchronize)
      assert.has_no_error(function() heed.cuda.synchronize(1) end)
      bad:release()
    end)
  end
end)
