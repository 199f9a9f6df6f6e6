-- The reference as data: what is written above functions, read from the texts of heed's own files.
-- heed.help prints it, docs/generate.lua makes docs/operations.md of it.
--
-- meta.lua has the functions of heed and the methods of tensors. Other modules are asked what they
-- hold, and their files what it is: so a function without a comment is noticed.

local classes = require "heed.internal.classes"
local public_names = require("heed.internal.shown").public_names

local reference = {}


-- Blocks -----------------------------------------------------------------
-- A block is a comment of `---` lines and the definition below it.

---@class heed.reference.param
---@field name string
---@field optional boolean
---@field type string the type, and what it means
---@field more string? of that, what stands on further lines

---@class heed.reference.block
---@field section string? the heading above it
---@field text string[] lines
---@field examples string[]
---@field params heed.reference.param[]
---@field returns heed.reference.param[] without names
---@field last heed.reference.param? what the next line goes on with
---@field class string? the name in LuaCATS
---@field makes string? how an object is made: the argument names of an overload
---@field hidden boolean? for other files of the Lua half alone
---@field owner string? what stands before the dot or colon
---@field sep string?
---@field name string?
---@field args string?
---@field aliases string[] other names of the same function

local function new_block(section)
  return {section = section, text = {}, examples = {}, params = {}, returns = {}, aliases = {}}
end

-- In heed's own files, options are `given`, and so is a state.
local function shown_name(name, optional, type)
  if name ~= "given" then return name end
  if type:find("^table<string, heed.Tensor>") then return "state" end
  return (optional or type:find("options") or type:find("^{")) and "options" or name
end

-- A parameter from "name? type, and its meaning". A `...` that stands for all arguments is named
-- by its comment: "... integer start, stop".
local function param_of(rest)
  local name, optional, type = rest:match("^([%w_%.]+)([?]?)%s*(.*)$")
  local listed = name == "..." and type:match("%S+%s+(.+)$")
  if listed and not listed:gsub(", ", ""):find("[^%w_]") then
    name, type = listed, type:match("^%S+")
  end
  return name and {name = shown_name(name, optional == "?", type), optional = optional == "?",
                   type = type}
end

local HIDES = {private = true, package = true, protected = true}

local function read_annotation(block, kind, rest)
  if HIDES[kind] then block.hidden = true end
  if kind == "class" then block.class = rest:match("^[%w_%.]+") end
  if kind == "overload" or kind == "type" then
    block.makes = block.makes or rest:match("^fun(%b())")
  end
  if kind == "return" then
    block.last = {name = "", optional = false, type = rest}
    table.insert(block.returns, block.last)
  elseif kind == "param" then
    block.last = param_of(rest)
    table.insert(block.params, block.last)
  end
end


local function read_comment(block, line)
  local kind, rest = line:match("^%-%-%-@(%l+)%s*(.*)$")
  local example = line:match("^%-%-%-> (.*)$")
  if kind then
    block.last = nil
    read_annotation(block, kind, rest)
  elseif example then table.insert(block.examples, example)
  elseif block.last then block.last.more = (block.last.more or "") .. " " .. line:sub(4)
  elseif #block.params == 0 and not block.class then table.insert(block.text, line:sub(4)) end
end


-- Reads the definition on the line below a comment.
local function read_definition(block, line)
  local owner, sep, name, args = line:match("^function ([%w_%.]+)([.:])([%w_]+)(%b())")
  if not owner then name, args = line:match("^local function ([%w_]+)(%b())") end
  if not name then
    name, args = line:match('^method%.%l+%("([%w_]+)", function(%b())')
    owner = name and "heed"
  end
  if not name then
    args = line:match("^return function(%b())")
    name = args and "return"
  end
  if not name then name = line:match("^local ([%w_]+) = ") or line:match("^%s+([%w_]+) = ") end
  if not name then owner, name = line:match("^([%w_%.]+)%.([%w_]+) = ") end
  block.owner, block.sep, block.name, block.args = owner, sep, name, args and args:sub(2, -2)
  return name ~= nil
end


-- `Tensor.abs_, heed.abs = …` behind a line that is a whole function: its other names.
local function read_aliases(block, line)
  local left = line:match("^([%w_%., ]+) = ")
  for name in (left or ""):gmatch("[%w_]+%.([%w_]+)") do table.insert(block.aliases, name) end
  return left ~= nil
end


---The blocks of a file, in their order.
---@param text string
---@return heed.reference.block[]
function reference.blocks(text)
  local list, section, open, done = {}, nil, nil, nil
  for line in text:gmatch("([^\n]*)\n?") do
    local comment = line:match("^%s*(%-%-%-.*)$")
    section = line:match("^%-%- (.-) %-%-%-+$") or section
    if comment then
      open, done = open or new_block(section), nil
      read_comment(open, comment)
    elseif open then
      if read_definition(open, line) then
        list[#list + 1], done = open, line:find("%f[%w]end$") and open
      end
      open = nil
    elseif done and not read_aliases(done, line) then done = nil end
  end
  return list
end


-- Words ------------------------------------------------------------------

-- The parameters as a caller sees them: "x, dim?, options?"; where the comment has none, the names
-- of the definition. A `...` without a comment only refuses more.
local function shown_arguments(block)
  local shown = {}
  for _, param in ipairs(block.params) do
    shown[#shown + 1] = param.name .. (param.optional and "?" or "")
  end
  if #shown > 0 then return table.concat(shown, ", ") end
  for name in (block.args or ""):gmatch("[%w_]+") do shown[#shown + 1] = name end
  return table.concat(shown, ", ")
end


-- "(inputs: integer, options?: {bias: boolean})" as "inputs, options?".
local function shown_overload(makes)
  local flat = makes:sub(2, -2):gsub("%b{}", ""):gsub("%b()", ""):gsub("%b<>", "")
  local shown = {}
  for part in flat:gmatch("[^,]+") do
    local name = part:match("^%s*([%w_%.]+[?]?)")
    if name then shown[#shown + 1] = name:gsub("^given", "options") end
  end
  return table.concat(shown, ", ")
end


local function shown_call(block)
  if not block.args and block.makes then return shown_overload(block.makes) end
  return shown_arguments(block)
end


local function joined(lines)
  return (table.concat(lines, "\n"):gsub("^%s+", ""):gsub("%s+$", ""))
end


---The first sentence of a text, on one line.
---@param text string
---@return string
function reference.sentence(text)
  local flat = text:gsub("\n\n.*", ""):gsub("%s+", " ")
  return flat:match("^(.-[.?]) %f[%u`]") or flat
end


---@class heed.reference.entry
---@field path string its name from heed on: "softmax", "nn.Linear"
---@field call string how it is called
---@field text string
---@field examples string[]
---@field params heed.reference.param[]
---@field returns heed.reference.param[] without names
---@field aliases string[]
---@field called heed.reference.entry? for a class: how its objects are called

local function other_names(block)
  local names, seen = {}, {[block.name] = true}
  for _, name in ipairs(block.aliases) do
    if not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  return names
end


local function entry_of(path, call, block)
  return {path = path, call = call, text = joined(block.text), examples = block.examples,
          params = block.params, returns = block.returns, aliases = other_names(block)}
end


-- heed and tensors -------------------------------------------------------

local function of_meta(block)
  local args, name = shown_arguments(block), block.name
  if block.owner == "Tensor" then
    return entry_of(name, ("x:%s(%s)"):format(name, args), block)
  elseif block.args and (block.owner == "heed" or block.owner == "heed.cuda") then
    local path = (block.owner .. "." .. name):sub(#"heed." + 1)
    return entry_of(path, ("heed.%s(%s)"):format(path, args), block)
  end
end


local function add(groups, title, entry)
  local last = groups[#groups]
  if not last or last.title ~= title then
    last = {title = title}
    groups[#groups + 1] = last
  end
  last[#last + 1] = entry
end


local function add_meta(groups, blocks)
  for _, block in ipairs(blocks) do
    local entry = block.section and of_meta(block)
    if entry then add(groups, block.section, entry) end
  end
end


-- Other modules ----------------------------------------------------------

-- The name of what a file returns, and of what it returns in a table: {EMA = make}.
local function returned(text)
  local last = text:match(".*\nreturn (.*)$") or ""
  local name = last:match("^options%.strict%([^,]+, ([%w_]+)") or last:match("^%l+%(([%w_]+)")
               or last:match("^([%w_]+)%s*$")
  local given = {}
  for own, other in (last:match("(%b{})") or ""):gmatch("([%w_]+) = ([%w_]+)") do
    given[own] = other
  end
  if last:find("^function") then given.own = "return" end
  return name, given
end


-- Files in other folders whose functions and classes a module hands out.
local ELSEWHERE <const> = {
  ["heed.mask"] = {"heed.internal.rule"},
  ["heed.models"] = {
    "heed.models.model", "heed.models.causal", "heed.models.encoder", "heed.models.seq2seq",
    "heed.models.dual", "heed.models.vision",
  },
  ["heed.position"] = {
    "heed.attention.places", "heed.attention.rope", "heed.attention.sinusoids", "heed.nn.positions",
  },
}

-- The files that make a module: its own, those below it that these name, and those elsewhere.
local function files_of(root, read)
  local list, seen = {}, {}
  local function visit(name, short)
    local text = not seen[name] and read(name)
    seen[name] = true
    if not text then return end
    local file = {name = name, text = text, blocks = reference.blocks(text)}
    file.returns, file.given = returned(text)
    list[#list + 1] = file
    for other in text:gmatch('"(' .. root:gsub("%.", "%%.") .. '%.[%w_%.]+)"') do visit(other) end
    if not short then return end
    for other in text:gmatch('"([%w_]+)"') do visit(root .. "." .. other) end
  end
  visit(root, true)
  for _, name in ipairs(ELSEWHERE[root] or {}) do visit(name) end
  return list
end


-- The text about a class at the head of its file: "-- nn.Cache: the keys …".
local function head_of(file, path)
  local text = file.text:match("^%-%- (.-)\n\n") or ""
  local rest = text:match("^" .. path:gsub("%.", "%%.") .. "[^:\n]*: (.*)$")
              or text:match("^%S+ and " .. path:gsub("%.", "%%.") .. ": (.*)$")
  local lines = rest and rest:gsub("\n%-%- ?", "\n"):gsub("\n\n.*", "")
  return lines and lines:sub(1, 1):upper() .. lines:sub(2)
end


local function is_class(value)
  local class = type(value) == "table" and getmetatable(value)
  return type(class) == "table" and rawget(class, "__call") ~= nil
end


-- How well a block fits the name under which a module holds a value: 0 is not at all. The block may
-- be that of the file's result, of a field of the result, or of a local of the name.
local function fit(file, block, name, value)
  local alone = file.given.own and file.name:match("[%w_]+$") == name
  local good = 0
  if block.sep == ":" then return 0
  elseif block.owner and block.owner == file.returns and block.name == name then good = 8
  elseif block.owner then return 0
  elseif block.name == file.given[name] or alone and block.name == file.given.own then good = 4
  elseif block.name == name then good = 2 end
  return good > 0 and is_class(value) == (block.class ~= nil) and good + 1 or good
end


-- The block about a name that a module holds, and its file.
local function find_block(files, name, value)
  local best, block_file, most = nil, nil, 0
  for _, file in ipairs(files) do
    for _, block in ipairs(file.blocks) do
      local good = fit(file, block, name, value)
      if good > most then best, block_file, most = block, file, good end
    end
  end
  return best, block_file
end


-- The comment above a class's own method.
local function method_of(files, block, name)
  for _, file in ipairs(files) do
    for _, other in ipairs(file.blocks) do
      if other.owner == block.name and other.name == name then return other end
    end
  end
end


-- "(options?: heed.Cache.options)" as parameters, of what has no others.
local function overload_params(makes)
  local params = {}
  for name, optional, type in makes:gmatch("([%w_]+)([?]?): ([^,()]+)") do
    params[#params + 1] = {name = shown_name(name, optional == "?", type),
                           optional = optional == "?", type = type}
  end
  return params
end


-- How an object of a class is made, by its overload or as its `init` is called; and is called.
local function add_uses(entry, files, path, block)
  local init, forward = method_of(files, block, "init"), method_of(files, block, "forward")
  local args = block.makes and shown_overload(block.makes) or init and shown_arguments(init)
  entry.call = ("heed.%s(%s)"):format(path, args or "...")
  if init then entry.params = init.params end
  if forward and forward.params[1] then
    local call = ("%s(%s)"):format(path:match("[%w_]+$"):lower(), shown_arguments(forward))
    entry.called = entry_of(path, call, forward)
  end
end


-- The entry of x:leaky_relu for the layer LeakyReLU, which has no comment of its own.
local function as_layer(groups, path)
  local plain = path:match("[%w_]+$"):lower()
  for _, group in ipairs(groups) do
    for _, entry in ipairs(group) do
      local name, args = entry.call:match("^x:([%w_]+)(%b())$")
      if name and name:find("%w$") and name:gsub("_", "") == plain then
        local text = ("`heed.%s` as a layer, made with what stands behind x there."):format(name)
        return {path = path, call = "heed." .. path .. args, text = text, examples = {},
                params = entry.params, returns = {}, aliases = {}}
      end
    end
  end
end


-- The entry of a value; false for a value that is for heed's own files alone.
local function of_module(groups, files, path, name, value)
  local block, file = find_block(files, name, value)
  if block and block.hidden then return false end
  if not block then return is_class(value) and as_layer(groups, path) or nil end
  local entry = entry_of(path, ("heed.%s(%s)"):format(path, shown_call(block)), block)
  if is_class(value) then add_uses(entry, files, path, block) end
  if #entry.params == 0 and block.makes then entry.params = overload_params(block.makes) end
  if entry.text == "" then entry.text = head_of(file, path) or "" end
  return entry
end


-- Classes that are all that their file returns, but no functions of a module.
local CLASSES = {Cache = true, Model = true, Module = true}

-- Methods that the library calls, and users don't.
local SPECIAL = {init = true, forward = true, describe = true, reset = true}

-- Methods of objects: those of classes, and of tables of methods.
local function add_methods(groups, title, files, path)
  for _, file in ipairs(files) do
    for _, block in ipairs(file.blocks) do
      local owner = block.owner
      local of_class = owner and (CLASSES[owner] or owner ~= file.returns and owner ~= "heed")
      if of_class and block.args and not block.hidden and not SPECIAL[block.name] and
         not block.name:find("^_") and block.text[1] then
        local object = owner == "methods" and path:match("[%w_]+$") or owner:lower()
        if block.sep == "." then object = owner end
        local call = object .. block.sep .. block.name .. "(" .. shown_arguments(block) .. ")"
        add(groups, title, entry_of(object .. block.sep .. block.name, call, block))
      end
    end
  end
end


-- Adds a module's values, then its methods, then the modules within it.
local function add_module(groups, missing, files, path, module)
  local title, within = "heed." .. path, {}
  for _, name in ipairs(public_names(module)) do
    local value, own = module[name], path .. "." .. name
    if type(value) == "table" and not is_class(value) then within[#within + 1] = name
    elseif type(value) == "function" or is_class(value) then
      local entry = of_module(groups, files, own, name, value)
      if entry then add(groups, title, entry)
      elseif entry == nil then missing[#missing + 1] = own end
    end
  end
  if not path:find("%.") then add_methods(groups, title, files, path) end
  for _, name in ipairs(within) do
    add_module(groups, missing, files, path .. "." .. name, module[name])
  end
end


-- The names in a table of heed's own file, with their files: `parts`, and `functions`.
local function names_in(text, table_name)
  local list = {}
  local written = text:match("local " .. table_name .. " = (%b{})")
  for name, file in written:gmatch('([%w_]+) = "(%w+)"') do
    list[#list + 1] = {name = name, file = file}
  end
  return list
end


-- Functions of heed that are the only ones of their file.
local function add_functions(groups, missing, heed, read)
  for _, f in ipairs(names_in(read("heed"), "functions")) do
    local files = files_of("heed." .. f.file, read)
    local entry = files[1] and of_module(groups, files, f.name, f.name, heed[f.name])
    if entry then add(groups, "Files, captures, generation, help", entry)
    elseif files[1] then missing[#missing + 1] = f.name end
  end
end


---All that is written about the module, in groups.
---@param heed heed
---@param read fun(name: string): string? the text of a module of heed's
---@return table groups lists of entries, with a title
---@return string[] missing what has no comment
---@return table known the classes of heed.classes
function reference.all(heed, read)
  local groups, missing, known = {}, {}, {}
  local plain = read
  function read(name)
    local text = plain(name)
    if text then classes.read(known, text) end
    return text
  end
  add_meta(groups, reference.blocks(read("heed.meta")))
  add_functions(groups, missing, heed, read)
  for _, found in ipairs(names_in(read("heed"), "parts")) do
    local part = found.name
    local files, title = files_of("heed." .. part, read), "heed." .. part
    local module = files[1] and heed[part] or {}
    if type(module) == "function" then
      local entry = of_module(groups, files, part, part, module)
      if entry then add(groups, title, entry) else missing[#missing + 1] = part end
    else add_module(groups, missing, files, part, module) end
  end
  return groups, missing, known
end


return reference
