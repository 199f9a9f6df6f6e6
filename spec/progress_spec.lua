-- The lines and the bar of heed.train, by a clock that stands in the place of heed's.

local heed = require "heed"

local NAME <const> = "heed.train.progress"
local seconds, Progress

-- The module is loaded again, with another clock.
setup(function()
  local clock, loaded = heed.clock, package.loaded[NAME]
  heed.clock, package.loaded[NAME] = function() return seconds end, nil
  Progress = require(NAME)
  heed.clock, package.loaded[NAME] = clock, loaded
end)

before_each(function() seconds = 0 end)

local function rates() return {0.5, 1e-4} end

-- A progress that writes to a list of lines, and steps it takes, `pace` of them in a second.
local function run(o)
  local lines = {}
  local function keep(text) lines[#lines + 1] = text end
  local progress = Progress.new(o.first, o.steps, rates, o.output == nil and keep or o.output)
  for step = o.first + 1, o.last do
    seconds = seconds + 1 / o.pace
    if o.validated then progress:validate(o.validated) end
    progress:report(step, step)
  end
  progress:finish(o.last, o.why)
  return lines
end

-- Calls f with other globals and another answer of heed.isatty.
local function with(globals, is_terminal, f)
  local before, isatty = {io = io, print = print}, heed.isatty
  heed.isatty = function() return is_terminal end
  for name in pairs(before) do rawset(_G, name, globals[name]) end
  local good, why = pcall(f)
  for name, value in pairs(before) do rawset(_G, name, value) end
  heed.isatty = isatty
  assert(good, why)
end


describe("lines of progress", function()
  it("come ten times, with the mean loss since the last one, the pace and what is left", function()
    local lines = run{first = 9, steps = 109, last = 40, pace = 4, why = "stopped"}
    assert.same({
      "step 10/109  loss 10.0000  lr 0.5 0.0001  4.0 steps/s  0:25 left",
      "step 20/109  loss 15.5000  lr 0.5 0.0001  4.0 steps/s  0:22 left",
      "step 30/109  loss 25.5000  lr 0.5 0.0001  4.0 steps/s  0:20 left",
      "step 40/109  loss 35.5000  lr 0.5 0.0001  4.0 steps/s  0:17 left", "stopped",
    }, lines)
  end)

  it("come for what is left of the steps, and say minutes, hours and a fast pace", function()
    local lines = run{first = 0, steps = 5, last = 2, pace = 1 / 2470, validated = 0.25}
    local middle = "0000  validation 0.2500  lr 0.5 0.0001  0.0 steps/s  "
    assert.same({"step 1/5  loss 1." .. middle .. "2:44:40 left",
                 "step 2/5  loss 2." .. middle .. "2:03:30 left"}, lines)
    lines = run{first = 0, steps = 3, last = 3, pace = 1 / 64}
    assert.matches("0.0 steps/s  1:04 left$", lines[2])
    assert.matches("0.0 steps/s$", lines[3])
    seconds = 0
    assert.matches("1:00:00 left$", run{first = 0, steps = 2, last = 1, pace = 1 / 3600}[1])
    seconds = 0
    assert.matches("59:59 left$", run{first = 0, steps = 2, last = 1, pace = 1 / 3599}[1])
    seconds = 0
    assert.matches("  10 steps/s", run{first = 0, steps = 1, last = 1, pace = 10}[1])
    lines = run{first = 0, steps = 1, last = 1, pace = math.huge}
    assert.matches("  1000000000 steps/s$", lines[1])
  end)

  it("say how many rows or ids are taken in a second", function()
    local function line_of(...)
      local lines = {}
      seconds = 0
      local progress = Progress.new(0, 1, function() return {0.5} end,
                                    function(line) lines[1] = line end)
      for _, x in ipairs{...} do progress:take(x) end
      seconds = 2
      progress:report(1, 3)
      return lines[1]
    end
    local ids = heed.ones(4, 5, {dtype = "int64"})
    assert.matches("  0.5 steps/s  20 tokens/s$", line_of(ids, ids))
    assert.matches("  0.5 steps/s  4.0 samples/s$", line_of(heed.ones(4, 5), heed.ones(4)))
    assert.matches("  0.5 steps/s$", line_of({1, 2}, heed.tensor(1.5)))
  end)

  it("come each thousand steps where no end is known", function()
    local lines = run{first = 0, last = 2100, pace = 64}
    assert.same({"step 1000  loss 500.5000  lr 0.5 0.0001  64 steps/s",
                 "step 2000  loss 1500.5000  lr 0.5 0.0001  64 steps/s",
                 "step 2100  loss 2050.5000  lr 0.5 0.0001  64 steps/s"}, lines)
    assert.same({"done"}, run{first = 4, last = 4, pace = 1, why = "done"})
  end)

  it("come as often as a number says, to stdout or by print", function()
    local printed, written = {}, {}
    local out = {write = function(_, ...) written[#written + 1] = table.concat{...} end,
                 flush = function() written[#written + 1] = "flush" end}
    local o = {first = 0, steps = 7, last = 7, pace = 64, output = 3.9}
    with({io = {stdout = out}}, true, function() run(o) end)
    assert.equal(6, #written)
    assert.matches("^step 3/7  .*left\n$", written[1])
    assert.matches("^step 6/7  ", written[3])
    assert.matches("^step 7/7  .*/s\n$", written[5])
    assert.same({"flush", "flush"}, {written[2], written[6]})
    o.output = 0.5
    with({print = function(text) printed[#printed + 1] = text end}, true, function() run(o) end)
    assert.equal(7, #printed)
    with({}, true, function() run(o) end)
  end)

  it("go to a function on a terminal, too; false says nothing", function()
    with({}, true, function()
      assert.equal(7, #run{first = 0, steps = 7, last = 7, pace = 64})
    end)
    local silent = {first = 0, steps = 7, last = 7, pace = 64, why = "stopped", output = false}
    local out = {write = function() error "written" end, flush = function() end}
    for _, globals in ipairs{{io = {stdout = out}}, {print = out.write}} do
      for _, is_terminal in ipairs{true, false} do
        with(globals, is_terminal, function() run(silent) end)
      end
    end
  end)
end)


describe("a bar of progress", function()
  it("is drawn ten times a second, and at the end", function()
    local written = {}
    local out = {write = function(_, ...) written[#written + 1] = table.concat{...} end,
                 flush = function() end}
    with({io = {stdout = out}}, true, function()
      local progress = Progress.new(0, 8, rates)
      for step, at in ipairs{0.0625, 0.125, 0.1875, 0.25} do
        seconds = at
        progress:begin_step()
        progress:end_step()
        progress:report(step, step)
      end
      progress:finish(4, "stopped")
    end)
    local bar = "[######..................]  step 2/8  loss 1.5000  lr 0.5 0.0001  16 steps/s  "
                .. "0:00 left"
    assert.same({
      "\r" .. bar .. "\27[K", "\r\27[K", "\r" .. bar .. "\27[K", "\r\27[K", "\r" .. bar .. "\27[K",
      "\r[############............]  step 4/8  loss 3.5000  lr 0.5 0.0001  16 steps/s  0:00 left"
      .. "\27[K", "\n", "stopped\n",
    }, written)
  end)

  it("has no length where no end is known", function()
    local written = {}
    local out = {write = function(_, ...) written[#written + 1] = table.concat{...} end,
                 flush = function() end}
    with({io = {stdout = out}}, true, function()
      seconds = 1
      local progress = Progress.new(0, nil, rates)
      seconds = 2
      progress:report(1, 3)
      progress:finish(1)
      progress = Progress.new(5, nil, rates)
      progress:finish(5)
    end)
    assert.same({"\rstep 1  loss 3.0000  lr 0.5 0.0001  1.0 steps/s\27[K", "\n"}, written)
  end)
end)
