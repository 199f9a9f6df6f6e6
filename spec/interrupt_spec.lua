-- Ctrl-C in the stand-alone interpreter, while heed computes.

local quoted = function(text) return "'" .. text:gsub("'", "'\\''") .. "'" end


-- The output of a script in a process of its own, which gets a SIGINT after it calls 'soon'. The
-- calls would take hours; slow machines have a minute.
local function run(script)
  local soon = [[
    local heed = require "heed"
    local function soon(f, ...)
      os.execute "p=$PPID; (sleep 0.3; kill -INT $p) >/dev/null 2>&1 &"
      return pcall(f, ...)
    end
  ]]
  local command = ("LUA_PATH=%s LUA_CPATH=%s timeout -s KILL 60 %s -e %s 2>&1"):format(
    quoted(package.path), quoted(package.cpath), os.getenv("LUA") or "lua5.4",
    quoted(soon .. script))
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end


describe("Ctrl-C", function()
  -- x must be intact after it.
  local calls = {
    {"a product", "x = heed.ones(2e4, 1); a = x:expand(2e4, 6e6)", "a:matmul(a:t())"},
    {"an einsum", "x = heed.ones(1); a = x:expand(1 << 44)", "heed.einsum('i,i->', a, a)"},
    {"an einsum of integers", "x = heed.ones(1):to('int64'); a = x:expand(1 << 44)",
     "heed.einsum('i,i->', a, a)"},
    {"attention", "x = heed.ones(1, 1, 1, 8); a = x:expand(1, 1, 1 << 40, 8)",
     "heed.attention(x, a, a)"},
    {"attention with one thread",
     "heed.threads(1); x = heed.ones(1, 1, 1, 8); a = x:expand(1, 1, 1 << 40, 8)",
     "heed.attention(x, a, a)"},
    {"a sum", "x = heed.ones(1); a = x:expand(1 << 44)", "a:sum()"},
    {"a sum of rows", "x = heed.ones(1, 8); a = x:expand(1 << 40, 8)", "a:sum(1)"},
    {"a deviation", "x = heed.ones(1); a = x:expand(1 << 44)", "a:std()"},
    {"the place of the largest", "x = heed.ones(1); a = x:expand(1 << 44)", "a:argmax()"},
    {"sorts", "x = heed.rand(1 << 20)", "while true do x:sort() end"},
    {"running sums", "x = heed.rand(1 << 20)", "while true do x:cumsum(1) end"},
    {"random numbers", "x = heed.ones(3)", "while true do heed.randn(1 << 20) end"},
    {"copies", "x = heed.ones(1000, 1000)", "while true do x:t():clone() end"},
    {"texts", "x = heed.ones(60, 100, 100); heed.printoptions{edge = 100}",
     "while true do tostring(x) end"},
  }
  local composed = os.getenv "HEED_BUILD" == "basic"     -- then attention needs memory, not time
  for _, case in ipairs(calls) do
    local test = composed and case[1]:find "^attention" and pending or it
    test("stops " .. case[1], function()
      local got = run(([[
        local x, a
        %s
        print(soon(function() %s end))
        print(x:min():item() >= 0 and x:max():item() <= 1)
      ]]):format(case[2], case[3]:find "^while" and case[3] or "return " .. case[3]))
      assert.matches("^false\t[^\n]*interrupted!\ntrue\n$", got)
    end)
  end

  it("stops a training run, which goes on when it is asked to", function()
    local got = run [[
      local nn, optim = heed.nn, heed.optim
      local model = nn.Linear(64, 64)
      local options = {
        model = model, optimizer = optim.Adam(model:parameters()), print = false, steps = 1e9,
        batches = function() return heed.ones(64, 64), heed.ones(64, 64) end,
        loss = heed.mse_loss,
      }
      print(soon(heed.train, options))
      options.steps = 5
      print(#heed.train(options).losses > 0, heed.isfinite(model.weight):all())
    ]]
    assert.matches("^false\t[^\n]*interrupted!\ntrue\ttrue\n$", got)
  end)

  it("stops a call in a coroutine, and the main state goes on", function()
    local got = run [[
      local a = heed.ones(1):expand(1 << 44)
      local work = coroutine.wrap(function() return pcall(a.sum, a) end)
      print(soon(function() return select(2, work()) end))
      local n = 0
      for i = 1, 1000 do n = n + i end
      print(n)
    ]]
    assert.matches("^true\t[^\n]*interrupted!\n500500\n$", got)
  end)

  it("leaves what is changed in place whole", function()
    local got = run [[
      local a, turns = heed.zeros(1 << 22), 0
      print(soon(function() while true do a:add_(1); turns = turns + 1 end end))
      print(a:min():item() == a:max():item(),
            require "spec.support.close"(a:min():item(), turns, 0, 1))
    ]]
    assert.matches("^false\t[^\n]*interrupted!\ntrue\ttrue\n$", got)
  end)

  it("stops at a backward pass before the gradients of leaves change", function()
    local got = run [[
      local x = heed.ones(1 << 18, {requires_grad = true})
      local sums = 0
      local function add()
        local y = x
        for _ = 1, 4 do y = y * 1 end
        y:sum():backward()
        sums = sums + 1
      end
      add()
      print(soon(function() while true do add() end end))
      local g = x.grad
      print(g:min():item() == g:max():item(),
            require "spec.support.close"(g:max():item(), sums, 0, 1))
    ]]
    assert.matches("^false\t[^\n]*interrupted!\ntrue\ttrue\n$", got)
  end)

  it("is no hook that was there before", function()
    local got = run [[
      local count = 0
      debug.sethook(function() count = count + 1 end, "", 1000)
      local a = heed.ones(1 << 24)
      for _ = 1, 5 do assert(a:sum():item() == 1 << 24) end
      print(debug.gethook() ~= nil)
    ]]
    assert.equals("true\n", got)
  end)

  it("is no hook that a backward function sets", function()
    local got = run [[
      local w = heed.ones(1 << 24, {requires_grad = true})
      local f = heed.custom {
        forward = function(_, a) return a * 2 end,
        backward = function(_, g)
          local twice = g * 2
          debug.sethook(function() end, "", 1 << 20)
          return twice
        end,
      }
      f((w * 3):exp():log()):sum():backward()
      print(debug.gethook() ~= nil, w.grad:round():max():item())
    ]]
    assert.equals("true\t6.0\n", got)
  end)
end)
