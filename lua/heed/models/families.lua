-- The families of models, by `model_type` of their config.json, with the files that define them;
-- and what others have that heed lacks.

local refuse = require "heed.internal.refuse"

local quoted = refuse.quoted

local families = {}

local FILES = {
  camembert = "roberta", clip = "dual", gemma2 = "gemma", gemma3_text = "gemma", mt5 = "t5",
  qwen2 = "qwen", qwen3 = "qwen", siglip = "dual", ["xlm-roberta"] = "roberta",
}
-- Families whose files have their names.
for name in ([[
  albert bart bert distilbert electra gemma gpt2 gpt_neox granite llama mistral modernbert mpnet
  nomic_bert olmo2 phi phi3 roberta smollm3 t5 vit
]]):gmatch "[%w_]+" do FILES[name] = name end

local EXPERTS <const> = "a mixture of experts"
local STATES <const> = "a state space or linear attention"
local INPUTS <const> = "inputs of their own for each layer"
local PICTURES <const> = "a part for pictures"

local LACKING = {
  dbrx = EXPERTS, deepseek_v2 = EXPERTS, deepseek_v3 = EXPERTS, ernie4_5_moe = EXPERTS,
  gpt_oss = EXPERTS, granitemoe = EXPERTS, jamba = EXPERTS, mixtral = EXPERTS, olmoe = EXPERTS,
  phimoe = EXPERTS, qwen2_moe = EXPERTS, qwen3_moe = EXPERTS,
  falcon_h1 = STATES, falcon_mamba = STATES, granitemoehybrid = STATES, lfm2 = "short convolutions",
  mamba = STATES, mamba2 = STATES, qwen3_5 = STATES, qwen3_next = STATES, recurrent_gemma = STATES,
  rwkv = STATES, zamba = STATES,
  gemma3n = INPUTS, gemma3n_text = INPUTS, gemma4 = INPUTS, gemma4_text = INPUTS,
  gemma3 = PICTURES, llava = PICTURES, mllama = PICTURES, qwen2_vl = PICTURES,
  whisper = "convolutions over sound",
}


---The family of a type; others are refused, with what they have that heed lacks.
---@param c heed.models.Config
---@return {build: function, names: heed.models.names}
function families.of(c)
  local kind = c:word("model_type")
  local file = rawget(FILES, kind)
  if file then
    local family = require("heed.models." .. file)
    return family[kind] or family
  end
  local part = rawget(LACKING, kind)
  if part then c:refuse("model_type", "%s has %s, which heed lacks", quoted(kind), part) end
  local known = {}
  for name in next, FILES do known[#known + 1] = name end
  table.sort(known)
  c:refuse("model_type", "one of %s expected, got %s", table.concat(known, ", "), quoted(kind))
end


return families
