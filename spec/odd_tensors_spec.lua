-- Tensors of a model's file that are of another shape, missing, or more than the model has a place
-- for: each is refused by its name.

local directories = require "spec.support.directories"
local heed = require "heed"

local MODELS <const> = {"gpt2", "gpt_neox", "phi3_partial"}


local function shape_text(sizes) return "(" .. table.concat(sizes, ", ") .. ")" end

-- Why a directory is refused whose tensors are those of a model, but for one.
local function refusal(place, tensors, name, t)
  local own = {}
  for key, value in pairs(tensors) do own[key] = value end
  own[name] = t
  assert(heed.save(place.path .. "/model.safetensors", own))
  local model, why = heed.models.load(place.path)
  assert.is_nil(model, name)
  return why
end

-- The tensors of the first layer, by their names in order.
local function some_of(tensors)
  local names = {}
  for name in pairs(tensors) do
    if name:match "%.(%d+)%." == "0" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end


describe("a model's file", function()
  for _, of in ipairs(MODELS) do
    local place = directories.make(of)
    local tensors = assert(heed.load(place.path .. "/model.safetensors"))
    teardown(function() getmetatable(place).__close() end)

    it("is refused where a tensor has one row or one column more: " .. of, function()
      local tried = 0
      for _, name in ipairs(some_of(tensors)) do
        local t = tensors[name]
        local sizes = {t:size()}
        for axis = 1, t:dim() do
          local other = table.move(sizes, 1, #sizes, 1, {})
          other[axis] = other[axis] + 1
          local why = refusal(place, tensors, name, heed.zeros(other, {dtype = t.dtype}))
          local wanted = ('the tensor "%s" has shape %s, and %s is expected')
                         :format(name, shape_text(other), shape_text(sizes))
          assert.is_truthy(why:find(wanted, 1, true) or why:find("config.json", 1, true), why)
          if why:find(wanted, 1, true) then tried = tried + 1 end
        end
      end
      assert.is_true(tried > 6, tried)
    end)

    it("is refused without a tensor, or with one more: " .. of, function()
      local names = some_of(tensors)
      for i = 1, #names, 3 do
        local why = refusal(place, tensors, names[i], nil)
        assert.is_truthy(why:find(('the tensor "%s" is missing'):format(names[i]), 1, true)
                         or why:find("config.json", 1, true), why)
      end
      local whole = tensors[names[1]]
      assert.matches((" has shape (1, %s"):format(shape_text{whole:size()}:sub(2)),
                     refusal(place, tensors, names[1], whole:reshape(1, whole:size())), 1, true)
      assert.matches('the file has tensors that this model has no place for: "odd.weight"$',
                     refusal(place, tensors, "odd.weight", heed.ones(1)))
    end)
  end
end)
