-- heed.capture: the work of a function on a device, captured and replayed as a whole.
--
--   local step = heed.capture(function(x, y)
--     opt:zero_grad()
--     local loss = heed.cross_entropy(model(x), y)
--     loss:backward()
--     opt:step()
--     return loss
--   end)
--   for x, y in batches do step(x, y) end

local blocks = require "heed.internal.blocks"
local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local recording = require "heed.internal.recording"

local fail, is_tensor = heed.fail, heed.is_tensor
local running = recording.running

local capture = {}

local MOST_DEVICES <const> = 16
local MOST_KINDS <const> = 64             -- of calls of one function
local MOST_RECORDINGS <const> = 8         -- of one kind of call


local numbers, last_number = setmetatable({}, {__mode = "k"}), 0

-- Of what lives in memory: never that of another, as an address may be when its owner is gone.
local function number_of(x)
  if not numbers[x] then
    last_number = last_number + 1
    numbers[x] = last_number
  end
  return numbers[x]
end


-- A value as text that no other value has.
local function describe(x)
  if math.type(x) == "float" then return ("%a"):format(x) end
  if type(x) == "string" then return ("%q"):format(x) end
  local plain = x == nil or type(x) == "boolean" or type(x) == "number"
  return plain and tostring(x) or ("%s %d"):format(type(x), number_of(x))
end


-- Keys of a table in an order of their own.
local function keys_of(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "number" or type(a) == "string" then return a < b end
    return ("%p"):format(a) < ("%p"):format(b)
  end)
  return keys
end


local function is_plain(x) return type(x) == "table" and getmetatable(x) == nil end


-- Reads x into a call: what distinguishes its kind (types and shapes of tensors, what plain tables
-- hold, values of all else), and its tensors, each once.
local function read(call, x)
  local parts = call.parts
  local number = call.number[x]
  if number then
    parts[#parts + 1] = "#" .. number
  elseif is_tensor(x) or is_plain(x) then
    call.count = call.count + 1
    call.number[x] = call.count
    if is_tensor(x) then
      if blocks[x.dtype] then
        fail("capture: values expected in arguments, got blocks of type %s, which f may find in a "
             .. "local of its surroundings", x.dtype)
      end
      call.tensors[#call.tensors + 1] = x
      call.trained = call.trained or x.requires_grad
      parts[#parts + 1] = ("%s %s %s"):format(x.dtype, x.device, tostring(x.shape))
    else
      parts[#parts + 1] = "{"
      for _, key in ipairs(keys_of(x)) do
        read(call, key)
        read(call, x[key])
      end
      parts[#parts + 1] = "}"
    end
  else
    parts[#parts + 1] = describe(x)
  end
end


local function read_call(args)
  local call = {args = args, parts = {}, tensors = {}, number = {}, count = 0}
  for i = 1, call.args.n do read(call, call.args[i]) end
  call.parts[#call.parts + 1] = ("%s %d %s %s"):format(core.capture_modes())
  call.key = table.concat(call.parts, "; ")
  return call
end


local function same_modes(modes, records, autocast, device, precision)
  return records == modes[1] and autocast == modes[2] and device == modes[3]
         and precision == modes[4]
end


-- Whether a call with these arguments is of the kind that r was made for, where the arguments are
-- distinct tensors. The test is quicker than `read_call`.
local function is_of_kind(r, args)
  if args.n ~= #r.buffers or args.n ~= r.args.n
     or not same_modes(r.modes, core.capture_modes()) then
    return false
  end
  for i = 1, args.n do
    local t = args[i]
    if not core.capture_alike(t, r.buffers[i]) then return false end
    for k = 1, i - 1 do
      if rawequal(t, args[k]) then return false end
    end
  end
  return true
end


-- x with the copy of each tensor that has one instead of it, in tables too.
local function with_copies(x, copies)
  if not is_tensor(x) and not is_plain(x) then return x end
  local copy = copies[x]
  if copy == nil then
    if is_tensor(x) then return x end
    copy = {}
    copies[x] = copy
    for key, value in pairs(x) do copy[with_copies(key, copies)] = with_copies(value, copies) end
  end
  return copy
end


local devices = {}
for i = 1, MOST_DEVICES do devices[i] = "cuda:" .. i - 1 end

local function works()
  local done = {cpu = core.works("cpu")}
  for _, device in ipairs(devices) do done[device] = core.works(device) end
  return done
end


-- The device that all work was done on since, or the GPU that the host works for; nil if none was:
-- then there is nothing to capture.
local function device_since(before)
  local found
  for _, device in ipairs(devices) do
    if core.works(device) > before[device] then
      if found then fail("capture: f works on %s and on %s", found, device) end
      found = device
    end
  end
  return found or (core.works("cpu") > before.cpu and "cpu" or nil)
end


-- The tensors that a replay reads and those that it writes: copies of the call's, at fixed
-- addresses.
local function buffers_of(call)
  local buffers, copies = {}, {}
  for i, t in ipairs(call.tensors) do
    buffers[i] = heed.keep(t:detach():clone())
    copies[t] = buffers[i]
  end
  return buffers, with_copies(call.args, copies)
end


-- Lists the tensors that x, a result, leads to and that have memory of r's buffers, which the next
-- call overwrites.
local function list_lent(r, x, lent, seen)
  if is_tensor(x) then
    local shares = false
    for _, t in ipairs(r.buffers) do shares = shares or core.capture_shares(x, t) end
    if shares then lent[#lent + 1] = x end
  elseif is_plain(x) and not seen[x] then
    seen[x] = true
    for key, value in pairs(x) do
      list_lent(r, key, lent, seen)
      list_lent(r, value, lent, seen)
    end
  end
  return lent
end


-- Sets the results of each call: r.results; and in r.lent, by their numbers, those that lead to
-- arguments.
local function keep_results(r, results)
  r.results, r.lent = results, {}
  for i = 1, results.n do
    local x = results[i]
    local lent = list_lent(r, x, {}, {})
    if #lent > 0 then r.lent[i] = heed.keep(lent)
    elseif is_tensor(x) then results[i] = heed.keep(x:detach()) end
  end
end


-- Would r do now what f would? "differs": not now, but perhaps later; "stale": never again.
local function state_of(r)
  for _, note in ipairs(r.notes) do
    if not note.ready() then return "stale" end
  end
  for _, holds in ipairs(r.expected) do
    if not holds() then return "stale" end
  end
  return core.capture_state(r.work)
end


-- Brings the numbers of optimisers' steps up to date.
local function step_on(r)
  for which, note in ipairs(r.notes) do
    local step = note.advance()
    r.stepped = which
    if step then core.capture_set_step(r.work, which - 1, step) end
  end
end


-- Optimisers have taken the first steps of r alone.
local function take_back(r, taken)
  for i = r.stepped or #r.notes, taken + 1, -1 do r.notes[i].undo() end
  for i = #r.undos, 1, -1 do
    if r.undos[i].after >= taken then r.undos[i].undo() end
  end
end


local function replay_work(r)
  r.stepped = 0
  core.capture_replay(r.work, r, step_on, take_back)
end


-- A result that leads to parts of r's buffers, with copies of these.
local function given_back(lent, result)
  local copies = {}
  for _, t in ipairs(lent) do copies[t] = t:detach():clone() end
  return with_copies(result, copies)
end


local function results_of(r, tensors)
  for _, i in ipairs(r.changed) do tensors[i]:copy_(r.buffers[i]) end
  local results = table.move(r.results, 1, r.results.n, 1, {})
  for i = 1, r.results.n do
    if r.lent[i] then results[i] = given_back(r.lent[i], results[i])
    elseif is_tensor(results[i]) then results[i] = results[i]:detach() end
  end
  return table.unpack(results, 1, r.results.n)
end


local function replay(r, tensors)
  replay_work(r)
  return results_of(r, tensors)
end


-- Does r, with these tensors in its buffers, change none in a way that f would not? A tensor that f
-- changes may share no memory with another one, nor be expanded.
local function is_apart(r, tensors)
  if not r.changes then return true end
  for k, t in ipairs(tensors) do
    if not core.capture_apart(r.work, r.buffers[k], t) then return false end
  end
  for _, i in ipairs(r.changed) do
    for k, t in ipairs(tensors) do
      if k ~= i and core.capture_shares(t, tensors[i]) then return false end
    end
  end
  return true
end


-- "ready" if r, with the call's tensors in its buffers, does now what f would; "shared" if these
-- tensors, in the place of the buffers, would change one another.
local function prepare(r, tensors)
  if not is_apart(r, tensors) then return "shared" end
  for k, t in ipairs(tensors) do r.buffers[k]:copy_(t) end
  return state_of(r)
end


local function nothing() end

-- f(...) as a list. Where a tensor in it that f did not make gets other memory, so must the result.
local function packed(f, ...)
  local results = table.pack(f(...))
  for i = 1, results.n do
    if is_tensor(results[i]) then core.capture_reads(results[i]) end
  end
  return results
end


-- Does the work of a new recording for the first time; false: the call's tensors don't allow that.
local function finish(r, results)
  keep_results(r, results)
  for i, t in ipairs(r.buffers) do
    if core.capture_changes(r.work, t) then r.changed[#r.changed + 1] = i end
  end
  r.changes = core.capture_changes(r.work)
  if not is_apart(r, r.tensors) then return false end
  r.tensors = nil
  core.capture_replay(r.work, r, nothing, nothing)
  r.undos = {}
  return true
end


-- A new recording of f, whose work is done once; nil where the call's tensors don't allow that.
local function record(kind, f, call)
  local buffers, args = buffers_of(call)
  local r = {
    kind = kind, buffers = buffers, args = args, tensors = call.tensors, changed = {},
    modes = {core.capture_modes()}, notes = {}, expected = {}, undos = {},
  }
  local kept = core.capture_record(kind.device, r, finish, take_back, packed, f,
                                   table.unpack(args, 1, args.n))
  return kept and r or nil
end


-- One of a kind's recordings that fits, with the call's tensors in its buffers; nil if none does.
local function fitting(kind, tensors)
  for i = #kind, 1, -1 do
    local state = prepare(kind[i], tensors)
    if state == "ready" or state == "shared" then return kind[i], state end
    if state == "stale" then table.remove(kind, i) end
  end
end


-- Does the work of f by a recording: of its kind's, one that fits, or a new one. None, and nothing
-- is done, after many that did not fit, and for tensors that share what f changes.
local function work(kind, f, call)
  local r, state = fitting(kind, call.tensors)
  if state == "shared" then return nil end
  if r then
    replay_work(r)
    return r
  end
  if kind.made == MOST_RECORDINGS then return nil end
  kind.made = kind.made + 1
  r = record(kind, f, call)
  kind[#kind + 1] = r
  return r
end


-- The kinds of one function's calls, by their texts. Of very many the one that was called longest
-- ago goes: so calls of ever new kinds, or of too many in turn, are calls of f.
local Kinds = {}
Kinds.__index = Kinds


function Kinds:find(key, last)
  self.clock = self.clock + 1
  if last then last.kind.called = self.clock end
  local kind = self.known[key]
  if kind then kind.called = self.clock end
  return kind
end


function Kinds:add(key, device)
  self.known[key] = {device = device, made = 0, called = self.clock}
  local count, oldest = 0, nil
  for text, kind in pairs(self.known) do
    count = count + 1
    if not oldest or kind.called < self.known[oldest].called then oldest = text end
  end
  if count > MOST_KINDS then self.known[oldest] = nil end
  return self.known[key]
end


-- f by recordings: from the first call of a kind on, or from the second.
local function captured(f, at_once)
  local kinds = setmetatable({known = {}, clock = 0}, Kinds)
  local last                       -- the recording that was replayed last
  return function(...)
    if running() ~= nil then return f(...) end    -- in another one, which captures this work too
    local args = table.pack(...)
    if last and is_of_kind(last, args) and prepare(last, args) == "ready" then
      return replay(last, args)
    end
    local call = read_call(args)
    local kind = kinds:find(call.key, last)
    if kind == nil and at_once then kind = kinds:add(call.key, "cpu") end
    if kind == nil and not call.trained then
      local before = works()
      local results = table.pack(f(...))
      kinds:add(call.key, device_since(before))
      return table.unpack(results, 1, results.n)
    end
    last = nil
    if not call.trained and kind.device then last = work(kind, f, call) end
    if not last then return f(...) end
    return results_of(last, call.tensors)
  end
end


---f, for calls whose work is always the same: a training step, say. The first call of a kind (types
---and shapes of its tensors, also in plain tables; values of all else; no_grad and autocast) runs
---f, the second captures what f does on a GPU, or on the CPU if it uses no GPU, and from then on
---that is replayed as a whole, without Lua. All other effects of f happen only twice. What f finds
---besides its arguments, but for the values of tensors, stays as it was, such as train() and
---eval(): a new parameter or tensor in a field, a new optimiser or hook is not noticed, and needs a
---new capture.
---
---What cannot be captured raises an error: reading a value back (item(), x[i] of a vector, an index
---by a boolean mask, multinomial, heed.sample, backward through a checkpoint), work elsewhere, a
---seed that is set, a yield. After an error while work is captured, all that heed keeps is as
---before; a tensor of that work that f has kept has no value, and is refused wherever it is read.
---Finalisers work at once, outside of the capture; on a GPU that is captured they are refused.
---Where a replay would not do what f does (a parameter was moved, gradients are there that were
---not), the work is captured anew. Where that happens again and again, for arguments that require
---grad or share memory that f changes, and in a function that is captured itself, f is called.
---Results have no graph; they and gradients are overwritten by the next call; arguments among them
---are copies. Captures hold their memory and the tensors that they work on, even released ones;
---those of the latest 64 kinds are kept, so where still more take turns, f is called.
---@param f function
---@return function
function capture.capture(f)
  options.callable("capture", "f", f)
  return captured(f, false)
end


---The same of a function that works on the CPU and does nothing at its first call alone, such as
---making an optimiser's state: that call is recorded, too.
---@param f function
---@return function
function capture.at_once(f) return captured(f, true) end

return capture
