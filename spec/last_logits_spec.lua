-- Logits behind the last token of each sequence alone, which is what generation asks models for.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local _, kin = pcall(require, "heed.nn.kin")      -- not in a sealed state

local PROMPT <const> = {5, 6, 7}


local function load(name)
  local place <close> = directories.make(name)
  return assert(heed.models.load(place.path, {dtype = "float32"}))
end


local function ids_of(model, ...) return heed.randint(model.config.vocab_size, {...}) end


-- Generates, and gives what option last was in each call of the model, and how many logits came.
local function asked_in(model, o)
  local class, calls = getmetatable(model), {}
  local forward = class.forward
  class.forward = function(self, ids, given)
    local y = forward(self, ids, given)
    calls[#calls + 1] = {given and given.last or false, y:size(2)}
    return y
  end
  kin.adopt_forward(class.forward)
  local done, ids = pcall(model.generate, model, PROMPT, o)
  class.forward = forward
  assert(done, ids)
  return calls, ids
end


describe("learnt positions of a model of words", function()
  it("are the caller's where option positions names them", function()
    local m, ids = load "gpt2", heed.tensor{PROMPT}
    local plain = heed.no_grad(m, ids)
    assert.is_true(plain:equal(heed.no_grad(m, ids, {positions = heed.tensor{{0, 1, 2}}})))
    local given = {positions = heed.tensor{{1, 2, 3}}}
    local shifted = heed.no_grad(m, ids, given)
    assert.is_false(plain:equal(shifted))
    assert.same({{1, 2, 3}}, given.positions:totable())
    local rows = m.position.weight:detach()
    heed.no_grad(function() rows:narrow(1, 1, 3):copy_(rows:narrow(1, 2, 3):clone()) end)
    assert.is_true(shifted:equal(heed.no_grad(m, ids)))
  end)
end)


describe("logits behind the last tokens", function()
  it("are those of a call without the option", function()
    for _, name in ipairs{"llama3", "gpt2", "gemma2"} do          -- gemma2 has a cap
      local model = load(name)
      local ids = ids_of(model, 3, 6)
      local lengths = heed.tensor({6, 2, 4}, {dtype = "int64"})
      local all = model(ids, {lengths = lengths})
      local last = model(ids, {lengths = lengths, last = true})
      assert.same({3, 1, model.config.vocab_size}, {last:size()})
      for row, n in ipairs{6, 2, 4} do
        assert.is_true(last[row][1]:allclose(all[row][n], {atol = 1e-5, rtol = 1e-5}), name)
      end
      local equal = model(ids, {last = true})
      assert.is_true(equal:allclose(model(ids):narrow(2, 6, 1), {atol = 1e-5, rtol = 1e-5}), name)
      assert.same({1, model.config.vocab_size}, {model(ids[1], {last = true}):size()})
      local second = model(ids[1], {lengths = heed.tensor{2}, last = true})
      assert.is_true(second:allclose(model(ids[1]):narrow(1, 2, 1), {atol = 1e-5, rtol = 1e-5}))
      assert.is_true(model(ids, {last = false}):equal(model(ids)))
    end
  end)

  it("are of a sequence alone, too, and behind a cache", function()
    local model = load "qwen3"
    local ids, cache, o = ids_of(model, 2, 5), nn.Cache(), {atol = 1e-5, rtol = 1e-5}
    local all = model(ids)
    assert.is_true(model(ids[2], {last = true})[1]:allclose(all[2][5], o))
    model(ids:narrow(2, 1, 3), {cache = cache, last = true})
    local last = model(ids:narrow(2, 4, 2), {cache = cache, last = true})
    assert.is_true(last:squeeze(2):allclose(all:select(2, 5), o))
    assert.equal(5, cache:length())
  end)

  it("give the gradients of the others as zeros, and weights beside them", function()
    local model = load "llama3"
    local ids = ids_of(model, 2, 4)
    local weight = model.head.weight
    weight:requires_grad_(true)
    local one = heed.grad(model(ids, {last = true}):sum(), weight)
    local of_all = heed.grad(model(ids):narrow(2, 4, 1):sum(), weight)
    assert.is_true(one:allclose(of_all, {atol = 1e-4, rtol = 1e-4}))
    local y, weights = model(ids, {last = true, weights = true})
    assert.same({1, 4}, {y:size(2), weights[1]:size(3)})
  end)

  it("are refused where it is not known which they are", function()
    local model = load "llama3"
    local ids = ids_of(model, 2, 4)
    assert.matches("a boolean expected as option last, got 1",
                   message(model, ids, {last = 1}))
    assert.matches("option last: lengths expected instead of keys",
                   message(model, ids, {last = true, keys = heed.ones(2, 4):to "bool"}))
    assert.matches("'last'", message(model.hidden, model, ids, {last = true}))
    assert.matches("a table of options expected", message(model, ids, "last"))
    local strict = setmetatable({}, {__index = function(_, name) error("no " .. name) end})
    assert.equal(4, model(ids, strict):size(2))
  end)

  it("are all that generation asks a model of heed's classes for", function()
    local model = load "llama3"
    model:generate(PROMPT, {max = 2, ends = false})              -- compares a step once
    local calls, ids = asked_in(model, {max = 3, ends = false})
    assert.same({{true, 1}, {false, 1}, {false, 1}}, calls)
    local whole, same = asked_in(model, {max = 3, ends = false, cache = false})
    assert.same({{true, 1}, {true, 1}, {true, 1}}, whole)
    assert.same(ids:totable(), same:totable())
  end)

  it("are not, where something of the caller's sees how many logits there are", function()
    local model = load "llama3"
    local o = {max = 1, cache = false}
    local hook = model.head:register_forward_hook(function() end)
    assert.same({{false, 3}}, (asked_in(model, o)))
    hook:remove()
    assert.same({{true, 1}}, (asked_in(model, o)))
    local seen
    model.head.forward = function(self, x)
      seen = x:size(2)
      return nn.Linear.forward(self, x)
    end
    model:generate(PROMPT, o)
    assert.equal(3, seen)
    model.head = function(x)
      seen = 10 * x:size(2)
      return x
    end
    model:generate(PROMPT, o)
    assert.equal(30, seen)
    local Own = nn.Linear:extend "Own"
    function Own:forward(x)
      seen = -x:size(2)
      return nn.Linear.forward(self, x)
    end
    model.head = Own(model.config.hidden_size, 9, {bias = false})
    model:generate(PROMPT, o)
    assert.equal(-3, seen)
  end)
end)
