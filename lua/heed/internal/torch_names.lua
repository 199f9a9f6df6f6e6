-- Names of PyTorch's by the place where one writes them, as in torch_names.nn.Conv2d: what to write
-- in heed, or nil. They stand in heed.internal.torch_words, which the first lookup loads: a program
-- that misspells nothing does without.

return setmetatable({}, {
  __index = function(places, place)
    local names = setmetatable({}, {
      __index = function(_, name) return require("heed.internal.torch_words")[place][name] end,
    })
    places[place] = names
    return names
  end,
})
