-- Specs and tests that cannot run in a state that its host sealed (make sealed), each with its
-- reason: a spec of FILES, a test or a group of TESTS, and a test that reads one of MODULES count
-- as skipped.

local sealed = {}

---Whether this state is sealed.
sealed.here = type(require "heed") == "userdata"

-- Modules that scripts of a sealed state cannot require.
local MODULES <const> = {
  "heed.attention.places", "heed.attention.rope_scaling", "heed.constrain.json", "heed.core",
  "heed.generate.replay", "heed.help.entries", "heed.internal.attention", "heed.internal.classes",
  "heed.internal.options", "heed.internal.reference", "heed.internal.rule",
  "heed.internal.synonyms", "heed.internal.torch_words", "heed.models.lower", "heed.nn.hooks",
  "heed.nn.parameter", "heed.plot.gnuplot", "heed.plot.gnuplot_heat",
  "heed.train.validation",
}

-- Modules that need none of those: specs read their own data by copies of them.
local COPIES <const> = {
  ["heed.files.json"] = "lua/heed/files/json.lua",
  ["heed.internal.refuse"] = "lua/heed/internal/refuse.lua",
}

local PROCESSES <const> = "other processes are tried, which no host has sealed"
local CORE <const> = "scripts cannot reach heed.core"
local INNER <const> = "scripts cannot reach the library's own modules"
local LEVEL <const> = "only the host sets the level"
local LIMIT <const> = "a limit that was lowered stays"

local FILES <const> = {
  ["spec/alike_spec.lua"] = INNER, ["spec/atomic_spec.lua"] = "a hook is set, which takes debug",
  ["spec/api_spec.lua"] = PROCESSES, ["spec/bare_spec.lua"] = PROCESSES,
  ["spec/blocks_spec.lua"] = INNER, ["spec/gguf_models_spec.lua"] = INNER,
  ["spec/gguf_save_spec.lua"] = INNER, ["spec/gguf_spec.lua"] = INNER,
  ["spec/gguf_tokenizer_spec.lua"] = INNER,
  ["spec/complete_spec.lua"] = INNER, ["spec/core_spec.lua"] = CORE,
  ["spec/generation_config_spec.lua"] = INNER,
  ["spec/core_files_spec.lua"] = CORE, ["spec/core_arguments_spec.lua"] = CORE,
  ["spec/png_spec.lua"] = CORE,
  ["spec/ledger_spec.lua"] = PROCESSES, ["spec/prompt_spec.lua"] = PROCESSES,
  ["spec/reading_limits_spec.lua"] = INNER,
  ["spec/house_spec.lua"] = "sources are read",
  ["spec/lean_spec.lua"] = "a hook is set, which takes debug",
  ["spec/lower_spec.lua"] = INNER,
  ["spec/optimizers_spec.lua"] = CORE, ["spec/progress_spec.lua"] = INNER,
  ["spec/stubs_spec.lua"] = CORE,
  ["spec/suite_spec.lua"] = PROCESSES, ["spec/toolkit_spec.lua"] = PROCESSES,
}

-- For each spec, patterns of the names of tests and groups.
local TESTS <const> = {
  ["spec/attention_spec.lua"] = {
    ["^uses memory that grows with the lengths"] = LIMIT, ["^makes no matrix of bools"] = LIMIT,
  },
  ["spec/average_spec.lua"] = {["^lets a model have blocks"] = INNER},
  ["spec/bias_spec.lua"] = {["^needs memory that grows with the lengths"] = LIMIT},
  ["spec/data_spec.lua"] = {["^gives a batch for which memory was lacking"] = LIMIT},
  ["spec/chat_spec.lua"] = {
    ["^have special tokens of roles"] = INNER,
    ["^refuse the date where there is none$"] = "the library has an os of its own",
  },
  ["spec/print_spec.lua"] = {["^becomes numbers at its corners alone"] = LIMIT},
  ["spec/embed_spec.lua"] = {["^lose their case where the directory says so"] = INNER},
  ["spec/defaults_spec.lua"] = {
    ["^is in force: nn%.extend%."] = INNER, ["^is in force: options%.count%."] = INNER,
    ["^is in force: places%."] = INNER,
  },
  ["spec/docs_spec.lua"] = {
    ["^is right: .*heed%.core%."] = CORE, ["^is right: heed%.level"] = LEVEL,
    ["^names$"] = CORE, ["^docs/operations%.md$"] = CORE,
  },
  ["spec/durable_spec.lua"] = {
    ["^of a file that claims a terabyte"] = LIMIT, ["are beyond the limit gives nil"] = LIMIT,
    ["^counts against the memory limit$"] = LIMIT,
  },
  ["spec/errors_spec.lua"] = {
    ["refused: level: "] = LEVEL, ["^counts memory in units"] = LIMIT,
  },
  ["spec/freeing_spec.lua"] = {
    ["^keeps all that a method gives"] = "a class is written to",
    ["^keeps what a function in the place of warn"] = "the library has a warn of its own",
  },
  ["spec/generate_replay_spec.lua"] = {
    ["^gives way to calls"] = "a layer's class is written to",
    ["^passes on errors"] = "a layer's class is written to",
    ["^reads the prompt into the cache"] = "a cache's class is written to",
    ["^runs the model's code"] = "a layer's class is written to",
  },
  ["spec/help_spec.lua"] = {["^the reader of comments$"] = CORE},
  ["spec/hints_spec.lua"] = {
    ["^amounts of memory$"] = LIMIT,
    ["^raises what is no fault of the file as it came$"] = "a class is written to",
  },
  ["spec/json_spec.lua"] = {["^reads and refuses as the reader in plain Lua"] = CORE},
  ["spec/last_logits_spec.lua"] = {
    ["^are all that generation asks"] = "a model's class is written to",
    ["^are not, where something"] = "a model's class is written to",
  },
  ["spec/mask_spec.lua"] = {["^needs memory that grows with the lengths"] = LIMIT},
  ["spec/memory_spec.lua"] = {["^is asked for what tables of numbers hold$"] = LIMIT},
  ["spec/validation_spec.lua"] = {["^stands below what callbacks print$"] = INNER},
  ["spec/module_spec.lua"] = {
    ["^and a dot in the place of a colon, by every layer$"] = "classes are read by rawget",
    ["^are none that there are, and what they suggest exists$"] = INNER,
  },
  ["spec/path_spec.lua"] = {
    ["^keeps the frames of all modules"] = "metamethods of a sealed class have no name in a trace",
  },
  ["spec/position_spec.lua"] = {
    ["^knows the old names"] = "json.null is the library's own",
    ["^warns once where an offset"] = "the library has globals of its own",
    ["^uses all golden numbers"] = "tests that use the others are skipped",
  },
  ["spec/table_spec.lua"] = {
    ["^asks for each argument"] = CORE, ["^attention_mask has"] = CORE, ["^has rows"] = CORE,
    ["^is no field of heed"] = CORE,
  },
  ["spec/tokenizer_training_spec.lua"] = {["^keeps to the limit of memory"] = LIMIT},
  ["spec/texts_spec.lua"] = {["^asks for memory before its list is made$"] = LIMIT},
}


---Why a spec cannot run in this state; or nil.
---@param path string
---@return string?
function sealed.reason(path)
  return sealed.here and FILES[path] or nil
end


-- A table in the place of a module: reading it skips the test that runs.
local function stand_in(name, running)
  return setmetatable({}, {__index = function()
    if not running.skip then error(name .. " is read outside of a test", 2) end
    running.skip("a sealed state has no " .. name)
  end})
end


-- What copies get for a module that scripts cannot require.
local function require_for_copies(name)
  if name == "heed.core" then return {json = require "spec.support.json"} end
  return require(name)
end


local function replace_modules(running)
  local globals = setmetatable({require = require_for_copies}, {__index = _G})
  for name, path in pairs(COPIES) do
    package.preload[name] = function() return assert(loadfile(path, "t", globals))() end
  end
  for _, name in ipairs(MODULES) do
    package.preload[name] = function() return stand_in(name, running) end
  end
end


-- The pattern of a spec's list that a name has.
local function find(list, name)
  for pattern in pairs(list) do
    if name:find(pattern) then return pattern end
  end
end


-- Busted goes on with an event where its listener gives true, and drops the event with false.
local function listen(busted, event, f)
  busted.subscribe(event, function(...) return nil, f(...) ~= false end, {priority = 1})
end


---Makes busted skip what is listed, and fail where the list has a pattern that no name has.
---@param busted any
function sealed.arrange(busted)
  local running, list, found = {}, {}, {}
  replace_modules(running)
  listen(busted, {"file", "start"}, function(file) list = TESTS[file.name] or {} end)
  for _, kind in ipairs{"describe", "it"} do
    listen(busted, {"register", kind}, function(name, _, ...)
      local pattern = find(list, name)
      if not pattern then return end
      found[pattern] = true
      busted.publish({"register", "pending"}, name .. ": " .. list[pattern], function() end, ...)
      return false
    end)
  end
  listen(busted, {"test", "start"}, function(test) running.skip = test.env and test.env.pending end)
  listen(busted, {"test", "end"}, function() running.skip = nil end)
  listen(busted, {"file", "end"}, function(file)
    for pattern in pairs(list) do
      if not found[pattern] then error("no test of " .. file.name .. " has: " .. pattern) end
    end
  end)
end


return sealed
