-- heed.train: the training loop that examples share, with progress, a log, checkpoints, resume.
--
--   heed.train{
--     model = model, loss = heed.binary_cross_entropy, batches = tasks.counting(),
--     optimizer = optim.Adam(model:parameters()), steps = 2000,
--     checkpoint = "counting.safetensors", every = 500, resume = true,
--   }
--
-- A checkpoint is one file, replaced as a whole: weights, the states of the optimiser, the
-- generator, batches and schedule, all losses, and the program's own state. Parameters of the
-- optimiser that are not the model's, such as those of a loss, are among the weights. On the CPU a
-- run that resumes from it ends bit for bit as one without a break. A run whose loss is not finite
-- ends with an error before that step changes a weight, and leaves its checkpoint unchanged.

local core = require "heed.core"
local Average = require "heed.optim.average"
local checkpoint = require "heed.train.checkpoint"
local group_options = require "heed.train.group_options"
local heed = require "heed"
local optimizers = require "heed.optim.optimizer"
local Log = require "heed.train.log"
local Module = require "heed.nn.module"
local notes = require "heed.train.notes"
local optim = require "heed.optim"
local options = require "heed.internal.options"
local others_of = require "heed.train.others"
local plateau = require "heed.optim.plateau"
local Progress = require "heed.train.progress"
local save = require "heed.save"
local torch_names = require "heed.internal.torch_names"
local Scaler = require "heed.optim.scaler"
local Validation = require "heed.train.validation"
local whole = require "heed.files.whole"

local fail, is_optimizer, rate_fields = heed.fail, optimizers.is, optimizers.rate_fields

local EVERY = 1000                  -- steps between checkpoints

local KNOWN = {
  accumulate = 1, allow_nonfinite = false, autocast = options.any, average = options.any,
  batches = options.any, checkpoint = options.any, clip = options.any, every = options.any,
  keep = options.any, log = options.any, loss = options.any, model = options.any,
  on_step = options.any, optimizer = options.any, patience = options.any, print = options.any,
  resume = false, scaler = options.any, schedule = options.any, state = options.any,
  steps = options.any, validate = options.any,
}


local PRINT = {["nil"] = true, boolean = true, number = true, ["function"] = true}

local function check_print(print)
  if type(print) == "number" then options.count("train", "print", print) end
  if PRINT[type(print)] then return end
  fail("train: false, a number of steps or a function expected as print, got %s",
       options.kind(print))
end


local function check_files(o)
  if o.checkpoint ~= nil then save.check_path("train", "checkpoint", o.checkpoint) end
  if o.log ~= nil then whole.check_path("train", o.log, "log") end
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


-- Refuses an optimizer without any parameter of the model; a loss may have more of its own.
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


-- Refuses an optimizer that changes nothing, since all of its parameters are frozen.
local function check_gradients(optimizer)
  local list = optimizer.parameters
  if type(list) ~= "table" or #list == 0 then return end
  for _, p in ipairs(list) do
    if not options.is_alive(p) or p.requires_grad then return end
  end
  fail("train: an optimizer of parameters that require grad expected, got one of %d frozen ones, "
       .. "as nn.lora leaves a model's own; p:requires_grad_(), or adapters:parameters()", #list)
end


-- Checks the options of mixed precision. Float16 needs a scaler: one is made unless given.
local function check_mixed(o)
  local dtype = o.autocast
  if dtype ~= nil and dtype ~= "bfloat16" and dtype ~= "float16" then
    fail("train: 'bfloat16' or 'float16' expected as autocast, got %s", options.kind(dtype))
  elseif o.scaler ~= nil and not Scaler.is(o.scaler) then
    fail("train: a scaler expected, such as optim.Scaler{}, got %s", options.kind(o.scaler))
  elseif o.average ~= nil and not Average.is(o.average) then
    fail("train: averages expected, such as optim.EMA(model), got %s", options.kind(o.average))
  end
  if dtype == "float16" then o.scaler = o.scaler or Scaler.Scaler{} end
end


local function check(given)
  if rawequal(given, heed) then
    fail("train: a table of options expected, got heed; heed.train{...}")
  end
  if type(given) ~= "table" then
    fail("train: a table of options expected, got %s", options.kind(given))
  end
  local o = options.read("train", given, KNOWN, torch_names.train)
  for _, name in ipairs{"model", "loss", "batches"} do options.callable("train", name, o[name]) end
  for _, name in ipairs{"schedule", "on_step"} do
    if o[name] ~= nil then options.callable("train", name, o[name]) end
  end
  if o.clip ~= nil then options.bound("train", "clip", o.clip) end
  if type(o.optimizer) ~= "table" or Module.is(o.optimizer) or not o.optimizer.step then
    fail("train: an optimizer expected, such as optim.Adam(model:parameters()), got %s",
         options.kind(o.optimizer))
  end
  if o.steps ~= nil then o.steps = options.count("train", "steps", o.steps, 0) end
  o.accumulate = options.count("train", "accumulate", o.accumulate)
  check_print(o.print)
  check_files(o)
  check_mixed(o)
  o.every = options.count("train", "every", o.every or EVERY)
  if o.state ~= nil then notes.write(o.state) end
  if o.state ~= nil and not o.checkpoint then
    fail("train: option state is for checkpoints, but no checkpoint is given")
  elseif plateau.is(o.schedule) and o.validate == nil and o.on_step == nil then
    fail("train: validate expected beside a schedule of plateaus, which needs losses to fall by")
  end
  check_parameters(o.model, o.optimizer)
  check_gradients(o.optimizer)
  return o
end


-- The end of an error message: which checkpoint the run leaves.
local function kept(run, o)
  if not o.checkpoint then return "" end
  if run.saved == 0 then return "; no checkpoint of this run was written" end
  return ("; the checkpoint of step %d stays"):format(run.saved)
end


-- Refuses to save weights that are not finite: a finite loss may have infinite gradients.
local function refuse_ruined(run, o)
  if o.allow_nonfinite then return end
  local function refuse(name, p)
    if not p.requires_grad or p:isfinite():all() then return end
    fail("train: after step %d the parameter %s is not finite%s; allow_nonfinite = true goes on",
         run.step, name, kept(run, o))
  end
  for name, p in o.model:named_parameters() do refuse(name, p) end
  for i, p in pairs(others_of(o.model, o.optimizer).parameters) do
    refuse(("%d of the optimizer"):format(i), p)
  end
end


-- The loss of one batch, or nil where the batches end; x goes to the model, the rest to the loss.
local function loss_of(o, x, ...)
  if x == nil then return nil end
  local loss = o.loss(o.model(x), ...)
  if heed.is_tensor(loss) then return loss end
  fail("train: a tensor expected from loss, got %s", options.kind(loss))
end


-- The rates of an optimiser's groups, or the one rate of an optimiser of a program's own.
local function rates_of(optimizer)
  if not is_optimizer(optimizer) then return {optimizer.lr} end
  local rates = optimizers.options_of(optimizer)
  for i, group in ipairs(rates) do rates[i] = group.lr end
  return rates
end


local function set_rates(optimizer, rates, factor)
  local scaled = {}
  for i, rate in ipairs(rates) do scaled[i] = rate * factor end
  if is_optimizer(optimizer) then
    core.set_fields(rate_fields(optimizer, scaled))
  else
    optimizer.lr = scaled[1]
  end
end


-- A checkpoint has the rates without a schedule's factor. Without a schedule these are whatever the
-- program has set.
local function save_checkpoint(run, o)
  refuse_ruined(run, o)
  if not o.schedule then run.rates = rates_of(o.optimizer) end
  checkpoint.save(run, o)
  run.saved = run.step
end


-- The factor of the rates at a step, by the schedule.
local function factor_of(o, step)
  local factor = o.schedule(step)
  if type(factor) == "number" then return factor end
  fail("train: a number expected from schedule, got %s", options.kind(factor))
end


-- Calls f(run, o), after which the optimiser has its rates again, however the run ends.
local function with_schedule(run, o, f)
  if not o.schedule then return f(run, o) end
  if is_optimizer(o.optimizer) then
    local back = {fields = rate_fields(o.optimizer, run.rates)}
    return core.commit_during("train", {}, back, f, run, o)
  end
  local _ <close> = setmetatable({}, {
    __close = function() set_rates(o.optimizer, run.rates, 1) end,
  })
  return f(run, o)
end


-- The loss as a number, read before the step, so that a loss that is not finite changes no weight.
local function checked_loss(run, o, loss)
  local value = loss:item()
  if o.allow_nonfinite or value - value == 0 then return value end
  fail("train: the loss of step %d is %s%s; allow_nonfinite = true goes on", run.step + 1,
       value ~= value and "nan" or value, kept(run, o))
end


-- The batch that was drawn; behind an epoch the first of the next one, where the number of steps is
-- given and batches with a state begin again.
local function next_batch(o, x, ...)
  if x ~= nil or not (o.steps and checkpoint.has_state(o.batches)) then return x, ... end
  return o.batches()
end


-- The batch, of which the line of progress tells how many rows or ids there are in a second.
local function noted(run, x, ...)
  run.progress:take(x)
  return x, ...
end


-- Adds the gradients of one batch to those of the step; returns its loss, or nil where the batches
-- end.
local function add_gradients(run, o, first)
  local loss
  if o.autocast then
    loss = heed.autocast(o.autocast, loss_of, o, noted(run, next_batch(o, o.batches())))
  else
    loss = loss_of(o, noted(run, next_batch(o, o.batches())))
  end
  if loss == nil then return nil end
  if first then o.optimizer:zero_grad() end
  local part = o.accumulate > 1 and loss / o.accumulate or loss
  if o.scaler then part = o.scaler:scale(part) end
  part:backward()
  return checked_loss(run, o, loss)
end


-- Computes the gradients of a step; returns the mean loss of its batches, or nil where they end.
-- Batches that are too few for a step at the end are dropped.
local function gradients(run, o)
  local sum = 0
  for k = 1, o.accumulate do
    local loss = add_gradients(run, o, k == 1)
    if loss == nil then return nil end
    sum = sum + loss
  end
  return sum / o.accumulate
end


-- Changes the weights along the gradients, which a scaler divides before.
local function update(o)
  local scaler, optimizer = o.scaler, o.optimizer
  if scaler then scaler:unscale_(optimizer) end
  if o.clip then optim.clip_grad_norm(optimizer.parameters, o.clip) end
  if not scaler then return optimizer:step() end
  scaler:step(optimizer)
  scaler:update()
end


-- Runs one step; returns its loss, or nil where the batches end.
local function train_step(run, o)
  local loss = gradients(run, o)
  if loss == nil then return nil end
  if o.schedule then set_rates(o.optimizer, run.rates, factor_of(o, run.step + 1)) end
  if o.scaler then Scaler.during("train", o.scaler, update, o) else update(o) end
  if o.average then o.average:update() end
  return loss
end


-- The rate in the log: a number, or a list where there are several groups.
local function logged_rate(optimizer)
  local rates = rates_of(optimizer)
  return #rates == 1 and rates[1] or rates
end


-- Validates if that is due; a schedule of plateaus learns the loss. Returns it, or nil.
local function validate(run, o)
  local loss = run.validation and run.validation:run(run.step)
  if not loss then return nil end
  if plateau.is(o.schedule) then o.schedule:update(loss) end
  run.progress:validate(loss)
  return loss
end


-- Records a step: loss, validation, log, the program's part, progress and checkpoint; returns
-- whether the program ends the run. A checkpoint has what on_step did to the program's state.
local function after_step(run, o, loss)
  run.step, run.taken = run.step + 1, run.taken + o.accumulate
  run.losses[run.step] = loss
  local entry = {step = run.step, loss = loss, lr = logged_rate(o.optimizer)}
  entry.validation = validate(run, o)
  if run.log then run.log:add(entry) end
  local ends = o.on_step and o.on_step(run.step, loss) == false
  run.progress:end_step()
  run.progress:report(run.step, loss)
  if o.checkpoint and run.step % o.every == 0 then
    if run.log then run.log:sync() end
    save_checkpoint(run, o)
  end
  return ends
end


-- Runs steps until one of the ends that is returned, in a word.
local function loop(run, o)
  while true do
    if run.validation and run.validation:is_over() then return "patience" end
    if o.steps and run.step >= o.steps then return "steps" end
    run.progress:begin_step()
    local loss = train_step(run, o)
    if not loss then return "batches" end
    if after_step(run, o, loss) then return "on_step" end
  end
end


-- The line of a run that ended before its last step, in an unexpected way.
local function why_ended(run, o)
  if run.ended == "batches" and o.steps then
    return ("the batches ended after step %d of %d"):format(run.step, o.steps)
  elseif run.ended == "patience" then
    local v = run.validation
    return ("ended after step %d: %d validations in a row were no better than that of step %d, "
            .. "%.4f"):format(run.step, v.bad, v.best_step, v.best)
  end
end


local function run_all(run, o)
  local function rates() return rates_of(o.optimizer) end
  run.progress = Progress.new(run.step, o.steps, rates, o.print)
  if Module.is(o.model) then o.model:train() end
  run.ended = loop(run, o)
  if o.checkpoint and run.saved ~= run.step then save_checkpoint(run, o) end
  run.progress:finish(run.step, why_ended(run, o))
  if run.log then run.log:sync() end
end


-- Goes on from what was read of a checkpoint, with the rates that the run had without a schedule.
local function resume(run, o, found)
  checkpoint.resume(run, o, found)
  if found.rates then set_rates(o.optimizer, found.rates, 1) end
end


local function result_of(run)
  local v, result = run.validation, {losses = run.losses, steps = run.step, ended = run.ended}
  if not v then return result end
  result.validation, result.best = {steps = v.steps, losses = v.losses}, v:best_one()
  return result
end


---@class heed.train.options
---@field model function a module; it gets the first value of a batch as it is, which for several
---inputs is a list
---@field loss fun(prediction: any, ...): heed.Tensor gets the batch's other values too
---@field batches function gives the next batch, or nil at the end; a task, for instance
---@field optimizer heed.Optimizer of parameters some of which require grad
---@field accumulate? integer batches for each step, whose gradients are averaged; 1 unless given.
---Batches behind the last whole step are taken, and not used
---@field autocast? "bfloat16"|"float16" the type of mixed precision for model and loss
---@field scaler? heed.Scaler of losses; for float16 there is one unless given
---@field average? heed.EMA averages of the weights, updated after each step
---@field steps? integer the number of the last step; until the batches end unless given. Batches
---that can begin again, such as those of data.batches, do so until then
---@field clip? number the largest norm of all gradients
---@field schedule? heed.Schedule what the rates of the optimiser's groups, as they are when the run
---begins, are multiplied with at each step: a rate that on_step sets would not last
---@field allow_nonfinite? boolean go on where the loss, or a weight that is to be saved, is NaN
---or infinite; without it the run ends with an error, and the checkpoint stays
---@field checkpoint? string a path; the file has the parameters of a loss, too, where the optimiser
---has them
---@field every? integer steps between checkpoints; 1000 unless given
---@field resume? boolean go on from the checkpoint, if there is one, with its learning rates, which
---a schedule multiplies, and with those options of the optimiser's groups that the run has changed
---and that add no state to it, as amsgrad would. Other changes by on_step are in no checkpoint
---@field log? string a path; one JSON object a line: step, loss, lr, and validation where there
---was one
---@field validate? heed.train.validate.options|fun(step: integer): number|heed.Tensor validations:
---batches whose mean loss is taken, or a function that gives a loss; of the model's own weights,
---also beside an average, which `ema:apply` in such a function would measure
---@field keep? "best" the weights of the least validation loss go into a file of their own, beside
---the checkpoint: a.best.safetensors for a.safetensors
---@field patience? integer so many validations in a row without a smaller loss end the run
---@field state? table of the program: numbers, strings, booleans, tensors and such tables, which
---checkpoints have, and which a run that resumes fills again
---@field print? false|integer|fun(line: string) nothing, every so many steps, or to a function
---@field on_step? fun(step: integer, loss: number): boolean? false ends the run

---@class heed.train.validate.options
---@field batches? function gives the next batch, and nil at the end; it begins again behind that.
---The generators are as before behind a validation
---@field loss? function as for training; without batches, a function of the step that gives a loss
---@field every? integer steps between validations; 100 unless given
---@field steps? integer how many batches at most

---@class heed.train.run
---@field losses number[] every step's
---@field steps integer how many steps there were
---@field ended "steps"|"batches"|"on_step"|"patience" what ended the run
---@field validation? {steps: integer[], losses: number[]} those of validations, and after which
---steps they were
---@field best? {step: integer, loss: number, path: string?} the best one, and where its weights are

---Trains a model, in training mode: `model:eval()` ends dropout behind it. `on_step` may set a part
---to eval mode. A validation runs in eval mode, without gradients.
---@param given heed.train.options
---@return heed.train.run run
local function train(given, ...)
  if not rawequal(given, heed) then options.no_more("train", 1, ...) end
  local o = check(given)
  local run = {step = 0, saved = 0, taken = 0, losses = {}, rates = rates_of(o.optimizer),
               options = group_options.now(o.optimizer), validation = Validation.new(o, loss_of)}
  local found = o.resume and checkpoint.read(run, o)
  run.log = o.log and Log.open(o.log, found and found.step or 0)
  local _ <close> = run.log and run.log.file
  if found then resume(run, o, found) end
  if run.log then run.log:cut() end
  with_schedule(run, o, run_all)
  return result_of(run)
end


return train
