-- Models from directories: tiny ones that transformers saved with random weights and ran (see
-- spec/golden/models/trim.lua), and directories that are refused.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"

local HERE <const> = directories.HERE
local TOLERANCE <const> = 2e-5       -- |a - b| <= TOLERANCE * |b| + TOLERANCE

local directory, read, write = directories.make, directories.read, directories.write


-- How often a tolerance differences are, where rows are tokens, not padding.
local function apart(got, wanted, keys)
  assert.equal(tostring(wanted.shape), tostring(got.shape))
  local far = ((got - wanted):abs() - wanted:abs() * TOLERANCE) / TOLERANCE
  if keys then far = far:masked_fill(~keys:unsqueeze(3), 0) end
  return far:max():item()
end


local function close(got, wanted, keys, what)
  assert.is_true(got:isfinite():all(), what)
  local far = apart(got, wanted, keys)
  assert.is_true(far < 1, ("%s: %.3g tolerances apart"):format(what, far))
end


-- Loads a model in float32; `file` is its configuration.
local function load(name, file)
  local files = {["config.json"] = file or "config.json",
                 ["model.safetensors"] = "model.safetensors"}
  local place <close> = directory(name, files)
  return assert(heed.models.load(place.path, {dtype = "float32"}))
end


local function expectation(name)
  return assert(heed.load(HERE .. name .. "/expect.safetensors"))
end


-- The tokens of padded rows, each as a list.
local function rows_of(ids, keys)
  local rows = {}
  for b = 1, #ids do rows[b] = ids[b][keys[b]]:totable() end
  return rows
end


-- Rows of ids, padded on the left, and where tokens are.
local function left_padded(rows, T)
  local ids = heed.ones({#rows, T}, {dtype = "int64"})
  local keys = heed.zeros({#rows, T}, {dtype = "bool"})
  for b, row in ipairs(rows) do
    ids[{b, {T - #row + 1, T}}] = heed.tensor(row, {dtype = "int64"})
    keys[{b, {T - #row + 1, T}}] = true
  end
  return ids, keys
end


-- Features and logits of batches as they were, under names that begin with a prefix.
local function check_batch(m, e, prefix)
  local ids, keys = e[prefix .. "input_ids"] + 1, e[prefix .. "attention_mask"]:ne(0)
  local kinds = e[prefix .. "token_type_ids"]
  kinds = kinds and kinds + 1
  local hidden = m:hidden(ids, {keys = keys, types = kinds})
  local wanted, logits = e[prefix .. "last_hidden_state"], e[prefix .. "logits"]
  if wanted then close(hidden, wanted, keys, prefix .. "features") end
  close((m:hidden(ids, {lengths = keys:sum(2), types = kinds})), hidden, keys, "with lengths")
  if logits then
    local rows = logits:dim() == 3 and keys or nil
    close(m(ids, {keys = keys, types = kinds}), logits, rows, prefix .. "logits")
    close(m(ids, {lengths = keys:sum(2), types = kinds}), logits, rows, "logits with lengths")
  end
  return ids, keys, hidden
end


-- A batch that is padded on the left gives what the rows give alone.
local function check_left(m, rows, hidden)
  local T = 0
  for _, row in ipairs(rows) do T = math.max(T, #row) end
  local ids, keys = left_padded(rows, T)
  local left = m:hidden(ids, {keys = keys})
  for b, row in ipairs(rows) do
    local wanted = hidden[{b, {1, #row}}]
    close(left[{b, {T - #row + 1, T}}], wanted, nil, "on the left")
    close((m:hidden(heed.tensor(row, {dtype = "int64"}))), wanted, nil, "alone")
  end
end


local DECODERS <const> = {
  "gemma2", "gpt2", "gpt_neox", "granite", "mistral", "olmo2", "phi", "phi3_partial", "qwen2",
  "qwen3", "smollm3",
}
local NEW <const> = {gpt2 = true}                     -- keys have one spelling
local BODIES <const> = {"gemma3_bidirectional"}
local ENCODERS <const> = {
  "albert", "bert_reranker", "distilbert", "electra", "modernbert_classifier", "mpnet",
  "nomic_bert", "roberta",
}
local OLD <const> = {modernbert_classifier = true, nomic_bert = true}    -- have older keys, too


describe("a model from a directory", function()
  for _, name in ipairs(DECODERS) do
    for _, file in ipairs{"config.json", not NEW[name] and "config_v4.json" or nil} do
      it(("computes what transformers computes: %s, %s"):format(name, file), function()
        heed.no_grad(function()
          local m, e = load(name, file), expectation(name)
          local ids, keys, hidden = check_batch(m, e, "")
          check_left(m, rows_of(ids, keys), hidden)
          if e["long.input_ids"] then check_batch(m, e, "long.") end
        end)
      end)
    end

    it("gives the ids of transformers: " .. name, function()
      local m, e = load(name), expectation(name)
      for _, kind in ipairs{"greedy", "greedy_short", "greedy_long"} do
        local prompts = kind == "greedy" and "prompts" or kind:match("_(.*)") .. "_prompts"
        if e[kind] then
          local rows = rows_of(e[prompts] + 1, e[prompts .. "_mask"]:ne(0))
          local new = heed.generate(m, rows, {max = e[kind]:size(2), check = true})
          for b, ids in ipairs(new) do
            assert.same((e[kind][b] + 1):totable(), ids:totable(), kind .. " " .. b)
          end
        end
      end
    end)

    it("gives the same in steps with a cache: " .. name, function()
      heed.no_grad(function()
        local m, e = load(name), expectation(name)
        local row = rows_of(e.input_ids + 1, e.attention_mask:ne(0))[1]
        local ids, cache, parts = heed.tensor({row}, {dtype = "int64"}), nn.Cache(), {}
        for _, part in ipairs{{1, 3}, {4, 4}, {5, #row}} do
          parts[#parts + 1] = m:hidden(ids[{{}, part}], {cache = cache})
        end
        close(heed.cat(parts, 2), m:hidden(ids), nil, "in steps")
      end)
    end)
  end

  for _, name in ipairs(BODIES) do
    for _, file in ipairs{"config.json", "config_v4.json"} do
      it(("computes what transformers computes: %s, %s"):format(name, file), function()
        heed.no_grad(function()
          local m, e = load(name, file), expectation(name)
          local ids, keys, hidden = check_batch(m, e, "")
          check_left(m, rows_of(ids, keys), hidden)
          assert.is_true(m(ids, {keys = keys}):equal(hidden))
        end)
      end)
    end
  end

  for _, name in ipairs(ENCODERS) do
    for _, file in ipairs{"config.json", OLD[name] and "config_v4.json"} do
      it(("computes what transformers computes: %s, %s"):format(name, file), function()
        heed.no_grad(function()
          local m, e = load(name, file), expectation(name)
          local ids, keys, hidden = check_batch(m, e, "")
          if not e.token_type_ids then check_left(m, rows_of(ids, keys), hidden) end
          local pooled = e.pooler_output
          if pooled then close(m.pooler(hidden:select(2, 1)):tanh(), pooled, nil, "pooled") end
        end)
      end)
    end
  end

  it("counts padding as transformers does where it is told positions", function()
    heed.no_grad(function()
      local m, row = load "electra", {5, 9, 7}
      local ids, keys = left_padded({row}, 5)
      local at = heed.arange(0, 4)
      local far = m:hidden(ids, {keys = keys, positions = at})[{1, {3, 5}}]
      close(far, m:hidden(heed.tensor{row}, {positions = at[{{3, 5}}]})[1], nil, "from 2 on")
      assert.is_true(apart(far, m:hidden(heed.tensor{row})[1]) > 10)
    end)
  end)

  it("classifies by the first token that is there", function()
    heed.no_grad(function()
      local m, row = load "distilbert", {5, 9, 7}
      local ids, keys = left_padded({row}, 5)
      close(m(ids, {keys = keys}), m(heed.tensor{row}), nil, "classes")
    end)
  end)

  it("has the types of its file unless asked otherwise, and its configuration", function()
    local m = assert(heed.models.load(HERE .. "qwen2"))
    assert.equal("bfloat16", m.words.weight.dtype)
    assert.equal(m.words.weight, m.head.weight)
    assert.equal("qwen2", m.config.model_type)
    assert.is_false(m.training)
    assert.equal("bfloat16", m(heed.tensor{{1, 2}}).dtype)
    assert.equal("float64", heed.models.load(HERE .. "qwen2", {dtype = "float64"})
                 .words.weight.dtype)
  end)

  it("gives the weights of attention, and can be trained", function()
    local m = load "qwen2"
    local logits, weights = m(heed.tensor{{1, 2, 3}}, {weights = true})
    assert.equal(2, #weights)
    assert.equal("(1, 4, 3, 3)", tostring(weights[1].shape))
    logits:sum():backward()
    for path, p in m:named_parameters() do assert.is_truthy(p.grad, path) end
  end)

  it("may have its parts one after the other where they could be side by side", function()
    heed.no_grad(function()
      local place <close> = directory("gpt_neox", nil, function(c)
        c.use_parallel_residual = false
      end)
      local m = assert(heed.models.load(place.path))
      local x = heed.randn(1, 3, 32)
      local layer = m.body.layers[1]
      local y = x + layer.attend(layer.norm1(x), {causal = true})
      close((layer(x)), y + layer.mlp(layer.norm2(y)), nil, "layer")
    end)
  end)

  it("draws no random numbers, and leaves others to draw theirs", function()
    heed.manual_seed(1)
    local wanted = heed.randn(3)
    heed.manual_seed(1)
    load "qwen2"
    assert.is_true(wanted:equal(heed.randn(3)))
    assert.is_true(nn.Linear(3, 3).weight:abs():max():item() > 0)
  end)
end)


-- The refusal of a model whose directory was changed by f(path).
local function refusal(name, f, change)
  local place <close> = directory(name, nil, change)
  if f then f(place.path) end
  local m, why = heed.models.load(place.path)
  assert.is_nil(m)
  assert.equal("models.load: " .. place.path, why:sub(1, 13 + #place.path))
  return (why:sub(14 + #place.path):gsub("^:? ?/?", ""))
end


-- A change that sets keys.
local function with(keys)
  return function(c)
    for name, value in pairs(keys) do c[name] = value end
  end
end


local function save_changed(f)
  return function(path)
    local file = path .. "/model.safetensors"
    local tensors = assert(heed.load(file))
    f(tensors)
    assert(heed.save(file, tensors))
  end
end


describe("a model that reads one sequence and writes another", function()
  local function starts(m, n)
    local list = {}
    for b = 1, n do list[b] = {m.config.decoder_start_token_id + 1} end
    return list
  end

  for _, name in ipairs{"bart", "t5"} do
    it("computes what transformers computes: " .. name, function()
      heed.no_grad(function()
        local m, e = load(name), expectation(name)
        local source, target = e.input_ids + 1, e.decoder_input_ids + 1
        local there, written = e.attention_mask:ne(0), e.decoder_attention_mask:ne(0)
        close((m:encode(source, {keys = there})), e.encoder_last_hidden_state, there, "encoder")
        local o = {context_keys = there, keys = written}
        close((m:hidden(source, target, o)), e.last_hidden_state, written, "features")
        close((m(source, target, o)), e.logits, written, "logits")
        o = {context_lengths = there:sum(2), lengths = written:sum(2)}
        close((m(source, target, o)), e.logits, written, "with lengths")
        local rows = rows_of(source, there)
        local ids, keys = left_padded(rows, source:size(2))
        o = {context_keys = keys, keys = written}
        close((m(ids, target, o)), e.logits, written, "on the left")
      end)
    end)

    it("gives the ids of transformers: " .. name, function()
      local m, e = load(name), expectation(name)
      local there = e.prompts_mask:ne(0)
      local context = heed.no_grad(m.encode, m, e.prompts + 1, {keys = there})
      local new = heed.generate(function(...) return (m:decode(...)) end, starts(m, #there), {
        context = context, context_lengths = there:sum(2), max = e.greedy:size(2), check = true,
      })
      for b, ids in ipairs(new) do assert.same((e.greedy[b] + 1):totable(), ids:totable()) end
    end)
  end

  it("may have a gate, logits of its own, and features that are not scaled: T5 1.1", function()
    local place <close> = directory("t5", nil, function(c)
      c.feed_forward_proj, c.tie_word_embeddings, c.scale_decoder_outputs = "gated-gelu", false, nil
    end)
    local file = place.path .. "/model.safetensors"
    local tensors = assert(heed.load(file))
    for name, t in pairs(assert(heed.load(file))) do
      if name:find("%.wi%.") then
        tensors[name] = nil
        tensors[(name:gsub("wi", "wi_0"))], tensors[(name:gsub("wi", "wi_1"))] = t, t * 2
      end
    end
    tensors["lm_head.weight"] = tensors["shared.weight"] * 3
    assert(heed.save(file, tensors))
    local m = assert(heed.models.load(place.path))
    heed.no_grad(function()
      local mlp, x = m.target.body.layers[2].mlp, heed.randn(3, 32)
      local gate = x:matmul(tensors["decoder.block.1.layer.2.DenseReluDense.wi_0.weight"].T)
      local down = tensors["decoder.block.1.layer.2.DenseReluDense.wo.weight"].T
      close(mlp(x), (gate:gelu("tanh") * gate * 2):matmul(down), nil, "gate")
      local ids = heed.tensor{{3, 4}}
      close((m(ids, ids)), m:hidden(ids, ids):matmul(tensors["lm_head.weight"].T), nil, "logits")
    end)
  end)

  it("scales features of ids where the file says so: BART", function()
    local place <close> = directory("bart", nil, function(c) c.scale_embedding = true end)
    local m, one = assert(heed.models.load(place.path)), load "bart"
    heed.no_grad(function()
      one.words.weight:mul_(32 ^ 0.5)
      close((m:encode(heed.tensor{{3, 4}})), one:encode(heed.tensor{{3, 4}}), nil, "encoder")
    end)
  end)

  it("refuses what it does not take", function()
    local m = load "electra"
    assert.matches("option cache: an encoder reads whole texts",
                   message(m, heed.tensor{{1}}, {cache = nn.Cache()}))
    m = load "t5"
    assert.matches("encode: a table of options expected, got 3",
                   message(m.encode, m, heed.tensor{1}, 3))
    assert.matches('"feed_forward_proj": the activation "swish%-relu" is not known',
                   (function()
      local place <close> = directory("t5", nil, function(c) c.feed_forward_proj = "swish-relu" end)
      return select(2, heed.models.load(place.path))
    end)())
  end)
end)


describe("a model of pictures", function()
  it("computes what transformers computes: vit", function()
    heed.no_grad(function()
      local m, e = load "vit", expectation "vit"
      close(m:hidden(e.pixel_values), e.last_hidden_state, nil, "features")
      close(m(e.pixel_values), e.logits, nil, "classes")
    end)
  end)

  for _, name in ipairs{"clip", "siglip"} do
    it("computes what transformers computes: " .. name, function()
      heed.no_grad(function()
        local m, e = load(name), expectation(name)
        local there = e.attention_mask
        local o = {keys = there and there:ne(0) or nil}
        close(m:texts(e.input_ids + 1, o), e.text_embeds, nil, "texts")
        close(m:pictures(e.pixel_values), e.image_embeds, nil, "pictures")
        close(m(e.input_ids + 1, e.pixel_values, o), e.logits_per_text, nil, "logits")
      end)
    end)
  end

  it("is refused where parts do not fit", function()
    local function why(name, change)
      local place <close> = directory(name, nil, change)
      return select(2, heed.models.load(place.path))
    end
    assert.matches('"image_size": a multiple of 4 expected, got 15',
                   why("vit", function(c) c.image_size = 15 end))
    assert.matches('"text_config": an object expected, got none',
                   why("clip", function(c) c.text_config = nil end))
    assert.matches('the key "window", 3, is not known',
                   why("siglip", function(c) c.vision_config.window = 3 end))
    assert.matches('"vision_use_head": only true is known here, got false',
                   why("siglip", function(c) c.vision_config.vision_use_head = false end))
  end)
end)


describe("a directory is refused", function()
  it("that is not there, or lacks a file", function()
    local m, why = heed.models.load("spec")
    assert.is_nil(m)
    assert.matches("^models.load: spec/config.json: cannot open: ", why)
    assert.equal("model.safetensors: there is no such file", refusal("qwen2", function(path)
      assert(os.remove(path .. "/model.safetensors"))
    end))
    assert.matches("^pytorch_model.bin is a pickle of Python.*in Python, model.save_pretrained",
                   refusal("qwen2", function(path)
      assert(os.rename(path .. "/model.safetensors", path .. "/pytorch_model.bin"))
    end))
  end)

  it("whose configuration is none", function()
    local function text(s) return function(path) write(path .. "/config.json", s) end end
    assert.equal("config.json: an object expected", refusal("qwen2", text "[1]"))
    assert.matches("^config.json: expected", refusal("qwen2", text "{"))
    assert.matches('"model_type" expected, a string', refusal("qwen2", text "{}"))
  end)

  it("of a family that heed lacks, by what it has", function()
    assert.equal('config.json: "model_type": "mixtral" has a mixture of experts, which heed lacks',
                 refusal("qwen2", nil, with{model_type = "mixtral"}))
    assert.matches('"model_type": one of .*, granite, llama, .* expected, got "bert2"',
                   refusal("qwen2", nil, with{model_type = "bert2"}))
    for _, row in ipairs{{"falcon_h1", "a state space"}, {"gemma3n", "inputs of their own"},
                         {"lfm2", "short convolutions"}} do
      assert.matches(row[2], refusal("qwen2", nil, with{model_type = row[1]}), 1, true)
    end
  end)

  it("with a key that nobody knows, or a value", function()
    local function why(keys, name) return refusal(name or "qwen2", nil, with(keys)) end
    assert.equal('config.json: the key "num_experts", 8, is not known in models of type "qwen2", '
                 .. "and may change what they compute", why{num_experts = 8})
    assert.matches('"hidden_size": a whole number from 1 to 16777216 expected, got 0',
                   why{hidden_size = 0})
    assert.matches('"hidden_size" expected, a whole number from 1 to 16777216, got none',
                   why{hidden_size = json.null})
    assert.matches('"rms_norm_eps": a finite number above 0 expected, got "x"',
                   why{rms_norm_eps = "x"})
    assert.matches('"use_sliding_window": true or false expected', why{use_sliding_window = 1})
    assert.matches('"tie_word_embeddings": true or false', why{tie_word_embeddings = "yes"})
    assert.matches('"hidden_act": the activation "xielu" is not known', why{hidden_act = "xielu"})
    assert.matches("features of 5 heads expected, got 32 in all", why{num_attention_heads = 5})
    assert.matches("heads as a multiple of kv_heads expected", why{num_key_value_heads = 3})
    assert.matches('"layer_types": a list of 2 expected', why{layer_types = json.array{"a"}})
    assert.matches('"layer_types": only full_attention and sliding_attention are known, got ssm',
                   why{layer_types = json.array{"full_attention", "ssm"}})
    assert.matches('"layer_types": a sliding_window expected',
                   why{layer_types = json.array{"full_attention", "sliding_attention"}})
    assert.matches('"architectures" expected', why{architectures = json.null})
    assert.matches('"architectures": one of ...ForCausalLM, ...LMHeadModel, ...Model expected, got '
                   .. '"QwenForX"', why{architectures = json.array{"QwenForX"}})
    assert.matches('"prenorm": only false is known here, got true',
                   refusal("nomic_bert", function(path)
      local c = assert(json.decode(read(HERE .. "nomic_bert/config_v4.json")))
      c.prenorm = true
      write(path .. "/config.json", json.encode(c))
    end))
    assert.matches('"classifier_pooling": cls or mean expected, got max',
                   why({classifier_pooling = "max"}, "modernbert_classifier"))
    assert.matches('"num_hidden_groups": only 1 is known here, got 2',
                   why({num_hidden_groups = 2}, "albert"))
    assert.matches('"pad_token_id": an id from 0 .*got %-1', why({pad_token_id = -1}, "roberta"))
    assert.matches('"use_bidirectional_attention": only false is known here, got true',
                   why({use_bidirectional_attention = true}, "gemma2"))
    assert.matches('"scale_attn_by_inverse_layer_idx": only false is known here, got true',
                   why({scale_attn_by_inverse_layer_idx = true}, "gpt2"))
    assert.matches('"qk_layernorm": only false is known here', why({qk_layernorm = true}, "phi"))
  end)

  it("with another kind of rope", function()
    local function why(o) return refusal("qwen2", nil, with{rope_parameters = o}) end
    assert.matches("rope: unknown rope_type the string 'axial' in scaling",
                   why{rope_type = "axial"})
    assert.matches("rope: scaling: unknown option 'mrope_section'",
                   why{rope_type = "default", mrope_section = json.array{1, 2}})
    assert.matches('"rope_parameters": those of one kind of layers expected',
                   why{full_attention = {rope_type = "default"}})
    assert.matches("rope: a finite number above 0 expected as base", why{rope_theta = -1})
  end)

  it("with sizes that no memory has, or no numbers", function()
    assert.matches("config.json: nn.Decoder: memory limit of .*, a stack of 2 layers needs",
                   refusal("qwen2", nil, with{vocab_size = 1 << 24, hidden_size = 1 << 24,
                                              num_attention_heads = 1 << 18}))
    assert.matches("%(16777216, 32%)", refusal("qwen2", nil, with{vocab_size = 1 << 24}))
    assert.matches("config.json: rope of heads of at most 65536 features expected, got 4194304",
                   refusal("qwen2", nil, with{hidden_size = 1 << 24}))
    assert.matches("rope: a finite number above 0 expected as original_max_position_embeddings",
                   refusal("phi3_partial", nil, with{original_max_position_embeddings =
                                                     json.array{1}}))
  end)

  it("whose tensors are missing, too many, or of other shapes, by their names", function()
    assert.equal('the tensor "model.layers.1.mlp.up_proj.weight" is missing',
                 refusal("qwen2", save_changed(function(t)
      t["model.layers.1.mlp.up_proj.weight"] = nil
    end)))
    assert.equal('the file has tensors that this model has no place for: "model.a", and 1 more',
                 refusal("qwen2", save_changed(function(t)
      t["model.a"], t["model.b"] = heed.ones(1), heed.ones(1)
    end)))
    assert.matches('"model.norm.weight" has shape %(31%), and %(32%) is expected',
                   refusal("qwen2", save_changed(function(t)
      t["model.norm.weight"] = heed.ones(31)
    end)))
    assert.matches('self_attn.qkv_proj.weight" has shape %(64, 31%), and %(64, 32%) is expected',
                   refusal("phi3_partial", save_changed(function(t)
      t["model.layers.0.self_attn.qkv_proj.weight"] = heed.ones(64, 31)
    end)))
    assert.matches('"lm_head.weight" is missing', refusal("mistral", save_changed(function(t)
      t["lm_head.weight"] = nil
    end)))
    assert.matches('no place for: "model.layers.2.input_layernorm.weight"',
                   refusal("smollm3", nil, function(c)
      c.num_hidden_layers, c.no_rope_layers, c.layer_types = 2, json.null, json.null
    end))
  end)

  it("whose file is damaged", function()
    assert.matches("^model.safetensors: .*checksum differs", refusal("qwen2", function(path)
      local text = read(path .. "/model.safetensors")
      write(path .. "/model.safetensors", text:sub(1, -2) .. "x")
    end))
  end)
end)


-- A directory of shards: tensors by file, and an index that f changes.
local function shards(f)
  local place = directory("qwen2")
  local tensors = assert(heed.load(place.path .. "/model.safetensors"))
  assert(os.remove(place.path .. "/model.safetensors"))
  local files, map = {a = {}, b = {}}, {}
  for name, t in pairs(tensors) do
    local file = name:find("layers.1", 1, true) and "b" or "a"
    files[file][name], map[name] = t, file .. ".safetensors"
  end
  if f then f(files, map) end
  for file, list in pairs(files) do
    assert(heed.save(place.path .. "/" .. file .. ".safetensors", list))
  end
  write(place.path .. "/model.safetensors.index.json", json.encode{weight_map = map})
  return place
end


describe("a model in several files", function()
  it("is that of one file", function()
    local place <close> = shards()
    local m, one = assert(heed.models.load(place.path)), assert(heed.models.load(HERE .. "qwen2"))
    for name, t in pairs(one:state()) do assert.is_true(t:equal(m:state()[name]), name) end
  end)

  it("is refused where index and files disagree", function()
    local function why(f)
      local place <close> = shards(f)
      local m, text = heed.models.load(place.path)
      assert.is_nil(m)
      return text
    end
    local NORM <const> = "model.norm.weight"
    for _, file in ipairs{"../a.safetensors", "/etc/a.safetensors", "a.bin", "x/a.safetensors",
                          3} do
      assert.matches("the name of a safetensors file beside it expected for \"model.norm.weight\"",
                     why(function(_, map) map[NORM] = file end), 1, true)
    end
    assert.matches("c.safetensors: the index names this file, and it is not there",
                   why(function(files, map)
      files.a[NORM], map[NORM] = nil, "c.safetensors"
    end), 1, true)
    assert.matches('b.safetensors: the index does not say that tensor "x" stands here',
                   why(function(files) files.b.x = heed.ones(1) end), 1, true)
    assert.matches('b.safetensors: the tensor "model.norm.weight" stands in another file, too',
                   why(function(files) files.b[NORM] = heed.ones(1) end), 1, true)
    assert.matches('the tensor "model.norm.weight" expected, as the index says',
                   why(function(files) files.a[NORM] = nil end), 1, true)
  end)
end)


describe("models.load", function()
  it("refuses wrong calls", function()
    assert.matches("models.load: a path expected, got an empty table",
                   message(heed.models.load, {}))
    assert.matches("models.load: a path expected", message(heed.models.load, ""))
    assert.matches("unknown option 'type'", message(heed.models.load, "x", {type = "float32"}))
    assert.matches("float16 or bfloat16 expected as option dtype, got the string 'int64'",
                   message(heed.models.load, "x", {dtype = "int64"}))
    assert.matches("at most 2 arguments", message(heed.models.load, "x", {}, 3))
  end)

  it("leaves models that refuse", function()
    local m = load "qwen2"
    assert.matches("a table of options expected, got 3", message(m.hidden, m, heed.tensor{1}, 3))
    assert.matches("unknown option 'length'", message(m, heed.tensor{{1}}, {length = 1}))
    m = load "mpnet"
    assert.matches("option types: this model has one kind of text",
                   message(m, heed.tensor{{1}}, {types = heed.tensor{{1}}}))
    assert.matches("a table of options expected, got 3", message(m, heed.tensor{{1}}, 3))
  end)
end)
