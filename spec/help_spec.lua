-- heed.help, printed modules and tables of memory, and the reader of the reference.

local classes = require "heed.internal.classes"
local core = require "heed.core"
local heed = require "heed"
local message_of = require "spec.support.message"
local reference = require "heed.internal.reference"
local synonyms = require "heed.internal.synonyms"

-- The output of heed.help.
local function said(...)
  local usual, lines, args = print, {}, table.pack(...)
  rawset(_G, "print", function(line) lines[#lines + 1] = line end)
  local good, why = pcall(heed.help, table.unpack(args, 1, args.n))
  rawset(_G, "print", usual)
  assert(good, why)
  return table.concat(lines, "\n")
end


local function text_of(name)
  local path = package.searchpath(name, package.path)
  return path and core.read_file(path)
end

-- The reference's entries, and its classes.
local function written()
  local groups, _, known = reference.all(heed, text_of)
  local entries = {}
  for _, group in ipairs(groups) do table.move(group, 1, #group, #entries + 1, entries) end
  return entries, known
end


describe("heed.help", function()
  it("lists all there is, in groups", function()
    local text = said()
    for _, name in ipairs {"Reductions", "softmax", "heed.nn\n", "Linear", "clip_grad_norm"} do
      assert.is_truthy(text:find(name, 1, true), name)
    end
    for line in text:gmatch("[^\n]+") do assert.is_true(#line <= 80, line) end
    assert.equal(text, said(heed))
  end)

  it("prints signature, text and example of a function, by its names and by itself", function()
    local text = said("softmax")
    assert.matches("^x:softmax%(dim, dtype%?%)\n    e%^x / sum of e%^x", text)
    assert.matches("dim  integer", text)
    assert.matches("\n    > heed.tensor", text)
    for _, name in ipairs {"heed.softmax", "x:softmax"} do assert.equal(text, said(name)) end
    for _, f in ipairs {heed.softmax, heed.ones(1).softmax} do
      assert.equal(text, said(f) .. "\nSee also log_softmax nn.LogSoftmax nn.Softmax")
    end
    assert.matches("^x:relu%(%)", said("relu_"))
    for _, name in ipairs{"neg", "fill"} do assert.equal(said(name), said(name .. "_")) end
    assert.matches("Also .*neg_", said("neg"))
    assert.matches("^heed.cuda.memory%(device%?%)", said("cuda.memory"))
  end)

  it("prints classes, and modules as lists", function()
    local text = said("nn.Linear")
    assert.matches("^heed.nn.Linear%(inputs, outputs, options%?%)\n    y = x W%^T", text)
    for _, what in ipairs {heed.nn.Linear, heed.nn.Linear(1, 1)} do
      assert.equal(said(what), text:sub(1, #said(what)))
    end
    assert.matches("`heed.leaky_relu` as a layer", said("LeakyReLU"))
    assert.equal(said(heed.optim), said("optim"))
    assert.matches("^heed.optim\nheed.optim.Adam%(parameters, options%?%)\n    Adam; its",
                   said("optim"))
    assert.matches("module:parameters%(%)\n    All parameters", said("nn"))
    assert.matches("^heed.train\nheed.train%(options%)\n", said(heed.train))
  end)

  it("prints how an object is made, and its methods", function()
    local p = heed.nn.Parameter(heed.ones(1))
    local text = said(heed.optim.Lion{p})
    for _, line in ipairs{"heed.optim.Lion(parameters, options?)", "optimizer:step()",
                          "optimizer:zero_grad(options?)"} do
      assert.is_truthy(("\n" .. text):find("\n" .. line .. "\n    ", 1, true), line)
    end
    text = said(heed.search.index{dim = 2})
    assert.matches("^heed.search.index%(options%)\n.*\nindex:add%(keys, vectors%)\n", text)
    text = said(heed.optim.plateau())
    assert.matches("^heed.optim.plateau%(options%?%)\n.*\n        patience%?  integer .*\n"
                   .. "plateau:update%(value%)\n", text)
    text = said((heed.profile(function() end)))
    assert.matches("^heed.profile%(f, ...%)\n", text)
    assert.matches("^heed.optim.EMA.*\nema:update", said(heed.optim.EMA{p}))
    for _, other in ipairs{setmetatable({}, {__name = "Optimizer"}),
                           heed.nn.Module:extend("Plateau")()} do
      assert.matches("help: .*expected, got", message_of(heed.help, other))
    end
  end)

  it("shows the options, also those that others inherit, and how objects are called", function()
    local text = said("generate")
    assert.matches("\n      options%?  heed.generate.options\n        stop%?  integer|", text)
    assert.matches("\n        max%?  integer how many ids at most", text)
    assert.matches("\n        top_p%?  number only the smallest", text)
    assert.matches("a list of ids, or a\n          list of such for several prompts\n", text)
    assert.is_nil(text:find("history?", 1, true))
    assert.matches("layer_dropout%?.*qk_norm%?.*\n    encoder%(x, options%?%).*\n        cache%?",
                   said("nn.Encoder"))
    assert.matches("^heed.data.chars%(texts, options%?%).*\n        unknown%?", said("data.chars"))
    for _, name in ipairs {"train", "tasks.sorting", "nn.Cache", "optim.Lion", "attention"} do
      assert.matches("\n      options%??  heed%.[%w%.]+\n        [%w_]+%??  ", said(name))
    end
  end)

  it("has those of a model by the object", function()
    local model = said(heed.models.load "spec/golden/models/llama3")
    assert.matches("^a model, with these methods\n", model)
    assert.matches("model:embed ", model)
    assert.matches("module:state ", model)
  end)

  it("lists the options that model:generate takes, and no others", function()
    local model, text = heed.models.load "spec/golden/models/llama3", said("model:generate")
    local function why(name) return message_of(model.generate, model, {1}, {[name] = false}) end
    local count = 0
    for name in text:gmatch "\n        ([%w_]+)%?  " do
      local good, answer = pcall(model.generate, model, {1}, {[name] = {}, max = 0})
      assert.is_true(good or not answer:find("unknown option", 1, true), answer)
      count = count + 1
    end
    assert.is_true(count > 20)
    for name in why("xyzzy"):match("there are (.*)$"):gmatch "[%w_]+" do
      assert.matches("[%s,]" .. name .. "[%s,?]", text .. "\n")
    end
    assert.matches("unknown option 'lengths'; write nothing: prompts of a list", why "lengths")
    for _, name in ipairs{"context", "context_lengths"} do
      assert.matches("'" .. name .. "'; write nothing: a model with an encoder makes it",
                     why(name), 1, true)
    end
  end)

  it("has the methods of models", function()
    assert.matches("^model:embed%(%w+, options%?%)\n    Vectors of texts", said("model:embed"))
    local text = said("models")
    for _, name in ipairs{"model:embed", "causalmodel:hidden", "encodermodel:hidden",
                          "sequencemodel:decode", "dualmodel:texts", "visionmodel:hidden"} do
      assert.is_truthy(text:find("\n" .. name .. "(", 1, true), name)
    end
  end)

  it("has the methods of all modules by the name of one", function()
    assert.matches("^module:state%(%)\n", said("lora:state"))
    assert.matches("^lora:merge%(%)\n", said("lora:merge"))
  end)

  it("finds words, in names before texts", function()
    assert.matches("^x:scatter_add%(", said("scatter_ad"))
    assert.matches("x:logaddexp%(other%).*x:logsumexp", said("overflow"))
    assert.matches("^heed.optim.clip_grad_norm%(", said("grad norm"))
    assert.matches("x:logaddexp%(other%).*x:logsumexp.*x:log_softmax", said("LOG without overflow"))
  end)

  it("finds options, and shows them", function()
    for name, entry in pairs{temperature = "sample", top_p = "generate", betas = "optim%.Lion"} do
      assert.matches("heed%." .. entry .. "%b()\n[^\n]*\n      " .. name .. "%?  %w+", said(name))
    end
    assert.matches("heed.train%(options%)\n[^\n]*\n      accumulate%?  integer batches",
                   said("gradient accumulation"))
    assert.matches("x:cross_entropy%b()\n[^\n]*\n      label_smoothing%?  number",
                   said("label smoothing"))
    assert.matches("x:sum%b()\n[^\n]*\n      keepdim%?  boolean", said("keepdim"))
  end)

  it("finds the field's words for what has another name", function()
    assert.matches("^heed.nn.Cache%(", said("KV cache"))
    assert.matches("^heed.plot.heat%(", said("heatmaps"))
    assert.matches("^heed.optim.Adam%(.-\n      lr%?  number 0.001 unless given\n",
                   said("learning rate"))
    assert.matches("^heed.position.rope%(", said("rotary"))
    assert.matches("\n      kv_heads%?  integer", said("grouped query"))
    assert.matches("\n      memory%?  integer.*\n", said("memory tokens"))
    assert.matches("^heed.nn.Parameter%(", said("tied weights"))
    assert.matches("^heed.optim.warmup%(", said("warm-up"))
    for _, words in ipairs{"top-p", "temperature sampling", "top-k sampling"} do
      assert.matches("^heed.generate%(", said(words))
      assert.matches("\nheed.sample%(", said(words))
    end
    assert.matches("nothing is written about 'profile:plot'", message_of(heed.help, "profile:plot"))
    assert.matches("nothing is written about 'zzqq xxyy'", message_of(heed.help, "zzqq xxyy"))
    local names, entries, known = {}, written()
    for _, entry in ipairs(entries) do
      names[entry.path] = true
      for _, of in ipairs{entry, entry.called} do
        for _, param in ipairs(of.params) do
          for _, field in ipairs(classes.fields(known, param.type)) do names[field.name] = true end
        end
      end
    end
    for phrase, meant in pairs(synonyms) do
      assert.equal(phrase, phrase:lower())
      for _, name in ipairs(meant) do assert.is_true(names[name], phrase .. ": " .. name) end
    end
  end)

  it("says what is written in place of PyTorch's names", function()
    assert.matches("^for state_dict of PyTorch: m:state%(%)\nfor state_dict of PyTorch: opt:state",
                   said("state_dict"))
    assert.matches("^for torch.svd of PyTorch: your own: heed has no", said("torch.svd"))
  end)

  it("prints so many, and how many it left out", function()
    local text = said("the")
    local _, found = text:gsub("\n[%w_.:]+%b()", "")
    assert.equal(23, found)
    assert.matches("\nand %d+ more; a further word leaves fewer$", text)
  end)

  it("says nothing of others where it left none out, and says it of one", function()
    local file <close> = assert(io.open "lua/heed/meta.lua")
    local tried, left, whole, but_one = {}, 600, false, false
    for word in file:read("a"):gmatch "%f[%a]%l%l%l%l+%f[%A]" do
      for _, other in ipairs{"", " tensor", " list", " number"} do
        if tried[word .. other] or left == 0 or whole and but_one then break end
        local found, text = pcall(said, word .. other)
        tried[word .. other], left = true, left - 1
        if found then
          assert.is_nil(text:find("and 0 more", 1, true), word)
          local printed = select(2, ("\n" .. text):gsub("\n%S", ""))
          whole = whole or printed == 24                         -- as many as a search prints
          but_one = but_one or text:find("\nand 1 more; ", 1, true) ~= nil
        end
      end
    end
    assert.same({true, true}, {whole, but_one})
  end)

  it("shows results", function()
    assert.matches("\n      %->  heed.Tensor\n", said("softmax"))
    assert.matches("\n      %->  string%[%]%? unexpected\n", said("module:load_state") .. "\n")
    assert.matches("\n    multiheadattention%(.*\n      %->  heed.Tensor",
                   said("nn.MultiHeadAttention"))
  end)

  it("gives parameters the names of the call", function()
    local function check(entry)
      local names = {}
      for i, param in ipairs(entry.params) do names[i] = param.name end
      assert.equal((entry.call:match("%((.*)%)$"):gsub("?", "")), table.concat(names, ", "),
                   entry.path)
    end
    local entries = written()
    assert.is_true(#entries > 300)
    for _, entry in ipairs(entries) do
      check(entry)
      if entry.called then check(entry.called) end
    end
  end)

  it("has the methods of a tensor, and each name once", function()
    local text = said(heed.ones(2))
    assert.matches("^a tensor, with these methods\n", text)
    assert.matches("\nViews: they share the memory\n  view reshape ", text)
    assert.is_nil(text:find("einsum", 1, true))
    local all = said()
    assert.matches("\nElementwise, of three\n  where lerp ", all)
    assert.is_nil(all:find("%lmodel:"))
    assert.matches("model:hidden model:means model:ids", all)
    text = said("model:hidden")
    for _, class in ipairs{"static", "causal", "encoder", "sequence", "vision"} do
      assert.is_truthy(text:find(class .. "model:hidden(", 1, true), class)
    end
  end)

  it("refuses what nothing is written about", function()
    assert.matches("about 'temperture'; did you mean 'temperature'%?",
                   message_of(heed.help, "temperture"))
    assert.matches("help: nothing is written about 'sofmax'; did you mean 'softmax'%?",
                   message_of(heed.help, "sofmax"))
    assert.matches("help: a name, or a function or a class of heed's, expected, got 3",
                   message_of(heed.help, 3))
    assert.matches("help: .*expected, got a function", message_of(heed.help, print))
    assert.matches("help: at most 1", message_of(heed.help, "softmax", 2))
  end)
end)


describe("print", function()
  it("shows modules by their names", function()
    assert.matches("^heed 0.1: .*\n.*functions.*\n.*modules .* nn .*\nheed.help%(%)",
                   tostring(heed))
    assert.matches("^heed.nn\n  .*Linear.*\nheed.help%(\"nn\"%) says more$", tostring(heed.nn))
    assert.matches("^heed.optim\n", tostring(heed.optim))
  end)

  it("shows memory in words, whose numbers are still there", function()
    local memory = heed.memory()
    assert.matches("^live %d[%d.]* %a+, cached .*, peak .*, limit [%d.]+ %ai?B$", tostring(memory))
    assert.equal("integer", math.type(memory.live))
    local names = {}
    for name in pairs(memory) do names[#names + 1] = name end
    table.sort(names)
    assert.same({"cached", "limit", "live", "other", "peak"}, names)
  end)
end)


describe("the reader of comments", function()
  it("lists what has none", function()
    local texts = {
      heed = 'local functions = {f = "f", g = "g"}\nlocal parts = {m = "m"}', ["heed.meta"] = "",
      ["heed.f"] = "local function f() end\nreturn f",
      ["heed.g"] = "---Text.\nlocal function g() end\nreturn g",
      ["heed.m"] = "local m = {}\nfunction m.h() end\nreturn m",
    }
    local functions = {f = function() end, g = function() end, m = {h = function() end}}
    local _, missing = reference.all(functions, function(name) return texts[name] end)
    assert.same({"f", "m.h"}, missing)
  end)

  local blocks = reference.blocks [[
-- A section ------------------

---Text. More of it,
---in two lines.
---> example == 1
---@param x integer what it is
---@param given? {a: integer}
---@return integer
function M.f(x, given, ...)
end

---A class.
---@class heed.Thing: heed.Module
---@overload fun(a: integer, o?: {b: boolean}): heed.Thing
local Thing = Module:extend("Thing")

---@private
function Thing:hidden() end

---Left alone.

local x = 1
]]

  it("finds them with what they are about", function()
    assert.equal(3, #blocks)
    local f, thing, hidden = table.unpack(blocks)
    assert.same({"A section", "M", "f", {"example == 1"}}, {f.section, f.owner, f.name, f.examples})
    assert.equal("Text.", reference.sentence(table.concat(f.text, "\n")))
    assert.same({"x", "options"}, {f.params[1].name, f.params[2].name})
    assert.is_true(f.params[2].optional)
    assert.same({name = "", optional = false, type = "integer"}, f.returns[1])
    assert.same({"Thing", "heed.Thing"}, {thing.name, thing.class})
    assert.is_true(hidden.hidden)
  end)
end)
