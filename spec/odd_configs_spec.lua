-- heed.models.load of configurations with numbers that no layer takes: refused by name, as found by
-- spec/fuzz/directories.lua.

local close = require "spec.support.close"
local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"


-- A model whose configuration, of another file if that is named, has these values, those of a table
-- in the section of that name; or nil, and why it is refused.
local function load(name, values, file)
  local files = {["config.json"] = file or "config.json",
                 ["model.safetensors"] = "model.safetensors"}
  local place <close> = directories.make(name, files, function(c)
    for key, value in pairs(values) do
      if type(c[key]) == "table" and type(value) == "table" then
        for inner, v in pairs(value) do c[key][inner] = v end
      else
        c[key] = value
      end
    end
  end)
  return heed.models.load(place.path)
end

local function why(name, values, file)
  local model, message = load(name, values, file)
  assert.is_nil(model)
  return message
end


-- Keys of which one value is known, with that value; of old files with keys of their own, too.
local ONLY <const> = {
  {"albert", {num_hidden_groups = 1, inner_group_num = 1}},
  {"bart", {normalize_before = false, add_final_layer_norm = false, normalize_embedding = true,
            add_bias_logits = false, static_position_embeddings = false}},
  {"bert_reranker", {position_embedding_type = "absolute", is_decoder = false}},
  {"gemma2", {use_bidirectional_attention = false}},
  {"gpt2", {scale_attn_by_inverse_layer_idx = false, scale_attn_weights = true}},
  {"gpt_neox", {is_decoder = false}},
  {"nomic_bert", {hidden_act = "silu"}},
  {"nomic_bert", {
    causal = false, parallel_block = false, parallel_block_tied_norm = false, prenorm = false,
    rotary_emb_fraction = 1.0, rotary_emb_interleaved = false, scale_attn_weights = true,
    use_rms_norm = false, scale_attn_by_inverse_layer_idx = false, activation_function = "swiglu",
    mlp_fc1_bias = false, mlp_fc2_bias = false, qkv_proj_bias = false,
  }, "config_v4.json"},
  {"phi", {qk_layernorm = false}},
  {"phi3_partial", {full_attn_mod = 1}},
  {"vit", {qkv_bias = true}},
}

local function other(value)
  if type(value) == "boolean" then return not value end
  return type(value) == "number" and value + 1 or "other"
end


describe("models.load refuses", function()
  it("weights of integers", function()
    local files = {["config.json"] = "config.json"}
    local place <close> = directories.make("llama3", files)
    local tensors = assert(heed.load(directories.HERE .. "llama3/model.safetensors"))
    local name = "model.norm.weight"
    tensors[name] = tensors[name]:to "int64"
    assert(heed.save(place.path .. "/model.safetensors", tensors))
    local model, message = heed.models.load(place.path)
    assert.is_nil(model)
    assert.matches('the tensor "model.norm.weight" has type int64, and floats are expected',
                   message, 1, true)
  end)

  it("biases by distance that cannot be", function()
    assert.matches("^models.load: .*config.json: bias.t5: .*even number from 4 on expected as "
                   .. "option buckets, got 1$", why("t5", {relative_attention_num_buckets = 1}))
    assert.matches("config.json: bias.t5: more than 2 expected as option distance",
                   why("t5", {relative_attention_max_distance = 2}))
  end)

  it("lengths of stretched angles that are none, by their first name, too", function()
    for _, name in ipairs{"su", "longrope"} do
      assert.matches("rope: a finite number above 0 expected as original_max_position_embeddings",
                     why("qwen2", {
        original_max_position_embeddings = json.array{1}, rope_parameters = {rope_type = name},
      }), nil, name)
    end
  end)

  it("ids of padding that are none", function()
    for _, name in ipairs{"mpnet", "roberta"} do
      for _, value in ipairs{"Dense", 1.5, -1, 1 << 24} do
        assert.matches('config.json: .*"pad_token_id": an id from 0 to 16777215 expected, got ',
                       why(name, {pad_token_id = value}))
      end
    end
  end)

  it("sizes and ids beyond the largest, which are taken", function()
    local MOST <const> = 1 << 24
    local function takes(name, values, unwanted)
      local _, message = load(name, values)
      assert.is_nil(tostring(message):find(unwanted, 1, true), message)
    end
    local counts = {qwen2 = {"hidden_size", "num_attention_heads", "intermediate_size"},
                    gpt2 = {"n_head", "n_layer"}}
    for name, keys in pairs(counts) do
      for _, key in ipairs(keys) do
        local wanted = ('"%s": a whole number from 1 to 16777216 expected, got '):format(key)
        takes(name, {[key] = MOST}, wanted)
        for _, bad in ipairs{MOST + 1, 0} do
          assert.matches(wanted .. bad, why(name, {[key] = bad}), 1, true)
        end
      end
    end
    for _, bad in ipairs{0, -1} do
      assert.matches('"rms_norm_eps": a finite number above 0 expected, got ' .. bad,
                     why("qwen2", {rms_norm_eps = bad}), 1, true)
      if bad < 0 then
        assert.matches('"max_window_layers": a whole number from 0 to 16777216 expected, got -1',
                       why("qwen2", {max_window_layers = bad}), 1, true)
      end
    end
    takes("qwen2", {max_window_layers = MOST}, "max_window_layers")
    assert.matches('"max_window_layers": a whole number from 0 to 16777216 expected, got 16777217',
                   why("qwen2", {max_window_layers = MOST + 1}), 1, true)
    takes("mpnet", {pad_token_id = 0}, "an id from 0")
    takes("mpnet", {pad_token_id = MOST - 1}, "an id from 0")
    local wanted = "rope of heads of at most 65536 features expected, got "
    takes("qwen2", {hidden_size = 4 * 65536}, wanted)
    assert.matches(wanted .. "65538", why("qwen2", {hidden_size = 4 * 65538}), 1, true)
  end)

  it("more layers than its tensors can be for, before they are made", function()
    for name, key in pairs{gpt2 = "n_layer", t5 = "num_layers", roberta = "num_hidden_layers"} do
      assert.matches("config.json: nn.Parameter: too many for the tensors of the file",
                     why(name, {[key] = 9999}), 1, true)
    end
    for layers, said in pairs{[115] = "is missing", [116] = "too many for the tensors"} do
      assert.matches(said, why("gpt2", {n_layer = layers}), 1, true)
    end
  end)

  it("heads of masked words whose weights are not those of the words", function()
    for name, class in pairs{bert_reranker = "Bert", roberta = "Roberta", mpnet = "MPNet",
                             distilbert = "DistilBert", modernbert_classifier = "ModernBert"} do
      assert.matches('config.json: "tie_word_embeddings": only true is known here, got false',
                     why(name, {architectures = {class .. "ForMaskedLM"},
                                tie_word_embeddings = false}), 1, true)
    end
    local m = assert(load("mpnet", {tie_word_embeddings = false}))
    assert.matches("buckets = 32, distance = 128", tostring(m.bias), 1, true)
    m = assert(load("t5", {relative_attention_max_distance = json.null}))
    for _, side in ipairs{m.source, m.target} do
      assert.matches("distance = 128", tostring(side.bias), 1, true)
    end
  end)

  it("classes that end in another way, and keys of sections that it does not know", function()
    for name, ending in pairs{bart = "ForConditionalGeneration", clip = "Model",
                              siglip = "Model", t5 = "ForConditionalGeneration",
                              vit = "ForImageClassification, ...Model"} do
      assert.matches(('config.json: "architectures": one of ...%s expected, got "ForX"'):format(
                       ending), why(name, {architectures = json.array{"ForX"}}), 1, true)
    end
    for _, name in ipairs{"clip", "siglip"} do
      for _, values in ipairs{{text_config = {twist = 1}}, {vision_config = {twist = 1}},
                              {twist = 1}} do
        assert.matches('the key "twist", 1, is not known', why(name, values), 1, true)
      end
    end
  end)

  it("parts that it does not know, unless the model lacks them", function()
    for _, name in ipairs{"add_cross_attention", "cross_attention_hidden_size", "is_decoder",
                          "is_encoder_decoder", "tf_legacy_loss", "tie_encoder_decoder",
                          "use_mrope", "use_qk_norm"} do
      assert(load("llama3", {[name] = false}))
      assert.matches(('config.json: the key "%s", true, is not known'):format(name),
                     why("llama3", {[name] = true}), 1, true)
    end
  end)

  it("sections that an older copy contradicts", function()
    assert.matches('config.json: "text_config_dict": 24 as hidden_size expected, as in the '
                   .. "section, got 16", why("clip", {text_config_dict = {hidden_size = 16}}), 1,
                   true)
    assert.matches('"vision_config_dict"', why("clip", {vision_config_dict = {hidden_size = 16}}),
                   1, true)
    assert(load("clip", {text_config_dict = {hidden_size = 24, id2label = {}, other = 1}}))
  end)

  it("lists in the place of objects", function()
    local place <close> = directories.make "llama3"
    local function refused(file, text)
      directories.write(place.path .. "/" .. file, text)
      return select(2, heed.models.load(place.path))
    end
    assert.matches('"rope_scaling": an object expected, got 3', why("llama3", {rope_scaling = 3}))
    for said, value in pairs{["a list"] = json.array{32}, ["an object"] = {a = 32}} do
      assert.matches('"hidden_size": a whole number .* expected, got ' .. said .. "$",
                     why("llama3", {hidden_size = value}))
    end
    os.remove(place.path .. "/model.safetensors")
    for _, text in ipairs{"{}", "[]", '{"weight_map":[]}', '{"weight_map":3}'} do
      assert.matches("model.safetensors.index.json: an object expected as weight_map",
                     refused("model.safetensors.index.json", text), 1, true)
    end
    for _, text in ipairs{"[]", "3"} do
      assert.matches(": config.json: an object expected", refused("config.json", text), 1, true)
    end
  end)

  it("parts that are not built, which files may say they lack", function()
    for _, case in ipairs(ONLY) do
      local name, keys, file = table.unpack(case, 1, 3)
      assert(load(name, keys, file))
      for key, known in pairs(keys) do
        assert.matches(('config.json: "%s": only %s is known here, got '):format(
                         key, type(known) == "string" and '"' .. known .. '"' or known),
                       why(name, {[key] = other(known)}, file), 1, true)
      end
    end
    assert(load("siglip", {vision_config = {vision_use_head = true}}))
    assert.matches('"vision_use_head": only true is known here, got false',
                   why("siglip", {vision_config = {vision_use_head = false}}), 1, true)
    assert.matches('"rotary_emb_scale_base": only nil is known here, got 512',
                   why("nomic_bert", {rotary_emb_scale_base = 512}, "config_v4.json"), 1, true)
    assert.matches('"n_positions"', why("roberta", {n_positions = 512}), 1, true)
  end)
end)


describe("models.load takes", function()
  it("keys of published files that change nothing", function()
    for name, values in pairs{
      bart = {_num_labels = 3},
      bert_reranker = {
        directionality = "bidi", pooler_fc_size = 768, pooler_num_attention_heads = 12,
        pooler_num_fc_layers = 3, pooler_size_per_head = 128, pooler_type = "first_token_transform",
      },
      clip = {text_config = {dropout = 0.0}, vision_config = {dropout = 0.0}},
      llama3 = {is_llama_config = true, ["transformers.js_config"] = {dtype = "q4"}},
      t5 = {n_positions = 512},
    } do
      assert(load(name, values))
    end
  end)

  it("pictures without classes, whose features are what the model gives", function()
    local place <close> = directories.make("vit", nil, function(c)
      c.architectures = json.array{"ViTModel"}
    end)
    local file = place.path .. "/model.safetensors"
    local tensors = assert(heed.load(file))
    tensors["classifier.weight"], tensors["classifier.bias"] = nil, nil
    assert(heed.save(file, tensors))
    local m, x = assert(heed.models.load(place.path)), heed.randn(1, 3, 16, 16)
    assert.is_true(m(x):equal(m:hidden(x)))
  end)

  it("two towers, whose texts are rows of ids", function()
    for _, name in ipairs{"clip", "siglip"} do
      local m, pixels = load(name, {}), heed.zeros(1, 3, 16, 16)
      for _, sizes in ipairs{{3}, {1, 2, 3}, {2, 0}, {}} do
        local ids = heed.ones(sizes, {dtype = "int64"})
        local wanted = "models.DualModel: ids of shape (B, T) expected, T at least 1, got a tensor "
                       .. "of shape " .. tostring(ids.shape)
        assert.error_matches(function() m:texts(ids) end, wanted, 1, true)
        assert.error_matches(function() m(ids, pixels) end, wanted, 1, true)
      end
      assert.equal(2, #m:texts(heed.ones(2, 1, {dtype = "int64"})))
    end
  end)

  it("2 as the end of CLIP's texts for the largest id", function()
    local plain, old = load("clip", {}), load("clip", {text_config = {eos_token_id = 2}})
    local eos = plain.eos + 1
    local ids = heed.tensor{{3, 5, eos, 4, 1}, {7, 8, 9, 6, eos}, {eos, 3, 3, 3, 3}}
    assert.is_true(plain:texts(ids):equal(old:texts(ids)))
    assert.is_true(old:texts(ids:clone()):norm():item() > 1)
    assert.is_false(plain:texts(ids):equal(load("clip", {text_config = {eos_token_id = 3}})
      :texts(ids)))
    local none = heed.tensor{{3, 5, 7, 4, 1}, {3, 5, eos, 4, eos}}       -- at its first position
    local first = plain:texts(heed.tensor{{eos, 5, 7, 4, 1}, {3, 5, eos, 4, 1}})
    local one = plain:texts(none)
    assert.is_true(one[2]:equal(first[2]))
    local begins = heed.no_grad(function() return plain.text_project(plain.text(none)[{1, 1}]) end)
    assert.is_true(one[1]:allclose(begins:normalize(2, -1), {rtol = 1e-5, atol = 1e-6}))
  end)
end)


describe("a model that no golden directory has", function()
  -- The logits or features of a directory, whose weights f may change.
  local function result(from, files, change, f)
    local place <close> = directories.make(from, files, change)
    local path = place.path .. "/model.safetensors"
    local weights = assert(heed.load(path))
    if f then f(weights) end
    assert(heed.save(path, weights))
    local m = assert(heed.models.load(place.path, {dtype = "float64"}))
    return heed.no_grad(m, heed.tensor{{5, 9, 7, 3, 2, 20, 11, 4, 8}})
  end

  local function check_close(a, b)
    local far = (a - b):abs():max():item()
    assert.is_true(close(far, 0, 0, 1e-5), far)
    assert.is_true(a:abs():max():item() > 0.1)
  end

  it("is Llama whose norms have 1 more, and whose words are scaled by sqrt(dim): Gemma", function()
    local function llama(c) c.tie_word_embeddings, c.hidden_act = false, "gelu_pytorch_tanh" end
    local wanted = result("llama3", nil, llama, function(weights)
      weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
      for name, t in pairs(weights) do
        if name:find "norm%.weight$" then weights[name] = t + 1 end
      end
      local words = "model.embed_tokens.weight"
      weights[words] = weights[words] * math.sqrt(weights[words]:size(2))
    end)
    for _, name in ipairs{"hidden_act", "hidden_activation"} do
      local got = result("llama3", nil, function(c)
        c.model_type, c.architectures = "gemma", json.array{"GemmaForCausalLM"}
        c.hidden_act = "silu"
        c[name], c.mlp_bias, c.use_bidirectional_attention = "gelu_pytorch_tanh", nil, false
      end)
      check_close(got, wanted)
    end
    assert.matches('"use_bidirectional_attention": only false is known here, got true',
                   why("llama3", {model_type = "gemma", use_bidirectional_attention = true}))
  end)

  it("stretches angles beyond the length that it was trained at: an old file of Nomic", function()
    local old = {["config.json"] = "config_v4.json", ["model.safetensors"] = "model.safetensors"}
    local function stretched(c)
      c.rotary_scaling_factor, c.max_trained_positions = 2, 4
    end
    check_close(result("nomic_bert", old, stretched), result("nomic_bert", nil, function(c)
      c.rope_parameters.rope_type, c.rope_parameters.factor = "dynamic", 2
      c.max_position_embeddings = 4
    end))
    local m = assert(load("nomic_bert", {rotary_scaling_factor = 2, max_trained_positions =
                                         json.null}, "config_v4.json"))
    assert.equal(2048, m.body.layers[1].attend.rope.max_position_embeddings)
    local plain = result("nomic_bert", old)
    assert.is_true((result("nomic_bert", old, stretched) - plain):abs():max():item() > 1e-3)
  end)
end)


describe("special ids of config.json", function()
  -- The value that a model has of a name, where the file of generation has `said` of it.
  local function taken(value, said)
    local files = {["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors"}
    local place <close> = directories.make("llama3", files, function(c)
      c.eos_token_id, c.bos_token_id, c.decoder_start_token_id = value, value, value
    end)
    if said then
      directories.write(place.path .. "/generation_config.json",
                        json.encode{eos_token_id = said, bos_token_id = said,
                                    decoder_start_token_id = said})
    end
    local own = assert(heed.models.load(place.path)).generation
    assert.same(own.eos_token_id, own.bos_token_id)
    assert.same(own.eos_token_id, own.decoder_start_token_id)
    return own.eos_token_id
  end

  it("hold where the file of generation names none, be they one or a list", function()
    assert.equal(3, taken(3))
    assert.equal(0, taken(0))
    assert.same({2, 3}, taken(json.array{2, 3}))
    assert.equal(4, taken(3, 4))
    assert.equal(4, taken(json.array{2, 3}, 4))
    assert.same({5, 6}, taken(3, json.array{5, 6}))
  end)

  it("are none where they are no ids", function()
    for _, value in ipairs{json.null, "x", true, false} do
      assert.is_nil(taken(value), tostring(value))
    end
    local place <close> = directories.make("llama3", {
      ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
    }, function(c) c.bos_token_id, c.eos_token_id = json.null, json.null end)
    local path = place.path .. "/model.gguf"
    assert(heed.models.save(path, assert(heed.models.load(place.path))))
    local _, metadata = assert(heed.load(path))
    assert.is_nil(metadata["tokenizer.ggml.bos_token_id"])
    assert.is_nil(metadata["tokenizer.ggml.eos_token_id"])
  end)
end)
