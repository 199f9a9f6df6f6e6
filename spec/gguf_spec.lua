-- GGUF files: every type of tensors, metadata, models and tokenizers as from a directory, and what
-- is refused.

local blocks = require "heed.internal.blocks"
local directories = require "spec.support.directories"
local gguf = require "heed.files.gguf"
local heed = require "heed"
local models_gguf = require "heed.models.gguf"
local refuse = require "heed.internal.refuse"

local HERE <const> = "spec/golden/gguf/"
local TYPES <const> = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k",
                       "q4_k", "q5_k", "q6_k"}

local path

before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)


-- Files made by hand ---------------------------------------------------------

local pack = string.pack

local function text(s) return pack("<s8", s) end

-- An entry of metadata: a string, a boolean, an integer (u32) or a float.
local function key(name, value)
  local kind = type(value) == "string" and {8, text(value)}
               or type(value) == "boolean" and {7, value and "\1" or "\0"}
               or math.type(value) == "integer" and {4, pack("<I4", value)}
               or {6, pack("<f", value)}
  return text(name) .. pack("<I4", kind[1]) .. kind[2]
end

local function list(name, kind, items)
  return text(name) .. pack("<I4I4i8", 9, kind, #items) .. table.concat(items)
end

local function tensor(name, sizes, kind, offset)
  local dims = {}
  for i = 1, #sizes do dims[i] = pack("<i8", sizes[#sizes + 1 - i]) end
  return text(name) .. pack("<I4", #sizes) .. table.concat(dims) .. pack("<I4i8", kind, offset)
end

-- A whole file: entries and tensors as they are packed.
local function file(keys, tensors, data, version)
  local head = "GGUF" .. pack("<I4i8i8", version or 3, #tensors, #keys) .. table.concat(keys)
               .. table.concat(tensors)
  return head .. ("\0"):rep(-#head % 32) .. (data or "")
end

local function load(bytes, o)
  directories.write(path, bytes)
  return heed.load(path, o)
end

local function refusal(bytes)
  local found, why = load(bytes)
  assert.is_nil(found)
  assert.is_truthy(why:find("load: " .. path .. ": ", 1, true), why)
  return why
end


describe("a GGUF file", function()
  for _, name in ipairs(TYPES) do
    it("gives the values of the reference, bit for bit: " .. name, function()
      local wanted = assert(heed.load(HERE .. name .. ".expect.safetensors"))
      for _, mapped in ipairs{false, true} do
        local tensors = assert(heed.load(HERE .. name .. ".gguf", {mapped = mapped}))
        local n = 0
        for key_of, t in next, wanted do
          assert.equal(t:data(), tensors[key_of]:to("float32"):data(), key_of)
          assert.equal(blocks[name] and name or tensors[key_of].dtype, tensors[key_of].dtype)
          n = n + 1
        end
        assert.is_true(n > 1)
      end
    end)
  end

  it("is a view of its file where it is mapped", function()
    collectgarbage()
    collectgarbage()
    local before = heed.memory().live
    local tensors = assert(heed.load(HERE .. "llama.gguf", {mapped = true}))
    assert.is_true(heed.memory().live - before < 4096)
    assert.equal("q8_0", tensors["blk.0.attn_q.weight"].dtype)
  end)

  it("has metadata of every type", function()
    local _, metadata = assert(load(file({
      key("a", "text"), key("b", true), key("c", 7), key("d", 1.5),
      list("e", 8, {text "x", text ""}),
      list("f", 5, {pack("<i4", -1), pack("<i4", 2)}), list("g", 7, {"\0", "\1"}),
      list("h", 0, {"\1", "\2", "\255"}), list("i", 9, {pack("<I4i8i2", 3, 1, -9)}),
      text "j" .. pack("<I4i8", 11, -5), text "k" .. pack("<I4d", 12, 0.1),
      text "l" .. pack("<I4i1", 1, -3), text "m" .. pack("<I4I2", 2, 65535),
      text "n" .. pack("<I4i8", 10, -1), list("o", 10, {pack("<i8", math.mininteger)}),
    }, {})))
    assert.same({a = "text", b = true, c = 7, d = 1.5, e = {"x", ""}, f = {-1, 2},
                 g = {false, true}, h = "\1\2\255", i = {{-9}}, j = -5, k = 0.1, l = -3,
                 m = 65535, n = "18446744073709551615", o = {"9223372036854775808"}}, metadata)
    local _, why = load(file({text "general.alignment" .. pack("<I4i8", 10, -1)}, {}))
    assert.matches("a power of two expected, got 18446744073709551615", why)
    assert.same({}, select(2, load(file({}, {}, "", 2))))
  end)

  it("may be split into several", function()
    local folder = os.tmpname()
    os.remove(folder)
    local names = {}
    local function write(i, no, all)
      names[i] = ("%s-%05d-of-00002.gguf"):format(folder, i)
      directories.write(names[i], file({
        text "split.no" .. pack("<I4I2", 2, no), text "split.count" .. pack("<I4I2", 2, 2),
        text "split.tensors.count" .. pack("<I4i4", 5, all),
      }, {tensor("t" .. i, {2}, 0, 0)}, pack("<ff", i, -i)))
    end
    write(1, 0, 3)
    write(2, 1, 2)
    local _, why = heed.load(names[1])
    assert.matches("3 tensors expected in all files, got 2", why)
    write(1, 0, 2)
    write(2, 2, 2)
    _, why = heed.load(names[1])
    assert.matches("00002.gguf: part 2 of 2 expected by its metadata", why)
    write(2, 1, 2)
    for _, mapped in ipairs{false, true} do
      local tensors = assert(heed.load(names[1], {mapped = mapped}))
      assert.same({1, -1}, tensors.t1:totable())
      assert.same({2, -2}, tensors.t2:totable())
    end
    _, why = heed.load(names[2])
    assert.matches("this is part 2 of 2 files", why)
    os.remove(names[2])
    _, why = heed.load(names[1])
    assert.matches("00002%-of%-00002%.gguf", why)
    os.remove(names[1])
    for _, keys in ipairs{{key("split.count", 1)}, {}} do            -- one file has what it has
      keys[#keys + 1] = key("split.tensors.count", 5)
      assert.same({}, (assert(load(file(keys, {})))))
    end
  end)

  local one = pack("<ffff", 1, 2, 3, 4)

  it("is refused where anything in it is wrong, by name", function()
    for _, case in ipairs{
      {"version 2 or 3 of GGUF expected, got 1", file({}, {}, "", 1)},
      {"big%-endian", "GGUF" .. pack(">I4I8I8", 3, 0, 0)},
      {"the file ends within the version", "GGUF\3"},
      {"the number of tensors: 1099511627776 does not fit",
       "GGUF" .. pack("<I4i8i8", 3, 1 << 40, 0)},
      {"the number of keys: a count of 2%^63 or more", "GGUF" .. pack("<I4i8i8", 3, 0, -1)},
      {'key "a" stands there twice', file({key("a", 1), key("a", 2)}, {})},
      {"a value of the unknown type 13", file({text "a" .. pack("<I4", 13)}, {})},
      {"0 or 1 expected for a boolean, got 2", file({text "a" .. pack("<I4", 7) .. "\2"}, {})},
      {'key "a": 100', file({text "a" .. pack("<I4I4i8", 9, 0, 100)}, {})},
      {"arrays within 8 others", file({text "a" .. pack("<I4", 9)
        .. pack("<I4i8", 9, 1):rep(8) .. pack("<I4i8", 0, 0)}, {})},
      {"a key: UTF%-8", file({key("\255", 1)}, {})},
      {'tensor "t" has 5 dimensions', file({}, {tensor("t", {1, 1, 1, 1, 1}, 0, 0)}, one)},
      {'key "a": at most 65536 booleans expected, got 65537',
       file({text "a" .. pack("<I4I4i8", 9, 7, 65537) .. ("\0"):rep(65537)}, {})},
      {'tensor "t" is of type 99', file({}, {tensor("t", {4}, 99, 0)}, one)},
      {'tensor "t" has 16 bytes from 32 on', file({}, {tensor("t", {4}, 0, 32)}, one)},
      {"a multiple of 32 from 0 on expected", file({}, {tensor("t", {1}, 0, 4)}, one)},
      {'tensor "u" begins at 0: a multiple of 32 from 16 on',
       file({}, {tensor("t", {4}, 0, 0), tensor("u", {4}, 0, 0)}, one)},
      {"the tensor \"t\" stands there twice", file({}, {tensor("t", {1}, 0, 0),
                                                        tensor("t", {1}, 0, 32)}, one)},
      {"its shape overflows", file({}, {tensor("t", {1 << 40, 1 << 40}, 0, 0)}, one)},
      {"a size of 2%^63 or more", file({}, {tensor("t", {-1}, 0, 0)}, one)},
      {"rows of 4 elements, and q8_0 needs a multiple of 32",
       file({}, {tensor("t", {4}, 8, 0)}, one)},
      {"a power of two expected, got 3", file({key("general.alignment", 3)}, {})},
      {"a power of two expected, got 0", file({key("general.alignment", 0)}, {})},
      {'key "split.count": 1 to 4096 files expected, got 4097',
       file({key("split.count", 4097), key("split.no", 0)}, {})},
      {"a name that ends in %-00001%-of%-04096%.gguf",
       file({key("split.count", 4096), key("split.no", 0)}, {})},
      {"a name that ends in %-00001%-of%-00002%.gguf",
       file({key("split.count", 2), key("split.no", 0)}, {})},
    } do
      assert.matches(case[1], refusal(case[2]))
    end
  end)

  it("may have as much as the limits say", function()
    local _, metadata = assert(load(file({
      text "a" .. pack("<I4I4i8", 9, 7, 65536) .. ("\1"):rep(65536),
      text "b" .. pack("<I4", 9) .. pack("<I4i8", 9, 1):rep(7) .. pack("<I4i8", 0, 0),
    }, {tensor("t", {1, 1, 1, 4}, 0, 0)}, one)))
    assert.equal(65536, #metadata.a)
    assert.is_true(metadata.a[65536])
    local within, depth = metadata.b, 0
    while type(within) == "table" do within, depth = within[1], depth + 1 end
    assert.equal(7, depth)                     -- and bytes, which are a string
  end)

  it("has tensors without elements, too", function()
    local loaded = assert(load(file({}, {tensor("t", {0, 4}, 0, 0)})))
    assert.equal(0, loaded.t:size(1))
    assert.equal(4, loaded.t:size(2))
  end)

  it("is refused with the names of types that are known by those alone", function()
    for number, name in pairs{
      [9] = "Q8_1", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
      [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S", [23] = "IQ4_XS",
      [29] = "IQ1_M", [34] = "TQ1_0", [35] = "TQ2_0", [39] = "MXFP4", [40] = "NVFP4",
      [41] = "Q1_0",
    } do
      assert.matches(('tensor "t" is of type %s,'):format(name),
                     refusal(file({}, {tensor("t", {4}, number, 0)}, one)), 1, true)
    end
  end)

  it("has tensors of the types that llama.cpp numbers so", function()
    for number, dtype in pairs{
      [0] = "float32", [1] = "float16", [2] = "q4_0", [3] = "q4_1", [6] = "q5_0", [7] = "q5_1",
      [8] = "q8_0", [10] = "q2_k", [11] = "q3_k", [12] = "q4_k", [13] = "q5_k", [14] = "q6_k",
      [24] = "int64", [25] = "int64", [26] = "int64", [27] = "int64", [28] = "float64",
      [30] = "bfloat16",
    } do
      local size = ({[24] = 1, [25] = 2, [26] = 4})[number]
      local bytes = size and 256 * size or blocks[dtype] and 256 // blocks[dtype].elements
                    * blocks[dtype].bytes or #heed.zeros({256}, {dtype = dtype}):data()
      local t = assert(load(file({}, {tensor("t", {1, 256}, number, 0)}, ("\0"):rep(bytes)))).t
      assert.equal(dtype, t.dtype)
      assert.same({1, 256}, {t:size(1), t:size(2)})
      assert.matches('tensor "t" has ' .. bytes .. " bytes",
                     refusal(file({}, {tensor("t", {1, 256}, number, 0)}, ("\0"):rep(bytes - 1))))
    end
    for _, number in ipairs{4, 5, 31, 33, 36, 38, 42} do
      assert.matches(('tensor "t" is of type %d,'):format(number),
                     refusal(file({}, {tensor("t", {4}, number, 0)}, one)), 1, true)
    end
  end)

  it("never raises, nor takes more than its size, whatever its bytes are", function()
    heed.manual_seed(7)
    local bytes = directories.read(HERE .. "q4_k.gguf")
    local head, refused = 400, 0
    local places = heed.randint(1, head, {600}):totable()
    local values = heed.randint(0, 255, {600}):totable()
    for i, at in ipairs(places) do
      local changed = bytes:sub(1, at - 1) .. string.char(values[i]) .. bytes:sub(at + 1)
      if i % 5 == 0 then changed = changed:sub(1, at + 8) end
      directories.write(path, changed)
      local good, found, why = pcall(heed.load, path, {mapped = i % 2 == 0})
      assert.is_true(good, tostring(found))
      if found == nil then
        refused = refused + 1
        assert.is_string(why)
      end
    end
    assert.is_true(refused > 200, refused)
  end)
end)


describe("a model in a GGUF file", function()
  local TOLERANCE <const> = 2e-5

  local function apart(got, wanted, keys)
    local far = ((got - wanted):abs() - wanted:abs() * TOLERANCE) / TOLERANCE
    return far:masked_fill(~keys:unsqueeze(3), 0):max():item()
  end

  it("computes what the reference computes from its values", function()
    local e = assert(heed.load(HERE .. "llama.expect.safetensors"))
    local ids, keys = e.input_ids + 1, e.attention_mask:ne(0)
    for _, o in ipairs{{}, {mapped = true}, {dtype = "float32"}} do
      local m = assert(heed.models.load(HERE .. "llama.gguf", o))
      local logits = heed.no_grad(function() return m(ids, {keys = keys}) end)
      assert.is_true(apart(logits, e.logits, keys) < 1)
      assert.equal(o.dtype or "q8_0", m.words.weight.dtype)
    end
  end)

  it("generates the same ids", function()
    local e = assert(heed.load(HERE .. "llama.expect.safetensors"))
    local m = assert(heed.models.load(HERE .. "llama.gguf", {mapped = true}))
    for b = 1, #e.prompts do
      local prompt = e.prompts[b][e.prompts_mask[b]:ne(0)] + 1
      local new = heed.generate(m, prompt, {max = 24, temperature = 0})
      assert.same((e.greedy[b] + 1):totable(), new:totable())
    end
  end)

  it("has the tokenizer of its directory", function()
    local tok = assert(heed.models.load(HERE .. "llama.gguf")).tokenizer
    for text_of, wanted in next, {                  -- what its tokenizer.json gives
      ["Attention is all you need."] = "<s>|▁Attention|▁is|▁all|▁you|▁ne|ed|.",
      ["Tokens, words and naïve cafés: the cat"] = "<s>|▁T|ok|ens|,|▁wor|ds|▁and|▁n|a|"
        .. "<0xC3>|<0xAF>|ve|▁c|a|f|é|s:|▁the|▁c|at",
    } do
      local ids = tok:encode(text_of)
      local names = ids:totable()
      for i, id in ipairs(names) do names[i] = tok:token(id) end
      assert.equal(wanted, table.concat(names, "|"))
      assert.equal(text_of, tok:decode(ids))
    end
  end)

  it("is refused by what it has that is not known", function()
    local function model(keys)
      directories.write(path .. ".gguf", file(keys, {}))
      local found, why = heed.models.load(path .. ".gguf")
      os.remove(path .. ".gguf")
      assert.is_nil(found)
      return why
    end
    assert.matches("one of gemma2, .* expected, got none", model{})
    directories.write(path .. ".gguf", ("x"):rep(99))
    assert.matches("no GGUF file", select(2, heed.models.load(path .. ".gguf")))
    assert.matches('got "mamba"', model{key("general.architecture", "mamba")})
    local llama = {key("general.architecture", "llama"), key("llama.block_count", 1),
                   key("llama.embedding_length", 32), key("llama.attention.head_count", 4),
                   key("llama.feed_forward_length", 8),
                   key("llama.attention.layer_norm_rms_epsilon", 1e-5)}
    assert.matches("a count expected as llama.attention.head_count, got nil", model{llama[1]})
    llama[7] = key("llama.expert_count", 8)
    assert.matches('the key "llama.expert_count" is not known', model(llama))
  end)
end)


-- The config.json that a file's metadata stand for, behind the least that a model has.
describe("the configuration of a model in a GGUF file", function()
  local function values(keys, tensors, architecture)
    local name = architecture or "llama"
    local metadata = {["general.architecture"] = name}
    for own, value in next, {block_count = 2, embedding_length = 32, ["attention.head_count"] = 4,
                             feed_forward_length = 8,
                             ["attention.layer_norm_rms_epsilon"] = 1e-5} do
      metadata[name .. "." .. own] = value
    end
    for own, value in next, keys do metadata[name .. "." .. own] = value end
    return refuse.try(models_gguf.values, metadata, tensors or {})
  end

  it("has the shortest numbers that float32 are made of", function()
    local function as_single(x) return string.unpack("<f", pack("<f", x)) end
    for _, x in ipairs{1e-6, 1e-5, 0.1, 1234.5, 1e30, 0.1234567, 16777217.25, 1.00000012} do
      local n = values{["rope.freq_base"] = as_single(x)}.rope_theta
      assert.equal(as_single(x), as_single(n))
    end
    for _, x in ipairs{1e-6, 0.1, 0.123457, 0.1234567, 1.1754944e-38} do
      assert.equal(x, values{["rope.freq_base"] = as_single(x)}.rope_theta)
    end
    local nine = 8589973.02                            -- float32 needs nine digits here
    assert.equal(tonumber(("%.9g"):format(as_single(nine))),
                 values{["rope.freq_base"] = as_single(nine)}.rope_theta)
    for _, x in ipairs{0.1, 1e-40 / 3, 1e300, math.huge, 10000, 1 / 3} do
      assert.equal(x, values{["rope.freq_base"] = x}.rope_theta)
    end
  end)

  it("scales rope as the keys say, and not at all where they say none", function()
    local function scaling(keys, factors)
      local found, why = values(keys, factors and {["rope_freqs.weight"] = factors})
      return found and found.rope_scaling, why
    end
    assert.is_nil(scaling{})
    assert.is_nil(scaling{["rope.scaling.type"] = "none"})
    assert.is_nil(scaling{["rope.scaling.factor"] = 2.0})
    for _, kind in ipairs{"linear", "yarn"} do
      assert.same({rope_type = kind, factor = 4.0, original_max_position_embeddings = 64},
                  scaling{["rope.scaling.type"] = kind, ["rope.scaling.factor"] = 4.0,
                          ["rope.scaling.original_context_length"] = 64})
    end
    local two = heed.tensor{1.0, 2.0}
    for _, kind in ipairs{false, "none"} do
      local found = scaling({["rope.scaling.type"] = kind or nil,
                             ["rope.scaling.original_context_length"] = 64}, two)
      assert.same({1, 2}, {found.short_factor[1], found.short_factor[2]})
      assert.same({1, 2}, {found.long_factor[1], found.long_factor[2]})
      found.short_factor, found.long_factor = nil, nil
      assert.same({rope_type = "longrope", factor = 1.0, attention_factor = 1.0,
                   original_max_position_embeddings = 64}, found)
    end
    for _, kind in ipairs{"linear", "yarn", "other"} do
      assert.equal("rope_freqs beside rope.scaling.type are not known",
                   select(2, scaling({["rope.scaling.type"] = kind}, two)))
    end
    assert.equal('rope.scaling.type: "none", "linear" or "yarn" expected, got "longrope"',
                 select(2, scaling{["rope.scaling.type"] = "longrope"}))
    assert.equal('rope.scaling.type: "none", "linear" or "yarn" expected, got "3"',
                 select(2, scaling{["rope.scaling.type"] = 3}))
    for _, bad in ipairs{heed.ones(1, 2), heed.ones(2):double(), heed.tensor(1.0)} do
      assert.equal('the tensor "rope_freqs.weight": a list of float32 expected',
                   select(2, scaling({}, bad)))
    end
  end)

  it("has counts within their limits, and widths that agree", function()
    for own, name in pairs{block_count = "num_hidden_layers", embedding_length = "hidden_size",
                           ["attention.head_count"] = "num_attention_heads",
                           feed_forward_length = "intermediate_size"} do
      for _, bad in ipairs{0, -1, 1.5, "2", (1 << 24) + 1, {1}} do
        assert.matches(("^a count expected as llama.%s, got "):format(own),
                       select(2, values{[own] = bad}))
      end
      for _, good in ipairs{1, 1 << 24} do
        local keys = {[own] = good, ["attention.key_length"] = 8}
        assert.equal(good, values(keys)[name])
      end
    end
    for _, bad in ipairs{0.0, -1e-5, "1e-5", true} do
      assert.matches("^a number above 0 expected as llama.attention.layer_norm_rms_epsilon, got ",
                     select(2, values{["attention.layer_norm_rms_epsilon"] = bad}))
    end
    assert.equal(8, values{}.head_dim)
    assert.equal(7, values{embedding_length = 31}.head_dim)
    assert.equal(12, values{["attention.key_length"] = 12}.head_dim)
    assert.equal("llama: a count expected as features of a head, got 0",
                 select(2, values{embedding_length = 3}))
    for _, key_of in ipairs{"attention.value_length", "rope.dimension_count"} do
      assert.equal(8, values{[key_of] = 8}.head_dim)
      assert.equal(key_of .. ": 8 expected, the features of a head, got 4",
                   select(2, values{[key_of] = 4}))
    end
    assert.matches('^the key "llama.other" is not known', select(2, values{other = 1}))
    for _, idle in ipairs{"rope.scaling.finetuned", "vocab_size"} do
      assert.is_truthy(values{[idle] = 1})
    end
  end)

  it("follows from its tensors and its architecture", function()
    local names = {words = "model.embed_tokens.weight", head = "lm_head.weight",
                   bias = "model.layers.0.self_attn.q_proj.bias"}
    local plain = values({}, {[names.words] = heed.ones(5, 32)})
    assert.equal(5, plain.vocab_size)
    assert.is_true(plain.tie_word_embeddings)
    assert.is_nil(plain.attention_bias)
    assert.equal("silu", plain.hidden_act)
    assert.is_nil(plain.query_pre_attn_scalar)
    assert.is_nil(plain.rope_interleaved)
    assert.is_nil(values({}, {[names.words] = heed.tensor(1.0)}).vocab_size)
    local other = values({}, {[names.bias] = heed.ones(32), [names.head] = heed.ones(5, 32)})
    assert.is_true(other.attention_bias)
    assert.is_false(other.tie_word_embeddings)
    assert.is_nil(values({}, {[names.bias] = heed.ones(32)}, "qwen2").attention_bias)
    for name, most in pairs{gemma2 = 46, gemma3 = 62} do
      local found = values({["attention.key_length"] = 12}, nil, name)
      assert.equal(12, found.query_pre_attn_scalar)
      assert.is_nil(found.hidden_act)
      assert.equal("gelu_pytorch_tanh", found.hidden_activation)
      for layers, wanted in pairs{[most] = 8, [most - 1] = 12, [most + 1] = 12} do
        local keys = {block_count = layers, ["attention.key_length"] = 12}
        assert.equal(wanted, values(keys, nil, name).query_pre_attn_scalar)
      end
    end
  end)
end)


describe("the header of a GGUF file", function()
  it("is read alone for a tokenizer", function()
    directories.write(path, file({key("a", 1)}, {tensor("t", {1 << 30}, 0, 0)}))
    assert.same({a = 1}, gguf.metadata(assert(heed.core.open_file(path))))
  end)
end)
