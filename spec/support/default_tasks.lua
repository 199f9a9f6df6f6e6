-- Cases of the defaults of data, tasks, generation, training and files: see
-- spec/support/default_ops.lua.

local heed = require "heed"
local nn = require "heed.nn"
local optim = require "heed.optim"
local options = require "heed.internal.options"
local plot = require "heed.plot"
local tasks = require "heed.tasks"

local data = heed.data
local cases = {}


-- Cases of a class of options: call(o) gets a table with the option, or an empty one.
local function class(name, call, others)
  for option, other in pairs(others) do
    cases[name .. "." .. option] = {function(value) return call({[option] = value}) end, other}
  end
end


-- Tasks ------------------------------------------------------------------------

local function batch(name)
  return function(o) return tasks[name](o)() end
end

class("heed.tasks.addition.options", batch "addition", {digits = 2, size = 50})
class("heed.tasks.counting.options", batch "counting",
      {more = 3, than = 5, digits = 8, length = 11, size = 50})
class("heed.tasks.patches.options", batch "patches", {side = 11, noise = 0.2, size = 50})
class("heed.tasks.classification.options", batch "classification", {length = 9, size = 50})
class("heed.tasks.tagging.options", batch "tagging", {length = 9, size = 50})
class("heed.tasks.masked.options", batch "masked", {rate = 0.2, size = 50})
class("heed.tasks.seq2seq.options", batch "seq2seq", {most = 998, rule = "dates", size = 50})
cases["heed.tasks.seq2seq.options.rule"].value = "numbers"

-- The tasks whose options are those of sequences.
class("heed.tasks.sequence.options", function(o)
  local all = {}
  for i, name in ipairs{"sorting", "copy", "reverse"} do all[i] = {tasks[name](o)()} end
  return all
end, {digits = 9, length = 9, size = 50})


-- Data -------------------------------------------------------------------------

local IDS <const> = heed.arange(200)

class("heed.data.mask.options", function(o)
  o.mask, o.vocabulary = 300, 250
  return data.mask(IDS:repeat_interleave(20), o)
end, {rate = 0.2, keep = 0.2, random = 0.2})

-- All batches of an epoch, and one more call, which a second epoch would answer.
class("heed.data.batches.options", function(o)
  local all, batches = {}, data.batches(IDS, o)
  for i = 1, 10 do all[i] = {batches()} end
  return all
end, {size = 30, shuffle = false, epochs = 2})

class("heed.data.windows.options", function(o) return data.windows(IDS, o)() end,
      {length = 63, size = 31})

-- The rows and the header of a file that both separators divide.
class("heed.data.csv.options", function(o)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write("a,b;c\n1,2;3\n")
  file:close()
  local read = table.pack(data.csv(path, o))
  os.remove(path)
  return read
end, {header = false, separator = ";"})
cases["heed.data.csv.options.separator"].value = ","

class("data.accuracy.given", function(o)
  local logits = heed.tensor{{{3.0, 4}, {0, 1}}, {{0, 1}, {3, 5}}}
  return data.accuracy(logits, heed.tensor{{2, 2}, {2, -100}}, o)
end, {ignore_index = 2, dim = 2})
cases["data.accuracy.given.ignore_index"][2] = -7          -- then -100 is refused

class("metrics.perplexity.given", function(o)
  local logits = heed.tensor{{{3.0, 4}, {0, 1}}, {{0, 1}, {3, 5}}}
  return data.perplexity(logits, heed.tensor{{2, 2}, {2, -100}}, o)
end, {ignore_index = 2, dim = 2})
cases["metrics.perplexity.given.ignore_index"][2] = -7

class("heed.metrics.options", function(o)
  local logits = heed.tensor{{{3.0, 4}, {0, 1}}, {{0, 1}, {3, 5}}}
  return data.confusion_matrix(logits, heed.tensor{{2, 2}, {2, -100}}, o)
end, {ignore_index = -7, dim = 2})
class("heed.metrics.averages.options", function(o)
  return data.precision({1, 1, 2, 2}, {1, 3, 3, 2}, o)
end, {average = "micro", zero_division = 0.5})

local LISTS <const> = {{5, 6}, {7}, {8, 9, 10}}

class("heed.pad.options", function(o) return heed.pad(LISTS, o) end,
      {value = -100, length = 4, side = "left"})
cases["heed.pad.options.length"].value, cases["heed.pad.options.side"].value = 3, "right"
cases["internal.pad.text"] = {function(value) return heed.pad(LISTS, {value = value}) end, 2,
                              value = 1}
cases["options.count.least"] = {function(value)
  local taken = {}
  for n = -1, 3 do taken[n] = pcall(options.count, "f", "n", n, value) end
  return taken
end, 0}


-- Generation -------------------------------------------------------------------

-- Logits that depend on the last id alone, without a clear best one.
local function model(ids)
  local x = ids:to("float32"):unsqueeze(-1) * heed.arange(7):to("float32") * 1.3
  return x:sin()
end

class("heed.generating.options", function(o)
  o.cache = false
  return heed.generate(model, {1, 2}, o)
end, {max = 99, temperature = 1})
cases["heed.generating.options.length_penalty"] = {function(value)
  local stop = function(ids) return #ids > 1 and ids[#ids] > 4 end
  return heed.generate(model, {1, 2}, {cache = false, beams = 3, max = 6, stop = stop,
                                      length_penalty = value})
end, 3}
cases["heed.sampling.options.temperature"] = {function(value)
  local logits = heed.arange(60):to("float32"):reshape(6, 10):sin()
  local ids, probabilities = heed.sample(logits, {temperature = value, probabilities = true})
  return ids, probabilities,
         heed.generate(model, {1}, {cache = false, max = 20, top_k = 5, temperature = value})
end, 0.9}


-- Pictures -----------------------------------------------------------------------

local HEAT <const> = {{1, 2}, {3, 7}}

class("heed.plot.heat", function(o) return plot.heat(HEAT, o):text(true, 60) end,
      {min = 0, max = 9})
cases["heed.plot.heat.min"].value, cases["heed.plot.heat.max"].value = 1, 7
-- Gnuplot's curve is smooth, the terminal's is not.
class("heed.plot.curve", function(o)
  local picture = plot.curve(IDS:to("float32"):sin(), o)
  return picture:text(true, 60), picture.lines[1][1].series[1].smooth
end, {every = 2, smooth = 20})
cases["heed.plot.curve.smooth"].value = 200 // 50
class("heed.plot.hist", function(o) return plot.hist(HEAT[2], o):text(true, 60) end,
      {bins = 3, max = 9, min = 0})
cases["heed.plot.hist.min"].value, cases["heed.plot.hist.max"].value = 3, 7
class("heed.plot.scatter", function(o)
  o.classes = {2, 4}
  return plot.scatter(HEAT[1], HEAT[2], o):text(true, 60)
end, {labels = {[2] = "a"}})
cases["heed.plot.scatter.labels"].value = {[2] = "2", [4] = "4"}
local HEADS <const> = heed.arange(24):view(3, 2, 4)
class("heed.plot.grid", function(o) return plot.grid(HEADS, o):text(true, 60) end,
      {across = 1, max = 30, min = 0, titles = {"a", "b", "c"}})
cases["heed.plot.grid.titles"].value = {"[1]", "[2]", "[3]"}
cases["heed.plot.grid.across"].value = 2
cases["heed.plot.grid.min"].value, cases["heed.plot.grid.max"].value = 1, 24
cases["Plot:text.colour"] = {function(value) return plot.heat(HEAT):text(value, 60) end, true,
                             value = tostring(plot.heat(HEAT)):find("\27", 1, true) ~= nil}
cases["Plot:text.colour"][2] = not cases["Plot:text.colour"].value
cases["Plot:text.columns"] = {function(value)
  return plot.curve(IDS:to("float32"):sin()):text(false, value)
end, 50, value = math.tointeger(tonumber(os.getenv "COLUMNS" or "")) or 80}

-- More operations than a printed profile has rows.
local PROFILE <const> = heed.profile(function()
  local x = heed.ones(2)
  for name in ("abs ceil cos erf exp floor gelu log neg reciprocal relu round rsqrt "
               .. "sigmoid sign silu sin softplus sqrt square tanh trunc"):gmatch "%l+" do
    x[name](x)
  end
end)
cases["Profile:text.most"] = {function(value)
  return select(2, PROFILE:text(value):gsub("\n", ""))
end, 3}
cases["Profile:plot.most"] = {function(value)
  return PROFILE:plot("operations", value).lines[1][1].x.count
end, 3}


-- Training and files -------------------------------------------------------------

-- The losses of a run over batches of numbers.
local function trained(o)
  local layer = nn.Linear(1, 1)
  local n = 0
  o.model, o.optimizer = layer, optim.SGD(layer:parameters(), {lr = 0.01})
  o.loss = function(y, x) return (y - 2 * x):pow(2):mean() end
  o.batches = function()
    n = n + 1
    if n <= 6 then return heed.full({2, 1}, 0.01 * n), heed.full({2, 1}, 0.01 * n) end
  end
  o.print = false
  local run = heed.train(o)
  return run.losses, run.steps, layer.weight:detach()
end

-- The steps of validations, of 102 steps.
class("heed.train.validate.options", function(o)
  local layer = nn.Linear(1, 1)
  o.loss = function(step) return step end
  return heed.train{
    model = layer, optimizer = optim.SGD(layer:parameters(), {lr = 1e-5}), steps = 102,
    batches = function() return heed.ones(1, 1) end, loss = function(y) return y:sum() end,
    print = false, validate = o,
  }.validation.steps
end, {every = 2})

class("heed.train.options", trained, {accumulate = 2, steps = 3})
cases["heed.train.options.steps"].value = 6                  -- the batches that there are
cases["heed.train.options.scaler"] = {function(value)
  return trained{autocast = "float16", scaler = value and optim.Scaler{init_scale = value}}
end, 1e38, value = 65536}

-- The steps after which a checkpoint is written.
cases["heed.train.options.every"] = {function(value)
  local path, saved = os.tmpname(), {}
  local layer = nn.Linear(1, 1)
  local function stamp()
    local tensors = heed.load(path)
    return tensors and tensors["model.weight"] and tensors["model.weight"]:item()
  end
  heed.train{
    model = layer, optimizer = optim.SGD(layer:parameters(), {lr = 1e-5}), steps = 1005,
    batches = function() return heed.ones(1, 1) end, loss = function(y) return y:sum() end,
    print = false, checkpoint = path, every = value,
    on_step = function(step) if step % 100 < 2 then saved[#saved + 1] = stamp() or false end end,
  }
  os.remove(path)
  return saved
end, 100}

cases["M.load.given.device"] = {function(value)
  local path = os.tmpname() .. ".npy"
  heed.save(path, heed.ones(2))
  local t = heed.load(path, {device = value})
  os.remove(path)
  return t.device, t
end, value = heed.default_device(), same = true}

-- A file whose numbers no longer have their checksum.
cases["M.load.given.verify"] = {function(value)
  local path = os.tmpname()
  heed.save(path, {x = heed.ones(2)})
  local file = assert(io.open(path, "r+b"))
  file:seek("end", -1)
  file:write "\x40"
  file:close()
  local tensors = heed.load(path, {verify = value})
  os.remove(path)
  return tensors and tensors.x
end, false, value = true}

-- The bytes of tensors that count as memory.
cases["M.load.given.mapped"] = {function(value)
  local path, n <const> = os.tmpname(), 1 << 18
  heed.save(path, {x = heed.ones(n)})
  collectgarbage()
  collectgarbage()
  local before = heed.memory().live
  local tensors = heed.load(path, {mapped = value})
  os.remove(path)
  return heed.memory().live - before < n, tensors.x:sum()
end, true, value = false}


-- Tokenizers -------------------------------------------------------------------

local function tokenizer()
  return assert(heed.tokenizer.load "spec/golden/tokenizers/bpe_llama3")
end

class("heed.Tokenizer.encode.options", function(o)
  return tokenizer():encode("a text <|eot_id|>", o)
end, {special = false, parse = true})

cases["heed.Tokenizer.encode.options.offsets"] = {function(value)
  return select("#", tokenizer():encode("a text", {offsets = value}))
end, true}

cases["heed.Tokenizer.encode.options.types"] = {function(value)
  return select("#", tokenizer():encode("a text", {types = value}))
end, true}

cases["heed.tokenizer.train.options.least"] = {function(value)
  return #heed.tokenizer.train{kind = "bpe", text = "aa ab ab", vocabulary = 300, least = value}
end, 1}

local function pieces(name, value, text)
  local o = {kind = "wordpiece", text = text, vocabulary = 5000, [name] = value}
  local tok = heed.tokenizer.train(o)
  return #tok, tok:id "A"
end

cases["heed.tokenizer.train.options.lower"] = {function(value)
  return pieces("lower", value, "A a")
end, false}

cases["heed.tokenizer.train.options.characters"] = {function(value)
  local list = {}
  for i = 1, 1100 do list[i] = utf8.char(0x4e00 + i) end
  return pieces("characters", value, table.concat(list))
end, 1050}

cases["Tokenizer:stream.given.special"] = {function(value)
  return tokenizer():stream({special = value}):push(683)
end, true}

cases["Tokenizer:decode.given.special"] = {function(value)
  return tokenizer():decode({683}, {special = value})
end, true}


-- Models and search ----------------------------------------------------------------

local function published(name)
  return assert(heed.models.load("spec/golden/models/st/" .. name))
end

-- How often a model of pairs is called for 40 of them.
cases["heed.models.score.options.batch"] = {function(value)
  local m, calls, texts = published "cross_encoder", 0, {}
  m.words:register_forward_hook(function() calls = calls + 1 end)
  for i = 1, 40 do texts[i] = "a" end
  m:score("q", texts, {batch = value})
  return calls
end, 10}

cases["heed.models.score.options.parse"] = {function(value)
  return published("cross_encoder"):score("q", "a [SEP] b", {parse = value})
end, false}

cases["heed.models.ids.options.parse"] = {function(value)
  return #published("bert_concat"):ids("a [SEP] b", {parse = value})
end, false}

cases["heed.models.embed.options.parse"] = {function(value)
  return published("bert_concat"):embed("a [SEP] b", {parse = value})
end, false}

cases["heed.models.save.options.replace"] = {function(value)
  local path, m = os.tmpname(), published "model2vec_int8"
  os.remove(path)
  assert(heed.models.save(path, m))
  assert(heed.save(path .. "/model.safetensors", {}))
  local done = heed.models.save(path, m, {replace = value})
  os.execute("rm -r " .. path)
  return done
end, true}

cases["M.save_adapters.given.replace"] = {function(value)
  local path, m = os.tmpname(), published "cross_encoder"
  os.remove(path)
  nn.lora(m, {rank = 1})
  assert(heed.models.save_adapters(path, m))
  assert(heed.save(path .. "/adapter_model.safetensors", {}))
  local done = heed.models.save_adapters(path, m, {replace = value})
  os.execute("rm -r " .. path)
  return done
end, true}

local VECTORS <const> = heed.tensor{{1.0, 2.0}, {9.0, 1.0}, {-3.0, 0.5}}

cases["M.similarity.given.similarity"] = {function(value)
  return heed.search.similarity(VECTORS, VECTORS, {similarity = value})
end, "dot", value = "cosine"}

class("heed.search.index.options", function(o)
  o.dim = 2
  return tostring(heed.search.index(o))
end, {kind = "int8", similarity = "dot"})
cases["heed.search.index.options.kind"].value = "float32"
cases["heed.search.index.options.similarity"].value = "cosine"

local function bits(n, dim)
  heed.manual_seed(1)
  local index, keys = heed.search.index{dim = dim, kind = "bits"}, {}
  for i = 1, n do keys[i] = i end
  return index:add(keys, heed.randn(n, dim)), heed.randn(dim)
end

cases["heed.search.query.options.rescore"] = {function(value)
  local index, query = bits(200, 64)
  return (index:query(query, 5, {rescore = value}))
end, 40}

cases["Index:query.k"] = {function(value)
  local index, query = bits(20, 8)
  return (index:query(query, value))
end, 9}

local function live()
  collectgarbage()
  collectgarbage()
  return heed.memory().live
end

-- Whether the vectors of an index, of 80 KB, count as memory.
cases["heed.search.load.options.mapped"] = {function(value)
  local path = os.tmpname()
  assert(heed.search.index{dim = 20000}:add("a", heed.ones(20000)):save(path .. ".index"))
  local before = live()
  local index = assert(heed.search.load(path .. ".index", {mapped = value}))
  local more = live() - before
  os.remove(path)
  os.remove(path .. ".index")
  return more < 40000, #index
end, true}


return cases
