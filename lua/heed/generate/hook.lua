-- Option logits of heed.generate: a function of the caller's changes the logits of each row.

local heed = require "heed"
local options = require "heed.internal.options"

local hook = {}


local function checked(changed, row, r, logits)
  local size = logits:size(2)
  if changed == nil then changed = row end
  if options.is_alive(changed) and changed:dim() == 1 and changed:size(1) == size
     and changed.dtype:find("float") then
    return changed:to(logits.device, logits.dtype)
  end
  heed.fail("generate: logits of shape (%d), or nil, expected from option logits for row %d, "
            .. "got %s", size, r, options.typed(changed))
end


---Logits as the function leaves them.
---@param f fun(logits: heed.Tensor, ids: integer[], row: integer): heed.Tensor?
---@param logits heed.Tensor (R, V)
---@param rows integer[][] new ids of each, with `done`, rows that the function need not see
---@param beams? integer how many rows each prompt has
---@return heed.Tensor logits (R, V)
function hook.apply(f, logits, rows, beams)
  local changed = {}
  for r = 1, #rows do
    changed[r] = logits[r]
    if not rows.done[r] then
      local row = changed[r]:clone()
      local given = f(row, options.copied(rows[r]), (r - 1) // (beams or 1) + 1)
      changed[r] = checked(given, row, r, logits)
    end
  end
  return #changed == 1 and changed[1]:unsqueeze(1) or heed.stack(changed, 1)
end


return hook
