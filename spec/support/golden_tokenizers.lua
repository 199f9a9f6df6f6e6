-- The tokenizers of spec/golden/tokenizers: their names, and the text of each one's tokenizer.json.

local files = require "spec.support.files"

local FOLDER <const> = "spec/golden/tokenizers/"

local golden = {}

golden.names = {
  "bpe_gpt2", "bpe_llama2", "bpe_llama3", "cl100k", "clip", "gemma", "modernbert", "o200k", "phi3",
  "qwen2", "smollm2", "unigram", "unigram_charsmap", "wordpiece_cased", "wordpiece_uncased",
  "xlm_roberta", "xlm_roberta_split",
}

---The table of a normalizer Precompiled is the same in all files, which have its name instead.
---@param name string
---@return string
function golden.text(name)
  local text = files.read(FOLDER .. name .. "/tokenizer.json")
  local from, to = text:find('"charsmap.txt"', 1, true)
  if not from then return text end
  return text:sub(1, from) .. files.read(FOLDER .. "unigram_charsmap/charsmap.txt") .. text:sub(to)
end

return golden
