-- heed.train: the training loop that examples share, with progress, a log, checkpoints, resume.
--
--   heed.train{
--     model = model, loss = heed.binary_cross_entropy, batches = tasks.counting(),
--     optimizer = optim.Adam(model:parameters()), steps = 2000,
--     checkpoint = "counting.safetensors", every = 500, resume = true,
--   }
--
-- A checkpoint is one file, replaced as a whole: weights, the optimiser's state, the
-- generator's state, the losses. On the CPU a run that goes on from it ends bit for bit as the
-- one that never stopped. A run whose loss is no finite number ends with an error before that
-- step changes a weight, and its checkpoint stays as it was.

local core = require "heed.core"
local heed = require "heed"
local Log = require "heed.log"
local Module = require "heed.nn.module"
local optim = require "heed.optim"
local options = require "heed.options"
local Progress = require "heed.progress"
local rng = require "heed.rng"
local state = require "heed.state"

local fail = heed.fail

local EVERY = 1000                  -- steps between checkpoints
local FORMAT = "heed.train 1"

local KNOWN = {
  allow_nonfinite = false, batches = options.any, checkpoint = options.any, clip = options.any,
  every = options.any, log = options.any, loss = options.any, model = options.any,
  on_step = options.any, optimizer = options.any, print = options.any, resume = false,
  schedule = options.any, steps = options.any,
}


local PRINT = {["nil"] = true, boolean = true, number = true, ["function"] = true}

local function check_print(print)
  if PRINT[type(print)] then return end
  fail("train: false, a number of steps or a function expected as print, got %s",
       options.kind(print))
end


-- What heed.save would refuse is refused before the first step.
local function check_path(name, path, ending)
  if path == nil then return end
  if type(path) ~= "string" or path == "" or path:find("\0", 1, true) then
    fail("train: a path expected as %s, got %s", name, options.kind(path))
  elseif ending and path:sub(-#ending):lower() == ending then
    fail("train: a path that ends in .safetensors expected as %s, got %s", name, path)
  end
end


local function check_files(o)
  if o.checkpoint or o.log then core.check_files("train") end
  check_path("checkpoint", o.checkpoint, ".npy")
  check_path("log", o.log)
  if o.log ~= nil and o.log == o.checkpoint then
    fail("train: log and checkpoint are one file, %s", o.log)
  end
  if o.resume and not o.checkpoint then fail("train: resume needs a checkpoint to go on from") end
  if o.every ~= nil and not o.checkpoint then
    fail("train: every is how many steps lie between checkpoints, but no checkpoint is given")
  end
  if o.checkpoint and not Module.is(o.model) then
    fail("train: a module expected as model, to save it, got %s", options.kind(o.model))
  end
end


-- What is trained must be the model's, at least in part: a loss may have parameters of its own.
local function check_parameters(model, optimizer)
  local list = optimizer.parameters
  if not Module.is(model) or type(list) ~= "table" or #list == 0 then return end
  local own = {}
  for _, p in ipairs(model:parameters()) do own[p] = true end
  for _, p in ipairs(list) do
    if own[p] then return end
  end
  fail("train: an optimizer of the model's parameters expected, got one of %d others", #list)
end


local function check(given)
  if given == heed then fail("train: a table of options expected, got heed; heed.train{...}") end
  if type(given) ~= "table" then
    fail("train: a table of options expected, got %s", options.kind(given))
  end
  local o = options.read("train", given, KNOWN)
  for _, name in ipairs{"model", "loss", "batches"} do options.callable("train", name, o[name]) end
  for _, name in ipairs{"schedule", "on_step"} do
    if o[name] ~= nil then options.callable("train", name, o[name]) end
  end
  if o.clip ~= nil and type(o.clip) ~= "number" then
    fail("train: a number expected as clip, got %s", options.kind(o.clip))
  end
  if type(o.optimizer) ~= "table" or Module.is(o.optimizer) or not o.optimizer.step then
    fail("train: an optimizer expected, such as optim.Adam(model:parameters()), got %s",
         options.kind(o.optimizer))
  end
  if o.steps ~= nil then o.steps = options.count("train", "steps", o.steps, 0) end
  check_print(o.print)
  check_files(o)
  o.every = options.count("train", "every", o.every or EVERY)
  check_parameters(o.model, o.optimizer)
  return o
end


-- Batches may have a state of their own: methods state and load_state.
local function has_state(batches)
  return type(batches) == "table" and batches.state ~= nil and batches.load_state ~= nil
end


-- What a run that cannot go on leaves behind.
local function kept(run, o)
  if not o.checkpoint then return "" end
  if run.saved == 0 then return "; no checkpoint of this run was written" end
  return ("; the checkpoint of step %d stays"):format(run.saved)
end


-- A finite loss may have gradients that are not: what they made of the weights is not saved.
local function refuse_ruined(run, o)
  if o.allow_nonfinite then return end
  for name, p in o.model:named_parameters() do
    if p.requires_grad and not p:isfinite():all() then
      fail("train: after step %d the parameter %s is not finite%s; allow_nonfinite = true goes on",
           run.step, name, kept(run, o))
    end
  end
end


local function save_checkpoint(run, o)
  refuse_ruined(run, o)
  local tensors = rng.states()
  tensors.losses = heed.tensor(run.losses, {dtype = "float64"})
  state.put_below(tensors, "model.", o.model:state())
  state.put_below(tensors, "optimizer.", o.optimizer:state())
  if has_state(o.batches) then
    state.put_below(tensors, "batches.", o.batches:state())
  end
  local metadata = {format = FORMAT, step = tostring(run.step)}
  local done, why = heed.save(o.checkpoint, tensors, metadata)
  if not done then fail("train: the checkpoint cannot be written: %s", why) end
  run.saved = run.step
end


local function is_state(tensors, step)
  local rng_state, losses = tensors.rng, tensors.losses
  return rng_state and losses and losses:dim() == 1 and #losses == step
end


-- The checkpoint's tensors and step, or nil if there is no such file: any other failure is no
-- reason to begin anew.
local function read_checkpoint(path)
  local tensors, metadata, missing = heed.load(path)
  if missing then return nil end
  if not tensors then fail("train: the checkpoint cannot be read: %s", metadata) end
  local step = metadata.format == FORMAT and math.tointeger(tonumber(metadata.step))
  if not step or not is_state(tensors, step) then
    fail("train: %s is not a checkpoint of heed.train", path)
  end
  return tensors, step
end


local function refuse_misfits(o, model, optimizer)
  local problems = {}
  local in_model, model_hint = o.model:compare(model)
  local in_optimizer, optimizer_hint = o.optimizer:compare(optimizer)
  for _, p in ipairs(in_model) do problems[#problems + 1] = "model." .. p end
  for _, p in ipairs(in_optimizer) do problems[#problems + 1] = "optimizer." .. p end
  state.refuse("train", problems, model_hint or optimizer_hint)
end


-- Batches without a state are made again, up to the step, and dropped.
local function skip_batches(batches, tensors, step)
  if has_state(batches) then
    batches:load_state(state.below(tensors, "batches."))
  else
    for _ = 1, step do batches() end
  end
end


local function resume(run, o)
  local tensors, step = read_checkpoint(o.checkpoint)
  if not tensors then return end
  local model, optimizer = state.below(tensors, "model."), state.below(tensors, "optimizer.")
  refuse_misfits(o, model, optimizer)
  skip_batches(o.batches, tensors, step)      -- what may fail comes before what cannot
  rng.restore(tensors)
  o.model:load_state(model)
  o.optimizer:load_state(optimizer)
  run.step, run.saved, run.losses = step, step, tensors.losses:totable()
end


-- The loss of one batch, or nil where the batches end; x goes to the model, the rest to the loss.
local function loss_of(o, x, ...)
  if x == nil then return nil end
  local loss = o.loss(o.model(x), ...)
  if heed.is_tensor(loss) then return loss end
  fail("train: a tensor expected from loss, got %s", options.kind(loss))
end


-- The rate of a step, by the schedule.
local function rate_of(o, rate, step)
  local factor = o.schedule(step)
  if type(factor) == "number" then return rate * factor end
  fail("train: a number expected from schedule, got %s", options.kind(factor))
end


-- A value to be closed, which gives the optimiser its own rate again, however the run ends.
local function with_schedule(run, o)
  return o.schedule and setmetatable({}, {__close = function() o.optimizer.lr = run.rate end})
end


-- The loss as a number. It is read before the step, so that a bad one leaves the weights alone.
local function checked_loss(run, o, loss)
  local value = loss:item()
  if o.allow_nonfinite or value - value == 0 then return value end
  fail("train: the loss of step %d is %s%s; allow_nonfinite = true goes on", run.step + 1,
       value ~= value and "nan" or value, kept(run, o))
end


-- One step: its loss, or nil where the batches end.
local function train_step(run, o)
  local loss = loss_of(o, o.batches())
  if loss == nil then return nil end
  o.optimizer:zero_grad()
  loss:backward()
  local value = checked_loss(run, o, loss)
  if o.clip then optim.clip_grad_norm(o.optimizer.parameters, o.clip) end
  if o.schedule then o.optimizer.lr = rate_of(o, run.rate, run.step + 1) end
  o.optimizer:step()
  return value
end


-- Whether to go on: all that follows a step.
local function after_step(run, o, loss)
  run.step = run.step + 1
  run.losses[run.step] = loss
  if run.log then run.log:add{step = run.step, loss = loss, lr = o.optimizer.lr} end
  run.progress:report(run.step, loss)
  if o.checkpoint and run.step % o.every == 0 then
    if run.log then run.log:sync() end
    save_checkpoint(run, o)
  end
  return not (o.on_step and o.on_step(run.step, loss) == false)
end


local function loop(run, o)
  while not o.steps or run.step < o.steps do
    local loss = train_step(run, o)
    if not loss or not after_step(run, o, loss) then break end
  end
  if o.checkpoint and run.saved ~= run.step then save_checkpoint(run, o) end
end


---@class heed.train.options
---@field model function a module; it gets the first value of a batch
---@field loss fun(prediction: any, ...): heed.Tensor gets the batch's other values too
---@field batches function gives the next batch, or nil at the end; a task, for instance
---@field optimizer heed.Optimizer
---@field steps? integer the number of the last step; until the batches end unless given
---@field clip? number the largest norm of all gradients
---@field schedule? heed.Schedule what the optimiser's rate is multiplied with
---@field allow_nonfinite? boolean go on where the loss, or a weight that is to be saved, is NaN
---or infinite; without it the run ends with an error, and the checkpoint stays
---@field checkpoint? string a path
---@field every? integer steps between checkpoints; 1000 unless given
---@field resume? boolean go on from the checkpoint, if there is one, with its learning rate
---@field log? string a path; one JSON object a line: step, loss, lr
---@field print? false|integer|fun(line: string) nothing, every so many steps, or to a function
---@field on_step? fun(step: integer, loss: number): boolean? false ends the run

---Trains a model.
---@param given heed.train.options
---@return {losses: number[], steps: integer} run every step's loss, and how many steps there were
local function train(given, ...)
  if given ~= heed then options.no_more("train", 1, ...) end
  local o = check(given)
  local run = {step = 0, saved = 0, losses = {}, rate = o.optimizer.lr}
  local _ <close> = with_schedule(run, o)
  if o.resume then resume(run, o) end
  local log = o.log and Log.open(o.log, run.step) or nil
  local _ <close> = log and log.file
  run.log, run.progress = log, Progress.new(run.step, o.steps, o.print)
  if Module.is(o.model) then o.model:train() end
  loop(run, o)
  run.progress:finish(run.step)
  if log then log:sync() end
  return {losses = run.losses, steps = run.step}
end


return train
