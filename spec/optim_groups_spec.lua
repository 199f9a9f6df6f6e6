-- Groups of parameters: options of their own, one rate for all, states, training.

local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local optim = require "heed.optim"


local function parameter(...)
  return nn.Parameter(heed.tensor{...})
end


describe("groups of parameters", function()
  -- Each kind, with options that a second group has otherwise.
  local KINDS <const> = {
    SGD = {{lr = 0.1, momentum = 0.9}, {lr = 0.02, nesterov = true}},
    Adam = {{lr = 0.1, weight_decay = 0.1}, {weight_decay = 0, amsgrad = true}},
    AdamW = {{lr = 0.1}, {betas = {0.5, 0.5}, eps = 1e-3}},
    Lion = {{lr = 0.1, weight_decay = 0.1}, {lr = 0.01, betas = {0.5, 0.75}}},
  }

  local function merged(a, b, more)
    local all = {}
    for _, t in ipairs{a, b, more} do
      for name, value in pairs(t) do all[name] = value end
    end
    return all
  end

  for kind, given in pairs(KINDS) do
    it("step as optimisers of their own would: " .. kind, function()
      local ps, qs = {}, {}
      for i = 1, 3 do ps[i], qs[i] = parameter(1.0, i), parameter(1.0, i) end
      local opt = optim[kind]({{params = {ps[1], ps[2]}}, merged(given[2], {params = {ps[3]}}, {})},
                              given[1])
      local first = optim[kind]({qs[1], qs[2]}, given[1])
      local second = optim[kind]({qs[3]}, merged(given[1], given[2], {}))
      for step = 1, 4 do
        for i = 1, 3 do
          ps[i].grad, qs[i].grad = heed.tensor{step, -i} / 3, heed.tensor{step, -i} / 3
        end
        opt:step()
        first:step()
        second:step()
        for i = 1, 3 do assert.equal(qs[i]:data(), ps[i]:data()) end
      end
      opt:zero_grad()
      assert.is_nil(ps[3].grad)
    end)
  end

  it("have rates that are read and set, for each and for all", function()
    local p, q = parameter(1.0), parameter(1.0)
    local opt = optim.SGD({{params = {p}}, {params = {q}, lr = 0.5}}, {lr = 0.25})
    assert.equal(2, #opt.groups)
    assert.equal(0.25, opt.groups[1].lr)
    assert.equal(0.5, opt.groups[2].lr)
    assert.same({q}, opt.groups[2].parameters)
    assert.same({p, q}, opt.parameters)
    assert.matches("groups differ in lr; read opt.groups%[i%]%.lr$",
                   message(function() return opt.lr end))
    assert.equal("sgd of 2 tensors, 2 numbers, lr = 0.25, 0.5", tostring(opt))
    opt.groups[1].lr = 1
    opt.groups[2].options.weight_decay = 0.5
    p.grad, q.grad = heed.ones(1), heed.ones(1)
    opt:step()
    assert.equal(0, p:item())
    assert.equal(0.25, q:item())
    assert.equal(0.5, opt.groups[2].options.weight_decay)
    assert.matches("groups differ in weight_decay",
                   message(function() return opt.options.weight_decay end))
    opt.lr = 2
    assert.equal(2, opt.lr)
    assert.equal(2, opt.groups[1].lr)
    assert.equal(2, opt.groups[2].options.lr)
    local seen = {}
    for name in pairs(opt.groups[1].options) do seen[#seen + 1] = name end
    assert.equal(6, #seen)
    local adam = optim.Adam{{params = {p}}, {params = {q}, betas = {0.9, 0.99}}}
    assert.matches("groups differ in betas", message(function() return adam.options.betas end))
    adam.groups[2].options.betas = {0.9, 0.999}
    assert.same({0.9, 0.999}, adam.options.betas)
    opt.groups[1].options.weight_decay = 0.5
    local common = {}
    for name, value in pairs(opt.options) do common[name] = value end
    assert.same({lr = 2, momentum = 0, dampening = 0, nesterov = false, weight_decay = 0.5,
                 maximize = false}, common)
  end)

  it("refuse parameters that are there twice, empty ones, and unknown options", function()
    local p, q = parameter(1.0), parameter(1.0)
    local function refused(...) return message(optim.SGD, ...) end
    assert.matches("once expected, got parameter 1 of group 1 as 2 of group 2 again",
                   refused{{params = {p}}, {params = {q, p}}})
    assert.matches("as params of group 2, such as model:parameters%(%), got an empty table",
                   refused{{params = {p}}, {params = {}}})
    assert.matches("as params of group 1, .*, got nil", refused{{lr = 1}, {params = {p}}})
    assert.matches("a list of tensors expected, .*, got nil", refused{{lr = 1}})
    assert.matches("unknown option 'weightdecay'; did you mean 'weight_decay'",
                   refused{{params = {p}, weightdecay = 1}})
    assert.matches("a number expected as option lr, got", refused{{params = {p}, lr = "1"}})
    assert.matches("at least 0 expected as lr, got %-1",
                   refused{{params = {p}}, {params = {q}, lr = -1}})
    assert.matches("nesterov needs momentum", refused{{params = {p}, nesterov = true}})
    assert.matches("{params = ...} expected as group 2, got a tensor", refused{{params = {p}}, q})
    assert.matches("{params = ...} expected as group 2, got nil",
                   refused{{params = {p}}, nil, {params = {q}}})
    assert.matches("a list expected, got one with the string 'lr'",
                   refused{{params = {p}}, lr = 1})
    assert.matches("a tensor expected as parameter 2, got a table", refused{p, {params = {q}}})
    assert.matches("as parameter 1 of group 2, got a tensor of shape %(2%) that does not",
                   refused{{params = {p}}, {params = {heed.ones(2)}}})
  end)

  it("refuse fields that they do not have", function()
    local opt = optim.Adam{{params = {parameter(1.0)}}}
    local group = opt.groups[1]
    assert.matches("no 'lrr'; did you mean 'lr'", message(function() group.lrr = 1 end))
    assert.matches("no 'eps'; write group.options.eps", message(function() group.eps = 1 end))
    assert.matches("no 'params'; write group.parameters",
                   message(function() return group.params end))
    assert.matches("lr and the options of a group can be set",
                   message(function() group.parameters = {} end))
    assert.matches("no 'parametres'; did you mean 'parameters'",
                   message(function() return group.parametres end))
    assert.matches("no 'option'; did you mean 'options'",
                   message(function() return group.option end))
    for _, o in ipairs{opt.options, group.options} do
      local function set(name) o[name] = 1 end
      assert.matches("optim.Adam: unknown option 'epz'; did you mean 'eps'", message(set, "epz"))
      assert.matches("optim.Adam: options by name expected.*got one at %[nan%]",
                     message(set, 0 / 0))
      assert.matches("optim.Adam: options by name expected.*got one at %[nil%]", message(set, nil))
    end
    local fields = {}
    for name in pairs(group) do fields[#fields + 1] = name end
    table.sort(fields)
    assert.same({"options", "parameters"}, fields)
    assert.matches("at least 0 expected as lr", message(function() group.lr = -1 end))
  end)

  it("have a state that goes on bit for bit, counted through all groups", function()
    local function make()
      local ps = {parameter(1.0, 2.0), parameter(3.0), parameter(4.0)}
      return ps, optim.Adam({{params = {ps[1]}}, {params = {ps[2], ps[3]}, amsgrad = true}},
                            {lr = 0.1})
    end
    local function run(ps, opt, from, to)
      for step = from, to do
        for _, p in ipairs(ps) do p.grad = heed.full_like(p, step / 7) end
        opt:step()
      end
    end
    local ps, opt = make()
    run(ps, opt, 1, 3)
    opt.groups[2].lr = 0.3
    local state = opt:state()
    assert.same({0.1, 0.3}, state.lr:totable())
    assert.is_nil(state["max_exp_avg_sq.1"])
    assert.is_truthy(state["max_exp_avg_sq.3"])
    local qs, other = make()
    heed.no_grad(function() for i, q in ipairs(qs) do q:copy_(ps[i]) end end)
    other:load_state(state)
    assert.equal(0.3, other.groups[2].lr)
    run(ps, opt, 4, 6)
    run(qs, other, 4, 6)
    for i, p in ipairs(ps) do assert.equal(p:data(), qs[i]:data()) end
    local one = optim.Adam(qs)
    assert.matches("lr: float64 %(%) expected, got float64 %(2%)",
                   message(one.load_state, one, state))
  end)

  it("load the state of one group where there is one", function()
    local p, q = parameter(1.0), parameter(2.0)
    local plain, grouped = optim.Adam({p, q}, {lr = 0.5}), optim.Adam{{params = {p, q}}}
    p.grad = heed.ones(1)
    plain:step()
    grouped:load_state(plain:state())
    assert.equal(0.5, grouped.lr)
    assert.same(plain:state().step:totable(), grouped:state().step:totable())
  end)
end)


describe("a model's parameters", function()
  it("are split into those that decay and those that don't", function()
    local model = nn.Sequential{nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2, {bias = false})}
    local groups = optim.split(model)
    assert.same({model[1].weight, model[3].weight}, groups[1].params)
    assert.same({model[1].bias, model[2].weight, model[2].bias}, groups[2].params)
    local opt = optim.AdamW(groups, {lr = 1, weight_decay = 0.5})
    for _, p in ipairs(opt.parameters) do p.grad = heed.zeros_like(p) end
    local before = model[1].weight:detach():clone()
    opt:step()
    assert.is_true(model[1].weight:equal(before * 0.5))
    assert.is_true(model[2].weight:equal(heed.ones(4)))
    assert.equal(1, #optim.split(nn.Linear(1, 1, {bias = false})))
    local norm = nn.LayerNorm(2)
    assert.same({{params = {norm.weight, norm.bias}, weight_decay = 0}}, optim.split(norm))
    assert.matches("optim.split: a module expected, got an empty table", message(optim.split, {}))
  end)
end)
