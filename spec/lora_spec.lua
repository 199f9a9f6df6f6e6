-- Low-rank adapters: what they add, merged or not; what is trained, saved and copied.

local heed = require "heed"
local nn = require "heed.nn"
local message_of = require "spec.support.message"


local function new(o)
  heed.manual_seed(3)
  return nn.Decoder(8, 2, 2, {cross = false, norm = "pre", kv_heads = o and 1 or 2})
end


-- Adapters that add something.
local function disturbed(adapters)
  for _, p in ipairs(adapters:parameters()) do heed.no_grad(p.normal_, p, 0, 0.3) end
  return adapters
end


local function bytes(state)
  local copy = {}
  for name, t in pairs(state) do copy[name] = t:data() end
  return copy
end


local ALL <const> = {"query", "key", "value", "out", "up", "down"}

describe("nn.lora", function()
  heed.manual_seed(5)                 -- of 400 others, one differs by more than rounding is let
  local x = heed.randn(2, 5, 8)

  it("changes no result at first, and then adds alpha / rank B A", function()
    local model, plain = new(), new()
    local adapters = nn.lora(model, {rank = 2, alpha = 6, targets = {"mlp.up"}})
    assert.is_true((model(x):equal(plain(x))))
    disturbed(adapters)
    local up, own = model.layers[2].mlp.up, adapters["layers.2.mlp.up"]
    local wanted = plain.layers[2].mlp.up(x) + x:matmul(own.up:matmul(own.down).T) * 3
    assert.is_true((up(x):allclose(wanted, {atol = 1e-5})))
    assert.is_false((model(x):allclose(plain(x), {atol = 1e-3})))
    assert.equal("LoraLinear", up.__name)
    assert.matches("LoraLinear%(8, 32%)", tostring(model))
  end)

  it("trains the adapters alone", function()
    local model = new()
    local before = bytes(model:state())
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = ALL}))
    assert.equal(2 * 6 * 2, #adapters:parameters())
    local optimizer = heed.optim.AdamW(adapters:parameters(), {lr = 0.01})
    local first, last
    for _ = 1, 20 do
      optimizer:zero_grad()
      local loss = model(x):sub(1):square():mean()
      first, last = first or loss:item(), loss:item()
      loss:backward()
      optimizer:step()
    end
    assert.is_true(last < first)
    local after = bytes(model:state())
    for name, value in pairs(before) do assert.equal(value, after[name], name) end
    for name, p in model:named_parameters() do
      assert.equal(name:find("adapter") ~= nil, p.requires_grad)
    end
  end)

  it("merged equals unmerged, and goes back bit for bit", function()
    for _, grouped in ipairs{false, true} do
      local model = new(grouped)
      local adapters = disturbed(nn.lora(model, {rank = 3, alpha = 2, targets = ALL}))
      model:to("float64")
      local y, before = model(x:double()), bytes(model:state())
      assert.equal(adapters, adapters:merge())
      assert.is_true((model(x:double()):allclose(y, {atol = 1e-6, rtol = 0})))
      assert.is_false(model(x:double()).requires_grad)
      adapters:merge()
      adapters:unmerge()
      assert.is_true((model(x:double()):equal(y)))
      assert.same(before, bytes(model:state()))
    end
  end)

  it("is float32 beside weights of 16 bits, which small gradients train", function()
    for _, type in ipairs{"float16", "bfloat16", "float64"} do
      local model = nn.Sequential{nn.Linear(8, 8)}:to(type)
      local adapters = disturbed(nn.lora(model, {rank = 2, targets = {"1"}}))
      local own = adapters["1"]
      assert.equal(type == "float64" and type or "float32", own.up.dtype)
      local narrow = x:to(type)
      local y, plain = model(narrow), heed.linear(narrow, model[1].weight, model[1].bias)
      local wide = narrow:to(own.up.dtype):matmul(own.down.T):matmul(own.up.T)
      local more = (wide * own.scale):to(type)
      assert.equal(type, y.dtype)
      assert.is_true(y:equal(plain + more))
      adapters:merge()
      assert.equal(type, model[1].merged.dtype)
      assert.is_true((model(narrow) - y):abs():max():item() < 0.05)
      adapters:unmerge()
      y:float():sum():mul(1e-4):backward()
      local optimizer = heed.optim.AdamW(adapters:parameters(), {lr = 0.01})
      optimizer:step()
      assert.is_true(optimizer:state()["exp_avg_sq.1"]:max():item() > 0)
    end
  end)

  it("gives what the layer gives, in autocast and beside blocks", function()
    local model = nn.Sequential{nn.Linear(32, 32)}
    local row = heed.randn(2, 32)
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = {"1"}}))
    assert.equal("bfloat16", heed.autocast("bfloat16", model, row).dtype)
    local wanted = model(row)
    adapters:merge()
    assert.equal("bfloat16", heed.autocast("bfloat16", model, row).dtype)
    heed.no_grad(adapters["1"].up.mul_, adapters["1"].up, 1)    -- merged anew, as exactly
    heed.autocast("bfloat16", model, row)
    assert.is_true(model(row):allclose(wanted, {atol = 1e-5}))
    adapters:unmerge():to "bfloat16"
    heed.no_grad(adapters["1"].up.zero_, adapters["1"].up)
    adapters:merge()
    assert.is_true(model[1].merged:equal(model[1].weight))
    local blocks = nn.Sequential{nn.Linear(32, 32)}
    blocks:quantize "q8_0"
    blocks:to "bfloat16"
    local own = disturbed(nn.lora(blocks, {rank = 2, targets = {"1"}}))
    local y = blocks(row:bfloat16())
    own:merge()
    local merged = blocks(row:bfloat16())
    assert.same({"bfloat16", "bfloat16"}, {y.dtype, merged.dtype})
    assert.is_true((merged - y):abs():max():item() < 0.1)
  end)

  it("merged follows what is loaded, changed in place or exchanged later", function()
    local model, other = new(), new()
    local function grow()
      for _, p in ipairs(other:parameters()) do heed.no_grad(p.mul_, p, 1.5) end
    end
    local function same(m) return (m(x):allclose(other(x), {atol = 1e-4, rtol = 1e-4})) end
    local adapters = disturbed(nn.lora(model, {rank = 3, targets = ALL}))
    disturbed(nn.lora(other, {rank = 3, targets = ALL}))
    grow()
    adapters:merge()
    assert.is_false(same(model))
    model:load_state(other:state())
    assert.is_true(same(model))
    local copy = model:clone()
    grow()
    assert.is_false(same(copy))
    copy:load_state(other:state())
    assert.is_true(same(copy))
    for _, m in ipairs{copy, other} do
      heed.no_grad(function() m.layers[1].attend.query.weight:mul_(3) end)
    end
    assert.is_true(same(copy))
    for _, m in ipairs{copy, other} do
      m.layers[2].attend.query.weight = nn.Parameter(heed.ones(8, 8))
    end
    assert.is_true(same(copy))
  end)

  it("merged follows them in replays of captured work, too", function()
    local function run(wrap)
      local model, drops = nn.Sequential{nn.Linear(4, 4)}, setmetatable({}, {})
      heed.manual_seed(5)
      for _, p in ipairs(model:parameters()) do heed.no_grad(p.normal_, p) end
      local adapters, row, got = nn.lora(model, {rank = 2, targets = {"1"}}), heed.ones(1, 4), {}
      disturbed(adapters):merge()
      local call = wrap(function(own, given)
        local y = model(given)
        if own.now then error "dropped" end
        return y
      end)
      local twice = model:state()
      for name, t in pairs(twice) do twice[name] = t:detach() * 2 end
      local changes = {
        [3] = function() model:load_state(twice) end,
        [5] = function() adapters["1"].up:mul_(3) end,
        [7] = function() adapters["1"].scale = 5 end,
        [9] = function()
          model[1].weight:mul_(2)
          adapters:merge()
        end,
        [11] = function()
          model[1].weight:mul_(2)
          drops.now = true
          assert.matches("dropped", message_of(call, drops, row))
          drops.now = nil
        end,
        [13] = function() adapters:unmerge() end,
      }
      heed.no_grad(function()
        for i = 1, 14 do
          if changes[i] then changes[i]() end
          got[i] = call(drops, row):data()
        end
      end)
      return got
    end
    assert.same(run(function(f) return f end), run(heed.capture))
  end)

  it("merged follows its weights after an error, too", function()
    local model, row = nn.Sequential{nn.Linear(4, 4), nn.Linear(4, 4)}, heed.ones(1, 4)
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = {"1", "2"}}))
    adapters:merge()
    for _, call in ipairs{function() return model(row) end, adapters.merge} do
      for _, name in ipairs{"1", "2"} do
        local up = adapters[name].up
        heed.no_grad(function() model[1].weight:mul_(2) end)
        adapters[name].up = heed.ones(9, 9)
        assert.is_false(pcall(call, adapters))
        adapters[name].up = up
        local merged = model(row)
        adapters:unmerge()
        assert.is_true(merged:allclose(model(row), {rtol = 1e-5, atol = 1e-6}))
        adapters:merge()
      end
    end
  end)

  it("merges once, as long as weights and adapters stay what they are", function()
    local model = new()
    disturbed(nn.lora(model, {rank = 3, targets = ALL})):merge()
    for _, m in ipairs{model, model:clone()} do
      local layer = m.layers[1].attend.query
      m(x)
      local merged = layer.merged
      m(x)
      assert.is_true(rawequal(merged, layer.merged))
    end
  end)

  it("works with caches, merged or not", function()
    local model = new(true)
    local adapters = disturbed(nn.lora(model, {targets = {"query", "key", "value"}}))
    for _, change in ipairs{"unmerge", "merge"} do
      adapters[change](adapters)
      local whole, cache, parts = model(x), nn.Cache(), {}
      for t = 1, 5 do parts[t] = model(x:narrow(2, t, 1), {cache = cache}) end
      assert.is_true((whole:allclose(heed.cat(parts, 2), {atol = 1e-5})))
    end
  end)

  it("has a state of the adapters alone, which another model loads", function()
    local model, other = new(), new()
    local adapters = disturbed(nn.lora(model, {rank = 2}))
    local theirs = nn.lora(other, {rank = 2})
    local state, n = adapters:state(), 0
    for name in pairs(state) do
      assert.matches("^layers%.%d%.attend%.%l+%.%l+$", name)
      n = n + 1
    end
    assert.equal(8, n)
    theirs:merge()
    theirs:load_state(state)
    assert.is_true((other(x):allclose(model(x), {atol = 1e-6})))
    theirs:unmerge()
    assert.is_true((other(x):equal(model(x))))
    local base = new()
    assert.same(0, #select(2, model:load_state(base:state(), {strict = false})))
  end)

  it("that are not merged are not when they load a state", function()
    local model, other = new(), new()
    local adapters = disturbed(nn.lora(model, {rank = 2}))
    nn.lora(other, {rank = 2}):load_state(adapters:state())
    assert.is_true((other(x):equal(model(x))))
    assert.is_true(other(x).requires_grad)
  end)

  it("of a copy are found by its model", function()
    local model = new()
    disturbed(nn.lora(model, {rank = 2}))
    local copy = model:clone()
    assert.is_true((copy(x):equal(model(x))))
    local y = model(x)
    local theirs = disturbed(nn.lora(copy))
    assert.equal(8, #theirs:parameters())
    assert.is_true((model(x):equal(y)))
    assert.is_false((copy(x):equal(y)))
    assert.matches("nn.lora: what nn.lora returned expected, got a copy",
                   message_of(theirs.merge, theirs:clone()))
  end)

  it("are taken out of their model, whose weights are the same parameters as before", function()
    local model, plain = new(), new()
    local weight, bias = model.layers[1].attend.query.weight, model.layers[2].mlp.up.bias
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = ALL}))
    model:eval()
    local before = heed.rng_state()
    assert.equal(model, adapters:unload(model))
    assert.is_true(heed.rng_state():equal(before))
    assert.equal(weight, model.layers[1].attend.query.weight)
    assert.equal(bias, model.layers[2].mlp.up.bias)
    assert.is_false(weight.requires_grad or model.layers[2].mlp.up.training)
    assert.is_nil((tostring(model):find "Lora"))
    assert.same(bytes(plain:state()), bytes(model:state()))
    for method, argument in pairs {merge = false, unmerge = false, unload = model,
                                   load_state = adapters:state()} do
      assert.matches("taken out of their model by unload; nn.lora%(model, {...}%) puts new ones in",
                     message_of(adapters[method], adapters, argument or nil))
    end
    weight:requires_grad_()
    model(x):sum():backward()
    assert.equal("table", type(weight.grad.shape))
    assert.equal(12, #nn.lora(model, {rank = 2, targets = ALL}):parameters() // 2)
  end)

  it("that are merged are taken out with what they learnt in the weights", function()
    local model = new()
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = ALL})):merge()
    local y = model(x)
    adapters["layers.1.mlp.up"].scale = 5      -- as a merged layer, not as it was when merged
    local moved = model(x)
    assert.is_false((moved:equal(y)))
    adapters:unload(model)
    assert.is_true((model(x):equal(moved)))
    assert.equal("Linear", model.layers[1].mlp.up.__name)
    local other = new()
    other:load_state(model:state())
    assert.is_true((other(x):equal(moved)))
    local blocks = nn.Sequential{nn.Linear(32, 4)}
    blocks:quantize "q8_0"
    adapters = disturbed(nn.lora(blocks, {rank = 2, targets = {"1"}})):merge()
    local wide = heed.randn(3, 32)
    y = blocks(wide)
    assert.is_true((adapters:unload(blocks)(wide):equal(y)))
    assert.equal("float32", blocks[1].weight.dtype)
  end)

  it("are taken out of no other model, and of none whose layer has hooks", function()
    local model = new()
    local adapters = disturbed(nn.lora(model, {rank = 2}))
    local y = model(x)
    for _, other in ipairs {new(), model:clone(), model.layers[1]} do
      assert.matches("nn.lora: unload: the model that has the adapters expected",
                     message_of(adapters.unload, adapters, other))
    end
    for _, other in ipairs {1, {}, "model"} do
      assert.matches("nn.lora: unload: the model with the adapters expected, got ",
                     message_of(adapters.unload, adapters, other))
    end
    local hook = model.layers[2].attend.query:register_forward_hook(function() end)
    assert.matches("the layer at layers.2.attend.query has hooks",
                   message_of(adapters.unload, adapters, model))
    assert.is_true((model(x):equal(y)))
    assert.equal("LoraLinear", model.layers[1].attend.query.__name)
    hook:remove()
    assert.matches("the model that has the adapters expected, got another",
                   message_of(adapters.unload, adapters, adapters))
    local same = nn.lora(model)
    adapters:unload(model)
    assert.matches("taken out", message_of(same.merge, same))
    assert.matches("taken out", message_of(same.unload, same, model))
    local shared = nn.Linear(8, 8)
    local twice = nn.Sequential{shared, nn.ReLU(), shared}
    nn.lora(twice, {targets = {"1", "3"}}):unload(twice)
    assert.equal(twice[1], twice[3])
    assert.equal("Linear", twice[1].__name)
  end)

  it("that are merged are not taken out of a layer whose weight another one has", function()
    local model = nn.Sequential{nn.Embedding(7, 8), nn.Linear(8, 7), nn.Linear(7, 7)}
    model[2].weight = model[1].weight
    local adapters = disturbed(nn.lora(model, {targets = {"2", "3"}})):merge()
    assert.matches("nn.lora: unload: the weight of the layer at 2 is 1.weight, too",
                   message_of(adapters.unload, adapters, model))
    assert.equal("LoraLinear", model[3].__name)
    adapters:unmerge():unload(model)
    assert.equal(model[1].weight, model[2].weight)
    assert.equal("Linear", model[3].__name)
  end)

  it("leaves what shares a weight as it is, and shares where a layer is shared", function()
    local Model = nn.Module:extend("Model")
    function Model:init()
      self.embed, self.first = nn.Embedding(7, 8), nn.Linear(8, 8)
      self.list = {self.first}
      self.out = nn.Linear(8, 7, {bias = false})
      self.out.weight = self.embed.weight
    end
    function Model:forward(ids) return self.out(self.list[1](self.first(self.embed(ids)))) end
    local model, ids = Model(), heed.tensor{{1, 7, 3}}
    local embedded = model.embed(ids)
    local adapters = disturbed(nn.lora(model, {rank = 2, targets = {"out", "first", "list.1"}}))
    assert.equal(4, #adapters:parameters())
    assert.equal(model.first, model.list[1])
    assert.equal(model.embed.weight, model.out.weight)
    local y = model(ids)
    adapters:merge()
    assert.is_true((model(ids):allclose(y, {atol = 1e-5})))
    assert.is_true((model.embed(ids):equal(embedded)))
  end)

  it("takes a layer that several targets name once", function()
    for _, targets in ipairs{{"query", "attend.query"}, {"attend.query", "query", "query"}} do
      local adapters = nn.lora(nn.Encoder(8, 2, 2), {rank = 2, targets = targets})
      assert.equal(4, #adapters:parameters())
    end
  end)

  it("drops of the adapters' input while training", function()
    local model = new()
    disturbed(nn.lora(model, {dropout = 0.5}))
    assert.is_false((model(x):equal(model(x))))
    model:eval()
    assert.is_true((model(x):equal(model(x))))
  end)

  it("takes the mode of the layer", function()
    local model = new():eval()
    disturbed(nn.lora(model, {dropout = 0.5}))
    assert.is_true((model(x):equal(model(x))))
  end)

  it("are forgotten with what nn.lora returned", function()
    local model, kept = new(), setmetatable({}, {__mode = "k"})
    kept[nn.lora(model, {rank = 2})] = true
    collectgarbage()
    assert.is_nil(next(kept))
  end)

  it("refuse arguments of their methods that they do not take", function()
    local model = new()
    local adapters = nn.lora(model, {rank = 2})
    for _, name in ipairs{"merge", "unmerge"} do
      assert.matches("nn.Lora: no argument expected, got 1",
                     message_of(adapters[name], adapters, 1))
    end
    assert.matches("nn.Lora: at most 2 arguments expected, got 1 as argument 3",
                   message_of(adapters.load_state, adapters, adapters:state(), {}, 1))
    local layer = model.layers[1].attend.query
    local adapter = layer.adapter
    assert.equal("Adapter(rank = 2)", tostring(adapter):match("^[^\n]*%)"))
    assert.matches("nn.lora: an nn.Linear and an adapter expected, got Linear and 5",
                   message_of(layer.init, layer, nn.Linear(2, 2), 5))
    assert.matches("nn.Adapter: at most 1 argument expected", message_of(adapter, x, x))
  end)

  it("refuses what it does not take", function()
    local model = new()
    local function why(...) return message_of(nn.lora, ...) end
    assert.matches("a module expected as the first argument, got 3", why(3))
    assert.matches("options expected, since the model has no adapters", why(model))
    assert.matches("no linear layer is called 'v_proj'; did you mean 'value'?",
                   why(nn.Encoder(8, 2, 1), {targets = {"v_proj"}}), 1, true)
    assert.matches("no linear layer is called 'querry'; did you mean 'query'",
                   why(model, {targets = {"querry"}}))
    assert.matches("no linear layer is called 'foo'; there are key, out, query, value$",
                   why(nn.Sequential{nn.MultiHeadAttention(8, 2)}, {targets = {"foo"}}))
    assert.matches("an nn.Linear expected at the target layers.1.mlp, got MLP",
                   why(model, {targets = {"mlp"}}))
    assert.matches("a list of names expected as option targets, got", why(model, {targets = {}}))
    assert.matches("a name expected as target 1, got 3", why(model, {targets = {3}}))
    assert.matches("an entry expected at position 1", why(model, {targets = {nil, "query"}}))
    local function endless(_, i) return "query" .. i end
    local list = setmetatable({}, {__index = endless, __len = function() return 1 << 62 end})
    assert.matches("a list of names expected as option targets, got", why(model, {targets = list}))
    assert.same({}, nn.Linear(32, 2):quantize("q8_0", {except = list}))   -- which has no entries
    assert.matches("rank", why(model, {rank = 0}))
    local hook = model.layers[1].attend.query:register_forward_hook(print)
    assert.matches("an nn.Linear without hooks expected at the target layers.1.attend.query, "
                   .. "got Linear; remove its hooks first",
                   why(model, {rank = 2}))
    hook:remove()
    assert.is_true(model.layers[1].mlp.up.weight.requires_grad)
    nn.lora(model, {rank = 2})
    assert.matches("nn.lora: the model has adapters already, at layers.1.attend.query; "
                   .. "nn.lora%(model%)", why(model, {rank = 2}))
  end)
end)


describe("options of PEFT", function()
  it("are answered with those of nn.lora", function()
    for name, wanted in pairs{r = "rank = n", lora_alpha = "alpha = n", target_modules = "targ"} do
      local good, why = pcall(heed.nn.lora, heed.nn.MultiHeadAttention(8, 2), {[name] = 4})
      assert.is_false(good)
      assert.matches("unknown option '" .. name .. "'.*write " .. wanted, why)
    end
  end)
end)
