-- Images as sequences: patches of pixels, each made into features. Dosovitskiy et al. 2021, 3.1.

local heed = require "heed"
local extend = require "heed.nn.extend"
local field = require "heed.internal.field"
local layers = require "heed.nn.layers"
local options = require "heed.internal.options"
local parameter = require "heed.nn.parameter"
local part = require "heed.nn.part"
local positions = require "heed.nn.positions"

local is_tensor = heed.is_tensor
local count = options.count

local WHO <const> = "nn.Patches"


---Cuts images into patches, in reading order, and maps the pixels of each to features. A patch's
---pixels are ordered by channel, row, column: the weight is that of a convolution which steps by
---its own size.
---@class heed.Patches: heed.Module
---@field height integer of a patch
---@field width integer
---@field channels integer
---@field dim integer of the features
---@field project heed.Linear
---@field class_token heed.Tensor|false (1, 1, dim)
---@field position heed.Learned|false
---@overload fun(size: integer|integer[], dim: integer, options?: table): heed.Patches
local Patches = extend("nn.Patches", {init = 3, forward = 1})


---@class heed.Patches.options
---@field channels? integer of the images; 1 unless given
---@field bias? boolean true unless given
---@field class_token? boolean whether a learnt token, 0 at first, comes before the patches
---@field positions? integer how many patches an image has, for a learnt position of each, and of
---the class token; none unless given

-- Height and width of a patch: one number, or two.
local function sides(size)
  if type(size) ~= "table" then
    local n = count(WHO, "size", size)
    return n, n
  end
  options.check_list(WHO, size)
  if #size ~= 2 then
    heed.fail("%s: a size, or {height, width} expected, got %d sizes", WHO, #size)
  end
  return count(WHO, "height", size[1]), count(WHO, "width", size[2])
end


---@param size integer|integer[] of a patch: of both sides, or {height, width}
---@param dim integer of the features
---@param given? heed.Patches.options
function Patches:init(size, dim, given)
  local o = options.read(WHO, given, {
    bias = true, channels = 1, class_token = false, positions = options.any,
  })
  self.height, self.width = sides(size)
  self.channels = count(WHO, "channels", o.channels)
  dim = count(WHO, "dim", dim)
  self.dim = dim
  self.project = layers.Linear(self.channels * self.height * self.width, dim, {bias = o.bias})
  self.class_token = o.class_token and parameter.Parameter(heed.zeros(1, 1, dim))
  self.places = o.positions or false
  self.position = o.positions ~= nil and positions.Learned(
    count(WHO, "positions", o.positions) + (o.class_token and 1 or 0), dim)
end


-- Refuses what is no image of whole patches; gives it as (B, C, H, W), and their sides.
local function check_images(self, x)
  local C = field.count(self, "channels")
  local h, w = field.count(self, "height"), field.count(self, "width")
  if is_tensor(x) and x:dim() == 3 and C == 1 then x = x:unsqueeze(2) end
  if not is_tensor(x) or x:dim() ~= 4 or x:size(2) ~= C then
    heed.fail("%s: images of shape (B, %d, H, W)%s expected, got %s", WHO, C,
              C == 1 and " or (B, H, W)" or "", options.kind(x))
  elseif x:size(3) % h ~= 0 or x:size(4) % w ~= 0 then
    heed.fail("%s: whole patches of (%d, %d) expected in images, got %s", WHO, h, w,
              options.kind(x))
  end
  return x, h, w
end


-- (B, C, H, W) -> (B, N, C * h * w)
local function cut(x, h, w)
  local B, C, H, W = x:size()
  local rows, columns = H // h, W // w
  return x:reshape(B, C, rows, h, columns, w):permute(1, 3, 5, 2, 4, 6)
          :reshape(B, rows * columns, C * h * w)
end


---@param x heed.Tensor (B, C, H, W), or (B, H, W) with one channel, of whole patches; one colour
---image of `data.image`, (C, H, W), is x:unsqueeze(1)
---@return heed.Tensor features (B, N, dim), or (B, 1 + N, dim) with a class token first
function Patches:forward(x)
  local y = part.call(WHO, self, "project", cut(check_images(self, x)))
  if self.places and y:size(2) ~= field.count(self, "places") then
    heed.fail("%s: images of %d patches expected, as option positions says, got %d of %s", WHO,
              self.places, y:size(2), options.kind(x))
  end
  if self.class_token then
    y = heed.cat({field.tensor(self, "class_token"):expand(y:size(1), 1, -1), y}, 2)
  end
  return self.position and part.of(WHO, self, "position")(y) or y
end


function Patches:describe()
  local text = ("{%d, %d}, %d"):format(field.count(self, "height"), field.count(self, "width"),
                                       field.count(self, "dim"))
  local channels = field.count(self, "channels")
  return channels > 1 and text .. ", channels = " .. channels or text
end


return {Patches = Patches}
