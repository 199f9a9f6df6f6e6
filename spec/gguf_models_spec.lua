-- heed.models.save into GGUF files: models and tokenizers come back as they were, and what has no
-- form there is refused by name.

local blocks = require "heed.internal.blocks"
local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"
local raw = require "heed.files.raw"

local HERE <const>, FILE <const> = directories.HERE, "spec/golden/gguf/llama.gguf"
local TOKENIZERS <const> = "spec/golden/tokenizers/"

local path

before_each(function() path = os.tmpname() .. ".gguf" end)
after_each(function()
  os.remove(path)
  os.remove((path:gsub("%.gguf$", "")))
end)


local function logits(m)
  heed.manual_seed(3)
  return heed.no_grad(m, heed.randint(1, m.words.weight:size(1), {2, 24}))
end

-- The model of what was written.
local function again(m, o, given)
  local done, left = heed.models.save(path, m, given)
  assert.is_true(done, left)
  return assert(heed.models.load(path, o)), left
end

local function refusal(m, given)
  local found, why = heed.models.save(path, m, given)
  assert.is_nil(found)
  assert.is_nil(io.open(path))
  return why
end

-- A model whose configuration is changed.
local function changed(name, change)
  local place <close> = directories.make(name, nil, change)
  local m = assert(heed.models.load(place.path))
  return m
end

local function metadata_of()
  local _, metadata, types = assert(heed.load(path))
  return metadata, types
end


-- Changes without which a golden model has no form in GGUF.
local CHANGES <const> = {
  gemma2 = function(c) c.query_pre_attn_scalar = 12 end,
  mistral = function(c) c.sliding_window = json.null end,
}
local function third(c)
  c.query_pre_attn_scalar, c.use_bidirectional_attention = 12, false
  c.architectures, c.layer_types = json.array{"Gemma3ForCausalLM"}, json.null
  c._sliding_window_pattern, c.sliding_window_pattern = json.null, 6
end
CHANGES.gemma3_bidirectional = third


describe("models.save into a GGUF file", function()
  for _, name in ipairs{"qwen2", "qwen3", "smollm3", "gemma2", "gemma3_bidirectional",
                        "mistral"} do
    it("gives the same logits again, bit for bit: " .. name, function()
      local m = changed(name, CHANGES[name])
      local wanted = logits(m)
      local other = again(m)
      assert.equal(wanted.dtype, logits(other).dtype)
      assert.is_true(wanted:equal(logits(other)))
      assert.is_true(wanted:allclose(logits(again(m, {mapped = true}, {replace = true})),
                                     {rtol = wanted.dtype == "bfloat16" and 0.05 or 1e-4,
                                      atol = wanted.dtype == "bfloat16" and 0.05 or 1e-4}))
      local kept = m:quantize "q8_0"
      assert.is_nil(kept["words.weight"])
      wanted = logits(m)
      other = again(m, nil, {replace = true})
      assert.is_true(wanted:equal(logits(other)))
      assert.equal("q8_0", other.words.weight.dtype)
      assert.equal(2, metadata_of()["general.quantization_version"])
    end)
  end

  it("orders biases of queries and keys as it does their rows", function()
    local place <close> = directories.make("smollm3", nil, function(c)
      c.attention_bias, c.no_rope_layers, c.layer_types = true, json.array{1, 1, 1, 1}, json.null
      c.model_type, c.no_rope_layer_interval = "llama", json.null
      c.no_rope_layers, c.use_sliding_window, c.max_window_layers = json.null, json.null, json.null
    end)
    local file = place.path .. "/model.safetensors"
    local tensors, more = assert(heed.load(file)), {}
    heed.manual_seed(4)
    for name, t in next, tensors do
      if name:find "self_attn" then more[name:gsub("weight$", "bias")] = heed.randn(t:size(1)) end
    end
    for name, t in next, more do tensors[name] = t end
    assert(heed.save(file, tensors))
    local m = assert(heed.models.load(place.path))
    assert.is_true(logits(m):equal(logits(again(m))))
    local q = heed.load(path)["blk.1.attn_q.bias"]
    local own = m.body.layers[2].attend.query.bias:detach()
    assert.same({own[1], own[5], own[2]}, {q[1], q[2], q[3]})           -- heads of 8
  end)

  it("gives ids, texts and chats again", function()
    local m = assert(heed.models.load(HERE .. "llama3"))
    local other = again(m)
    -- the smoothed factors of Llama 3's rope are float32 in the file
    assert.is_true(logits(m):allclose(logits(other), {atol = 1e-4, rtol = 1e-4}))
    assert.is_false(other.body.layers[1].attend.rope.interleaved)
    for _, text in ipairs{"The model", "naïve  cafés, 12345!", "", "<|eot_id|>"} do
      for _, parse in ipairs{false, true} do
        local ids = m.tokenizer:encode(text, {parse = parse})
        assert.is_true(ids:equal(other.tokenizer:encode(text, {parse = parse})))
        assert.equal(m.tokenizer:decode(ids), other.tokenizer:decode(ids))
      end
      assert.equal(m:generate(text, {max = 12}), other:generate(text, {max = 12}))
    end
    assert.equal(#m.tokenizer, #other.tokenizer)
    for part, id in next, m.tokenizer:special() do
      assert.equal(id, other.tokenizer:special()[part], part)
    end
    local chat = {{role = "user", content = "what is it"}}
    assert.equal(m:chat(chat, {prompt = true}), other:chat(chat, {prompt = true}))
    assert.equal("llama-bpe", metadata_of()["tokenizer.ggml.pre"])
    assert.same({682, 681}, other.generation.eos_token_id)
  end)

  it("writes a file that was loaded as it was", function()
    local tensors, metadata, types = assert(heed.load(FILE))
    for _, o in ipairs{{}, {mapped = true}} do
      local m = assert(heed.models.load(FILE, o))
      assert.is_true(logits(m):equal(logits(again(m, o, {replace = true}))))
      local own, own_metadata, own_types = assert(heed.load(path))
      assert.same(metadata, own_metadata)
      assert.same(types, own_types)
      for name, t in next, tensors do assert.equal(t:data(), own[name]:data(), name) end
      for name in next, own do assert.is_truthy(tensors[name]) end
    end
  end)

  it("writes a file that was loaded with what has changed since", function()
    local m = assert(heed.models.load(FILE, {dtype = "float32"}))
    m.config.rope_theta = 500.0
    for _, layer in ipairs(m.body.layers) do layer.attend.rope.base = 500.0 end
    local other = again(m)
    assert.is_true(logits(m):equal(logits(other)))
    local metadata = metadata_of()
    assert.equal(500.0, metadata["llama.rope.freq_base"])
    assert.is_nil(metadata["general.file_type"])
    assert.equal("tiny llama with random weights", metadata["general.name"])
    assert.equal("float32", other.words.weight.dtype)
    m.config.rope_theta = 700.0
    assert.matches("cannot say all of this model: body.layers.%d.attend.rope",
                   select(2, heed.models.save(path, m, {replace = true})))
  end)

  it("has a head that a merged adapter parts from the embedding", function()
    local m = assert(heed.models.load(HERE .. "qwen3"))
    m.head.weight = m.words.weight
    local all = nn.lora(m, {rank = 2, targets = {"head"}})
    heed.no_grad(function() all:parameters()[2]:uniform_(-1, 1) end)
    all:merge()
    assert.is_true(logits(m):equal(logits(again(m))))
  end)

  it("is one file that says nothing of parts, whatever it was loaded from", function()
    local tensors, metadata, types = assert(heed.load(FILE))
    local n = 0
    for _ in next, tensors do n = n + 1 end
    local parts = {["split.no"] = 0, ["split.count"] = 1, ["split.tensors.count"] = n}
    for key, value in next, parts do metadata[key] = value end
    assert(heed.save(path, tensors, metadata, types))
    again(assert(heed.models.load(path)), nil, {replace = true})
    for key in next, parts do assert.is_nil(metadata_of()[key], key) end
  end)

  it("has keys of the types that llama.cpp asks for, and its names", function()
    local m = changed("gemma2", CHANGES.gemma2)
    assert.equal(1, again(m).generation.eos_token_id)
    local tensors, metadata, types = assert(heed.load(path))
    local wanted = {
      ["general.architecture"] = "gemma2", ["gemma2.attention.head_count"] = 4,
      ["gemma2.attention.head_count_kv"] = 2, ["gemma2.attention.key_length"] = 12,
      ["gemma2.attention.value_length"] = 12, ["gemma2.rope.dimension_count"] = 12,
      ["gemma2.attention.sliding_window"] = 4, ["gemma2.attn_logit_softcapping"] = 2.0,
      ["gemma2.final_logit_softcapping"] = 3.0, ["gemma2.block_count"] = 2,
      ["gemma2.context_length"] = 64, ["gemma2.embedding_length"] = 32,
      ["gemma2.feed_forward_length"] = 40, ["gemma2.rope.freq_base"] = 10000.0,
      ["gemma2.vocab_size"] = 43, ["tokenizer.ggml.model"] = "none",
      ["tokenizer.ggml.bos_token_id"] = 2, ["tokenizer.ggml.eos_token_id"] = 1,
      ["gemma2.attention.layer_norm_rms_epsilon"] = string.unpack("<f", string.pack("<f", 1e-6)),
    }
    assert.same(wanted, metadata)
    for key, value in next, wanted do
      assert.equal(type(value) == "string" and "string"
                   or math.type(value) == "integer" and "uint32" or "float32", types[key], key)
    end
    local weight = m.body.layers[1].norm1.weight
    assert.is_true(tensors["blk.0.attn_norm.weight"]:equal(weight + 1))
    assert.is_true(tensors["blk.0.post_ffw_norm.weight"]:equal(m.body.layers[1].out_norm2.weight
                                                               + 1))
    assert.is_nil(tensors["output.weight"])
  end)

  it("has lists as float32, which become the type of the matrices again", function()
    local m = assert(heed.models.load(HERE .. "qwen2"))
    again(m)
    local tensors = assert(heed.load(path))
    assert.equal("bfloat16", tensors["token_embd.weight"].dtype)
    assert.equal("float32", tensors["blk.0.attn_q.bias"].dtype)
    assert.equal("float32", tensors["output_norm.weight"].dtype)
    for _, p in ipairs(assert(heed.models.load(path)):parameters()) do
      assert.equal("bfloat16", p.dtype)
    end
    local wide = assert(heed.models.load(path, {dtype = "float32"}))
    assert.is_true(logits(wide):equal(logits(assert(heed.models.load(HERE .. "qwen2",
                                                                     {dtype = "float32"})))))
  end)

  it("writes values of another type, merged adapters, and other types of blocks", function()
    local m = assert(heed.models.load(HERE .. "qwen3"))
    again(m, nil, {dtype = "float16"})
    assert.equal("float16", heed.load(path)["blk.0.attn_q.weight"].dtype)
    local lora = nn.lora(m, {rank = 2, targets = {"query", "down"}})
    for _, p in ipairs(lora:parameters()) do heed.no_grad(p.uniform_, p, -0.1, 0.1) end
    assert.matches("the adapter at '.*' is not merged",
                   message(heed.models.save, path, m, {replace = true}))
    lora:merge()
    assert.is_true(logits(m):allclose(logits(again(m, nil, {replace = true})), {atol = 1e-4}))
    for name, row in next, blocks do
      if row.written and row.elements == 32 then
        m = assert(heed.models.load(HERE .. "qwen3", {quantize = name}))
        assert.is_true(logits(m):equal(logits(again(m, nil, {replace = true}))), name)
      end
    end
    m = assert(heed.models.load(HERE .. "qwen3", {quantize = "q8_0"}))
    local other = again(m, nil, {replace = true, dtype = "float32"})
    assert.equal("float32", other.words.weight.dtype)
    assert.is_true(other.words.weight:equal(m.words.weight:to("float32")))
  end)

  it("refuses ids that GGUF has no room for", function()
    for name, key in pairs{llama3 = "eos_token_id", qwen3 = "bos_token_id"} do
      local m = assert(heed.models.load(HERE .. name))
      for _, id in ipairs{math.maxinteger, -1, 1 << 32, 1.5} do
        m.generation = {[key] = id}
        local why = select(2, heed.models.save(path, m, {replace = true}))
        assert.matches(key .. " of 32 bits expected for a .gguf file, got", why)
      end
    end
  end)

  it("says how words are drawn, and what the file does not say", function()
    local m = assert(heed.models.load(HERE .. "llama3"))
    m.generation.do_sample, m.generation.top_p, m.generation.max_new_tokens = true, 0.75, 9
    m.generation.repetition_penalty, m.generation._note = 1.25, "of transformers"
    local other, left = again(m)
    assert.same({["generation_config.json: max_new_tokens"] = "GGUF has no key for it"}, left)
    assert.equal(0.75, metadata_of()["general.sampling.top_p"])
    local own = other.generation
    assert.is_true(own.do_sample)
    assert.same({0.75, 1.0, 1.25}, {own.top_p, own.temperature, own.repetition_penalty})
    m.generation.eos_token_id = {682, 681, 680, 5}
    assert.matches("at most 3 eos_token_id expected", select(2, heed.models.save(path, m,
                                                                                 {replace = true})))
    m.chats.sources.tool_use = "{{ messages }}"
    m.generation, m.sentences = {}, {}
    assert.same({["modules.json"] = "GGUF has no key for vectors of texts"},
                select(2, again(m, nil, {replace = true})))
    m.sentences = false
    other = again(m, nil, {replace = true})
    assert.same(m.chats.sources, other.chats.sources)
    assert.same({"tool_use"}, metadata_of()["tokenizer.chat_templates"])
    m.tokenizer.left = true
    assert.same({truncation_side = "GGUF has no key for it"},
                select(2, again(m, nil, {replace = true})))
  end)

  it("has keys for draws, ends and a penalty, each where generation_config.json says so", function()
    local m = assert(heed.models.load(HERE .. "llama3"))
    local function keys(own)
      m.generation = own
      local done, left = heed.models.save(path, m, {replace = true})
      assert.is_true(done, left)
      local found, metadata, types = {}, metadata_of()
      for key, value in next, metadata do
        local name = key:match "^general%.sampling%.(.*)" or key:match "%.(eo[tm])_token_id$"
        if name then found[name] = {value, types[key]} end
      end
      local told = {}
      for name, why in next, left or {} do
        assert.matches(name:find "eos" and "^GGUF has the tokenizer's, too$"
                       or "^GGUF has no key for it$", why)
        told[#told + 1] = name:match "^generation_config%.json: (.*)"
      end
      table.sort(told)
      return found, table.concat(told, " ")
    end
    assert.same({{}, ""}, {keys{}})
    assert.same({{}, "temperature top_k"}, {keys{do_sample = false, temperature = 0.5, top_k = 5}})
    assert.same({{temp = {1.0, "float32"}}, ""}, {keys{do_sample = true}})
    assert.same({{temp = {0.5, "float32"}, top_k = {5, "int32"}, min_p = {0.25, "float32"},
                  top_p = {0.75, "float32"}}, ""},
                {keys{do_sample = true, temperature = 0.5, top_k = 5, min_p = 0.25, top_p = 0.75}})
    assert.same({{penalty_repeat = {1.5, "float32"}}, "other"},
                {keys{repetition_penalty = 1.5, _x = 1, use_cache = true, pad_token_id = 3,
                      transformers_version = "5", other = 1}})
    local last = (1 << 32) - 1
    assert.same({{eot = {last, "uint32"}}, "eos_token_id"}, {keys{eos_token_id = last}})
    assert.same({{eot = {0, "uint32"}}, ""}, {keys{eos_token_id = {682, 0}}})
    assert.same({{eot = {0, "uint32"}, eom = {last, "uint32"}}, ""},
                {keys{eos_token_id = {0, 682, last}}})
    assert.same({682, 680}, {metadata_of()["tokenizer.ggml.eos_token_id"],
                             metadata_of()["tokenizer.ggml.bos_token_id"]})
    m.generation = {eos_token_id = {0, 1, 2}}
    assert.matches("at most 3 eos_token_id expected for a .gguf file, got 4",
                   select(2, heed.models.save(path, m, {replace = true})), 1, true)
  end)

  it("takes a tokenizer that heed has trained", function()
    local m = changed("qwen2", function() end)
    m.tokenizer = heed.tokenizer.train{kind = "wordpiece", text = "a b c", vocabulary = 20,
                                       special = {unk = "[UNK]", cls = "[CLS]", sep = "[SEP]"}}
    local other = again(m)
    assert.is_true(m.tokenizer:encode("b a"):equal(other.tokenizer:encode("b a")))
    m.tokenizer = assert(heed.tokenizer.load(TOKENIZERS .. "bpe_gpt2"))
    assert.matches("the model has another tokenizer than",
                   message(heed.models.save, path, m, {replace = true}))
  end)

  it("leaves what is there, unless it may write over it", function()
    local m = assert(heed.models.load(HERE .. "qwen3"))
    directories.write(path, "mine")
    local done, why = heed.models.save(path, m)
    assert.is_nil(done)
    assert.matches("is there; option replace = true writes over it", why)
    assert.equal("mine", directories.read(path))
    assert.is_true(heed.models.save(path, m, {replace = true}))
    local found, reason = heed.models.save("/nowhere/at/all.gguf", m)
    assert.is_nil(found)
    assert.matches("models.save: /nowhere/at/all.gguf", reason)
  end)

  it("refuses by name what keys cannot say", function()
    for _, case in ipairs{
      {"qwen2", function(c) c.use_sliding_window, c.sliding_window, c.layer_types = true, 4,
        json.array{"sliding_attention", "full_attention"} end, "layers.1.attend.mask"},
      {"mistral", function() end, "layers.1.attend.mask is heed.Mask, and false"},
      {"gemma2", function() end, "attend.scale is 0.2236"},
      {"gemma3_bidirectional", function() end, "architecture gemma3 .* body is Encoder"},
      {"smollm3", function(c) c.no_rope_layers = json.array{1, 0, 1, 1} end, "attend.rope"},
      {"qwen3", function(c) c.rope_parameters = {rope_type = "dynamic", factor = 2.0,
        rope_theta = 10000.0} end, "attend.rope turns by other angles"},
      {"qwen3", function(c) c.rope_parameters = {rope_type = "yarn", factor = 2.0, beta_slow = 0.1,
        original_max_position_embeddings = 32, rope_theta = 10000.0} end, "turns by other angles"},
      {"qwen2", function(c) c.rope_interleaved = true end,
       "rope of pairs side by side .* in GGUF for models of type qwen2 %(full_attention%)"},
      {"gpt2", function() end, 'one of gemma2, .* expected as model_type .* got "gpt2"'},
      {"bert_reranker", function() end, 'got "bert"'},
    } do
      local m = changed(case[1], case[2])
      assert.matches(case[3], refusal(m))
    end
    for _, scaling in ipairs{
      {rope_type = "linear", factor = 4.0},
      {rope_type = "yarn", factor = 2.0, original_max_position_embeddings = 32},
    } do
      scaling.rope_theta = 10000.0
      local m = changed("qwen3", function(c) c.rope_parameters = scaling end)
      assert.is_true(logits(m):equal(logits(again(m, nil, {replace = true}))))
    end
    local m = assert(heed.models.load(HERE .. "qwen3"))
    m.logit_cap = 5.0
    os.remove(path)
    assert.matches("logit_cap is 5.0, and false", refusal(m))
    assert.matches("a model that models.load gave expected, got Linear",
                   message(heed.models.save, path, nn.Linear(2, 2)))
    assert.matches("float16 or bfloat16 expected as option dtype, got the string 'q8_0'",
                   message(heed.models.save, path, m, {dtype = "q8_0"}))
    assert.matches("rows in the order of directories expected, got a mapped GGUF file",
                   message(heed.models.save, "x", assert(heed.models.load(FILE, {mapped = true}))))
  end)

  it("refuses tokenizers that have no form there", function()
    local files = {["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
                   ["tokenizer.json"] = "tokenizer.json"}
    local place <close> = directories.make("llama3", files)
    local text = directories.read(place.path .. "/tokenizer.json")
    for _, case in ipairs{
      {'"lstrip":false', '"lstrip":true', "lstrip of"},
      {'"individual_digits"', "", "how it splits texts has no name there"},
    } do
      local given = case[2] ~= "" and text:gsub(case[1], case[2])
                    or text:gsub('%[%^\\\\s\\\\p{L}\\\\p{N}%]%+', '[^\\\\s\\\\p{L}\\\\p{N}]')
      assert.is_true(given ~= text)
      directories.write(place.path .. "/tokenizer.json", given)
      assert.matches(case[3], refusal(assert(heed.models.load(place.path))))
    end
    directories.write(place.path .. "/tokenizer.json", "{}")
    local m = assert(heed.models.load(place.path))
    assert.matches("the tokenizer of .* cannot be read", refusal(m))
    directories.write(place.path .. "/tokenizer.json", text)
    m = assert(heed.models.load(place.path))
    assert(os.remove(place.path .. "/tokenizer.json"))
    assert.matches("has the model's tokenizer no more", refusal(m))
  end)
end)


describe("models.save into a directory", function()
  it("writes the values of blocks where a type is given", function()
    local m = assert(heed.models.load(HERE .. "qwen2", {quantize = "q8_0"}))
    local place <close> = directories.free()
    assert.matches("got blocks of type q8_0 as 'words.weight', which no other program reads in a "
                   .. "directory; a path that ends in .gguf takes them",
                   message(heed.models.save, place.path, m))
    assert(heed.models.save(place.path, m, {dtype = "bfloat16"}))
    local other = assert(heed.models.load(place.path))
    assert.equal("bfloat16", other.words.weight.dtype)
    assert.is_true(other.words.weight:equal(m.words.weight:to("bfloat16")))
    assert(heed.models.save(place.path, m, {dtype = "float32"}))
    other = assert(heed.models.load(place.path))
    assert.equal("float32", other.config.dtype)
    assert.is_true(other.words.weight:equal(m.words.weight:to("float32")))
  end)
end)


describe("a model in a GGUF file", function()
  it("becomes a directory", function()
    local m = assert(heed.models.load(FILE, {dtype = "float32"}))
    local place <close> = directories.free()
    m.chats.sources.default = "{{ bos_token }}{{ messages[0].content }}"
    assert(heed.models.save(place.path, m))
    local other = assert(heed.models.load(place.path))
    assert.is_true(logits(m):equal(logits(other)))
    assert.equal("float32", other.config.dtype)
    assert.same(m.tokenizer:special(), other.tokenizer:special())
    for _, text in ipairs{"Attention is all", " a  b", ""} do
      assert.is_true(m.tokenizer:encode(text):equal(other.tokenizer:encode(text)))
      local chat = {{role = "user", content = text}}
      assert.equal(m:chat(chat), other:chat(chat))
    end
    assert.same(m.generation, other.generation)
    for name, t in next, m:published() do
      assert.is_true(t:equal(other:published()[name]), name)
    end
    m = assert(heed.models.load(FILE))
    local own = json.decode(directories.read(place.path .. "/tokenizer_config.json"))
    assert.same({"PreTrainedTokenizerFast", false},
                {own.tokenizer_class, own.clean_up_tokenization_spaces})
    assert.matches("got blocks of type q8_0", message(heed.models.save, place.path, m))
    assert(heed.models.save(place.path, m, {dtype = "float32"}))
    m.tokenizer = other.tokenizer
    assert.matches("has another tokenizer than its",
                   message(heed.models.save, place.path, m, {dtype = "float32"}))
    assert.matches("has another tokenizer than its file",
                   message(heed.models.save, path, m, {replace = true}))
  end)

  it("becomes a directory with all its templates, by name", function()
    for _, names in ipairs{{}, {"default"}, {"default", "rag", "tool_use", "a", "B"}} do
      local m = assert(heed.models.load(FILE, {dtype = "float32"}))
      local place <close> = directories.free()
      for name in pairs(m.chats.sources) do m.chats.sources[name] = nil end
      for _, name in ipairs(names) do m.chats.sources[name] = name .. "{{ eos_token }}" end
      assert(heed.models.save(place.path, m))
      local list = json.decode(directories.read(place.path .. "/tokenizer_config.json"))
                   .chat_template
      if #names < 2 then assert.equal(m.chats.sources.default, list)
      else
        local found = {}
        for i, one in ipairs(list) do found[i] = one.name end
        assert.same({"B", "a", "default", "rag", "tool_use"}, found)
      end
      assert.same(m.chats.sources, assert(heed.models.load(place.path)).chats.sources)
    end
  end)

  it("is refused, not raised, where metadata or tensors are odd", function()
    local tensors, metadata, types = assert(heed.load(FILE))
    local function refused(change, o)
      local t, m, k = {}, {}, {}
      for name, value in next, tensors do t[name] = value end
      for name, value in next, metadata do m[name], k[name] = value, types[name] end
      change(t, m, k)
      assert(heed.save(path, t, m, k))
      local good, found, why = pcall(heed.models.load, path, o)
      assert.is_true(good, found)
      return found, why
    end
    for _, n in ipairs{0, -8, 1.5, "8"} do
      assert.matches("a count expected as features of a head", select(2, refused(function(_, m, k)
        m["llama.attention.key_length"], k["llama.attention.key_length"] = n, nil
      end)))
    end
    assert.matches('"llama.attention.layer_norm_rms_epsilon": a finite number above 0 expected',
                   select(2, refused(function(_, m)
      m["llama.attention.layer_norm_rms_epsilon"] = math.huge
    end)))
    for _, name in ipairs{"blk.0.attn_q.weight", "blk.0.attn_norm.weight", "token_embd.weight"} do
      for _, t in ipairs{heed.ones(1), heed.tensor{1, 2, 3}, heed.tensor(1.5), heed.ones(2, 2, 2),
                         heed.quantize(heed.ones(64), "q8_0"), heed.ones(32):double()} do
        for _, o in ipairs{{}, {mapped = true}, {dtype = "float32"}} do
          assert.is_truthy(select(2, refused(function(all) all[name] = t end, o))
                           or t:numel() == 32)
        end
      end
    end
    local _, why = refused(function(all)
      all["output.weight"] = heed.full({899, 32}, 1 / 0)
    end, {quantize = "q8_0"})
    assert.matches("head.weight: finite values of at most 65504 expected for q8_0", why)
    local m = refused(function(_, own)
      own["tokenizer.ggml.model"], own["tokenizer.ggml.merges"] = "gpt2", {"\xff a"}
    end)
    assert.matches("tokenizer.ggml.merges: UTF%-8 expected at 1",
                   message(function() return m.tokenizer.encode end))
  end)

  it("is refused where two tensors would have one name", function()
    local tensors, metadata, types = assert(heed.load(FILE))
    for name, other in next, {["blk.00.attn_norm.weight"] = "blk.0.attn_norm.weight",
                              ["model.norm.weight"] = "output_norm.weight"} do
      local both = {[name] = tensors[other] * 2}
      for key, t in next, tensors do both[key] = t end
      assert.is_true(heed.save(path, both, metadata, types))
      local found, why = heed.models.load(path)
      assert.is_nil(found)
      assert.matches("stands there twice", why, 1, true)
    end
  end)

  it("leaves no second copy of rows that it orders anew", function()
    local read, seen, released = raw.tensor, {}, 0
    raw.tensor = function(...)
      seen[#seen + 1] = read(...)
      return seen[#seen]
    end
    local done, m = pcall(heed.models.load, FILE, {device = "cpu"})
    raw.tensor = read
    assert(done and m, m)
    for _, t in ipairs(seen) do
      if not pcall(t.size, t) then released = released + 1 end
    end
    assert.equal(2 * 2, released)                  -- queries and keys of two layers
  end)

  it("takes adapters of directories", function()
    local m = assert(heed.models.load(HERE .. "smollm3"))
    local base = again(m, nil, {replace = true})
    heed.manual_seed(1)
    local lora = nn.lora(m, {rank = 2, targets = {"query", "key"}})
    for _, p in ipairs(lora:parameters()) do heed.no_grad(p.uniform_, p, -0.3, 0.3) end
    local place <close> = directories.free()
    assert(heed.models.save_adapters(place.path, m))
    assert(heed.models.load_adapters(place.path, base))
    assert.is_true(logits(m):equal(logits(base)))
  end)

  it("has no vectors and classes of texts, whose ids have no limit", function()
    local m, text = assert(heed.models.load(FILE)), ("a b "):rep(600)
    assert.same(m.tokenizer:encode(text, {parse = true}):totable(), (m:ids(text)))
    assert.matches("a directory with modules.json expected", message(m.embed, m, "a"))
    for _, name in ipairs{"score", "classify"} do
      assert.matches(name .. ": a %l+ .*expected, whose class", message(m[name], m, "a", "b"))
    end
  end)

  it("has the scale of its size", function()
    for _, case in ipairs{{"gemma2", 2, 12}, {"gemma2", 46, 8}, {"gemma3", 4, 12},
                          {"gemma3", 62, 8}} do
      local family, layers, wanted = table.unpack(case)
      local from = family == "gemma3" and "gemma3_bidirectional" or family
      again(changed(from, CHANGES[from]), nil, {replace = true})
      local tensors, metadata, types = assert(heed.load(path))
      metadata[family .. ".block_count"] = layers
      local more = {}
      for name, t in next, tensors do
        for i = 2, name:find "^blk%.0%." and layers > 4 and layers - 1 or 1 do
          more[("blk.%d.%s"):format(i, name:sub(7))] = t
        end
      end
      for name, t in next, more do tensors[name] = t end
      assert(heed.save(path, tensors, metadata, types))
      local other = assert(heed.models.load(path))
      assert.equal(wanted ^ -0.5, other.body.layers[1].attend.scale)
    end
  end)
end)
