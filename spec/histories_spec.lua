-- nn.Cache in random histories: calls of random lengths with padding on either side, reordered,
-- truncated and cloned in between. Each row always gives what it gives alone, without a cache.

local heed = require "heed"
local near = require "spec.support.near"

local nn = heed.nn

local HISTORIES <const> = 40
local DIM <const>, HEADS <const> = 8, 4

local function one_of(list) return list[math.random(#list)] end
local function by_chance(p) return math.random() < p end

-- Options of a layer for each kind of position; or a layer that adds itself at the front.
local POSITIONS <const> = {
  function() return {} end,
  function() return {rope = one_of{true, {interleaved = true, base = 100}}} end,
  function() return {position_bias = heed.bias.alibi(HEADS)} end,
  function() return {position_bias = heed.bias.relative(heed.randn(HEADS, 11))} end,
  function() return {}, heed.position.Sinusoidal() end,
  function() return {}, heed.position.Learned(200, DIM) end,
}

local Model = nn.Module:extend("Model")

function Model:init(options, position)
  self.position = position or false
  self.decoder = nn.Decoder(DIM, HEADS, math.random(2), options)
end

function Model:forward(x, o)
  if self.position then
    x = self.position(x, {cache = o.cache, keys = o.keys, lengths = o.lengths})
  end
  return self.decoder(x, o)
end

local function new_model()
  local options, position = one_of(POSITIONS)()
  options.cross, options.hidden, options.norm = false, DIM, one_of{"pre", "post", "sandwich"}
  options.kv_heads, options.memory = one_of{1, 2, 4}, by_chance(0.3) and 2 or nil
  options.sink, options.qk_norm, options.gate = by_chance(0.3), by_chance(0.3), by_chance(0.3)
  if by_chance(0.3) then options.mask = heed.mask.window(math.random(4)) end
  local plain = not options.mask and not options.position_bias
  return Model(options, position):eval(), plain
end


-- A cache, the mask that says without one what its window does, and how many tokens it holds.
local function new_cache(plain)
  if by_chance(0.6) then return nn.Cache(), nil, math.huge end
  local window, keep = math.random(5), plain and math.random(0, 3) or 0
  local mask = heed.mask.window(window - 1, math.huge)
  if keep > 0 then mask = mask | heed.mask.prefix(keep) end
  return nn.Cache{window = window, keep = keep}, mask, window + keep - 1
end


-- The inputs of each row so far: tensors (n, DIM).
local function copied(rows)
  local list = {}
  for b, tokens in ipairs(rows) do list[b] = tokens end
  return list
end


-- Where the tokens of each row begin in a call of T columns, how many they are, and the options
-- that say so. Padding is on the left in the first call only.
local function padding(cache, B, T)
  local from, n, o, present = {}, {}, {cache = cache}, heed.zeros(B, T)
  local kind = T > 0 and one_of{"none", "lengths", "keys"} or "none"
  for b = 1, B do
    n[b] = kind == "none" and T or math.random(0, T)
    from[b] = kind == "keys" and n[b] > 0 and cache:length() == 0 and math.random(T - n[b] + 1) or 1
    if n[b] > 0 then present[b]:narrow(1, from[b], n[b]):fill_(1) end
  end
  if kind == "lengths" then o.lengths = heed.tensor(n) end
  if kind == "keys" then o.keys = present:gt(0) end
  return from, n, o
end


local function step(model, branch)
  local B, T = #branch.rows, math.random(0, 5)
  local x = heed.randn(B, T, DIM)
  local from, n, o = padding(branch.cache, B, T)
  local y = model(x, o)
  for b = 1, B do
    if n[b] > 0 then
      local tokens = heed.cat({branch.rows[b], x[b]:narrow(1, from[b], n[b])}, 1)
      local alone = model(tokens:unsqueeze(1), {mask = branch.mask}):squeeze(1)
      near(alone:narrow(1, #tokens - n[b] + 1, n[b]), y[b]:narrow(1, from[b], n[b]), 0, 2e-5,
           "a row alone")
      branch.rows[b] = tokens
    end
  end
end


local ACTIONS <const> = {step = step}

function ACTIONS.reorder(_, branch)
  local ids, rows = {}, {}
  for i = 1, math.random(4) do
    ids[i] = math.random(#branch.rows)
    rows[i] = branch.rows[ids[i]]
  end
  branch.cache:reorder(ids)
  branch.rows = rows
end

function ACTIONS.truncate(_, branch)
  local length = branch.cache:length()
  if length > branch.held then return end
  local n = math.random(0, length)
  branch.cache:truncate(n)
  for b, tokens in ipairs(branch.rows) do
    branch.rows[b] = tokens:narrow(1, 1, math.max(0, #tokens - (length - n)))
  end
end

function ACTIONS.clone(_, branch, branches)
  local copy = {}
  for name, value in pairs(branch) do copy[name] = value end
  copy.cache, copy.rows = branch.cache:clone(), copied(branch.rows)
  branches[#branches + 1] = copy
end


local function history()
  local model, plain = new_model()
  local cache, mask, held = new_cache(plain)
  local branches, rows = {}, {}
  for b = 1, math.random(3) do rows[b] = heed.zeros(0, DIM) end
  branches[1] = {cache = cache, rows = rows, mask = mask, held = held}
  step(model, branches[1])
  for _ = 1, math.random(3, 8) do
    ACTIONS[one_of{"step", "step", "step", "reorder", "truncate", "clone"}](
      model, one_of(branches), branches)
  end
end


describe("a cache in a random history", function()
  it("gives each row what it gives alone", function()
    for seed = 1, HISTORIES do
      math.randomseed(seed)
      heed.manual_seed(seed)
      local good, why = pcall(heed.no_grad, history)
      assert(good, ("history %d: %s"):format(seed, tostring(why)))
    end
  end)
end)
