-- heed.train: the counting notebook's losses, progress, logs, checkpoints, and resume.

local close = require "spec.support.close"
local heed = require "heed"
local golden = require "spec.golden"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"
local resumable_run = require "spec.resumable_run"
local tasks = require "heed.tasks"


-- The model of the counting notebook.
local Counter = nn.Module:extend("Counter")

function Counter:init()
  self.embed = nn.Embedding(10, 5)
  local query = heed.randn(1, 5, {device = "cpu"})
  self.query = nn.Parameter(query:to(heed.default_device()))
  self.WK = nn.Linear(5, 5)
  self.WV = nn.Linear(5, 50)
  self.nn = nn.Sequential{nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 1), nn.Sigmoid()}
end

function Counter:forward(x)
  local e = self.embed(x)                                                   -- (B, T, 5)
  local scores = heed.einsum("ik,bjk->bij", self.query, self.WK(e)) / 5 ^ 0.5
  local z = heed.einsum("bij,bjk->bik", scores:softmax(-1), self.WV(e))     -- (B, 1, 50)
  return self.nn(z:select(2, 1))                                            -- (B, 1)
end


local function options(more)
  local model = nn.Linear(10, 1)
  local o = {
    model = function(x) return model(x:to("float32")) end, loss = heed.bce_with_logits,
    batches = tasks.counting{size = 2, seed = 1}, optimizer = optim.SGD(model:parameters()),
    steps = 20, print = false,
  }
  for name, value in pairs(more or {}) do o[name] = value end
  return o
end


describe("the counting notebook", function()
  local wanted = golden.read("counting")

  -- PyTorch's names count from 0.
  local function check(got, rows, relative, floor)
    for name, row in pairs(rows) do
      local ours = name:gsub("%.(%d+)%.", function(i) return (".%d."):format(i + 1) end)
      assert.is_nil(golden.difference(got[ours], row, relative, floor), name)
    end
  end

  it("begins with PyTorch's gradients", function()
    heed.manual_seed(wanted.seed)
    local model, gradients = Counter(), {}
    local x, y = tasks.counting{than = 7}()
    heed.binary_cross_entropy(model(x), y):backward()
    for name, p in model:named_parameters() do gradients[name] = p.grad end
    check(gradients, wanted.first_gradients, 1e-4, 1e-6)
  end)

  it("follows PyTorch's losses and ends at its weights", function()
    heed.manual_seed(wanted.seed)
    local model = Counter()
    local run = heed.train{
      model = model, loss = heed.binary_cross_entropy, steps = #wanted.losses, print = false,
      batches = tasks.counting{than = 7}, optimizer = optim.Adam(model:parameters(), {lr = 1e-4}),
    }
    for i, loss in ipairs(wanted.losses) do
      assert.is_true(close(run.losses[i], loss, 0, 1e-4), "step " .. i)
    end
    local bias = wanted.weights_after["WK.bias"]
    wanted.weights_after["WK.bias"] = nil          -- adds the same to all keys' scores: its
    check(model:state(), wanted.weights_after, 1e-3, 1e-3)         -- gradient is noise
    assert.is_nil(golden.difference(model:state()["WK.bias"], bias, 0, 0.1))
  end)
end)


describe("training", function()
  it("gives every step's loss", function()
    local run = heed.train(options())
    assert.equal(20, run.steps)
    assert.equal(20, #run.losses)
  end)

  it("stops where the batches end, and where on_step says so", function()
    local batch, n = tasks.counting{size = 2}, 0
    local function three()
      n = n + 1
      if n <= 3 then return batch() end
    end
    assert.equal(3, heed.train(options{batches = three}).steps)
    local function until_seven(step) return step < 7 end
    assert.equal(7, heed.train(options{on_step = until_seven}).steps)
  end)

  it("multiplies the rate by the schedule, and puts it back", function()
    local rates, p = {}, nn.Parameter(heed.zeros(1))
    local opt = optim.SGD({p}, {lr = 0.5})
    heed.train(options{
      model = function() return p * 1 end, loss = function(y) return y:sum() end, optimizer = opt,
      schedule = function(step) return 1 / step end, steps = 3,
      on_step = function() rates[#rates + 1] = opt.lr end,
    })
    assert.same({0.5, 0.25, 0.5 / 3}, rates)
    assert.equal(0.5, opt.lr)
  end)

  it("puts the rate back also where the run breaks off", function()
    local o = options{
      schedule = function() return 0.25 end, on_step = function() error("stop", 0) end,
    }
    o.optimizer.lr = 0.5
    assert.equal("stop", message(heed.train, o))
    assert.equal(0.5, o.optimizer.lr)
  end)

  it("does so with an optimizer of the program's own, which has a rate", function()
    local seen, opt = {}, {lr = 0.5, zero_grad = function() end}
    function opt:step() seen[#seen + 1] = self.lr end
    local o = {optimizer = opt, schedule = function(step) return 1 / step end, steps = 3}
    local run = heed.train(options(o))
    assert.equal(3, run.steps)
    assert.same({0.5, 0.25, 0.5 / 3}, seen)
    assert.equal(0.5, opt.lr)
    o.on_step = function() error("stop", 0) end
    o.schedule = function() return 0.25 end
    assert.is_false(pcall(heed.train, options(o)))
    assert.equal(0.125, seen[4])
    assert.equal(0.5, opt.lr)
  end)

  it("clips gradients", function()
    local p = nn.Parameter(heed.zeros(1))
    heed.train(options{
      model = function() return p * 1000 end, loss = function(y) return y:sum() end, clip = 1,
      optimizer = optim.SGD({p}, {lr = 1}), steps = 1,
    })
    assert.is_true(close(p:item(), -1, 0, 1e-4))
  end)

  it("scales losses for float16, by the scaler that is given or one of its own", function()
    local function trained(dtype, scaler)
      local p = nn.Parameter(heed.ones(1))
      heed.train(options{
        model = function() return p * 1 end, loss = function(y) return y:sum() * 1e35 end,
        optimizer = optim.SGD({p}, {lr = 1e-35}), steps = 1, autocast = dtype, scaler = scaler,
      })
      return p:item()
    end
    assert.is_true(close(0, trained(), 0, 1e-4))
    assert.is_true(close(0, trained "bfloat16", 0, 1e-4))
    assert.equal(1, trained "float16")               -- 2^16 times the gradient is infinite
    local given, high = optim.Scaler{init_scale = 4}, optim.Scaler()
    assert.is_true(close(0, trained("float16", given), 0, 1e-4))
    assert.equal(4, given:get_scale())
    assert.equal(1, trained("bfloat16", high))
    assert.equal(2.0 ^ 15, high:get_scale())
  end)

  it("reports how far it is", function()
    local lines = {}
    heed.train(options{print = function(line) lines[#lines + 1] = line end})
    assert.equal(10, #lines)
    assert.matches("^step 2/20  loss %d+%.%d%d%d%d  .* steps/s  %d+ tokens/s  %d+:%d%d left$",
                   lines[1])
    assert.matches("^step 20/20  loss", lines[10])
  end)

  it("refuses to report at no step, or between steps", function()
    local function why(print) return message(heed.train, options{print = print, steps = 1}) end
    for text, value in pairs{["0"] = 0, ["%-3"] = -3, ["2%.5"] = 2.5, ["%-?nan"] = 0 / 0} do
      assert.matches("train: a whole number of at least 1 expected as print, got " .. text,
                     why(value))
    end
    assert.matches("train: false, a number of steps or a function expected as print, got the",
                   why "all")
  end)

  it("logs JSON lines", function()
    local path = os.tmpname()
    heed.train(options{log = path, steps = 5})
    heed.train(options{log = path, steps = 3})
    local entries = {}
    for line in io.lines(path) do entries[#entries + 1] = json.decode(line) end
    os.remove(path)
    assert.equal(3, #entries)
    assert.equal(2, entries[2].step)
    assert.equal(0.001, entries[3].lr)
    assert.equal("number", type(entries[1].loss))
  end)

  it("begins its log anew, whatever the file has", function()
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write("no log\n")
    file:close()
    heed.train(options{log = path, steps = 1})
    local first = io.lines(path)()
    os.remove(path)
    assert.equal(1, json.decode(first).step)
  end)

  it("raises where its log cannot be written", function()
    assert.matches("train: the log cannot be written: /dev/full: .*No space left on device",
                   message(heed.train, options{log = "/dev/full"}))
    assert.matches("train: the log cannot be written: /nonexistent/log: ",
                   message(heed.train, options{log = "/nonexistent/log"}))
    assert.equal(20, heed.train(options{log = "/dev/null"}).steps)
  end)

  it("refuses paths that could not be written before it begins", function()
    local model = nn.Linear(10, 1)
    local function refuses(text, more)
      more.model, more.optimizer = model, optim.SGD(model:parameters())
      assert.matches(text, message(heed.train, options(more)), 1, true)
    end
    refuses("train: a path expected as checkpoint, got 3", {checkpoint = 3})
    refuses("train: a path expected as checkpoint, got the string ''", {checkpoint = ""})
    refuses("train: a path expected as log, got the string 'a\\x00b'", {log = "a\0b"})
    refuses("train: a path that ends in .safetensors expected as checkpoint, got a.NPY",
            {checkpoint = "a.NPY"})
    refuses("expected as checkpoint, got a.gguf", {checkpoint = "a.gguf"})
    refuses("heed writes no .pt file, which is a pickle", {checkpoint = "a.pt"})
    local place = os.tmpname()
    os.remove(place)
    refuses("train: option checkpoint: " .. place .. "/a: there is no folder " .. place .. "/",
            {checkpoint = place .. "/a"})
    assert(os.execute("mkdir " .. place))
    refuses("train: option checkpoint: " .. place .. ": not a regular file", {checkpoint = place})
    local path = place .. "/a.safetensors"
    assert.equal(0, heed.train(options{
      checkpoint = path, model = model, optimizer = optim.SGD(model:parameters()), steps = 0,
    }).steps)
    os.remove(path)
    assert(os.execute("rmdir " .. place))                    -- nothing is left
  end)

  it("refuses validations that would not end", function()
    local ids = heed.randint(9, {60})
    for _, batches in ipairs{
      heed.data.windows(ids, {length = 4}), heed.tasks.reverse{size = 2},
      heed.data.batches(ids, {epochs = math.huge}),
    } do
      assert.matches("train: steps of validate expected, how many batches it takes",
                     message(heed.train, options{validate = {batches = batches}}))
    end
  end)

  it("is the same with validations in another order, and without", function()
    local x = heed.randn(40, 10)
    local y = x:sum(2, {keepdim = true})
    local function losses(validate)
      heed.manual_seed(5)
      local model = nn.Linear(10, 1)
      return heed.train{
        model = model, loss = heed.mse_loss, print = false, steps = 12, validate = validate,
        batches = heed.data.batches(x, y, {size = 8}),
        optimizer = optim.SGD(model:parameters(), {lr = 0.05}),
      }.losses
    end
    local plain = losses()
    assert.equal(12, #plain)
    assert.same(plain, losses{batches = heed.data.batches(x, y, {size = 8}), every = 2})
  end)

  it("says what others' options are called", function()
    for name, wanted in pairs{epochs = "data.batches", lr = "optimizer = ", batch_size = "size = n",
                              max_steps = "write steps = n"} do
      assert.matches("unknown option '" .. name .. "'.*" .. wanted,
                     message(heed.train, options{[name] = 3}))
    end
  end)

  it("refuses what it cannot work with", function()
    assert.matches("train: at most 1 argument expected, got 2 as argument 2$",
                   message(heed.train, options(), 2))
    assert.matches("train: a table of options expected, got nil", message(heed.train))
    assert.matches("did you mean 'loss'", message(heed.train, options{losss = 1}))
    assert.matches("a function expected as batches, got 3",
                   message(heed.train, options{batches = 3}))
    assert.matches("an optimizer expected", message(heed.train, options{optimizer = 3}))
    assert.matches("resume needs a checkpoint", message(heed.train, options{resume = true}))
    assert.matches("a module expected as model", message(heed.train, options{checkpoint = "x"}))
    assert.matches("got heed; heed.train{...}", message(heed.train, heed, options()), 1, true)
  end)

  it("stops where the loss is not finite, before the step, and names it", function()
    for text, bad in pairs{nan = 0 / 0, inf = 1 / 0, ["-inf"] = -1 / 0} do
      local p, n = nn.Parameter(heed.zeros(1)), 0
      local function loss(y)
        n = n + 1
        return y:sum() + (n == 4 and bad or 0)
      end
      local why = message(heed.train, options{
        model = function() return p * 1 end, loss = loss, optimizer = optim.SGD({p}, {lr = 1}),
      })
      assert.matches("train: the loss of step 4 is " .. text .. "; allow_nonfinite = true goes on",
                     why, 1, true)
      assert.equal(-3, p:item())
    end
  end)

  it("goes on past a loss that is not finite where allow_nonfinite says so", function()
    local p = nn.Parameter(heed.ones(1))
    local run = heed.train(options{
      model = function() return p * (0 / 0) end, loss = function(y) return y:sum() end,
      optimizer = optim.SGD{p}, steps = 3, allow_nonfinite = true,
    })
    assert.equal(3, run.steps)
  end)

  it("refuses every without a checkpoint", function()
    assert.matches("train: every is how many steps lie between checkpoints, but no checkpoint",
                   message(heed.train, options{every = 3}))
  end)

  it("refuses an optimizer of another model's parameters", function()
    local model, other = nn.Linear(10, 1), nn.Linear(10, 1)
    local function loss(y) return y:sum() end
    local function batches() return heed.ones(1, 10) end
    local function o(...)
      return options{model = model, loss = loss, batches = batches, optimizer = optim.SGD{...}}
    end
    assert.matches("train: an optimizer of the model's parameters expected, got one of 2 others",
                   message(heed.train, o(other.weight, other.bias)))
    assert.equal(20, heed.train(o(other.weight, model.bias)).steps)
  end)

  it("refuses an optimizer whose parameters are all frozen", function()
    local model = nn.Sequential{nn.Linear(10, 4), nn.Linear(4, 1)}
    local optimizer = optim.SGD(model:parameters())
    local adapters = nn.lora(model, {rank = 2, targets = {"1"}})
    local function run(own)
      return heed.train(options{model = model, loss = function(y) return y:sum() end, steps = 2,
                                batches = function() return heed.ones(1, 10) end, optimizer = own})
    end
    assert.matches("train: an optimizer of parameters that require grad expected, got one of 4 fro",
                   message(run, optimizer))
    assert.equal(2, run(optim.SGD(adapters:parameters())).steps)
    model[2].bias:requires_grad_()
    assert.equal(2, run(optimizer).steps)
  end)

  it("refuses a loss that is no tensor, and a rate that is no number", function()
    local function forgets(p) p:sum() end
    assert.matches("train_spec.*train: a tensor expected from loss, got nil",
                   message(function() heed.train(options{loss = forgets}) end))
    assert.matches("a tensor expected from loss, got %-?%d",
                   message(heed.train, options{loss = function(p) return p:sum():item() end}))
    assert.matches("train: a number expected from schedule, got the string 'slow'",
                   message(heed.train, options{schedule = function() return "slow" end}))
  end)
end)


describe("a checkpoint", function()
  local path

  before_each(function()
    path = os.tmpname()
    os.remove(path)
  end)

  after_each(function() os.remove(path) end)

  -- Runs it in another process, which finds the module as this one does.
  local function run_apart(o)
    local call = ("require'spec.resumable_run'{checkpoint=%q,steps=%d,kill=%d,every=%d,log=%q,"
                  .. "resume=%s}")
      :format(path, o.steps, o.kill, o.every or 500, o.log or "/dev/null", o.resume)
    local function quoted(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
    return os.execute(("LUA_PATH=%s LUA_CPATH=%s %s -e %s"):format(
      quoted(package.path), quoted(package.cpath), os.getenv("LUA") or "lua5.4", quoted(call)))
  end

  local function steps_in(log)
    local steps = {}
    for line in io.lines(log) do steps[#steps + 1] = json.decode(line).step end
    return steps
  end

  local function count_to(n)
    local list = {}
    for i = 1, n do list[i] = i end
    return list
  end

  it("lets a killed run end bit for bit as the one that never stopped", function()
    local model, optimizer, run = resumable_run{steps = 2000}
    local generator = heed.rng_state():data()
    local _, how, signal = run_apart{steps = 2000, kill = 1037}
    assert.is_true(how == "signal" or signal == 137)
    local again, its_optimizer, rest = resumable_run{checkpoint = path, steps = 2000, resume = true}
    assert.same(run.losses, rest.losses)
    assert.equal(generator, heed.rng_state():data())
    for _, pair in ipairs{{model, again}, {optimizer, its_optimizer}} do
      local wanted, got = pair[1]:state(), pair[2]:state()
      for name, t in pairs(wanted) do
        if name ~= "lr" then assert.equal(t:data(), got[name]:data(), name) end
      end
    end
  end)

  it("is not needed to start with resume", function()
    local _, _, run = resumable_run{checkpoint = path, steps = 10, resume = true}
    assert.equal(10, run.steps)
    _, _, run = resumable_run{checkpoint = path, steps = 10, resume = true}
    assert.equal(10, #run.losses)
  end)

  it("and a log keep every step once when a run is killed, also while it resumes", function()
    local log = os.tmpname()
    run_apart{steps = 110, kill = 57, log = log, every = 50}
    assert.same(count_to(57), steps_in(log))
    local file <close> = assert(io.open(log, "a"))
    file:write('{"loss":0.')                        -- a line that a full disk cut
    file:close()
    run_apart{steps = 110, kill = 51, log = log, every = 50, resume = true}
    assert.same(count_to(51), steps_in(log))
    resumable_run{checkpoint = path, steps = 110, every = 50, log = log, resume = true}
    assert.same(count_to(110), steps_in(log))
    os.remove(log)
  end)

  it("is not cut by a log of the same path", function()
    assert.matches("train: log and checkpoint are one file",
                   message(resumable_run, {checkpoint = path, steps = 2, log = path}))
    resumable_run{checkpoint = path, steps = 2}
    local other = path:gsub("^(.*/)", "%1./")
    local why = message(resumable_run,
                        {checkpoint = path, steps = 4, log = other, resume = true})
    assert.matches("is no log: its lines are no JSON", why)
    assert.is_truthy(heed.load(path))
  end)

  it("that cannot be read is not taken for a missing one", function()
    local function resume()
      return message(resumable_run, {checkpoint = path, steps = 2, resume = true})
    end
    assert(os.execute(("ln -s '%s' '%s'"):format(path, path)))
    assert.matches("train: .*checkpoint.*: Too many levels of symbolic links",
                   resume())
    os.remove(path)
    assert(os.execute(("mkdir '%s'"):format(path)))
    assert.matches("train: .*checkpoint.*: not a regular file", resume())
    os.remove(path)
    assert(io.open(path, "w")):close()
    assert.matches("train: the checkpoint cannot be read: .*: header too small", resume())
    path = path .. "/below"
    assert.matches("train: .*checkpoint.*: Not a directory", resume())
    path = path:gsub("/below$", "")
  end)

  it("stays where the loss, or a weight, is not finite", function()
    local model = nn.Linear(1, 1)
    local n, bad = 0, nil
    local function loss(y)
      n = n + 1
      return y:sum() * (bad and n == 5 and bad or 1)
    end
    local function train()
      n = 0
      return heed.train{
        model = model, loss = loss, batches = function() return heed.ones(1, 1) end, steps = 6,
        optimizer = optim.SGD(model:parameters(), {lr = 0.1}), checkpoint = path, every = 2,
        print = false,
      }
    end
    bad = 0 / 0
    assert.matches("the loss of step 5 is nan; the checkpoint of step 4 stays", message(train))
    local _, metadata = heed.load(path)
    assert.equal("4", metadata.step)
    bad = 3e38                       -- a finite loss, whose step leaves the weights infinite
    model.weight:detach():fill_(0)
    model.bias:detach():fill_(0)
    local function train_fast()
      n = 4
      return heed.train{
        model = model, loss = loss, batches = function() return heed.ones(1, 1) end, steps = 1,
        optimizer = optim.SGD(model:parameters(), {lr = 100}), checkpoint = path, print = false,
      }
    end
    assert.matches("train: after step 1 the parameter weight is not finite; no checkpoint of this",
                   message(train_fast))
    _, metadata = heed.load(path)
    assert.equal("4", metadata.step)
  end)

  it("of another model is refused with all differences", function()
    resumable_run{checkpoint = path, steps = 2}
    local model = nn.Linear(10, 1)
    local e = message(heed.train, options{
      model = model, optimizer = optim.SGD(model:parameters()), checkpoint = path, resume = true,
    })
    assert.matches("model.weight: float32 %(1, 10%) is missing", e)
    assert.matches("model.1.weight: not expected", e)
    assert.matches("optimizer.", e)
  end)

  it("whose batches cannot go on leaves the model as it was", function()
    local function batches_of(state)
      return setmetatable({
        state = function() return {n = heed.zeros(1)} end,
        load_state = function() assert(state, "no such batches") end,
      }, {__call = function() return heed.ones(1, 1) end})
    end
    local function train(batches, model)
      return heed.train{
        model = model, loss = function(y) return y:sum() end, batches = batches, steps = 2,
        optimizer = optim.SGD(model:parameters()), checkpoint = path, resume = true, print = false,
      }
    end
    train(batches_of(true), nn.Linear(1, 1))
    local model = nn.Linear(1, 1)
    local before = model.weight:data()
    assert.matches("no such batches", message(train, batches_of(false), model))
    assert.equal(before, model.weight:data())
  end)

  it("has no place for a released tensor in its state", function()
    local model = nn.Linear(10, 1)
    local optimizer = optim.SGD(model:parameters())
    local gone = heed.zeros(1)
    gone:release()
    local o = options{model = model, optimizer = optimizer, checkpoint = path,
                      state = {a = {gone}}}
    assert.matches("expected in option state, got a released tensor as state%.a%.1",
                   message(heed.train, o))
  end)

  it("that is none is refused", function()
    heed.save(path, {x = heed.zeros(1)})
    local model = nn.Linear(10, 1)
    local optimizer = optim.SGD(model:parameters())
    local o = options{model = model, optimizer = optimizer, checkpoint = path, resume = true}
    assert.matches("not a checkpoint of heed.train", message(heed.train, o))
  end)
end)


describe("this file", function()
  it("uses all golden numbers that it reads", golden.assert_all_used)
end)
