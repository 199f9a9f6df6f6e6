-- Numbers that PyTorch computes on the CPU (spec/golden/), and how far two correct programs may
-- differ from each other.

local close = require "spec.support.close"
local heed = require "heed"
local device = require "spec.support.device"
local golden = require "spec.golden"
local layouts = require "spec.support.layouts"

local read, tensor = golden.read, golden.tensor
local huge = math.huge

-- An absolute floor is for what is built on exp.
local function compare(name, y, g, rtol, floor)
  assert.equal(g.dtype, y.dtype, name)
  assert.same(g.shape, {y:size()}, name)
  local got = y:reshape(-1):totable()
  for i, wanted in ipairs(g.data) do
    local v = got[i]
    local same = v == wanted or type(v) == "number" and close(v, wanted, rtol, floor)
    assert.is_true(same, ("%s, element %d: %s expected, got %s"):format(name, i, wanted, v))
  end
end


describe("random numbers", function()
  setup(device.cpu)
  teardown(device.back)

  for seed, calls in pairs(read "random") do
    it("are PyTorch's after manual_seed(" .. seed .. ")", function()
      heed.manual_seed(seed)
      for _, call in ipairs(calls) do
        local y = load("return heed." .. call.call, call.call, "t", {heed = heed})()
        compare(("seed %s, %s"):format(seed, call.call), y, call.result, 2e-6, 1e-7)
      end
    end)
  end

  it("fill a transposed or spread tensor in the order of memory, normal ones one by one", function()
    local function filled(name, x, ...)
      heed.manual_seed(1)
      return x[name](x, ...)
    end
    local x = filled("uniform_", heed.zeros(5, 2):t())
    assert.is_true(x:equal(filled("uniform_", heed.zeros(5, 2)):t()))
    x = filled("bernoulli_", heed.zeros(3, 4):t(), 0.4)
    assert.is_true(x:equal(filled("bernoulli_", heed.zeros(3, 4), 0.4):t()))
    x = filled("normal_", heed.zeros(10, 4):t())            -- from here on PyTorch 2.15's numbers
    assert.is_true(x[{1, {1, 4}}]:allclose(
      heed.tensor{0.661352, -0.451906, -1.027609, -0.19551}, {atol = 1e-6}))
    x = filled("normal_", heed.zeros(10, 4)[{{}, {1, 4, 2}}], 1, 2)
    assert.is_true(x[{10}]:allclose(heed.tensor{-2.14533, 0.753504}, {atol = 1e-6}))
    x = filled("normal_", heed.zeros(3, 4, 5):permute(3, 1, 2)[{{2, 4}, {}, {1, 4, 2}}])
    assert.is_true(x[{1, 1}]:allclose(heed.tensor{0.661352, 0.621317}, {atol = 1e-6}))
  end)

  it("go on where rng_state was taken", function()
    heed.manual_seed(5)
    heed.randn(3)
    local state = heed.rng_state()
    local a = heed.randn(20)
    heed.rng_state(state)
    assert.is_true(heed.randn(20):equal(a))
  end)
end)


describe("type promotion", function()
  local all = read "promotion"
  local types = {"bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"}

  local function each_pair(group, f)
    for _, a in ipairs(types) do
      for b, wanted in pairs(all[group][a]) do
        assert.equal(wanted, f(heed.ones(2, {dtype = a}), b).dtype, group .. " " .. a .. " " .. b)
      end
    end
  end

  it("is PyTorch's for tensors, tensors of rank 0 and numbers", function()
    each_pair("tensor_tensor", function(x, b) return x + heed.ones(2, {dtype = b}) end)
    each_pair("tensor_zero_rank", function(x, b) return x + heed.ones({}, {dtype = b}) end)
  end)

  it("is PyTorch's for the other groups of the file", function()
    local numbers = {integer = 1, float = 1.5, int = 1}
    for group, rows in pairs(all) do
      if group ~= "tensor_tensor" and group ~= "tensor_zero_rank" then
        for a, row in pairs(rows) do
          local x = heed.ones(2, {dtype = a})
          local name = group .. " " .. a
          if type(row) == "table" then
            for b, wanted in pairs(row) do
              local other = numbers[b] or (b:find("int") and b ~= "int64" and 1)
                            or heed.ones(2, {dtype = b})
              local y = group:find("div") and x / other or x + other
              assert.equal(wanted, y.dtype, name .. " " .. b)
            end
          elseif group:find("sum") then assert.equal(row, x:sum().dtype, name)
          elseif group:find("exp") then assert.equal(row, x:exp().dtype, name)
          elseif group:find("int") then assert.equal(row, (x + 1).dtype, name)
          elseif group:find("float") then assert.equal(row, (x + 1.5).dtype, name)
          elseif group:find("div") then assert.equal(row, (x / x).dtype, name)
          else error("a group of promotion.lua that this spec does not know: " .. group) end
        end
      end
    end
  end)
end)


describe("elementwise operations at awkward points", function()
  local all = read "elementwise"

  -- Where PyTorch's vector code is poorer than the mathematics, the mathematics is right too.
  local function excused(name, x, part)
    if name == "silu" or name == "sigmoid" then return x < -88 or (part == "grad" and x > 88) end
    if name:find("^gelu") then return math.abs(x) == huge or x < -88 end
    return false
  end

  -- GPUs give tanh to 2 units in the last place, and its derivative is 1 - y^2 with y near 1.
  local function floor_of(name, part)
    return device.gpu and name == "tanh" and part == "grad" and 4 * 2^-24 or 1e-36
  end

  -- "hardtanh (-1, 1)" and "gelu_tanh" say what the options are.
  local function operation(name)
    if name == "gelu_tanh" then return function(x) return x:gelu("tanh") end end
    local f, options = heed[name:match("^[%w_]+")], {}
    for number in name:gmatch("[ (](%-?[%d.]+)") do options[#options + 1] = tonumber(number) end
    return function(x) return f(x, table.unpack(options)) end
  end

  for name, row in pairs(all.unary) do
    it(name .. " agrees, and so does its gradient", function()
      layouts.on_each_level(function(level)
        local x = tensor(all.points):requires_grad_()
        local y = operation(name)(x)
        local parts = {out = y:detach()}
        if row.grad then
          y:sum():backward()
          parts.grad = x.grad
        end
        for part, wanted in pairs({out = row.out, grad = row.grad}) do
          for i, v in ipairs(all.points.data) do
            if not excused(name, v, part) then
              compare(("%s %s %s at %s"):format(level, name, part, v),
                      parts[part]:narrow(1, i, 1),
                      {dtype = wanted.dtype, shape = {1}, data = {wanted.data[i]}}, 4e-6,
                      floor_of(name, part))
            end
          end
        end
      end)
    end)
  end

  for name, wanted in pairs(all.binary) do
    it(name .. " agrees", function()
      layouts.on_each_level(function(level)
        compare(level .. " " .. name, heed[name](tensor(all.binary_a), tensor(all.binary_b)),
                wanted, 4e-6, 1e-36)
      end)
    end)
  end
end)


describe("reductions of awkward inputs", function()
  for kind, rows in pairs(read "reductions") do
    it("agree for " .. kind, function()
      layouts.on_each_level(function(level)
        local x = tensor(rows.input)
        for call, wanted in pairs(rows) do
          if call ~= "input" then
            local name, args, index = call:match("^([%w_]+)%((.-)%)( ?i?n?d?e?x?)$")
            local source = ("return x:%s(%s)"):format(name, args)
            local y, position = load(source, call, "t", {x = x})()
            if index == " index" then y = position end
            compare(("%s %s %s"):format(level, kind, call), y, wanted, 4e-6, 1e-36)
          end
        end
      end)
    end)
  end
end)


describe("bytes, bools and nothing", function()
  local bytes = heed.tensor({{200, 100}, {100, 7}}, {dtype = "uint8"})
  local bools = heed.tensor{{true, true}, {true, false}}

  it("are summed as int64 by einsum, but multiplied as they are", function()
    local function shown(...)
      local y = heed.einsum(...)
      return y.dtype .. " " .. table.concat(y:reshape(-1):totable(), " ")
    end
    assert.equal("int64 300 107", shown("ij->j", bytes))
    assert.equal("int64 2 1", shown("ij->j", bools))
    assert.equal("int64 207", shown("ii->", bytes))
    assert.equal("int64 122100 43549", shown("ij,kl->j", bytes, bytes))
    assert.equal("uint8 80 220 220 65", shown("ij,jk->ik", bytes, bytes))
    assert.equal("uint8 80 65", shown("ij,ij->i", bytes, bytes))
    assert.equal("int64 90000 11449", shown("ij,jk->j", bytes, bytes))
    assert.equal("int64 81400 40700", shown("j,kl->j", bytes[1], bytes))
  end)

  it("are multiplied by einsum along a letter of the first and the last factor", function()
    local x, y, z = heed.arange(6):view(2, 3), heed.arange(2), heed.arange(3)
    assert.same({{14, 28}, {32, 64}}, heed.einsum("ij,k,j->ik", x, y, z):totable())
  end)

  it("are filled with a value that becomes a bool", function()
    for value, wanted in pairs{[7] = true, [1.5] = true, [0] = false} do
      local y = bools:masked_fill(bools, value)
      assert.same({{wanted, wanted}, {wanted, false}}, y:totable())
    end
    assert.same({{true, false}}, heed.zeros(1, 2, "bool"):masked_fill_(bools[{{1, 1}, {1, 2}}]
                :logical_and(heed.tensor{true, false}), 2):totable())
  end)

  it("are split into the given number of chunks, where there is nothing", function()
    assert.equal(2, #heed.zeros(0):chunk(2))
    assert.same({2, 0}, {heed.zeros(2, 0):chunk(5, 2)[5]:size()})
    assert.equal(2, #heed.arange(4):chunk(3))
  end)
end)


describe("losses", function()
  -- The options that a case's name stands for.
  local function options_of(case)
    local o, name = {}, case.name
    o.reduction = name:match("reduction (%w+)") or (name:find("batchmean") and "batchmean")
    o.label_smoothing = tonumber(name:match("smoothing ([%d.]+)"))
    o.beta = tonumber(name:match("beta ([%d.]+)"))
    if name:find("pos_weight") then o.pos_weight = heed.tensor(3.0) end
    if case.weight then o.weight = tensor(case.weight) end
    if next(o) ~= nil then return o end
  end

  -- Labels of the file count from 0.
  local function target_of(case)
    local t = tensor(case.target)
    if t.dtype == "int64" then t = heed.where(t:lt(0), t, t + 1) end
    return t
  end

  for _, case in ipairs(read "losses") do
    it("agree: " .. case.name, function()
      layouts.on_each_level(function()
        local x = tensor(case.input):requires_grad_()
        local f = heed[case.name:match("^[%w_]+")]
        local y = f(x, target_of(case), options_of(case))
        compare(case.name, y:detach(), case.out, 1e-5, 1e-7)
        y:sum():backward()
        compare(case.name .. ", gradient", x.grad, case.grad_input, 1e-5, 1e-7)
      end)
    end)
  end

  it("of tensors that the caller has broadcast are PyTorch's", function()
    local column = heed.tensor{{1.0}, {4.0}, {0.0}}
    local x, t = heed.tensor{1.0, 2.0, 3.0}:expand(3, 3), column:expand(3, 3)
    assert.same({{0, 1, 4}, {9, 4, 1}, {1, 4, 9}}, heed.mse_loss(x, t, "none"):totable())
    assert.same({{0, 0.5, 1.5}, {2.5, 1.5, 0.5}, {0.5, 1.5, 2.5}},
                heed.smooth_l1_loss(x, t, "none"):totable())
    local p, q = x:log_softmax(2), column:softmax(1):expand(3, 3)
    for wanted, y in pairs{[1.6666666] = heed.l1_loss(x, t), [0.3777642] = heed.kl_div(p, q)} do
      assert.is_true(y:allclose(heed.tensor(wanted), {rtol = 1e-6}), wanted)
    end
  end)

  it("of squares and distances take weights, as PyTorch's", function()
    local x, t, weight = heed.tensor{1.0, 2.0, 3.0}, heed.tensor{1.0, 4.0, 0.0},
                         heed.tensor{1.0, 0.0, 3.0}
    assert.equal(6.75, heed.mse_loss(x, t, {weight = weight}):item())
    assert.equal(9, heed.l1_loss(x, t, "sum", weight):item())
    assert.same({0, 0, 9}, heed.l1_loss(x, t, {weight = weight, reduction = "none"}):totable())
  end)

  it("of ignored labels are 0 without a sign", function()
    local x = heed.tensor{{-1.0, -0.5}, {0.0, -2.0}, {-1.0, -1.0}}
    local y = heed.nll_loss(x, heed.tensor{2, -100, 1}, {reduction = "none"})
    assert.same({0.5, 0.0, 1.0}, y:totable())
    assert.equal(math.huge, 1 / y[2])
  end)
end)


describe("attention", function()
  for _, fused in ipairs {true, false} do
    for _, case in ipairs(read "attention") do
      it(("agrees, %s: %s"):format(fused and "fused" or "composed", case.name), function()
        layouts.on_each_level(function()
          local q, k, v = tensor(case.q):requires_grad_(), tensor(case.k):requires_grad_(),
                          tensor(case.v):requires_grad_()
          local out, weights = heed.attention(q, k, v, {
            causal = case.causal, scale = case.scale, weights = true, fused = fused,
            mask = case.mask and tensor(case.mask), bias = case.bias and tensor(case.bias),
            lengths = case.lengths and tensor(case.lengths),
          })
          compare("out", out:detach(), case.out, 1e-5, 1e-6)
          compare("weights", weights:detach(), case.weights, 1e-5, 1e-6)
          out:backward(tensor(case.grad_out))
          for _, name in ipairs {"q", "k", "v"} do
            compare("gradient of " .. name, ({q = q, k = k, v = v})[name].grad,
                    case["grad_" .. name], 1e-5, 2e-6)
          end
        end)
      end)
    end
  end
end)


describe("golden numbers", function()
  local function lines_of(command)
    local pipe <close>, list = assert(io.popen(command)), {}
    for line in pipe:lines() do list[#list + 1] = line end
    return list
  end

  local function text_of(path)
    local file <close> = assert(io.open(path))
    return file:read("a")
  end

  it("are of files that a spec uses whole", function()
    local used = {}
    for _, path in ipairs(lines_of "ls spec/*_spec.lua") do
      local text = text_of(path)
      if text:find("golden.assert_all_used)", 1, true) then
        for name in text:gmatch('read[ (]"([%w_]+)"') do used[name] = true end
        if text:find("golden.tensors", 1, true) then
          for name in text:gmatch('"([%w_]+)"') do used[name] = true end
        end
      else
        assert.is_nil(text:match("golden%.read.-\n") or text:match("golden%.tensors.-\n"), path)
      end
    end
    local files = lines_of("find spec/golden -type f ! -path '*/tokenizers/*' "
                           .. "! -path '*/models/*' ! -path '*/gguf/*' "
                           .. "! -name pictures.txt ! -name regex.json | sort")
    assert.is_true(#files > 20)
    for _, path in ipairs(files) do
      assert.is_true(used[path:match("([%w_]+)%.safetensors$") or path], path)
    end
  end)

  it("are all used that this file reads", golden.assert_all_used)
end)
