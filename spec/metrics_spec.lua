-- Metrics beside plain loops, and PyTorch's one-cycle and plateau schedules by their formulas.

local close = require "spec.support.close"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"

local function near(a, b) assert.is_true(close(a, b, 1e-9, 1e-12), a .. " ~= " .. b) end

local PREDICTED <const>, RIGHT <const> = {1, 2, 2, 3, 1, 2, 5}, {1, 2, 3, 3, 2, 2, -100}


describe("metrics of classes", function()
  it("count pairs, for lists, tensors and logits", function()
    local wanted = {{1, 0, 0}, {1, 2, 0}, {0, 1, 1}}
    assert.same(wanted, heed.confusion_matrix(PREDICTED, RIGHT):totable())
    local p = heed.tensor{{1, 2, 2}, {3, 1, 2}}
    local y = heed.tensor{{1, 2, 3}, {3, 2, 2}}
    assert.same(wanted, heed.confusion_matrix(p, y):totable())
    assert.same(wanted, heed.confusion_matrix(p:t(), y:t()):totable())
    local logits = heed.one_hot(p, 3):to("float32")
    assert.same(wanted, heed.confusion_matrix(logits, y):totable())
    assert.same(wanted, heed.confusion_matrix(logits:movedim(3, 1), y, {dim = 1}):totable())
    assert.equal("int64", heed.confusion_matrix(p, y).dtype)
    assert.equal(5, heed.confusion_matrix(p, y, {classes = 5}):size(1))
  end)

  it("are precision, recall and F1", function()
    local function none(name) return heed[name](PREDICTED, RIGHT, {average = "none"}):totable() end
    for i, x in ipairs{1 / 2, 2 / 3, 1} do near(none("precision")[i], x) end
    for i, x in ipairs{1, 2 / 3, 1 / 2} do near(none("recall")[i], x) end
    for i, x in ipairs{2 / 3, 2 / 3, 2 / 3} do near(none("f1")[i], x) end
    near(heed.precision(PREDICTED, RIGHT), (1 / 2 + 2 / 3 + 1) / 3)
    near(heed.recall(PREDICTED, RIGHT), (1 + 2 / 3 + 1 / 2) / 3)
    near(heed.f1(PREDICTED, RIGHT), 2 / 3)
    for _, name in ipairs{"precision", "recall", "f1"} do
      near(heed[name](PREDICTED, RIGHT, {average = "micro"}), 4 / 6)
    end
  end)

  it("divide by zero as they are told", function()
    local p, y = {1, 1, 2}, {1, 3, 3}
    assert.same({0.5, 0, 0}, heed.precision(p, y, {average = "none"}):totable())
    assert.same({0.5, 0, 1, 1},
                heed.precision(p, y, {average = "none", zero_division = 1, classes = 4}):totable())
    near(heed.precision(p, y, {classes = 4}), 0.5 / 3)           -- class 4 does not occur
    near(heed.precision(p, y, {zero_division = 1}), 1.5 / 3)
    assert.equal(0.25, heed.recall({}, {}, {zero_division = 0.25}))
    assert.equal(0.25, heed.f1({1}, {-100}, {zero_division = 0.25, average = "micro"}))
    assert.equal(0, heed.confusion_matrix({}, {}):numel())
  end)

  it("measure perplexity", function()
    local logits = heed.randn(2, 3, 4)
    local ids = heed.tensor{{1, 4, -100}, {2, 2, 3}}
    local sum, logs = 0, logits:log_softmax(-1):totable()
    for b, row in ipairs(ids:totable()) do
      for t, id in ipairs(row) do sum = sum + (id > 0 and logs[b][t][id] or 0) end
    end
    assert.is_true(close(heed.perplexity(logits, ids), math.exp(-sum / 5), 1e-5))
    assert.is_true(close(heed.perplexity(logits:movedim(3, 2), ids, {dim = 2}),
                         math.exp(-sum / 5), 1e-5))
    assert.is_true(close(heed.perplexity(heed.zeros(3, 7), {1, 5, 7}), 7, 1e-6))
    assert.is_true(close(heed.perplexity(heed.zeros(7), heed.tensor(3)), 7, 1e-6))
    local none = heed.perplexity(logits, heed.full({2, 3}, -100))
    assert.is_true(none ~= none)
  end)

  it("refuse what has no answer", function()
    for _, name in ipairs{"confusion_matrix", "precision", "recall", "f1"} do
      local function said(...) return message(heed[name], ...) end
      assert.matches(name .. ": argument 'ids': shape %(2%) expected", said({1, 2}, {1}))
      assert.matches("argument 'predictions': classes from 1 to 2 expected, got 0; classes count",
                     said({0, 2}, {1, 2}))
      assert.matches("argument 'ids': classes from 1 to 2 expected, got 3",
                     said({1, 2}, {1, 3}, {classes = 2}))
      assert.matches("a tensor or a list expected, got 5", said(5, {1}))
      assert.matches("argument 'ids': ids expected", said({1, 2}, {1.5, 2}))
      assert.matches("as the predictions have it, got %(2%); floats are logits of 2 classes",
                     said(heed.tensor{0.3, 0.7}, {1, 2}))
      assert.matches("option classes: 2 expected, which the logits have, got 3",
                     said(heed.ones(1, 2), {1}, {classes = 3}))
      assert.matches("option dim: an axis from 1 to 2", said(heed.ones(1, 2), {1}, {dim = 0}))
      assert.matches("at most 3 arguments", said({1}, {1}, {}, 1))
      assert.matches("unknown option 'ignore'", said({1}, {1}, {ignore = 1}))
    end
    assert.matches("'macro', 'micro' or 'none' expected as option average, got the string 'mean'",
                   message(heed.f1, {1}, {1}, {average = "mean"}))
    assert.matches("perplexity: argument 'logits': a tensor or a list expected, got the string",
                   message(heed.perplexity, "x", {1}))
    assert.matches("a float tensor with classes expected, got a tensor of shape %(%)",
                   message(heed.perplexity, heed.tensor(0.5), heed.tensor(1)))
    assert.matches("perplexity: argument 'ids': a tensor or a list expected, got the string",
                   message(heed.perplexity, heed.ones(2, 3), "x"))
    assert.matches("perplexity: argument 'ids': shape %(2%) expected",
                   message(heed.perplexity, heed.ones(2, 3), {1}))
    assert.matches("perplexity: argument 'ids': classes from 1 to 3 expected, got 4",
                   message(heed.perplexity, heed.ones(1, 3), {4}))
  end)
end)


describe("optim.one_cycle", function()
  -- The rates of OneCycleLR by its formula, in closed form, of max_lr 1.
  local function wanted(n, o, step)
    local first, at, up = 1 / o.div, step - 1, o.pct * n - 1
    local function anneal(a, b, part)
      if o.linear then return a + (b - a) * part end
      return b + (a - b) / 2 * (1 + math.cos(math.pi * part))
    end
    if at <= up then return anneal(first, 1, at / up) end
    if not o.three then return anneal(1, first / o.final, (at - up) / (n - 1 - up)) end
    local down = 2 * o.pct * n - 2
    if at <= down then return anneal(1, first, (at - up) / (down - up)) end
    return anneal(first, first / o.final, (at - down) / (n - 1 - down))
  end

  it("is PyTorch's", function()
    local plain, other = optim.one_cycle(100), {pct = 0.3, div = 25, final = 1e4}
    for step = 1, 100 do near(plain(step), wanted(100, other, step)) end
    near(plain(1), 0.04)
    near(plain(30), 1)
    near(plain(100), 4e-6)
    near(plain(1000), 4e-6)
    local three = optim.one_cycle(50, {pct_start = 0.4, anneal_strategy = "linear", div_factor = 10,
                                       final_div_factor = 100, three_phase = true})
    other = {pct = 0.4, div = 10, final = 100, linear = true, three = true}
    for step = 1, 50 do near(three(step), wanted(50, other, step)) end
    near(three(20), 1)
    near(three(39), 0.1)
    near(three(50), 1e-3)
  end)

  it("has no step without a number", function()
    for _, pct in ipairs{0, 0.5, 1} do
      for n = 1, 5 do
        for _, three in ipairs{true, false} do
          local rate = optim.one_cycle(n, {pct_start = pct, three_phase = three})
          for step = 1, n do
            local x = rate(step)
            assert.is_true(x >= 0 and x <= 1.0000001, ("%s %s %s: %s"):format(pct, n, step, x))
          end
        end
      end
    end
  end)

  it("refuses what is none", function()
    assert.matches("optim.one_cycle: 'cos' or 'linear' expected as option anneal_strategy",
                   message(optim.one_cycle, 5, {anneal_strategy = "cosine"}))
    assert.matches("a number from 0 to 1 expected as option pct_start, got 2",
                   message(optim.one_cycle, 5, {pct_start = 2}))
    assert.matches("above 0 expected as option div_factor", message(optim.one_cycle, 5,
                                                                    {div_factor = 0}))
  end)
end)


describe("optim.plateau", function()
  -- ReduceLROnPlateau, line by line, of rate 1.
  local function reference(o, values)
    local best, bad, cooling, lr, rates = o.mode == "min" and math.huge or -math.huge, 0, 0, 1, {}
    local function better(a)
      if o.mode == "min" and o.threshold_mode == "rel" then return a < best * (1 - o.threshold) end
      if o.mode == "min" then return a < best - o.threshold end
      if o.threshold_mode == "rel" then return a > best * (o.threshold + 1) end
      return a > best + o.threshold
    end
    for i, a in ipairs(values) do
      if better(a) then best, bad = a, 0 else bad = bad + 1 end
      if cooling > 0 then cooling, bad = cooling - 1, 0 end
      if bad > o.patience then
        local new = math.max(lr * o.factor, o.min)
        if lr - new > o.eps then lr = new end
        cooling, bad = o.cooldown, 0
      end
      rates[i] = lr
    end
    return rates
  end

  local FALLING <const>, RISING <const> = {}, {}
  for i = 1, 200 do
    FALLING[i] = 1 + 3 / i + 0.05 * math.sin(i * i)
    RISING[i] = 6 - FALLING[i]
  end

  it("is PyTorch's, and goes on from its state", function()
    local n = 0
    for _, mode in ipairs{"min", "max"} do
      for _, threshold_mode in ipairs{"rel", "abs"} do
        for _, cooldown in ipairs{0, 3} do
          local o = {mode = mode, threshold_mode = threshold_mode, cooldown = cooldown,
                     factor = 0.5, patience = 2, threshold = 0.01, min = 0.01, eps = 1e-3}
          local values = mode == "min" and FALLING or RISING
          local wanted, plateau = reference(o, values), optim.plateau(o)
          for i, value in ipairs(values) do
            local next_one = optim.plateau(o)
            next_one:load_state(plateau:state())
            plateau = next_one
            assert.equal(wanted[i], plateau:update(value))
            assert.equal(wanted[i], plateau(i))
            if i > 1 and wanted[i] ~= wanted[i - 1] then n = n + 1 end
          end
        end
      end
    end
    assert.is_true(n > 20)
  end)

  it("counts from the first value on, which may be no better than none", function()
    local nan <const> = 0 / 0
    for mode, worst in pairs{min = math.huge, max = -math.huge} do
      for _, first in ipairs{nan, worst} do
        for cooldown = 0, 2 do
          local o = {mode = mode, threshold_mode = "rel", cooldown = cooldown, factor = 0.5,
                     patience = 2, threshold = 0.01, min = 0.01, eps = 1e-3}
          local values = {first, first, first, first, 1.0, first, first, first, first, first}
          local plateau = optim.plateau(o)
          for i, wanted in ipairs(reference(o, values)) do
            assert.equal(wanted, plateau:update(values[i]))
          end
        end
      end
    end
  end)

  it("leaves out a change of eps or less", function()
    for eps, wanted in pairs{[0.5] = 1, [0.4] = 0.5} do
      local plateau = optim.plateau{factor = 0.5, patience = 0, eps = eps}
      plateau:update(1)
      near(plateau:update(1), wanted)
    end
  end)

  it("counts NaN as no better, and refuses what is no state", function()
    local plateau = optim.plateau{patience = 0}
    plateau:update(1)
    near(plateau:update(0 / 0), 0.1)
    local state = plateau:state()
    state.num_bad_epochs = heed.tensor(-1)
    assert.matches("num_bad_epochs: at least 0 expected",
                   message(plateau.load_state, plateau, state))
    for _, factor in ipairs{-0.5, 1.5, 0 / 0} do
      state.factor = heed.tensor(factor, {dtype = "float64"})
      assert.same({"factor: from 0 to 1 expected", "num_bad_epochs: at least 0 expected"},
                  plateau:compare(state))
    end
    near(plateau(1), 0.1)
    for _, factor in ipairs{0, 1} do
      state = plateau:state()
      state.factor = heed.tensor(factor, {dtype = "float64"})
      assert.same({}, plateau:compare(state))
    end
    assert.matches("update: a number expected as value, got nil", message(plateau.update, plateau))
    assert.matches("optim.plateau: at most 1 argument expected, got 2", message(plateau, 1, 2))
    assert.matches("write min, a part of the optimiser's rate",
                   message(optim.plateau, {min_lr = 1e-4}))
    assert.matches("below 1 expected as option factor, got 1", message(optim.plateau, {factor = 1}))
  end)
end)


describe("cache:detach", function()
  local function layers()
    return nn.Decoder(8, 2, 2, {norm = "pre", cross = false, rope = true})
  end

  it("ends gradients at the segment before, and changes no value", function()
    local model, x = layers():to("float64"), heed.randn(2, 6, 8, {dtype = "float64"})
    local function gradients(detach)
      model:zero_grad()
      local cache = nn.Cache()
      local first = x:narrow(2, 1, 3) * 1
      first = first:detach():requires_grad_()
      if detach == "no_grad" then heed.no_grad(model, first, {cache = cache, causal = true})
      else model(first, {cache = cache, causal = true}) end
      if detach == true then assert.equal(cache, cache:detach()) end
      local y = model(x:narrow(2, 4, 3), {cache = cache, causal = true})
      y:pow(3):sum():backward()           -- squares of what a norm gives add up to the same
      local list = {}
      for i, p in ipairs(model:parameters()) do list[i] = p.grad:clone() end
      return list, first.grad, y:detach()
    end
    local whole, reached, y = gradients()
    local cut, none, same = gradients(true)
    local apart = gradients("no_grad")
    assert.is_truthy(reached)
    assert.is_nil(none)
    assert.is_true(y:equal(same))
    local differ = false
    for i, g in ipairs(cut) do
      assert.is_true(g:allclose(apart[i], {atol = 1e-10}))
      differ = differ or not g:allclose(whole[i], {atol = 1e-4})
    end
    assert.is_true(differ)
  end)

  it("cuts what a layer made of its context", function()
    local model, context = nn.Decoder(8, 2, 1), heed.randn(1, 4, 8, {requires_grad = true})
    local cache, x = nn.Cache(), heed.randn(1, 2, 8)
    model(x, context, {cache = cache}):sum():backward()
    cache:detach()
    context.grad = nil
    model(x, context, {cache = cache}):square():sum():backward()
    assert.is_nil(context.grad)
  end)

  it("trains across segments, as Transformer-XL does", function()
    heed.manual_seed(3)
    local embed, decoder, head = nn.Embedding(5, 8), layers(), nn.Linear(8, 5)
    local list = {}
    for _, m in ipairs{embed, decoder, head} do
      for _, p in ipairs(m:parameters()) do list[#list + 1] = p end
    end
    local opt, losses = optim.AdamW(list, {lr = 1e-2}), {}
    for step = 1, 60 do
      local ids = heed.randint(5, {8, 4}):repeat_interleave(1, 2)
      ids = heed.cat({ids, ids, ids}, 2)                         -- (8, 12), of period 4
      local cache, sum = nn.Cache{window = 8}, 0
      for at = 1, 9, 4 do                                        -- segments of 4
        local x = ids:narrow(2, at, math.min(4, 12 - at))
        local logits = head(decoder(embed(x), {cache = cache, causal = true}))
        local wanted = ids:narrow(2, at + 1, x:size(2))
        local loss = heed.cross_entropy(logits, wanted, {dim = -1})
        opt:zero_grad()
        loss:backward()
        opt:step()
        cache:detach()
        if at > 1 then sum = sum + loss:item() end
      end
      losses[step] = sum / 2
    end
    assert.is_true(losses[60] < 0.6 * losses[1], losses[1] .. " -> " .. losses[60])
  end)
end)
