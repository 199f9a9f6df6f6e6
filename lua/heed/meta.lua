---@meta
-- The reference of what C defines, in LuaCATS, which editors read; no program loads it. The Lua
-- half carries such comments above its functions: heed.nn in nn/module.lua, nn/layers.lua and
-- nn/attention.lua, the others in files of their names (optim, plot, save, tasks, train).
--
-- How to read it
--
--   * Every operation is a function of the module and a method: heed.softmax(x, -1) and
--     x:softmax(-1). The first argument of the function is the tensor, here called self.
--   * A name that ends in _ writes into that tensor and returns it; it is listed beside the
--     operation that it is the in-place variant of.
--   * Where a tensor is expected, a number or a boolean will do, and shapes broadcast as in NumPy.
--   * Arguments may be named in a table at the end: x:sum(2, {keepdim = true}). The names are
--     PyTorch's. An unknown one raises, with a name that is near, or all of them.
--   * A wrong call raises an error that names the function, the argument, what it expected and what
--     it got: other shapes, types, ranks, values out of range, devices that differ.
--   * Dimensions, positions, labels and ids count from 1; negative ones from the end.
--   * Shapes stand in parentheses: B sequences, H heads, T queries, S keys, D features.
--   * Sources of formulas are named; where none is, the operation is PyTorch's of that name.
--
-- Lines with > are examples, and a spec runs them: `expression == what it gives`, a table
-- standing for a tensor of such values, numbers to four digits; or `expression raises "part of
-- the message"`.

---A type's name. Results of two types take the one that stands further right, but float16 with
---bfloat16 gives float32. Tensors without dimensions and plain numbers join the other's type
---unless theirs is of a higher kind (bools, integers, floats).
---> (heed.tensor{1, 2} + 0.5).dtype == "float32"
---> (heed.tensor({1}, {dtype = "float16"}) + 0.5).dtype == "float16"
---@alias heed.dtype
---| "bool"
---| "uint8"
---| "int64"
---| "float16"
---| "bfloat16"
---| "float32"
---| "float64"

---The name of a device: "cpu", "cuda" (the first GPU), "cuda:1" (the second).
---@alias heed.device string

---Sizes as a list, or one after the other.
---@alias heed.sizes integer|integer[]

---A value that joins in arithmetic.
---@alias heed.operand heed.Tensor|number|boolean

---Options of functions that make tensors.
---@class heed.factory
---@field dtype? heed.dtype "float32" unless given or said otherwise
---@field requires_grad? boolean whether gradients of it are computed
---@field device? heed.device

---Sizes of a tensor: prints as (2, 3), compares by value, takes negative positions.
---> heed.zeros(2, 3).shape[-1] == 3
---> heed.zeros(2, 3).shape == heed.ones(2, 3).shape == true
---> tostring(heed.zeros(2, 3).shape) == "(2, 3)"
---@class heed.Shape
---@field [integer] integer

---Numbers of one type in up to 8 dimensions.
---
---Operators are elementwise, and `..` joins the text of a tensor. `<` and `<=` raise, since Lua
---makes one boolean of them: use lt, le, gt, ge. `&`, `|` and `~` are for bool tensors. `#x` is the
---size of the first dimension, over which `ipairs` iterates. `local x <close> = …` frees x at the
---end.
---> 2 ^ heed.tensor{1, 2} - 1 == {1, 3}
---> heed.tensor{7, -7} // 2 == {3, -4}
---> heed.tensor{7, -7} % 4 == {3, 1}
---> heed.tensor{true, false} | heed.tensor{false, false} == {true, false}
---> heed.tensor{1} < heed.tensor{2} raises "x:lt(y)"
---
---A name that tensors do not have raises, with the one that is near or what PyTorch's is called
---here; names that begin with _ are nil. A method asks for its tensor: x.sum(2) is no x:sum(2).
---> heed.zeros(2):sofmax(1) raises "did you mean 'softmax'?"
---> heed.zeros(2):tolist() raises "write x:totable()"
---> heed.zeros(2).sum(1) raises "write x:sum(1)"
---
---`==` is whether two handles are one tensor; `equal` and `eq` compare values. To `if` and `and`
---every tensor is true: use its `item()`.
---> heed.tensor{1} == heed.tensor{1} == false
---> heed.tensor{1}:equal(heed.tensor{1}) == true
---> (heed.tensor(false) and "true") == "true"
---> heed.tensor(false):item() == false
---
---An index is a number, or a table with an entry for each dimension: a number, `{}` for all,
---`{from, to[, step]}` with both ends, an int64 tensor of positions or a bool tensor that marks
---them. An element of a vector is a plain number; the position behind the last is nil, any other
---outside raises. All of these can be assigned to.
---> heed.tensor{{1, 2}, {3, 4}}[2] == {3, 4}
---> heed.tensor{{1, 2}, {3, 4}}[{2, 1}] == 3
---> heed.tensor{{1, 2}, {3, 4}}[{{}, -1}] == {2, 4}
---> heed.tensor{5, 6, 7, 8}[{{1, 4, 2}}] == {5, 7}
---> heed.tensor{5, 6, 7}[heed.tensor{3, 1}] == {7, 5}
---> heed.tensor{5, 6, 7}[heed.tensor{5, 6, 7}:gt(5)] == {6, 7}
---> heed.tensor{5, 6}[3] == nil
---> heed.tensor{5, 6}[0] raises "count from 1"
---@class heed.Tensor
---@field shape heed.Shape a new one each time
---@field dtype heed.dtype
---@field device heed.device
---@field requires_grad boolean whether gradients reach it; may be set on leaves of a float type
---@field is_leaf boolean whether it was made, not computed from tensors that require gradients
---@field grad heed.Tensor? what backward added up, in memory of its own; may be set, also to nil
---@field T heed.Tensor a view with all dimensions in reverse, as in PyTorch
---@field mT heed.Tensor a view with the last two dimensions exchanged
---@field [integer|table|heed.Tensor] any
---@operator add(heed.operand): heed.Tensor
---@operator sub(heed.operand): heed.Tensor
---@operator mul(heed.operand): heed.Tensor
---@operator div(heed.operand): heed.Tensor
---@operator idiv(heed.operand): heed.Tensor
---@operator mod(heed.operand): heed.Tensor
---@operator pow(heed.operand): heed.Tensor
---@operator unm: heed.Tensor
---@operator band(heed.Tensor|boolean): heed.Tensor
---@operator bor(heed.Tensor|boolean): heed.Tensor
---@operator bnot: heed.Tensor
---@operator len: integer
---@operator concat(any): string
local Tensor = {}

---The module.
---@class heed
local heed = {}

---> heed._VERSION == "heed 0.1"
heed._VERSION = "heed 0.1"

heed.data = require "heed.data"
heed.nn = require "heed.nn"
heed.optim = require "heed.optim"
heed.plot = require "heed.plot"
heed.position = require "heed.position"
heed.tasks = require "heed.tasks"
heed.models = require "heed.models"
heed.search = require "heed.search"
heed.tokenizer = require "heed.tokenizer"
heed.accuracy = require "heed.data".accuracy
heed.capture = require "heed.capture".capture
heed.confusion_matrix = require "heed.data".confusion_matrix
heed.f1 = require "heed.data".f1
heed.generate = require "heed.generate".generate
heed.perplexity = require "heed.data".perplexity
heed.precision = require "heed.data".precision
heed.profile = require "heed.profile".profile
heed.quantize = require "heed.quantize".quantize
heed.recall = require "heed.data".recall
heed.sample = require "heed.generate".sample
heed.train = require "heed.train"
heed.load = require "heed.save".load
heed.save = require "heed.save".save


-- Making tensors ---------------------------------------------------------

---A tensor from a number, a boolean or nested tables of them; 0-dimensional tensors may stand
---among them. Integers give int64, booleans bool, all else float32; among numbers a boolean is 1
---or 0, as in PyTorch. A tensor is copied.
---> heed.tensor{{1, 2}, {3, 4.5}}.shape[1] == 2
---> heed.tensor{1, 2}.dtype == "int64"
---> heed.tensor{5, true}:totable() == {5, 1}
---> heed.tensor({1, 2}, {dtype = "float64"}).dtype == "float64"
---> heed.tensor{{1, 2}, {3}} raises "2 values expected at [2], got 1"
---> heed.tensor({1, 2}, "float64").dtype == "float64"
---> heed.tensor{1, 2, dtype = "float64"} raises "options stand in a table of their own"
---@param values number|boolean|table|heed.Tensor
---@param dtype? heed.dtype|heed.factory a type alone, or options
---@param options? heed.factory behind a type
---@return heed.Tensor
function heed.tensor(values, dtype, options) end

---A tensor from what `x:data()` gave: elements row by row, in the machine's order of bytes.
---> heed.frombytes(string.pack("ff", 1, 2), {2}) == {1, 2}
---@param bytes string
---@param shape integer[]
---@param dtype? heed.dtype|heed.factory a type alone, or options
---@param options? heed.factory behind a type
---@return heed.Tensor
function heed.frombytes(bytes, shape, dtype, options) end

---A tensor of this shape, filled with 0.
---> heed.zeros(2, 2) == {{0, 0}, {0, 0}}
---> heed.zeros({}).shape[1] == nil
---> heed.zeros(-1) raises "zeros"
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function heed.zeros(size, ...) end

---A tensor of this shape, filled with 1.
---> heed.ones(2, {dtype = "bool"}) == {true, true}
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function heed.ones(size, ...) end

---Its elements are whatever was there.
---> heed.empty(2, 3):numel() == 6
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function heed.empty(size, ...) end

---A tensor of this shape, filled with one value.
---> heed.full({2}, 7) == {7, 7}
---@param size heed.sizes
---@param fill_value heed.operand a number gives its own type: 7 int64, 7.0 float32
---@param dtype? heed.dtype|heed.factory
---@return heed.Tensor
function heed.full(size, fill_value, dtype) end

---The numbers from `start` to `stop`, both included; `arange(stop)` starts at 1. A last step that
---misses `stop` by rounding alone is taken.
---> heed.arange(3) == {1, 2, 3}
---> heed.arange(2, 5) == {2, 3, 4, 5}
---> heed.arange(0, 1, 0.5) == {0, 0.5, 1}
---> heed.arange(3, 1, -1) == {3, 2, 1}
---> #heed.arange(0, 0.3, 0.1) == 4
---@param ... number|heed.factory start, stop, step, options
---@return heed.Tensor
function heed.arange(...) end

---`steps` numbers from one to another, equally far apart.
---> heed.linspace(0, 1, 5) == {0, 0.25, 0.5, 0.75, 1}
---@param start number
---@param end_ number
---@param steps integer
---@param dtype? heed.dtype|heed.factory
---@return heed.Tensor
function heed.linspace(start, end_, steps, dtype) end

---Ones on the diagonal, zeros elsewhere.
---> heed.eye(2) == {{1, 0}, {0, 1}}
---> heed.eye(1, 3) == {{1, 0, 0}}
---@param n integer rows
---@param m? integer|heed.factory columns; n unless given
---@param dtype? heed.dtype|heed.factory
---@return heed.Tensor
function heed.eye(n, m, dtype) end

---Uniform numbers from 0 to below 1.
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function heed.rand(size, ...) end

---Normal numbers of mean 0 and variance 1.
---> (heed.manual_seed(0) or heed.randn(2)) == {1.5410, -0.2934}
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function heed.randn(size, ...) end

---Integers from `low` to `high`, both included, as int64; `randint(high, size)` starts at 1.
---> heed.randint(6, {100}):min() == 1
---> heed.randint(0, 8, {2, 3}):numel() == 6
---@param ... integer|integer[]|heed.factory low, high, size, options
---@return heed.Tensor
function heed.randint(...) end

---The numbers from 1 to n in random order.
---> heed.randperm(5):sort() == {1, 2, 3, 4, 5}
---@param n integer
---@param dtype? heed.dtype|heed.factory
---@return heed.Tensor
function heed.randperm(n, dtype) end

---A tensor of x's shape, type and device.
---> heed.zeros_like(heed.tensor{1, 2}) == {0, 0}
---@param x heed.Tensor
---@param options? heed.factory
---@return heed.Tensor
function heed.zeros_like(x, options) end
heed.ones_like, heed.empty_like = heed.zeros_like, heed.zeros_like
heed.rand_like, heed.randn_like = heed.zeros_like, heed.zeros_like

---A tensor of x's shape, type and device, filled with one value.
---> heed.full_like(heed.tensor{1, 2}, 7) == {7, 7}
---> heed.full_like(heed.tensor{1, 2}, {fill_value = 7}) == {7, 7}
---@param x heed.Tensor
---@param fill_value number|table
---@param options? heed.factory
---@return heed.Tensor
function heed.full_like(x, fill_value, options) end

---Integers from `low` to `high`, both included, in x's shape.
---@param x heed.Tensor
---@param low integer
---@param high integer
---@param options? heed.factory
---@return heed.Tensor
function heed.randint_like(x, low, high, options) end

---A tensor of this shape, of the type and on the device of self; `new_ones`, `new_empty` likewise.
---> heed.tensor{1, 2}:new_zeros(2, 2) == {{0, 0}, {0, 0}}
---> heed.tensor{1, 2}:new_ones({2}, {dtype = "bool"}) == {true, true}
---@param size heed.sizes
---@param ... integer|heed.factory
---@return heed.Tensor
function Tensor:new_zeros(size, ...) end
Tensor.new_ones, Tensor.new_empty = Tensor.new_zeros, Tensor.new_zeros

---A tensor of this shape, filled with one value, of the type and on the device of self.
---> heed.tensor{1.5}:new_full({2}, 7).dtype == "float32"
---@param size integer[]
---@param fill_value number|boolean
---@param options? heed.factory
---@return heed.Tensor
function Tensor:new_full(size, fill_value, options) end

---A tensor from numbers, as `heed.tensor` makes it, but of the type and on the device of self.
---> heed.tensor{1.5}:new_tensor{1, 2}.dtype == "float32"
---@param data number|boolean|table|heed.Tensor
---@param options? heed.factory
---@return heed.Tensor
function Tensor:new_tensor(data, options) end

---The coordinates of a grid: for each vector a view with a dimension for each, along which its own
---elements go. With "xy" the first two dimensions change places, as pictures have them.
---> heed.meshgrid{heed.tensor{1, 2}, heed.tensor{3, 4, 5}}[1] == {{1, 1, 1}, {2, 2, 2}}
---> heed.meshgrid{heed.tensor{1, 2}, heed.tensor{3, 4, 5}}[2] == {{3, 4, 5}, {3, 4, 5}}
---> heed.meshgrid({heed.tensor{1, 2}, heed.tensor{3}}, {indexing = "xy"})[1] == {{1, 2}}
---> heed.meshgrid(heed.zeros(2, 2)) raises "vectors expected, got one of shape (2, 2) as entry 1"
---@param tensors heed.Tensor|heed.Tensor[] of one type, of rank 0 or 1; or one after the other
---@param ... heed.Tensor|{indexing: "ij"|"xy"}
---@return heed.Tensor[] grids
function heed.meshgrid(tensors, ...) end

---The positions on and above a diagonal of a matrix, row by row: rows and columns, (2, n).
---> heed.triu_indices(2, 3) == {{1, 1, 1, 2, 2}, {1, 2, 3, 2, 3}}
---> heed.triu_indices(3, 3, 2) == {{1}, {3}}
---@param row integer
---@param col integer
---@param offset? integer|{dtype: heed.dtype, device: heed.device} 0 is the main diagonal
---@param options? {dtype: heed.dtype, device: heed.device}
---@return heed.Tensor
function heed.triu_indices(row, col, offset, options) end

---The positions on and below a diagonal of a matrix, row by row: rows and columns, (2, n).
---> heed.tril_indices(2, 2) == {{1, 2, 2}, {1, 1, 2}}
---@param row integer
---@param col integer
---@param offset? integer|{dtype: heed.dtype, device: heed.device} 0 is the main diagonal
---@param options? {dtype: heed.dtype, device: heed.device}
---@return heed.Tensor
function heed.tril_indices(row, col, offset, options) end


-- Reading tensors --------------------------------------------------------

---Is it a tensor of this state?
---> heed.is_tensor(heed.zeros(2)) == true
---> heed.is_tensor{1, 2} == false
---@param x any
---@return boolean
function heed.is_tensor(x) end
Tensor.is_tensor = heed.is_tensor

---The one element as a Lua number or boolean. Waits for a GPU.
---> heed.tensor{{5}}:item() == 5
---> heed.tensor{5, 6}:item() raises "one element expected"
---@return number|boolean
function Tensor:item() end
heed.item = Tensor.item

---Nested tables of Lua numbers or booleans; a 0-dimensional tensor gives its element. All tables
---together have at most 2^24 entries; lists of parts (`split`, `chunk`, `unbind`) likewise.
---> #heed.zeros(2, 3):totable() == 2
---> heed.zeros(1, 0):expand(1 << 40, 0):totable() raises "at most 16777216 entries"
---@return table|number|boolean
function Tensor:totable() end
heed.totable = Tensor.totable

---The elements' bytes, row by row, in the machine's order; `heed.frombytes` reads them.
---> #heed.zeros(2, 3):data() == 24
---@return string
function Tensor:data() end

---The text of a tensor with another format for its floats.
---> heed.tensor(0.5):format("%.1f") == "0.5"
---> heed.tensor(0.5):format("%d") raises "a format of one float"
---@param format string flags, width, precision, and one of e f g
---@return string
function Tensor:format(format) end
heed.format = Tensor.format

---All sizes, or that of one dimension.
---> heed.zeros(2, 3):size() == 2, 3
---> heed.zeros(2, 3):size(-1) == 3
---@param dim? integer
---@return integer ...
function Tensor:size(dim) end
heed.size = Tensor.size

---How far apart neighbours lie in memory along each dimension, in elements.
---> heed.zeros(2, 3):stride()[1] == 3
---@return integer[]
function Tensor:stride() end
heed.stride = Tensor.stride

---How many dimensions there are.
---> heed.zeros(2, 3):dim() == 2
---@return integer
function Tensor:dim() end
heed.dim = Tensor.dim

---How many elements there are.
---> heed.zeros(2, 3):numel() == 6
---@return integer
function Tensor:numel() end
heed.numel = Tensor.numel

---Do the elements lie row by row, without gaps?
---> heed.zeros(2, 3):t():is_contiguous() == false
---@return boolean
function Tensor:is_contiguous() end
heed.is_contiguous = Tensor.is_contiguous

---Same shape, and all elements equal?
---> heed.tensor{1, 2}:equal(heed.tensor{1.0, 2.0}) == true
---> heed.tensor{1, 2}:equal(heed.tensor{1}) == false
---@param other heed.Tensor
---@return boolean
function Tensor:equal(other) end
heed.equal = Tensor.equal

---Is |x - y| <= atol + rtol |y| everywhere?
---> heed.tensor{1.0}:allclose(heed.tensor{1.001}) == false
---> heed.tensor{1.0}:allclose(heed.tensor{1.001}, {atol = 1e-2}) == true
---@param other heed.Tensor
---@param options? {rtol: number, atol: number, equal_nan: boolean} 1e-5, 1e-8, false unless given
---@return boolean
function Tensor:allclose(other, options) end
heed.allclose = Tensor.allclose

---Frees its memory at once; every later use of the handle raises. `<close>` calls it.
function Tensor:release() end
heed.release = Tensor.release

---How tensors are printed from now on.
---> heed.printoptions{precision = 4, width = 80, edge = 3} == nil
---> heed.printoptions{digits = 3} raises "unknown option 'digits'"
---@param options {precision: integer?, width: integer?, edge: integer?}
---digits behind the point (4), columns (80), elements at each end of a long dimension (3)
function heed.printoptions(options) end


-- Types and copies -------------------------------------------------------

---@class heed.TargetOptions
---@field dtype? heed.dtype
---@field device? heed.device
---@field copy? boolean
---@field non_blocking? boolean

---The tensor in another type or on another device; itself if there is nothing to do, unless `copy`
---is set. Copies to a GPU go through pinned memory, `non_blocking` or not: they may wait for space
---in it, but not for the GPU's work.
---> heed.tensor{1.7, -1.7}:to("int64") == {1, -1}
---> heed.tensor{1}:to("float33") raises "float33"
---@param target heed.dtype|heed.device|heed.Tensor|heed.TargetOptions
---@param ... heed.dtype|heed.device
---@return heed.Tensor
function Tensor:to(target, ...) end
heed.to = Tensor.to

---With the type and on the device of another tensor.
---> heed.tensor{1}:type_as(heed.ones(1)).dtype == "float32"
---@param other heed.Tensor
---@return heed.Tensor
function Tensor:type_as(other) end
heed.type_as = Tensor.type_as

---To one type.
---@return heed.Tensor
function Tensor:float() end
Tensor.double, Tensor.half, Tensor.bfloat16 = Tensor.float, Tensor.float, Tensor.float
Tensor.long, Tensor.byte, Tensor.bool = Tensor.float, Tensor.float, Tensor.float

---To the CPU.
---@return heed.Tensor
function Tensor:cpu() end

---To a GPU: the first, or the one of that number (from 0) or name.
---@param device? integer|heed.device
---@return heed.Tensor
function Tensor:cuda(device) end

---A copy with memory of its own; gradients pass.
---> heed.tensor{1, 2}:clone():fill_(0) == {0, 0}
---@return heed.Tensor
function Tensor:clone() end
heed.clone = Tensor.clone

---The tensor with its elements row by row: itself, or a copy.
---@return heed.Tensor
function Tensor:contiguous() end
heed.contiguous = Tensor.contiguous

---The elements of `src`, in self's type and shape; `copy_` puts them into self.
---> heed.zeros(2):copy_(heed.tensor{1, 2}) == {1, 2}
---> heed.zeros(2, 2):copy_(heed.tensor{1, 2}) == {{1, 2}, {1, 2}}
---@param src heed.operand broadcasts
---@return heed.Tensor
function Tensor:copy(src) end
Tensor.copy_, heed.copy, heed.copy_ = Tensor.copy, Tensor.copy, Tensor.copy

---One value for all elements.
---> heed.zeros(2):fill_(3) == {3, 3}
---@param value heed.operand
---@return heed.Tensor
function Tensor:fill(value) end
Tensor.fill_, heed.fill, heed.fill_ = Tensor.fill, Tensor.fill, Tensor.fill

---0 for all elements.
---> heed.ones(2):zero_() == {0, 0}
---@return heed.Tensor
function Tensor:zero() end
Tensor.zero_, heed.zero, heed.zero_ = Tensor.zero, Tensor.zero, Tensor.zero

---Self becomes the storage, shape and type of `other`, and stays the same handle.
---@param other heed.Tensor
---@return heed.Tensor
function Tensor:set_(other) end
heed.set_ = Tensor.set_


-- Elementwise, of one -----------------------------------------------------

-- Floats keep their type; where the result is no integer, integers become float32 first.

----x.
---> heed.tensor{1, -2}:neg() == {-1, 2}
---@return heed.Tensor
function Tensor:neg() end
Tensor.neg_, heed.neg, heed.neg_ = Tensor.neg, Tensor.neg, Tensor.neg

---The size without the sign.
---> heed.tensor{1, -2}:abs() == {1, 2}
---@return heed.Tensor
function Tensor:abs() end
Tensor.abs_, heed.abs, heed.abs_ = Tensor.abs, Tensor.abs, Tensor.abs

----1, 0 or 1.
---> heed.tensor{5, 0, -2}:sign() == {1, 0, -1}
---@return heed.Tensor
function Tensor:sign() end
Tensor.sign_, heed.sign, heed.sign_ = Tensor.sign, Tensor.sign, Tensor.sign

---x^2.
---> heed.tensor{3, -2}:square() == {9, 4}
---@return heed.Tensor
function Tensor:square() end
Tensor.square_, heed.square, heed.square_ = Tensor.square, Tensor.square, Tensor.square

---The square root; NaN below 0.
---> heed.tensor{4, 9}:sqrt() == {2, 3}
---@return heed.Tensor
function Tensor:sqrt() end
Tensor.sqrt_, heed.sqrt, heed.sqrt_ = Tensor.sqrt, Tensor.sqrt, Tensor.sqrt

---1 / sqrt(x).
---> heed.tensor{4, 0.25}:rsqrt() == {0.5, 2}
---@return heed.Tensor
function Tensor:rsqrt() end
Tensor.rsqrt_, heed.rsqrt, heed.rsqrt_ = Tensor.rsqrt, Tensor.rsqrt, Tensor.rsqrt

---1 / x.
---> heed.tensor{4, -2}:reciprocal() == {0.25, -0.5}
---@return heed.Tensor
function Tensor:reciprocal() end
Tensor.reciprocal_ = Tensor.reciprocal
heed.reciprocal, heed.reciprocal_ = Tensor.reciprocal, Tensor.reciprocal

---e^x.
---> heed.tensor{0, 1}:exp() == {1, 2.7183}
---@return heed.Tensor
function Tensor:exp() end
Tensor.exp_, heed.exp, heed.exp_ = Tensor.exp, Tensor.exp, Tensor.exp

---2^x.
---> heed.tensor{0, 3}:exp2() == {1, 8}
---@return heed.Tensor
function Tensor:exp2() end
Tensor.exp2_, heed.exp2, heed.exp2_ = Tensor.exp2, Tensor.exp2, Tensor.exp2

---e^x - 1, exact near 0.
---> heed.tensor{0, 1}:expm1() == {0, 1.7183}
---@return heed.Tensor
function Tensor:expm1() end
Tensor.expm1_, heed.expm1, heed.expm1_ = Tensor.expm1, Tensor.expm1, Tensor.expm1

---The natural logarithm; -inf at 0, NaN below.
---> heed.tensor{1, 2}:log() == {0, 0.6931}
---> heed.tensor{0, -1}:log() == {-1 / 0, 0 / 0}
---@return heed.Tensor
function Tensor:log() end
Tensor.log_, heed.log, heed.log_ = Tensor.log, Tensor.log, Tensor.log

---The logarithm to base 2.
---> heed.tensor{1, 8}:log2() == {0, 3}
---@return heed.Tensor
function Tensor:log2() end
Tensor.log2_, heed.log2, heed.log2_ = Tensor.log2, Tensor.log2, Tensor.log2

---log(1 + x), exact near 0.
---> heed.tensor{0, 1}:log1p() == {0, 0.6931}
---@return heed.Tensor
function Tensor:log1p() end
Tensor.log1p_, heed.log1p, heed.log1p_ = Tensor.log1p, Tensor.log1p, Tensor.log1p

---The sine, of radians.
---> heed.tensor{0, 1}:sin() == {0, 0.8415}
---@return heed.Tensor
function Tensor:sin() end
Tensor.sin_, heed.sin, heed.sin_ = Tensor.sin, Tensor.sin, Tensor.sin

---The cosine, of radians.
---> heed.tensor{0, 1}:cos() == {1, 0.5403}
---@return heed.Tensor
function Tensor:cos() end
Tensor.cos_, heed.cos, heed.cos_ = Tensor.cos, Tensor.cos, Tensor.cos

---The tangent, of radians.
---> heed.tensor{0, 1}:tan() == {0, 1.5574}
---@return heed.Tensor
function Tensor:tan() end
Tensor.tan_, heed.tan, heed.tan_ = Tensor.tan, Tensor.tan, Tensor.tan

---The angle whose sine is x, in radians; NaN beyond -1 to 1.
---> heed.tensor{0, 1}:asin() == {0, 1.5708}
---@return heed.Tensor
function Tensor:asin() end
Tensor.asin_, heed.asin, heed.asin_ = Tensor.asin, Tensor.asin, Tensor.asin

---The angle whose cosine is x, in radians; NaN beyond -1 to 1.
---> heed.tensor{0, 1}:acos() == {1.5708, 0}
---@return heed.Tensor
function Tensor:acos() end
Tensor.acos_, heed.acos, heed.acos_ = Tensor.acos, Tensor.acos, Tensor.acos

---The angle whose tangent is x, in radians.
---> heed.tensor{0, 1}:atan() == {0, 0.7854}
---@return heed.Tensor
function Tensor:atan() end
Tensor.atan_, heed.atan, heed.atan_ = Tensor.atan, Tensor.atan, Tensor.atan

---sin(pi x) / (pi x), and 1 at 0: the normalized sinc.
---> heed.tensor{0, 0.5, 1.5}:sinc() == {1, 0.6366, -0.2122}
---@return heed.Tensor
function Tensor:sinc() end
Tensor.sinc_, heed.sinc, heed.sinc_ = Tensor.sinc, Tensor.sinc, Tensor.sinc

---(e^x - e^-x) / 2.
---> heed.tensor{0, 1}:sinh() == {0, 1.1752}
---@return heed.Tensor
function Tensor:sinh() end
Tensor.sinh_, heed.sinh, heed.sinh_ = Tensor.sinh, Tensor.sinh, Tensor.sinh

---(e^x + e^-x) / 2.
---> heed.tensor{0, 1}:cosh() == {1, 1.5431}
---@return heed.Tensor
function Tensor:cosh() end
Tensor.cosh_, heed.cosh, heed.cosh_ = Tensor.cosh, Tensor.cosh, Tensor.cosh

---sinh(x) / cosh(x), from -1 to 1.
---> heed.tensor{0, 1}:tanh() == {0, 0.7616}
---@return heed.Tensor
function Tensor:tanh() end
Tensor.tanh_, heed.tanh, heed.tanh_ = Tensor.tanh, Tensor.tanh, Tensor.tanh

---1 / (1 + e^-x), from 0 to 1.
---> heed.tensor{0, 1}:sigmoid() == {0.5, 0.7311}
---@return heed.Tensor
function Tensor:sigmoid() end
Tensor.sigmoid_, heed.sigmoid, heed.sigmoid_ = Tensor.sigmoid, Tensor.sigmoid, Tensor.sigmoid

---log(sigmoid(x)), without overflow.
---> heed.tensor{0, -100}:logsigmoid() == {-0.6931, -100}
---@return heed.Tensor
function Tensor:logsigmoid() end
Tensor.logsigmoid_ = Tensor.logsigmoid
heed.logsigmoid, heed.logsigmoid_ = Tensor.logsigmoid, Tensor.logsigmoid

---The error function, 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x.
---> heed.tensor{0, 1}:erf() == {0, 0.8427}
---@return heed.Tensor
function Tensor:erf() end
Tensor.erf_, heed.erf, heed.erf_ = Tensor.erf, Tensor.erf, Tensor.erf

---max(x, 0). Its gradient at 0 is 0.
---> heed.tensor{-1, 2}:relu() == {0, 2}
---@return heed.Tensor
function Tensor:relu() end
Tensor.relu_, heed.relu, heed.relu_ = Tensor.relu, Tensor.relu, Tensor.relu

---x, and below 0 x times `negative_slope`.
---> heed.tensor{-1, 2}:leaky_relu(0.1) == {-0.1, 2}
---@param negative_slope? number|table 0.01 unless given
---@return heed.Tensor
function Tensor:leaky_relu(negative_slope) end
Tensor.leaky_relu_ = Tensor.leaky_relu
heed.leaky_relu, heed.leaky_relu_ = Tensor.leaky_relu, Tensor.leaky_relu

---x, below 0 alpha (e^x - 1). D.-A. Clevert et al. (2015), "Fast and accurate deep network
---learning by exponential linear units".
---> heed.tensor{-1, 2}:elu() == {-0.6321, 2}
---@param alpha? number|table 1 unless given
---@return heed.Tensor
function Tensor:elu(alpha) end
Tensor.elu_, heed.elu, heed.elu_ = Tensor.elu, Tensor.elu, Tensor.elu

---x times the normal distribution's share below x. D. Hendrycks and K. Gimpel (2016),
---"Gaussian error linear units"; "tanh" is the approximation of its section 2.
---> heed.tensor{-1, 2}:gelu() == {-0.1587, 1.9545}
---> heed.tensor{-1, 2}:gelu("tanh") == {-0.1588, 1.9546}
---> heed.gelu(heed.tensor{1}, {approximate = "fast"}) raises "one of none|tanh expected"
---@param approximate? "none"|"tanh"|table "none" unless given
---@return heed.Tensor
function Tensor:gelu(approximate) end
Tensor.gelu_, heed.gelu, heed.gelu_ = Tensor.gelu, Tensor.gelu, Tensor.gelu

---x sigmoid(x). S. Elfwing et al. (2017), "Sigmoid-weighted linear units".
---> heed.tensor{-1, 2}:silu() == {-0.2689, 1.7616}
---@return heed.Tensor
function Tensor:silu() end
Tensor.silu_, heed.silu, heed.silu_ = Tensor.silu, Tensor.silu, Tensor.silu

---x tanh(softplus(x)). D. Misra (2019), "Mish".
---> heed.tensor{-1, 2}:mish() == {-0.3034, 1.9440}
---@return heed.Tensor
function Tensor:mish() end
Tensor.mish_, heed.mish, heed.mish_ = Tensor.mish, Tensor.mish, Tensor.mish

---log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold.
---> heed.tensor{0, 100}:softplus() == {0.6931, 100}
---@param beta? number|table 1 unless given
---@param threshold? number|table 20 unless given
---@return heed.Tensor
function Tensor:softplus(beta, threshold) end
Tensor.softplus_, heed.softplus, heed.softplus_ = Tensor.softplus, Tensor.softplus, Tensor.softplus

---x, kept between two bounds. Its gradient on a bound is 0.
---> heed.tensor{-3, 0.5, 2}:hardtanh() == {-1, 0.5, 1}
---@param min_val? number|table -1 unless given
---@param max_val? number|table 1 unless given
---@return heed.Tensor
function Tensor:hardtanh(min_val, max_val) end
Tensor.hardtanh_, heed.hardtanh, heed.hardtanh_ = Tensor.hardtanh, Tensor.hardtanh, Tensor.hardtanh

---The next integer below.
---> heed.tensor{1.5, -1.5}:floor() == {1, -2}
---@return heed.Tensor
function Tensor:floor() end
Tensor.floor_, heed.floor, heed.floor_ = Tensor.floor, Tensor.floor, Tensor.floor

---The next integer above.
---> heed.tensor{1.5, -1.5}:ceil() == {2, -1}
---@return heed.Tensor
function Tensor:ceil() end
Tensor.ceil_, heed.ceil, heed.ceil_ = Tensor.ceil, Tensor.ceil, Tensor.ceil

---The nearest integer; halves go to the even one.
---> heed.tensor{0.5, 1.5, 2.6}:round() == {0, 2, 3}
---> heed.tensor{1.264, 26.1}:round{decimals = 1} == {1.3, 26.1}
---@param options? {decimals: integer} digits behind the point, or, below 0, before it
---@return heed.Tensor
function Tensor:round(options) end
Tensor.round_, heed.round, heed.round_ = Tensor.round, Tensor.round, Tensor.round

---The next integer towards 0.
---> heed.tensor{1.5, -1.5}:trunc() == {1, -1}
---@return heed.Tensor
function Tensor:trunc() end
Tensor.trunc_, heed.trunc, heed.trunc_ = Tensor.trunc, Tensor.trunc, Tensor.trunc

---Is it no number? A bool tensor, as of all tests.
---> heed.tensor{1, 0 / 0}:isnan() == {false, true}
---@return heed.Tensor
function Tensor:isnan() end
Tensor.isnan_, heed.isnan, heed.isnan_ = Tensor.isnan, Tensor.isnan, Tensor.isnan

---Is it infinite?
---> heed.tensor{1, -1 / 0}:isinf() == {false, true}
---@return heed.Tensor
function Tensor:isinf() end
Tensor.isinf_, heed.isinf, heed.isinf_ = Tensor.isinf, Tensor.isinf, Tensor.isinf

---Is it neither infinite nor NaN?
---> heed.tensor{1, 0 / 0, 1 / 0}:isfinite() == {true, false, false}
---@return heed.Tensor
function Tensor:isfinite() end
Tensor.isfinite_, heed.isfinite, heed.isfinite_ = Tensor.isfinite, Tensor.isfinite, Tensor.isfinite

---Is it 0, or false?
---> heed.tensor{2, 0}:logical_not() == {false, true}
---@return heed.Tensor
function Tensor:logical_not() end
Tensor.logical_not_ = Tensor.logical_not
heed.logical_not, heed.logical_not_ = Tensor.logical_not, Tensor.logical_not


-- Elementwise, of two -----------------------------------------------------

---x + alpha y.
---> heed.tensor{1, 2}:add(1) == {2, 3}
---> heed.tensor{1, 2}:add(heed.tensor{1, 1}, {alpha = 10}) == {11, 12}
---> heed.tensor{{1}, {2}} + heed.tensor{10, 20} == {{11, 21}, {12, 22}}
---> heed.zeros(2) + heed.zeros(3) raises "add"
---@param other heed.operand
---@param alpha? number|table 1 unless given
---@return heed.Tensor
function Tensor:add(other, alpha) end
Tensor.add_, heed.add, heed.add_ = Tensor.add, Tensor.add, Tensor.add

---x - alpha y.
---> heed.tensor{1, 2}:sub(1) == {0, 1}
---@param other heed.operand
---@param alpha? number|table 1 unless given
---@return heed.Tensor
function Tensor:sub(other, alpha) end
Tensor.sub_, heed.sub, heed.sub_ = Tensor.sub, Tensor.sub, Tensor.sub

---x y.
---> heed.tensor{1, 2}:mul(3) == {3, 6}
---@param other heed.operand
---@return heed.Tensor
function Tensor:mul(other) end
Tensor.mul_, heed.mul, heed.mul_ = Tensor.mul, Tensor.mul, Tensor.mul

---x / y, in floats; with a `rounding_mode` integers stay integers.
---> heed.tensor{1, 2}:div(2) == {0.5, 1}
---> heed.tensor{1.0, 0.0} / 0 == {1 / 0, 0 / 0}
---> heed.tensor{7, -7}:div(2, {rounding_mode = "floor"}) == {3, -4}
---> heed.tensor{7, -7}:div(2, {rounding_mode = "trunc"}) == {3, -3}
---@param other heed.operand
---@param options? {rounding_mode: "floor"|"trunc"}
---@return heed.Tensor
function Tensor:div(other, options) end
Tensor.div_, heed.div, heed.div_ = Tensor.div, Tensor.div, Tensor.div

---x // y, rounded down, as Lua's. Integers by 0 raise.
---> heed.tensor{7, -7}:floor_divide(2) == {3, -4}
---> heed.tensor{1} // 0 raises "floor_divide"
---@param other heed.operand
---@return heed.Tensor
function Tensor:floor_divide(other) end
Tensor.floor_divide_ = Tensor.floor_divide
heed.floor_divide, heed.floor_divide_ = Tensor.floor_divide, Tensor.floor_divide

---x - y (x // y), with the sign of y, as Lua's %.
---> heed.tensor{7, -7}:remainder(4) == {3, 1}
---@param other heed.operand
---@return heed.Tensor
function Tensor:remainder(other) end
Tensor.remainder_ = Tensor.remainder
heed.remainder, heed.remainder_ = Tensor.remainder, Tensor.remainder

---The remainder with the sign of x, as C's fmod.
---> heed.tensor{7, -7}:fmod(4) == {3, -3}
---@param other heed.operand
---@return heed.Tensor
function Tensor:fmod(other) end
Tensor.fmod_, heed.fmod, heed.fmod_ = Tensor.fmod, Tensor.fmod, Tensor.fmod

---x^y. An integer to a negative number raises; to a tensor of negative powers it gives 0, but 1
---and -1 give themselves.
---> heed.tensor{2, 3}:pow(2) == {4, 9}
---> heed.tensor{2, -1}:pow(heed.tensor{-1, -3}) == {0, -1}
---> heed.tensor{2} ^ -1 raises "negative"
---@param other heed.operand
---@return heed.Tensor
function Tensor:pow(other) end
Tensor.pow_, heed.pow, heed.pow_ = Tensor.pow, Tensor.pow, Tensor.pow

---The angle of the point (y, x) = (self, other), in radians.
---> heed.tensor{1.0}:atan2(heed.tensor{-1.0}) == {2.3562}
---@param other heed.operand
---@return heed.Tensor
function Tensor:atan2(other) end
Tensor.atan2_, heed.atan2, heed.atan2_ = Tensor.atan2, Tensor.atan2, Tensor.atan2

---sqrt(x^2 + y^2).
---> heed.tensor{3.0}:hypot(heed.tensor{4.0}) == {5}
---@param other heed.operand
---@return heed.Tensor
function Tensor:hypot(other) end
Tensor.hypot_, heed.hypot, heed.hypot_ = Tensor.hypot, Tensor.hypot, Tensor.hypot

---log(e^x + e^y), without overflow.
---> heed.tensor{1000.0}:logaddexp(1000.0) == {1000.6931}
---> heed.tensor{-math.huge}:logaddexp(-math.huge) == {-math.huge}
---@param other heed.operand
---@return heed.Tensor
function Tensor:logaddexp(other) end
Tensor.logaddexp_ = Tensor.logaddexp
heed.logaddexp, heed.logaddexp_ = Tensor.logaddexp, Tensor.logaddexp

---The larger one; NaN if one is. Where both are equal, each gets half the gradient.
---> heed.tensor{1, 5}:maximum(3) == {3, 5}
---@param other heed.operand
---@return heed.Tensor
function Tensor:maximum(other) end
Tensor.maximum_, heed.maximum, heed.maximum_ = Tensor.maximum, Tensor.maximum, Tensor.maximum

---The smaller one; NaN if one is. Where both are equal, each gets half the gradient.
---> heed.tensor{1, 5}:minimum(3) == {1, 3}
---@param other heed.operand
---@return heed.Tensor
function Tensor:minimum(other) end
Tensor.minimum_, heed.minimum, heed.minimum_ = Tensor.minimum, Tensor.minimum, Tensor.minimum

---x == y, as bools.
---> heed.tensor{1, 2}:eq(2) == {false, true}
---@param other heed.operand
---@return heed.Tensor
function Tensor:eq(other) end
Tensor.eq_, heed.eq, heed.eq_ = Tensor.eq, Tensor.eq, Tensor.eq

---x ~= y, as bools.
---> heed.tensor{1, 2}:ne(2) == {true, false}
---@param other heed.operand
---@return heed.Tensor
function Tensor:ne(other) end
Tensor.ne_, heed.ne, heed.ne_ = Tensor.ne, Tensor.ne, Tensor.ne

---x < y, as bools.
---> heed.tensor{1, 2, 3}:lt(2) == {true, false, false}
---@param other heed.operand
---@return heed.Tensor
function Tensor:lt(other) end
Tensor.lt_, heed.lt, heed.lt_ = Tensor.lt, Tensor.lt, Tensor.lt

---x <= y, as bools.
---> heed.tensor{1, 2, 3}:le(2) == {true, true, false}
---@param other heed.operand
---@return heed.Tensor
function Tensor:le(other) end
Tensor.le_, heed.le, heed.le_ = Tensor.le, Tensor.le, Tensor.le

---x > y, as bools.
---> heed.tensor{1, 2, 3}:gt(2) == {false, false, true}
---@param other heed.operand
---@return heed.Tensor
function Tensor:gt(other) end
Tensor.gt_, heed.gt, heed.gt_ = Tensor.gt, Tensor.gt, Tensor.gt

---x >= y, as bools.
---> heed.tensor{1, 2, 3}:ge(2) == {false, true, true}
---@param other heed.operand
---@return heed.Tensor
function Tensor:ge(other) end
Tensor.ge_, heed.ge, heed.ge_ = Tensor.ge, Tensor.ge, Tensor.ge

---Are both true, or not 0?
---> heed.tensor{1, 0}:logical_and(true) == {true, false}
---@param other heed.operand
---@return heed.Tensor
function Tensor:logical_and(other) end
Tensor.logical_and_ = Tensor.logical_and
heed.logical_and, heed.logical_and_ = Tensor.logical_and, Tensor.logical_and

---Is one of them true, or not 0?
---> heed.tensor{1, 0}:logical_or(false) == {true, false}
---@param other heed.operand
---@return heed.Tensor
function Tensor:logical_or(other) end
Tensor.logical_or_ = Tensor.logical_or
heed.logical_or, heed.logical_or_ = Tensor.logical_or, Tensor.logical_or

---Is just one of them true, or not 0?
---> heed.tensor{1, 0}:logical_xor(true) == {false, true}
---@param other heed.operand
---@return heed.Tensor
function Tensor:logical_xor(other) end
Tensor.logical_xor_ = Tensor.logical_xor
heed.logical_xor, heed.logical_xor_ = Tensor.logical_xor, Tensor.logical_xor

---Is |x - y| <= atol + rtol |y|? Infinities are close to themselves alone.
---> heed.tensor{1.0, 2.0}:isclose(heed.tensor{1.000001, 2.1}) == {true, false}
---> heed.tensor{0 / 0}:isclose(0 / 0, {equal_nan = true}) == {true}
---> heed.tensor{1.0}:isclose(2.0, {rtol = -1}) raises "a number from 0 on expected, got -1"
---@param other heed.operand
---@param rtol? number|table 1e-5 unless given
---@param atol? number 1e-8 unless given
---@param equal_nan? boolean false unless given
---@return heed.Tensor bools
function Tensor:isclose(other, rtol, atol, equal_nan) end
heed.isclose = Tensor.isclose


-- Elementwise, of three --------------------------------------------------

---`a` where the condition is true, else `b`.
---> heed.where(heed.tensor{true, false}, heed.tensor{1, 2}, 0) == {1, 0}
---@param condition heed.Tensor bools
---@param a heed.operand
---@param b heed.operand
---@return heed.Tensor
function heed.where(condition, a, b) end

---self where the condition is true, else `other`: as a method it begins with what is kept.
---> heed.tensor{1, 2}:where(heed.tensor{true, false}, 0) == {1, 0}
---@param condition heed.Tensor bools
---@param other heed.operand
---@return heed.Tensor
function Tensor:where(condition, other) end

---x + weight (end - x).
---> heed.tensor{0.0, 10.0}:lerp(heed.tensor{1.0, 20.0}, 0.25) == {0.25, 12.5}
---@param end_ heed.operand named `end` in options
---@param weight heed.operand
---@return heed.Tensor
function Tensor:lerp(end_, weight) end
Tensor.lerp_, heed.lerp, heed.lerp_ = Tensor.lerp, Tensor.lerp, Tensor.lerp

---x, kept between two bounds, one of which may be left out. On a bound that is a number x gets no
---gradient; x and a bound that is a tensor get half of it each.
---> heed.tensor{1, 5, 9}:clamp(2, 6) == {2, 5, 6}
---> heed.tensor{1, 5, 9}:clamp{max = 6} == {1, 5, 6}
---> heed.tensor{1, 5, 9}:clamp() raises "a bound expected"
---@param min? heed.operand|table
---@param max? heed.operand
---@return heed.Tensor
function Tensor:clamp(min, max) end
Tensor.clamp_, heed.clamp, heed.clamp_ = Tensor.clamp, Tensor.clamp, Tensor.clamp

---`clamp` by NumPy's name.
---> heed.tensor{1, 5, 9}:clip{min = 2} == {2, 5, 9}
---@param min? heed.operand|table
---@param max? heed.operand
---@return heed.Tensor
function Tensor:clip(min, max) end
Tensor.clip_, heed.clip, heed.clip_ = Tensor.clip, Tensor.clip, Tensor.clip

---Both bounds in one pass; `clamp` is made of it.
---> heed.tensor{1, 5, 9}:bound(2, 6) == {2, 5, 6}
---@param min heed.operand
---@param max heed.operand
---@return heed.Tensor
function Tensor:bound(min, max) end
heed.bound = Tensor.bound

---x with other numbers for NaN and the infinities: 0 and the largest of the type unless given.
---Replaced elements have gradient 0.
---> heed.tensor{1.0, 0 / 0, math.huge}:nan_to_num(0, 9) == {1, 0, 9}
---> heed.tensor{-math.huge}:nan_to_num{neginf = -1} == {-1}
---@param nan? number|table 0 unless given
---@param posinf? number
---@param neginf? number
---@return heed.Tensor
function Tensor:nan_to_num(nan, posinf, neginf) end
Tensor.nan_to_num_ = Tensor.nan_to_num
heed.nan_to_num, heed.nan_to_num_ = Tensor.nan_to_num, Tensor.nan_to_num


-- Reductions -------------------------------------------------------------
-- `dim` is a dimension, in most a list of them, and all where it is left out; `keepdim` keeps
-- what was reduced with size 1.

---The sum; of integers and bools an int64.
---> heed.tensor{{1, 2}, {3, 4}}:sum() == 10
---> heed.tensor{{1, 2}, {3, 4}}:sum(1) == {4, 6}
---> heed.tensor{{1, 2}, {3, 4}}:sum(2, {keepdim = true}) == {{3}, {7}}
---> heed.tensor{{1, 2}, {3, 4}}:sum{dim = {1, 2}} == 10
---> heed.zeros(2):sum(2) raises "sum"
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@param dtype? heed.dtype
---@return heed.Tensor
function Tensor:sum(dim, keepdim, dtype) end
heed.sum = Tensor.sum

---The mean, of floats.
---> heed.tensor{1.0, 2.0, 6.0}:mean() == 3
---> heed.tensor{1, 2}:mean() raises "mean"
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@param dtype? heed.dtype in which to compute; required for integers
---@return heed.Tensor
function Tensor:mean(dim, keepdim, dtype) end
heed.mean = Tensor.mean

---The variance, divided by n - 1 unless the options say otherwise.
---> heed.tensor{1.0, 2.0, 6.0}:var() == 7
---> heed.tensor{1.0, 2.0, 6.0}:var{correction = 0} == 4.6667
---> heed.tensor{1.0, 2.0, 6.0}:var(false) == 4.6667
---@param dim? integer|integer[]|boolean|table a boolean is `unbiased`
---@param unbiased? boolean true, divided by n - 1, unless given
---@param keepdim? boolean
---@param correction? number what is taken from n, in place of `unbiased`
---@return heed.Tensor
function Tensor:var(dim, unbiased, keepdim, correction) end
heed.var = Tensor.var

---The root of the variance.
---> heed.tensor{1.0, 2.0, 6.0}:std() == 2.6458
---@param dim? integer|integer[]|boolean|table a boolean is `unbiased`
---@param unbiased? boolean
---@param keepdim? boolean
---@param correction? number
---@return heed.Tensor
function Tensor:std(dim, unbiased, keepdim, correction) end
heed.std = Tensor.std

---The largest element; along a dimension also its positions. NaN is above all. With another
---tensor it is `maximum`.
---> heed.tensor{3, 9, 4}:max() == 9
---> heed.tensor{{3, 9}, {5, 1}}:max(2) == {9, 5}, {2, 1}
---> heed.tensor{3, 9}:max(heed.tensor{5, 5}) == {5, 9}
---@param dim? integer|heed.Tensor|table
---@param keepdim? boolean|table
---@return heed.Tensor values
---@return heed.Tensor? positions int64, with `dim` only
function Tensor:max(dim, keepdim) end
heed.max = Tensor.max

---The smallest element; along a dimension also its positions. NaN is below all. With another
---tensor it is `minimum`.
---> heed.tensor{{3, 9}, {5, 1}}:min(1) == {3, 1}, {1, 2}
---> heed.tensor{3, 9}:min(heed.tensor{5, 5}) == {3, 5}
---@param dim? integer|heed.Tensor|table
---@param keepdim? boolean|table
---@return heed.Tensor values
---@return heed.Tensor? positions int64, with `dim` only
function Tensor:min(dim, keepdim) end
heed.min = Tensor.min

---The largest element over one or several dimensions; those that are equal share the gradient.
---> heed.tensor{{3, 9}, {9, 1}}:amax() == 9
---> heed.zeros(2, 3, 4):amax({1, 3}).shape[1] == 3
---> heed.zeros(0):amax() raises "an empty dimension has no such element"
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@return heed.Tensor
function Tensor:amax(dim, keepdim) end
heed.amax = Tensor.amax

---The smallest element over one or several dimensions; those that are equal share the gradient.
---> heed.tensor{{3, 9}, {5, 1}}:amin(2) == {3, 1}
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@return heed.Tensor
function Tensor:amin(dim, keepdim) end
heed.amin = Tensor.amin

---The position of the largest element, the first of them; in the flat tensor without `dim`. The
---result is a tensor: `item()` gives the number that a Lua table wants as its key, `heed.lookup`
---the entries.
---> heed.tensor{3, 9, 4}:argmax() == 2
---> ({"red", "green", "blue"})[heed.tensor{3, 9, 4}:argmax():item()] == "green"
---> heed.tensor{{3, 9}, {5, 1}}:argmax(2) == {2, 1}
---@param dim? integer|table
---@param keepdim? boolean|table false unless given
---@return heed.Tensor positions int64
function Tensor:argmax(dim, keepdim) end
heed.argmax = Tensor.argmax

---The position of the smallest element, the first of them; in the flat tensor without `dim`.
---> heed.tensor{3, 9, 4}:argmin() == 1
---@param dim? integer|table
---@param keepdim? boolean|table false unless given
---@return heed.Tensor positions int64
function Tensor:argmin(dim, keepdim) end
heed.argmin = Tensor.argmin

---log of the sum of e^x, without overflow.
---> heed.tensor{1000.0, 1000.0}:logsumexp(1) == 1000.6931
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@return heed.Tensor
function Tensor:logsumexp(dim, keepdim) end
heed.logsumexp = Tensor.logsumexp

---(sum of |x|^p)^(1 / p); `p` may be infinite, and "fro" (Frobenius's norm) is 2.
---> heed.tensor{3.0, 4.0}:norm() == 5
---> heed.tensor{3.0, -4.0}:norm(1) == 7
---> heed.tensor{3.0, -4.0}:norm(math.huge) == 4
---> heed.tensor{{3.0}, {-4.0}}:norm("fro") == 5
---@param p? number|"fro"|table 2 unless given
---@param dim? integer|integer[]|table
---@param keepdim? boolean
---@return heed.Tensor
function Tensor:norm(p, dim, keepdim) end
heed.norm = Tensor.norm

---The product.
---> heed.tensor{2, 3, 4}:prod() == 24
---@param dim? integer|table
---@param keepdim? boolean|table false unless given
---@param dtype? heed.dtype
---@return heed.Tensor
function Tensor:prod(dim, keepdim, dtype) end
heed.prod = Tensor.prod

---Running sums along a dimension; of integers and bools int64.
---> heed.tensor{1, 2, 3}:cumsum(1) == {1, 3, 6}
---> heed.zeros(2):cumsum(2) raises "cumsum"
---@param dim integer
---@param dtype? heed.dtype|table in which to compute
---@return heed.Tensor
function Tensor:cumsum(dim, dtype) end
Tensor.cumsum_, heed.cumsum, heed.cumsum_ = Tensor.cumsum, Tensor.cumsum, Tensor.cumsum

---Running products along a dimension; of integers and bools int64.
---> heed.tensor{1, 2, 3, 4}:cumprod(1) == {1, 2, 6, 24}
---> heed.tensor{{2, 3}, {4, 5}}:cumprod(2) == {{2, 6}, {4, 20}}
---> heed.zeros(2):cumprod(2) raises "cumprod"
---@param dim integer
---@param dtype? heed.dtype|table in which to compute
---@return heed.Tensor
function Tensor:cumprod(dim, dtype) end
Tensor.cumprod_, heed.cumprod, heed.cumprod_ = Tensor.cumprod, Tensor.cumprod, Tensor.cumprod

---Is any element true, or not 0? Without `dim` a Lua boolean.
---> heed.tensor{1, 5}:gt(4):any() == true
---> heed.tensor{{1, 5}, {1, 2}}:gt(4):any(2) == {true, false}
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@return boolean|heed.Tensor
function Tensor:any(dim, keepdim) end
heed.any = Tensor.any

---Are all elements true, or not 0? Without `dim` a Lua boolean.
---> heed.tensor{1, 5}:gt(4):all() == false
---@param dim? integer|integer[]|table
---@param keepdim? boolean|table false unless given
---@return boolean|heed.Tensor
function Tensor:all(dim, keepdim) end
heed.all = Tensor.all

---e^x / sum of e^x along a dimension, without overflow: what adds up to one. A row of -inf
---gives NaN.
---> heed.tensor{0.0, 0.6931}:softmax(1) == {0.3333, 0.6667}
---@param dim integer
---@param dtype? heed.dtype|table in which to compute
---@return heed.Tensor
function Tensor:softmax(dim, dtype) end
heed.softmax = Tensor.softmax

---The logarithm of softmax, without overflow.
---> heed.tensor{0.0, 0.0}:log_softmax(-1) == {-0.6931, -0.6931}
---@param dim integer
---@param dtype? heed.dtype|table in which to compute
---@return heed.Tensor
function Tensor:log_softmax(dim, dtype) end
heed.log_softmax = Tensor.log_softmax


-- Products ---------------------------------------------------------------

---The matrix product of the last two dimensions; those before broadcast. Vectors stand for a
---row on the left and a column on the right, and the result loses that dimension.
---> heed.tensor{{1, 2}, {3, 4}}:matmul(heed.tensor{{1, 0}, {0, 2}}) == {{1, 4}, {3, 8}}
---> heed.tensor{1, 2}:matmul(heed.tensor{3, 4}) == 11
---> heed.zeros(5, 2, 3):matmul(heed.zeros(3, 4)).shape == heed.zeros(5, 2, 4).shape == true
---> heed.zeros(2, 3):matmul(heed.zeros(2, 3)) raises "matmul"
---@param other heed.Tensor (…, K, N), self being (…, M, K)
---@return heed.Tensor product (…, M, N)
function Tensor:matmul(other) end
heed.matmul = Tensor.matmul

---The matrix products of two stacks of equal length.
---> heed.ones(2, 1, 3):bmm(heed.ones(2, 3, 1)) == {{{3}}, {{3}}}
---@param mat2 heed.Tensor (B, K, N), self being (B, M, K)
---@return heed.Tensor product (B, M, N)
function Tensor:bmm(mat2) end
heed.bmm = Tensor.bmm

---Products summed over the letters that the result lacks: Einstein's convention. A letter
---that is repeated in one term takes a diagonal; dots stand for dimensions that broadcast. There
---may be 64 tensors.
---> heed.einsum("ij,kj->ik", heed.tensor{{1, 2}}, heed.tensor{{3, 4}, {5, 6}}) == {{11, 17}}
---> heed.einsum("ii", heed.tensor{{1, 2}, {3, 4}}) == 5
---> heed.einsum("...i->...", heed.ones(2, 3)) == {3, 3}
---> heed.einsum("ij->ik", heed.ones(2, 3)) raises "einsum"
---> heed.einsum(("i,"):rep(64) .. "i->i", heed.ones(65, 1):unbind()) raises "64"
---@param equation string
---@param operands heed.Tensor|heed.Tensor[]
---@param ... heed.Tensor
---@return heed.Tensor
function heed.einsum(equation, operands, ...) end

---x W^T + b over the last dimension. Up to 24 rows of x are summed in another order than more.
---> heed.tensor{{1.0, 2.0}}:linear(heed.tensor{{3.0, 4.0}}, heed.tensor{0.5}) == {{11.5}}
---@param weight heed.Tensor (outputs, inputs)
---@param bias? heed.Tensor (outputs)
---@return heed.Tensor y (…, outputs), self being (…, inputs)
function Tensor:linear(weight, bias) end
heed.linear = Tensor.linear

---All products of two vectors' elements.
---> heed.tensor{1, 2}:outer(heed.tensor{3, 4}) == {{3, 4}, {6, 8}}
---@param vec2 heed.Tensor (N), self being (M)
---@return heed.Tensor product (M, N)
function Tensor:outer(vec2) end
heed.outer = Tensor.outer

---The sum of two vectors' products.
---> heed.tensor{1, 2}:dot(heed.tensor{3, 4}) == 11
---@param other heed.Tensor
---@return heed.Tensor
function Tensor:dot(other) end
heed.dot = Tensor.dot

---beta self + alpha mat1 mat2, of matrices; self broadcasts to the product, and counts nothing
---where beta is 0.
---> heed.ones(2):addmm(heed.ones(1, 3), heed.ones(3, 2), {beta = 0.5}) == {{3.5, 3.5}}
---> heed.ones(3):addmm(heed.ones(1, 3), heed.ones(3, 2)) raises "broadcasts to (1, 2)"
---@param mat1 heed.Tensor (M, K)
---@param mat2 heed.Tensor (K, N)
---@param beta? number|table 1 unless given
---@param alpha? number 1 unless given
---@return heed.Tensor (M, N)
function Tensor:addmm(mat1, mat2, beta, alpha) end
Tensor.addmm_, heed.addmm, heed.addmm_ = Tensor.addmm, Tensor.addmm, Tensor.addmm

---beta self + alpha batch1 batch2, of batches of matrices, as `addmm`.
---> heed.zeros(1):baddbmm(heed.ones(1, 1, 3), heed.ones(1, 3, 1), {alpha = 2}) == {{{6}}}
---@param batch1 heed.Tensor (B, M, K)
---@param batch2 heed.Tensor (B, K, N)
---@param beta? number|table 1 unless given
---@param alpha? number 1 unless given
---@return heed.Tensor (B, M, N)
function Tensor:baddbmm(batch1, batch2, beta, alpha) end
Tensor.baddbmm_, heed.baddbmm, heed.baddbmm_ = Tensor.baddbmm, Tensor.baddbmm, Tensor.baddbmm

---The sum of a matrix's diagonal.
---> heed.tensor{{1, 2}, {3, 4}}:trace() == 5
---@return heed.Tensor
function Tensor:trace() end
heed.trace = Tensor.trace


-- Views: they share the memory -------------------------------------------

---Another shape for the same elements in the same order; -1 stands for what remains. Raises
---where that needs a copy.
---> heed.arange(4):view(2, -1) == {{1, 2}, {3, 4}}
---> heed.zeros(2, 3):t():view(6) raises "view"
---@param size heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:view(size, ...) end
heed.view = Tensor.view

---As view, but copies where it must.
---> heed.arange(4):reshape(2, 2):t():reshape(4) == {1, 3, 2, 4}
---> heed.zeros(4):reshape(3, -1) raises "reshape"
---@param shape heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:reshape(shape, ...) end
heed.reshape = Tensor.reshape

---Two dimensions exchanged.
---> heed.tensor{{1, 2}, {3, 4}}:transpose(1, 2) == {{1, 3}, {2, 4}}
---@param dim0 integer
---@param dim1 integer
---@return heed.Tensor
function Tensor:transpose(dim0, dim1) end
heed.transpose = Tensor.transpose

---The transposed matrix; a vector stays as it is.
---> heed.tensor{{1, 2}}:t() == {{1}, {2}}
---@return heed.Tensor
function Tensor:t() end
heed.t = Tensor.t

---The dimensions in another order.
---> heed.zeros(2, 3, 4):permute(3, 1, 2).shape == heed.zeros(4, 2, 3).shape == true
---@param dims heed.sizes all of them
---@param ... integer
---@return heed.Tensor
function Tensor:permute(dims, ...) end
heed.permute = Tensor.permute

---Some dimensions at other places; the others keep their order.
---> heed.zeros(2, 3, 4):movedim(1, -1).shape[3] == 2
---> heed.zeros(2, 3, 4):movedim({1, 2}, {2, 3}).shape[1] == 4
---> heed.zeros(2, 3):movedim({1, 2}, 1) raises "2 dimensions expected, as many as in 'source'"
---@param source integer|integer[]
---@param destination integer|integer[]
---@return heed.Tensor
function Tensor:movedim(source, destination, ...) end
heed.movedim = Tensor.movedim

---Repeats dimensions of size 1, and new ones in front, without a copy; -1 keeps a size.
---> heed.tensor{{1}, {2}}:expand(-1, 2) == {{1, 1}, {2, 2}}
---@param size heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:expand(size, ...) end
heed.expand = Tensor.expand

---`expand` to another tensor's shape.
---> heed.tensor{{1}, {2}}:expand_as(heed.zeros(2, 2)) == {{1, 1}, {2, 2}}
---@param other heed.Tensor
---@return heed.Tensor
function Tensor:expand_as(other) end
heed.expand_as = Tensor.expand_as

---`expand` by NumPy's name.
---> heed.tensor{1, 2}:broadcast_to(2, 2) == {{1, 2}, {1, 2}}
---@param size heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:broadcast_to(size, ...) end
heed.broadcast_to = Tensor.broadcast_to

---One position along a dimension, without that dimension. `select(1, i)` of a vector is
---0-dimensional, and gradients pass.
---> heed.tensor{{1, 2}, {3, 4}}:select(2, 1) == {1, 3}
---> heed.zeros(2):select(1, 3) raises "select"
---@param dim integer
---@param index integer
---@return heed.Tensor
function Tensor:select(dim, index) end
heed.select = Tensor.select

---From one position to another, both included.
---> heed.arange(6):slice(1, 2, -1, 2) == {2, 4, 6}
---@param dim integer
---@param start? integer 1 unless given
---@param stop? integer -1 unless given
---@param step? integer 1 unless given
---@return heed.Tensor
function Tensor:slice(dim, start, stop, step) end
heed.slice = Tensor.slice

---`length` positions from `start` on.
---> heed.arange(6):narrow(1, 2, 3) == {2, 3, 4}
---@param dim integer
---@param start integer
---@param length integer
---@return heed.Tensor
function Tensor:narrow(dim, start, length) end
heed.narrow = Tensor.narrow

---Without its dimensions of size 1, or without those that are named.
---> heed.zeros(1, 2, 1):squeeze().shape == heed.zeros(2).shape == true
---@param dim? integer|integer[]|table
---@return heed.Tensor
function Tensor:squeeze(dim, ...) end
heed.squeeze = Tensor.squeeze

---With a new dimension of size 1 at this position.
---> heed.tensor{1, 2}:unsqueeze(2) == {{1}, {2}}
---> heed.tensor{1, 2}:unsqueeze(-1) == {{1}, {2}}
---@param dim integer
---@return heed.Tensor
function Tensor:unsqueeze(dim) end
heed.unsqueeze = Tensor.unsqueeze

---Several dimensions become one.
---> heed.zeros(2, 3, 4):flatten(2).shape == heed.zeros(2, 12).shape == true
---@param start_dim? integer|table 1 unless given
---@param end_dim? integer -1 unless given
---@return heed.Tensor
function Tensor:flatten(start_dim, end_dim) end
heed.flatten = Tensor.flatten

---One dimension as several, whose sizes multiply to its own; one of them may be -1.
---> heed.zeros(2, 6):unflatten(2, 3, -1).shape == heed.zeros(2, 3, 2).shape == true
---> heed.zeros(2, 6):unflatten(2, {4, 2}) raises "6 elements do not fill the shape (4, 2)"
---@param dim integer
---@param sizes heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:unflatten(dim, sizes, ...) end
heed.unflatten = Tensor.unflatten

---Windows along a dimension, as a new last one.
---> heed.arange(4):unfold(1, 2, 1) == {{1, 2}, {2, 3}, {3, 4}}
---@param dimension integer
---@param size integer
---@param step integer
---@return heed.Tensor
function Tensor:unfold(dimension, size, step) end
heed.unfold = Tensor.unfold

---The diagonal of two dimensions, as the last one.
---> heed.tensor{{1, 2}, {3, 4}}:diagonal() == {1, 4}
---> heed.tensor{{1, 2}, {3, 4}}:diagonal(1) == {2}
---@param offset? integer|table above the diagonal; 0 unless given
---@param dim1? integer 1 unless given
---@param dim2? integer 2 unless given
---@return heed.Tensor
function Tensor:diagonal(offset, dim1, dim2) end
heed.diagonal = Tensor.diagonal

---Parts of `size` elements along a dimension (the last may be shorter), or of listed sizes.
---> #heed.arange(5):split(2) == 3
---> heed.arange(5):split({4, 1})[2] == {5}
---@param size integer|integer[]
---@param dim? integer 1 unless given
---@return heed.Tensor[]
function Tensor:split(size, dim) end
heed.split = Tensor.split

---At most `n` parts of equal size along a dimension; the last may be shorter. Of nothing, `n`.
---> heed.arange(5):chunk(2)[1] == {1, 2, 3}
---> #heed.zeros(0):chunk(3) == 3
---@param n integer
---@param dim? integer 1 unless given
---@return heed.Tensor[]
function Tensor:chunk(n, dim) end
heed.chunk = Tensor.chunk

---The slices along a dimension, without it.
---> heed.tensor{{1, 2}, {3, 4}}:unbind(2)[1] == {1, 3}
---@param dim? integer 1 unless given
---@return heed.Tensor[]
function Tensor:unbind(dim) end
heed.unbind = Tensor.unbind


-- Joining and rearranging: copies ----------------------------------------

---Tensors one behind the other along a dimension.
---> heed.cat({heed.tensor{1, 2}, heed.tensor{3}}, 1) == {1, 2, 3}
---> heed.cat(heed.tensor{1, 2}, heed.tensor{3}, 1) == {1, 2, 3}
---> heed.cat({heed.zeros(2, 2), heed.zeros(2, 3)}, 1) raises "cat"
---@param tensors heed.Tensor[] or the tensors themselves, one after the other
---@param dim? integer|table 1 unless given
---@return heed.Tensor
function heed.cat(tensors, dim) end

---`cat` of at most 64 tensors, in one pass.
---> heed.join({heed.tensor{1, 2}, heed.tensor{3}}, 1) == {1, 2, 3}
---@param tensors heed.Tensor[]
---@param dim? integer|table 1 unless given
---@return heed.Tensor
function heed.join(tensors, dim) end

---Tensors of one shape side by side, along a new dimension.
---> heed.stack({heed.tensor{1, 2}, heed.tensor{3, 4}}, 2) == {{1, 3}, {2, 4}}
---> heed.stack(heed.tensor{1, 2}, heed.tensor{3, 4}) == {{1, 2}, {3, 4}}
---@param tensors heed.Tensor[] or the tensors themselves, one after the other
---@param dim? integer|table 1 unless given
---@return heed.Tensor
function heed.stack(tensors, dim) end

---0 above a diagonal.
---> heed.ones(2, 2):tril() == {{1, 0}, {1, 1}}
---> heed.ones(2, 2):tril(-1) == {{0, 0}, {1, 0}}
---@param diagonal? integer|table 0 unless given; 0 is the main one, 1 the one above it
---@return heed.Tensor
function Tensor:tril(diagonal) end
Tensor.tril_, heed.tril, heed.tril_ = Tensor.tril, Tensor.tril, Tensor.tril

---0 below a diagonal.
---> heed.ones(2, 2):triu() == {{1, 1}, {0, 1}}
---@param diagonal? integer|table 0 unless given; 0 is the main one, 1 the one above it
---@return heed.Tensor
function Tensor:triu(diagonal) end
Tensor.triu_, heed.triu, heed.triu_ = Tensor.triu, Tensor.triu, Tensor.triu

---A vector as the diagonal of a matrix of zeros; of a matrix a copy of its diagonal.
---> heed.tensor{1, 2}:diag() == {{1, 0}, {0, 2}}
---> heed.tensor{1}:diag(1) == {{0, 1}, {0, 0}}
---> heed.tensor{{1, 2}, {3, 4}}:diag() == {1, 4}
---@param diagonal? integer|table 0 unless given; above the main one; below it where negative
---@return heed.Tensor
function Tensor:diag(diagonal) end
heed.diag = Tensor.diag

---The last dimension along the diagonals of matrices of zeros; `diagonal` is the reverse.
---> heed.ones(2, 3):diag_embed().shape == heed.zeros(2, 3, 3).shape == true
---@param offset? integer|table 0 unless given; above the main diagonal; below it where negative
---@param dim1? integer of the result, -2 unless given
---@param dim2? integer of the result, -1 unless given
---@return heed.Tensor
function Tensor:diag_embed(offset, dim1, dim2) end
heed.diag_embed = Tensor.diag_embed

---Shifts elements along dimensions; elements that leave at one end come in at the other.
---> heed.arange(4):roll(1) == {4, 1, 2, 3}
---@param shifts heed.sizes
---@param dims? integer|integer[]|table without it the tensor rolls as one row
---@return heed.Tensor
function Tensor:roll(shifts, dims, ...) end
heed.roll = Tensor.roll

---The elements in reverse order along dimensions.
---> heed.arange(3):flip(1) == {3, 2, 1}
---@param dims heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:flip(dims, ...) end
heed.flip = Tensor.flip

---Each element so many times; a tensor has a number for each.
---> heed.tensor{1, 2}:repeat_interleave(2) == {1, 1, 2, 2}
---> heed.tensor{5, 6, 7}:repeat_interleave(heed.tensor{2, 0, 1}) == {5, 5, 7}
---@param repeats integer|heed.Tensor
---@param dim? integer|table without it the tensor is one row
---@return heed.Tensor
function Tensor:repeat_interleave(repeats, dim) end
heed.repeat_interleave = Tensor.repeat_interleave

---The tensor so many times along each of the last dimensions.
---> heed.tensor{1, 2}:tile(2) == {1, 2, 1, 2}
---@param dims heed.sizes
---@param ... integer
---@return heed.Tensor
function Tensor:tile(dims, ...) end
heed.tile = Tensor.tile

---Adds elements at the ends: before and after the last dimension, then the one before it.
---Negative numbers remove elements. The mode says which: one value, those that lie mirrored beyond
---the edge (which stands once), the edge itself, or those of the other end.
---
---`heed.pad` of a list of lists of ids makes one tensor of them, with padding of `value` (1), on a
---`side`, up to a `length`, and gives their lengths too.
---> heed.tensor{1, 2}:pad({1, 2}) == {0, 1, 2, 0, 0}
---> heed.tensor{1, 2}:pad({0, 1}, {value = 9}) == {1, 2, 9}
---> heed.tensor{1, 2, 3}:pad({2, 1}, "reflect") == {3, 2, 1, 2, 3, 2}
---> heed.tensor{1, 2, 3}:pad({2, 1}, "replicate") == {1, 1, 1, 2, 3, 3}
---> heed.tensor{1, 2, 3}:pad({2, 1}, "circular") == {2, 3, 1, 2, 3, 1}
---> heed.tensor{1, 2}:pad({2, 0}, "reflect") raises "at most 1 elements to pad with"
---> heed.pad({{5, 6, 7}, {8}}) == {{5, 6, 7}, {8, 1, 1}}, {3, 1}
---> heed.pad({{5, 6}, {8}}, {value = -100, side = "left"}) == {{5, 6}, {-100, 8}}
---@param pad integer[]
---@param mode? "constant"|"reflect"|"replicate"|"circular"|table
---@param value? number with "constant": 0 unless given
---@return heed.Tensor
function Tensor:pad(pad, mode, value) end
heed.pad = Tensor.pad

---`pad` with a value: what it is made of.
---> heed.tensor{1, 2}:constant_pad_nd({1, 0}, 5) == {5, 1, 2}
---@param pad integer[]
---@param value? number 0 unless given
---@return heed.Tensor
function Tensor:constant_pad_nd(pad, value) end
heed.constant_pad_nd = Tensor.constant_pad_nd


-- Indexing ---------------------------------------------------------------

---The elements at listed positions along a dimension: y[i][j] = x[index[i][j] ][j] for `dim` 1.
---> heed.tensor{{1, 2}, {3, 4}}:gather(2, heed.tensor{{2}, {1}}) == {{2}, {3}}
---> heed.tensor{1, 2}:gather(1, heed.tensor{0}) raises "gather"
---@param dim integer
---@param index heed.Tensor int64, of self's rank
---@return heed.Tensor of index's shape
function Tensor:gather(dim, index) end
heed.gather = Tensor.gather

---A copy with `src` at listed positions; where two meet, one of them stays.
---> heed.zeros(3):scatter(1, heed.tensor{3, 1}, heed.tensor{7.0, 8.0}) == {8, 0, 7}
---@param dim integer
---@param index heed.Tensor int64, of self's rank
---@param src heed.operand of index's shape, or a number
---@return heed.Tensor
function Tensor:scatter(dim, index, src) end
Tensor.scatter_, heed.scatter, heed.scatter_ = Tensor.scatter, Tensor.scatter, Tensor.scatter

---A copy with `src` added at listed positions.
---> heed.zeros(3):scatter_add(1, heed.tensor{1, 1}, heed.tensor{7.0, 8.0}) == {15, 0, 0}
---@param dim integer
---@param index heed.Tensor int64, of self's rank
---@param src heed.Tensor of index's shape
---@return heed.Tensor
function Tensor:scatter_add(dim, index, src) end
Tensor.scatter_add_ = Tensor.scatter_add
heed.scatter_add, heed.scatter_add_ = Tensor.scatter_add, Tensor.scatter_add

---Indexes as x[{…}] with tensors: one entry for each dimension, int64 or bool, false for all.
---> heed.tensor{{1, 2}, {3, 4}}:take{false, heed.tensor{2}} == {{2}, {4}}
---@param indices (heed.Tensor|false)[]
---@return heed.Tensor
function Tensor:take(indices, ...) end
heed.take = Tensor.take

---A copy with values where `take` takes from; or with the values added.
---> heed.zeros(3):put({heed.tensor{1, 3}}, 5) == {5, 0, 5}
---@param indices (heed.Tensor|false)[]
---@param values heed.operand
---@param accumulate? boolean|table false unless given
---@return heed.Tensor
function Tensor:put(indices, values, accumulate) end
Tensor.put_, heed.put, heed.put_ = Tensor.put, Tensor.put, Tensor.put

---The slices at listed positions.
---> heed.tensor{{1, 2}, {3, 4}}:index_select(2, heed.tensor{2, 2}) == {{2, 2}, {4, 4}}
---@param dim integer
---@param index heed.Tensor int64 (N)
---@return heed.Tensor
function Tensor:index_select(dim, index) end
heed.index_select = Tensor.index_select

---self with alpha times the slices of `source` added at these positions of a dimension; positions
---that stand twice get both.
---> heed.zeros(3):index_add(1, heed.tensor{1, 3, 1}, heed.tensor{1.0, 2.0, 4.0}) == {5, 0, 2}
---> heed.zeros(2):index_add(1, heed.tensor{1}, heed.ones(2)) raises "a shape of (1) expected"
---@param dim integer
---@param index heed.Tensor int64, a vector
---@param source heed.Tensor
---@param alpha? number|table 1 unless given
---@return heed.Tensor
function Tensor:index_add(dim, index, source, alpha) end
Tensor.index_add_ = Tensor.index_add
heed.index_add, heed.index_add_ = Tensor.index_add, Tensor.index_add

---As `gather`, but self and the positions broadcast beside the dimension; without one both are
---taken as one row. The indices may be those of `argmax` (with keepdim) and `argsort`.
---> heed.tensor{{5, 6}, {7, 8}}:take_along_dim(heed.tensor{{2}, {1}}, 2) == {{6}, {7}}
---> heed.tensor{{5, 6}, {7, 8}}:take_along_dim(heed.tensor{4}) == {8}
---@param indices heed.Tensor int64
---@param dim? integer|table
---@return heed.Tensor
function Tensor:take_along_dim(indices, dim) end
heed.take_along_dim = Tensor.take_along_dim

---One value wherever the mask is true.
---> heed.tensor{1, 2}:masked_fill(heed.tensor{true, false}, 9) == {9, 2}
---@param mask heed.Tensor bool, broadcasts
---@param value heed.operand
---@return heed.Tensor
function Tensor:masked_fill(mask, value) end
Tensor.masked_fill_ = Tensor.masked_fill
heed.masked_fill, heed.masked_fill_ = Tensor.masked_fill, Tensor.masked_fill

---A vector of what stands where the mask is true.
---> heed.tensor{1, 2, 3}:masked_select(heed.tensor{true, false, true}) == {1, 3}
---@param mask heed.Tensor bool
---@return heed.Tensor
function Tensor:masked_select(mask) end
heed.masked_select = Tensor.masked_select

---A row of the weight for each id.
---> heed.tensor{2, 1}:embedding(heed.tensor{{1.0}, {2.0}}) == {{2}, {1}}
---> heed.tensor{0}:embedding(heed.tensor{{1.0}, {2.0}}) raises "embedding"
---@param weight heed.Tensor (V, D)
---@param padding_idx? integer|table an id whose row gets no gradient
---@return heed.Tensor rows (…, D), self being int64 (…)
function Tensor:embedding(weight, padding_idx) end
heed.embedding = Tensor.embedding

---1 at the position of each id, 0 elsewhere, as int64.
---> heed.tensor{2, 1}:one_hot(3) == {{0, 1, 0}, {1, 0, 0}}
---@param num_classes? integer|table -1 unless given: as many as the largest id
---@return heed.Tensor (…, num_classes)
function Tensor:one_hot(num_classes) end
heed.one_hot = Tensor.one_hot

---The positions of what is true, or not 0, one in a row.
---> heed.tensor{{1, 0}, {0, 1}}:nonzero() == {{1, 1}, {2, 2}}
---@return heed.Tensor positions int64 (N, rank)
function Tensor:nonzero() end
heed.nonzero = Tensor.nonzero

---The different elements, sorted; with `dim` its different slices, sorted as words are. Then, where
---asked for: which of them each element (or slice) is, and how often each one stands. Of elements
---that are equal the first gets the gradient.
---> heed.tensor{3, 1, 3}:unique() == {1, 3}
---> heed.tensor{3, 1, 3}:unique{return_inverse = true} == {1, 3}, {2, 1, 2}
---> heed.tensor{3, 1, 3}:unique{return_counts = true} == {1, 3}, {1, 2}
---> heed.tensor{{2, 0}, {1, 5}, {2, 0}}:unique{dim = 1} == {{1, 5}, {2, 0}}
---@param sorted? boolean|table they are in any case
---@param return_inverse? boolean
---@param return_counts? boolean
---@param dim? integer
---@return heed.Tensor values
---@return heed.Tensor ... int64
function Tensor:unique(sorted, return_inverse, return_counts, dim) end
heed.unique = Tensor.unique

---How often each id stands in a vector, or the sum of its weights: of 1 up to the largest, or up to
---`minlength`.
---> heed.tensor{1, 3, 3}:bincount() == {1, 0, 2}
---> heed.tensor{1, 1}:bincount{weights = heed.tensor{0.5, 1}, minlength = 3} == {1.5, 0, 0}
---> heed.tensor{0}:bincount() raises "ids count from 1, got 0"
---@param weights? heed.Tensor|table one for each id; not floats become float64
---@param minlength? integer
---@return heed.Tensor int64, or the weights' type
function Tensor:bincount(weights, minlength) end
heed.bincount = Tensor.bincount

---In rising order along a dimension, and where each element stood. Equal ones keep their order.
---NaN counts as the largest.
---> heed.tensor{3, 1, 2}:sort() == {1, 2, 3}, {2, 3, 1}
---> heed.tensor{3, 1, 2}:sort{descending = true} == {3, 2, 1}
---@param dim? integer|table -1 unless given
---@param descending? boolean false unless given
---@param stable? boolean true unless given
---@return heed.Tensor values
---@return heed.Tensor positions int64
function Tensor:sort(dim, descending, stable) end
heed.sort = Tensor.sort

---The positions that `sort` gives.
---> heed.tensor{3, 1, 2}:argsort() == {2, 3, 1}
---@param dim? integer|table -1 unless given
---@param descending? boolean false unless given
---@param stable? boolean true unless given
---@return heed.Tensor positions int64
function Tensor:argsort(dim, descending, stable) end
heed.argsort = Tensor.argsort

---The k largest elements along a dimension, or the smallest, and their positions.
---> heed.tensor{3, 1, 2}:topk(2) == {3, 2}, {1, 3}
---@param k integer
---@param dim? integer|table -1 unless given
---@param largest? boolean true unless given
---@param sorted? boolean true unless given
---@return heed.Tensor values
---@return heed.Tensor positions int64
function Tensor:topk(k, dim, largest, sorted) end
heed.topk = Tensor.topk


-- Norms and dropout ------------------------------------------------------

---(x - mean) / sqrt(variance + eps) over the last dimensions, then a scale and a shift. J. L. Ba
---et al. (2016), "Layer normalization", section 3.
---> heed.tensor{1.0, 3.0}:layer_norm({2}) == {-1, 1}
---@param shape heed.sizes the last dimensions
---@param weight? heed.Tensor of that shape
---@param bias? heed.Tensor of that shape
---@param eps? number|table 1e-5 unless given
---@return heed.Tensor
function Tensor:layer_norm(shape, weight, bias, eps) end
heed.layer_norm = Tensor.layer_norm

---x / sqrt(mean of x^2 + eps) over the last dimensions, then a scale. B. Zhang and R. Sennrich
---(2019), "Root mean square layer normalization", section 4.
---> heed.tensor{3.0, 4.0}:rms_norm({2}) == {0.8485, 1.1314}
---@param shape heed.sizes the last dimensions
---@param weight? heed.Tensor of that shape
---@param eps? number|table the type's precision unless given
---@return heed.Tensor
function Tensor:rms_norm(shape, weight, eps) end
heed.rms_norm = Tensor.rms_norm

---Vectors along a dimension divided by their norm, which is at least eps.
---> heed.tensor{{3.0, 4.0}, {0.0, 0.0}}:normalize() == {{0.6, 0.8}, {0, 0}}
---> heed.tensor{3.0, -1.0}:normalize(1, 1) == {0.75, -0.25}
---@param p? number|table 2 unless given
---@param dim? integer 2 unless given
---@param eps? number 1e-12 unless given
---@return heed.Tensor
function Tensor:normalize(p, dim, eps) end
heed.normalize = Tensor.normalize

---The cosine of the angle between vectors along a dimension, whose norms are at least eps; both
---broadcast.
---> heed.tensor{{1.0, 0.0}, {1.0, 1.0}}:cosine_similarity(heed.tensor{{1.0, 1.0}}) == {0.7071, 1}
---@param x2 heed.Tensor
---@param dim? integer|table 2 unless given
---@param eps? number 1e-8 unless given
---@return heed.Tensor
function Tensor:cosine_similarity(x2, dim, eps) end
heed.cosine_similarity = Tensor.cosine_similarity

---0 with probability p, else x / (1 - p). N. Srivastava et al. (2014), "Dropout".
---> heed.ones(3):dropout(0.5, false) == {1, 1, 1}
---> heed.ones(3):dropout(2) raises "dropout"
---@param p? number|table 0.5 unless given
---@param training? boolean|table true unless given; false leaves x as it is
---@return heed.Tensor
function Tensor:dropout(p, training) end
heed.dropout = Tensor.dropout


-- Losses -----------------------------------------------------------------
-- `reduction` is "mean" unless given, "sum", or "none" for a loss of each element.

---@alias heed.reduction "mean"|"sum"|"none"

---Minus log softmax(x) at each label, which count from 1; or the cross entropy with given shares.
---The classes are dimension 2 (or the only one), or `dim`: -1 where logits (B, T, V) have labels
---(B, T).
---> heed.cross_entropy(heed.tensor{{0.0, 0.0}}, heed.tensor{2}) == 0.6931
---> heed.cross_entropy(heed.zeros(2, 3, 2), heed.ones(2, 3):long(), {dim = -1}) == 0.6931
---> heed.cross_entropy(heed.tensor{{0.0, 0.0}}, heed.tensor{0}) raises "cross_entropy"
---@param target heed.Tensor labels (N, …), or shares (N, C, …); self is (N, C, …) or (C)
---@param weight? heed.Tensor (C) of each class
---@param ignore_index? integer|table a label that counts for nothing; -100 unless given
---@param reduction? heed.reduction "mean" unless given; the mean is by the labels' weights
---@param label_smoothing? number a share that is spread over all classes; 0 unless given
---@param dim? integer where the classes are
---@return heed.Tensor
function Tensor:cross_entropy(target, weight, ignore_index, reduction, label_smoothing, dim) end
heed.cross_entropy = Tensor.cross_entropy

---cross_entropy of what is a logarithm of probabilities already.
---> heed.nll_loss(heed.tensor{{-1.0, -2.0}}, heed.tensor{2}) == 2
---@param target heed.Tensor labels, int64 (N, …); self is (N, C, …)
---@param weight? heed.Tensor (C) of each class
---@param ignore_index? integer|table -100 unless given
---@param reduction? heed.reduction "mean" unless given
---@return heed.Tensor
function Tensor:nll_loss(target, weight, ignore_index, reduction) end
heed.nll_loss = Tensor.nll_loss

---The cross entropy of probabilities with targets from 0 to 1; logarithms stop at -100.
---Values beyond 0 to 1 raise on the CPU; on a GPU this is not checked.
---> heed.binary_cross_entropy(heed.tensor{0.5, 1.0}, heed.tensor{1.0, 1.0}) == 0.3466
---@param target heed.Tensor of self's shape
---@param weight? heed.Tensor|table of each element, broadcasts
---@param reduction? heed.reduction "mean" unless given
---@return heed.Tensor
function Tensor:binary_cross_entropy(target, weight, reduction) end
heed.binary_cross_entropy = Tensor.binary_cross_entropy

---binary_cross_entropy of sigmoid(x), without overflow.
---> heed.bce_with_logits(heed.tensor{0.0}, heed.tensor{1.0}) == 0.6931
---@param target heed.Tensor of self's shape
---@param weight? heed.Tensor|table of each element, broadcasts
---@param reduction? heed.reduction "mean" unless given
---@param pos_weight? heed.Tensor of what is true
---@return heed.Tensor
function Tensor:bce_with_logits(target, weight, reduction, pos_weight) end
heed.bce_with_logits = Tensor.bce_with_logits

---(x - y)^2 of tensors of one shape, or of a tensor and a number; a mean with weights is by their
---sum.
---> heed.mse_loss(heed.tensor{1.0, 2.0}, heed.tensor{1.0, 4.0}) == 2
---> heed.mse_loss(heed.tensor{1.0, 2.0}, 4.0, {weight = heed.tensor{1, 3}}) == 5.25
---@param target heed.operand
---@param reduction? heed.reduction|table "mean" unless given
---@param weight? heed.Tensor of each element, in self's shape
---@return heed.Tensor
function Tensor:mse_loss(target, reduction, weight) end
heed.mse_loss = Tensor.mse_loss

---|x - y|, with shapes and weights as mse_loss.
---> heed.l1_loss(heed.tensor{1.0, 2.0}, heed.tensor{1.0, 4.0}) == 1
---@param target heed.operand
---@param reduction? heed.reduction|table "mean" unless given
---@param weight? heed.Tensor of each element, in self's shape
---@return heed.Tensor
function Tensor:l1_loss(target, reduction, weight) end
heed.l1_loss = Tensor.l1_loss

---(x - y)^2 / (2 beta) where |x - y| is below beta, else |x - y| - beta / 2; shapes as in mse_loss.
---> heed.smooth_l1_loss(heed.tensor{1.5, 2.0}, heed.tensor{1.0, 4.0}, "none") == {0.125, 1.5}
---@param target heed.Tensor
---@param reduction? heed.reduction|table "mean" unless given
---@param beta? number 1 unless given
---@return heed.Tensor
function Tensor:smooth_l1_loss(target, reduction, beta) end
heed.smooth_l1_loss = Tensor.smooth_l1_loss

---d^2 / 2 where the distance d is below delta, delta (d - delta / 2) beyond (Huber, 1964).
---> heed.huber_loss(heed.tensor{0.0, 3.0}, heed.tensor{1.0, 0.0}, "none", 2) == {0.5, 4}
---@param target heed.operand
---@param reduction? "mean"|"sum"|"none"|table "mean" unless given
---@param delta? number 1 unless given
---@param weight? heed.Tensor for each element; a mean is then by the sum of weights
---@return heed.Tensor
function Tensor:huber_loss(target, reduction, delta, weight) end
heed.huber_loss = Tensor.huber_loss

---y (log y - x): Kullback and Leibler's divergence, x being a logarithm of probabilities, of y's
---shape.
---> heed.kl_div(heed.tensor{-0.6931}, heed.tensor{1.0}, "sum") == 0.6931
---@param target heed.Tensor probabilities, or their logarithms
---@param reduction? heed.reduction|"batchmean"|table "mean" unless given;
---"batchmean" divides by the first size
---@param log_target? boolean false unless given; whether the target is a logarithm too
---@return heed.Tensor
function Tensor:kl_div(target, reduction, log_target) end
heed.kl_div = Tensor.kl_div


-- Attention --------------------------------------------------------------

---@class heed.attention.options
---@field mask? heed.Mask|heed.Tensor who may attend: a mask of heed.mask; or bools, which broadcast
---against (B, H, T, S), true where a query may attend
---@field bias? heed.Bias|heed.Tensor what is added to the scores: a bias of heed.bias; or floats,
---which broadcast likewise; may be trained
---@field sink? heed.Tensor (H): one more logit in the denominator of each head's softmax; trained
---@field lengths? heed.Tensor int64 (B): how many keys there are in each sequence, 0 to S; others
---raise on the CPU; on a GPU this is not checked: there they mean 0, or S
---@field causal? boolean no key behind the query's position
---@field offset? integer the first query's position less the first key's; S - T unless given
---@field scale? number of the scores; 1 / sqrt(D) unless given
---@field softcap? number c: scores become c tanh(score / c)
---@field dropout? number share of weights that are dropped; 0 unless given
---@field weights? boolean whether the weights come back too
---@field lse? boolean whether each query's logsumexp of scores comes back too
---@field fused? boolean false composes it from other operations, for comparison
---@field relative? heed.Tensor (H, T + S - 1), added to the scores: element i - j + S to that of
---query i and key j, all from 1; what heed.bias makes of biases that depend on the distance
---@field rule? integer[] who may attend, in words of src/op/masks.def; what heed.mask makes
---@field operands? heed.Tensor[] the tensors of the rule

---softmax(q k^T scale + bias) v over the keys that each query may attend to. A. Vaswani et al.
---(2017), "Attention is all you need", section 3.2.1; computed tile by tile, with memory linear
---in T and S, after T. Dao et al. (2022), "FlashAttention".
---
---Without B and H: (T, D), and (B, T, D) for one head; results and masks drop the same
---dimensions. `mask`, `lengths` and `causal` hold together. A query that may attend to nothing
---gives 0, also beside a sink. Query i stands at key position i + S - T, so that the last query
---sees all keys.
---> heed.attention(heed.zeros(1, 2), heed.zeros(2, 2), heed.tensor{{1.0}, {3.0}}) == {{2}}
---> heed.attention(heed.zeros(2, 1), heed.zeros(2, 1), heed.eye(2), {causal = true})[1] == {1, 0}
---> heed.attention(heed.zeros(2, 1), heed.zeros(2, 1), heed.eye(2),
--->   {mask = ~heed.mask.causal() | heed.mask.prefix(1)}) == {{0.5, 0.5}, {1, 0}}
---> heed.attention(heed.zeros(1, 1), heed.zeros(1, 1), heed.ones(1, 1), {sink = heed.zeros(1)})
--->   == {{0.5}}
---> heed.attention(heed.zeros(2, 3), heed.zeros(2, 4), heed.zeros(2, 3)) raises "attention"
---@param key heed.Tensor (B, Hk, S, D), Hk dividing H; self, the query, is (B, H, T, D)
---@param value heed.Tensor (B, Hk, S, Dv)
---@param options? heed.attention.options
---@return heed.Tensor output (B, H, T, Dv)
---@return heed.Tensor? weights (B, H, T, S), with the option weights
---@return heed.Tensor? lse (B, H, T), with the option lse
function Tensor:attention(key, value, options) end
heed.attention = Tensor.attention

---Pairs (a, b) of columns, each rotated by an angle: (a cos - b sin, b cos + a sin). J. Su et al.
---(2021), "RoFormer: enhanced transformer with rotary position embedding", section 3.4.2. Pair i is
---columns i and P + i, as in Llama, or, interleaved, columns 2 i - 1 and 2 i; columns behind the P
---pairs stay as they are. `heed.position.rope` makes the angles of positions. 16-bit types are
---computed in float32; the result has x's type.
---> heed.tensor{3.0, 4.0}:rotate_pairs(heed.tensor{0.0}, heed.tensor{1.0}) == {-4, 3}
---> heed.tensor{1.0, 2.0, 3.0, 4.0}:rotate_pairs(heed.tensor{0.0, 1.0}, heed.tensor{1.0, 0.0})
--->   == {-3, 2, 1, 4}
---> heed.tensor{1.0, 2.0, 3.0, 4.0}:rotate_pairs(heed.tensor{0.0, 1.0}, heed.tensor{1.0, 0.0},
--->   true) == {-2, 1, 3, 4}
---> heed.tensor{1.0, 2.0}:rotate_pairs(heed.zeros(2), heed.zeros(2)) raises "from 1 to 1"
---@param cos heed.Tensor (..., P), which broadcasts to the shape (..., D) of this tensor but for D
---@param sin heed.Tensor of cos's shape
---@param interleaved? boolean false unless given
---@return heed.Tensor (..., D)
function Tensor:rotate_pairs(cos, sin, interleaved) end
heed.rotate_pairs = Tensor.rotate_pairs


-- Gradients --------------------------------------------------------------

---Adds the gradients of this tensor to those of all leaves that require one, and frees the graph
---that it went through. If it fails, gradients are as before; the graph is freed all the same. A
---backward within a `backward` of `custom` adds its gradients when the outer one ends, not before.
---> (function(x) x:square():sum():backward() return x.grad end)(
--->   heed.tensor({1.0, 2.0}, {requires_grad = true})) == {2, 4}
---> heed.zeros(2):backward() raises "backward"
---@param gradient? heed.Tensor|{retain_graph: boolean} of this tensor; 1 for a single element
---@param options? {retain_graph: boolean} true keeps the graph
function Tensor:backward(gradient, options) end
heed.backward = Tensor.backward

---The gradients of y by some tensors; leaves stay as they are. A gradient may be expanded, or
---share memory with `gradient` or another one: clone() it before it is changed in place. With
---create_graph the gradients have graphs themselves, for gradients of second and any higher order:
---of all operations but `attention`, and of `prod` and `cumprod` where no element is 0; they are
---refused by name. What hooks and the `backward` of `custom` compute is recorded then.
---> (function(x) return heed.grad(heed.grad(x ^ 4, x, {create_graph = true}), x) end)(
--->   heed.tensor(2.0, {requires_grad = true})) == 48
---> (function(x) return heed.grad(x ^ 3, x) end)(
--->   heed.tensor(2.0, {requires_grad = true})) == 12
---@param y heed.Tensor
---@param xs heed.Tensor|heed.Tensor[]
---@param gradient? heed.Tensor|{retain_graph: boolean, create_graph: boolean} of y; 1 for a single
---element
---@param options? {retain_graph: boolean, create_graph: boolean} the latter keeps the graph too
---@return heed.Tensor|(heed.Tensor|false)[]|nil gradients one for one, a list for a list; nil, or
---false in the list, where y does not depend on it
function heed.grad(y, xs, gradient, options) end

---The same values, in the same memory, without a graph.
---> heed.tensor({1.0}, {requires_grad = true}):detach().requires_grad == false
---@return heed.Tensor
function Tensor:detach() end
heed.detach = Tensor.detach

---Sets whether gradients of it are computed; of leaves of a float type only. With false it loses
---its `grad`, and no pass adds to it; with true it is the same leaf again, with its hooks, also for
---graphs that were made from it before.
---> heed.zeros(2):requires_grad_().requires_grad == true
---> heed.tensor{1}:requires_grad_() raises "float"
---@param yes? boolean true unless given
---@return heed.Tensor self
function Tensor:requires_grad_(yes) end
heed.requires_grad_ = Tensor.requires_grad_

---f(...), with nothing recorded. Calls may be nested, and errors pass through. A view that is made
---so has no graph, and can't be changed in place outside; the view keeps its base alive, with the
---base's graph. A view of `detach()` does not.
---> heed.no_grad(function(x) return x + 1 end, heed.tensor{1}) == {2}
---> heed.no_grad(heed.is_grad_enabled) == false
---@param f function
---@param ... any
---@return any ...
function heed.no_grad(f, ...) end

---f(...) in mixed precision, as PyTorch's autocast. `matmul`, `bmm`, `addmm`, `baddbmm`, `einsum`,
---`linear` and `attention` work in the type: their float tensors are converted, each parameter
---once, and gradients reach it in its own type. `softmax`, norms, losses, `sum`, `prod`, `cumsum`,
---`exp`, `log`, `pow`, `square`, `reciprocal` and `rsqrt` work in float32. All other calls, and
---those with a float64, follow promotion. Backward may be called inside: nothing is converted in
---it. Calls may be nested, and errors pass through. Gradients in float16 want a
---`heed.optim.Scaler`.
---> heed.autocast("bfloat16", heed.matmul, heed.ones(2, 2), heed.ones(2, 2)).dtype == "bfloat16"
---> heed.autocast("bfloat16", heed.softmax, heed.ones(2), 1).dtype == "float32"
---> heed.autocast("int64", heed.exp, heed.ones(2)) raises "'bfloat16', 'float16' or false"
---@param dtype "bfloat16"|"float16"|false false: not within f
---@param f function
---@param ... any
---@return any ...
function heed.autocast(dtype, f, ...) end

---The type of the `autocast` that holds now, or nil.
---> heed.autocast("float16", heed.autocast_dtype) == "float16"
---@return "bfloat16"|"float16"|nil
function heed.autocast_dtype() end

---f(...), recorded again within no_grad.
---> heed.no_grad(heed.enable_grad, heed.is_grad_enabled) == true
---@param f function
---@param ... any
---@return any ...
function heed.enable_grad(f, ...) end

---Are operations recorded for gradients now?
---> heed.is_grad_enabled() == true
---@return boolean
function heed.is_grad_enabled() end

---Calls a function with the gradient of self in a backward pass, before anything else gets it. A
---tensor that the function returns stands in for it: of the same shape, type and device. Hooks
---are called in the order in which they came, also by `heed.grad`; those of a leaf in every pass,
---others until the graph is freed. A hook may not change the gradient in place, nor yield. One that
---leads back to its tensor is collected with it; where the tensor was used before it got the hook,
---only after `backward`, or `remove`. The handle may be a `<close>` variable.
---> heed.ones(2, {requires_grad = true}):register_hook(print):remove() == nil
---> heed.ones(2):register_hook(print) raises "it does not require grad"
---@param hook fun(gradient: heed.Tensor): heed.Tensor?
---@return heed.Hook handle whose method `remove` takes the hook off
function Tensor:register_hook(hook) end
heed.register_hook = Tensor.register_hook

---From now on `backward` adds the gradient of self to its `grad`, as it does for leaves; after a
---change in place that of its new value.
---> heed.ones(2):retain_grad() raises "it does not require grad"
function Tensor:retain_grad() end
heed.retain_grad = Tensor.retain_grad

---A differentiable function of your own. `forward(ctx, ...)` gives the results, and nothing in
---it is recorded; `backward(ctx, g, ...)` gets their gradients, nil for a result that nothing
---was made of, and gives one for each argument of forward, nil where there is none. The gradients
---it gets may not be changed in place. `ctx` is a table for what backward needs. Neither function
---may yield. The graph holds ctx and backward; where they lead back to a result, as `ctx.y = y`
---does, the cycle is collected like any of Lua's. Only where the result was written in place into a
---tensor that has views, or is also a C host's, does it last until `backward` frees the graph. A
---result with a graph that shares memory with an argument or an earlier result is copied.
---> heed.custom{
--->   forward = function(ctx, x) ctx.x = x return x * x end,
--->   backward = function(ctx, g) return 2 * ctx.x * g end,
---> }(heed.tensor{3.0}) == {9}
---@param functions {forward: function, backward: function}
---@return function
function heed.custom(functions) end

---f(...), without keeping what its gradient needs: backward runs f again, and f must do the same
---again. If a tensor among its arguments was changed in place meanwhile, backward raises. Tensors
---that f has from elsewhere are leaves, as a module's parameters, or have no graph; others are to
---be arguments, as the second run's backward goes through their graph, and frees it. A hook of
---such a leaf is called once for each checkpoint, with the part of the gradient from there.
---Results that share memory with an argument are copied, as those of `custom`.
---> heed.checkpoint(heed.exp, heed.tensor{0.0}) == {1}
---@param f function
---@param ... any
---@return any ...
function heed.checkpoint(f, ...) end

---Compares f's gradients with central differences, in float64, also within no_grad; with order = 2
---the gradients of its gradients, and so on.
---> heed.gradcheck(heed.tanh, heed.tensor{0.1, 0.7}) == true
---> heed.gradcheck(heed.tanh, heed.tensor{0.1, 0.7}, {order = 2}) == true
---> heed.gradcheck(heed.tanh, heed.tensor{0.1, 0.7}, {order = 0}) raises "order"
---> heed.gradcheck(heed.tanh, heed.tensor{1, 2}) == true
---> heed.gradcheck(heed.tanh, {}) raises "at least one tensor"
---@param f function of the tensors in xs
---@param xs heed.Tensor|heed.Tensor[] copied as float64; integers and bools beside floats stay
---@param options? {eps: number, atol: number, rtol: number, order: integer} 1e-6, 1e-5, 1e-3 and 1
---unless given
---@return boolean good
---@return string? message of the worst element, if not
function heed.gradcheck(f, xs, options) end

---How many nodes the graphs of this state have: operations that were recorded for gradients.
---> heed.graph_nodes() >= 0 == true
---@return integer
function heed.graph_nodes() end


-- Random numbers: PyTorch's, for the same seed ---------------------------

---Seeds the generators of the CPU and of GPUs.
---> (heed.manual_seed(0) or heed.rand(2)) == {0.4963, 0.7682}
---@param seed integer
function heed.manual_seed(seed) end

---The generator's state, or sets it.
---> heed.rng_state():numel() == 5056
---@param state? heed.Tensor what an earlier call gave
---@return heed.Tensor? state uint8 (5056)
function heed.rng_state(state) end

---Uniform numbers from `from` to below `to`, into self.
---> heed.zeros(5):uniform_(2, 3):ge(2):all() == true
---@param from? number|table 0 unless given
---@param to? number 1 unless given
---@return heed.Tensor
function Tensor:uniform_(from, to) end
Tensor.uniform = Tensor.uniform_
heed.uniform, heed.uniform_ = Tensor.uniform_, Tensor.uniform_

---Normal numbers, into self.
---> heed.zeros(5):normal_(7, 0) == {7, 7, 7, 7, 7}
---@param mean? number|table 0 unless given
---@param std? number 1 unless given
---@return heed.Tensor
function Tensor:normal_(mean, std) end
Tensor.normal = Tensor.normal_
heed.normal, heed.normal_ = Tensor.normal_, Tensor.normal_

---1 with the probability that each element is, or with p; else 0. In place p is 0.5 unless given.
---Elements beyond 0 to 1 raise on the CPU; on a GPU this is not checked.
---> heed.tensor{0.0, 1.0}:bernoulli() == {0, 1}
---@param p? number|table
---@return heed.Tensor
function Tensor:bernoulli(p) end
Tensor.bernoulli_ = Tensor.bernoulli
heed.bernoulli, heed.bernoulli_ = Tensor.bernoulli, Tensor.bernoulli

---Positions, drawn by the weights in each row: on the CPU, also for tensors on a GPU. The draws are
---a tensor, as the results of `argmax` are: `item()` gives the number of a single draw.
---> heed.tensor{0.0, 1.0}:multinomial(3, true) == {2, 2, 2}
---> ({"red", "green"})[heed.tensor{0.0, 1.0}:multinomial(1):item()] == "green"
---@param num_samples integer
---@param replacement? boolean|table false unless given; whether one may be drawn again
---@return heed.Tensor positions int64 (num_samples), or (rows, num_samples)
function Tensor:multinomial(num_samples, replacement) end
heed.multinomial = Tensor.multinomial


-- Memory, threads, devices ------------------------------------------------

---Bytes on the CPU: `live`, of tensors; `other`, of handles, of the graph, of captured work and of
---kernels' scratch memory; `cached`, kept for the next tensors; `peak`, the most that were live and
---other at once; and the limit of all, past which what would allocate is refused: the machine's
---free memory, unless set. Where a host opened heed with options (heed_lua.h) the limit can only be
---lowered.
---> heed.memory().live >= 0 == true
---> heed.memory{limit = 0} raises "limit"
---@param options? {limit: integer} sets the limit
---@return {live: integer, other: integer, cached: integer, peak: integer, limit: integer}
function heed.memory(options) end

---f(...); frees every tensor made meanwhile, but for results (tables and modules are searched),
---leaves that require gradients, gradients, and what `keep` names. Errors pass through.
---> heed.scope(function() return heed.ones(2) + 1 end) == {2, 2}
---@param f function
---@param ... any
---@return any ...
function heed.scope(f, ...) end

---Scopes leave this tensor alone.
---@param t heed.Tensor
---@return heed.Tensor t
function heed.keep(t) end

---How many threads compute, the caller's included. Results do not depend on it. Where a host opened
---heed with options, at most as many as it allows.
---> heed.threads() >= 1 == true
---> heed.threads(0) raises "1 to 256"
---@param n? integer sets it, from 1 to 256
---@return integer
function heed.threads(n) end

---The device of tensors that are made without an option `device`: "cpu", "cuda" or "cuda:1".
---> heed.default_device() == "cpu"
---> heed.default_device("tpu") raises "tpu"
---@param name? string sets it
---@return string
function heed.default_device(name) end

---The set of the CPU's instructions in use: "base", "avx2", "avx512" or "neon".
---Where a host opened heed with options, it alone chooses.
---> type(heed.level()) == "string"
---> heed.level("sse2") raises "sse2"
---@param name? string chooses; raises if this CPU does not have them
---@return string
function heed.level(name) end

---How exact products of float32 are on a GPU, those of attention included: "highest" is float32
---throughout, "high" may use TF32, "medium" bfloat16, or TF32. The CPU always uses the first; but
---where a weight is in blocks of few bits, both others round the rows that it is multiplied with to
---8 bits there, see `heed.quantize`.
---> heed.matmul_precision() == "highest"
---> heed.matmul_precision("low") raises "highest"
---@param precision? string sets it
---@return string
function heed.matmul_precision(precision) end

---A copy in host memory that a GPU can read by itself, which makes transfers faster.
---@return heed.Tensor
function Tensor:pin_memory() end
heed.pin_memory = Tensor.pin_memory

---@class heed.cuda
heed.cuda = {}

---Is there a GPU that heed can use? Otherwise false, and why not.
---> type(heed.cuda.available()) == "boolean"
---@return boolean, string? reason
function heed.cuda.available() end

---How many GPUs there are; they count from 0, as "cuda:0".
---> heed.cuda.device_count() >= 0 == true
---@return integer
function heed.cuda.device_count() end

---A GPU's name, memory in bytes, compute capability and number of multiprocessors; and in
---`matmul`, what multiplies matrices: the version of cuBLASLt and its file, or heed's own kernels,
---with the reason. The library is looked for where the environment variable HEED_CUBLASLT says
---(its file or folder), and unless that is set, where programs find libraries, below CUDA_HOME and
---CUDA_PATH, and beside the nvcc that built heed: CUDA 13's, and else CUDA 12's.
---@param device? integer|string its number or its name; unless given, as below, the default device
---or, where that is the CPU, the first GPU
---@return {name: string, memory: integer, capability: string, multiprocessors: integer,
---matmul: string}
function heed.cuda.properties(device) end

---Waits until a GPU has done all its work. An asynchronous error is raised here.
---@param device? integer|string
function heed.cuda.synchronize(device) end

---Bytes on a GPU: of this state's tensors, kept for reuse, the most that were alive, the limit;
---free on the GPU, and in all.
---@param device? integer|string
---@return {live: integer, cached: integer, peak: integer, limit: integer, free: integer,
---total: integer}
function heed.cuda.memory(device) end

---Sets the limit of `memory`.
---@param bytes integer
---@param device? integer|string
function heed.cuda.limit(bytes, device) end

---Sets the peak of `memory` to what is alive now.
---@param device? integer|string
function heed.cuda.reset_peak(device) end

---Gives memory that is kept for reuse back to the GPU.
---@param device? integer|string
function heed.cuda.empty_cache(device) end

---The state of a GPU's generator; with `state`, sets it.
---@param state? heed.Tensor
---@param device? integer|string
---@return heed.Tensor? state
function heed.cuda.rng_state(state, device) end

---With true each operation is waited for, so that a wrong index raises at its line.
---@param yes boolean
function heed.cuda.blocking(yes) end

---The seconds that the GPU took for the work of f(...), then f's results: the default device, or
---the first GPU.
---@param f function
---@param ... any
---@return number seconds, any ...
function heed.cuda.elapsed(f, ...) end


-- Others -----------------------------------------------------------------

---Raises an error at the first line outside heed's own Lua.
---> heed.fail("%s: %d", "f", 3) raises "f: 3"
---@param format string
---@param ... any
function heed.fail(format, ...) end

---The words that ids stand for: of an integer or a 0-dimensional tensor one, else nested lists in
---the tensor's shape. `words` is a list, any table by id, or a vocabulary of `heed.data`.
---> heed.lookup({"a", "b", "c"}, heed.tensor{{3, 1}, {2, 2}}) == {{"c", "a"}, {"b", "b"}}
---> heed.lookup({"red", "green", "blue"}, heed.tensor{0.1, 0.7, 0.2}:argmax()) == "green"
---> heed.lookup(heed.data.words("a c b"), heed.tensor{3, 1}) == {"c", "a"}
---> heed.lookup({"red", "green"}, heed.tensor{2, 3}) raises "id 3 at position (2) lies outside"
---@param words table<integer, any>|heed.Vocabulary
---@param ids heed.Tensor|integer int64 or uint8
---@return any
function heed.lookup(words, ids) end

---Prints what is written about a function or a class, given or by its name; or all that has a word
---in its name or text; without an argument a list of all there is.
---> heed.help("sofmax") raises "did you mean 'softmax'?"
---@param what? string|function|table
function heed.help(what) end

---Seconds of a monotonic clock.
---> heed.clock() <= heed.clock() == true
---@return number
function heed.clock() end

---Is a file descriptor a terminal?
---@param descriptor? integer 1, the standard output, unless given
---@return boolean
function heed.isatty(descriptor) end


-- For the Lua half -------------------------------------------------------

---The functions of C that only the Lua half calls.
---@class heed.core
---@field public heed the functions of C above, before the Lua half adds to them
heed.core = {}

---Steps of optimisers, and then tensors that are set to others, and fields that are set, as by
---`commit`. Each step is six values of the list: the name of a row of src/op/optimizers.def;
---parameters; gradients, or false for their own; a list of lists, one for each kind of state; a
---table of lr and PyTorch's other options; and its number, from 1, which counts on where the
---gradients are their own.
---@param steps any[]
---@param fields? any[]
---@param targets? heed.Tensor[]
---@param operands? heed.Tensor[]
---@return boolean stepped false if the parameters' own are to be taken and one has none
function heed.core.optim_step(steps, fields, targets, operands) end

---`f(...)`; nothing where it fails, or within another attempt. A hook's error leaves none open.
---> heed.core.attempt(function(x) return x + 1 end, 1) == 2
---> heed.core.attempt(error) == nil
---@param f fun(...): ...
---@param ... any
---@return any ...
function heed.core.attempt(f, ...) end

---The modules whose calls run in this coroutine, innermost first.
---@return heed.Module[]
function heed.core.callees() end

---Whether a hook of Lua's, such as debug.sethook sets, watches this coroutine.
---> heed.core.hooked() == false
---@return boolean
function heed.core.hooked() end

---The results of f(...). Large tensors that are made meanwhile live long, as weights do: they take
---no more memory than they need, on huge pages where the system has them.
---> heed.core.lasting(heed.zeros, 2):size(1) == 2
---@param f fun(...): ...
---@param ... any
---@return ... any
function heed.core.lasting(f, ...) end

---The number of the layer that works, 0 without one.
---@return integer
function heed.core.layer() end

---A function that is called where a module's call begins. Until what it returns is closed, this
---layer works, and the call is counted.
---@param numbers table<heed.Module, table<integer, integer>> by the number of the layer around it
---@param calls table<integer, integer> by the layer's number
---@param find fun(module: heed.Module, parent: integer): integer gives a new number
---@return fun(module: heed.Module): userdata
function heed.core.layer_enterer(numbers, calls, find) end

---The records of `f(...)`, by operation and layer, and its results. Layers are watched meanwhile.
---@param f function
---@param ... any
---@return table[] records
---@return any ...
function heed.core.measured(f, ...) end

---The `__index` of a metatable is `on` while layers are watched, else `off`.
---@param meta table
---@param on function
---@param off table
function heed.core.watched(meta, on, off) end

---Changes that are made together, or not at all: an error, also one of a hook, comes before the
---first or after the last. Tensors of `targets` are written with those of `operands` by `op`: nil
---copies, "lerp" goes with `number`, "mul" with `number` alone. `takers` take over what the
---`givers` are, if there are any, and then have `gradients`, or none. `fields` are set: a list
---of a table, a key that it has, a value, the next table, and so on.
---> heed.core.commit("f", {fields = {{}, "absent", 1}}) raises "a key that is there expected"
---@param name string of the function that errors name
---@param changes table
function heed.core.commit(name, changes) end

---`f(...)` between changes that are made before it and those that are made when it ends, also by an
---error.
---@param name string
---@param on table changes, as for commit
---@param back table
---@param f function
---@param ... any
---@return any ... what f returned
function heed.core.commit_during(name, on, back, f, ...) end

---Sets fields together: those of a list as `commit` has it.
---@param fields any[]
function heed.core.set_fields(fields) end

---Lets all tensors of a list require gradients, or none of them; sets fields with that.
---@param list heed.Tensor[]
---@param yes boolean
---@param fields? any[] a list as `commit` has it
function heed.core.require_grad(list, yes, fields) end

---The state of a generator of the CPU with this seed; the module's own stays as it is.
---> heed.core.rng_seeded(3):numel() == 5056
---@param seed integer
---@return heed.Tensor state as `heed.rng_state` gives it
function heed.core.rng_seeded(seed) end

---`f(...)`, while generators have other states; they have their own again when it ends.
---@param states table<string, heed.Tensor> "rng": of the CPU's; "rng.cuda:0": of a GPU's
---@param f function
---@param ... any
---@return heed.Tensor left the state in which f left the CPU's
---@return any ... what f returned
function heed.core.with_generators(states, f, ...) end

---The mask of a rule of heed_mask (src/heed.h), as bools of the size {B, H, T, S}.
---> heed.core.attention_mask({1, 1, 2, 2}, {2, -2, 0})[{1, 1}] == {{true, false}, {true, true}}
---> heed.core.attention_mask({1, 1, 2, 2}, {10}) raises "'and' lacks what it joins"
---@param size integer[]
---@param rule integer[]
---@param operands? heed.Tensor[]
---@return heed.Tensor
function heed.core.attention_mask(size, rule, operands) end

---The words of rules: the number of each by its name, and by that number a table: its name, how
---many numbers follow it, the dims of its tensor, whether it numbers keys from the first one on.
---> heed.core.mask_words()[heed.core.mask_words().blocks].numbers == 3
---@return table
function heed.core.mask_words() end

---The rows of src/op/optimizers.def by name: the name, whether the first step fills the states, the
---options by name, {default =, least =, below =}, and the states, {name =, option =}, of which one
---with an option is there where that is not 0.
---> heed.core.optimizers().Lion.options.lr.default == 1e-4
---@return table
function heed.core.optimizers() end

---The types of blocks by name, as src/base/blocks.def has them: how many elements and bytes a block
---has, and whether values are converted to it.
---> heed.core.blocks().q8_0.bytes == 34
---@return table<string, heed.block>
function heed.core.blocks() end

---The p-norm of the gradients that parameters have, taken over all of them; with `max`, they are
---scaled so that it is at most that.
---@param parameters heed.Tensor[]
---@param p number
---@param max? number
---@return heed.Tensor norm
function heed.core.clip_gradients(parameters, p, max) end

---Whether attention's options hold a mask, a bias or a sink that the Lua half makes tensors of.
---> heed.core.has_values{causal = true} == false
---> heed.core.has_values{mask = heed.mask.causal()} == true
---@param options any
---@return boolean
function heed.core.has_values(options) end

---Says that t is a weight of many products: on the CPU, one of more than a few rows keeps a copy of
---it as products read it, which counts as memory, goes with t's storage, and is made anew behind a
---change. Of a weight in blocks, products of any number of rows keep one, if these are rounded to 8
---bits.
---> heed.core.pack(heed.ones(2, 3)) == nil
---> heed.core.pack(1) raises "tensor expected"
---@param t heed.Tensor
function heed.core.pack(t) end

---Whether two values are tensors that a linear layer may multiply as they are: of one type, or a
---weight in blocks and floats.
---> heed.core.serves(heed.zeros(1), heed.ones(2, 3)) == true
---> heed.core.serves(heed.zeros(1), heed.zeros(1, {dtype = "int64"})) == false
---> heed.core.serves(heed.quantize(heed.zeros(1, 32), "q8_0"), heed.zeros(1)) == true
---> heed.core.serves("float32", heed.zeros(1)) == false
---@param weight any
---@param x any
---@return boolean
function heed.core.serves(weight, x) end

---The table of operations: for each its name, the name of its in-place variant, whether tensors
---have it as a method, how many results it has, and its parameters.
---> heed.core.operations()[1].name == "neg"
---@return {name: string, in_place: string?, method: boolean, results: integer, parameters: table}[]
function heed.core.operations() end

---f(...), with errors that name `name` as what was called; an outer `called` keeps its name.
---> heed.core.called("f", heed.neg, heed.tensor{1}) == {-1}
---@param name string
---@param f function
---@param ... any
---@return any ...
function heed.core.called(name, f, ...) end

---Refuses more than 2^24 entries of tables, or more than the memory limit has room for, before they
---are made.
---> heed.core.check_entries("f", 2^40, "a table") raises "f: a table: at most 16777216 entries"
---@param name string the function, for messages
---@param n number
---@param what string whose entries they are
function heed.core.check_entries(name, n, what) end

---Refuses what the memory limit has no room for, before it is made.
---> heed.core.check_room("f", 2^60, "a stack") raises "f: memory limit of "
---@param name string the function, for messages
---@param bytes number
---@param what string
function heed.core.check_room(name, bytes, what) end

---Raises an error where the host has interrupted the context: for loops that make no other call.
---> heed.core.poll("f") == nil
---@param name string the function, for messages
function heed.core.poll(name) end

---The name that is most like a word, nil if none is near.
---> heed.core.nearest("causl", {"bias", "causal"}) == "causal"
---> heed.core.nearest("zzzzzz", {"bias", "causal"}) == nil
---@param word string
---@param names string[]
---@return string?
function heed.core.nearest(word, names) end

---The end of a message about an unknown word: the nearest name, or all of them.
---> heed.core.hint("causl", {"bias", "causal"}) == "did you mean 'causal'?"
---> heed.core.hint("zzzzzz", {"bias", "causal"}) == "there are bias, causal"
---@param word string
---@param names string[]
---@return string
function heed.core.hint(word, names) end

---Raises the error about a method that was called with these arguments, of which the first is no
---tensor.
---> heed.core.refuse_dot("sum", 2, true) raises "got 2; write x:sum(2, true)"
---@param name string of the method
---@param ... any
function heed.core.refuse_dot(name, ...) end

---Raises the error about an option that a function does not have.
---> heed.core.refuse_option("f", "causl", {"causal"}) raises "unknown option 'causl'"
---@param name string of the function
---@param key any
---@param names string[] of its options
function heed.core.refuse_option(name, key, names) end

---Is x a tensor with the type, shape and device of t, that does not require grad?
---@param x any
---@param t heed.Tensor
---@return boolean
function heed.core.capture_alike(x, t) end

---May a replay have the values of a given tensor in the place of its input? Not if it shares memory
---with what the work uses besides, and one of both is changed.
---@param capture userdata
---@param input heed.Tensor that was there before
---@param given heed.Tensor
---@return boolean
function heed.core.capture_apart(capture, input, given) end

---The settings that calls depend on besides their arguments: gradients, autocast, the default
---device, and the precision of products.
---@return boolean recording
---@return integer autocast
---@return string device
---@return string precision
function heed.core.capture_modes() end

---Counts t among what captured work reads, whether it does or not.
---@param t heed.Tensor
function heed.core.capture_reads(t) end

---Calls f(...) and captures its work instead of doing it, as recording.work; then calls
---finish(recording, what f returned). Where that is false, and after every error,
---undo(recording, taken) is called, with the number of optimisers' steps that a replay took: all is
---then as if f's work had not been called.
---@param device integer|string
---@param recording table
---@param finish fun(recording: table, result: any): boolean
---@param undo fun(recording: table, taken: integer)
---@param f fun(...): any
---@param ... any
---@return boolean kept what finish returned
function heed.core.capture_record(device, recording, finish, undo, f, ...) end

---The recording of the work that is captured now; false in a finaliser, whose work is done at once.
---> heed.core.capture_running() == nil
---@return table|false|nil
function heed.core.capture_running() end

---Would a replay do what the work itself would now? "differs": not with these gradients; "stale":
---not with the memory that its tensors have now.
---@param capture userdata
---@return "ready"|"differs"|"stale"
function heed.core.capture_state(capture) end

---Does the captured work change t, or anything, that was there before?
---@param capture userdata
---@param t? heed.Tensor
---@return boolean
function heed.core.capture_changes(capture, t) end

---Does x have memory of t's?
---@param x heed.Tensor
---@param t heed.Tensor
---@return boolean
function heed.core.capture_shares(x, t) end

---Calls before(recording), and does the captured work. If either fails, undo(recording, taken) is
---called, with the number of optimisers' steps that were taken.
---@param capture userdata
---@param recording table
---@param before fun(recording: table)
---@param undo fun(recording: table, taken: integer)
function heed.core.capture_replay(capture, recording, before, undo) end

---Sets the numbers of an optimiser's step in the captured work.
---@param capture userdata
---@param which integer from 0
---@param options table as for optim_step
function heed.core.capture_set_step(capture, which, options) end

---How many works (see CONTRIBUTING.md) a device has been given.
---> heed.core.works("cpu") >= 0 == true
---@param device integer|string
---@return integer
function heed.core.works(device) end

---Sources from the folder of the file that calls it are heed's own: errors are raised at the first
---line outside them.
function heed.core.home() end

---An error raised below calls of `call` ends with what `path` says of their first arguments.
---@param call function what modules are called by
---@param path fun(modules: heed.Module[]): string gets them innermost first; "" adds nothing
function heed.core.frames(call, path) end

---Whether a value has one of some metatables, which are a table's keys, and nothing is given
---besides.
---> heed.core.fits({}, {}) == false
---@param value any
---@param classes table<table, boolean>
---@param ... any
---@return boolean
function heed.core.fits(value, classes, ...) end

---The results of a module's call, as they are. A call that `pass` stamped comes to its end with it.
---@param ... any
---@return any ...
function heed.core.ended(...) end

---Without a number: stamps the calls of modules that run, and returns a number that the stamps of
---those to come will exceed. With one: the stamp of the outermost call of a module that began after
---it, nil without such a call. A stamp is {number, ended = false}; ended is true once the call came
---to its end without an error.
---@param since? integer
---@return integer|{[1]: integer, ended: boolean}|nil
function heed.core.pass(since) end

---Says what a refusal of one of an operation's options tells: the options that it has, and what to
---write for others.
---@param op string
---@param names string[]
---@param elsewhere table<string, string>
function heed.core.tell_options(op, names, elsewhere) end

---Raises an error at the first line outside heed's own.
---> heed.core.raise("wrong") raises "wrong"
---@param message string
function heed.core.raise(message) end

---Calls f with the gradient of x in a pass.
---@param x heed.Tensor
---@param f function
---@return integer number for remove_hook
function heed.core.add_hook(x, f) end

---Takes a hook off; nothing if it is gone.
---@param number integer
function heed.core.remove_hook(number) end

---Gives outputs without a graph a node that calls `backward` with their gradients.
---@param outputs heed.Tensor[]
---@param inputs heed.Tensor[]
---@param backward function gives the inputs' gradients
function heed.core.record(outputs, inputs, backward) end

---Grows with each change of x in place, and with `set_`.
---> heed.core.version(heed.ones(1):add_(1)) > heed.core.version(heed.ones(1)) == true
---@param x heed.Tensor
---@return integer
function heed.core.version(x) end

---Raises where the host opened this state without files.
---@param who string the function that needs them
function heed.core.check_files(who) end

---An open file: `#file` is how many bytes it has; closed by `<close>` or the collector.
---@class heed.core.file: userdata
---@operator len: integer

---Opens a regular file to be read.
---@param path string
---@return heed.core.file? file
---@return string? message
---@return boolean? missing whether there is no such file
function heed.core.open_file(path) end

---Bytes of a file.
---@param file heed.core.file
---@param at integer offset of the first one
---@param n integer
---@return string? bytes
---@return string? message
function heed.core.file_bytes(file, at, n) end

---Maps a file: tensors of it are views from now on, where they can be.
---@param file heed.core.file
---@param name string in messages
---@return true? done
---@return string? message
function heed.core.map_file(file, name) end

---A tensor of a file's bytes, on the CPU, read where it stays, or a view of a mapped file.
---@param file heed.core.file
---@param at integer offset of the first byte
---@param who string its name in messages
---@param shape integer[]
---@param dtype heed.dtype
---@param widen? "i1"|"i2"|"i4"|"u1"|"u2"|"u4" the file's integers, where int64 is made of them
---@return heed.Tensor? tensor
---@return string? message
function heed.core.file_tensor(file, at, who, shape, dtype, widen) end

---The CRC-32 of the bytes that tensors got from a file since it was given one to begin with.
---@param file heed.core.file
---@param before? integer of the bytes before these
---@return integer
function heed.core.file_sum(file, before) end

---The bytes of a regular file.
---@param path string
---@return string? bytes
---@return string? message
---@return boolean? missing whether there is no such file
function heed.core.read_file(path) end

---Inflates the pixels of a PNG by zlib, and undoes the filters of its rows.
---@param x heed.Tensor uint8 of rows * (row + 1) elements; the first rows * row become the pixels
---@param bytes string what its chunks IDAT hold
---@param rows integer
---@param row integer bytes of a row
---@param step integer bytes of a pixel, 1 for smaller ones
---@return true? done
---@return string? message
function heed.core.png_rows(x, bytes, rows, row, step) end

---Writes a file atomically: at any time the path has the old file or the new one. The file is
---written as `path.heed-tmp` and renamed; what a kill leaves of it, the next call removes.
---@param path string a symbolic link stays one: what it names is written
---@param parts? (string|heed.Tensor)[] strings, and dense tensors on the CPU; without them nothing
---is written, and the result says whether it could be
---@return true? done
---@return string? message
---@return boolean? busy whether another process writes the same path now
function heed.core.write_file(path, parts) end

---Makes a folder, in one that is there, unless there is one of this name.
---@param path string
---@return true? done
---@return string? message
function heed.core.make_folder(path) end

---Opens a file, pipe or terminal to be written at its end.
---@param path string
---@return heed.core.file? file
---@return string? message
function heed.core.append_file(path) end

---Leaves a file's first bytes.
---@param file heed.core.file from `append_file`
---@param n integer
---@return true? done
---@return string? message
function heed.core.cut_file(file, n) end

---Writes at a file's end, at once.
---@param file heed.core.file from `append_file`
---@param text string
---@return true? done
---@return string? message
function heed.core.put_file(file, text) end

---Waits until what was put would survive a power cut.
---@param file heed.core.file from `append_file`
---@return true? done
---@return string? message
function heed.core.sync_file(file) end

---CRC-32, as zlib and PNG have it (ISO 3309).
---> heed.core.crc32("123456789") == 0xcbf43926
---@param bytes string|heed.Tensor a tensor must be dense and on the CPU
---@param before? integer of the bytes before these
---@return integer
function heed.core.crc32(bytes, before) end

return heed, Tensor
