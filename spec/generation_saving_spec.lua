-- Values that a program has written to model.generation stand in the files of models.save, be the
-- model of a directory or of a GGUF file, and become a directory or such a file.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"

local FILES <const> = {
  ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
  ["tokenizer.json"] = "tokenizer.json", ["generation_config.json"] = "generation_config.json",
}
local NAME <const> = "/generation_config.json"

local path

before_each(function() path = os.tmpname() .. ".gguf" end)
after_each(function()
  os.remove(path)
  os.remove((path:gsub("%.gguf$", "")))
end)


-- The model that is read of what was written, and what that does not say.
local function again(m, place, o)
  local done, left = heed.models.save(place, m, o)
  assert.is_true(done, left)
  return assert(heed.models.load(place)), left
end


-- Models of a directory and of a file, and the ids that end their texts.
local function sources(place)
  return {
    {assert(heed.models.load(place.path)), {681, 682}},
    {assert(heed.models.load("spec/golden/gguf/llama.gguf", {dtype = "float32"})), 2},
  }
end


describe("what model.generation says", function()
  it("is written as a directory has it, with what has changed since it was read", function()
    local from <close> = directories.make("llama3", FILES)
    for _, row in ipairs(sources(from)) do
      local m, ends = row[1], row[2]
      local same <close> = directories.free()
      local changed <close> = directories.free()
      local none <close> = directories.free()
      assert.same(ends, again(m, same.path).generation.eos_token_id)
      m.generation.max_new_tokens, m.generation.top_p = 7, 0.5
      m.generation.eos_token_id, m.generation.bos_token_id = {5, 6}, nil
      local own = again(m, changed.path).generation
      assert.same({7, 0.5, {5, 6}}, {own.max_new_tokens, own.top_p, own.eos_token_id})
      m.generation = {}
      own = again(m, none.path).generation
      assert.is_nil(own.max_new_tokens)
    end
    local copy <close> = directories.free()
    assert(heed.models.save(copy.path, assert(heed.models.load(from.path))))
    assert.equal(directories.read(from.path .. NAME), directories.read(copy.path .. NAME))
  end)

  it("is written where the directory had no file of it", function()
    local from <close> = directories.make "qwen2"
    local to <close> = directories.free()
    local m = assert(heed.models.load(from.path))
    m.generation.max_new_tokens = 7
    assert.equal(7, again(m, to.path).generation.max_new_tokens)
  end)

  it("has lists under keys that heed follows, also empty ones, and no others", function()
    local from <close> = directories.make("llama3", FILES)
    for _, row in ipairs(sources(from)) do
      local to <close> = directories.free()
      row[1].generation = {eos_token_id = {}, bos_token_id = {}, suppress_tokens = {},
                           stop_strings = {}, other_config = {}}
      again(row[1], to.path)
      assert.equal('{"bos_token_id":[],"eos_token_id":[],"other_config":{},"stop_strings":[],'
                   .. '"suppress_tokens":[]}\n', directories.read(to.path .. NAME))
    end
  end)

  it("is written as a GGUF file has it, behind the end of its tokenizer", function()
    local from <close> = directories.make("llama3", FILES)
    for _, row in ipairs(sources(from)) do
      local m = row[1]
      m.generation.do_sample, m.generation.top_p, m.generation.repetition_penalty = true, 0.5, 1.25
      m.generation.eos_token_id, m.generation.max_new_tokens = 5, 7
      local other, left = again(m, path)
      local own = other.generation
      assert.same({true, 0.5, 1.25}, {own.do_sample, own.top_p, own.repetition_penalty})
      local ends = type(own.eos_token_id) == "table" and own.eos_token_id or {own.eos_token_id}
      assert.equal(5, ends[#ends])
      local has_own = ends[2] and "GGUF has the tokenizer's, too" or nil
      assert.same({["generation_config.json: max_new_tokens"] = "GGUF has no key for it",
                   ["generation_config.json: eos_token_id"] = has_own}, left)
      os.remove(path)
      assert.same(own, (again(other, path)).generation)
      other.generation = {eos_token_id = ends[1]}
      os.remove(path)
      own = again(other, path).generation
      assert.same({ends[1]}, {own.eos_token_id, own.top_p, own.repetition_penalty})
      os.remove(path)
    end
  end)

  it("passes over a file's keys that are no finite numbers, and keeps them", function()
    local tensors, metadata, types = assert(heed.load "spec/golden/gguf/llama.gguf")
    local wanted = assert(heed.models.load "spec/golden/gguf/llama.gguf").generation
    for value, kind in next, {[math.huge] = "float32", [-math.huge] = "float32", x = "string"} do
      for _, key in ipairs{"top_p", "top_k", "penalty_repeat"} do
        metadata["general.sampling." .. key], types["general.sampling." .. key] = value, kind
      end
      metadata["general.sampling.temp"], types["general.sampling.temp"] = 0 / 0, "float32"
      assert(heed.save(path, tensors, metadata, types))
      local m = assert(heed.models.load(path))
      assert.same(wanted, m.generation)
      assert(heed.models.save(path, m, {replace = true}))
      local _, own = assert(heed.load(path))
      for _, key in ipairs{"top_p", "top_k", "penalty_repeat"} do
        assert.equal(value, own["general.sampling." .. key])
      end
      assert.not_equal(own["general.sampling.temp"], own["general.sampling.temp"])
    end
  end)

  it("is told where the tokenizer's own ids stand in a GGUF file in its place", function()
    for _, row in ipairs{{"spec/golden/models/llama3", 680, 682},
                         {"spec/golden/gguf/llama.gguf", 1, 2}} do
      local m, first, last = assert(heed.models.load(row[1], {dtype = "float32"})), row[2], row[3]
      for _, case in ipairs{
        {first, last}, {first, {5, last}}, {nil, nil}, {5, last, "bos"}, {"x", last, "bos"},
        {first, {}, nil, "eos"}, {first, {5, 6}, nil, "eos"}, {5, 5, "bos", "eos"},
      } do
        m.generation = {bos_token_id = case[1], eos_token_id = case[2]}
        local done, left = heed.models.save(path, m, {replace = true})
        assert.is_true(done, left)
        local wanted = {
          ["generation_config.json: bos_token_id"] = case[3] and "GGUF has the tokenizer's",
          ["generation_config.json: eos_token_id"] = case[4] and "GGUF has the tokenizer's, too",
        }
        assert.same(wanted, left or {})
      end
    end
  end)

  it("is refused where it is no table", function()
    local place <close> = directories.free()
    for _, row in ipairs{{"spec/golden/models/llama3", place.path},
                         {"spec/golden/gguf/llama.gguf", path}} do
      local m = assert(heed.models.load(row[1]))
      m.generation = 5
      assert.error_matches(function() heed.models.save(row[2], m) end,
                           "models.CausalModel: a table expected as field 'generation', got 5")
    end
  end)

  it("is refused where a key is no string, by functions that save and that generate", function()
    local place <close> = directories.free()
    for _, row in ipairs{{"spec/golden/models/llama3", place.path},
                         {"spec/golden/models/llama3", path},
                         {"spec/golden/gguf/llama.gguf", path}} do
      local m = assert(heed.models.load(row[1], {dtype = "float32"}))
      for _, own in ipairs{{2}, {2, top_p = 0.5}, {[true] = 1}} do
        m.generation = own
        local why = ("models.CausalModel: a table with strings as keys expected as field "
                     .. "'generation', got one with %s as a key"):format(own[1] and 1 or true)
        assert.matches(why, message(heed.models.save, row[2], m), 1, true)
        assert.matches(why, message(m.generate, m, {1, 2}, {max = 1}), 1, true)
        assert.matches(why, message(m.generate, m, {1, 2}, {max = 1, config = false}), 1, true)
      end
    end
  end)

  it("is refused by key where JSON has no form for a value", function()
    local circle, nan = {}, 0 / 0
    circle.x = circle
    local place <close> = directories.free()
    for _, row in ipairs{{"spec/golden/models/llama3", place.path},
                         {"spec/golden/gguf/llama.gguf", path}} do
      local m = assert(heed.models.load(row[1], {dtype = "float32"}))
      for _, case in ipairs{
        {"top_p", nan, "a finite number expected, got %-?nan"},
        {"top_p", math.huge, "a finite number expected, got inf"},
        {"x", print, "a string, number, boolean, table or json.null expected, got function"},
        {"x", heed.ones(2), "a string, number, boolean, table or json.null expected, got userdata"},
        {"x", circle, "nested too deep, or in a circle"},
        {"x", {[3] = 1}, "a list or a table with strings as keys expected, got the key 3"},
        {"x", "\255", "UTF%-8 expected, got the string \"\255\""},
      } do
        m.generation = {top_k = 5, [case[1]] = case[2]}
        local done, why = heed.models.save(row[2], m)
        assert.is_nil(done)
        local wanted = '^models.save: generation_config.json: "%s": %s$'
        assert.matches(wanted:format(case[1], case[3]), why)
        assert.is_nil(io.open(row[2]))
      end
    end
  end)

  it("is refused where a .gguf file's key has no room for a number", function()
    for _, name in ipairs{"spec/golden/models/llama3", "spec/golden/gguf/llama.gguf"} do
      local m = assert(heed.models.load(name, {dtype = "float32"}))
      for _, case in ipairs{
        {"top_k", "5", "int32", "the string '5'"}, {"top_k", 1.5, "int32", "1.5"},
        {"top_k", 1 << 31, "int32", "2147483648"}, {"min_p", true, "float32", "true"},
        {"temperature", 1e39, "float32", "1e%+39"},
        {"repetition_penalty", "2", "float32", "the string '2'"},
      } do
        m.generation = {do_sample = true, [case[1]] = case[2]}
        local done, why = heed.models.save(path, m)
        assert.is_nil(done)
        assert.matches(("^models.save: generation_config.json: %s as %s expected for a .gguf file, "
                        .. "got %s$"):format(case[1], case[3], case[4]), why)
      end
    end
    local m = assert(heed.models.load("spec/golden/models/llama3"))
    for _, value in ipairs{0 / 0, math.huge} do
      m.generation = {do_sample = true, top_p = value}
      assert.matches("top_p as float32 expected for a .gguf file, got ",
                     select(2, heed.models.save(path, m)), 1, true)
    end
    m.generation.top_p, m.generation.top_k = 1, 5.0
    assert.equal(5, again(m, path).generation.top_k)
  end)

  it("is what stands in its table, whatever a metatable says", function()
    local class = {}
    for _, event in ipairs{"__index", "__len", "__pairs"} do
      class[event] = function() error(event) end
    end
    local function own()
      local ids, texts = setmetatable({5, 6}, class), setmetatable({"@@@"}, class)
      return setmetatable({eos_token_id = ids, suppress_tokens = ids, stop_strings = texts}, class)
    end
    for _, name in ipairs{"spec/golden/models/llama3", "spec/golden/gguf/llama.gguf"} do
      local place <close> = directories.free()
      local m = assert(heed.models.load(name, {dtype = "float32"}))
      m.generation = own()
      assert.equal(1, #m:generate({1, 2}, {max = 1}))
      assert.same({5, 6}, again(m, place.path).generation.eos_token_id)
      assert.is_truthy(again(m, path, {replace = true}))
    end
  end)
end)
