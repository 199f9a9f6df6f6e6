-- Reports the progress of a training run: by a bar on a terminal, elsewhere by lines.

local heed = require "heed"

local now = heed.clock

local Progress = {}
Progress.__index = Progress

local BAR = 24                -- characters
local PAUSE = 0.1             -- seconds between two pictures of the bar
local LINES = 10              -- for a run whose length is known


-- Seconds as "4:05" or "1:02:45".
local function clock_time(seconds)
  seconds = math.floor(seconds + 0.5)
  local hours, minutes = seconds // 3600, seconds // 60 % 60
  if hours > 0 then return ("%d:%02d:%02d"):format(hours, minutes, seconds % 60) end
  return ("%d:%02d"):format(minutes, seconds % 60)
end


local function bar(part)
  local full = math.floor(BAR * part)
  return "[" .. ("#"):rep(full) .. ("."):rep(BAR - full) .. "]"
end


local function rates_text(rates)
  local texts = {}
  for i, rate in ipairs(rates) do texts[i] = ("%.3g"):format(rate) end
  return table.concat(texts, " ")
end


local function per_second(rate, unit)
  return (rate < 10 and "%.1f %s/s" or "%.0f %s/s"):format(rate, unit)
end


-- "step 1500/2000  loss 0.4312  validation 0.4501  lr 0.001  12 steps/s  6144 tokens/s  0:41 left"
local function text(self, step)
  local seconds = math.max(now() - self.began, 1e-9)
  local rate = (step - self.first) / seconds
  local parts = {
    "step " .. step .. (self.steps and "/" .. self.steps or ""),
    ("loss %.4f"):format(self.sum / self.n),
    ("lr %s"):format(rates_text(self.rates())),
    per_second(rate, "steps"),
  }
  if self.unit then parts[#parts + 1] = per_second(self.taken / seconds, self.unit) end
  if self.validated then table.insert(parts, 3, ("validation %.4f"):format(self.validated)) end
  if self.steps and step < self.steps then
    parts[#parts + 1] = clock_time((self.steps - step) / rate) .. " left"
  end
  return table.concat(parts, "  ")
end


-- Writes a line with the mean loss of the steps since the last one.
local function show_line(self, step)
  self.write(text(self, step))
  self.sum, self.n = 0, 0
end


local function show_bar(self, step)
  local part = self.steps and bar(step / self.steps) .. "  " or ""
  self.drawn = part .. text(self, step)
  io.stdout:write("\r", self.drawn, "\27[K")
  io.stdout:flush()
  self.shown, self.sum, self.n = now(), 0, 0
end


-- How many steps lie between two lines.
local function line_distance(steps, output)
  if type(output) == "number" then return math.max(1, output // 1) end
  return steps and math.max(1, steps // LINES) or 1000
end


-- Writes a line to stdout; a sandbox may lack `io`, or `print` too.
local function line(message)
  if io then
    io.stdout:write(message, "\n")
    io.stdout:flush()
  elseif print then
    print(message)
  end
end


---@param first integer the last step before the run
---@param steps integer? the last step, if it is known
---@param rates fun(): number[] the learning rates
---@param output any false: nothing; a number: a line every so many steps; a function gets the lines
---@return table
function Progress.new(first, steps, rates, output)
  local terminal = output == nil and io ~= nil and heed.isatty()
  return setmetatable({
    first = first, steps = steps, rates = rates, validated = false, drawn = false,
    began = now(), shown = 0, sum = 0, n = 0, unit = false, taken = 0,
    silent = output == false, terminal = terminal, distance = line_distance(steps, output),
    write = type(output) == "function" and output or line,
  }, Progress)
end


---Makes room for what a step prints: the bar is wiped out, and stands again behind the step. Both
---wait in the buffer of stdout, so that a step that prints nothing writes nothing.
function Progress:begin_step()
  if self.drawn then io.stdout:write("\r\27[K") end
end


---Counts a batch: the ids of an int64 tensor (B, T) are tokens, the rows of another one samples.
---@param x any what goes to the model
function Progress:take(x)
  if self.silent or not heed.is_tensor(x) or x:dim() == 0 then return end
  local ids = x.dtype == "int64" and x:dim() == 2
  self.unit = ids and "tokens" or "samples"
  self.taken = self.taken + (ids and x:numel() or x:size(1))
end


---Notes the loss of a validation, which lines show from now on.
---@param loss number
function Progress:validate(loss) self.validated = loss end


---Writes the bar again, below what was printed since it was wiped out.
function Progress:end_step()
  if self.drawn then io.stdout:write("\r", self.drawn, "\27[K") end
end


---Counts a step, and draws the bar or writes a line if one is due.
---@param step integer
---@param loss number
function Progress:report(step, loss)
  if self.silent then return end
  self.sum, self.n = self.sum + loss, self.n + 1
  if self.terminal then
    if now() - self.shown >= PAUSE then show_bar(self, step) end
  elseif step % self.distance == 0 then
    show_line(self, step)
  end
end


---Ends the report, at the last step of the run.
---@param step integer
---@param why string? why it ended before its last step
function Progress:finish(step, why)
  if self.silent then return end
  if step ~= self.first then
    if self.n > 0 then (self.terminal and show_bar or show_line)(self, step) end
    if self.terminal then io.stdout:write("\n") end
  end
  if why then self.write(why) end
end


return Progress
