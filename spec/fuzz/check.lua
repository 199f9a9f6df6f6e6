-- Runs calls, and checks invariants that no call may break.

local heed = require "heed"

local check = {}

local LIMIT = 256 << 20            -- bytes of tensors
local STEPS = 3000000              -- of the virtual machine, before a call counts as endless

local sentinel = heed.arange(24, {dtype = "float32"}):reshape(4, 6)
local sentinel_bytes = sentinel:data()
local threads, level = heed.threads(), heed.level()

-- Tables that no call may change.
local guarded = {
  _G = _G, heed = heed, core = heed.core, cuda = heed.cuda, nn = heed.nn, optim = heed.optim,
  string = string, math = math, table = table, loaded = package.loaded,
}
local copies = {}


local function reset()
  heed.memory{limit = LIMIT}
  heed.threads(threads)
  heed.level(level)
  heed.default_device("cpu")
  heed.printoptions{precision = 4, width = 80, edge = 3}
end


-- Angles of rotary positions are kept, the latest few of them: new ones take their places, so that
-- the same memory is kept whatever was asked for before.
local KEPT <const> = 16
local renewed = 0

local function renew_kept()
  local x = heed.ones(1, 1, 2)
  for _ = 1, KEPT do
    renewed = renewed + 1
    heed.position.rope(x, {base = 20000.0 + renewed})
  end
end


---Takes down how everything stands before the first call.
function check.start()
  reset()
  for name, t in pairs(guarded) do
    copies[name] = {}
    for key, value in next, t do copies[name][key] = value end
  end
  renew_kept()
  collectgarbage()
  collectgarbage()
  check.live, check.nodes = heed.memory().live, heed.graph_nodes()
end


-- Lua's own functions, as callbacks, by the names that their errors have.
local CALLBACKS = {error = true, f = true, pcall = true, tostring = true}

---What is wrong with an error. One of heed's is a string that begins with the place of the call;
---what functions among the arguments raise passes through.
---@param why any what pcall gave
---@param source string
---@return string? what is wrong with it
function check.bad_error(why, source)
  if type(why) ~= "string" then
    return not source:find("error", 1, true) and "an error that is a " .. type(why)
  end
  local text = why:gsub("^%[string", "call:")
  if text:find("a call without an end", 1, true) then return text end
  if text:find("attempt to yield") or text:find("cannot resume") then return nil end
  if text:find("operation failed", 1, true) or text:find("%f[%a]bug%f[%A]") then return text end
  if text:find("attempt to", 1, true) then return not text:find("^call:") and text end
  if text:find("stack overflow", 1, true) or text == "not enough memory" then return nil end
  if source:find("= error\n", 1, true) or source:find("error,", 1, true) then return nil end
  if CALLBACKS[text:match("bad argument #%d to '(%w+)'")] then return nil end
  return not text:find("^call:%d+: ") and text
end


local function endless() error("a call without an end", 0) end

---From now on the thread that runs has as many steps as a call.
function check.limit_steps() debug.sethook(endless, "", STEPS) end

---Runs a source; nil, or what is wrong. With 'judges' the source itself gives what is wrong.
function check.run(source, judges)
  local f, why = load(source, "=call")
  if not f then return "no Lua: " .. why end
  local thread = coroutine.create(f)
  debug.sethook(thread, endless, "", STEPS)
  local good, message = coroutine.resume(thread)
  debug.sethook(thread)
  coroutine.close(thread)
  reset()
  if judges then return message and tostring(message) or nil end
  return not good and check.bad_error(message, source) or nil
end


local function changed_table()
  for name, t in pairs(guarded) do
    for key, value in next, t do
      if not rawequal(copies[name][key], value) and not (name == "loaded" or name == "heed") then
        return ("%s.%s was changed"):format(name, tostring(key))
      end
    end
    for key, value in next, copies[name] do
      if not rawequal(rawget(t, key), value) then
        return ("%s.%s was changed"):format(name, tostring(key))
      end
    end
  end
end


local function wrong_state()
  if sentinel:data() ~= sentinel_bytes then return "another tensor was changed" end
  if not heed.is_grad_enabled() then return "gradients are switched off" end
  if heed.default_device() ~= "cpu" then return "the default device was changed" end
  local x = heed.tensor({1.0, 2.0}, {requires_grad = true})
  x:square():sum():backward()
  if x.grad:data() ~= heed.tensor{2.0, 4.0}:data() then return "x^2 has a wrong gradient" end
  return changed_table()
end


-- The values of a node of heed.custom are collected one collection after the node.
local function leaked()
  local live, nodes
  for i = 1, 8 do
    collectgarbage()
    live, nodes = heed.memory().live, heed.graph_nodes()
    if live == check.live and nodes == check.nodes then return nil end
    if i == 1 then renew_kept() end
  end
  local text = ("%d bytes and %d nodes stay"):format(live - check.live, nodes - check.nodes)
  check.live, check.nodes = live, nodes
  return text
end


---The invariant that is broken after some calls, or nil.
function check.invariants()
  local good, why = pcall(wrong_state)
  if not good then return "a plain operation failed: " .. tostring(why) end
  return why or leaked()
end

return check
