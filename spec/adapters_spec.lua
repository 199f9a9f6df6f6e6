-- heed.models.load_adapters and save_adapters: PEFT's directories beside the logits that PEFT
-- computes (bench/adapters.py), back into directories, and what is refused.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local near = require "spec.support.near"
local nn = require "heed.nn"

local MODELS <const>, GOLDEN <const> = directories.HERE, "spec/golden/models/adapters/"
local CONFIG <const>, WEIGHTS <const> = "/adapter_config.json", "/adapter_model.safetensors"
local free, read, write = directories.free, directories.read, directories.write


local function model(name) return assert(heed.models.load(MODELS .. name, {dtype = "float32"})) end

-- A model with adapters that are not 0, and those.
local function adapted(name, options)
  local m = model(name)
  local adapters = nn.lora(m, options)
  heed.no_grad(function()
    for _, p in adapters:named_parameters() do p:normal_(0, 0.3) end
  end)
  return m, adapters
end

-- A copy of PEFT's directory whose configuration or tensors a function has changed.
local function changed(name, change)
  local place = free()
  assert(os.execute(("cp -r %s%s %s"):format(GOLDEN, name, place.path)))
  local c = json.decode(read(place.path .. CONFIG))
  local tensors = assert(heed.load(place.path .. WEIGHTS))
  change(c, tensors)
  write(place.path .. CONFIG, json.encode(c))
  assert(heed.save(place.path .. WEIGHTS, tensors))
  return place
end

local function expected(name)
  local e = assert(heed.load(GOLDEN .. name .. "/expect.safetensors"))
  return e.ids + 1, e.logits
end


describe("models.load_adapters", function()
  for _, name in ipairs{"qwen2", "gpt2"} do
    it("gives PEFT's logits, adapters beside and merged: " .. name, function()
      local m, ids, logits = model(name), expected(name)
      local adapters = assert(heed.models.load_adapters(GOLDEN .. name, m))
      near(logits, m(ids), 0, 3e-5)
      adapters:merge()
      near(logits, m(ids), 0, 3e-5)
    end)

    it("writes what was read: " .. name, function()
      local m, place <close> = model(name), free()
      assert(heed.models.load_adapters(GOLDEN .. name, m))
      assert.is_true(heed.models.save_adapters(place.path, m))
      local tensors, metadata = heed.load(place.path .. WEIGHTS)
      assert.equal("pt", metadata.format)
      for key, t in pairs(assert(heed.load(GOLDEN .. name .. WEIGHTS))) do
        assert.is_true(t:equal(tensors[key]), key)
        tensors[key] = nil
      end
      assert.is_nil(next(tensors))
    end)
  end

  it("trains the adapters alone, with dropout, on weights in blocks too", function()
    local m = assert(heed.models.load(MODELS .. "qwen2", {dtype = "float32"}))
    assert(m:quantize "q8_0")
    local adapters, ids = assert(heed.models.load_adapters(GOLDEN .. "qwen2", m)),
                          expected "qwen2"
    for path, p in m:named_parameters() do
      assert.equal(path:find("adapter", 1, true) ~= nil, p.requires_grad, path)
    end
    m(ids):sum():backward()
    for _, p in adapters:named_parameters() do assert.is_true(p.grad:abs():max():item() > 0) end
    local gpt2 = model "gpt2"
    assert(heed.models.load_adapters(GOLDEN .. "gpt2", gpt2))
    assert.equal(0.25, gpt2.body.layers[1].attend.query.adapter.dropout.p)
  end)

  it("reads ranks and alphas of single modules, and scales of the root of the rank", function()
    local place <close> = changed("qwen2", function(c, tensors)
      c.rank_pattern = {["0.mlp.down_proj"] = 1}
      c.alpha_pattern = {down_proj = 7, ["0.mlp.down_proj"] = 3}
      c.use_rslora = true
      local name = "base_model.model.model.layers.0.mlp.down_proj.lora_"
      tensors[name .. "A.weight"] = tensors[name .. "A.weight"]:narrow(1, 1, 1):contiguous()
      tensors[name .. "B.weight"] = tensors[name .. "B.weight"]:narrow(2, 1, 1):contiguous()
    end)
    local m = model "qwen2"
    assert(heed.models.load_adapters(place.path, m))
    local layers = m.body.layers
    assert.equal(3, layers[1].mlp.down.adapter.scale)
    assert.equal(7 / 3 ^ 0.5, layers[2].mlp.down.adapter.scale)
    assert.equal(5 / 3 ^ 0.5, layers[1].attend.query.adapter.scale)
  end)

  it("has PEFT's defaults where the configuration is silent", function()
    local place <close> = changed("qwen2", function(c, tensors)
      c.r, c.lora_alpha, c.lora_dropout = nil, nil, nil
      for name, t in pairs(tensors) do
        local axis = name:find "lora_A" and 1 or 2
        local sizes = {t:size(1), t:size(2)}
        sizes[axis] = 8
        tensors[name] = heed.ones(sizes)
      end
    end)
    local m = model "qwen2"
    assert(heed.models.load_adapters(place.path, m))
    local adapter = m.body.layers[1].mlp.down.adapter
    assert.same({8, 1, 0}, {adapter.up:size(2), adapter.scale, adapter.dropout.p})
  end)

  it("takes the least and the most of each number", function()
    local place <close> = changed("qwen2", function(c) c.lora_alpha, c.lora_dropout = 0, 1 end)
    local m = model "qwen2"
    assert(heed.models.load_adapters(place.path, m))
    local adapter = m.body.layers[1].mlp.down.adapter
    assert.same({0, 1}, {adapter.scale, adapter.dropout.p})
  end)

  it("takes whatever adapters began as beside the model's weights", function()
    for _, begun in ipairs{true, false, "gaussian", "eva", "orthogonal"} do
      local place <close> = changed("qwen2", function(c)
        c.init_lora_weights, c.loftq_config = begun, {}
      end)
      assert(heed.models.load_adapters(place.path, model "qwen2"))
    end
  end)

  it("says what is wrong with a file of tensors", function()
    local place <close> = changed("qwen2", function() end)
    write(place.path .. WEIGHTS, "no tensors")
    assert.matches("adapter_model.safetensors: .*header",
                   select(2, heed.models.load_adapters(place.path, model "qwen2")))
    local array <close> = free()
    assert(heed.save(array.path .. ".npy", heed.ones(2)))
    assert(os.rename(array.path .. ".npy", place.path .. WEIGHTS))
    assert.matches("adapter_model.safetensors: tensors by names expected",
                   select(2, heed.models.load_adapters(place.path, model "qwen2")))
    os.remove(place.path .. WEIGHTS)
    assert.matches("adapter_model.safetensors: .*No such file",
                   select(2, heed.models.load_adapters(place.path, model "qwen2")))
  end)

  it("finds names with the prefixes of the family's other classes", function()
    for _, prefix in ipairs{"", "language_model.model.", "model.language_model."} do
      local place <close> = changed("qwen2", function(_, tensors)
        local list = {}
        for name in pairs(tensors) do list[#list + 1] = name end
        for _, name in ipairs(list) do
          local other = name:gsub("^base_model%.model%.model%.", "base_model.model." .. prefix)
          tensors[other], tensors[name] = tensors[name], nil
        end
      end)
      local m, ids, logits = model "qwen2", expected "qwen2"
      assert(heed.models.load_adapters(place.path, m))
      near(logits, m(ids), 0, 3e-5)
    end
  end)

  local DOWN <const> = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

  for _, case in ipairs{
    {"another kind", function(c) c.peft_type = "IA3" end,
     'peft_type is "IA3", and heed reads "LORA"'},
    {"biases", function(c) c.bias = "all" end, 'bias is "all", and heed reads "none"'},
    {"DoRA", function(c) c.use_dora = true end,
     'heed does not know "use_dora", which is not empty'},
    {"whole modules", function(c) c.modules_to_save = {"lm_head"} end, '"modules_to_save"'},
    {"what is new", function(c) c.twist = 1 end, '"twist"'},
    {"a rank of a half", function(c) c.r = 0.5 end,
     "a whole number of at least 1 expected as r, got 0.5"},
    {"an alpha of text", function(c) c.lora_alpha = "x" end,
     "a number of at least 0 expected as lora_alpha, got the string 'x'"},
    {"a rank of 0", function(c) c.r = 0 end, "at least 1 expected as r, got 0"},
    {"an alpha below 0", function(c) c.lora_alpha = -1 end,
     "a number of at least 0 expected as lora_alpha, got %-1"},
    {"dropout below 0", function(c) c.lora_dropout = -1 end,
     "a number from 0 to 1 expected as lora_dropout, got %-1"},
    {"dropout beyond 1", function(c) c.lora_dropout = 2 end,
     "a number from 0 to 1 expected as lora_dropout, got 2"},
    {"a pattern", function(c) c.rank_pattern = {["layers%.[01]"] = 2} end, "a regular expression"},
    {"a pattern's text", function(c) c.alpha_pattern = {q_proj = "x"} end,
     "at least 0 expected as q_proj"},
    {"a pattern that is a list", function(c) c.rank_pattern = json.array{2} end,
     'names of modules expected in rank_pattern, got "1"'},
    {"a pattern that is none", function(c) c.rank_pattern = 3 end,
     "an object expected as rank_pattern, got 3"},
    {"a part of the model's weights", function(c) c.init_lora_weights = "pissa_niter_16" end,
     'init_lora_weights is "pissa_niter_16", which changes the model\'s own weights'},
    {"quantized weights", function(c) c.loftq_config = {loftq_bits = 4} end, '"loftq_config"'},
    {"another rank", function(c) c.r = 2 end, "floats of %(2, %d+%) expected as the tensor"},
    {"one matrix", function(_, t) t[DOWN] = nil end, "the tensor .*q_proj.lora_A.weight.* missing"},
    {"the other matrix", function(_, t) t[DOWN:gsub("lora_A", "lora_B")] = nil end,
     "the tensor .*q_proj.lora_B.weight.* missing"},
    {"another number of inputs", function(_, t) t[DOWN] = heed.zeros(3, 31) end,
     "floats of %(3, 32%) expected as the tensor .*lora_A"},
    {"another number of outputs", function(_, t)
      local name = DOWN:gsub("lora_A", "lora_B")
      t[name] = heed.zeros(7, t[name]:size(2))
    end, "floats of %(%d+, 3%) expected as the tensor .*lora_B"},
    {"integers", function(_, t) t[DOWN] = t[DOWN]:long() end, "floats of %(3, 32%) expected as"},
    {"a vector", function(_, t) t[DOWN] = t[DOWN]:flatten() end, "floats of %(3, 32%) expected as"},
    {"a surplus", function(_, t) t["base_model.model.x.lora_A.weight"] = heed.ones(3, 4) end,
     'the model has no linear layer for "base_model.model.x.lora_A.weight"'},
    {"an embedding's", function(_, t)
      local name = "base_model.model.model.embed_tokens.lora_"
      t[name .. "A.weight"], t[name .. "B.weight"] = heed.ones(3, 32), heed.ones(48, 3)
    end, "is no linear layer without hooks"},
    {"a norm's", function(_, t)
      local name = "base_model.model.model.norm.lora_"
      t[name .. "A.weight"], t[name .. "B.weight"] = heed.ones(3, 32), heed.ones(32, 3)
    end, "is no linear layer of its own in heed"},
    {"nothing", function(_, t) for name in pairs(t) do t[name] = nil end end, "there is no tensor"},
  } do
    it("refuses " .. case[1] .. ", and leaves the model as it was", function()
      local place <close> = changed("qwen2", case[2])
      local m = model "qwen2"
      local got, why = heed.models.load_adapters(place.path, m)
      assert.is_nil(got)
      local path = place.path:gsub("%p", "%%%0")
      assert.matches("^models.load_adapters: " .. path .. ": adapter_", why)
      assert.matches(case[3], why)
      assert.equal("Linear", m.body.layers[1].attend.query.__name)
      for _, p in m:named_parameters() do assert.is_true(p.requires_grad) end
    end)
  end

  it("refuses other arguments", function()
    local f, m = heed.models.load_adapters, model "qwen2"
    assert.matches("/no/such: there is no such folder", select(2, f("/no/such", m)))
    assert.matches("adapter_config.json: there is no such file", select(2, f("spec", m)))
    assert.matches("a model that models.load gave expected, got Linear",
                   message(f, GOLDEN .. "qwen2", nn.Linear(2, 2)))
    assert.matches("a model that models.load gave expected, got nil", message(f, GOLDEN .. "qwen2"))
    assert.matches("a path expected, got 1", message(f, 1, m))
    m.body.layers[2].attend.value:register_forward_hook(print)
    assert.matches("body.layers.2.attend.value\" is no linear layer without hooks",
                   select(2, f(GOLDEN .. "qwen2", m)))
    m = adapted("qwen2", {rank = 1})
    assert.matches("models.load_adapters: the model has adapters already, at body.layers.1.attend",
                   message(f, GOLDEN .. "qwen2", m))
    m = assert(heed.models.load("spec/golden/gguf/llama.gguf", {mapped = true}))
    assert.matches("rows in the order of directories expected, got a mapped GGUF file",
                   message(f, GOLDEN .. "qwen2", m))
    local neox = model "gpt_neox"
    local place <close> = changed("qwen2", function(_, t)
      for name in pairs(t) do t[name] = nil end
      local name = "base_model.model.gpt_neox.layers.0.attention.query_key_value.lora_"
      t[name .. "A.weight"], t[name .. "B.weight"] = heed.ones(3, 32), heed.ones(96, 3)
    end)
    assert.matches("is no linear layer of its own in heed", select(2, f(place.path, neox)))
  end)
end)


it("models.load_adapters knows a module outside of the family's prefix without it", function()
  local place <close>, m = free(), adapted("bert_reranker", {rank = 1, targets = {"head.out"}})
  assert(heed.models.save_adapters(place.path, m))
  local tensors = assert(heed.load(place.path .. WEIGHTS))
  for _, letter in ipairs{"A", "B"} do
    local from = ("base_model.model.classifier.lora_%s.weight"):format(letter)
    local to = ("base_model.model.bert.classifier.lora_%s.weight"):format(letter)
    tensors[to], tensors[from] = tensors[from], nil
  end
  assert(heed.save(place.path .. WEIGHTS, tensors))
  local why = select(2, heed.models.load_adapters(place.path, model "bert_reranker"))
  assert.matches('the model has no linear layer for "base_model.model.bert.classifier.lora_', why)
end)


describe("models.save_adapters", function()
  local function saved(name, options)
    local place = free()
    local m = adapted(name, options)
    assert(heed.models.save_adapters(place.path, m))
    return place, m, json.decode(read(place.path .. CONFIG))
  end

  local function same_again(place, m, name)
    local again, ids = model(name), expected(name)
    assert(heed.models.load_adapters(place.path, again))
    m:eval()
    assert.is_true(m(ids):equal(again(ids)))
    return again
  end

  it("says which modules have adapters by their last words, or by their names", function()
    local place <close>, m, c = saved("qwen2", {rank = 2, alpha = 3, dropout = 0.5})
    assert.same({"q_proj", "v_proj"}, c.target_modules)
    assert.same({2, 3, 0.5, false}, {c.r, c.lora_alpha, c.lora_dropout, c.fan_in_fan_out})
    assert.equal("integer", math.type(c.lora_alpha))
    assert.same({"LORA", "none", {}}, {c.peft_type, c.bias, c.rank_pattern})
    assert.same({true, true, false, false},
                {c.inference_mode, c.init_lora_weights, c.use_dora, c.use_rslora})
    same_again(place, m, "qwen2")
    local single <close>, one, said = saved("qwen2", {targets = {"layers.2.mlp.up"}})
    assert.same({"model.layers.1.mlp.up_proj"}, said.target_modules)
    same_again(single, one, "qwen2")
    local half <close>, _, numbers = saved("qwen2", {rank = 2, alpha = 2.5})
    assert.equal(2.5, numbers.lora_alpha)
    assert(heed.models.load_adapters(half.path, model "qwen2"))
  end)

  it("joins adapters of layers that are one matrix in files", function()
    local place <close>, m, c = saved("gpt2", {rank = 2, alpha = 5, targets = {"query", "value",
                                                                             "mlp.up"}})
    assert.same({"c_attn", "c_fc"}, c.target_modules)
    assert.same({4, 10, true}, {c.r, c.lora_alpha, c.fan_in_fan_out})
    local first, second = "transformer.h.0.mlp.c_fc", "transformer.h.1.mlp.c_fc"
    assert.same({[first] = 2, [second] = 2}, c.rank_pattern)
    assert.same({[first] = 5, [second] = 5}, c.alpha_pattern)
    local again = same_again(place, m, "gpt2")
    assert.equal(4, again.body.layers[1].attend.key.adapter.up:size(2))
    assert.equal(2, again.body.layers[1].mlp.up.adapter.up:size(2))
    local one <close>, single, said = saved("gpt2", {rank = 2, targets = {"query"}})
    assert.equal(2, said.r)
    again = same_again(one, single, "gpt2")
    assert.equal(0, again.body.layers[1].attend.key.adapter.up:abs():max():item())
  end)

  it("keeps numbers of adapters that differ, where files can say them", function()
    local m, place <close> = adapted("qwen2", {rank = 2}), free()
    m.body.layers[2].attend.value.adapter.scale = 3
    assert(heed.models.save_adapters(place.path, m))
    same_again(place, m, "qwen2")
    m.body.layers[2].attend.value.adapter.dropout.p = 0.5
    local f = heed.models.save_adapters
    assert.matches("the adapter at 'body.layers.2.attend.value' has another scale or dropout, 3 "
                   .. "and 0.5, than adapter_config.json can say: ", message(f, place.path, m))
    local gpt2 = adapted("gpt2", {rank = 2})
    gpt2.body.layers[1].attend.value.adapter.scale = 4
    assert.matches("has another scale or dropout", message(f, place.path, gpt2))
  end)

  it("refuses what it cannot write, and files of others unless they may be replaced", function()
    local f, place <close> = heed.models.save_adapters, free()
    assert.matches("the model has no adapters; nn.lora puts some into it",
                   message(f, place.path, model "qwen2"))
    assert.matches("a model that models.load gave expected, got Linear",
                   message(f, place.path, nn.Linear(2, 2)))
    assert.matches("unknown option 'force'", message(f, place.path, model "qwen2", {force = true}))
    assert.matches("no rows of 'body.layers.1.attend.query' side by side",
                   message(f, place.path, (adapted("gpt_neox", {rank = 2}))))
    local extended = model "qwen2"
    extended.extra = nn.Linear(2, 2)
    nn.lora(extended, {rank = 1, targets = {"extra"}})
    assert.matches("files have no rows of 'extra' side by side", message(f, place.path, extended))
    local m = adapted("qwen2", {rank = 2})
    assert.matches("^models.save_adapters: .*cannot make this folder",
                   select(2, f("/no/such/place", m)))
    assert(os.execute(("cp -r %sgpt2 %s"):format(GOLDEN, place.path)))
    assert.matches("is there, and models.save has not written it", select(2, f(place.path, m)))
    assert.is_true(f(place.path, m, {replace = true}))
    assert.is_true(f(place.path, m))
    same_again(place, m, "qwen2")
  end)
end)


describe("models.save of a model with adapters", function()
  it("writes merged ones as parts of the weights, and refuses others", function()
    local m, adapters = adapted("qwen2", {rank = 2})
    local ids, place <close> = expected "qwen2", free()
    assert.matches("models.save: the adapter at 'body.layers.1.attend.query' is not merged; .*"
                   .. "models.save_adapters saves adapters alone",
                   message(heed.models.save, place.path, m))
    adapters:merge()
    assert(heed.models.save(place.path, m))
    local again = assert(heed.models.load(place.path))
    assert.is_true(m(ids):equal(again(ids)))
    assert.equal("Linear", again.body.layers[1].attend.query.__name)
    heed.no_grad(function() m.body.layers[1].attend.query.adapter.up:add_(1) end)
    assert(heed.models.save(place.path, m))
    assert.is_true(m(ids):equal(assert(heed.models.load(place.path))(ids)))
  end)
end)
