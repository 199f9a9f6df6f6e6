-- heed.models.load of files that have more than the model: what a family's older or other classes
-- wrote, such as buffers and heads.

local directories = require "spec.support.directories"
local heed = require "heed"

local HERE <const> = directories.HERE

local CASES <const> = {
  albert = {"embeddings.position_ids", "predictions.bias"},
  bart = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"},
  bert_reranker = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"},
  clip = {"text_model.embeddings.position_ids", "vision_model.embeddings.position_ids"},
  distilbert = {"distilbert.embeddings.position_ids"},
  electra = {"discriminator_predictions.dense.weight", "generator_lm_head.bias"},
  gpt2 = {"transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"},
  gpt_neox = {"gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias",
              "gpt_neox.layers.1.attention.rotary_emb.inv_freq"},
  nomic_bert = {"pooler.dense.weight"},
  qwen2 = {"model.layers.0.self_attn.rotary_emb.inv_freq"},
  roberta = {"roberta.pooler.dense.weight", "lm_head.decoder.bias"},
  t5 = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
  vit = {"pooler.dense.weight", "vit.pooler.dense.bias"},
}


describe("models.load leaves out of files", function()
  for name, extra in pairs(CASES) do
    it(("what classes of %s have besides"):format(name), function()
      local place <close> = directories.make(name)
      local file = place.path .. "/model.safetensors"
      local tensors = assert(heed.load(file))
      for i, key in ipairs(extra) do tensors[key] = tensors[key] or heed.full({1, 2}, i) end
      assert(heed.save(file, tensors))
      local state = assert(heed.models.load(place.path)):state()
      for key, t in pairs(assert(heed.models.load(HERE .. name)):state()) do
        assert.is_true(t:equal(state[key]), key)
      end
      tensors["surplus"] = heed.ones(1)
      assert(heed.save(file, tensors))
      assert.matches('no place for: "surplus"$', select(2, heed.models.load(place.path)))
    end)
  end
end)
