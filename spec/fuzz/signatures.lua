-- Arguments that functions expect: from the rows of src/op/ops.def, and here for other functions.

local rows = require "spec.support.rows"

local KINDS = {}
for kind in ([[TENSOR TENSORS TARGET NUMBER COUNT POSITION AXIS AXES SHAPE FLAG TEXT CHOICE
               DTYPE]]):gmatch("%u+") do
  KINDS[kind] = true
end

---@class spec.fuzz.parameter
---@field kind string as ops.def has it
---@field name string
---@field optional boolean
---@field words string? of a CHOICE

local signatures = {}


local function parse(row)
  local list = {}
  for i = 1, row.kind == "UNARY" and 1 or row.kind == "BINARY" and 2 or 0 do
    list[i] = {kind = i == 1 and "TARGET" or "TENSOR", name = i == 1 and "input" or "other"}
  end
  local text = row.text:match("^%u+%s*%((.*)%)"):gsub("OPTIONAL%((%u+), ([%w_]+)%)", "%1(%2, nil)")
  for kind, inside in text:gmatch("%f[%w_](%u+)(%b())") do
    local name, default = inside:match("^%(([%a_][%w_]*),? ?(.*)%)$")
    if KINDS[kind] and name then
      list[#list + 1] = {
        kind = kind, name = name, optional = default ~= "", words = default:match('^"(.*)"$'),
      }
    end
  end
  return list
end


---Parameters by the name of the row.
signatures.rows = {}
for _, row in ipairs(rows.list) do signatures.rows[row.name] = parse(row) end
signatures.names = {}
for i, row in ipairs(rows.list) do signatures.names[i] = row.name end


-- name = "KIND:name …", a ? behind it for what may be left out
local function read(list)
  local functions = {}
  for name, text in pairs(list) do
    functions[name] = {}
    for kind, parameter, optional in text:gmatch("(%u+):([%w_]+)(%??)") do
      table.insert(functions[name], {kind = kind, name = parameter, optional = optional == "?"})
    end
  end
  return functions
end


---Functions that make tensors, or read them; FACTORY is a table of options.
signatures.others = read {
  tensor = "ANY:values FACTORY:options?", frombytes = "BYTES:bytes SHAPE:shape FACTORY:options?",
  arange = "NUMBER:start NUMBER:stop? NUMBER:step? FACTORY:options?",
  linspace = "NUMBER:start NUMBER:stop COUNT:steps FACTORY:options?",
  zeros = "SHAPE:size FACTORY:options?", ones = "SHAPE:size FACTORY:options?",
  empty_like = "TENSOR:x FACTORY:options?", full = "SHAPE:size NUMBER:value FACTORY:options?",
  rand = "SHAPE:size FACTORY:options?", randn = "SHAPE:size FACTORY:options?",
  zeros_like = "TENSOR:x FACTORY:options?", full_like = "TENSOR:x NUMBER:value FACTORY:options?",
  randn_like = "TENSOR:x FACTORY:options?", randperm = "COUNT:n FACTORY:options?",
  randint = "COUNT:low COUNT:high? SHAPE:size? FACTORY:options?",
  randint_like = "TENSOR:x COUNT:low COUNT:high?", eye = "COUNT:n COUNT:m? FACTORY:options?",
  is_tensor = "ANY:x", item = "TENSOR:x", totable = "TENSOR:x", size = "TENSOR:x AXIS:dim?",
  dim = "TENSOR:x", stride = "TENSOR:x", numel = "TENSOR:x", is_contiguous = "TENSOR:x",
  equal = "TENSOR:x TENSOR:y", allclose = "TENSOR:x TENSOR:y CLOSE:options?",
  release = "TENSOR:x", set_ = "TENSOR:x TENSOR:y", detach = "TENSOR:x",
  requires_grad_ = "TENSOR:x FLAG:yes?", backward = "TENSOR:x TENSOR:gradient? RETAIN:options?",
  grad = "TENSOR:y TENSORS:xs TENSOR:gradient? RETAIN:options?", pin_memory = "TENSOR:x",
  split = "TENSOR:x COUNT:size AXIS:dim?", chunk = "TENSOR:x COUNT:n AXIS:dim?",
  unbind = "TENSOR:x AXIS:dim?", format = "TENSOR:x FORMAT:format", keep = "ANY:x",
  printoptions = "PRINT:options", manual_seed = "COUNT:seed", rng_state = "TENSOR:state?",
  memory = "ANY:options?", level = "TEXT:name?", default_device = "TEXT:name?",
  matmul_precision = "TEXT:name?", is_grad_enabled = "ANY:x?", graph_nodes = "ANY:x?",
  autocast = "DTYPE:dtype CALL:f TENSOR:x", autocast_dtype = "ANY:x?",
  no_grad = "CALL:f TENSOR:x ANY:y?", enable_grad = "CALL:f TENSOR:x ANY:y?",
  scope = "CALL:f TENSOR:x ANY:y?", checkpoint = "CALL:f TENSOR:x ANY:y?",
  gradcheck = "CALL:f TENSOR:x ANY:options?", custom = "CUSTOM:functions", capture = "CALL:f",
  where = "TENSOR:condition TENSOR:input TENSOR:other", max = "TENSOR:x TENSOR:y",
  min = "TENSOR:x TENSOR:y", div = "TENSOR:x TENSOR:y ROUNDING:options",
  round = "TENSOR:x DECIMALS:options", var = "TENSOR:x FLAG:unbiased",
  repeat_interleave = "TENSOR:x TENSOR:repeats AXIS:dim?", clock = "ANY:x?", fail = "TEXT:message",
  cat = "TENSOR:x TENSOR:y AXIS:dim?", stack = "TENSOR:x TENSOR:y AXIS:dim?",
  einsum = "TEXT:equation TENSOR:x TENSOR:y?", isatty = "COUNT:x?", to = "TENSOR:x TENSOR:y",
}
for _, name in ipairs {"ones_like", "rand_like"} do
  signatures.others[name] = signatures.others.zeros_like
end


---Methods that are no functions of the module.
signatures.methods = read {
  data = "TENSOR:x", float = "TENSOR:x", double = "TENSOR:x", half = "TENSOR:x", long = "TENSOR:x",
  bfloat16 = "TENSOR:x", byte = "TENSOR:x", bool = "TENSOR:x", cpu = "TENSOR:x",
  cuda = "TENSOR:x ANY:device?", where = "TENSOR:x TENSOR:condition TENSOR:other",
}


---Functions that C defines for the Lua half; scripts reach all but those that write files.
signatures.core = read {
  called = "TEXT:name CALL:f TENSOR:x", nearest = "TEXT:word WORDS:names",
  crc32 = "BYTES:x COUNT:before?",
  hint = "TEXT:word WORDS:names", refuse_option = "TEXT:name ANY:key WORDS:names", raise = "ANY:x",
  version = "TENSOR:x", works = "TEXT:device", widen = "BYTES:bytes WIDTH:kind",
  record = "TENSORS:outputs TENSORS:inputs CALL:f", capture_running = "ANY:x?",
  capture_reads = "TENSOR:x",
  capture_record = "TEXT:device ANY:x CALL:f CALL:g CALL:h", capture_replay = "ANY:x",
  capture_state = "ANY:x", capture_changes = "ANY:x TENSOR:y",
  capture_set_step = "ANY:x COUNT:n ANY:y", read_file = "TEXT:path COUNT:most?",
  clip_gradients = "TENSORS:parameters NUMBER:p NUMBER:max?",
  commit = "TEXT:name CHANGES:changes", set_fields = "ANY:fields",
  commit_during = "TEXT:name CHANGES:on CHANGES:back CALL:f",
  require_grad = "TENSORS:list FLAG:yes", rng_seeded = "COUNT:seed",
  with_generators = "GENERATORS:states CALL:f",
  optim_step = "STEPS:steps",
}


---heed.cuda, which must refuse where there is no GPU.
signatures.cuda = read {
  available = "ANY:x?", device_count = "ANY:x?", properties = "ANY:x?", synchronize = "ANY:x?",
  memory = "ANY:x?", limit = "COUNT:n ANY:x?", reset_peak = "ANY:x?", empty_cache = "ANY:x?",
  rng_state = "TENSOR:x? ANY:y?", elapsed = "CALL:f TENSOR:x",
}


---The names in one of these, in an order of their own.
function signatures.sorted(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

return signatures
