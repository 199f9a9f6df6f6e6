-- Options of rope: angles and rules that are kept are those of the options as they are at a call.

local core = require "heed.core"
local heed = require "heed"
local message = require "spec.support.message"
local places = require "heed.attention.places"

local rope = heed.position.rope


describe("options of rope that change between calls", function()
  local x = heed.randn(3, 8)

  it("count as they are at each call", function()
    local scaling = {rope_type = "linear", factor = 2}
    local o = {scaling = scaling, offset = 5}
    local first = rope(x, o)
    assert.is_true(first:equal(rope(x, o)))
    scaling.factor = 4
    local second = rope(x, o)
    assert.is_false(first:equal(second))
    assert.is_true(second:equal(rope(x, {scaling = {type = "linear", factor = 4}, offset = 5})))
    scaling.rope_theta = 100
    local third = rope(x, o)
    assert.is_false(second:equal(third))
    scaling.rope_theta = nil
    assert.is_true(second:equal(rope(x, o)))
    for _, changed in ipairs{{base = 500}, {fraction = 0.5}, {interleaved = true}, {offset = 6}} do
      changed.offset = changed.offset or 5
      local y = rope(x, changed)
      assert.is_false(y:equal(rope(x, {offset = 5})))
      assert.is_true(y:equal(rope(x, changed)))
    end
    assert.is_true(rope(x:narrow(2, 1, 4), {offset = 5}):isfinite():all())
  end)

  it("take positions of one sequence with its axis or without it", function()
    local p = heed.tensor{4, 0, 9}
    assert.is_true(rope(x, {positions = p}):equal(rope(x, {positions = p:unsqueeze(1)})))
    assert.is_true(rope(x, {positions = p}):equal(rope(x:unsqueeze(1), {positions = p})[1]))
    assert.matches("positions of type int64 and shape %(3%) or %(1, 3%) expected",
                   message(rope, x, {positions = p:unsqueeze(1):expand(3, 3)}))
  end)

  it("are no other script's: a table that says something else whenever it is read", function()
    for k = 1, 12 do
      local reads, factor = 0, 16 + k
      local function changing()
        reads = reads + 1
        return next, {rope_type = "linear", factor = reads == k and factor or 3}
      end
      local other = rope(x, {scaling = {type = "linear", factor = factor}, offset = 1})
      pcall(rope, x, {scaling = setmetatable({}, {__pairs = changing}), offset = 1})
      assert.is_true(reads > 0)
      local y = rope(x, {scaling = {rope_type = "linear", factor = factor}, offset = 1})
      assert.is_true(y:equal(other))
    end
  end)
end)


describe("rows of tables", function()
  local function make(p) return p:unsqueeze(-1):expand(-1, 4096):contiguous() end

  local function rows_of(key, T)
    return places.rows_of(key, make, 0, T, "cpu")
  end

  it("outlive a scope with the table that is kept, and end with it where none is", function()
    local few, many
    heed.scope(function() few, many = rows_of("few", 10), rows_of("many", 300) end)
    assert.equal(9, few[{10, 1}])
    assert.has_error(function() return many:sum() end)
    assert.equal(9, rows_of("few", 10)[{10, 1}])
    assert.equal(299, rows_of("many", 300)[{300, 1}])
  end)

  it("of sixteen tables are kept, and the oldest of them goes", function()
    local made = 0
    local function ask(i)
      places.rows_of("one of many " .. i, function(p)
        made = made + 1
        return p:unsqueeze(-1)
      end, 0, 3, "cpu")
      return made
    end
    for i = 1, 17 do assert.equal(i, ask(i)) end
    for i = 17, 2, -1 do assert.equal(17, ask(i)) end
    assert.equal(18, ask(1))
    assert.equal(19, ask(2))
  end)
end)


describe("angles at a tensor of positions", function()
  local x = heed.randn(2, 3, 4, 8)
  local function at(...) return heed.tensor({...}, {dtype = "int64"}) end

  local function works_of(f, ...)
    local before = core.works(x.device)
    f(...)
    return core.works(x.device) - before
  end

  it("are computed once for all that ask for them, and anew where they change", function()
    local p = at(3, 4, 5, 6)
    local first = works_of(rope, x, {positions = p})
    local again = works_of(rope, x, {positions = p})
    assert.is_true(again < first - 5, ("%d works, then %d"):format(first, again))
    assert.equal(first, works_of(rope, x, {positions = p, base = 500}))
    assert.equal(again, works_of(rope, x, {positions = p, base = 500}))
    assert.equal(again, works_of(rope, x, {positions = p}))
    p:add_(1)
    assert.equal(first, works_of(rope, x, {positions = p}))
    assert.is_true(rope(x, {positions = p}):equal(rope(x, {offset = 4})))
  end)

  it("are those of each rank, type and device", function()
    local p = heed.stack{at(0, 1, 2, 3), at(5, 6, 7, 8)}
    local double, flat = x:to "float64", x:select(2, 1)
    for _ = 1, 2 do
      for b = 1, 2 do
        local from = b == 1 and 0 or 5
        assert.is_true(rope(x, {positions = p})[b]:equal(rope(x[b], {offset = from})))
        assert.is_true(rope(flat, {positions = p})[b]:equal(rope(flat[b], {offset = from})))
        assert.is_true(rope(double, {positions = p})[b]:equal(rope(double[b], {offset = from})))
      end
    end
    local row = p[{{1, 1}}]
    assert.is_true(rope(x, {positions = row}):equal(rope(x, {offset = 0})))
    assert.is_true(rope(x, {positions = row}):equal(rope(x, {offset = 0})))
  end)

  it("outlive the scope in which they were computed", function()
    local p = at(1, 2, 3, 4)
    heed.scope(function() return rope(x, {positions = p}):sum():item() end)
    assert.is_true(rope(x, {positions = p}):equal(rope(x, {offset = 1})))
  end)

  it("are recorded where work is, whether they were computed before or not", function()
    local p = at(1, 2, 3, 4)
    local function both(t) return rope(t, {positions = p}) + rope(t, {positions = p}) end
    both(x)
    local f = heed.capture(both)
    for shift = 1, 5 do
      local wanted = 2 * rope(x, {offset = shift})
      for _ = 1, 4 do assert.is_true(f(x):equal(wanted), "shift " .. shift) end
      p:add_(1)
    end
    assert.is_true(rope(x, {positions = p}):equal(rope(x, {offset = 6})))
  end)

  it("are not kept where they are large", function()
    local p, wide = heed.arange(0, 8191), heed.zeros(8192, 512)
    local first = works_of(rope, wide, {positions = p})
    assert.equal(first, works_of(rope, wide, {positions = p}))
  end)
end)


describe("YaRN", function()
  -- Angles of position 1 show the formula of B. Peng et al. (2023), as HF writes it.
  it("turns pairs by its formula, where columns end before the ramp does", function()
    local half, base, length, factor = 4, 100, 32768, 4
    local function turned(times)
      return half * math.log(length / (times * 2 * math.pi)) / math.log(base)
    end
    local x = heed.cat({heed.ones(1, half), heed.zeros(1, half)}, 2):to "float64"
    for _, case in ipairs{{300, 1}, {1e9, 1}, {300, 40}, {32, 1}} do
      local fast, slow = table.unpack(case)
      local low = math.max(math.floor(turned(fast)), 0)
      local high = math.min(math.ceil(turned(slow)), 2 * half - 1)
      local y = rope(x, {offset = 1, base = base, scaling = {
        rope_type = "yarn", factor = factor, beta_fast = fast, beta_slow = slow,
        original_max_position_embeddings = length,
      }})[1]:totable()
      for i = 0, half - 1 do
        local ramp = math.min(math.max((i - low) / (high - low), 0), 1)
        local plain = base ^ (-i / half)
        local wanted = plain * (1 - ramp) + plain / factor * ramp
        assert.near(wanted, math.atan(y[1 + i + half], y[1 + i]), 1e-9)
      end
    end
  end)

  it("makes queries and keys longer where it stretches alone", function()
    local x = heed.ones(1, 8, {dtype = "float64"})
    for _, factor in ipairs{0.5, 1, 1.5, 2, 4} do
      local wanted = math.max(0.1 * math.log(factor) + 1, 1)
      local y = rope(x, {offset = 1, scaling = {
        rope_type = "yarn", factor = factor, original_max_position_embeddings = 64,
      }})
      assert.near(wanted * x:norm():item(), y:norm():item(), 1e-9)
    end
  end)
end)


describe("rope", function()
  it("refuses a fraction of a position in scaling, also where a layer is made", function()
    local scaling = {rope_type = "dynamic", factor = 2, max_position_embeddings = 2048.5}
    local wanted = "a whole number of at least 1 expected as max_position_embeddings in scaling, "
                   .. "got 2048.5"
    assert.matches("position.rope: " .. wanted,
                   message(heed.position.rope, heed.ones(3, 4), {scaling = scaling}), 1, true)
    local o = {rope = {scaling = scaling}}
    assert.matches(wanted, message(heed.nn.MultiHeadAttention, 8, 2, o), 1, true)
    scaling.max_position_embeddings = 2048.0
    assert.is_true(heed.position.rope(heed.ones(3, 4), {scaling = scaling}):isfinite():all())
  end)

  it("turns sequences of two lengths alike, unless its scaling says otherwise", function()
    local scaling = {rope_type = "dynamic", factor = 2, max_position_embeddings = 4}
    local longer = {[false] = true, [true] = true, [scaling] = false}
    for of, alike in pairs(longer) do
      local o = {rope = type(of) == "table" and {scaling = of} or of}
      local layer = heed.nn.MultiHeadAttention(8, 2, o)
      assert.same({true, alike, alike},
                  {layer:turns_alike(1, 4), layer:turns_alike(4, 5), layer:turns_alike(5, 6)})
      assert.matches("at most 2 arguments expected, got 7 as argument 3",
                     message(layer.turns_alike, layer, 1, 2, 7), 1, true)
    end
  end)
end)


describe("rotate_pairs", function()
  local X <const> = heed.tensor({{1, 2, 3, 4}, {5, 6, 7, 8}}, {dtype = "float64"})
  local ANGLES <const> = heed.tensor({{0.1, 0.7}, {2, -1}}, {dtype = "float64"})

  it("has the gradient of each input, also where no other has one", function()
    for k = 1, 3 do
      local inputs = {X:clone(), ANGLES:cos(), ANGLES:sin()}
      local f = function(x)
        inputs[k] = x
        return heed.rotate_pairs(table.unpack(inputs))
      end
      assert.is_true(heed.gradcheck(f, {inputs[k]}))
    end
  end)

  it("takes angles of any float type, and gives the type of what is rotated", function()
    local exact = X:rotate_pairs(ANGLES:cos(), ANGLES:sin())
    for _, case in ipairs{{"float32", "float64", 1e-6}, {"float64", "float32", 1e-6},
                          {"bfloat16", "float32", 2e-2}, {"float32", "bfloat16", 4e-2},
                          {"float16", "float64", 2e-3}} do
      local y = X:to(case[1]):rotate_pairs(ANGLES:cos():to(case[2]), ANGLES:sin():to(case[2]))
      assert.equal(case[1], y.dtype)
      assert.is_true(y:to("float64"):allclose(exact, case[3], case[3]), case[1])
    end
  end)
end)
