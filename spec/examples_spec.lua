-- Every example runs: a step or two of training, its result, and its picture in the terminal.
-- examples/README.md has the results after the full training.

local lua = arg and arg[-1] and not arg[-1]:find("busted") and arg[-1] or "lua5.4"
local NOWHERE = "/nonesuch/picture.png"      -- gnuplot is not started

-- Arguments, and a pattern of the result.
local EXAMPLES = {
  addition = {"2", "%% of 2000 fresh sums right"},
  chat = {"", "%d+ ids read, 12 written, ended by max"},
  classification = {"2", "first pooling: [%d.]+ %% of 5000 fresh sentences right"},
  counting = {"--steps 2 --out " .. NOWHERE, "right on [%d.]+ %% of 5000 fresh sequences"},
  lecture = {"", "the loss of a masked model +largest difference"},
  masked = {"2", "hidden words right; always the same guess: [%d.]+ %%"},
  patches = {"2", "%% of 5000 fresh images right"},
  reversing = {"2", "%% of 5000 fresh sequences right"},
  seq2seq = {"2", "fresh numbers exactly right"},
  sorting = {"2", "%% of 5000 fresh sequences right"},
  tagging = {"2", "%% of 2000 fresh sentences right; a table of words: [%d.]+ %%"},
  text = {"2", "bits a character on text that it never saw"},
}

-- Examples that find texts, and draw nothing.
local SEARCHING = {
  rerank = {"", "at place %d+ before: "},
  search = {" 2", "%d+ of 119 tales found by their second sentence"},
}

-- Examples that spec/seeds_spec.lua runs.
local OTHERS = {by_hand = true, scaled_dot_product = true, single_head = true}


local function run(name, arguments)
  if arguments:find("^%d+$") then arguments = arguments .. " " .. NOWHERE end
  local pipe = assert(io.popen(("%s examples/%s.lua %s 2>&1"):format(lua, name, arguments)))
  local text = pipe:read("a")
  assert.is_true(pipe:close(), text)
  return text
end


describe("the example", function()
  for name, example in pairs(EXAMPLES) do
    it(name .. " runs, and shows where it looks", function()
      local text = run(name, example[1])
      assert.matches(example[2], text)
      assert.matches("%d [.:=+*#%%@-]+ %d", text)            -- the scale below a heat map
    end)
  end

  for name, example in pairs(SEARCHING) do
    it(name .. " runs", function() assert.matches(example[2], run(name, example[1])) end)
  end

  it("says how it is called where an argument is no number of steps", function()
    for name in pairs(EXAMPLES) do
      if EXAMPLES[name][1] == "2" then
        local pipe = assert(io.popen(("%s examples/%s.lua abc 2>&1"):format(lua, name)))
        local text = pipe:read("a")
        assert.is_nil((pipe:close()))
        assert.matches(("usage: lua5.4 examples/%s.lua [steps"):format(name), text, 1, true)
      end
    end
    local pipe = assert(io.popen(lua .. " examples/search.lua /nope 2>&1"))
    assert.matches("usage: lua5.4 examples/search.lua %[steps%], or MODEL", pipe:read("a"))
    assert.is_nil((pipe:close()))
    pipe = assert(io.popen(lua .. " examples/search.lua spec/golden/models/st/model2vec docs 2>&1"))
    assert.matches("usage: lua5.4 examples/search.lua", pipe:read("a"))
    assert.is_nil((pipe:close()))
  end)

  it("search finds files with models of directories, with attention and without", function()
    for _, name in ipairs{"bert_concat", "model2vec"} do
      local text = run("search", "spec/golden/models/st/" .. name .. " examples what")
      assert.matches("^[%d.]+  examples/", text)
    end
  end)

  it("seq2seq reads dates, too", function()
    assert.matches("fresh dates exactly right", run("seq2seq", "2 " .. NOWHERE .. " dates"))
  end)
end)


describe("the examples", function()
  it("are all known here, shown in examples/README.md, and below 120 lines", function()
    local file <close> = assert(io.open("examples/README.md"))
    local shown = file:read("a")
    local pipe <close> = assert(io.popen("ls examples/*.lua"))
    for path in pipe:lines() do
      local name, n = path:match("([%w_]+)%.lua$"), 0
      assert.is_truthy(EXAMPLES[name] or SEARCHING[name] or OTHERS[name], path)
      assert.is_truthy(shown:find(name .. ".lua", 1, true), path .. " is not in the README")
      for _ in io.lines(path) do n = n + 1 end
      assert.is_true(n < 120, path)
    end
  end)
end)
