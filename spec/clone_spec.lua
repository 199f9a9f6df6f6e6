-- Clones of modules: tensors of their own, which are what those of the first are.

local heed = require "heed"
local nn = require "heed.nn"


-- A module with a trained parameter, a frozen one, a buffer, and a tensor that is none of them.
local function some()
  local m = nn.Module()
  m.trained = nn.Parameter(heed.randn(2, 3))
  m.frozen = nn.Parameter(heed.randn(3), {requires_grad = false})
  m.kept = nn.Buffer(heed.arange(4))
  m.plain = heed.randn(2)
  m.inner = nn.Linear(2, 2)
  m.inner.weight:requires_grad_(false)
  return m
end

local function names(m)
  local list = {}
  for name in pairs(m:state()) do list[#list + 1] = name end
  table.sort(list)
  return list
end


describe("a clone of a module", function()
  it("trains what the first trains, and nothing else", function()
    local m = some()
    local copy = m:clone()
    assert.is_true(copy.trained.requires_grad)
    assert.is_false(copy.frozen.requires_grad)
    assert.is_false(copy.inner.weight.requires_grad)
    assert.is_true(copy.inner.bias.requires_grad)
    assert.is_false(copy.plain.requires_grad)
    assert.equal(#m:parameters(), #copy:parameters())
    copy.inner(heed.ones(1, 2)):sum():backward()
    assert.same({1, 1}, copy.inner.bias.grad:totable())
    assert.is_nil(m.inner.bias.grad)
  end)

  it("saves what the first saves, of memory of its own", function()
    local m = some()
    local copy = m:clone():clone()
    assert.same(names(m), names(copy))
    for name, t in pairs(m:state()) do
      local own = copy:state()[name]
      assert.is_true(own:equal(t), name)
      local before = t:detach():clone()
      own:detach():add_(1)
      assert.is_true(t:equal(before) and not own:equal(before), name)
    end
  end)
end)
