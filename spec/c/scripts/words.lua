-- Words, chats and a saved cache while requests for memory fail, run by spec/c/lua_memory.c: each
-- call says so and leaves nothing, and the next one gives what the first gave.

local heed, fail_after = require "heed", ...

local STRIDE <const> = 1501          -- of some ten thousand requests, not each is tried

local model = assert(heed.models.load "spec/golden/models/llama3")
local cache, messages = heed.nn.Cache(), {{role = "user", content = "Hi <|eot_id|>"}}
heed.no_grad(model, heed.tensor{{5, 6, 7}}, {cache = cache})
local state = cache:state(model)
local rule = heed.constrain.json(model.tokenizer, {object = true})


local function words()
  return (model:generate(messages, {max = 3, logits = rule, stop = "}", on_text = tostring}))
end

local function guesses() return (model:generate("a b a b", {max = 4, lookup = 2})) end

local function chat()
  return model:chat(messages, {template = "{% for m in messages %}{{ m | tojson }}{% endfor %}"})
end

local function goes_on()
  local again = heed.nn.Cache():load_state(state, model)
  return (model:generate("x", {max = 2, cache = again}))
end


local n = 0
for _, call in ipairs{words, guesses, chat, goes_on} do
  local wanted, at, failed = call(), 0, true
  while failed do
    fail_after(at)
    local good, why = pcall(call)
    failed = fail_after(-1)
    assert(good or tostring(why):find("not enough memory"), why)
    assert(model.training == false and heed.is_grad_enabled())
    assert(call() == wanted)
    at, n = at + (call == chat and 41 or STRIDE), n + 1
  end
end
return n
