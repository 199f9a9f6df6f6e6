-- The table of operations, row by row: every row of ops.def has values that are compared with plain
-- Lua, on every type and layout, and, where it is differentiable, gradients that are compared with
-- differences. A row without a case fails by its name.

local heed = require "heed"
local cases = require "spec.support.cases"
local device = require "spec.support.device"
local elementwise = require "spec.support.elementwise"
local layouts = require "spec.support.layouts"
local reference = require "spec.support.reference"
local rows = require "spec.support.rows"
local structured = require "spec.support.structured"

-- The CPU has several kinds of loops.
local function on_each_level(f)
  if device.name == "cpu" then layouts.on_each_level(f) else f() end
end


describe("a function that only the Lua half calls", function()
  it("is no field of heed, nor one that C makes public", function()
    assert.equal("function", type(heed.core.write_file))
    for name in pairs(heed.core) do
      assert.is_nil(rawget(heed, name), name)
      assert.is_nil(heed.core.public[name], name)
      assert.is_false(pcall(function() return heed[name] end), name)
    end
  end)
end)


-- A value of each kind that a parameter may want; tensors of one kind of square.
local square = heed.ones(2, 2)
local VALUES <const> = {
  axes = {1}, axis = 1, choice = "mean", count = 1, flag = true, number = 0.5, position = 1,
  shape = {1}, tensor = square, tensors = {square}, text = "i->i",
}


describe("the table of operations", function()
  it("asks for each argument that has no default", function()
    local asked = {}
    for _, row in ipairs(heed.core.operations()) do
      local f, before = heed.core.public[row.name], {}
      for i, p in ipairs(f and row.parameters or {}) do
        if not p.optional and p.default == nil and p.want ~= "tensor" then
          local good, why = pcall(f, table.unpack(before, 1, i - 1))
          assert.is_false(good, row.name)
          assert.matches(("%s: argument '%s' is missing"):format(row.name, p.name), why, 1, true)
          asked[p.want] = (asked[p.want] or 0) + 1
        end
        before[i] = VALUES[p.want]
      end
    end
    for want, least in pairs{axis = 17, shape = 10, count = 4, position = 2, tensors = 6} do
      assert.is_true(asked[want] >= least, want .. " " .. asked[want])
    end
    assert.is_nil(asked.flag or asked.choice)
  end)

  it("has rows, all of them functions, and no in-place variant without a row", function()
    assert.is_true(#rows.list > 150)
    local public, internal = heed.core.public, heed.core
    for _, row in ipairs(rows.list) do
      assert.equal("function", type(public[row.name] or internal[row.name]), row.name)
      local variant = public[row.name .. "_"]
      assert.equal(row.in_place and "function" or "nil", type(variant), row.name .. "_")
    end
    for name in pairs(public) do
      local row = name:match("^(.*)_$")
      if row and name ~= "requires_grad_" and name ~= "set_" then
        assert.is_truthy(rows.by_name[row], "no row for " .. name)
      end
    end
  end)

  it("has a case for each row, and none for others", function()
    local missing = {}
    for _, row in ipairs(rows.list) do
      if row.elementwise then
        if not elementwise.entry(row) then table.insert(missing, row.name) end
      else
        if not cases.values[row.name] then table.insert(missing, row.name .. " (values)") end
        if row.differentiable and not cases.gradients[row.name] then
          table.insert(missing, row.name .. " (gradients)")
        end
      end
    end
    assert.equal("", table.concat(missing, ", "), "rows without a case in spec/support")
    for _, list in ipairs {"unary", "unary_tests", "binary", "tests", "ternary"} do
      for name in pairs(reference[list]) do
        assert.is_truthy(rows.by_name[name], "no row is called " .. name)
      end
    end
    for name in pairs(cases.values) do
      assert.is_truthy(rows.by_name[name], "no row is called " .. name)
    end
  end)
end)


describe("the row", function()
  for _, row in ipairs(rows.list) do
    if row.elementwise and elementwise.entry(row) then
      it(row.name .. " is right", function()
        on_each_level(function() elementwise.check(row) end)
      end)
    end
    for _, case in ipairs(cases.values[row.name] or {}) do
      it(case[1] .. " has right values", function()
        if case.check then case.check() else structured.check_values(case) end
      end)
    end
    for _, case in ipairs(cases.gradients[row.name] or {}) do
      if not case.check then
        it(case[1] .. " has right gradients", function() structured.check_gradients(case) end)
      end
    end
  end
end)


describe("words of the table", function()
  it("are right for large arguments", function()
    local far = {1e5, -123456.5, 2 ^ 21 + 1, -3e7, 1e10, 2 ^ 40 + 0.5}
    for _, name in ipairs {"sin", "cos", "tan"} do
      for _, dtype in ipairs(reference.floats) do
        local y = heed[name](heed.tensor(far, {dtype = dtype}))
        local wanted = elementwise.applied(reference.unary[name][1], dtype,
                                           {reference.stored(far, dtype)})
        reference.compare(name .. dtype, y, wanted, 2 * reference.tolerance[dtype])
      end
    end
  end)

  it("are right for large arguments of sinc, whose values are small", function()
    local far = {1e6 + 0.25, 2 ^ 20 + 0.5, 2 ^ 21 + 0.25, -2 ^ 22 - 0.5, 123456.75}
    for dtype, tol in pairs {float64 = 1e-9, float32 = 1e-5} do
      local y = heed.sinc(heed.tensor(far, {dtype = dtype})):totable()
      for i, v in ipairs(reference.stored(far, dtype)) do
        reference.close("sinc of " .. v, y[i] / reference.unary.sinc[1](v), 1, tol)
      end
    end
  end)

  it("have derivatives of sinc by a series up to 0.15, as the formula gives them there", function()
    local x = heed.tensor(0.15, {dtype = "float64"}):requires_grad_()
    x:sinc():backward()
    local wanted = (math.cos(0.15 * math.pi) - reference.unary.sinc[1](0.15)) / 0.15
    reference.close("sinc at 0.15", x.grad:item() / wanted, 1, 1e-13)
  end)
end)
