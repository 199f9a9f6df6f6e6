-- Limits: sizes that cannot be meant, or that do not fit, are refused before any work.

local quoted = function(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- The output of a script in a process of its own.
local function run(script)
  local command = ("LUA_PATH=%s LUA_CPATH=%s %s -e %s 2>&1"):format(
    quoted(package.path), quoted(package.cpath), os.getenv("LUA") or "lua5.4", quoted(script))
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

-- What a call raises under a limit of 64 MiB, and by how many KiB Lua's heap has grown.
local function refused(call)
  local got = run(([[
    local heed = require "heed"
    local nn, tasks, yes = heed.nn, heed.tasks, function() return true end
    local embedding, head = nn.Embedding(5, 4), nn.Linear(4, 5)
    local function model(ids) return head(embedding(ids)) end
    heed.memory{limit = 64 << 20}
    collectgarbage()
    local before, _ = collectgarbage "count", {nn, tasks, yes, model}
    local good, why = pcall(function() return %s end)
    print(good, math.floor(collectgarbage "count" - before), why)
  ]]):format(call))
  local grown, why = got:match "^false\t(%d+)\t[^\n]-:%d+: ([^\n]*)"
  assert.is_truthy(why, got)
  assert.is_true(tonumber(grown) < 1024, got)
  return why
end

local ENTRIES = ": at most 16777216 entries in all tables expected, got "
local ROOM = "memory limit of 64.0 MiB: "


describe("a size that cannot be meant is refused before work:", function()
  for call, wanted in pairs {
    ["heed.bias.alibi(2^53)"] = "bias.alibi: slopes of the heads" .. ENTRIES .. "9007199254740992",
    ["heed.bias.alibi(1 << 23)"] = "bias.alibi: " .. ROOM,
    ["heed.bias.t5{heads = 2, distance = 1e9}"]
      = "bias.t5: buckets of all distances" .. ENTRIES .. "2000000001",
    ["heed.bias.alibi(2):dense(1e9, 1e9)"] = "bias:dense: " .. ROOM,
    ["heed.generate(model, heed.tensor{{1}, {1}}, {beams = 2^40, cache = false})"]
      = "generate: beams of all prompts" .. ENTRIES .. "35184372088832",
    ["heed.position.sinusoidal(1e9, 1e9)"] = "position.sinusoidal: " .. ROOM,
    ["heed.mask.predicate(yes):dense(1, 1, 1e5, 1e5)"]
      = "mask.predicate: answers of f" .. ENTRIES .. "10000000000",
    ["nn.Encoder(16, 4, 1e9)"] = "nn.Encoder: " .. ROOM,
    ["nn.Decoder(16, 4, 2^53)"] = "nn.Decoder: " .. ROOM,
    ["nn.Transformer(16, 4, {layers = {1, 1e9}})"] = "nn.Decoder: " .. ROOM,
    ["tasks.classification{size = 1e9}"]
      = "tasks.classification: words of a batch" .. ENTRIES .. "8000000000",
    ["tasks.tagging{length = 1e9}"] = "tasks.tagging: words of a batch" .. ENTRIES,
    ["tasks.masked{size = 1e9}"] = "tasks.masked: words of a batch" .. ENTRIES,
    ["tasks.seq2seq{size = 1e9}"] = "tasks.seq2seq: words of a batch" .. ENTRIES,
    ["tasks.patches{side = 1e9}"] = "tasks.patches: pixels of a batch" .. ENTRIES,
    ["heed.zeros(1):expand(1 << 24):totable()"] = "totable: " .. ROOM,
  } do
    it(call, function()
      local why = refused(call)
      assert.equal(wanted, why:sub(1, #wanted))
    end)
  end
end)


describe("the limit counts", function()
  for what, call in pairs {
    ["scratch memory of kernels"] = "heed.zeros(1):expand(1 << 27):topk(1)",
    ["the graph"] = "(function() local y = nn.Parameter(heed.zeros(1)) \
                      while true do y = y:view(1) end end)()",
  } do
    it(what, function() assert.matches("^%a+: memory limit of 64.0 MiB: ", refused(call)) end)
  end

  it("handles, and a script's garbage makes room for others", function()
    local got = run [[
      local heed = require "heed"
      collectgarbage "stop"
      local x, list = heed.zeros(1), {}
      heed.memory{limit = 16 << 20}
      print(pcall(function() for i = 1, 1e5 do list[i] = x:view(1) end end))
      list = nil
      heed.zeros(1)
      collectgarbage "restart"
      for _ = 1, 1e5 do local _ = x:view(1) end
      print(x:item())
    ]]
    assert.matches("^false\t[^\n]*view: memory limit of 16.0 MiB: [^\n]*\n0.0\n$", got)
  end)
end)
