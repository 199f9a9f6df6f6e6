-- Which layers of a model see a window, where its configuration has no list of them: beside the
-- same model with that list.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"

local LAYERS <const> = 8
local GONE <const> = json.null

-- A model of eight layers, with the weights of those of a tiny one in turn.
local function deep(name, changes, types)
  local n
  local place <close> = directories.make(name, nil, function(c)
    n, c.num_hidden_layers = c.num_hidden_layers, LAYERS
    c.layer_types = types and json.array(types) or GONE
    for key, value in next, changes do c[key] = value end
  end)
  local path, all = place.path .. "/model.safetensors", {}
  for key, t in pairs(assert(heed.load(path))) do
    local before, i, behind = key:match "^(.*layers%.)(%d+)(%..*)$"
    if not i then all[key] = t end
    for k = tonumber(i) or LAYERS, LAYERS - 1, n do all[before .. k .. behind] = t end
  end
  assert(heed.save(path, all))
  return assert(heed.models.load(place.path))
end

local function list_of(slides)
  local list = {}
  for i = 1, LAYERS do list[i] = slides(i) and "sliding_attention" or "full_attention" end
  return list
end


-- Of Gemma 3, by either name of the number of layers from one that sees all to the next.
local function three(pattern, older)
  return {sliding_window = 6, sliding_window_pattern = pattern, _sliding_window_pattern = older}
end


describe("layers that see a window", function()
  local ids = heed.arange(1, 24):reshape(1, 24):to "int64"
  for _, case in ipairs{
    {"gemma2", {sliding_window = 3}, function(i) return i % 2 == 1 end},
    {"gemma3_bidirectional", three(GONE, GONE), function(i) return i ~= 6 end},
    {"gemma3_bidirectional", three(GONE, 5), function(i) return i ~= 5 end},
    {"gemma3_bidirectional", three(4, 5), function(i) return i ~= 4 and i ~= 8 end},
    {"mistral", {sliding_window = 3}, function() return true end},
    {"qwen2", {sliding_window = 3, use_sliding_window = true, max_window_layers = 5},
     function(i) return i > 5 end},
    {"smollm3", {sliding_window = 3, use_sliding_window = true, no_rope_layers = GONE},
     function(i) return i % 4 == 0 end},                      -- those without rope
  } do
    local name, changes, slides = table.unpack(case)
    it(("of %s are those of its rule"):format(name), function()
      local list = list_of(slides)
      local got = heed.no_grad(deep(name, changes), ids)
      assert.is_true(got:equal(heed.no_grad(deep(name, changes, list), ids)))
      for i = 1, LAYERS do                            -- each counts
        local kept = list[i]
        list[i] = kept == "full_attention" and "sliding_attention" or "full_attention"
        assert.is_false(got:equal(heed.no_grad(deep(name, changes, list), ids)), i)
        list[i] = kept
      end
    end)
  end
end)
