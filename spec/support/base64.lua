-- Base64, for specs that damage what it holds.

local base64 = {}

base64.DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local VALUE <const> = {["="] = 0}
for i = 1, #base64.DIGITS do VALUE[base64.DIGITS:sub(i, i)] = i - 1 end


---The bytes of a text in base64 whose length is a multiple of 4.
---@param text string
---@return string
function base64.bytes(text)
  local bytes = text:gsub("(.)(.)(.)(.)", function(a, b, c, d)
    return string.pack(">I3", VALUE[a] << 18 | VALUE[b] << 12 | VALUE[c] << 6 | VALUE[d])
  end)
  return bytes:sub(1, #bytes - #text:match("=*$"))
end


return base64
