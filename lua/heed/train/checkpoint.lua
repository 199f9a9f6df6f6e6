-- Checkpoints of a training run: what goes into one, and how a run goes on from it.
--
-- A run that resumes reads and compares the whole file before anything changes. What may fail
-- behind that is to find the place in the batches: the program's functions do it, and an error of
-- theirs leaves the generators, and the batches of validations, as they were.

local core = require "heed.core"
local group_options = require "heed.train.group_options"
local heed = require "heed"
local notes = require "heed.train.notes"
local optimizers = require "heed.optim.optimizer"
local others_of = require "heed.train.others"
local plateau = require "heed.optim.plateau"
local rng = require "heed.internal.rng"
local save = require "heed.save"
local state = require "heed.files.state"

local fail = heed.fail

local checkpoint = {}

local FORMAT <const> = "heed.train 1"

---@class heed.train.found what a run goes on from
---@field tensors table<string, heed.Tensor>
---@field step integer
---@field given table<string, table<string, heed.Tensor>> the states of the parts of the run
---@field notes? table the program's own state
---@field taken integer how many batches the run has taken
---@field options table<integer, table<string, any>> of the optimiser's groups, which the run has
---changed
---@field rates number[]|false of the optimiser's groups, without the factor of a schedule; older
---checkpoints lack them


---Whether batches have a state of their own: methods state and load_state.
---@param batches any
---@return boolean
function checkpoint.has_state(batches)
  return type(batches) == "table" and batches.state ~= nil and batches.load_state ~= nil
end

local has_state = checkpoint.has_state


-- The parts of a run with a state, by their names in the checkpoint; false where one is missing.
local function parts_of(o)
  return {model = o.model, optimizer = o.optimizer, scaler = o.scaler or false,
          average = o.average or false, schedule = plateau.is(o.schedule) and o.schedule,
          parameters = others_of(o.model, o.optimizer)}
end


-- Writing ------------------------------------------------------------------

-- Adds the losses of validations, and where their batches stand.
local function put_validation(run, tensors)
  local validation = run.validation
  if not validation then return end
  state.put_below(tensors, "validation.", validation:state())
  if has_state(validation.batches) then
    state.put_below(tensors, "validation_batches.", validation.batches:state())
  end
end


-- Adds the tensors of the program's own state; returns the rest as text.
local function put_notes(own, tensors)
  local text, list = notes.write(own)
  for i, t in ipairs(list) do tensors["state." .. i] = t end
  return text
end


---Writes the checkpoint of a run.
---@param run table
---@param o heed.train.options
function checkpoint.save(run, o)
  local tensors = rng.states()
  tensors.losses = heed.tensor(run.losses, {dtype = "float64"})
  if optimizers.is(o.optimizer) then
    tensors.rates = heed.tensor(run.rates, {dtype = "float64"})
    state.put_below(tensors, "options.", group_options.changed(o.optimizer, run.options))
  end
  for name, part in pairs(parts_of(o)) do
    if part then state.put_below(tensors, name .. ".", part:state()) end
  end
  if has_state(o.batches) then
    state.put_below(tensors, "batches.", o.batches:state())
  end
  local metadata = {format = FORMAT, step = tostring(run.step), batches = tostring(run.taken)}
  put_validation(run, tensors)
  if o.state ~= nil then metadata.state = put_notes(o.state, tensors) end
  local done, why = save.save(o.checkpoint, tensors, metadata)
  if not done then fail("train: the checkpoint cannot be written: %s", why) end
end


-- Reading ------------------------------------------------------------------

local function is_vector(t, n) return t and t:dim() == 1 and #t == n end


-- The checkpoint's tensors, step and metadata, or nil if there is no such file. Any other failure
-- raises: a run that began anew would overwrite the checkpoint.
local function read_file(path)
  local tensors, metadata, missing = save.load(path)
  if missing then return nil end
  if not tensors then fail("train: the checkpoint cannot be read: %s", metadata) end
  local step = metadata.format == FORMAT and math.tointeger(tonumber(metadata.step))
  if not step or not tensors.rng or not is_vector(tensors.losses, step) then
    fail("train: %s is not a checkpoint of heed.train", path)
  end
  return tensors, step, metadata
end


local function refuse_misfits(parts, given)
  local problems, hint = {}, nil
  for name, part in pairs(parts) do
    local found, part_hint
    if part then found, part_hint = part:compare(given[name])
    else found = state.compare({}, given[name]) end
    for _, p in ipairs(found) do problems[#problems + 1] = name .. "." .. p end
    hint = hint or part_hint
  end
  table.sort(problems)
  state.refuse("train", problems, hint)
end


-- The program's own state in a checkpoint, from its text; nil where neither has one.
local function read_notes(o, tensors, text)
  if (text ~= nil) == (o.state ~= nil) then
    return text and notes.read(text, state.below(tensors, "state."))
  end
  fail("train: the checkpoint %s, but option state is %s", text and "has a state of the program"
       or "has no state of the program", text and "missing" or "given")
end


-- Counts the validations that the checkpoint tells of; they decide what the best weights are.
local function read_validation(run, o, tensors)
  local given = state.below(tensors, "validation.")
  if not run.validation then
    if next(given) == nil then return end
    fail("train: the checkpoint has losses of validations, but option validate is missing")
  elseif not run.validation:load(given) then
    fail("train: %s is not a checkpoint of heed.train", o.checkpoint)
  end
end


-- The options of the optimiser's groups that the run has changed.
local function read_options(o, tensors)
  local values = group_options.read(o.optimizer, state.below(tensors, "options."))
  return values or fail("train: the checkpoint has options of other groups of parameters")
end


---Reads the checkpoint of a run, and compares it with the run's options.
---@param run table
---@param o heed.train.options
---@return heed.train.found? found nil where there is no such file
function checkpoint.read(run, o)
  local tensors, step, metadata = read_file(o.checkpoint)
  if not tensors then return nil end
  local own, parts, given = read_notes(o, tensors, metadata.state), parts_of(o), {}
  for name in pairs(parts) do given[name] = state.below(tensors, name .. ".") end
  refuse_misfits(parts, given)
  read_validation(run, o, tensors)
  return {tensors = tensors, step = step, given = given, notes = own,
          options = read_options(o, tensors),
          taken = math.tointeger(tonumber(metadata.batches)) or step * o.accumulate,
          rates = is_vector(tensors.rates, #run.rates) and tensors.rates:totable() or false}
end


-- Restores the state of batches; of batches without one, those that the run took are drawn and
-- dropped.
local function move_batches(batches, given, taken)
  if has_state(batches) then return batches:load_state(given) end
  for _ = 1, taken do batches() end
end


-- Moves the batches, and those of validations, to their places.
local function move_all(run, o, found)
  local states, others, before = rng.states(), run.validation and run.validation.batches, nil
  local stand = state.below(found.tensors, "validation_batches.")
  local moved = false
  local _ <close> = setmetatable({}, {__close = function()
    if moved then return end
    rng.restore(states)
    if before then others:load_state(before) end
  end})
  if has_state(others) and next(stand) then
    before = others:state()
    others:load_state(stand)
  end
  move_batches(o.batches, state.below(found.tensors, "batches."), found.taken)
  moved = true
end


---Makes a run what it was when it wrote what was read.
---@param run table
---@param o heed.train.options
---@param found heed.train.found
function checkpoint.resume(run, o, found)
  local tensors = found.tensors
  move_all(run, o, found)
  rng.restore(tensors)
  for name, part in pairs(parts_of(o)) do
    if part then part:load_state(found.given[name]) end
  end
  if optimizers.is(o.optimizer) then
    core.set_fields(optimizers.option_fields(o.optimizer, found.options))
  end
  if found.notes then notes.restore(o.state, found.notes) end
  run.step, run.saved, run.losses = found.step, found.step, tensors.losses:totable()
  run.taken, run.rates = found.taken, found.rates or run.rates
end


return checkpoint
