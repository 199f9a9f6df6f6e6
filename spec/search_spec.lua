-- heed.search: beside brute force in plain Lua and by matrix products; ties, files, refusals.

local close = require "spec.support.close"
local device = require "spec.support.device"
local files = require "spec.support.files"
local heed = require "heed"
local message = require "spec.support.message"

local KINDS <const> = {"float32", "int8", "bits"}

setup(device.cpu)                     -- where indices are
teardown(device.back)


local function numbered(n)
  local keys = {}
  for i = 1, n do keys[i] = i end
  return keys
end

local function indexed(kind, x, o)
  local index = heed.search.index{dim = x:size(2), kind = kind, similarity = o and o.similarity}
  return index:add(o and o.keys or numbered(#x), x)
end


-- Positions of the k best scores, the first first among equals, and those scores.
local function best(scores, k)
  local order = numbered(#scores)
  table.sort(order, function(a, b)
    if scores[a] ~= scores[b] then return scores[a] > scores[b] end
    return a < b
  end)
  local list = {}
  for i = 1, k do list[i] = scores[order[i]] end
  return table.move(order, 1, k, 1, {}), list
end


-- Whole numbers of a row, and their scale, as kind int8 keeps them.
local function quantized(row)
  local most, list = 0, {}
  for _, v in ipairs(row) do most = math.max(most, math.abs(v)) end
  local scale = heed.tensor(most):div(127):item()
  local t = heed.tensor(row) / (scale == 0 and 1 or scale)
  for i, v in ipairs(t:round():clamp(-127, 127):totable()) do list[i] = v end
  return list, scale
end


-- How alike two rows are by what a kind keeps of both, or of the second alone.
local WAYS <const> = {
  bits = function(a, b)
    local n = 0
    for i = 1, #a do n = n + ((a[i] > 0) == (b[i] > 0) and 1 or -1) end
    return n / #a
  end,
  int8 = function(a, b)
    local p, s = quantized(a)
    local q, t = quantized(b)
    local n = 0
    for i = 1, #a do n = n + p[i] * q[i] end
    return n * s * t
  end,
}
local EXACT <const> = {
  bits = function(a, b)
    local n = 0
    for i = 1, #a do n = n + (b[i] > 0 and a[i] or -a[i]) end
    return n / #a
  end,
  int8 = function(a, b)
    local q, t = quantized(b)
    local n = 0
    for i = 1, #a do n = n + a[i] * q[i] end
    return n * t
  end,
}

local function all_scores(f, query, rows)
  local list = {}
  for i, row in ipairs(rows) do list[i] = heed.tensor(f(query, row)):item() end
  return list
end


-- Rows of few different numbers, so that many scores are equal.
local function coarse(n, dim)
  return heed.randint(-2, 3, {n, dim}):to("float32")
end


describe("an index", function()
  it("of floats gives what matrix products give, in batches and alone", function()
    heed.manual_seed(1)
    for _, similarity in ipairs{"cosine", "dot"} do
      for _, dim in ipairs{1, 7, 8, 33, 100} do
        local x, q = heed.randn(50, dim), heed.randn(6, dim)
        local index = indexed("float32", x, {similarity = similarity})
        local wanted = heed.search.similarity(q, x, {similarity = similarity})
        local keys, scores = index:query(q, 50)
        assert.equal("(6, 50)", tostring(scores.shape))
        for i, list in ipairs(keys) do
          local at = heed.tensor(list, {dtype = "int64"})
          assert.is_true(scores[i]:allclose(wanted[i]:index_select(1, at), {atol = 1e-5}))
          assert.is_true((scores[i][{{1, 49}}] - scores[i][{{2, 50}}]):min():item() >= 0)
          local one, own = index:query(q[i], 7)
          assert.same(table.move(list, 1, 7, 1, {}), one)
          assert.is_true(own:equal(scores[i][{{1, 7}}]))
        end
      end
    end
  end)

  it("of each kind gives the best of all, the first among equals", function()
    heed.manual_seed(2)
    for _, dim in ipairs{3, 8, 31, 32, 70, 130} do
      local x, q = coarse(40, dim), coarse(3, dim)
      for kind, f in pairs(WAYS) do
        local index = indexed(kind, x, {similarity = "dot"})
        for _, k in ipairs{1, 5, 40} do
          local keys, scores = index:query(q, k, {rescore = false})
          for i, list in ipairs(keys) do
            local wanted, numbers = best(all_scores(f, q[i]:totable(), x:totable()), k)
            assert.same(wanted, list, ("%s, %d numbers, %d of them"):format(kind, dim, k))
            assert.is_true(scores[i]:allclose(heed.tensor(numbers), {atol = 1e-5}))
          end
        end
      end
    end
  end)

  it("compares the best by their signs or whole numbers again with the query's floats", function()
    heed.manual_seed(3)
    local x, q = heed.randn(200, 64), heed.randn(3, 64)
    for kind, f in pairs(EXACT) do
      local index = indexed(kind, x, {similarity = "dot"})
      local near = index:query(q, 20, {rescore = false})
      local keys, scores = index:query(q, 5, {rescore = 4})
      local all = index:query(q, 5, {rescore = 200})
      for i = 1, 3 do
        local mine = all_scores(f, q[i]:totable(), x:totable())
        local some = {}
        for k = 1, 200 do some[k] = -math.huge end
        for _, at in ipairs(near[i]) do some[at] = mine[at] end
        local wanted, numbers = best(some, 5)
        assert.same(wanted, keys[i], kind)
        assert.is_true(scores[i]:allclose(heed.tensor(numbers), {atol = 1e-5}))
        assert.same((best(mine, 5)), all[i], kind)
      end
      assert.same(keys, index:query(q, 5))                 -- 4 unless asked otherwise
      local same, exact = index:query(q, 20, {rescore = 1})
      for i, list in ipairs(same) do
        local mine, numbers = all_scores(f, q[i]:totable(), x:totable()), {}
        for k, at in ipairs(list) do numbers[k] = mine[at] end
        assert.is_true(exact[i]:allclose(heed.tensor(numbers), {atol = 1e-5}))
        table.sort(list)
        table.sort(near[i])
        assert.same(near[i], list)
      end
    end
  end)

  it("has many more vectors than are compared at once, whatever the threads", function()
    heed.manual_seed(4)
    local n <const> = 9000
    local x = coarse(n, 8)
    x[n]:copy_(x[4096]:clone())
    for _, kind in ipairs(KINDS) do
      local index = indexed(kind, x)
      local before = heed.threads()
      local keys, scores = index:query(x[{{4095, 4100}}], 20)
      heed.threads(1)
      local alone, own = index:query(x[{{4095, 4100}}], 20)
      heed.threads(before)
      assert.same(alone, keys)
      assert.is_true(own:equal(scores))
      local all, every = index:query(x[4096], n)
      assert.equal(n, #all)
      assert.equal(10, #(index:query(x[4096])))            -- unless asked otherwise
      local seen, last, value = {}, 0, math.huge
      for i, s in ipairs(every:totable()) do
        assert.is_nil(seen[all[i]])
        seen[all[i]] = true
        assert.is_true(s < value or s == value and all[i] > last)
        last, value = all[i], s
      end
      assert.same(table.move(all, 1, 20, 1, {}), (index:query(x[4096], 20, kind ~= "float32" and
                                                              {rescore = n} or nil)))
    end
  end)

  it("takes and loses vectors by their keys, in order", function()
    heed.manual_seed(5)
    local x = heed.randn(200, 16)
    for _, kind in ipairs(KINDS) do
      local index, plain = heed.search.index{dim = 16, kind = kind}, {}
      for i = 1, 200, 20 do
        local keys = {}
        for k = i, i + 19 do keys[#keys + 1] = k % 2 == 0 and k or "key " .. k end
        index:add(keys, x[{{i, i + 19}}])
        for _, key in ipairs(keys) do plain[#plain + 1] = key end
      end
      assert.equal(200, #index)
      assert.same({"key 7"}, (index:query(x[7], 1)))
      assert.same({8}, (index:query(x[8], 1)))
      assert.is_true(index:has "key 7" and index:has(8))
      assert.is_false(index:has(7) or index:has "8" or index:has(nil) or index:has(8.5))
      index:remove{"key 7", 8}
      assert.equal(198, #index)
      assert.is_false(index:has "key 7")
      table.remove(plain, 7)
      table.remove(plain, 7)
      local left = {}
      for i = 1, 200 do if i ~= 7 and i ~= 8 then left[#left + 1] = i end end
      local other = indexed(kind, x:index_select(1, heed.tensor(left, {dtype = "int64"})),
                            {keys = plain})
      local a, s = index:query(x[{{1, 9}}], 198)
      local b, t = other:query(x[{{1, 9}}], 198)
      assert.same(b, a)
      assert.is_true(s:equal(t))
      assert.equal(index, index:add("key 7", x[7]))
      assert.same({"key 7"}, (index:query(x[7], 1)))
      index:remove(plain):remove "key 7"
      assert.equal(0, #index)
      assert.same({}, (index:query(x[1])))
      assert.equal("(2, 0)", tostring(select(2, index:query(x[{{1, 2}}])).shape))
    end
  end)

  it("has room for 64 vectors at first, and twice as much whenever that is full", function()
    local x, row = heed.ones(129, 16), 16 * 4
    local function live()
      for _ = 1, 2 do collectgarbage() end
      return heed.memory().live
    end
    local before, index = live(), heed.search.index{dim = 16}
    for i = 1, 129 do
      index:add(i, x[i])
      local room = ({[1] = 64, [64] = 64, [65] = 128, [128] = 128, [129] = 256})[i]
      assert.equal(room and room * row, room and live() - before, i)
    end
  end)

  it("counts nothing for a vector of zeros, and shows itself", function()
    local index = heed.search.index{dim = 2, kind = "int8"}
    index:add("alone", heed.tensor{1.0, 1.0})
    assert.same({"alone"}, (index:query(heed.tensor{1.0, 0.0})))
    index:remove("alone")
    index:add({"a", "b"}, heed.tensor{{0.0, 0.0}, {1.0, -1.0}})
    local keys, scores = index:query(heed.tensor{-1.0, 0.0})
    assert.same({"a", "b"}, keys)
    assert.equal(0, scores[1])
    assert.equal("heed.search.Index(2 vectors of 2, int8, cosine)", tostring(index))
  end)

  it("takes vectors of other types, and keeps no graph", function()
    local index = heed.search.index{dim = 2, similarity = "dot"}
    local x = heed.tensor({{1, 2}, {3, 4}}, {dtype = "float64"}):requires_grad_(true)
    index:add({"a", "b"}, x * 1)
    local _, scores = index:query(x[1])
    assert.same({11, 5}, scores:totable())
    assert.is_false(scores.requires_grad)
    index:query(heed.tensor({1, 2}, {dtype = "bfloat16"}))
  end)

  it("outlives a scope in which it was filled", function()
    local index = heed.search.index{dim = 2}
    heed.scope(function() index:add({"a", "b"}, heed.randn(2, 2)) end)
    heed.scope(function() index:remove "a" end)
    assert.equal(1, #(index:query(heed.randn(2))))
  end)
end)


describe("similarity", function()
  it("is what sentence-transformers has", function()
    local a, b = heed.tensor{{3.0, 4.0}, {0.0, 0.0}}, heed.tensor{{1.0, 0.0}, {3.0, 4.0}}
    local function of(word) return heed.search.similarity(a, b, {similarity = word}) end
    assert.is_true(of("dot"):equal(heed.tensor{{3.0, 25.0}, {0.0, 0.0}}))
    assert.is_true(of():allclose(heed.tensor{{0.6, 1.0}, {0.0, 0.0}}))
    assert.is_true(of("euclidean"):allclose(heed.tensor{{-20 ^ 0.5, 0.0}, {-1.0, -5.0}}))
    assert.is_true(of("manhattan"):allclose(heed.tensor{{-6.0, 0.0}, {-1.0, -7.0}}))
    assert.matches("search.similarity: vectors of one type expected, got float64 and float32",
                   message(heed.search.similarity, a:double(), b:float()))
    assert.matches("cosine, dot, euclidean, manhattan expected as option similarity, got the "
                   .. "string 'cosin'; did you mean 'cosine'", message(of, "cosin"))
    assert.matches("vectors of one size expected, got shapes %(2, 2%) and %(3%)",
                   message(heed.search.similarity, a, heed.randn(3)))
  end)

  it("has a gradient of 0 where vectors are equal, as a norm has", function()
    local x = heed.tensor({{1.0, 2.0}, {4.0, 6.0}}, {requires_grad = true})
    heed.search.similarity(x, x, {similarity = "euclidean"}):sum():backward()
    assert.is_true(x.grad:allclose(heed.tensor{{1.2, 1.6}, {-1.2, -1.6}}))
  end)
end)


-- A path that is no file, gone when it is closed.
local function place()
  local path = os.tmpname()
  os.remove(path)
  return setmetatable({path = path .. ".index"}, {__close = function(p) os.remove(p.path) end})
end


describe("an index in a file", function()
  it("is the same when it is loaded, mapped or not, and goes on", function()
    heed.manual_seed(6)
    local x = heed.randn(70, 12)
    local mixed = numbered(70)
    for i = 1, 70, 3 do mixed[i] = i == 1 and "" or "n\0\xff" .. i end
    for _, kind in ipairs(KINDS) do
      for _, keys in ipairs{numbered(70), mixed} do
        local at <close> = place()
        local index = indexed(kind, x, {keys = keys, similarity = "dot"})
        assert(index:save(at.path))
        for _, mapped in ipairs{true, false} do
          local again = assert(heed.search.load(at.path, {mapped = mapped}))
          assert.equal(tostring(index), tostring(again))
          local a, s = index:query(x, 9)
          local b, t = again:query(x, 9)
          assert.same(a, b)
          assert.is_true(s:equal(t))
          again:add("new", x[1]):remove(keys[1])
          assert.is_true(again:has "new")
          assert.equal(70, #again)
        end
      end
    end
    local at <close> = place()
    assert(indexed("float32", x[{{1, 2}}]):save(at.path))
    collectgarbage()
    collectgarbage()
    local before = heed.memory().live
    local mapped = assert(heed.search.load(at.path, {mapped = true}))
    local between = heed.memory().live
    local own = assert(heed.search.load(at.path))
    assert.is_true(heed.memory().live - between > between - before)
    assert.same({2, 2}, {#mapped, #own})
  end)

  it("has keys as integers, where all are", function()
    local at <close> = place()
    assert(indexed("float32", heed.ones(3, 4), {keys = {7, 2, 5}}):save(at.path))
    local keys = heed.load(at.path).keys
    assert.equal("int64", keys.dtype)
    assert.same({7, 2, 5}, keys:totable())
  end)

  it("may have vectors of one number", function()
    local at <close> = place()
    assert(indexed("float32", heed.tensor{{2.0}, {-1}}, {similarity = "dot"}):save(at.path))
    local index = assert(heed.search.load(at.path))
    assert.same({2, 1}, (index:query(heed.tensor{-1.0})))
  end)

  it("may have vectors of 65536 numbers, the most", function()
    local at <close> = place()
    local x = heed.ones(2, 65536)
    x[2]:neg_()
    for _, kind in ipairs{"float32", "int8", "bits"} do
      assert(indexed(kind, x, {similarity = "dot"}):save(at.path))
      local index = assert(heed.search.load(at.path))
      local keys, scores = index:query(x[2], 2)
      assert.same({2, 1}, keys)
      local most = kind == "bits" and 1 or 65536
      assert.is_true(close(scores[1], most, 1e-3), kind)
      assert.is_true(close(scores[2], -most, 1e-3), kind)
    end
  end)

  it("may be empty", function()
    local at <close> = place()
    assert(heed.search.index{dim = 3}:save(at.path))
    local index = assert(heed.search.load(at.path))
    assert.same({"a"}, (index:add("a", heed.ones(3)):query(heed.ones(3))))
  end)

  it("is refused where it is damaged", function()
    local at <close> = place()
    local function why(change, metadata)
      assert(indexed("int8", heed.ones(3, 4), {keys = {"a", 2, "c"}}):save(at.path))
      local t, m = heed.load(at.path)
      if change then change(t) end
      for k, v in pairs(metadata or {}) do m[k] = v end
      assert(heed.save(at.path, t, m))
      local index, text = heed.search.load(at.path)
      assert.is_nil(index)
      return text
    end
    assert.matches("^search.load: .*this is no index", why(nil, {format = "x"}))
    assert(indexed("float32", heed.ones(3, 4)):save(at.path))
    local file <close> = assert(io.open(at.path, "r+b"))
    assert(file:seek("end", -1) and file:write "x" and file:flush())
    local index, text = heed.search.load(at.path)
    assert.is_nil(index)
    assert.matches("^search.load: .*checksum differs.*crc32$", text)
    for _, m in ipairs{{dim = "0"}, {dim = "x"}, {kind = "int4"}, {similarity = "euclidean"},
                       {dim = "99999999"}} do
      assert.matches("the dim, kind and similarity of an index expected", why(nil, m))
    end
    assert.matches("rows: shape %(3, 5%) and type uint8 expected, got %(3, 4%)",
                   why(nil, {dim = "5"}))
    assert.matches("scales: shape %(3%) and type float32 expected, got %(2%)",
                   why(function(t) t.scales = heed.ones(2) end))
    assert.matches("the tensor scales of an index expected", why(function(t) t.scales = nil end))
    assert.matches("the tensor keys of an index", why(function(t) t.key_bytes = nil end))
    assert.matches("key_bytes: bytes expected",
                   why(function(t) t.key_bytes = t.key_bytes:to "int64" end))
    assert.matches("key_bytes: bytes expected",
                   why(function(t) t.key_bytes = t.key_bytes:unsqueeze(1) end))
    assert.matches("ends in order", why(function(t) t.key_ends[1] = 99 end))
    assert.matches("ends in order", why(function(t) t.key_ends[2] = 0 end))
    assert.matches("the last one expected at the end", why(function(t) t.key_ends[3] = 2 end))
    assert.matches('an integer expected, got "a"', why(function(t)
      t.key_is_integer[1] = true
    end))
    assert.matches("each one once", why(function(t)
      t.key_bytes, t.key_ends, t.key_is_integer = nil, nil, nil
      t.keys = heed.tensor{1, 2, 1}
    end))
    assert.matches('the tensor "more" is not known', why(function(t) t.more = heed.ones(1) end))
    files.write(at.path, "no tensors")
    assert.matches("^search.load: ", select(2, heed.search.load(at.path)))
    assert.matches("^search.load: /no/such/file", select(2, heed.search.load("/no/such/file")))
    assert.matches("^save: ", select(2, heed.search.index{dim = 3}:save("/no/such/file")))
  end)
end)


describe("heed.search refuses", function()
  local function why(...) return message(...) end

  it("options that are none", function()
    local new = heed.search.index
    assert.matches("a whole number of at least 1 expected as option dim, got nil", why(new, {}))
    assert.matches("at least 1 expected as option dim, got 0", why(new, {dim = 0}))
    assert.matches("at most 65536 numbers .* got 65537", why(new, {dim = 65537}))
    assert.matches("bits, float32, int8 expected as option kind, got the string 'int4'; did you "
                   .. "mean 'int8'", why(new, {dim = 1, kind = "int4"}))
    assert.matches("cosine, dot expected as option similarity, got the string 'euclidean'$",
                   why(new, {dim = 1, similarity = "euclidean"}))
    assert.matches("unknown option 'dims'; did you mean 'dim'", why(new, {dims = 1}))
    assert.matches("unknown option 'map'", why(heed.search.load, "x", {map = true}))
    assert.matches("at most 2 arguments expected", why(heed.search.load, "x", {}, 1))
  end)

  it("keys and vectors that are none", function()
    local index = heed.search.index{dim = 2}:add({"a", 1}, heed.ones(2, 2))
    local function add(...) return why(index.add, index, ...) end
    local x = heed.ones(1, 2)
    assert.matches("add: a key, a string or an integer, or a list of keys expected, got 1.5",
                   add(1.5, x))
    assert.matches("a string or an integer expected as key 2, got true", add({"b", true}, x))
    assert.matches("each key once expected, got the string 'b' at positions 1 and 3",
                   add({"b", "c", "b"}, x))
    assert.matches("a key that is not there yet expected at position 1, got the string 'a'; "
                   .. "remove it", add("a", x))
    assert.matches("as many vectors as keys expected, 2, got 1", add({"b", "c"}, x))
    assert.matches("vectors of 2 numbers expected, got shape %(1, 3%)", add("b", heed.ones(1, 3)))
    assert.matches("a tensor of a float type expected as vectors, got a table", add("b", {1, 2}))
    assert.matches("a tensor of a float type expected as vectors, got a tensor of shape",
                   add("b", heed.tensor{{1, 2}}))
    assert.matches("vectors %(N, D%), or one %(D%) expected as vectors, got shape %(1, 1, 2%)",
                   add("b", heed.ones(1, 1, 2)))
    for _, bad in ipairs{0 / 0, math.huge} do
      assert.matches("finite numbers expected in vectors", add("b", heed.tensor{{1.0, bad}}))
    end
    local wide = heed.tensor({1.0, -1e300}, {dtype = "float64"})
    assert.matches("add: numbers that float32 can hold expected in vectors, got %-1e%+300",
                   add("b", wide))
    assert.matches("query: numbers that float32 can hold expected in vectors, got %-1e%+300",
                   why(index.query, index, wide))
    assert.matches("a list expected, got one with the string 'x' as a key", add({x = "b"}, x))
    assert.matches("remove: a key of the index expected at position 2, got the string 'b'",
                   why(index.remove, index, {"a", "b"}))
    assert.equal(2, #index)
    assert.matches("query: a whole number of at least 1 expected as k, got 0",
                   why(index.query, index, x, 0))
    assert.matches("query: vectors of 2 numbers expected, got shape %(3%)",
                   why(index.query, index, heed.ones(3)))
    assert.matches("option rescore: vectors of kind float32 are compared as they are",
                   why(index.query, index, x, 1, {rescore = 2}))
    assert.matches("query: at most 3 arguments", why(index.query, index, x, 1, {}, 2))
    assert.matches("an index expected as the first argument", why(index.query, {}, x))
    assert.matches("there is no 'insert'", why(function() return index.insert end))
    assert.matches("a path expected", why(index.save, index, ""))
    for _, ending in ipairs{"gguf", "npy"} do
      assert.matches("save: a path that ends in .safetensors expected, got /tmp/i." .. ending,
                     why(index.save, index, "/tmp/i." .. ending))
    end
  end)

  it("to be heard by what a script gave", function()
    local heard = false
    local loud = setmetatable({}, {
      __index = function() heard = true end, __len = function() heard = true return 1 end,
      __eq = function() heard = true return true end, __pairs = function() heard = true end,
    })
    local index = heed.search.index{dim = 2}
    why(index.add, index, loud, heed.ones(1, 2))
    why(index.add, index, {loud}, heed.ones(1, 2))
    index:remove(loud)
    assert.is_false(index:has(loud))
    assert.is_false(heard)
  end)
end)
