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


---Bytes as a text in base64.
---@param bytes string
---@return string
function base64.text(bytes)
  local missing = -#bytes % 3
  local text = (bytes .. ("\0"):rep(missing)):gsub("...", function(group)
    local n, digits = string.unpack(">I3", group), ""
    for shift = 18, 0, -6 do
      local value = (n >> shift & 63) + 1
      digits = digits .. base64.DIGITS:sub(value, value)
    end
    return digits
  end)
  return text:sub(1, #text - missing) .. ("="):rep(missing)
end


return base64
