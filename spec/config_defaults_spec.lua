-- Entries that a model's configuration leaves out have transformers' defaults: a directory without
-- one is as a directory that says so, and another value tells in numbers or in a refusal.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"

-- Entries of configurations: the model, the entry, its default and another value; where another
-- entry must be away or changed for it to count, too, that entry's value (json.null: away). Old
-- files have entries of their own.
local GONE <const> = json.null
local ENTRIES <const> = {
  {"albert", "embedding_size", 128, 16},
  {"albert", "layer_norm_eps", 1e-12, 1e-3},
  {"bart", "scale_embedding", false, true},
  {"bert_reranker", "layer_norm_eps", 1e-12, 1e-3},
  {"bert_reranker", "type_vocab_size", 2, 3},
  {"clip", "projection_dim", 512, 12},
  {"clip", "text_config.layer_norm_eps", 1e-5, 1e-2},
  {"clip", "vision_config.layer_norm_eps", 1e-5, 1e-2},
  {"clip", "vision_config.num_channels", 3, 1},
  {"distilbert", "num_labels", 2, 3, {id2label = GONE, label2id = GONE}},
  {"distilbert", "activation", "gelu", "relu"},
  {"electra", "embedding_size", 128, 16},
  {"gemma2", "attention_bias", false, true},
  {"gemma2", "attn_logit_softcapping", 50, 0.01},
  {"gemma2", "final_logit_softcapping", 30, 1},
  {"gemma2", "head_dim", 256, 8},
  {"gemma2", "query_pre_attn_scalar", 256, 64},
  {"gemma2", "rms_norm_eps", 1e-6, 1e-2},
  {"gemma2", "sliding_window", 4096, 2},
  {"gemma2", "rope_theta", 10000, 10, old = true},
  {"gemma2", "rope_parameters.rope_theta", 10000, 10},
  {"gemma3_bidirectional", "use_bidirectional_attention", false, true},
  {"gemma3_bidirectional", "query_pre_attn_scalar", 256, 64},
  {"gemma3_bidirectional", "sliding_window", 4096, 2},
  {"gemma3_bidirectional", "rope_local_base_freq", 10000, 10, old = true},
  {"gemma3_bidirectional", "rope_theta", 1000000, 10, old = true},
  {"gemma3_bidirectional", "rope_parameters.full_attention.rope_theta", 1000000, 10},
  {"gemma3_bidirectional", "rope_parameters.sliding_attention.rope_theta", 10000, 10},
  {"gpt2", "layer_norm_epsilon", 1e-5, 1e-2},
  {"gpt2", "n_inner", 4 * 32, 40},
  {"gpt2", "activation_function", "gelu_new", "relu"},
  {"gpt_neox", "attention_bias", true, false},
  {"gpt_neox", "layer_norm_eps", 1e-5, 1e-2},
  {"gpt_neox", "use_parallel_residual", true, false},
  {"gpt_neox", "rotary_emb_base", 10000, 10, {rotary_pct = 1}, old = true},
  {"gpt_neox", "rotary_pct", 0.25, 0.5, old = true},
  {"gpt_neox", "rope_parameters.rope_theta", 10000, 10,
   {["rope_parameters.partial_rotary_factor"] = 1}},
  {"gpt_neox", "rope_parameters.partial_rotary_factor", 0.25, 0.5},
  {"granite", "attention_bias", false, true},
  {"granite", "attention_multiplier", 1, 0.5},
  {"granite", "embedding_multiplier", 1, 2},
  {"granite", "logits_scaling", 1, 2},
  {"granite", "mlp_bias", false, true},
  {"granite", "residual_multiplier", 1, 2},
  {"granite", "rms_norm_eps", 1e-6, 1e-2},
  {"granite", "rope_theta", 10000, 10, old = true},
  {"granite", "rope_parameters.rope_theta", 10000, 10},
  {"llama3", "attention_bias", false, true},
  {"llama3", "mlp_bias", false, true},
  {"llama3", "rms_norm_eps", 1e-6, 1e-2},
  {"mistral", "rms_norm_eps", 1e-6, 1e-2},
  {"mistral", "sliding_window", 4096, 2},
  {"mistral", "rope_theta", 10000, 10, old = true},
  {"mistral", "rope_parameters.rope_theta", 10000, 10},
  {"modernbert_classifier", "attention_bias", false, true},
  {"modernbert_classifier", "classifier_bias", false, true},
  {"modernbert_classifier", "classifier_activation", "gelu", "relu"},
  {"modernbert_classifier", "classifier_pooling", "cls", "mean"},
  {"modernbert_classifier", "global_attn_every_n_layers", 3, 2, {layer_types = GONE}},
  {"modernbert_classifier", "local_attention", 128, 2},
  {"modernbert_classifier", "mlp_bias", false, true},
  {"modernbert_classifier", "norm_bias", false, true},
  {"modernbert_classifier", "norm_eps", 1e-5, 1e-2},
  {"modernbert_classifier", "global_rope_theta", 160000, 10, old = true},
  {"modernbert_classifier", "local_rope_theta", 10000, 10, old = true},
  {"modernbert_classifier", "rope_parameters.full_attention.rope_theta", 160000, 10},
  {"modernbert_classifier", "rope_parameters.sliding_attention.rope_theta", 10000, 10},
  {"mpnet", "pad_token_id", 1, 3},
  {"nomic_bert", "layer_norm_eps", 1e-12, 1e-3},
  {"nomic_bert", "type_vocab_size", 2, 3},
  {"nomic_bert", "layer_norm_epsilon", 1e-12, 1e-3, old = true},
  {"nomic_bert", "rotary_emb_base", 1000, 10, old = true},
  {"nomic_bert", "rope_parameters.rope_theta", 1000, 10},
  {"olmo2", "attention_bias", false, true},
  {"olmo2", "rms_norm_eps", 1e-5, 1e-2},
  {"olmo2", "rope_theta", 10000, 10, old = true},
  {"olmo2", "rope_parameters.rope_theta", 10000, 10},
  {"phi", "layer_norm_eps", 1e-5, 1e-2},
  {"phi", "num_key_value_heads", 4, 2},
  {"phi", "partial_rotary_factor", 0.5, 1, old = true},
  {"phi", "rope_parameters.partial_rotary_factor", 0.5, 1},
  {"phi", "rope_theta", 10000, 10, old = true},
  {"phi", "rope_parameters.rope_theta", 10000, 10},
  {"phi3_partial", "rms_norm_eps", 1e-5, 1e-2},
  {"phi3_partial", "sliding_window", 100, 2},           -- 100: more than there are keys
  {"phi3_partial", "rope_theta", 10000, 10, old = true},
  {"phi3_partial", "rope_parameters.rope_theta", 10000, 10},
  {"qwen2", "max_window_layers", 28, 1,
   {layer_types = GONE, use_sliding_window = true, sliding_window = 2}},
  {"qwen2", "rms_norm_eps", 1e-6, 1e-2},
  {"qwen2", "rope_theta", 10000, 10, old = true},
  {"qwen2", "rope_parameters.rope_theta", 10000, 10},
  {"qwen2", "use_sliding_window", false, true,
   {layer_types = GONE, max_window_layers = 0, sliding_window = 2}},
  {"qwen3", "attention_bias", false, true},
  {"qwen3", "head_dim", 128, 8},
  {"qwen3", "sliding_window", 4096, 2, {layer_types = GONE, max_window_layers = 0,
                                        use_sliding_window = true}},
  {"qwen3", "rope_theta", 10000, 10, old = true},
  {"qwen3", "rope_parameters.rope_theta", 10000, 10},
  {"roberta", "layer_norm_eps", 1e-12, 1e-3},
  {"roberta", "pad_token_id", 1, 3},
  {"siglip", "text_config.layer_norm_eps", 1e-6, 1e-2},
  {"siglip", "vision_config.layer_norm_eps", 1e-6, 1e-2},
  {"smollm3", "attention_bias", false, true},
  {"smollm3", "mlp_bias", false, true},
  {"smollm3", "no_rope_layer_interval", 4, 2, {no_rope_layers = GONE}},
  {"smollm3", "rms_norm_eps", 1e-6, 1e-2},
  {"smollm3", "rope_theta", 2000000, 10, old = true},
  {"smollm3", "rope_parameters.rope_theta", 2000000, 10},
  {"smollm3", "use_sliding_window", false, true,
   {layer_types = GONE, sliding_window = 2}},
  {"t5", "d_kv", 64, 8},
  {"t5", "feed_forward_proj", "relu", "gelu"},
  {"t5", "layer_norm_epsilon", 1e-6, 1e-2},
  {"t5", "num_decoder_layers", 2, 1},
  {"t5", "relative_attention_max_distance", 128, 20},
  {"t5", "relative_attention_num_buckets", 32, 8},
  {"t5", "scale_decoder_outputs", true, false},
  {"t5", "tie_word_embeddings", true, false, {scale_decoder_outputs = GONE}},
  {"vit", "layer_norm_eps", 1e-12, 1e-3},
  {"vit", "num_channels", 3, 1},
}


-- Sets an entry, "a.b" within a; GONE takes it away.
local function set(c, name, value)
  local outer, inner = name:match "^([^.]+)%.(.+)$"
  if outer then return set(c[outer], inner, value) end
  if value == GONE then value = nil end
  c[name] = value
end


-- The results of a model for its golden inputs.
local function result(m, name)
  local e = heed.load(directories.HERE .. name .. "/expect.safetensors") or {}
  local pixels = e.pixel_values and e.pixel_values:to "float64"
  if name == "vit" then return m(pixels) end
  local ids = e.input_ids and e.input_ids + 1 or heed.arange(16):unsqueeze(1)
  local o = {keys = e.attention_mask and e.attention_mask:ne(0)}
  if pixels then return m(ids, pixels, o) end
  if not m.is_sequence then return m(ids, o) end
  return m:decode(ids, m:encode(ids, o), {context_keys = o.keys})
end


-- The outcome of a directory with another configuration: numbers, or a refusal.
local function outcome(case, value)
  local files = {["config.json"] = case.old and "config_v4.json" or "config.json",
                 ["model.safetensors"] = "model.safetensors"}
  local place <close> = directories.make(case[1], files, function(c)
    for name, other in pairs(case[5] or {}) do set(c, name, other) end
    set(c, case[2], value)
  end)
  local m, why = heed.models.load(place.path, {dtype = "float64"})
  if not m then return (why:gsub(place.path, "directory", 1)) end
  return heed.no_grad(result, m, case[1])
end

local function same(a, b)
  if type(a) == "string" or type(b) == "string" then return a == b end
  return a:equal(b)
end


describe("a configuration without an entry", function()
  for _, case in ipairs(ENTRIES) do
    it(("is one that says %s = %s: %s"):format(case[2], case[3], case[1]), function()
      local absent, said = outcome(case, GONE), outcome(case, case[3])
      assert.is_true(same(absent, said), tostring(absent) .. "\n" .. tostring(said))
      assert.is_false(same(absent, outcome(case, case[4])))
    end)
  end
end)


-- Families of models that write: whether their logits share the weights of the ids where neither
-- the configuration says it nor the file lacks weights of their own.
local TIED <const> = {
  {"bart", true}, {"gemma2", true}, {"gpt2", true}, {"gpt_neox", false}, {"granite", false},
  {"llama3", false}, {"mistral", false}, {"olmo2", false}, {"phi", false}, {"phi3_partial", false},
  {"qwen2", false}, {"qwen3", false}, {"smollm3", true}, {"t5", true},
}

-- The tensors of a file, with weights of the logits that are not those of the ids.
local function untied(name)
  local tensors = assert(heed.load(directories.HERE .. name .. "/model.safetensors"))
  local head = name == "gpt_neox" and "embed_out.weight" or "lm_head.weight"
  for _, words in ipairs{"shared.weight", "model.shared.weight", "model.embed_tokens.weight",
                         "transformer.wte.weight", "gpt_neox.embed_in.weight", "wte.weight"} do
    if tensors[words] then tensors[head] = tensors[words] * -2 end
  end
  return tensors
end


describe("a file with weights of the logits", function()
  for _, case in ipairs(TIED) do
    local name, tied = case[1], case[2]
    it(("has them %s: %s"):format(tied and "in vain" or "for use", name), function()
      local tensors = untied(name)
      local function with(tie)
        local place <close> = directories.make(name, nil, function(c)
          set(c, "tie_word_embeddings", tie)
          if name == "t5" then c.scale_decoder_outputs = false end
        end)
        heed.save(place.path .. "/model.safetensors", tensors)
        local m = assert(heed.models.load(place.path, {dtype = "float64"}))
        return heed.no_grad(result, m, name)
      end
      local absent = with(GONE)
      assert.is_true(same(absent, with(tied)))
      assert.is_false(same(absent, with(not tied)))
    end)
  end
end)
