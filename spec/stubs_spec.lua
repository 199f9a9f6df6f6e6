-- The stubs of lua/heed/meta.lua are those that docs/stubs.lua makes of the table of operations,
-- and the comments above them say of parameters what the table says.

local heed = require "heed"
local stubs = require "docs.stubs"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local REFERENCE <const> = read("lua/heed/meta.lua")

local function replaced(old, new)
  local from, to = REFERENCE:find(old, 1, true)
  assert(from, old)
  return REFERENCE:sub(1, from - 1) .. new .. REFERENCE:sub(to + 1)
end

local function faults(old, new) return table.concat(stubs.faults(replaced(old, new)), "; ") end


describe("the stubs of operations", function()
  it("are those of the table: lua5.4 docs/generate.lua", function()
    assert.is_true(stubs.renew(REFERENCE) == REFERENCE)
    for _, change in ipairs{
      {"function Tensor:elu(alpha) end", "function Tensor:elu(beta) end"},
      {"function Tensor:elu(alpha) end", "function Tensor:elu(alpha, more) end"},
      {"Tensor.elu_, heed.elu, heed.elu_ = ", "Tensor.elu_, heed.elu, heed.elu_, heed.x = "},
      {"heed.logical_not, heed.logical_not_ = Tensor.logical_not, Tensor.logical_not\n", ""},
    } do
      local text = replaced(change[1], change[2])
      assert.is_false(stubs.renew(text) == text)
    end
    assert.is_true(stubs.renew(replaced("Tensor:elu(alpha)", "Tensor:elu()")) == REFERENCE)
  end)

  it("describe all parameters, with what they are unless given", function()
    assert.equal("", table.concat(stubs.faults(REFERENCE), "; "))
    assert.equal("elu: alpha is not described", faults("@param alpha? number|table 1 unless given\n"
      .. "---@return heed.Tensor\nfunction Tensor:elu", "@return heed.Tensor\nfunction Tensor:elu"))
    assert.equal("hardtanh: min_val lacks: -1 unless given",
                 faults("min_val? number|table -1 unless", "min_val? number|table -2 unless"))
    assert.equal("hardtanh: min_val may be left out", faults("min_val? number", "min_val number"))
    assert.equal("matmul: other cannot be left out",
                 faults("other heed.Tensor (…, K, N)", "other? heed.Tensor (…, K, N)"))
  end)

  it("are there for all rows but those of the Lua half", function()
    local rows = stubs.rows()
    local n = 0
    for _ in pairs(rows) do n = n + 1 end
    assert.is_true(n > 150, n)
    assert.is_truthy(rows.softmax)
    assert.is_nil(rows.max)                       -- heed.max takes two tensors, too
    assert.equal("elu has no stub", faults("function Tensor:elu(alpha) end", "local x"))
  end)
end)


describe("the table of operations", function()
  it("is a list of names and parameters", function()
    local by_name = {}
    for _, row in ipairs(heed.core.operations()) do by_name[row.name] = row end
    local softmax, cat = by_name.softmax, by_name.cat
    assert.is_true(softmax.method)
    assert.is_nil(softmax.in_place)
    assert.same({1, "dim", "axis", true},
                {softmax.results, softmax.parameters[2].name, softmax.parameters[2].want,
                 softmax.parameters[3].optional})
    assert.same({false, "tensors", 1},
                {cat.method, cat.parameters[1].want, cat.parameters[2].default})
    assert.same({"mean|sum|none", "mean"}, {by_name.mse_loss.parameters[3].words,
                                            by_name.mse_loss.parameters[3].default})
    assert.same({"view", true}, {by_name.view.name, by_name.view.parameters[2].rest})
  end)

  it("has the options that a refusal of heed.attention lists, but for its own", function()
    local own, wanted = {query = true, key = true, value = true, relative = true, rule = true,
                         operands = true}, {sink = true}
    for _, row in ipairs(heed.core.operations()) do
      for _, parameter in ipairs(row.name == "attention" and row.parameters or {}) do
        if not own[parameter.name] then wanted[parameter.name] = true end
      end
    end
    local q, told = heed.ones(1, 1, 2, 4), {}
    local _, text = pcall(heed.attention, q, q, q, {foo = 1})
    for name in text:match("there are (.*)$"):gmatch("[%w_]+") do told[name] = true end
    assert.same(wanted, told)
  end)
end)
