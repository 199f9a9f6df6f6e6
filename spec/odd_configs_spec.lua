-- heed.models.load of configurations with numbers that no layer takes: refused by name, as found by
-- spec/fuzz/directories.lua.

local directories = require "spec.support.directories"
local heed = require "heed"


-- Why a model is refused whose configuration has these values.
local function why(name, values)
  local place <close> = directories.make(name, nil, function(c)
    for key, value in pairs(values) do c[key] = value end
  end)
  local model, message = heed.models.load(place.path)
  assert.is_nil(model)
  return message
end


describe("models.load refuses", function()
  it("biases by distance that cannot be", function()
    assert.matches("^models.load: .*config.json: bias.t5: .*even number from 4 on expected as "
                   .. "option buckets, got 1$", why("t5", {relative_attention_num_buckets = 1}))
    assert.matches("config.json: bias.t5: more than 2 expected as option distance",
                   why("t5", {relative_attention_max_distance = 2}))
  end)

  it("ids of padding that are none", function()
    for _, name in ipairs{"mpnet", "roberta"} do
      for _, value in ipairs{"Dense", 1.5, -1, 1 << 24} do
        assert.matches('config.json: .*"pad_token_id": an id from 0 to 16777215 expected, got ',
                       why(name, {pad_token_id = value}))
      end
    end
  end)
end)
