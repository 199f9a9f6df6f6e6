-- Lion, by its formula in plain Lua; and states that begin later than their parameters' steps.

local heed = require "heed"
local message = require "spec.support.message"
local near = require "spec.support.near"
local nn = require "heed.nn"
local optim = require "heed.optim"


-- Chen et al. 2023, algorithm 2: the parameter's path.
local function lion(p, gradients, o)
  local mean, path = 0, {}
  local beta1, beta2 = table.unpack(o.betas)
  for step, g in ipairs(gradients) do
    if o.maximize then g = -g end
    local along = beta1 * mean + (1 - beta1) * g
    local sign = along > 0 and 1 or along < 0 and -1 or 0
    p = p - o.lr * (sign + o.weight_decay * p)
    mean = beta2 * mean + (1 - beta2) * g
    path[step] = p
  end
  return path, mean
end


describe("Lion", function()
  local GRADIENTS <const> = {0.5, -0.25, -0.5, 0, 1e-3, -2, 3, 0.125}

  for dtype, tolerance in pairs{float32 = 1e-6, float64 = 1e-14, float16 = 4e-3, bfloat16 = 4e-2} do
    it("follows its formula in " .. dtype, function()
      for _, o in ipairs{
        {lr = 0.01, betas = {0.9, 0.99}, weight_decay = 0},
        {lr = 0.1, betas = {0.5, 0.8}, weight_decay = 0.1},
        {lr = 0.1, betas = {0, 0.25}, weight_decay = 0.1, maximize = true},
      } do
        local p = nn.Parameter(heed.full({700}, 1.5, {dtype = dtype}))
        local opt = optim.Lion({p}, o)
        local path, mean = lion(1.5, GRADIENTS, o)
        for step, g in ipairs(GRADIENTS) do
          p.grad = heed.full({700}, g, {dtype = dtype})
          opt:step()
          near(heed.full({700}, path[step], {dtype = "float64"}), p, 0, tolerance, "step " .. step)
        end
        near(heed.full({700}, mean, {dtype = "float64"}), opt:state()["exp_avg.1"], 0, tolerance,
             "the average")
      end
    end)
  end

  it("has PyTorch-like options, and refuses Adam's", function()
    local opt = optim.Lion{nn.Parameter(heed.ones(2))}
    assert.equal(1e-4, opt.lr)
    assert.same({0.9, 0.99}, opt.options.betas)
    assert.equal(0, opt.options.weight_decay)
    assert.matches("unknown option 'eps'", message(optim.Lion, opt.parameters, {eps = 1}))
    assert.matches("^lion of 1 tensors", tostring(opt))
  end)

  it("forgets what has decayed to denormal numbers", function()
    local p = nn.Parameter(heed.ones(1))
    local opt = optim.Lion({p}, {betas = {0.9, 0.5}})
    p.grad = heed.tensor{1e-37}
    opt:step()
    p.grad = heed.zeros(1)
    for _ = 1, 4 do opt:step() end
    assert.equal(0, opt:state()["exp_avg.1"]:item())
  end)
end)


describe("a state that a step lacks", function()
  it("is made where momentum is set later, and begins as at a first step", function()
    local p, q = nn.Parameter(heed.ones(2)), nn.Parameter(heed.ones(2))
    local late = optim.SGD({p}, {lr = 0.1})
    local fresh = optim.SGD({q}, {lr = 0.1, momentum = 0.9, dampening = 0.5})
    p.grad = heed.tensor{1.0, 2.0}
    late:step()
    p:detach():fill_(1)
    late.options.momentum, late.options.dampening = 0.9, 0.5
    for step = 1, 3 do
      p.grad, q.grad = heed.tensor{0.5, 1.0} * step, heed.tensor{0.5, 1.0} * step
      late:step()
      fresh:step()
      assert.equal(q:data(), p:data())
    end
    assert.equal(4, late:state().step[1])
  end)

  it("is made where amsgrad is set later", function()
    local p = nn.Parameter(heed.ones(1))
    local opt = optim.Adam{p}
    p.grad = heed.ones(1)
    opt:step()
    opt.options.amsgrad = true
    opt:step()
    assert.is_truthy(opt:state()["max_exp_avg_sq.1"])
    opt.options.amsgrad = false
    opt:step()
    assert.is_nil(opt:state()["max_exp_avg_sq.1"])
  end)
end)


describe("Adam without eps", function()
  it("leaves what has no squares, and goes by lr elsewhere", function()
    for _, kind in ipairs{"Adam", "AdamW"} do
      local p = nn.Parameter(heed.ones(3))
      local opt = optim[kind]({p}, {lr = 0.1, eps = 0, weight_decay = 0})
      p.grad = heed.tensor{1e-20, 0.0, 1e-10}
      for _ = 1, 3 do opt:step() end
      assert.is_true(p:allclose(heed.tensor{1.0, 1.0, 0.7}), tostring(p))
    end
  end)
end)
