-- Refusals that say what to do: where the tensors of a state are, or why there are none; what to
-- write for options of PyTorch's; which layer takes too much memory.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local objects = require("spec.support.calls").objects
local nn, optim = heed.nn, heed.optim


local function stepped()
  local model = nn.Linear(2, 2)
  local opt = optim.Adam(model:parameters())
  for _, p in ipairs(model:parameters()) do p.grad = heed.ones_like(p) end
  opt:step()
  return model, opt
end


describe("load_state", function()
  it("says why heed.load gave nothing, of all that have a state", function()
    local model, opt = stepped()
    for _, object in ipairs{model, opt, optim.EMA(model), optim.Scaler(),
                            heed.data.batches(heed.zeros(2, 2))} do
      local why = message(function() object:load_state(heed.load("/nonexistent/a.safetensors")) end)
      assert.matches("load_state: load: /nonexistent/a.safetensors: cannot open: No such file", why)
      assert.matches("arguments? expected, got 5 as argument 3",
                     message(object.load_state, object, object:state(), nil, 5))
    end
  end)

  it("says that names stand behind another one", function()
    local model, opt = stepped()
    local all = {}
    for name, t in pairs(model:state()) do all["model." .. name] = t end
    for name, t in pairs(opt:state()) do all["optimizer." .. name] = t end
    assert.matches("these names stand there behind 'optimizer.', which their tensors are to be "
                   .. "given without$", message(opt.load_state, opt, all))
    assert.matches("behind 'model.', which", message(model.load_state, model, all))
    assert.matches("an optimiser's state has 'step', 'lr', and such names as 'exp_avg.1'$",
                   message(opt.load_state, opt, model:state()))
  end)
end)


describe("an option of other libraries' generate", function()
  it("is told as what to write, of any model and of one of a directory", function()
    local function plain() end
    local llama = assert(heed.models.load("spec/golden/gguf/llama.gguf"))
    for _, call in ipairs{
      function(o) return heed.generate(plain, {1}, o) end,
      function(o) return llama:generate({1}, o) end,
    } do
      assert.matches("generate: unknown option 'max_new_tokens'; write max = n",
                     message(call, {max_new_tokens = 3}))
      assert.matches("generate: unknown option 'do_sample'; write temperature = 1; the best id",
                     message(call, {do_sample = true}))
      assert.matches("generate: unknown option 'num_beams'; write beams = n",
                     message(call, {num_beams = 3}))
    end
  end)

  it("is told as what each of the two takes", function()
    local llama = assert(heed.models.load("spec/golden/gguf/llama.gguf"))
    local function of_ids(o) return heed.generate(llama, {1}, o) end
    local function of_texts(o) return llama:generate("a", o) end
    for _, case in ipairs{
      {of_texts, "eos_token_id", "ends = id, or a list of ids"},
      {of_texts, "streamer", "on_text = f"}, {of_texts, "stop_strings", "stop = text, or a list"},
      {of_ids, "eos_token_id", "stop = id, or a list of ids"}, {of_ids, "streamer", "on_token = f"},
      {of_ids, "on_text", "on_token = f; or call model:generate, which takes texts"},
      {of_ids, "stop_strings", "stop = f, of the new ids; or call model:generate, which takes"},
    } do
      assert.matches(("generate: unknown option '%s'; write %s"):format(case[2], case[3]),
                     message(case[1], {[case[2]] = 1}))
    end
    assert.matches("as prompt, got the string 'a'; model:generate takes texts, of a model of heed",
                   message(heed.generate, llama, "a"))
  end)
end)


describe("a name of transformers and sentence-transformers", function()
  local function refuses(hint, f, ...)
    assert.matches("write " .. hint, message(f, ...))
  end

  it("is told as what to write, where models are made", function()
    local load = "heed.models.load%(folder%)"
    refuses(load, function() return heed.from_pretrained end)
    refuses(load, function() return heed.models.from_pretrained end)
    refuses("heed.position.rope%(x%)", function() return heed.rope end)
    refuses("option rope = true of layers", function() return nn.RotaryEmbedding end)
    refuses('dtype = "bfloat16"', heed.models.load, "a", {torch_dtype = "auto"})
    refuses('quantize = "q8_0"', heed.models.load, "a", {load_in_8bit = true})
    refuses("lr = rate", optim.Adam, {heed.ones(1)}, {learning_rate = 1})
    refuses("lr = rate", optim.SGD, {{params = {heed.ones(1)}, learning_rate = 1}})
    refuses("vocabulary = n", heed.tokenizer.train, {kind = "bpe", vocab_size = 9})
  end)

  it("is told as what to write, where models are used", function()
    local bert = assert(heed.models.load("spec/golden/models/st/bert_concat"))
    local llama = assert(heed.models.load("spec/golden/gguf/llama.gguf"))
    local tok = bert.tokenizer
    refuses("model:embed%(texts%)", function() return bert:encode("a") end)
    refuses("tokenizer:encode%(text%)", function() return tok("a") end)
    refuses("keys = k, bool", bert, heed.tensor{{1, 2}}, {attention_mask = heed.ones(1, 2)})
    refuses("keys = k, bool", llama, heed.tensor{{1, 2}}, {attention_mask = heed.ones(1, 2)})
    refuses("special = false", tok.encode, tok, "a", {add_special_tokens = false})
    refuses("max = n", tok.encode, tok, "a", {max_length = 5})
    refuses("special = true", tok.decode, tok, {1}, {skip_special_tokens = false})
    refuses("prompt = true", llama.chat, llama, {}, {add_generation_prompt = true})
    refuses("ids = true", llama.chat, llama, {}, {tokenize = true})
    refuses("batch = n", bert.embed, bert, "a", {batch_size = 2})
    refuses("prompt = ", bert.embed, bert, "a", {prompt_name = "query"})
    refuses("dims = n", bert.embed, bert, "a", {truncate_dim = 4})
    refuses("batch = n", bert.embed, bert, "a", {batch_size = 2})
  end)
end)


describe("an option of PyTorch's attention", function()
  local q, x = heed.ones(1, 1, 2, 4), heed.ones(1, 2, 4)

  it("is told as what to write, in heed.attention and in layers", function()
    local calls = {
      attention = function(o) heed.attention(q, q, q, o) end,
      ["nn.MultiHeadAttention"] = function(o) nn.MultiHeadAttention(4, 2)(x, o) end,
      ["nn.EncoderLayer"] = function(o) nn.EncoderLayer(4, 2)(x, o) end,
      ["nn.Encoder"] = function(o) nn.Encoder(4, 2, 1)(x, o) end,
      ["nn.DecoderLayer"] = function(o) nn.DecoderLayer(4, 2)(x, x, o) end,
      ["nn.Transformer"] = function(o) nn.Transformer(4, 2, {layers = 1})(x, x, o) end,
    }
    for name, call in pairs(calls) do
      assert.matches(name .. ": unknown option 'attn_mask'; write mask = m, true",
                     message(call, {attn_mask = 1}))
      assert.matches(name .. ": unknown option 'is_causal'; write causal = true",
                     message(call, {is_causal = true}))
      assert.matches("attention: argument 'mask': a mask of heed.mask or a bool tensor expected, "
                     .. "got the string 'causal'; write causal = true, or mask = "
                     .. "heed.mask.causal%(%)",
                     message(call, {mask = "causal"}))
      assert.matches("argument 'mask': .*got a function; a call makes one: heed.mask.causal%(%)",
                     message(call, {mask = heed.mask.causal}))
      assert.matches("argument 'bias': .*got a function; a call makes one: heed.bias.alibi%(",
                     message(call, {bias = heed.bias.alibi}))
    end
    assert.matches("'key_padding_mask'; write mask = m of shape %(B, 1, 1, S%)",
                   message(calls.attention, {key_padding_mask = 1}))
    assert.matches("nn.Encoder: unknown option 'src_mask'; write mask = m of an encoder",
                   message(calls["nn.Encoder"], {src_mask = 1}))
    assert.matches("attention: unknown option 'sinks'; did you mean 'sink'?",
                   message(calls.attention, {sinks = 1}))
    assert.matches("unknown option 'foo'; there are mask, bias, lengths, causal, offset, scale, "
                   .. "softcap, sink, dropout, weights, lse, fused$",
                   message(calls.attention, {foo = 1}))
  end)
end)


describe("a name that PyTorch has for a type", function()
  it("is told as one type, as a value and as an option", function()
    for _, name in ipairs{"double", "float", "half", "long"} do
      local type = message(function() return heed[name] end):match('write "(%w+)"')
      assert.matches("did you mean '" .. type .. "'", message(heed.zeros, 1, {dtype = name}))
    end
  end)

  it("is told as one type where it is short, of tensors, modules and models", function()
    local x, layer = heed.ones(2), nn.Linear(2, 2)
    for name, type in pairs{f16 = "float16", fp16 = "float16", bf16 = "bfloat16", f32 = "float32",
                            fp32 = "float32", f64 = "float64", fp64 = "float64"} do
      local why = ("no type is called '%s'; did you mean '%s'?"):format(name, type)
      assert.matches("to: " .. why, message(x.to, x, name), 1, true)
      assert.matches("to: " .. why, message(layer.to, layer, name), 1, true)
      assert.matches("argument 'dtype': " .. why, message(heed.ones, 1, {dtype = name}), 1, true)
      assert.matches("models.load: float32, float64, float16 or bfloat16 expected as option dtype, "
                     .. "got the string '" .. name, message(heed.models.load, "a", {dtype = name}))
    end
    local model = assert(heed.models.load("spec/golden/models/st/model2vec"))
    local wanted = ": float32, float64, float16 or bfloat16 expected as option dtype, got %s$"
    for given, said in pairs{q8_0 = "the string 'q8_0'; %s", int64 = "the string 'int64'",
                             [5] = "5"} do
      local hint = said:format "option quantize = 'q8_0' puts weights into blocks"
      assert.matches("models.load" .. wanted:format(hint),
                     message(heed.models.load, "a", {dtype = given}))
      hint = said:format "model:quantize%('q8_0'%) makes blocks of weights before"
      assert.matches("models.save" .. wanted:format(hint),
                     message(heed.models.save, "a", model, {dtype = given}))
    end
    assert.matches("models.load: device 'cpu', .* expected, got 'gpu'$",
                   message(heed.models.load, "spec/golden/models/llama3", {device = "gpu"}))
    assert.matches("models.load: argument 'device': a device's name expected, got 5",
                   message(heed.models.load, "a", {device = 5}))
  end)
end)


describe("a text in the place of ids", function()
  it("is told by the model, with what takes texts", function()
    for name, class in pairs{["st/bert_concat"] = "Encoder", qwen2 = "Causal", bart = "Sequence",
                             ["st/model2vec"] = "Static"} do
      local m = assert(heed.models.load("spec/golden/models/" .. name))
      for text, got in pairs{a = "the string 'a'", [{"a", "b"}] = "a table"} do
        assert.matches(("models.%sModel: ids of shape %%(B, T%%) expected, got %s; "
                        .. "model.tokenizer:encode gives ids"):format(class, got),
                       message(m, text, class == "Sequence" and text or nil))
      end
    end
  end)
end)


describe("a number of columns that rope cannot turn", function()
  it("is told as such, with the fraction where there is one", function()
    local why = "an even number of columns (head_dim of attention), at least 2, expected, got 3"
    assert.matches(why .. "\n", message(heed.position.rope, heed.ones(3, 3)) .. "\n", 1, true)
    assert.matches(why, message(nn.MultiHeadAttention, 12, 4, {rope = true}), 1, true)
    assert.matches("got 3: 0.5 of 6", message(heed.position.rope, heed.ones(3, 6),
                                              {fraction = 0.5}), 1, true)
  end)
end)


describe("a path that is none of a folder", function()
  it("is told as a file's, or that of nothing", function()
    local model = assert(heed.models.load "spec/golden/models/qwen2")
    for _, of in ipairs{
      {heed.models.load, "models.load: ", "folder, or of a .gguf file,"},
      {heed.models.load_adapters, "models.load_adapters: ", "folder", model},
    } do
      local function why(path) return select(2, of[1](path, of[4])) end
      local file = "spec/golden/models/qwen2/model.safetensors"
      local none = ": there is no such folder; nothing is "
      assert.equal(of[2] .. file .. ": the path of a " .. of[3] .. " expected, got that of a file",
                   why(file))
      assert.equal(of[2] .. "a/model" .. none .. "downloaded", why "a/model")
      assert.equal(of[2] .. "~/model" .. none .. "downloaded, and '~' is a name as any other",
                   why "~/model")
    end
  end)
end)


describe("a method with a dot in the place of a colon", function()
  it("says what it expected, and how the call is written", function()
    for name, said in pairs{
      Cache = {"append", "a cache", "cache:append(...)"},
      Linear = {"apply", "a module", "m:apply(...)"},
      average = {"apply", "averages", "ema:apply(...)"},
      batches = {"load_state", "batches", "batches:load_state(...)"},
      constraint = {"over", "a constraint", "constraint:over(...)"},
      hook = {"remove", "a hook", "hook:remove()"},
      index = {"add", "an index", "index:add(...)"},
      optimizer = {"step", "an optimizer", "opt:step()"},
      picture = {"text", "a picture", "picture:text(...)"},
      plateau = {"update", "a plateau", "plateau:update(...)"},
      profile = {"plot", "a profile", "p:plot(...)"},
      scaler = {"scale", "a scaler", "scaler:scale(...)"},
      stream = {"push", "a stream", "stream:push(...)"},
      tokenizer = {"decode", "a tokenizer", "tok:decode(...)"},
      vocabulary = {"decode", "a vocabulary", "chars:decode(...)"},
    } do
      local object = objects[name]()
      assert.matches(("%s: %s expected as the first argument, got 5; write %s")
                     :format(said[1], said[2], said[3]),
                     message(object[said[1]], 5), 1, true)
    end
  end)
end)


describe("option quantize of models.load", function()
  it("leaves no view of the file, unless the caller wants views", function()
    local function loaded(o)
      o.quantize, o.device, o.packed = "q8_0", "cpu", false
      collectgarbage()
      collectgarbage()
      local before = heed.memory().live
      local model = assert(heed.models.load("spec/golden/models/electra", o))
      collectgarbage()
      collectgarbage()
      return heed.memory().live - before, model
    end
    local mapped = loaded{mapped = true}
    local own, model = loaded{}
    local rest = 0
    for _, p in ipairs(model:parameters()) do
      if p.dtype == "float32" then rest = rest + 4 * p:numel() end
    end
    assert.is_true(rest > 0)
    assert.is_true(own - mapped >= rest)
  end)

  it("compares the file's checksum, which views of it alone go without", function()
    local place <close> = directories.make "electra"
    local file = place.path .. "/model.safetensors"
    directories.write(file, directories.read(file):sub(1, -2) .. "x")
    assert.matches("checksum differs", select(2, heed.models.load(place.path, {quantize = "q8_0"})))
    assert(heed.models.load(place.path, {quantize = "q8_0", mapped = true}))
  end)

  it("raises what is no fault of the file as it came", function()
    local own = nn.Module.quantize
    nn.Module.quantize = function() error("mine", 0) end
    finally(function() nn.Module.quantize = own end)
    assert.equal("mine", message(heed.models.load, "spec/golden/models/electra",
                                 {quantize = "q8_0"}))
  end)

  it("is refused where no weight has rows of whole blocks", function()
    for path, said in pairs{
      ["st/model2vec"] = {"q8_0", "32 elements: 'words.weight' has rows of 20"},
      llama3 = {"q4_k", "256 elements: 'body.layers.1.attend.key.weight' has rows of 32"},
    } do
      local m, why = heed.models.load("spec/golden/models/" .. path, {quantize = said[1]})
      assert.is_nil(m)
      assert.matches(("models.load: spec/golden/models/%s: option quantize: no weight has rows of "
                      .. "whole blocks of '%s', which are of %s elements, no multiple of")
                     :format(path, table.unpack(said)), why, 1, true)
    end
  end)
end)


describe("a layer too large for the memory", function()
  it("is refused by its own name", function()
    for name, make in pairs {
      Linear = function() nn.Linear(1 << 29, 1 << 29) end,
      Embedding = function() nn.Embedding(1 << 29, 1 << 29) end,
      LayerNorm = function() nn.LayerNorm(1 << 58) end,
      MLP = function() nn.MLP(1 << 29, 1 << 29) end,
      MultiHeadAttention = function() nn.MultiHeadAttention(1 << 29, 2) end,
      EncoderLayer = function() nn.EncoderLayer(1 << 29, 2) end,
    } do
      assert.matches("nn." .. name .. ": ", message(make), 1, true)
    end
    local Own = nn.Linear:extend("Own")
    assert.matches("nn.Linear: ", message(Own, 1 << 29, 1 << 29), 1, true)
  end)
end)


describe("amounts of memory", function()
  it("have units up to the largest, and one byte is one", function()
    local limit = heed.memory().limit
    finally(function() heed.memory{limit = limit} end)
    assert.matches("limit 4.0 EiB$", tostring(heed.memory{limit = 1 << 62}))
    assert.matches("limit 1 byte$", tostring(heed.memory{limit = 1}))
    assert.matches("memory limit of 1 byte: ", message(heed.zeros, 1))
  end)
end)
