-- Steps of generation that are recorded once and replayed without Lua: one more id for each row is
-- the same work each time where keys lie in a cache of fixed capacity.
--
-- A cache that the caller gave has a capacity. Otherwise one is made for the prompt and the ids
-- behind it, unless these are many: then a full one gives way to another with room for twice as
-- many tokens, and the step is recorded anew. Where a model's own code may ask for a cache that
-- grows, the prompt is read into one, and the steps behind it take one of fixed capacity with the
-- same keys.

local Cache = require "heed.nn.cache"
local capture = require "heed.capture"
local fixed = require "heed.nn.cache.fixed"
local foreign = require "heed.nn.foreign"
local heed = require "heed"
local Module = require "heed.nn.module"
local options = require "heed.internal.options"
local rope = require "heed.attention.rope"
local rule = require "heed.internal.rule"
local saved = require "heed.nn.cache.saved"

local fail = heed.fail

---@class heed.generate.Replay
---@field model heed.Module
---@field modules heed.Module[]
---@field most integer how many tokens there are at most, those of the prompt too
---@field given boolean whether the cache is the caller's
---@field chosen boolean whether the caller asked for replays: what cannot be recorded is refused
---@field alike boolean whether nothing tells replays from calls, nor one cache from another
---@field begun boolean whether there was a step
---@field captured function|false
local Replay = {}
Replay.__index = Replay

local ROOM <const> = 256             -- for so many more ids, or as many as there are, at least

-- To record takes the time of a called step: where nobody asks for replays, there are some if so
-- many ids may come, of which many pay for it.
local WORTH <const> = 32


-- Whether a module runs code of the caller's: its class, its forward, a function of positions.
local function is_foreign(module)
  return foreign.is_class(module) or type(rawget(module, "position")) == "function"
end


-- Whether caches of fixed capacity do not serve a module: it has a bias, or a mask that asks for
-- more than distances, or turns all keys anew where their number grows.
local function needs_growing(module)
  local turn, mask = rawget(module, "rope"), rawget(module, "mask")
  return mask and not rule.is_of_distances(mask)
         or rawget(module, "position_bias") or turn and rope.depends_on_length(turn)
end


-- Refuses a model whose hooks, or callbacks of weights, would be called in the first steps alone.
local function check_model(model, given)
  if not Module.is(model) then
    if given then return end
    fail("generate: option capture needs the model whose layers a cache serves, got %s; or "
         .. "cache = nn.Cache{capacity = n}", options.kind(model))
  end
  for name, module in model:named_modules() do
    local what = foreign.listener(module)
    if what then
      fail("generate: option capture replays a step, which calls no %s: of %s", what,
           name == "" and "the model itself" or ("'%s'"):format(name))
    end
  end
end


-- Whether nothing tells replays from calls.
local function may_replay(modules)
  for _, module in ipairs(modules) do
    if is_foreign(module) or needs_growing(module) or foreign.listener(module) then return false end
  end
  return #modules > 0                  -- a plain function has none
end


local function is_made_here(cache) return cache == nil or cache == true end


---Replays where option capture asks for them; or, where the caller says nothing, for a model of
---heed's own layers that is called for one more id each time. False for calls.
---@param model function
---@param modules heed.Module[] of the model: none of a plain function
---@param o heed.generate.options
---@param most integer how many tokens there are at most
---@param alike boolean whether rows are of one length
---@return heed.generate.Replay|false
function Replay.choose(model, modules, o, most, alike)
  local given = Cache.is(o.cache)
  if o.capture then
    check_model(model, given)
    if not given and not alike then
      fail("generate: option capture: prompts of one length expected")
    end
  elseif o.capture == false or not is_made_here(o.cache) or not alike or o.beams or o.lookup
         or o.window or o.context ~= nil or o.max < WORTH or not may_replay(modules) then
    return false
  end
  return setmetatable({
    model = model, modules = modules, most = most, given = given, chosen = o.capture or false,
    captured = false, alike = not o.capture or may_replay(modules), begun = false,
  }, Replay)
end


-- Room in a cache of so many tokens for n more, and for what may follow them: for all of it, unless
-- that is more than twice the usual room.
local function with_room(self, length, n)
  local room, rest = math.max(ROOM, length), self.most - length
  return Cache{capacity = length + math.max(n, rest > 2 * room and room or rest)}
end


---An empty cache for a prompt.
---@param length integer how many tokens it has
---@return heed.Cache
function Replay:cache_for(length)
  return self.alike and self.most > length and with_room(self, length, 0) or Cache()
end


---Whether the next step is replayed. Callbacks of the prompt's ids may have added hooks.
---@return boolean
function Replay:is_due()
  if not self.begun then self.alike = self.chosen or may_replay(self.modules) end
  self.begun = true
  return self.alike
end


-- Fills an empty cache with the keys of another one, which takes no further step.
local function moved(self, from, to)
  local shared = from.capacity and to.capacity
  local state = shared and saved.state(from, self.model, fixed, fixed.view)
                or from:state(self.model)
  return to:load_state(state, self.model)
end


---A cache with the keys of another that has room for n more ids; the other one where it has.
---@param cache heed.Cache
---@param n integer
---@return heed.Cache
function Replay:roomy(cache, n)
  if self.given then return cache end
  local length = cache:length()
  if cache.capacity and length + n <= cache.capacity then return cache end
  self.captured = false
  return moved(self, cache, with_room(self, length, n))
end


---A cache that grows, with the keys of another.
---@param cache heed.Cache
---@return heed.Cache
function Replay:growing(cache) return moved(self, cache, Cache()) end


-- Whether a message tells that a value was read back while work was captured, or that another
-- device worked.
local function cannot_record(message)
  return type(message) == "string" and message:find("while .*work.* is captured") ~= nil
end


---f(t) by a replay; the next one writes over it. Nil where f cannot be recorded, and nobody asked
---for replays: then nothing has changed.
---@param f fun(t: heed.Tensor): heed.Tensor
---@param t heed.Tensor
---@return heed.Tensor?
function Replay:call(f, t)
  if not self.captured then
    local at_once = not self.chosen and t.device == "cpu"
    self.captured = (at_once and capture.at_once or capture.capture)(f)
  end
  if self.chosen then return self.captured(t) end
  local done, result = pcall(self.captured, t)
  if done then return result end
  if cannot_record(result) then return nil end
  error(result, 0)
end


return Replay
