-- Operations that are a few others, put together in Lua: their gradients, types and devices are
-- those of the others.

local core = require "heed.core"
local heed = require "heed.internal.surface"
local method = require "heed.internal.method"
local options = require "heed.internal.options"

local arguments, called = options.arguments, core.called
local fail, is_tensor = heed.fail, heed.is_tensor

-- Options of what makes a tensor: their names, and as options.read wants them.
local FACTORY = {"dtype", "requires_grad", "device"}
local factory = {dtype = options.any, requires_grad = options.any, device = options.any}


local function check_tensor(who, name, x)
  if is_tensor(x) then return x end
  fail("%s: argument '%s': a tensor expected, got %s", who, name, options.kind(x))
end


local function check_count(who, name, n, least)
  local count = type(n) == "number" and math.tointeger(n)
  if count and count >= least then return count end
  fail("%s: argument '%s': a whole number of at least %d expected, got %s", who, name, least,
       options.kind(n))
end


local function check_flag(who, name, flag)
  if flag == nil or type(flag) == "boolean" then return flag end
  fail("%s: argument '%s': a boolean expected, got %s", who, name, options.kind(flag))
end


-- Like another tensor ----------------------------------------------------

-- The options of a factory that make a tensor like x, but for those that are given.
local function like(x, given)
  return {dtype = given.dtype or x.dtype, device = given.device or x.device,
          requires_grad = given.requires_grad}
end


-- Sizes as a table, and the options behind them.
local function read_sizes(who, ...)
  local n, sizes = select("#", ...), {...}
  local last, given = sizes[n], nil
  if type(last) == "table" and (n > 1 or type(next(last)) == "string") then
    given, sizes[n] = last, nil
  end
  if type(sizes[1]) == "table" and #sizes == 1 then sizes = sizes[1] end
  return sizes, options.read(who, given, factory)
end


for _, kind in ipairs {"zeros", "ones", "empty"} do
  local name, make = "new_" .. kind, heed[kind]
  method.only(name, function(x, ...)
    local sizes, given = read_sizes(name, ...)
    return called(name, make, sizes, like(x, given))
  end)
end

method.only("new_full", function(x, ...)
  local a = arguments("new_full", {"size", "fill_value"}, FACTORY, ...)
  return called("new_full", heed.full, a.size, a.fill_value, like(x, a))
end)

method.only("new_tensor", function(x, data, given, ...)
  options.no_more("new_tensor", 2, ...)
  given = options.read("new_tensor", given, factory)
  return called("new_tensor", heed.tensor, data, like(x, given))
end)


---x with the type of another tensor, on its device.
method.both("type_as", function(x, other, ...)
  options.no_more("type_as", 2, ...)
  check_tensor("type_as", "input", x)
  check_tensor("type_as", "other", other)
  return called("type_as", heed.to, x, other)
end)


-- Grids and triangles ----------------------------------------------------

-- The tensors, as a list or one after the other, and the options behind them.
local function read_list(who, first, ...)
  if is_tensor(first) then
    local list, n = {first, ...}, 1
    while is_tensor(list[n + 1]) do n = n + 1 end
    if #list > n + 1 then check_tensor(who, "tensors", list[n + 1]) end
    return {table.unpack(list, 1, n)}, list[n + 1]
  elseif type(first) ~= "table" then
    fail("%s: argument 'tensors': a list of tensors expected, got %s", who, options.kind(first))
  end
  options.no_more(who, 2, select(2, ...))
  options.check_list(who, first)
  local list = options.copied(first)
  if #list < options.last(first) then check_tensor(who, "tensors", nil) end     -- a hole
  return list, (...)
end


local function check_axes(list)
  if #list == 0 then fail("meshgrid: argument 'tensors': at least one tensor expected") end
  for k, x in ipairs(list) do
    check_tensor("meshgrid", "tensors", x)
    if x:dim() > 1 then
      fail("meshgrid: argument 'tensors': vectors expected, got one of shape %s as entry %d",
           tostring(x.shape), k)
    elseif x.dtype ~= list[1].dtype then
      fail("meshgrid: argument 'tensors': entries of one type expected, got %s, and %s as entry %d",
           list[1].dtype, x.dtype, k)
    end
  end
end


-- Vector k as a view of shape `sizes`, along dimension `dim`.
local function spread(x, dim, sizes)
  local own = {}
  for i = 1, #sizes do own[i] = i == dim and sizes[i] or 1 end
  return x:reshape(own):expand(sizes)
end


---The coordinates of a grid: one view for each vector, along which its elements go.
function heed.meshgrid(...)
  local list, given = read_list("meshgrid", ...)
  local indexing = options.read("meshgrid", given, {indexing = "ij"}).indexing
  if indexing ~= "ij" and indexing ~= "xy" then
    fail("meshgrid: argument 'indexing': one of ij, xy expected, got %s", options.kind(indexing))
  end
  check_axes(list)
  local sizes, dims, grids = {}, {}, {}
  for k = 1, #list do dims[k] = k end
  if indexing == "xy" and #list > 1 then dims[1], dims[2] = 2, 1 end
  for k, x in ipairs(list) do sizes[dims[k]] = x:numel() end
  for k, x in ipairs(list) do grids[k] = called("meshgrid", spread, x, dims[k], sizes) end
  return grids
end


for _, triangle in ipairs {"tril", "triu"} do
  local name, part = triangle .. "_indices", heed[triangle]
  heed[name] = function(...)
    local a = arguments(name, {"row", "col", "offset"}, {"dtype", "device"}, ...)
    local rows, columns = check_count(name, "row", a.row, 0), check_count(name, "col", a.col, 0)
    return called(name, function()
      local ones = heed.ones(rows, columns, {dtype = "bool", device = a.device})
      return part(ones, a.offset or 0):nonzero():t():contiguous():to(a.dtype or "int64")
    end)
  end
end


-- Counting ---------------------------------------------------------------

-- The order in which the rows of (n, m) stand sorted, as words in a dictionary: by the last column
-- first, since each sort keeps what the one before it found.
local function order_of_rows(rows)
  local order = heed.arange(#rows, {device = rows.device})
  for column = rows:size(2), 1, -1 do
    local keys = rows:select(2, column):index_select(1, order)
    order = order:index_select(1, keys:argsort(1))
  end
  return order
end


-- Where a row of (n, m) differs from the one before it.
local function begins_of(rows)
  local n = #rows
  local first = heed.ones(math.min(n, 1), {dtype = "bool", device = rows.device})
  if n < 2 then return first end
  return heed.cat({first, rows:narrow(1, 2, n - 1):ne(rows:narrow(1, 1, n - 1)):any(2)}, 1)
end


-- The number of ids that are 1, that are 2, up to n.
local function counts_of(ids, n, weights)
  weights = weights or heed.ones_like(ids)
  local none = heed.zeros({n}, {dtype = weights.dtype, device = weights.device})
  return none:scatter_add(1, ids, weights)
end


local function unique(x, a)
  if a.dim ~= nil then x:size(a.dim) end                            -- is there one?
  local slices = a.dim and x:movedim(a.dim, 1) or x:reshape(-1)
  local keys = slices:detach():unsqueeze(-1):flatten(2)             -- (n, m)
  local order = order_of_rows(keys)
  local begins = begins_of(keys:index_select(1, order))
  local places, ids = order[begins], begins:cumsum(1)
  local values = slices:index_select(1, places)
  local results = {a.dim and values:movedim(1, a.dim) or values}
  if a.return_inverse then
    local inverse = heed.zeros_like(order):scatter(1, order, ids)
    results[#results + 1] = a.dim and inverse or inverse:reshape({x:size()})
  end
  if a.return_counts then results[#results + 1] = counts_of(ids, #places) end
  return table.unpack(results)
end


---The different elements of x, sorted; with `dim` its different slices.
method.both("unique", function(x, ...)
  check_tensor("unique", "input", x)
  local a = arguments("unique", {"sorted", "return_inverse", "return_counts", "dim"}, {}, ...)
  for _, name in ipairs {"sorted", "return_inverse", "return_counts"} do
    check_flag("unique", name, a[name])
  end
  return called("unique", unique, x, a)
end)


local function check_ids(x)
  if x.dtype ~= "int64" and x.dtype ~= "uint8" or x:dim() ~= 1 then
    fail("bincount: argument 'input': a vector of type int64 expected, got one of type %s and "
         .. "shape %s", x.dtype, tostring(x.shape))
  end
  return x:to("int64")
end


-- The largest id, of which none is below 1.
local function largest_id(ids)
  if ids:numel() == 0 then return 0 end
  local least, most = table.unpack(heed.stack({ids:amin(), ids:amax()}, 1):totable())
  if least < 1 then
    fail("bincount: argument 'input': ids count from 1, got %d%s", least,
         least == 0 and "; + 1?" or "")
  end
  return most
end


local function check_weights(weights, ids)
  check_tensor("bincount", "weights", weights)
  if weights.shape ~= ids.shape then
    fail("bincount: argument 'weights': the shape %s of argument 'input' expected, got %s",
         tostring(ids.shape), tostring(weights.shape))
  end
  return weights.dtype:find("float") and weights or weights:to("float64")
end


local function bincount(x, a)
  local ids = check_ids(x)
  local weights = a.weights and check_weights(a.weights, ids)
  local n = math.max(largest_id(ids), check_count("bincount", "minlength", a.minlength or 0, 0))
  return counts_of(ids, n, weights)
end


---How often each id from 1 on stands in a vector, or the sum of their weights.
method.both("bincount", function(x, ...)
  check_tensor("bincount", "input", x)
  local a = arguments("bincount", {"weights", "minlength"}, {}, ...)
  return called("bincount", bincount, x, a)
end)
