-- Damaged directories of models: loading one gives a model, or nil and a message, and takes no more
-- memory than the files are large; what a loaded one does with texts ends in a result or an error,
-- as does writing it into a GGUF file, and loading that file with bytes of its head changed.

local check = require "spec.fuzz.check"
local files = require "spec.fuzz.files"
local json = require "heed.files.json"

local directories = {}

local HERE <const> = "spec/golden/models/"
local NAMES <const> = {
  "albert", "bart", "bert_reranker", "clip", "distilbert", "electra", "gemma2",
  "gemma3_bidirectional", "gpt2", "gpt_neox", "granite", "mistral", "modernbert_classifier",
  "llama3", "llama3", "mpnet", "nomic_bert", "olmo2", "phi", "phi3_partial", "qwen2", "qwen3",
  "roberta", "siglip", "smollm3", "t5", "vit", "st/bert_concat", "st/cross_encoder",
  "st/cross_encoder_3", "st/model2vec", "st/model2vec_int8", "st/static_embedding",
  "st/bert_concat", "st/cross_encoder", "st/model2vec_int8",
}
local FILES <const> = {
  "config.json", "config.json", "tokenizer.json", "tokenizer_config.json", "modules.json",
  "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json",
  "model.safetensors", "model.safetensors.index.json", "generation_config.json",
  "chat_template.jinja", "preprocessor_config.json",
}
local FOLDERS <const> = {"", "1_Pooling/", "2_Dense/"}


local place = os.tmpname()


local function read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read("a")
end


-- Weights have a checksum, which would refuse each change: its name is another one here.
local function without_sum(bytes)
  return (bytes:gsub("heed%.crc32", "heed_crc32", 1))
end


-- The files of a model, by their names.
local function files_of(name)
  local list = {}
  for _, file in ipairs(FILES) do
    local bytes = read(HERE .. name .. "/" .. file)
    list[file] = bytes and without_sum(bytes)
  end
  return list
end


-- Values that other ones in JSON become.
local VALUES <const> = {
  0, 1, -1, 2, 3, 7, 1.5, 1e30, 1 << 24, (1 << 24) + 1, 1 << 40, math.maxinteger, true, false, "",
  "x", "mean", "cls", "../x", "/etc/passwd", ".", "0_StaticEmbedding", "2_Dense", "gelu", "Tanh",
  "Dense",
  "x.Normalize", "x.Pooling", "x.StaticEmbedding", "BertModel", "LlamaForCausalLM",
  "BertForTokenClassification", "LABEL_0", json.null, json.array{}, {}, json.array{1, 2, 3},
  {x = 1}, json.array{"full_attention"}, ("a"):rep(300), "model.safetensors",
}

-- Where values stand in JSON: {table, key}.
local function spots(value, list)
  if type(value) ~= "table" or value == json.null then return list end
  for key, inner in next, value do
    if #list < 400 then list[#list + 1] = {value, key} end
    spots(inner, list)
  end
  table.sort(list, function(a, b) return tostring(a[2]) < tostring(b[2]) end)
  return list
end


-- Another value, a key less, or one more, in a text of JSON; other bytes where it is none.
local function changed(r, text)
  local value = json.decode(text)
  local list = value and spots(value, {}) or {}
  if #list == 0 then return files.damage(r, text) end
  local spot, way = r:pick(list), r:integer(1, 5)
  if way <= 3 then spot[1][spot[2]] = r:pick(VALUES)
  elseif way == 4 and type(spot[2]) == "string" then spot[1][spot[2]] = nil
  elseif type(spot[2]) == "string" then
    spot[1][r:pick{"hidden_size", "vocab_size", "unknown", "rope_scaling", "id2label", "path",
                   "pooling_mode_x", "max_length", "normalize"}] = r:pick(VALUES)
  else spot[1][spot[2]] = r:pick(VALUES) end
  local good, out = pcall(json.encode, value)
  return good and out or files.damage(r, text)
end


-- One file of a directory becomes another one.
local function damage(r, list)
  local names = {}
  for _, file in ipairs(FILES) do
    if list[file] then names[#names + 1] = file end
  end
  if #names == 0 then return end        -- all of them were taken away
  local file = r:pick(names)
  local way = r:integer(1, 12)
  if way == 1 then list[file] = nil
  elseif way == 2 then list[r:pick(FILES)] = list[file]
  elseif way == 3 then list[r:pick(FOLDERS) .. file:match "[^/]*$"] = list[file]
  elseif way <= 5 or file:find "safetensors$" then list[file] = files.damage(r, list[file])
  else list[file] = changed(r, list[file]) end
end


-- Source that writes the files that are not as they were, loads the directory and uses it.
local LOAD <const> = [[
local heed = require "heed"
local from, place, size, changes = %q, %q, %d, %s
local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  return text
end
os.execute("rm -rf " .. place .. " && mkdir -p " .. place .. "/1_Pooling " .. place .. "/2_Dense")
for name, text in pairs(changes) do
  if text == true then text = (read(from .. "/" .. name):gsub("heed%%.crc32", "heed_crc32", 1)) end
  local file = assert(io.open(place .. "/" .. name, "wb"))
  file:write(text)
  file:close()
end
collectgarbage()
heed.memory{limit = heed.memory().live + heed.memory().other + 24 * size + (4 << 20)}
local good, m, why = pcall(heed.models.load, place, {mapped = size %% 2 == 0})
if not good then return "models.load raised: " .. tostring(m) end
if not m then
  heed.memory{limit = 256 << 20}
  return type(why) ~= "string" and "models.load gave no message" or nil
end
local function try(name, ...)
  local good, why = pcall(function(...) return m[name](m, ...) end, ...)
  if not good and type(why) ~= "string" then return name .. " raised a " .. type(why) end
  if not good and (why:find "attempt to" or why:find "bad argument") then
    return name .. ": " .. why
  end
end
local wrong = try("embed", {"a text", "", "[SEP] \xff"}) or try("embed", {{1, 2}, {3}})
  or try("score", "q", {"a", "b"}) or try("classify", {"a", "b"})
  or try("hidden", heed.tensor{{1, 2}}) or try("ids", "a text")
  or try("chat", {{role = "system", content = "x"}, {role = "user", content = "a text"}})
  or try("generate", {1, 2}, {max = 2, sample = true}) or try("generate", "a text", {max = 1})
heed.memory{limit = 256 << 20}
if wrong then return wrong end
local file = place .. "/model.gguf"
local function check(what, f, ...)
  local good, done, why = pcall(f, ...)
  if not good and not tostring(done):find "models.save: " then return what .. tostring(done) end
  if good and not done and type(why) ~= "string" then return what .. "no message" end
  return nil, done
end
local wrong, done = check("models.save: ", heed.models.save, file, m)
if wrong or not done then return wrong end
local bytes, at = read(file), %s
for i = 1, #at, 2 do
  local k = at[i] %% math.min(#bytes, 4096) + 1
  local out = assert(io.open(file, "wb"))
  out:write(bytes:sub(1, k - 1), string.char(at[i + 1]), bytes:sub(k + 1))
  out:close()
  local wrong = check("models.load: ", heed.models.load, file, {mapped = i %% 4 == 1})
  if wrong then return wrong end
end
]]


---Damages a directory, loads it and uses it.
---@return string family
---@return string source
---@return string? why what is wrong
function directories.run(r, announce)
  local name = r:pick(NAMES)
  local list, before, size = files_of(name), files_of(name), 0
  assert(next(before), name)
  for _ = 1, r:integer(1, 3) do damage(r, list) end
  local parts = {}
  for file, text in pairs(list) do
    size = size + #text
    parts[#parts + 1] = ("[%q] = %s"):format(file, text == before[file] and "true"
                                                   or ("%q"):format(text))
  end
  table.sort(parts)
  local places = {}
  for i = 1, 16 do places[i] = r:integer(0, i % 2 == 0 and 255 or 1 << 20) end
  local source = LOAD:format(HERE .. name, place .. ".model", size,
                             "{" .. table.concat(parts, ", ") .. "}",
                             "{" .. table.concat(places, ", ") .. "}")
  announce(source)
  return "directories", source, check.run(source, true)
end


function directories.finish()
  os.remove(place)
  os.execute("rm -rf " .. place .. ".model")
end

return directories
