-- Tokenizers that are read, and that encode, decode and stream, and indices of vectors, while a
-- request for memory fails: the call fails and says why, or gives what it gives anyhow.

local fail_after = ...
local changes = require "spec.support.changes"
local golden = require "spec.support.golden_tokenizers"
local heed = require "heed"
local tokenizer_of = require "spec.support.tokenizer_of"

local TEXT <const> = "Héllo wörld's 12345, <|endoftext|> ﬁne e\u{301}\u{301} \u{4e2d}\u{1f600}\n\t "
                     .. "zzzqqq"
local STRIDE <const> = os.getenv "HEED_SWEEP" == "1" and 1 or 7

local tried = 0

-- Calls f, always the same, while each request fails, and all after it if `onwards`.
local function try(name, f, onwards)
  local function starved(n)
    fail_after(n, onwards)
    local good, result = pcall(f)
    return fail_after(-1), good, result
  end
  local _, fine, value = starved(-1)
  local wanted = fine and changes.text(value) or error(name .. ": " .. value, 0)
  local n, failed = tried % STRIDE, true
  while failed do
    local good, result
    failed, good, result = starved(n)
    local what = ("%s without request %d%s"):format(name, n, onwards and " and all after" or "")
    if good and changes.text(result) ~= wanted then
      error(("%s: %q expected, got %q"):format(what, wanted, changes.text(result)), 0)
    elseif not good and not tostring(result):find("not enough memory", 1, true) then
      error(what .. ": " .. tostring(result), 0)
    end
    n, tried = n + STRIDE + n // 64, tried + 1
  end
end

local function whole(tok)
  local ids, offsets = tok:encode(TEXT, {offsets = true})
  local stream, parts = tok:stream(), {}
  for i, id in ipairs(ids:totable()) do parts[i] = stream:push(id) end
  parts[#parts + 1] = stream:finish()
  return {ids, offsets, tok:decode(ids), table.concat(parts), tok:encode({TEXT, "a"}), #tok}
end

for _, name in ipairs(golden.names) do
  local text = golden.text(name)
  for _, onwards in ipairs{false, true} do
    try(name, function() return #assert(tokenizer_of(text)) end, onwards)
    local tok = assert(tokenizer_of(text))
    try(name .. " encodes", function() return whole(tok) end, onwards)
  end
end

heed.manual_seed(3)
local vectors, path = heed.randn(40, 6), os.tmpname()
local names = {}
for i = 1, #vectors do names[i] = "vector " .. i end

local function index(kind)
  return heed.search.index{dim = 6, kind = kind}:add(names, vectors)
end

-- What an index finds, in words.
local function found(i)
  local keys, scores = i:query(vectors:narrow(1, 3, 2), 4)
  return {table.concat(keys[1], " "), table.concat(keys[2], " "), scores, #i}
end

for _, kind in ipairs{"float32", "int8", "bits"} do
  for _, onwards in ipairs{false, true} do
    try(kind .. " index", function() return found(index(kind)) end, onwards)
    local one = index(kind)
    assert(one:save(path))
    try(kind .. " query", function() return found(one) end, onwards)
    try(kind .. " index changes", function()
      return found(index(kind):remove{"vector 3", "vector 9"}:add({"new"}, vectors:narrow(1, 1, 1)))
    end, onwards)
    try(kind .. " index in a file", function()
      assert(one:save(path))
      return found(assert(heed.search.load(path)))
    end, onwards)
    assert(#one == 40 and #assert(heed.search.load(path)) == 40)
  end
end
os.remove(path)

return ("%d calls"):format(tried)
