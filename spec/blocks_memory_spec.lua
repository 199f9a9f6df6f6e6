-- models.load{quantize}: weights go into blocks one by one as they are read. The most memory that
-- was taken at once tells, so that nothing else stands here.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"

local LAYERS <const> = 6

-- A directory of zeros with 72 MiB of matrices.
local function wide()
  local place = directories.make("qwen3", nil, function(c)
    c.vocab_size, c.hidden_size, c.intermediate_size, c.layer_types = 64, 256, 4096, json.null
    c.num_hidden_layers, c.tie_word_embeddings = LAYERS, true
  end)
  local shapes = {["model.embed_tokens.weight"] = {64, 256}, ["model.norm.weight"] = {256}}
  for i = 0, LAYERS - 1 do
    for name, shape in next, {
      input_layernorm = {256}, post_attention_layernorm = {256}, ["self_attn.q_proj"] = {48, 256},
      ["self_attn.k_proj"] = {24, 256}, ["self_attn.v_proj"] = {24, 256},
      ["self_attn.o_proj"] = {256, 48}, ["self_attn.q_norm"] = {12}, ["self_attn.k_norm"] = {12},
      ["mlp.gate_proj"] = {4096, 256}, ["mlp.up_proj"] = {4096, 256},
      ["mlp.down_proj"] = {256, 4096},
    } do shapes[("model.layers.%d.%s.weight"):format(i, name)] = shape end
  end
  local header, stop = {}, 0
  for name, shape in next, shapes do
    local bytes = 4 * shape[1] * (shape[2] or 1)
    header[name] = {
      dtype = "F32", shape = json.array(shape), data_offsets = json.array{stop, stop + bytes},
    }
    stop = stop + bytes
  end
  local text = json.encode(header)
  text = text .. (" "):rep(-#text % 8)                   -- else tensors of a mapped file are copied
  directories.write(place.path .. "/model.safetensors",
                    string.pack("<s8", text) .. ("\0"):rep(stop))
  return place
end


describe("models.load with option quantize", function()
  it("never has all floats in memory, and leaves the file", function()
    local place <close> = wide()
    collectgarbage()
    local live = heed.memory().live
    local gpu = heed.default_device() ~= "cpu" and heed.cuda
    local on_gpu = gpu and gpu.memory().live
    assert.is_true(heed.memory().peak < live + (40 << 20))
    local m, kept = assert(heed.models.load(place.path, {quantize = "q8_0"}))
    local peak = heed.memory().peak
    assert.is_true(peak < live + (40 << 20), ("%d bytes at most, and %d before"):format(peak, live))
    assert.is_true(not gpu or gpu.memory().peak < on_gpu + (40 << 20))
    assert.equal(heed.default_device() == "cpu", m.words.weight.device == "cpu")
    assert.equal("q8_0", m.words.weight.dtype)
    assert.is_truthy(kept["body.layers.1.attend.out.weight"])
    directories.write(place.path .. "/model.safetensors", "")
    assert.equal(0, heed.no_grad(m, heed.tensor{{5, 9}}):abs():max():item())
  end)
end)
