-- Cases of each row that is not elementwise. A case is a list
--   {name, f, shapes of its inputs…}
-- whose name begins with the row's; f gets tensors of floats from `low` to `high` (-2 to 2), or
-- what other types make of them. Further fields:
--   value     the same in plain Lua, of arrays (spec/support/array.lua): as many as f has results
--   types     that the row takes: "floats" unless given, "numbers" (no bools), "all", or a list;
--             others must be refused, unless refuses_types is false
--   gives     the type of each result: "same", "count" (int64 for what is no float), "float"
--             (float32 for it), "statistic" (float32 for halves), or a type
--   also      other shapes of the inputs; `refuses`: shapes that must raise
--   expand    the axis along which inputs are made of one element for gradients (the last), or
--             false where equal elements have none
--   constant  inputs, by number, of which there is no gradient
--   gradient  false: f is not differentiable
--   second    false: its gradient has none of its own, as that of attention
--   check     in place of all this, a function that checks the row by itself

local cases = {list = {}, values = {}, gradients = {}}

local rows = require "spec.support.rows"

local function add(by_row, row, case)
  by_row[row] = by_row[row] or {}
  table.insert(by_row[row], case)
end

for _, file in ipairs {"reductions", "moves", "losses", "made"} do
  for _, case in ipairs(require("spec.support.cases." .. file)) do
    local row = case.row or case[1]:match("^[%w_]+")
    local known = rows.by_name[row]
    case.row = row
    case.gradient = case.gradient ~= false and (not known or known.differentiable) and
                    (not case.check or case.gradient)
    case.second = case.gradient and case.second ~= false and row ~= "attention"
    table.insert(cases.list, case)
    if case.value or case.check then add(cases.values, row, case) end
    if case.gradient then add(cases.gradients, row, case) end
  end
end

return cases
