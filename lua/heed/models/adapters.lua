-- Adapters of low rank in directories, as PEFT keeps them: adapter_config.json, and in
-- adapter_model.safetensors for a layer that the model's files call NAME two matrices,
-- base_model.model.NAME.lora_A.weight (rank, inputs) and base_model.model.NAME.lora_B.weight
-- (outputs, rank).

local adapters = require "heed.nn.adapters"
local heed = require "heed"
local json = require "heed.files.json"
local names = require "heed.models.names"
local options = require "heed.internal.options"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local save = require "heed.save"
local saving = require "heed.models.saving"

local quoted = refuse.quoted

local M = {}

local CONFIG <const>, WEIGHTS <const> = "adapter_config.json", "adapter_model.safetensors"
local BEFORE <const>, DOWN <const>, UP <const> = "base_model.model.", ".lora_A.weight",
                                                 ".lora_B.weight"

-- Values that the configuration must have, or leave out.
local REQUIRED = {peft_type = "LORA", bias = "none"}

-- Names that are read, that the tensors say too, or that say how adapters were begun.
local READ = {}
for name in ([[
  auto_mapping base_model_name_or_path corda_config eva_config exclude_modules fan_in_fan_out
  inference_mode init_lora_weights layers_pattern layers_to_transform lora_alpha
  alpha_pattern lora_dropout megatron_config megatron_core peft_version qalora_group_size r
  rank_pattern revision target_modules task_type use_rslora
]]):gmatch "%S+" do READ[name] = true end


-- How matrices may begin that stand beside the weights of the model as it was published; other ways
-- take a part of these weights out of them.
local BEGUN <const> = {eva = true, gaussian = true, orthogonal = true}

-- Reading --------------------------------------------------------------------------

local function is_nothing(value)
  return rawequal(value, false) or value == "" or type(value) == "table" and next(value) == nil
end


-- Refuses what would make adapters of another kind.
local function check_config(c)
  for name, value in next, REQUIRED do
    if c[name] ~= nil and c[name] ~= value then
      refuse.with("%s: %s is %s, and heed reads %s", CONFIG, name, quoted(tostring(c[name])),
                  quoted(value))
    end
  end
  local begun = c.init_lora_weights
  if type(begun) == "string" and not rawget(BEGUN, begun) then
    refuse.with("%s: init_lora_weights is %s, which changes the model's own weights, too", CONFIG,
                quoted(begun))
  end
  for name, value in next, c do
    if not (READ[name] or REQUIRED[name] or is_nothing(value)) then
      refuse.with("%s: heed does not know %s, which is not empty", CONFIG, quoted(name))
    end
  end
end


-- Kinds of numbers: {what, fits}.
local RANK <const> = {"a whole number of at least 1", function(n)
  return math.tointeger(n) and n >= 1
end}
local ALPHA <const> = {"a number of at least 0", function(n) return n >= 0 end}
local DROPOUT <const> = {"a number from 0 to 1", function(n) return n >= 0 and n <= 1 end}

local function number(c, name, default, kind)
  local value = c[name]
  if value == nil then value = default end
  if math.type(value) and kind[2](value) then return value end
  refuse.with("%s: %s expected as %s, got %s", CONFIG, kind[1], name, options.kind(c[name]))
end


-- Numbers of modules by the ends of their names, in the place of one for all.
local function pattern(c, name, kind)
  local all = c[name] or {}
  if type(all) ~= "table" then
    refuse.with("%s: an object expected as %s, got %s", CONFIG, name, options.kind(all))
  end
  for key in next, all do
    if type(key) ~= "string" or key:find "[^%w_.-]" then
      refuse.with("%s: names of modules expected in %s, got %s, which may be a regular expression",
                  CONFIG, name, quoted(tostring(key)))
    end
    number(all, key, nil, kind)
  end
  return all
end


-- The number of a module in a pattern: by the longest name that the module's ends with.
local function of_module(all, name, default)
  local found = ""
  for key in next, all do
    if #key > #found and (name == key or name:sub(-#key - 1) == "." .. key) then found = key end
  end
  return all[found] or default
end


-- Two functions of a module's name, which give the rank and the scale of its adapter, and dropout.
-- D. Kalajdzievski (2023), "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", divides
-- by the square root of the rank.
local function read_config(path)
  local c = reading.json(path, CONFIG) or refuse.with("%s: there is no such file", CONFIG)
  check_config(c)
  local r, alpha = number(c, "r", 8, RANK), number(c, "lora_alpha", 8, ALPHA)
  local ranks, alphas = pattern(c, "rank_pattern", RANK), pattern(c, "alpha_pattern", ALPHA)
  local function rank_of(name) return math.tointeger(of_module(ranks, name, r)) end
  local function scale_of(name)
    local rank = rank_of(name)
    return of_module(alphas, name, alpha) / (c.use_rslora == true and rank ^ 0.5 or rank)
  end
  return rank_of, scale_of, number(c, "lora_dropout", 0, DROPOUT)
end


local function read_tensors(path)
  local tensors, why = save.load(path .. "/" .. WEIGHTS, {device = "cpu"})
  if tensors == nil then refuse.with("%s", (why:gsub("^load: ", ""))) end
  if type(tensors) ~= "table" then refuse.with("%s: tensors by names expected", WEIGHTS) end
  return tensors
end


-- The names that a module may have, with each prefix of its family's files.
local function names_of(entry, source)
  local list = {entry.name}
  if entry.rule.bare then return list end
  for _, prefix in ipairs(source.names.prefix or {}) do list[#list + 1] = prefix .. entry.name end
  return list
end


-- The names of a module, its A and its B, which are marked as used; nil where the file has none.
local function take(entry, source, tensors, used)
  for _, name in ipairs(names_of(entry, source)) do
    local a, b = BEFORE .. name .. DOWN, BEFORE .. name .. UP
    if tensors[a] or tensors[b] then
      local missing = not tensors[a] and a or not tensors[b] and b
      if missing then refuse.with("%s: the tensor %s is missing", WEIGHTS, quoted(missing)) end
      used[a], used[b] = true, true
      return name, a, b
    end
  end
end


local function check_shape(name, t, rows, columns)
  if t.dtype:find "float" and t:dim() == 2 and t:size(1) == rows and t:size(2) == columns then
    return
  end
  refuse.with("%s: floats of (%d, %d) expected as the tensor %s, got %s", WEIGHTS, rows, columns,
              quoted(name), options.kind(t))
end


-- The part of B that is of this module, where several divide the rows of one tensor.
local function rows_of(b, entry)
  local at = 1
  for i, path in ipairs(entry.shares) do
    if path == entry.path then return b:narrow(1, at, entry.rows[i]) end
    at = at + entry.rows[i]
  end
end


-- Rows of all modules that share a tensor.
local function all_rows(entry)
  local n = 0
  for _, rows in ipairs(entry.rows) do n = n + rows end
  return n
end


-- A, B and scale of each module that has some, by its path.
local function matrices(model, source, tensors, rank_of, scale_of)
  local found, used = {}, {}
  for _, entry in ipairs(names.modules(model, source.names)) do
    local name, a, b = take(entry, source, tensors, used)
    if name then
      local rank = rank_of(name)
      if entry.rule.heads or entry.rule.as or not entry.columns then
        refuse.with("%s: %s is no linear layer of its own in heed", WEIGHTS, quoted(entry.name))
      end
      check_shape(a, tensors[a], rank, entry.columns)
      check_shape(b, tensors[b], all_rows(entry), rank)
      found[entry.path] = {down = tensors[a], up = rows_of(tensors[b], entry),
                           scale = scale_of(name)}
    end
  end
  for name in next, tensors do
    if not used[name] then
      refuse.with("%s: the model has no linear layer for %s", WEIGHTS, quoted(name))
    end
  end
  if not next(found) then refuse.with("%s: there is no tensor", WEIGHTS) end
  return found
end


-- The places of these modules, all of which can have adapters.
local function places_of(model, found)
  local places = adapters.places(model, function(path) return found[path] ~= nil end)
  for _, place in ipairs(places) do
    if not adapters.fits(place.value) then
      refuse.with("%s: %s is no linear layer without hooks", WEIGHTS, quoted(place.path))
    end
  end
  return places
end


---Reads a directory's adapters, and puts them into a model.
---@param path string
---@param model heed.models.Model
---@return heed.Lora
function M.load(path, model)
  reading.check_folder(path, "the path of a folder")
  local rank_of, scale_of, dropout = read_config(path)
  local source = rawget(model, "origin").source
  local found = matrices(model, source, read_tensors(path), rank_of, scale_of)
  return adapters.put(model, places_of(model, found), function(at)
    return found[at].down:size(1), found[at].scale, dropout, found[at]
  end)
end


-- Writing --------------------------------------------------------------------------

local function fail(format, ...) heed.fail("models.save_adapters: " .. format, ...) end


-- The modules of a model with adapters, by the names of files: {name, entry, adapters}, where the
-- adapters are by the paths of all modules that divide the rows of one tensor.
local function groups_of(model, source)
  local paths, layers = adapters.of(model)
  if #paths == 0 then fail("the model has no adapters; nn.lora puts some into it") end
  local entries, groups, of = {}, {}, {}
  for _, entry in ipairs(names.modules(model, source.names)) do entries[entry.path] = entry end
  for i, path in ipairs(paths) do
    local entry = entries[path]
    if not entry or entry.rule.as or entry.rule.heads then
      fail("files have no rows of '%s' side by side, so that its adapter has no name there", path)
    end
    local name = (entry.rule.bare and "" or source.prefix) .. entry.name
    if not of[name] then
      of[name] = {name = name, entry = entry, adapters = {}}
      groups[#groups + 1] = of[name]
    end
    of[name].adapters[path] = layers[i].adapter
  end
  return groups, entries
end


local function zeros(rows, columns, like)
  return heed.zeros(rows, columns, {dtype = like.dtype, device = like.device})
end


-- The one A that all adapters of a group have, as those that were loaded do; nil where they have
-- several.
local function shared_down(group)
  local down
  for _, adapter in next, group.adapters do
    if down and not heed.equal(down, adapter.down) then return nil end
    down = adapter.down
  end
  return down
end


-- The rows of B of one module: those of its adapter under the columns of its A, and zeros.
local function rows_of_up(group, path, n)
  local row = {}
  for _, other in ipairs(group.entry.shares) do
    local adapter = group.adapters[other]
    if adapter then
      row[#row + 1] = path == other and adapter.up or zeros(n, adapter.up:size(2), adapter.up)
    end
  end
  return heed.cat(row, 2)
end


-- A and B of a group: one A, or the As below each other, whose Bs are blocks of a diagonal.
local function joined(group)
  local down, downs, ups = shared_down(group), {}, {}
  for i, path in ipairs(group.entry.shares) do
    local adapter, n = group.adapters[path], group.entry.rows[i]
    if adapter then downs[#downs + 1] = adapter.down end
    ups[#ups + 1] = not down and rows_of_up(group, path, n) or adapter and adapter.up
                    or zeros(n, down:size(1), down)
  end
  return down and down:contiguous() or heed.cat(downs, 1), heed.cat(ups, 1)
end


-- The scale and dropout of a group, which must be those of all its adapters; 'all' is the first
-- group's.
local function note_numbers(group, all)
  for path, adapter in next, group.adapters do
    local scale, dropout = adapter.scale, adapter.dropout.p
    group.scale = group.scale or scale
    all.dropout = all.dropout or dropout
    if group.scale ~= scale or all.dropout ~= dropout then
      fail("the adapter at '%s' has another scale or dropout, %.14g and %.14g, than %s can say: "
           .. "%.14g and %.14g", path, scale, dropout, CONFIG, group.scale, all.dropout)
    end
  end
end


local function whole_if_it_is(x) return math.tointeger(x) or x end

-- The numbers of all adapters, and of those that differ from the first.
local function common(groups)
  local all = {ranks = {}, alphas = {}}
  for _, group in ipairs(groups) do
    note_numbers(group, all)
    local rank = group.down:size(1)
    local alpha = whole_if_it_is(group.scale * rank)
    all.rank, all.alpha = all.rank or rank, all.alpha or alpha
    if rank ~= all.rank then all.ranks[group.name] = rank end
    if alpha ~= all.alpha then all.alphas[group.name] = alpha end
  end
  return all
end


-- The last words of the groups' names where no other module's name ends so, or the names.
local function targets_of(groups, entries)
  local wanted, has, words, list = {}, {}, {}, {}
  for i, group in ipairs(groups) do
    list[i], has[group.entry.name] = group.name, true
    wanted[group.name:match("[^.]+$")] = true
  end
  for _, entry in next, entries do
    if wanted[entry.name:match("[^.]+$")] and not has[entry.name] then return list end
  end
  for word in next, wanted do words[#words + 1] = word end
  table.sort(words, json.before)
  return words
end


local function config_text(o, targets, transposed)
  return json.encode{
    alpha_pattern = o.alphas, rank_pattern = o.ranks,
    base_model_name_or_path = json.null, bias = "none", fan_in_fan_out = transposed,
    inference_mode = true, init_lora_weights = true, lora_alpha = o.alpha,
    lora_dropout = o.dropout, modules_to_save = json.null, peft_type = "LORA", r = o.rank,
    target_modules = targets, task_type = json.null, use_dora = false, use_rslora = false,
  } .. "\n"
end


---Writes a model's adapters as a directory, the configuration last.
---@param path string
---@param model heed.models.Model
---@param replace boolean
---@return true
function M.save(path, model, replace)
  local groups, entries = groups_of(model, rawget(model, "origin").source)
  local tensors, transposed = {}, false
  for _, group in ipairs(groups) do
    local down, up = heed.no_grad(joined, group)
    group.down = down
    tensors[BEFORE .. group.name .. DOWN] = down:to("cpu")
    tensors[BEFORE .. group.name .. UP] = up:to("cpu")
    transposed = transposed or group.entry.rule.transposed == true
  end
  local text = config_text(common(groups), targets_of(groups, entries), transposed)
  return saving.write(path, {}, {{WEIGHTS, tensors}}, {{CONFIG, text}}, replace)
end


return M
