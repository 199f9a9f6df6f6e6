-- heed.capture: the work of a function on a card, kept and done again in one go.
--
--   local step = heed.capture(function(x, y)
--     opt:zero_grad()
--     local loss = heed.cross_entropy(model(x), y)
--     loss:backward()
--     opt:step()
--     return loss
--   end)
--   for x, y in batches do step(x, y) end

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.options"

local fail, is_tensor = heed.fail, heed.is_tensor

local capture = {}

local MOST_CARDS <const> = 16


-- What tells one kind of call from another: shapes and types of tensors, values of all else.
local function key_of(args)
  local parts = {}
  for i = 1, args.n do
    local x = args[i]
    parts[i] = is_tensor(x) and ("%s %s %s"):format(x.dtype, x.device, tostring(x.shape))
               or ("%s %s"):format(math.type(x) or type(x), tostring(x))
  end
  return table.concat(parts, "; ")
end


local function works()
  local done = {}
  for card = -1, MOST_CARDS - 1 do done[card] = core.works(card) end
  return done
end


-- The card that all work was done on since; nil if none was: then there is nothing to keep.
local function card_since(before)
  local found
  for card = 0, MOST_CARDS - 1 do
    if core.works(card) > before[card] then
      if found then fail("capture: f works on cuda:%d and on cuda:%d", found, card) end
      found = card
    end
  end
  return found
end


-- Copies that stay where they are: what a replay reads.
local function buffers_of(args)
  local buffers = {n = args.n}
  for i = 1, args.n do
    buffers[i] = is_tensor(args[i]) and heed.keep(args[i]:detach():clone()) or args[i]
  end
  return buffers
end


local function refill(buffers, args)
  for i = 1, args.n do
    if is_tensor(args[i]) then buffers[i]:copy_(args[i]:detach()) end
  end
end


local function plain(results)
  for i = 1, results.n do
    if is_tensor(results[i]) then results[i] = heed.keep(results[i]:detach()) end
  end
  return results
end


-- Runs f while its work is kept; what optimisers do besides, they note in capture.notes.
local function record(f, card, args)
  local r = {buffers = buffers_of(args)}
  core.capture_begin(card)
  capture.notes = {}
  local results = table.pack(pcall(f, table.unpack(r.buffers, 1, args.n)))
  r.notes, capture.notes = capture.notes, nil
  local ended, graph = pcall(core.capture_end)
  if not results[1] then error(results[2], 0) end
  if not ended then error(graph, 0) end
  r.graph, r.results = graph, plain(table.pack(table.unpack(results, 2, results.n)))
  return r
end


local function replay(r, args)
  if r.replayed then
    refill(r.buffers, args)
    for which, again in ipairs(r.notes) do
      local step = again()
      if step then core.replay_step(r.graph, which - 1, step) end
    end
  end
  r.replayed = true
  core.replay(r.graph)
  return table.unpack(r.results, 1, r.results.n)
end


---f, for calls whose work on a card is always the same: a training step, say. The first call of a
---kind (types and shapes of its tensors, values of its other arguments) runs f, the second keeps
---what f does on the card, and from then on that is done again in one go, without Lua. So f
---must not read values back or work elsewhere, and whatever else it does happens only twice.
---Results are overwritten by the next call. On the processor f is simply called.
---@param f function
---@return function
function capture.capture(f)
  options.callable("capture", "f", f)
  local known = {}
  return function(...)
    local args = table.pack(...)
    local key = key_of(args)
    local now = known[key]
    if now == nil then
      local before = works()
      local results = table.pack(f(...))
      known[key] = card_since(before) or false
      return table.unpack(results, 1, results.n)
    end
    if not now then return f(...) end
    if type(now) == "number" then
      now = record(f, now, args)
      known[key] = now
    end
    return replay(now, args)
  end
end

return capture
