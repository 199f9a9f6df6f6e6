-- Captured work that is dropped before it was done: what keeps tensors over calls is as before, and
-- a tensor that never got a value is refused by name.

local data = require "heed.data"
local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"

-- Composed operations read values back.
local it = os.getenv "HEED_BUILD" == "basic" and pending or it

local NO_VALUE <const> = "a tensor has no value: the work that makes it was captured, and then "
                         .. "dropped"

-- Arguments that are no part of a call's kind: f's calls differ by them.
local function switch() return setmetatable({}, {}) end

-- A call of f that is captured, and breaks off at its end; the first one is f's own.
local function dropped(f, ...)
  local how, args = switch(), table.pack(...)
  local g = heed.capture(function(own, ...)
    local y = heed.ones(1) + 1
    if own.late then
      f(...)
      error("dropped", 0)
    end
    return y
  end)
  g(how, ...)
  how.late = true
  assert.error_matches(function() g(how, table.unpack(args)) end, "dropped")
end


describe("a recording that is dropped", function()
  it("gives a leaf the gradient back that it lost as it was frozen", function()
    local x = heed.ones(3):requires_grad_()
    x.grad = heed.full({3}, 7.0)
    dropped(function()
      x:requires_grad_(false):requires_grad_(true)
      heed.sum(x * 2):backward()
    end)
    assert.same({7, 7, 7}, x.grad:totable())
  end)

  it("leaves tensors that are refused by name", function()
    local w, kept = heed.ones(3), {}
    dropped(function()
      kept[1] = w + 1
      kept[2] = kept[1]:narrow(1, 1, 2)
      kept[3] = heed.tensor{1.0, 2, 3}
      kept[4] = kept[1]:detach()
    end)
    for _, t in ipairs(kept) do
      for _, read in ipairs{function() return t + 1 end, function() return t:sum():item() end,
                            function() return t:totable() end, function() t:add_(1) end,
                            function() return t:data() end, function() return tostring(t) end,
                            function() return heed.cat{t, t} end,
                            function() return heed.capture(function() return t * 2 end)() end} do
        assert.error_matches(read, NO_VALUE, 1, true)
      end
    end
    assert.same({2, 2, 2}, (w + 1):totable())
  end)

  it("leaves nothing that outlives its tensors", function()
    local w = heed.ones(3)
    local function other_after(n)
      for _ = 1, n do
        local kept
        dropped(function() kept = w + 1 end)
        assert.error_matches(function() return kept + 1 end, NO_VALUE, 1, true)
      end
      collectgarbage()
      collectgarbage()
      return heed.memory().other
    end
    assert.equal(other_after(1), other_after(20))
  end)

  it("leaves those of others as they are", function()
    local w, kept = heed.ones(3), {}
    for i = 1, 3 do dropped(function() kept[i] = w + 1 end) end
    kept[2] = nil
    collectgarbage()
    collectgarbage()
    local f = heed.capture(function(x) return (x + 1) * 2 end)
    for _ = 1, 3 do assert.same({4, 4, 4}, f(w):totable()) end
    for _, t in pairs(kept) do
      assert.error_matches(function() return t + 1 end, NO_VALUE, 1, true)
    end
  end)

  it("leaves numbers their values", function()
    local two, x = heed.tensor(2), heed.ones(2)
    dropped(function() return x * two, two:reshape(1) end)
    assert.same({2, 2}, (x * two):totable())
    assert.equal(2, two:item())
  end)

  it("leaves an optimiser's state as it was, and makes it when it is needed", function()
    for _, name in ipairs{"Adam", "SGD", "AdamW", "Lion"} do
      local function run(drops)
        local w = heed.ones(2, {requires_grad = true})
        local opt = optim[name]({w}, {lr = 0.5, momentum = name == "SGD" and 0.5 or nil})
        local function step(x)
          opt:zero_grad()
          local loss = (w * w * x):sum()
          loss:backward()
          opt:step()
        end
        if drops then dropped(step, heed.ones(2)) end
        for i = 1, 3 do step(heed.full({2}, i * 1.0)) end
        if drops then dropped(step, heed.ones(2)) end
        step(heed.ones(2))
        return w:totable(), opt:state().step:item()
      end
      local wanted, steps = run(false)
      local got, same = run(true)
      assert.same(wanted, got, name)
      assert.equal(steps, same)
    end
  end)

  it("leaves a predicate's answers to be asked again", function()
    local mask = heed.mask.predicate(function(_, _, i, j) return j <= i end)
    local q = heed.ones(1, 1, 4, 2)
    local k = heed.arange(8):to("float32"):view(1, 1, 4, 2)
    dropped(function() return heed.attention(q, k, k, {mask = mask}) end)
    assert.equal(heed.attention(q, k, k, {causal = true}):data(),
                 heed.attention(q, k, k, {mask = mask}):data())
  end)

  it("leaves batches where they were", function()
    local x = heed.arange(6):to("float32")
    for _, o in ipairs{{shuffle = false}, {seed = 3}} do
      o.size, o.epochs = 2, 2
      local batches, plain = data.batches(x, o), data.batches(x, o)
      for i = 1, 7 do
        if i % 3 == 2 or i == 1 and not o.seed then
          dropped(function() return batches(), batches() end)
        end
        local got, wanted = batches(), plain()
        assert.same(wanted and wanted:totable(), got and got:totable())
      end
      assert.same(plain:state().place:totable(), batches:state().place:totable())
    end
  end)

  it("leaves a window over a cache to be laid again", function()
    heed.manual_seed(4)
    local layer, x = nn.MultiHeadAttention(4, 2), heed.randn(1, 5, 4)
    local mask, plain, cache = heed.mask.window(2), nn.Cache{capacity = 8}, nn.Cache{capacity = 8}
    local function call(own, i)
      return layer(x:narrow(2, i, 1), {mask = mask, causal = true, cache = own})
    end
    heed.no_grad(function()
      local first = layer(x:narrow(2, 1, 1), {causal = true, cache = cache})
      assert.equal(layer(x:narrow(2, 1, 1), {causal = true, cache = plain}):data(), first:data())
      for i = 2, 5 do
        dropped(function() return call(cache, i) end)
        assert.equal(call(plain, i):data(), call(cache, i):data())
      end
    end)
  end)

  it("leaves a cache at its tokens", function()
    heed.manual_seed(4)
    local layer, other = nn.MultiHeadAttention(4, 2), nn.MultiHeadAttention(4, 2)
    local x = heed.randn(1, 5, 4)
    local function call(cache, from)
      local o = {cache = cache, causal = true}
      return other(layer(x:narrow(2, from, 1), o), o)
    end
    heed.no_grad(function()
      local plain, cache, results = nn.Cache{capacity = 8}, nn.Cache{capacity = 8}, {}
      for i = 1, 5 do results[i] = call(plain, i):data() end
      for i = 1, 5 do
        if i > 1 then dropped(function() return call(cache, i) end) end
        if i > 2 then dropped(function() return layer(x:narrow(2, i, 1), {cache = cache}) end) end
        assert.equal(i - 1, cache:length())
        assert.equal(results[i], call(cache, i):data())
      end
    end)
  end)

  it("leaves graphs and gradients as they were", function()
    local w = heed.tensor({2.0, 3}, {requires_grad = true})
    local h, g = w * 2, w * 3
    local v = g:narrow(1, 1, 1)
    w.grad = heed.full(2, 7.0)
    dropped(function()
      h:mul_(w)
      v:mul_(5)
      w.grad = nil
      local loss = (w * w):sum()
      loss:backward()
    end)
    assert.same({7, 7}, w.grad:totable())
    w.grad = nil
    h:sum():backward()
    assert.same({2, 2}, w.grad:totable())
    w.grad = nil
    g:sum():backward()
    assert.same({3, 3}, w.grad:totable())
  end)

end)


describe("a replay that fails", function()
  local device = heed.default_device()
  before_each(function() heed.default_device("cpu") end)
  after_each(function() heed.default_device(device) end)

  it("leaves what a first one made, and the rest is refused", function()
    local w, kept = heed.randn(3, 2), {}
    local f = heed.capture(function(ids)
      kept[1] = w + 1
      local y = heed.embedding(ids, w)
      kept[2] = w * 2
      return y
    end)
    f(heed.tensor{1, 2})
    assert.error_matches(function() f(heed.tensor{1, 4}) end, "^embedding: ")
    assert.equal((w + 1):data(), kept[1]:data())
    assert.error_matches(function() return kept[2] + 1 end, NO_VALUE, 1, true)
    assert.equal(w:data(), f(heed.tensor{1, 2, 3}):data())
    assert.equal(w:narrow(1, 1, 2):data(), f(heed.tensor{1, 2}):data())
    assert.equal((w * 2):data(), kept[2]:data())
  end)


  it("leaves the gradients that the function leaves", function()
    for _, adds in ipairs{false, true} do
      local function run(wrap)
        local v = heed.ones(2, {requires_grad = true})
        local w = heed.ones(3, 2, {requires_grad = true})
        local u = heed.ones(2, {requires_grad = true})
        local f = wrap(function(ids)
          if not adds then v.grad, w.grad, u.grad = nil, nil, nil end
          local first = (v * v * ids:sum()):sum()
          first:backward()
          local second = (heed.embedding(ids, w) * u):sum()
          second:backward()
        end)
        local seen = {}
        for i = 1, 9 do
          local good = pcall(f, heed.tensor{i % 3 + 1, i % 4 == 0 and 7 or 1})
          seen[i] = {good}
          for k, t in ipairs{v, w, u} do seen[i][k + 1] = t.grad and t.grad:totable() or "none" end
        end
        return seen
      end
      assert.same(run(function(f) return f end), run(heed.capture))
    end
  end)
end)


describe("calls of one kind", function()
  local device = heed.default_device()
  before_each(function() heed.default_device("cpu") end)
  after_each(function() heed.default_device(device) end)

  -- A captured function, and how often it was called itself.
  local function counted(work)
    local n = 0
    return heed.capture(function(...)
      n = n + 1
      return work(...)
    end), function()
      local before = n
      n = 0
      return before
    end
  end

  it("are those whose tables hold the same, in any order", function()
    local f, calls = counted(function(x) return x + 1 end)
    local list = {1, 2, 3, 0.5, "a", "b", "c", true, print, pairs, ipairs, next, type, rawget}
    for first = 1, #list do
      local t = {}
      for i = 1, #list do t[list[(first + i) % #list + 1]] = (first + i) % #list end
      for _ = 1, 3 do f(heed.ones(2), t) end
      assert.equal(first == 1 and 2 or 0, calls())
    end
  end)

  it("have 8 recordings, and call f from then on", function()
    local w = heed.ones(2)
    local f, calls = counted(function(x) return x * w end)
    f(heed.ones(2))
    for i = 1, 8 do
      w:set_(heed.ones(2) * i)
      calls()
      for _ = 1, 3 do assert.same({i, i}, f(heed.ones(2)):totable()) end
      assert.equal(1, calls())
    end
    w:set_(heed.ones(2) * 9)
    for _ = 1, 3 do assert.same({9, 9}, f(heed.ones(2)):totable()) end
    assert.equal(3, calls())
  end)

  it("have a recording for each set of gradients that are there, and find it again", function()
    local w, v = heed.ones(1):requires_grad_(true), heed.ones(1):requires_grad_(true)
    local f, calls = counted(function(x) (w * x + v * x):sum():backward() end)
    local x, of_w, of_v = heed.ones(1), heed.zeros(1), heed.zeros(1)
    f(x)
    for round = 1, 3 do
      for i = 0, 3 do
        w.grad, v.grad = i % 2 > 0 and of_w:zero_() or nil, i > 1 and of_v:zero_() or nil
        calls()
        f(x)
        assert.equal(round == 1 and 1 or 0, calls())
        assert.same({{1}, {1}}, {w.grad:totable(), v.grad:totable()})
      end
    end
  end)

  it("call f once where they share memory that it changes", function()
    local f, calls = counted(function(a, b)
      a:add_(10)
      return b * 1
    end)
    for _ = 1, 2 do f(heed.ones(2), heed.ones(2)) end
    assert.equal(2, calls())
    for _ = 1, 9 do
      local u = heed.ones(3)
      assert.same({11, 1}, f(u:narrow(1, 1, 2), u:narrow(1, 2, 2)):totable())
      assert.equal(1, calls())
    end
    assert.same({1, 1}, f(heed.ones(2), heed.ones(2)):totable())
    assert.equal(0, calls())
  end)
end)
