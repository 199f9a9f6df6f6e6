-- heed.sample: probabilities under its options, against those of the transformers library; draws.

local close = require "spec.support.close"
local golden = require "spec.golden"
local heed = require "heed"
local message = require "spec.support.message"

local numbers = golden.read "sampling"


-- An option's table, with the history of as many rows as there are.
local function options_of(case, rows, more)
  local o = {}
  for name, value in pairs(case.options) do o[name] = value end
  for name, value in pairs(more) do o[name] = value end
  if case.uses_history then
    o.history = (golden.tensor(numbers.history) + 1):narrow(1, 1, rows)
  end
  return o
end

local function words(o)
  local list = {}
  for name, value in pairs(o) do list[#list + 1] = name .. " = " .. tostring(value) end
  table.sort(list)
  return table.concat(list, ", ")
end


describe("the probabilities of heed.sample", function()
  for k, case in ipairs(numbers.cases) do
    it(("are transformers' (%d, %s): %s"):format(k, case.logits, words(case.options)), function()
      local logits = golden.tensor(numbers.logits[case.logits])
      local o = options_of(case, #logits, {probabilities = true})
      local ids, probabilities = heed.sample(logits, o)
      assert.is_nil(golden.difference(probabilities, case.probabilities, numbers.tolerance, 1e-9))
      for r, n in ipairs(case.kept) do
        assert.equal(n, probabilities[r]:gt(0):sum():item())
        assert.is_true(probabilities[r][ids[r]] > 0)
      end
    end)
  end

  it("are those of the best where a temperature is next to 0", function()
    local logits = heed.tensor{{1, 3, 2.5}, {-1e38, -2, -2}, {-math.huge, 1, 3e38}}
    for _, temperature in ipairs{1e-4, 1e-30, 1e-300, 5e-324} do
      for _, dtype in ipairs{"float32", "float64"} do
        local o = {temperature = temperature, probabilities = true}
        local _, p = heed.sample(logits:to(dtype), o)
        assert.same({{0, 1, 0}, {0, 0.5, 0.5}, {0, 0, 1}}, p:totable())
      end
    end
  end)

  it("are read back once, whatever the temperature", function()
    local core, logits = require "heed.core", heed.randn(2, 9)
    local device = logits.device
    local function works(temperature)
      local before = core.works(device)
      heed.sample(logits, {temperature = temperature})
      return core.works(device) - before
    end
    works(2)
    assert.equal(works(2), works(0.7))
  end)

  it("are numbers where a temperature takes the best out of the type's range", function()
    for dtype, large in pairs{float32 = 3e38, float64 = 1.7e308} do
      local logits = heed.tensor({{1, large, 0.5}, {-large, -large, -math.huge}}, dtype)
      for _, temperature in ipairs{0.1, 0.9} do
        local _, p = heed.sample(logits, {temperature = temperature, probabilities = true})
        assert.same({{0, 1, 0}, {0.5, 0.5, 0}}, p:totable())
      end
    end
  end)

  it("come for one row, several, and several dimensions of rows", function()
    local logits = heed.randn(2, 3, 5)
    local ids, probabilities = heed.sample(logits, {top_k = 2, probabilities = true})
    assert.equal("(2, 3)", tostring(ids.shape))
    assert.equal("(2, 3, 5)", tostring(probabilities.shape))
    assert.equal("int64", ids.dtype)
    local one, alone = heed.sample(logits[{2, 3}], {top_k = 2, probabilities = true})
    assert.equal("()", tostring(one.shape))
    assert.is_true(alone:allclose(probabilities[{2, 3}]))
    assert.is_nil(select(2, heed.sample(logits)))
  end)

  it("are those of views, and of other types", function()
    local logits = heed.randn(5, 3)
    local _, wanted = heed.sample(logits:t():contiguous(), {top_p = 0.7, probabilities = true})
    local _, got = heed.sample(logits:t(), {top_p = 0.7, probabilities = true})
    assert.is_true(got:equal(wanted))
    _, got = heed.sample(logits:t():to("float64"), {top_p = 0.7, probabilities = true})
    assert.equal("float64", got.dtype)
    assert.is_true(got:allclose(wanted:to("float64"), {atol = 1e-6}))
    _, got = heed.sample(logits:t():to("bfloat16"), {probabilities = true})
    assert.equal("float32", got.dtype)
  end)

  it("keep all that tie with the last of the best k", function()
    local _, p = heed.sample(heed.tensor{1, 2, 2, 2, 0.0}, {top_k = 2, probabilities = true})
    assert.is_true(p:allclose(heed.tensor{0, 1 / 3, 1 / 3, 1 / 3, 0}))
  end)

  it("keep the best, however little top_p asks for", function()
    local _, p = heed.sample(heed.tensor{1, 3, 2.0}, {top_p = 0, probabilities = true})
    assert.same({0, 1, 0}, p:totable())
  end)

  it("take the history of a single row with and without a list around it", function()
    local logits = heed.tensor{1.0, 3, 2}
    local function shares(history)
      local _, p = heed.sample(logits, {repetition_penalty = 4, history = history,
                                        probabilities = true})
      return p:totable()
    end
    local plain = heed.softmax(logits, 1):totable()
    assert.same(plain, shares{})
    assert.same(plain, shares{{}})
    assert.same(shares{{2}}, shares{2})
    assert.same(shares{{2}}, shares(heed.tensor{2}))
    assert.is_true(shares{2}[2] < plain[2])
  end)

  it("count each id of a history once, in lists of any length", function()
    local logits = heed.tensor{{1, -1, 3.0}, {2, 2, 2.0}}
    local o = {repetition_penalty = 2, history = {{2, 2, 1}, {}}, probabilities = true}
    local _, p = heed.sample(logits, o)
    assert.is_true(p:allclose(heed.tensor{{0.5, -2, 3}, {2, 2, 2}}:softmax(-1)))
  end)
end)


describe("heed.sample", function()
  it("takes the best id at temperature 0", function()
    local logits = heed.tensor{{1, 5, 2.0}, {7, 1, 2.0}}
    local ids, p = heed.sample(logits, {temperature = 0, probabilities = true})
    assert.same({2, 1}, ids:totable())
    assert.same({{0, 1, 0}, {1, 0, 0}}, p:totable())
  end)

  it("draws as often as the probabilities say", function()
    heed.manual_seed(0)
    local logits = heed.tensor{0.5, 0.3, 0.2}:log():expand(6000, 3)
    local ids = heed.sample(logits)
    for id, p in ipairs{0.5, 0.3, 0.2} do
      local share = ids:eq(id):to("float32"):mean():item()
      assert.is_true(close(share, p, 0, 0.03), share)
    end
  end)

  it("draws the same ids from the same seed, and leaves the module's generator alone", function()
    local logits = heed.randn(50, 9)
    heed.manual_seed(4)
    local before = heed.rng_state()
    local a, b = heed.sample(logits, {seed = 1}), heed.sample(logits, {seed = 1})
    assert.is_true(before:equal(heed.rng_state()))
    assert.is_true(a:equal(b))
    assert.is_false(a:equal((heed.sample(logits, {seed = 2}))))
  end)

  it("refuses what it cannot take", function()
    local logits = heed.randn(2, 4)
    local function said(o, x) return message(heed.sample, x or logits, o) end
    assert.matches("did you mean 'top_k'", said{topk = 3})
    assert.matches("at least 1 expected as option top_k, got 0", said{top_k = 0})
    assert.matches("0 to 1 expected as option top_p, got 1.5", said{top_p = 1.5})
    assert.matches("0 to 1 expected as option min_p", said{min_p = "much"})
    assert.matches("at least 0 expected as option temperature, got %-1", said{temperature = -1})
    for shown, penalty in pairs{["0"] = 0, ["-1"] = -1, inf = 1 / 0, ["the string 'a'"] = "a"} do
      assert.matches("a finite number above 0 expected as option repetition_penalty, got " .. shown,
                     said{repetition_penalty = penalty}, 1, true)
    end
    assert.matches("option history, for repetition_penalty, got nil", said{repetition_penalty = 2})
    assert.matches("for each of 2 rows expected, got 1",
                   said{repetition_penalty = 2, history = {{1}}})
    assert.matches("ids from 1 to 4 expected, got 5",
                   said{repetition_penalty = 2, history = {{5}, {1}}})
    assert.matches("ids expected, got 1.5 at position %(2, 1%)",
                   said{repetition_penalty = 2, history = {{1}, {1.5}}})
    assert.matches("ids from 1 to 4 expected, got 5", said{history = {{1}, {5}}})
    assert.matches("for each of 2 rows expected, got 1", said{history = {{1}}})
    assert.matches("a list of ids expected for row 2, got 3", said{history = {{1}, 3}})
    assert.matches("sample: logits with a largest number expected, got nan as that of row 2",
                   said({}, heed.tensor{{1.0, 2}, {1, 0 / 0}}))
    assert.matches("a float tensor", said({}, heed.tensor{1, 2}))
    assert.matches("a float tensor", said({}, heed.tensor(1.5)))
    assert.matches("a float tensor", said({}, heed.zeros(2, 0)))
    assert.matches("a float tensor", said({}, 3))
    assert.matches("whole number expected as option seed, got 1.5", said{seed = 1.5})
    assert.matches("sample: at most 2 arguments", message(heed.sample, logits, {}, 3))
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)


describe("option history of heed.sample", function()
  local logits = heed.zeros(2, 4)
  local function said(history)
    return message(heed.sample, logits, {repetition_penalty = 2, history = history})
  end

  it("stays as the caller gave it", function()
    local history = {heed.tensor{1}, heed.tensor{2}}
    heed.sample(logits, {repetition_penalty = 2, history = history})
    assert.is_true(heed.is_tensor(history[1]) and heed.is_tensor(history[2]))
  end)

  it("is read whole, or refused, whatever metamethods it has", function()
    assert.matches("sample: option history: an entry expected at position 2, since",
                   said({{1, nil, 3}, {2}}))
    assert.matches("sample: option history: an entry expected at position 1, since",
                   said({nil, {2}}))
    assert.matches("sample: option history: a list expected, got one with", said({{1, x = 3}, {2}}))
    local class = {
      __index = function() error "beyond the list" end, __len = function() return "x" end,
    }
    local odd = setmetatable({setmetatable({1}, class), setmetatable({2}, class)}, class)
    assert.same({2}, heed.sample(logits, {repetition_penalty = 2, history = odd}).shape)
  end)
end)


describe("option temperature of heed.sample", function()
  it("is no less than the least normal number of the logits' type", function()
    for dtype, least in pairs{float32 = 2.0 ^ -126, float64 = 2.0 ^ -1022} do
      local logits = heed.tensor({0, -least}, {dtype = dtype})
      local _, p = heed.sample(logits, {temperature = 1e-310, probabilities = true})
      assert.is_true(close(p[2], 1 / (1 + math.exp(1)), 1e-6))
    end
  end)
end)


describe("heed.generate with option scores", function()
  it("takes logits as they are in float64, others in float32", function()
    for dtype, rounds in pairs{float64 = 1e-12, float16 = 1e-6} do
      local logits = heed.tensor({0.1, 2.3, 1}, {dtype = dtype})
      local function model(ids) return logits:expand(#ids, ids:size(2), 3) end
      local wanted = logits:to("float64"):log_softmax(1)[2]
      local o = {cache = false, max = 1, scores = true}
      local _, scores = heed.generate(model, {1}, o)
      assert.is_true(close(scores[1], wanted, 0, rounds))
      o.beams = 2
      local _, beams = heed.generate(model, {1}, o)
      assert.is_true(close(beams[1].score, wanted, 0, rounds))
    end
  end)
end)


describe("beams of heed.generate", function()
  it("run on where many ids that end a text are better", function()
    local after = heed.tensor{{5, 3, 2.9, -9, 4, 2.8, -9}, {0, 0, 0, 0, 0, 0, 0},
                              {20, 0, 0, 0, 0, 0, 0}}            -- ids 7, 5 and 6
    local rows = heed.tensor{1, 1, 1, 1, 2, 3, 1}
    local _, beams = heed.generate(function(ids) return after[rows[ids]] end, {7},
                                   {beams = 2, cache = false, max = 2, stop = {1, 2, 3, 4}})
    assert.same({{1}, {6, 1}}, {beams[1].ids:totable(), beams[2].ids:totable()})
  end)

  it("run on in full where those that end a text are all but one of the best", function()
    local after = heed.tensor{{-9, -9, -9, -9, 0, 0, -9}, {3, 3, 4, -9, -9, -9, -9},
                              {3, 3, -9, 2, -9, -9, -9}, {0, 0, 0, 0, 0, 0, 0},
                              {9.0, 0, 0, 0, 0, 0, 0}}           -- behind ids 7, 5, 6, 3 and 4
    local rows = heed.tensor{1, 1, 4, 5, 2, 3, 1}
    local _, beams = heed.generate(function(ids) return after[rows[ids]] end, {7},
                                   {beams = 2, cache = false, max = 3, stop = {1, 2}})
    assert.same({{6, 1}, {6, 4, 1}}, {beams[1].ids:totable(), beams[2].ids:totable()})
  end)

  it("call a model no more than they need: not at all for no ids, and once where the rest is "
     .. "no better than what has ended", function()
    local function run(max, V)
      local calls = 0
      local function flat(ids)
        calls = calls + 1
        return heed.zeros(#ids, ids:size(2), V)
      end
      local ids = heed.generate(flat, {1}, {beams = 1, cache = false, max = max, stop = 1})
      return {ids:totable(), calls}
    end
    assert.same({{{}, 0}, {{1}, 1}, {{1}, 1}}, {run(0, 3), run(9, 3), run(9, 1)})
  end)
end)


describe("heed.generate with option repetition_penalty", function()
  it("refuses ids of a prompt that the logits have none for", function()
    local function model(ids) return heed.zeros(1, ids:size(-1), 3) end
    local function said(id)
      return message(heed.generate, model, heed.tensor{id},
                     {cache = false, max = 1, repetition_penalty = 2})
    end
    assert.matches("option history: ids from 1 to 3 expected, got 4", said(4))
    assert.matches("option history: ids from 1 to 3 expected, got 0", said(0))
    for id, penalty in pairs{[3] = 2, [4] = 1} do          -- 1 changes nothing
      assert.equal(1, #heed.generate(model, heed.tensor{id},
                                     {cache = false, max = 1, repetition_penalty = penalty}))
    end
  end)

  it("refuses a logit that the penalty takes out of its type's range", function()
    local function model() return heed.tensor{{{1, 3e38}}} end
    local o = {cache = false, max = 1, repetition_penalty = 0.5, temperature = 1}
    assert.matches("logits below inf expected, got inf as the largest of row 1",
                   message(heed.generate, model, {2}, o))
  end)
end)
