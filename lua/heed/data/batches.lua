-- data.batches: goes through examples batch by batch, in an order that each epoch draws anew.
--
-- A call of `heed.Batches` returns the next batch, and nil behind the last of all epochs; the call
-- after it begins a new run, so that a second loop works. The `state` of batches goes into
-- heed.train's checkpoints.

local core = require "heed.core"
local endless = require "heed.internal.endless"
local heed = require "heed"
local options = require "heed.internal.options"
local recording = require "heed.internal.recording"
local rng = require "heed.internal.rng"
local states = require "heed.files.state"

local fail, kind = heed.fail, options.kind

---@class heed.Batches: function
local Batches = {__name = "heed.Batches"}

-- So that ipairs, which would find no batch, does not end without a word.
function Batches:__index(name)
  if math.type(name) == "integer" then
    fail("batches: they are called: for x, y in batches do; got position %d", name)
  end
  local value = Batches[name]
  if value == nil then return options.refuse_name("batches", name, Batches) end
  return value
end


local function is_batches(value) return rawequal(getmetatable(value), Batches) end


local function is_list(value)
  return type(value) == "table" and getmetatable(value) == nil and value[1] ~= nil
end


-- Refuses a list whose examples differ in rank, such as {x, y}: tensors of examples are separate
-- arguments.
local function check_list(list, i)
  local rank = heed.is_tensor(list[1]) and list[1]:dim()
  for _, example in ipairs(list) do
    if (heed.is_tensor(example) and example:dim()) ~= rank then
      fail("data.batches: examples of one kind expected in the list that is argument %d, got %s "
           .. "and %s; write data.batches(x, y, …) for tensors of examples", i, kind(list[1]),
           kind(example))
    end
  end
end


-- Splits the arguments into the sources and the table of options that may follow them.
local function arguments(...)
  local sources, n, given = {...}, select("#", ...), nil
  if n > 0 and not heed.is_tensor(sources[n]) and not is_list(sources[n]) then
    given, n = sources[n], n - 1
    sources[n + 1] = nil
  end
  for i = 1, n do
    local source = sources[i]
    if not is_list(source) and not (heed.is_tensor(source) and source:dim() > 0) then
      fail("data.batches: a tensor with rows or a list expected as argument %d, got %s", i,
           kind(source))
    end
    if is_list(source) then check_list(source, i) end
  end
  if n == 0 then fail("data.batches: at least one tensor or list expected") end
  return sources, given
end


local function check_lengths(sources)
  for i, source in ipairs(sources) do
    if #source ~= #sources[1] then
      fail("data.batches: as many examples in argument %d as in argument 1 expected, %d, got %d", i,
           #sources[1], #source)
    end
  end
  if #sources[1] == 0 then fail("data.batches: at least one example expected, got none") end
end


-- The state of the generator behind a new order, and this.
local function fresh_order(self)
  if not self.shuffle then return self.generator.at, heed.arange(self.n, {device = "cpu"}) end
  return self.generator:draw(heed.randperm, self.n, {device = "cpu"})
end


-- The examples of a source at positions, as a tensor of rows or a list.
local function pick(source, positions)
  if heed.is_tensor(source) then return source:index_select(1, positions:to(source.device)) end
  local picked = {}
  for k, i in ipairs(positions:totable()) do picked[k] = source[i] end
  return picked
end


-- A batch that a collate gave; its first value is none that would say that the batches end.
local function checked(first, ...)
  if first == nil then fail("data.batches: a batch expected from option collate, got nil") end
  return first, ...
end


local function collected(self, positions)
  local batch = {}
  for i, source in ipairs(self.sources) do batch[i] = pick(source, positions) end
  if self.collate then return checked(self.collate(table.unpack(batch))) end
  return table.unpack(batch)
end


-- How many examples the next batch has, behind `done` of them; 0 where the epoch ends.
local function next_size(self, done)
  local left = self.n - done
  if left < self.size and self.drop_last then return 0 end
  return math.min(left, self.size)
end


-- Stands in an epoch, with an order or none, behind examples that are done.
local function stand(self, epoch, done, order, at)
  core.commit("data.batches", {fields = {
    self, "epoch", epoch, self, "done", done, self, "order", order, self.generator, "at", at,
  }})
end


-- Gives a batch, behind which the batches stand from now on.
local function passed(self, epoch, done, order, at, ...)
  heed.keep{order, at or nil}
  stand(self, epoch, done, order, at)
  return ...
end


-- A value to be closed where an order is drawn from the module's generator: one that is not in use
-- then was drawn in vain, and will be drawn again.
local function drawing(self)
  if not self.shuffle or self.generator.at then return nil end
  local before, order = heed.rng_state(), self.order
  return setmetatable({}, {__close = function()
    if rawequal(self.order, order) then heed.rng_state(before) end
  end})
end


-- A recording that is dropped leaves its batches to later calls, and an order that it drew was not
-- made.
local function undone(self, epoch, done, order, at)
  recording.undo(function()
    self.epoch, self.done, self.order, self.generator.at = epoch, done, order, at
  end)
end


-- A call that fails leaves the batch to the next one.
function Batches:__call()
  local epoch, done, order, at = self.epoch, self.done, self.order, self.generator.at
  undone(self, epoch, done, order, at)
  if next_size(self, done) == 0 then
    epoch, done, order = epoch + 1, 0, false
    if epoch == self.epochs then
      stand(self, 0, 0, false, at)
      return nil
    end
  end
  local _ <close> = not order and drawing(self) or nil
  if not order then at, order = fresh_order(self) end
  local size = next_size(self, done)
  local positions = order:narrow(1, done + 1, size)
  return passed(self, epoch, done + size, order, at, collected(self, positions))
end


---Where these batches stand, for `load_state`.
---@return table<string, heed.Tensor>
function Batches:state()
  local tensors = {place = heed.tensor({self.epoch, self.done}, {device = "cpu"})}
  tensors.order = self.order and self.order:clone() or nil
  tensors.generator = self.generator.at and self.generator.at:clone() or nil
  return tensors
end


local function is_int64(t, n)
  return options.is_alive(t) and t.dtype == "int64" and t:dim() == 1 and #t == n
end


-- Whether an order has each of n positions once.
local function is_order(order, n)
  return is_int64(order, n) and order:sort():equal(heed.arange(n, {device = order.device}))
end


local function fits(self, state)
  if type(state) ~= "table" or not is_int64(state.place, 2) then return false end
  local epoch, done = state.place[1], state.place[2]
  return epoch >= 0 and epoch < self.epochs and done >= 0 and done <= self.n
    and (state.order == nil and done == 0 or is_order(state.order, self.n))
    and (state.generator ~= nil) == (self.generator.at ~= false)
end


---Goes on where other batches of the same examples and options stood.
---@param state table<string, heed.Tensor>
function Batches:load_state(state, ...)
  states.check_arguments("load_state", 1, state, ...)
  if not fits(self, state) then
    fail("data.batches: the state of batches of %d examples expected, got %s", self.n, kind(state))
  end
  local at = false
  if state.generator then
    at = heed.keep(state.generator:to("cpu"):clone())
    core.with_generators({rng = at}, math.abs, 0)    -- raises unless the tensor is such a state
  end
  local order = state.order and heed.keep(state.order:to("cpu"):clone()) or false
  stand(self, state.place[1], state.place[2], order, at)
end


---How many batches an epoch has.
function Batches:__len()
  return (self.drop_last and self.n or self.n + self.size - 1) // self.size
end


function Batches:__tostring()
  return ("batches of %d of %d examples"):format(self.size, self.n)
end


options.guard(Batches, {load_state = math.huge, state = 0},
              {is = is_batches, what = "batches", variable = "batches"})


local function check_epochs(epochs)
  if epochs == math.huge then return epochs end
  return options.count("data.batches", "option epochs", epochs)
end


---@class heed.data.batches.options
---@field size? integer examples in a batch; 32 unless given
---@field shuffle? boolean an order drawn for each epoch; true unless given
---@field epochs? number how often all examples come; once unless given, math.huge for ever
---@field drop_last? boolean leave out a last batch that is smaller
---@field seed? integer of a generator of its own
---@field collate? fun(...): ... makes a batch of the tensors and lists that were chosen; its first
---value is not nil

---Batches of examples, `#batches` in an epoch: of tensors their rows, of lists shorter lists, which
---a `collate` such as `heed.pad` makes tensors of. A loop that was left goes on with the next one.
---@param ... heed.Tensor|any[]|heed.data.batches.options x, y, …, options; all equally long
---@return heed.Batches batches call it for the next batch; nil behind the last
return function(...)
  local sources, given = arguments(...)
  local o = options.read("data.batches", given, {
    collate = options.any, drop_last = false, epochs = 1, seed = options.any, shuffle = true,
    size = 32,
  })
  check_lengths(sources)
  local size = options.count("data.batches", "option size", o.size)
  if o.collate ~= nil then options.callable("data.batches", "option collate", o.collate) end
  if o.drop_last and size > #sources[1] then
    fail("data.batches: an option size of at most %d expected with drop_last, which there are "
         .. "examples, got %d", #sources[1], size)
  end
  local epochs = check_epochs(o.epochs)
  local self = setmetatable({
    collate = o.collate or false, done = 0, drop_last = o.drop_last, epoch = 0, sources = sources,
    epochs = epochs, generator = rng.own("data.batches", o.seed), order = false,
    n = #sources[1], shuffle = o.shuffle, size = size,
  }, Batches)
  return epochs == math.huge and endless.mark(self) or self
end
