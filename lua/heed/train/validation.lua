-- Validations of a training run: their losses, the best weights, and when to stop.
--
-- All that a run decides by them follows from their losses, which its checkpoint has: a run that
-- resumes counts them again.

local endless = require "heed.internal.endless"
local heed = require "heed"
local evaluating = require "heed.nn.evaluating"
local options = require "heed.internal.options"
local rng = require "heed.internal.rng"
local save = require "heed.save"

local fail, kind = heed.fail, options.kind

---@class heed.train.Validation
---@field every integer steps between two of them
---@field patience integer|false
---@field path string|false of the best weights
---@field steps integer[] after which they were
---@field losses number[]
---@field best number the least loss
---@field best_step integer 0 before the first one
---@field bad integer how many there were since the best one
---@field kept {step: integer, loss: number}|false the validation whose weights are in the file
local Validation = {}
Validation.__index = Validation

local EVERY <const> = 100
local FORMAT <const> = "heed.train best 1"


-- Options ----------------------------------------------------------------

local function refuse_without(o)
  for _, name in ipairs{"keep", "patience"} do
    if o[name] ~= nil then
      fail("train: option %s is about validations: validate = {batches = ...}", name)
    end
  end
end


local function read(given)
  if type(given) == "function" then given = {loss = given} end
  local v = options.read("train", given, {
    batches = options.any, every = EVERY, loss = options.any, steps = options.any,
  })
  v.every = options.count("train", "every of validate", v.every)
  if v.batches ~= nil then options.callable("train", "batches of validate", v.batches) end
  if v.loss ~= nil or v.batches == nil then
    options.callable("train", "loss of validate", v.loss)
  end
  if v.steps ~= nil then
    if not v.batches then fail("train: steps of validate count its batches, but it has none") end
    v.steps = options.count("train", "steps of validate", v.steps)
  elseif endless.is(v.batches) then
    fail("train: steps of validate expected, how many batches it takes, since these never end")
  end
  return v
end


-- Where the best weights go, beside the checkpoint.
local function best_path(o)
  if o.keep == nil then return false end
  if o.keep ~= "best" then fail("train: 'best' expected as keep, got %s", kind(o.keep)) end
  if not o.checkpoint then
    fail("train: keep needs a checkpoint, beside which the best weights go")
  end
  local base, found = o.checkpoint:gsub("%.safetensors$", "")
  local path = base .. ".best" .. (found > 0 and ".safetensors" or "")
  if o.log ~= path then return path end
  fail("train: log and the best weights are one file, %s", path)
end


---@param o heed.train.options
---@param loss_of fun(o: table, ...): heed.Tensor? of a batch
---@return heed.train.Validation|false
function Validation.new(o, loss_of)
  if o.validate == nil then
    refuse_without(o)
    return false
  end
  local v = read(o.validate)
  return setmetatable({
    batches = v.batches or false, every = v.every, most = v.steps or math.huge,
    loss = v.loss or o.loss, model = o.model, autocast = o.autocast or false, loss_of = loss_of,
    patience = o.patience ~= nil and options.count("train", "patience", o.patience),
    path = best_path(o), steps = {}, losses = {}, best = math.huge, best_step = 0, bad = 0,
    kept = false,
  }, Validation)
end


-- A validation -----------------------------------------------------------

-- The loss of a batch, and how many rows it has; nil where the batches end.
local function batch_loss(self, x, ...)
  if x == nil then return nil end
  local loss
  if self.autocast then loss = heed.autocast(self.autocast, self.loss_of, self, x, ...)
  else loss = self.loss_of(self, x, ...) end
  return loss:item(), heed.is_tensor(x) and x:dim() > 0 and x:size(1) or 1
end


-- The mean loss of all batches, by their rows.
local function mean_loss(self, step)
  local sum, rows, k = 0, 0, 0
  while k < self.most do
    local loss, n = batch_loss(self, self.batches())
    if not loss then break end
    sum, rows, k = sum + loss * n, rows + n, k + 1
  end
  if k == 0 then
    fail("train: the validation of step %d has no batch: a function that can begin again, such as "
         .. "data.batches, expected as batches of validate", step)
  end
  return sum / rows
end


local function own_loss(self, step)
  local loss = self.loss(step)
  if heed.is_tensor(loss) and loss:numel() == 1 then loss = loss:item() end
  if type(loss) == "number" then return loss end
  fail("train: a number expected from validate, got %s", kind(loss))
end


-- Counts a loss; NaN is no progress.
local function count(self, step, loss)
  local n, better = #self.losses + 1, loss < self.best
  self.steps[n], self.losses[n] = step, loss
  if better then self.best, self.best_step, self.bad = loss, step, 0
  else self.bad = self.bad + 1 end
end


local function write_best(self, step, loss)
  local metadata = {format = FORMAT, step = tostring(step), loss = ("%.17g"):format(loss)}
  local done, why = save.save(self.path, self.model:state(), metadata)
  if not done then fail("train: the best weights cannot be written: %s", why) end
  self.kept = {step = step, loss = loss}
end


-- The mean loss of batches, whose order takes no random numbers from the training.
local function apart(self, step)
  local states = rng.states()
  local _ <close> = setmetatable({}, {__close = function() rng.restore(states) end})
  return mean_loss(self, step)
end


---Validates after a step, if that is due.
---@param step integer
---@return number? loss
function Validation:run(step)
  if step % self.every ~= 0 then return nil end
  local loss = evaluating("train", self.model, function()
    return self.batches and apart(self, step) or own_loss(self, step)
  end)
  if self.path and loss < self.best then write_best(self, step, loss) end
  count(self, step, loss)
  return loss
end


---The validation with the least loss; with option keep that whose weights are in the file, which a
---killed run may have written behind its last checkpoint.
---@return {step: integer, loss: number, path: string?}? best nil before the first one
function Validation:best_one()
  if self.best_step == 0 then return nil end
  local kept = self.kept or {step = self.best_step, loss = self.best}
  return {step = kept.step, loss = kept.loss, path = self.path or nil}
end


---Whether too many validations in a row were no better.
---@return boolean
function Validation:is_over()
  return self.patience and self.bad >= self.patience
end


-- Checkpoints ------------------------------------------------------------

---The tensors that a checkpoint has of it.
---@return table<string, heed.Tensor>
function Validation:state()
  if #self.steps == 0 then return {} end
  return {steps = heed.tensor(self.steps), losses = heed.tensor(self.losses, {dtype = "float64"})}
end


local function is_list(t, dtype)
  return options.is_alive(t) and t.dtype == dtype and t:dim() == 1
end


-- The validation whose weights are in the file: the best one so far; or a better one behind all of
-- them, of a run that was killed before its next checkpoint.
local function read_kept(self)
  local tensors, metadata = save.load(self.path)
  if not tensors then fail("train: the best weights cannot be read: %s", metadata) end
  local step, loss = math.tointeger(tonumber(metadata.step)), tonumber(metadata.loss)
  if metadata.format ~= FORMAT or not step or not loss then
    fail("train: %s are no best weights of heed.train", self.path)
  end
  local same = step == self.best_step and loss == self.best
  if same or step > self.steps[#self.steps] and loss < self.best then
    return {step = step, loss = loss}
  end
  fail("train: %s has the weights of step %d, whose loss was %g, but the best validation of the "
       .. "checkpoint is that of step %d, with %g", self.path, step, loss, self.best_step,
       self.best)
end


---Goes on from a state.
---@param given table<string, heed.Tensor>
---@return boolean good
function Validation:load(given)
  if next(given) == nil then return true end
  local steps, losses = given.steps, given.losses
  if not (is_list(steps, "int64") and is_list(losses, "float64") and #steps == #losses) then
    return false
  end
  for k, step in ipairs(steps:totable()) do count(self, step, losses[k]) end
  if self.path and self.best_step > 0 then self.kept = read_kept(self) end
  return true
end


return Validation
