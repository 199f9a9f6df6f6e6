-- T5, Flan-T5, mT5: C. Raffel et al. (2020), "Exploring the limits of transfer learning". Scores
-- are not scaled, and distances have one table for all layers of a side.

local bias = require "heed.bias"
local layers = require "heed.nn.layers"
local seq2seq = require "heed.models.seq2seq"

local t5 = {}


-- The names of one side, whose layers have so many parts.
local function side(name, field, parts)
  local block, layer = name .. ".block.%d.layer.", field .. ".body.layers.%d."
  local list = {
    {name .. ".block.0.layer.0.SelfAttention.relative_attention_bias", field .. ".bias"},
    {name .. ".final_layer_norm", field .. ".body.norm"},
  }
  local function attention(i, file, module)
    for letter, part in pairs{q = "query", k = "key", v = "value", o = "out"} do
      list[#list + 1] = {block .. i .. "." .. file .. "." .. letter, layer .. module .. "." .. part}
    end
  end
  attention(0, "SelfAttention", "attend")
  if parts == 3 then attention(1, "EncDecAttention", "cross") end
  for i = 1, parts do
    list[#list + 1] = {block .. (i - 1) .. ".layer_norm", layer .. "norm" .. i}
  end
  return list, block .. (parts - 1) .. ".DenseReluDense.", layer .. "mlp."
end


-- All names, which differ where the MLP has a gate.
local function names_for(gated)
  local all = {
    ignored = {"^encoder%.embed_tokens%.weight$", "^decoder%.embed_tokens%.weight$",
               "^decoder%.block%.0%.layer%.1%.EncDecAttention%.relative_attention_bias"},
    {"shared", "words"}, {"lm_head", "head"},
  }
  for _, row in ipairs{{"encoder", "source", 2}, {"decoder", "target", 3}} do
    local list, file, module = side(table.unpack(row))
    table.move(list, 1, #list, #all + 1, all)
    if gated then all[#all + 1] = {file .. "wi_0", module .. "gate"} end
    all[#all + 1] = {file .. (gated and "wi_1" or "wi"), module .. "up"}
    all[#all + 1] = {file .. "wo", module .. "down"}
  end
  return all
end


-- Options of the MLP, "relu", "gated-gelu" or the like; gelu is that of tanh.
local function read_mlp(c)
  local word = c:word("feed_forward_proj", "relu")
  c:get("dense_act_fn")
  c:get("is_gated_act")
  local gated, name = word:match("^(gated%-)(.*)$")
  return gated ~= nil, c:activation_of("feed_forward_proj",
                                       word == "gated-gelu" and "gelu_new" or name or word)
end


function t5.build(c, tensors)
  local dim, heads = c:count("d_model"), c:count("num_heads")
  local gated, activation = read_mlp(c)
  local eps = c:number("layer_norm_epsilon", 1e-6)
  local function norm(n) return layers.RMSNorm(n, {eps = eps}) end
  local function side_of(n, bidirectional)
    return {
      layers = n, heads = heads,
      bias = bias.t5{
        heads = heads, buckets = c:count("relative_attention_num_buckets", 32),
        distance = c:count("relative_attention_max_distance", 128), bidirectional = bidirectional,
      },
      stack = {
        norm = "pre", norm_type = norm, bias = false, head_dim = c:count("d_kv", 64), scale = 1,
        hidden = c:count("d_ff"), activation = activation, gated = gated,
      },
    }
  end
  local n = c:count("num_layers")
  local scaled = c:flag("scale_decoder_outputs", c:get("tie_word_embeddings", true) ~= false)
  for _, name in ipairs{"dropout_rate", "is_decoder", "is_encoder_decoder", "n_positions"} do
    c:get(name)
  end
  return seq2seq.new(c, {
    dim = dim, source = side_of(n, true), tie = true,
    target = side_of(c:count("num_decoder_layers", n), false), out_scale = scaled and dim ^ -0.5,
  }, tensors), names_for(gated)
end


return t5
