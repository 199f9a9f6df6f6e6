-- The types of blocks (src/base/blocks.def), which tensors of weights may have: by name, how many
-- elements a block has, how many bytes, and whether values are converted to it.

---@class heed.block
---@field elements integer
---@field bytes integer
---@field written boolean

---@type table<string, heed.block>
return require("heed.core").blocks()
