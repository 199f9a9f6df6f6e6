-- The frequencies of rotary positions, for models that were stretched beyond the length they were
-- trained with: what `rope_scaling` (or `rope_parameters`) in a model's config.json says.
--
--   linear     positions are divided by a factor: Chen et al. 2023
--   dynamic    the base grows with the length (NTK-aware): Peng et al. 2023, 3.1 and 3.3
--   yarn       slow columns are interpolated, fast ones are not: Peng et al. 2023, 3.2 and 3.4
--   llama3     the same by wavelengths: Llama 3.1's reference code
--   longrope   a factor for each pair of columns, short or long: Ding et al. 2024
--
-- The names of options, what they are unless given, and what is rounded are those of transformers
-- (modeling_rope_utils.py), since that is what published files were written for.

local heed = require "heed"
local json = require "heed.files.json"
local options = require "heed.internal.options"

local any, fail, is_tensor, kind = options.any, heed.fail, heed.is_tensor, options.kind

local scaled = {}

---How a model turns its columns.
---@class heed.RotaryRule
---@field attention_factor number by which cosines and sines are multiplied
---@field base number
---@field key string text that no other rule has
---@field options table
---@field pairs integer of columns that are turned
---@field way table
local Rule = {}
Rule.__index = Rule


local function positive(who, name, value)
  if type(value) == "number" and value > 0 and value < math.huge then return value end
  fail("%s: a finite number above 0 expected as %s, got %s", who, name, kind(value))
end


-- (n) float64: what base ^ (2 i / dim) divides, for pairs i from 0 on.
local function powers(rule, base, device)
  local i = heed.arange(rule.pairs, {dtype = "float64", device = device}) - 1
  return heed.pow(base, i * (-1 / rule.pairs))
end


-- The largest of some positions; not read back to the host, which no step that is captured may do.
local function last_of(positions)
  return positions:max():to("float64")
end


-- Each way to scale: its options (`options.any`: none unless given), which of them must be there,
-- whether its factor is that between the lengths unless given, whether it is made for any length,
-- and functions: `length`, what of the
-- number of positions the frequencies depend on, if they do, which is one value for as many of them
-- as the option `constant_to` says; `frequencies`; `attention_factor`.
local ways = {}

ways.default = {options = {}, needs = {}}


ways.linear = {options = {factor = any}, needs = {"factor"}}

function ways.linear.frequencies(rule, _, device)
  return powers(rule, rule.base, device) / rule.options.factor
end


ways.dynamic = {
  grows = true,
  constant_to = "max_position_embeddings",
  options = {factor = any, max_position_embeddings = any},
  needs = {"factor", "max_position_embeddings"},
}

function ways.dynamic.length(rule, length)
  local most = rule:constant_to()
  return is_tensor(length) and length:clamp{min = most} or math.max(length, most)
end

function ways.dynamic.frequencies(rule, length, device)
  local o, dim = rule.options, 2 * rule.pairs
  local growth = length * (o.factor / o.max_position_embeddings) - (o.factor - 1)
  return powers(rule, rule.base * growth ^ (dim / (dim - 2)), device)
end


ways.yarn = {
  stretches = true,
  options = {
    attention_factor = any, beta_fast = 32, beta_slow = 1, factor = any,
    max_position_embeddings = any, mscale = any, mscale_all_dim = any,
    original_max_position_embeddings = any, truncate = true,
  },
  needs = {"factor", "original_max_position_embeddings"},
}

-- The pair of columns, from 0 on, that turns so often within the original length.
local function pair_that_turns(rule, times)
  local length = rule.options.original_max_position_embeddings
  return rule.pairs * math.log(length / (times * 2 * math.pi)) / math.log(rule.base)
end

function ways.yarn.frequencies(rule, _, device)
  local o = rule.options
  local low, high = pair_that_turns(rule, o.beta_fast), pair_that_turns(rule, o.beta_slow)
  if o.truncate then low, high = math.floor(low), math.ceil(high) end
  low, high = math.max(low, 0), math.min(high, 2 * rule.pairs - 1)
  if low == high then high = high + 0.001 end
  local i = heed.arange(rule.pairs, {dtype = "float64", device = device}) - 1
  local slow = ((i - low) / (high - low)):clamp(0, 1)
  local plain = powers(rule, rule.base, device)
  return plain * (1 - slow) + plain * slow / o.factor
end

local function magnitude(factor, weight)
  return factor <= 1 and 1 or 0.1 * weight * math.log(factor) + 1
end

function ways.yarn.attention_factor(o)
  if (o.mscale or 0) > 0 and (o.mscale_all_dim or 0) > 0 then
    return magnitude(o.factor, o.mscale) / magnitude(o.factor, o.mscale_all_dim)
  end
  return magnitude(o.factor, 1)
end


ways.llama3 = {
  options = {
    factor = any, high_freq_factor = any, low_freq_factor = any, max_position_embeddings = any,
    original_max_position_embeddings = any,
  },
  needs = {"factor", "high_freq_factor", "low_freq_factor", "original_max_position_embeddings"},
}

function ways.llama3.check(who, o)
  if o.high_freq_factor > o.low_freq_factor then return end
  fail("%s: a high_freq_factor above low_freq_factor expected, got %g and %g", who,
       o.high_freq_factor, o.low_freq_factor)
end

function ways.llama3.frequencies(rule, _, device)
  local o, plain = rule.options, powers(rule, rule.base, device)
  local turns = plain * (o.original_max_position_embeddings / (2 * math.pi))
  local fast = (turns - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor)
  fast = fast:clamp(0, 1)
  return plain * fast + plain * (1 - fast) / o.factor
end


ways.longrope = {
  stretches = true,
  constant_to = "original_max_position_embeddings",
  options = {
    attention_factor = any, factor = any, long_factor = {}, max_position_embeddings = any,
    original_max_position_embeddings = any, short_factor = {},
  },
  needs = {"factor", "original_max_position_embeddings"},
}
ways.su = ways.longrope            -- its first name

function ways.longrope.check(who, o, n)
  for _, name in ipairs{"short_factor", "long_factor"} do
    local list = o[name]
    if #list ~= n then
      fail("%s: a list of %d numbers expected as %s, one for each pair of columns, got %d", who, n,
           name, #list)
    end
    for i, value in ipairs(list) do positive(who, name .. "[" .. i .. "]", value) end
  end
end

-- Whether the long factors count: 1 or 0.
function ways.longrope.length(rule, length)
  local original = rule:constant_to()
  if is_tensor(length) then return length:gt(original) end
  return length > original and 1 or 0
end

function ways.longrope.frequencies(rule, long, device)
  local function factors(name)
    return heed.tensor(rule.options[name], {dtype = "float64", device = device})
  end
  local chosen
  if is_tensor(long) then
    chosen = heed.where(long, factors("long_factor"), factors("short_factor"))
  else
    chosen = factors(long == 1 and "long_factor" or "short_factor")
  end
  return powers(rule, rule.base, device) / chosen
end

function ways.longrope.attention_factor(o)
  if o.factor <= 1 then return 1 end
  return math.sqrt(1 + math.log(o.factor) / math.log(o.original_max_position_embeddings))
end


---The length that the frequencies depend on: 0 for rules whose frequencies are constant.
---@param length integer how many positions there are
---@return integer
function Rule:reach(length)
  return self.way.length and self.way.length(self, length) or 0
end


---The most positions whose frequencies are those of one position, of rules that depend on how many
---there are.
---@return number
function Rule:constant_to() return self.options[self.way.constant_to] end


---@param reach integer|heed.Tensor what `reach` gave, or positions
---@param device string
---@return heed.Tensor (pairs) float64
function Rule:frequencies(reach, device)
  local way = self.way
  if not way.frequencies then return powers(self, self.base, device) end
  if way.length and is_tensor(reach) then reach = way.length(self, last_of(reach) + 1) end
  return way.frequencies(self, reach, device)
end


-- The keys of a config's table that every way of scaling may have.
local COMMON <const> = {partial_rotary_factor = any, rope_theta = any, rope_type = any, type = any}

-- A copy of the table, without its nulls.
local function given_scaling(who, scaling)
  local given = {}
  if scaling == nil or rawequal(scaling, json.null) then return given end
  if type(scaling) ~= "table" then
    fail("%s: a table such as rope_scaling of a config.json expected as scaling, got %s", who,
         kind(scaling))
  end
  for name, value in pairs(scaling) do
    if not rawequal(value, json.null) then given[name] = value end
  end
  return given
end


-- One of two values for the same thing.
local function either(who, name, value, there, value_there)
  if value ~= nil and value_there ~= nil and value ~= value_there then
    fail("%s: one %s expected, got %s, and %s of %s in scaling", who, name, kind(value), there,
         kind(value_there))
  end
  if value == nil then return value_there end
  return value
end


---The fraction of the columns that is turned, and the base, which scaling may have too.
---@param who string
---@param o {fraction: number?, base: number?, scaling: table?}
---@return number fraction
---@return number base
function scaled.plain(who, o)
  local c = given_scaling(who, o.scaling)
  local fraction = either(who, "fraction", o.fraction, "partial_rotary_factor",
                          c.partial_rotary_factor)
  local base = either(who, "base", o.base, "rope_theta", c.rope_theta)
  return fraction == nil and 1 or fraction, positive(who, "base", base == nil and 10000 or base)
end


-- The name of a way, and the way.
local function way_of(who, scaling)
  local name = either(who, "rope_type", scaling.rope_type, "type", scaling.type)
  if name == nil then name = "default" end
  local way = type(name) == "string" and rawget(ways, name)
  if way then return name, way end
  fail("%s: unknown rope_type %s in scaling; %s", who, kind(name),
       options.hint(tostring(name), options.names(ways)))
end


---Whether the frequencies that a table asks for depend on how many positions there are.
---@param scaling? table one that `rule` took
---@return boolean
function scaled.depends_on_length(scaling)
  if type(scaling) ~= "table" or rawequal(scaling, json.null) then return false end
  local name = scaling.rope_type or scaling.type
  local way = type(name) == "string" and rawget(ways, name)
  return way and way.length ~= nil or false
end


-- The options that a way reads, as they were given.
local function read(who, way, given, most)
  local known = {}
  for name, default in pairs(COMMON) do known[name] = default end
  for name, default in pairs(way.options) do known[name] = default end
  if known.max_position_embeddings then
    local name <const> = "max_position_embeddings"
    local own = given[name]
    if own ~= nil then own = options.count(who, name .. " in scaling", own) end
    given[name] = either(who, name, most, name, own)
  end
  return options.read(who .. ": scaling", given, known)
end


-- Fills in what follows from the length that the model has now, where the table leaves it out.
local function complete(way, o)
  local most, original = o.max_position_embeddings, o.original_max_position_embeddings
  local known = type(most) == "number" and type(original) == "number"
  if way.stretches and o.factor == nil and known then o.factor = most / original end
  if original == nil then o.original_max_position_embeddings = most end
end


local function check(who, name, way, o, n)
  for key, default in pairs(way.options) do
    local is_number = default == any or type(default) == "number"
    if is_number and o[key] ~= nil then
      local least = key:find("^mscale") and options.positive or positive
      least(who, key .. " in scaling", o[key])
    end
  end
  for _, key in ipairs(way.needs) do
    if o[key] == nil then
      fail("%s: %s expected in scaling of rope_type %s, got none", who, key, name)
    end
  end
  if way.check then way.check(who, o, n) end
end


-- All that a rule depends on, as text.
local function key_of(name, n, base, o)
  local parts = {name, n, ("%.17g"):format(base)}
  for _, key in ipairs(options.names(o)) do
    local value = o[key]
    if type(value) == "table" then value = table.concat(value, " ") end
    parts[#parts + 1] = key .. " = " .. tostring(value)
  end
  return table.concat(parts, ", ")
end


---The rule by which `n` pairs of columns are turned.
---@param who string names the caller in messages
---@param n integer
---@param base number
---@param scaling? table
---@param most? integer `max_position_embeddings` of the model
---@return heed.RotaryRule
function scaled.rule(who, n, base, scaling, most)
  if most ~= nil then options.count(who, "max_position_embeddings", most) end
  local given = given_scaling(who, scaling)
  local name, way = way_of(who, given)
  local o = read(who, way, given, most)
  complete(way, o)
  check(who, name, way, o, n)
  local magnify = o.attention_factor or way.attention_factor and way.attention_factor(o) or 1
  return setmetatable({
    way = way, pairs = n, base = base, options = o, attention_factor = magnify,
    key = key_of(name, n, base, o),
  }, Rule)
end


return scaled
