-- Paths of GGUF files, types of blocks where a type of floats stands, and keys: what models.save
-- and models.load say of them.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"

local HERE <const>, FILE <const> = directories.HERE, "spec/golden/gguf/llama.gguf"


local function logits(m)
  heed.manual_seed(3)
  return heed.no_grad(m, heed.randint(1, m.words.weight:size(1), {2, 24}))
end


local path

before_each(function() path = os.tmpname() .. ".gguf" end)
after_each(function()
  os.remove(path)
  os.remove((path:gsub("%.gguf$", "")))
end)


describe("a path that looks like that of a GGUF file", function()
  it("is refused, and of a file in any case loaded", function()
    local m = assert(heed.models.load(FILE))
    local bare = path:gsub("%.gguf$", "")
    for _, ending in ipairs{".GGUF", ".gguf/", ".Gguf//"} do
      assert.matches("models.save: a file's path that ends in '.gguf' expected",
                     message(heed.models.save, bare .. ending, m), 1, true)
    end
    assert.matches("models.save_adapters: a directory's path expected, got '",
                   message(heed.models.save_adapters, path, m), 1, true)
    assert.is_nil(io.open(bare .. ".GGUF"))
    assert.matches("^models.load: .*%.gguf: cannot open: No such file",
                   select(2, heed.models.load(path)))
    local upper <close> = setmetatable({}, {__close = function() os.remove(bare .. ".GGUF") end})
    directories.write(bare .. ".GGUF", directories.read(FILE))
    assert.is_true(logits(assert(heed.models.load(bare .. ".GGUF"))):equal(logits(m)))
    assert.is_table(upper)
  end)

  it("and types of blocks, are told what to write", function()
    local m = assert(heed.models.load(FILE))
    assert.matches("; model:quantize('q8_0') makes blocks of weights before",
                   message(heed.models.save, path, m, {dtype = "q8_0"}), 1, true)
    assert.matches("; option quantize = 'q4_0' puts weights into blocks",
                   message(heed.models.load, FILE, {dtype = "q4_0"}), 1, true)
    local bert = assert(heed.models.load(HERE .. "albert"))
    assert.matches('got "albert"; a path without .gguf writes a directory',
                   select(2, heed.models.save(path, bert)), 1, true)
  end)
end)


describe("a key of a GGUF file", function()
  local function why(key, value)
    local tensors, metadata, types = assert(heed.load(FILE))
    metadata[key], types[key] = value, nil
    assert(heed.save(path, tensors, metadata, types))
    return select(2, heed.models.load(path))
  end

  it("has its own name where its value is refused, and is of no config.json", function()
    local begin = "models.load: " .. path .. ": metadata: "
    assert.matches(begin .. 'nn.MultiHeadAttention: heads as a multiple of kv_heads expected',
                   why("llama.attention.head_count_kv", 3), 1, true)
    assert.matches(begin .. '"llama.attention.layer_norm_rms_epsilon": a finite number above 0',
                   why("llama.attention.layer_norm_rms_epsilon", math.huge), 1, true)
    assert.matches(begin .. "rope: a finite number above 0 expected as base, got -1",
                   why("llama.rope.freq_base", -1.0), 1, true)
  end)

  it("is not named where the model's configuration was changed since", function()
    local m = assert(heed.models.load(FILE))
    m.config.rms_norm_eps = -1
    assert.matches('models.save: model.config: "rms_norm_eps": a finite number above 0 expected',
                   select(2, heed.models.save(path, m)), 1, true)
  end)
end)
