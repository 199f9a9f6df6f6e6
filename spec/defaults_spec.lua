-- Each default that a comment states is in force: a call without the option gives, bit for bit,
-- what the call with that value gives, and something else with another value.

local documented = require "spec.support.documented"
local heed = require "heed"

local cases = {}
for _, file in ipairs{"default_ops", "default_layers", "default_tasks"} do
  for key, case in pairs(require("spec.support." .. file)) do
    assert(cases[key] == nil, key)
    cases[key] = case
  end
end


-- A value as text, with all bits of its numbers.
local function seen(value)
  if heed.is_tensor(value) then
    return ("%s %s %s"):format(value.dtype, value.shape, seen(value:totable()))
  elseif type(value) == "table" then
    local parts = {}
    for key, v in next, value do parts[#parts + 1] = tostring(key) .. " = " .. seen(v) end
    table.sort(parts)
    return "{" .. table.concat(parts, "; ") .. "}"
  elseif math.type(value) == "float" then return ("%a"):format(value) end
  return tostring(value)
end

-- The results of a case with a value, from the same random numbers each time; or its error.
local function result(case, ...)
  heed.manual_seed(3)
  local results = table.pack(pcall(case[1], ...))
  return seen(results), results[1]
end


describe("a default", function()
  local known = {}

  for _, default in ipairs(documented.defaults()) do
    local key, case = default.key, cases[default.key]
    known[key] = true
    it("is in force: " .. key, function()
      assert.is_table(case, ("%s: '%s' has no case"):format(default.path, default.says))
      local value = case.value
      if value == nil then value = default.value end
      assert.is_not_nil(value, "no value: " .. default.says)
      local own, good = result(case)
      assert.is_true(good, own)
      assert.equal(own, (result(case, value)))
      if not case.same then assert.not_equal(own, (result(case, case[2]))) end
    end)
  end

  it("has no case that nothing states", function()
    for key in pairs(cases) do assert.is_true(known[key], key) end
  end)

  it("is read from the comment", function()
    local by_key = {}
    for _, default in ipairs(documented.defaults()) do by_key[default.key] = default.value end
    assert.same({0.9, 0.999}, by_key["heed.Adam.options.betas"])
    assert.same({1e-3, "none", true, 2000, "interleaved"}, {
      by_key["heed.gradcheck.given.rtol"], by_key["Tensor:gelu.approximate"],
      by_key["heed.MLP.options.bias"], by_key["heed.Scaler.options.growth_interval"],
      by_key["Sinusoidal:init.given.layout"],
    })
  end)
end)
