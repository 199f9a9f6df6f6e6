-- The state of an nn.Cache: a prompt that is read once, saved, and gone on from.

local directories = require "spec.support.directories"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"

local function ids_of(...) return heed.tensor({...}, {dtype = "int64"}) end


-- A state through a file.
local function saved(state)
  local path = os.tmpname()
  heed.save(path, state)
  local loaded = assert(heed.load(path))
  os.remove(path)
  return loaded
end


local function load(name)
  local place <close> = directories.make(name)
  return assert(heed.models.load(place.path, {dtype = "float32"}))
end


local if_fused = os.getenv "HEED_BUILD" == "basic" and pending or it   -- composed: not captured


local function decoder(o)
  heed.manual_seed(3)
  local given = {hidden = 16, cross = false}
  for name, value in pairs(o or {}) do given[name] = value end
  return nn.Decoder(8, 2, 2, given):eval()
end


describe("the state of a cache", function()
  for _, name in ipairs{"llama3", "gemma2", "gpt2", "mistral", "qwen3", "olmo2"} do
    it("goes on as if the prompt had been read: " .. name, function()
      local m = load(name)
      local prompt, more = ids_of({5, 6, 7, 8, 9, 4}, {9, 8, 7, 6, 5, 4}), ids_of({3, 2}, {4, 3})
      heed.no_grad(function()
        local cache = nn.Cache()
        m(prompt, {cache = cache})
        local state = saved(cache:state(m))
        local wanted = m(more, {cache = cache})
        local again = nn.Cache():load_state(state, m)
        assert.equal(6, again:length())
        assert.is_true(m(more, {cache = again}):equal(wanted))
        assert.equal(8, again:length())
        local other = load(name)
        local third = nn.Cache():load_state(state, other)
        assert.is_true(other(more, {cache = third}):equal(wanted))
        third:truncate(3)
        third:reorder{2}
        local short = other(ids_of({3, 2}), {cache = third})
        local fresh = nn.Cache()
        other(prompt:narrow(1, 2, 1):narrow(2, 1, 3), {cache = fresh})
        assert.is_true((short - other(ids_of({3, 2}), {cache = fresh})):abs():max():item() < 1e-5)
      end)
    end)
  end


  it("serves heed.generate and model:generate, once for each reply", function()
    local m = load "llama3"
    local prompt = ids_of(5, 6, 7, 8, 9, 4)
    local whole = m:generate(heed.cat{prompt, ids_of(3, 2)}, {max = 9, ends = false})
    local cache = nn.Cache()
    heed.no_grad(m, prompt:unsqueeze(1), {cache = cache})
    local state = saved(cache:state(m))
    for _ = 1, 2 do
      local again = nn.Cache():load_state(state, m)
      local new = m:generate(ids_of(3, 2), {max = 9, ends = false, cache = again})
      assert.same(whole:totable(), new:totable())
      assert.equal(16, again:length())
    end
    for _, generate in ipairs{heed.generate, m.generate} do
      assert.matches("; where none follow the 6 in the cache: cache:truncate(5), and the last one",
                     message(generate, m, {}, {cache = cache}), 1, true)
      assert.no.matches("truncate", message(generate, m, {}))
    end
    local reads = assert(heed.models.load "spec/golden/models/llama3")
    cache = nn.Cache()
    heed.no_grad(reads, prompt:unsqueeze(1), {cache = cache})
    assert.matches("one token expected, got ''; where none follow the 6 in the cache",
                   message(reads.generate, reads, "", {cache = cache}), 1, true)
  end)


  it("keeps padding, windows and gradients apart", function()
    local model, x = decoder(), heed.randn(2, 5, 8)
    local cache = nn.Cache()
    model(x, {cache = cache, lengths = ids_of(3, 5)})
    local state = saved(cache:state(model))
    assert.same({2, 0}, state["cache.pad"]:totable())
    local y = heed.randn(2, 2, 8)
    local again = nn.Cache():load_state(state, model)
    assert.is_true(model(y, {cache = again}):equal(model(y, {cache = cache})))
    for _, t in pairs(cache:state(model)) do assert.is_false(t.requires_grad) end
    local sliding = nn.Cache{window = 3, keep = 1}
    model(x, {cache = sliding})
    state = saved(sliding:state(model))
    assert.same({3, 1}, state["cache.window"]:totable())
    again = nn.Cache{window = 3, keep = 1}:load_state(state, model)
    assert.is_true(model(y, {cache = again}):equal(model(y, {cache = sliding})))
    assert.matches("window 3 and keep 1 expected, got one of window false",
                   message(nn.Cache().load_state, nn.Cache(), state, model), 1, true)
  end)


  it("has contexts, and uses of a layer that is called twice", function()
    heed.manual_seed(1)
    local model = nn.Decoder(8, 2, 2, {hidden = 16}):eval()
    local x, context = heed.randn(2, 3, 8), heed.randn(2, 4, 8)
    local cache = nn.Cache()
    model(x, context, {cache = cache, context_lengths = ids_of(4, 2)})
    local again = nn.Cache():load_state(saved(cache:state(model)), model)
    local y, o = heed.randn(2, 1, 8), {context_lengths = ids_of(4, 2)}
    o.cache = cache
    local wanted = model(y, context, o)
    o.cache = again
    assert.is_true(model(y, context, o):equal(wanted))
    local Twice = nn.Module:extend "Twice"
    function Twice:init() self.layer = nn.DecoderLayer(8, 2, 16, {cross = false}) end
    function Twice:forward(h, given) return self.layer(self.layer(h, given), given) end
    local twice = Twice():eval()
    cache = nn.Cache()
    twice(x, {cache = cache})
    local state = cache:state(twice)
    assert.is_not_nil(state["layer.attend.2.k"])
    again = nn.Cache():load_state(saved(state), twice)
    assert.is_true(twice(y, {cache = again}):equal(twice(y, {cache = cache})))
    state["layer.attend.k"], state["layer.attend.v"] = nil, nil
    assert.matches("uses of a layer from the first on",
                   message(again.load_state, nn.Cache(), state, twice), 1, true)
  end)


  it("is refused where a part of it is missing, or is another cache's", function()
    local model = nn.Decoder(8, 2, 2, {hidden = 16}):eval()
    local cache = nn.Cache()
    model(heed.randn(2, 3, 8), heed.randn(2, 4, 8), {cache = cache})
    local function refused(wanted, change)
      local state = cache:state(model)
      change(state)
      local again = nn.Cache()
      assert.matches(wanted, message(again.load_state, again, state, model), 1, true)
      assert.equal(0, again:length())
    end
    for _, part in ipairs{"k", "v"} do
      for layer = 1, 2 do
        local own = ("layers.%d.attend.%s"):format(layer, part)
        refused("keys and values expected of each layer", function(t) t[own] = nil end)
        refused("keys and values of as many sequences and tokens in each layer", function(t)
          t[own] = t[own]:narrow(1, 1, 1)
        end)
        refused("keys and values of as many sequences and tokens in each layer", function(t)
          t[own] = t[own]:narrow(3, 1, 2)
        end)
        refused("keys and values expected of each context", function(t)
          t[("layers.%d.cross.context.%s"):format(layer, part)] = nil
        end)
      end
    end
    refused("keys and values of as many sequences and tokens in each layer", function(t)
      for _, part in ipairs{"k", "v"} do
        local name = "layers.2.attend." .. part
        t[name] = t[name]:narrow(3, 1, 2)
      end
    end)
    refused("keys of 3 tokens expected, got those of 2", function(t)
      for layer = 1, 2 do
        for _, part in ipairs{"k", "v"} do
          local name = ("layers.%d.attend.%s"):format(layer, part)
          t[name] = t[name]:narrow(3, 1, 2)
        end
      end
    end)
  end)


  it("is the same with a capacity, and goes from one kind of cache to the other", function()
    heed.manual_seed(1)
    local model = nn.Decoder(8, 2, 2, {hidden = 16}):eval()
    local x, context, y = heed.randn(2, 3, 8), heed.randn(2, 4, 8), heed.randn(2, 1, 8)
    heed.no_grad(function()
      local grown, fixed = nn.Cache(), nn.Cache{capacity = 6}
      local given = {cache = grown, causal = true}
      model(x, context, given)
      given.cache = fixed
      model(x, context, given)
      local states = {saved(grown:state(model)), saved(fixed:state(model))}
      for name, t in pairs(states[1]) do assert.is_true(t:equal(states[2][name]), name) end
      for name in pairs(states[2]) do assert.is_not_nil(states[1][name], name) end
      local wanted, kept = model(y, context, given), states[1]["layers.1.cross.context.k"]:clone()
      for _, state in ipairs(states) do
        for _, o in ipairs{{}, {capacity = 6}, {capacity = 4}} do
          local again = nn.Cache(o):load_state(state, model)
          assert.equal(3, again:length())
          assert.is_true(again:clone():truncate(1):length() == 1)
          given.cache = again
          assert.is_true((model(y, context, given) - wanted):abs():max():item() < 1e-6)
          assert.equal(4, again:length())
          again:reorder(ids_of(2, 1))
          assert.is_true(states[1]["layers.1.cross.context.k"]:equal(kept))
        end
      end
      given.cache = nn.Cache{capacity = 4}:load_state(states[1], model)
      model(y, context, given)
      local on_cpu = heed.default_device() == "cpu"       -- elsewhere the write of keys refuses
      assert.matches(on_cpu and "room for 4 positions, got 5" or "outside 1 to 5",
                     message(model, y, context, given), 1, true)
      assert.same({}, nn.Cache{capacity = 4}:state(model))
    end)
  end)


  if_fused("is captured where it was loaded: a prompt is read once", function()
    local m = load "llama3"
    local prompt, more = ids_of({5, 6, 7, 8, 9, 4}), {3, 2, 7, 7, 1}
    heed.no_grad(function()
      local grown = nn.Cache()
      m(prompt, {cache = grown})
      local fixed = nn.Cache{capacity = 12}:load_state(saved(grown:state(m)), m)
      local step = heed.capture(function(ids) return m(ids, {cache = fixed}) end)
      for _, id in ipairs(more) do
        local wanted = m(ids_of({id}), {cache = grown})
        assert.is_true((step(ids_of({id})) - wanted):abs():max():item() < 1e-5)
      end
      assert.equal(11, fixed:length())
    end)
  end)


  it("with padding is refused by a cache with a capacity", function()
    local model, x = decoder(), heed.randn(2, 5, 8)
    local cache, fixed = nn.Cache(), nn.Cache{capacity = 9}
    model(x, {cache = cache, lengths = ids_of(3, 5)})
    assert.matches("no padding, got row 1 with 2 columns of it",
                   message(fixed.load_state, fixed, cache:state(model), model), 1, true)
    cache = nn.Cache()
    model(x, {cache = cache, keys = heed.tensor{{0, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}:gt(0)})
    assert.matches("no padding, got row 1 with 1 columns of it",
                   message(fixed.load_state, fixed, cache:state(model), model), 1, true)
    local sliding = nn.Cache{window = 3}
    model(x, {cache = sliding})
    assert.matches("a cache of window 3 and keep 0 expected, got one of window false",
                   message(fixed.load_state, fixed, sliding:state(model), model), 1, true)
    local whole, other = nn.Cache(), nn.Cache{window = 5, keep = 1}
    model(x, {cache = whole})
    assert.matches("a cache of window false and keep 0 expected, got one of window 5 and keep 1",
                   message(other.load_state, other, whole:state(model), model), 1, true)
    assert.equal("Cache(0 of 9 tokens, 0 layers)", tostring(fixed))
    heed.no_grad(model, x:narrow(2, 1, 3), {cache = fixed})
    local tokens = x.device == "cpu" and "3 of 9 tokens" or "capacity 9"
    assert.equal(("Cache(%s, %d layers)"):format(tokens, 2), tostring(fixed))
  end)

  it("of another type is refused by name, but not that of autocast", function()
    local function state_in(dtype)
      local m, cache = decoder():to(dtype), nn.Cache()
      heed.no_grad(m, heed.randn({1, 3, 8}, {dtype = dtype}), {cache = cache})
      return cache:state(m), m
    end
    local fits = {float64 = "float64", float32 = "float32 float16 bfloat16",
                  bfloat16 = "float16 bfloat16"}
    for own, others in pairs(fits) do
      local _, m = state_in(own)
      for _, dtype in ipairs{"float64", "float32", "float16", "bfloat16"} do
        local cache, state = nn.Cache(), state_in(dtype)
        if others:find(dtype) then
          assert.equal(3, cache:load_state(state, m):length())
        else
          assert.matches("load_state: layers.1.attend.k: keys and values of type " .. own
                         .. " expected by the model's layer, got " .. dtype,
                         message(cache.load_state, cache, state, m))
        end
      end
    end
    local state, m = state_in("float32")
    for _, part in ipairs{m.layers[1].attend.query, m.layers[1].attend.key} do
      part.weight = nn.Parameter(heed.quantize(heed.randn(8, 32), "q8_0"), {requires_grad = false})
    end
    assert.equal(3, nn.Cache():load_state(state, m):length())
    assert.matches("of type float32 expected", message(function()
      nn.Cache():load_state((state_in("float64")), m)
    end))
    local wide, attention = heed.randn({1, 3, 8}, {dtype = "float64"}), nn.Attention(8)
    local cache, other = nn.Cache(), attention:clone():to("float64")
    heed.no_grad(other, wide, {cache = cache})
    assert.matches("load_state: .k: keys and values of type float32 expected", message(function()
      nn.Cache():load_state(cache:state(other), attention)
    end))
  end)

  it("of another model is refused, and leaves the cache as it was", function()
    local m = decoder()
    local cache, x = nn.Cache(), heed.randn(2, 3, 8)
    m(x, {cache = cache})
    local state = cache:state(m)
    local function why(change, model, into)
      local other = {}
      for name, t in pairs(state) do other[name] = t end
      other = change and change(other) or other
      into = into or nn.Cache()
      local before = tostring(into)
      local text = message(into.load_state, into, other, model or m)
      assert.equal(before, tostring(into))
      return text
    end
    assert.matches("(B, 4, S, 2) expected by the model's layer", why(nil, nn.Decoder(8, 4, 2, {
      hidden = 16, cross = false})), 1, true)
    assert.matches("the model has no layer for 'layers.2.attend.k'",
                   why(nil, nn.Decoder(8, 2, 1, {hidden = 16, cross = false})), 1, true)
    local deeper, into = nn.Decoder(8, 2, 3, {hidden = 16, cross = false}):eval(), nn.Cache()
    into:load_state(state, deeper)
    assert.matches("another model", message(deeper, x, {cache = into}), 1, true)
    for part, wrong in pairs{
      ["cache.pad"] = {ids_of(0), ids_of(0, 4), ids_of(-1, 0), ids_of(1, 1), heed.zeros(2)},
      ["cache.tokens"] = {ids_of(3, 3), ids_of(2, 3, 0), ids_of(5, 5, 0), ids_of(3, 2, 0)},
      ["layers.1.attend.k"] = {heed.zeros(2, 2, 4, 4), heed.zeros(1, 2, 3, 4), heed.zeros(3),
                                  heed.zeros({2, 2, 3, 4}, {dtype = "int64"})},
      ["cache.window"] = {ids_of(3, 0)}, ["layers.1.attend.q"] = {heed.zeros(2, 2, 3, 4)},
      ["layers.1.attend.0.k"] = {heed.zeros(2, 2, 3, 4)}, ["x"] = {heed.zeros(3)},
      ["layers.1.attend.9999999999999999999999.k"] = {heed.zeros(2, 2, 3, 4)},
    } do
      for _, t in ipairs(wrong) do
        assert.matches("load_state: ", why(function(s) s[part] = t return s end), 1, true)
      end
    end
    for part in pairs(state) do
      assert.matches("load_state: ", why(function(s) s[part] = nil return s end), 1, true)
    end
    assert.matches("load_state: a table of tensors", why(function() return 3 end), 1, true)
    assert.matches("tensors under names", why(function(s) s[1] = s.x or ids_of(1) return s end), 1,
                   true)
    assert.matches("tensors under names", why(function(s) s.x = 3 return s end), 1, true)
    assert.matches("an empty cache expected", why(nil, m, cache), 1, true)
    local crossed, mha = nn.Cache(), nn.MultiHeadAttention(8, 2)
    mha(x, heed.randn(2, 5, 8), {cache = crossed})
    assert.matches("an empty cache expected", why(nil, m, crossed), 1, true)
    assert.matches("the model whose layers", why(nil, 3), 1, true)
    assert.matches("room for 2 positions, got 3; a capacity of at least 3 expected",
                   why(nil, m, nn.Cache{capacity = 2}), 1, true)
    assert.matches("the model whose layers", message(cache.state, cache), 1, true)
    assert.matches("a layer that the model does not have",
                   message(cache.state, cache, decoder()), 1, true)
    assert.same({}, nn.Cache():state(m))
    assert.equal(0, nn.Cache():load_state({}, m):length())
  end)

  it("stays what it was when the cache goes on, also behind tokens that it forgot", function()
    local m, x = decoder(), heed.randn(1, 6, 8)
    heed.no_grad(function()
      local cache = nn.Cache()
      m(x:narrow(2, 1, 3), {cache = cache})
      m(x:narrow(2, 4, 3), {cache = cache})
      local state, copies = cache:state(m), {}
      for name, t in pairs(state) do copies[name] = t:clone() end
      local again = nn.Cache():load_state(state, m)
      local wanted = m(heed.ones(1, 2, 8), {cache = again:clone()})
      cache:truncate(2)
      m(heed.randn(1, 4, 8), {cache = cache})
      for name, t in pairs(copies) do assert.is_true(state[name]:equal(t)) end
      assert.is_true(m(heed.ones(1, 2, 8), {cache = again}):equal(wanted))
    end)
  end)

  it("has the layers of nn.Attention, and those of the caller's classes", function()
    local Own = nn.Module:extend("Own")
    function Own:init() self.scale = 2 end
    function Own:forward(x, o)
      local heads = x:unsqueeze(2)
      o.cache:place(self, x)
      local k, v, mask = o.cache:append(self, heads, heads * self.scale)
      local y = heed.attention(heads, k, v, {causal = true, mask = mask}):squeeze(2)
      o.cache:commit(self)
      return y
    end
    local x = heed.randn(2, 3, 8)
    for _, m in ipairs{nn.Attention(8), Own()} do
      local function call(cache)
        return (heed.no_grad(m, heed.ones(2, 1, 8), {cache = cache}))
      end
      local cache = nn.Cache()
      heed.no_grad(m, x, {cache = cache})
      local state = cache:state(m)
      local again = nn.Cache():load_state(state, m)
      assert.equal(3, again:length())
      assert.is_true(call(again):equal(call(cache)))
      state[".k"] = heed.ones(2, 3, 8)
      assert.matches("keys and values (B, H, S, D) expected, got a tensor of shape (2, 3, 8) and",
                     message(function() nn.Cache():load_state(state, m) end), 1, true)
    end
    local none = nn.Sequential{nn.ReLU()}
    assert.matches("the model has no layer for '.k'",
                   message(function() nn.Cache():load_state({[".k"] = x}, none) end), 1, true)
  end)

  it("is read as it lies in a table, whatever a metatable would give", function()
    local tokens = heed.tensor({1, 1, 0}, {dtype = "int64"})
    local odd = setmetatable({["cache.tokens"] = tokens}, {__index = function() return 5 end})
    assert.matches("load_state: int64 of rank 1 expected as 'cache.pad', got nil",
                   message(function() nn.Cache():load_state(odd, decoder()) end), 1, true)
  end)

  it("brings no gradients into a cache with a capacity", function()
    local m, cache = nn.MultiHeadAttention(8, 2), nn.Cache{capacity = 4}
    local x, state = heed.ones(1, 2, 8), {}
    heed.no_grad(m, x, {cache = cache, causal = true})
    for name, t in next, cache:state(m) do
      state[name] = t.dtype == "float32" and t:clone():requires_grad_(true) or t
    end
    local own = nn.Cache{capacity = 4}:load_state(state, m)
    for _, slot in next, own.slots do
      assert.is_false(slot.all_k.requires_grad)
      assert.is_false(slot.all_v.requires_grad)
    end
    assert.equal(2, own:length())
  end)
end)


describe("weights of attention", function()
  it("come while words are written, of each layer, a row for each new id", function()
    local m, seen = load "llama3", {}
    m:on_weights(function(name, weights)
      seen[name] = seen[name] or {}
      table.insert(seen[name], tostring(weights.shape))
    end)
    local ids = ids_of(5, 6, 7)
    local new = m:generate(ids, {max = 3, ends = false})
    m:on_weights()
    local rows = {"(1, 4, 3, 3)", "(1, 4, 1, 4)", "(1, 4, 1, 5)"}
    assert.same({["body.layers.1.attend"] = rows, ["body.layers.2.attend"] = rows}, seen)
    assert.same(m:generate(ids, {max = 3, ends = false}):totable(), new:totable())
    local whole, wanted = nil, heed.cat{ids, new:narrow(1, 1, 2)}:unsqueeze(1)
    m:on_weights(function(name, weights)
      if name == "body.layers.2.attend" then whole = weights end
    end)
    m(wanted)
    local last
    m:on_weights(function(name, weights)
      if name == "body.layers.2.attend" then last = weights end
    end)
    m:generate(ids, {max = 3, ends = false})
    m:on_weights()
    assert.is_true((whole:select(3, 5) - last:select(3, 1)):abs():max():item() < 1e-6)
  end)
end)
