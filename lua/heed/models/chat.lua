-- The chat template of a directory: messages become a text, and ids in which no message can make a
-- special token. The source is read with the model, and understood when it is first used.

local heed = require "heed"
local options = require "heed.internal.options"
local reading = require "heed.models.reading"
local refuse = require "heed.internal.refuse"
local template = require "heed.models.chat.template"
local Text = require "heed.models.chat.text"
local values = require "heed.models.chat.values"
local core = require "heed.core"

local fail, kind = heed.fail, options.kind

---Chats as a directory describes them.
---@class heed.models.Chat
---@field sources table<string, string> templates by their names: "default", and others
---@field tokens table<string, string> the texts of special tokens by their roles: bos_token, …
---@field ready table<string, function> templates that were understood
local Chat = {__name = "heed.models.Chat"}
Chat.__index = Chat


-- Reading ---------------------------------------------------------------------------------

local TOKENS <const> = {"bos", "cls", "eos", "mask", "pad", "sep", "unk"}

-- Adds the texts of special tokens that an object of a directory names.
local function add_tokens(tokens, object, file)
  for _, role in ipairs(TOKENS) do
    local name = role .. "_token"
    local value = object[name]
    if type(value) == "table" then value = value.content end
    if value ~= nil and type(value) ~= "string" then
      refuse.with("%s: a text expected as %s", file, name)
    end
    tokens[name] = value or tokens[name]
  end
end


-- Templates of tokenizer_config.json: one text, or a list of {name, template}.
local function add_sources(sources, value, file)
  if type(value) == "string" then
    sources.default = value
    return
  end
  local bad = type(value) ~= "table"
  for _, each in ipairs(bad and {} or value) do
    local good = type(each) == "table" and type(each.name) == "string"
                 and type(each.template) == "string"
    bad = bad or not good
    if good then sources[each.name] = each.template end
  end
  if bad then
    refuse.with("%s: a text, or a list of {name, template} expected as chat_template", file)
  end
end


local CONFIG <const>, MAP <const> = "tokenizer_config.json", "special_tokens_map.json"
local PROCESSOR <const>, FILE <const> = "chat_template.json", "chat_template.jinja"


---Chats as a directory describes them.
---@param path string
---@return heed.models.Chat
function Chat.read(path)
  local self = setmetatable({sources = {}, tokens = {}, ready = {}}, Chat)
  local config = reading.json(path, CONFIG) or {}
  add_tokens(self.tokens, reading.json(path, MAP) or {}, MAP)
  add_tokens(self.tokens, config, CONFIG)
  if config.chat_template ~= nil then add_sources(self.sources, config.chat_template, CONFIG) end
  local processor = reading.json(path, PROCESSOR)
  if processor then add_sources(self.sources, processor.chat_template, PROCESSOR) end
  self.sources.default = core.read_file(path .. "/" .. FILE) or self.sources.default
  return self
end


---What a file says about chats in which templates stand beside the names of tokens.
---@param sources table<string, string> templates by their names
---@param tokens table<string, string> such as {bos_token = "<s>"}
---@return heed.models.Chat
function Chat.of(sources, tokens)
  return setmetatable({sources = sources, tokens = tokens, ready = {}}, Chat)
end


-- Rendering -----------------------------------------------------------------------------------

-- Fields that may stand in the place of content, as published templates read them.
local INSTEAD <const> = {
  "function_call", "reasoning_content", "thinking", "tool_calls", "tool_responses",
}

local function is_content(value)
  return Text.is(value) or values.is_list(value) or values.is_map(value)
end

local function has_content(message)
  local content = message.content
  if content ~= nil and not rawequal(content, values.none) then return is_content(content) end
  for _, name in ipairs(INSTEAD) do
    if is_content(message[name]) then return true end
  end
  return false
end


local function check_message(message, i)
  local role = values.is_map(message) and message.at.role
  if not Text.is(role) then
    fail("chat: a message expected at position %d, as in {role = \"user\", content = \"…\"}, "
         .. "got %s", i, values.kind(message))
  elseif not has_content(message.at) then
    local content = message.at.content
    fail("chat: a text or a list of parts expected as content of message %d, or tool_calls in its "
         .. "place, got %s", i, content == nil and "nil" or values.kind(content))
  end
end


-- The messages of a call, as values.
local function read_messages(given)
  local is_json = type(given) == "string" and given:find("^%s*%[")
  local list = type(given) == "table" and values.from(given, "messages")
               or is_json and values.from_json(given, "messages")
  if not list or not values.is_list(list) then
    fail("chat: a list of messages expected, {{role = \"user\", content = \"…\"}}, or its JSON, "
         .. "got %s", list and "a table with names" or kind(given))
  end
  for i = 1, list.n do check_message(list[i], i) end
  return list
end


-- A value that may be given as JSON, which keeps the order of names.
local function given_value(value, name)
  if type(value) == "string" then return values.from_json(value, name) end
  return values.from(value, name)
end


-- The variables of a template. Tools and documents are none where there are none: transformers
-- always passes them.
local function variables_of(self, messages, o)
  local own = {
    messages = read_messages(messages), add_generation_prompt = o.prompt,
  }
  for name, text in pairs(self.tokens) do own[name] = Text.of(text) end
  for _, name in ipairs{"tools", "documents"} do
    local value = o[name]
    if value ~= nil and type(value) ~= "table" and type(value) ~= "string" then
      fail("chat: a list, or a text of JSON, expected as option %s, got %s", name, kind(value))
    end
    own[name] = value == nil and values.none or given_value(value, "option " .. name)
  end
  local more = o.variables ~= nil and given_value(o.variables, "option variables")
  if more and not values.is_map(more) then
    if not values.is_list(more) or more.n > 0 then
      fail("chat: a table with names expected as option variables, got %s", kind(o.variables))
    end
  end
  for _, name in ipairs(more and more.names or {}) do own[name] = more.at[name] end
  return own
end


-- The text that a function of the caller's gives: a list of texts, those of messages in tables.
local function written_by(f, messages, o)
  local parts, texts = f(messages, o), {}
  if type(parts) ~= "table" then
    fail("chat: a list of texts expected from option template, those of messages in tables, got %s",
         kind(parts))
  end
  options.check_list("chat", parts)
  for i = 1, options.last(parts) do
    local part = rawget(parts, i)
    local inner = type(part) == "table" and rawget(part, 1)
    if type(part) == "string" then texts[i] = Text.of(part)
    elseif type(inner) == "string" then texts[i] = Text.of(inner, "m")
    else
      fail("chat: a text, or {text} expected as part %d of option template, got %s", i, kind(part))
    end
  end
  return Text.join(texts)
end


local function source_of(self, name)
  if name:find("{[{%%#]") then return name end
  local source = self.sources[name]
  if source then return source end
  if next(self.sources) == nil then
    fail("chat: the directory has no chat template; a function, or a template of Jinja expected as "
         .. "option template")
  end
  fail("chat: there is no template '%s'; %s", name,
       options.hint(name, options.names(self.sources)))
end


local function ready(self, name)
  local render = self.ready[name]
  if not render then
    render = template.read(source_of(self, name))
    if self.sources[name] then self.ready[name] = render end
  end
  return render
end


---The text of messages.
---@param messages table[]|string
---@param o heed.models.chat.options
---@return heed.chat.Text
function Chat:render(messages, o)
  if o.template ~= nil and type(o.template) ~= "string" then
    return written_by(options.callable("chat", "option template", o.template), messages, o)
  end
  local name = o.template or o.tools ~= nil and self.sources.tool_use and "tool_use" or "default"
  return ready(self, name)(variables_of(self, messages, o))
end


---Ids of a text: special tokens are found where the template wrote them, nowhere else.
---@param tokenizer heed.Tokenizer
---@param text heed.chat.Text
---@return heed.Tensor ids int64 (T)
function Chat.encode(tokenizer, text)
  local parts = text:own_parts()
  local parse = #parts > 0 and heed.tensor(parts, {dtype = "int64", device = "cpu"})
  return tokenizer:encode(text.bytes, {special = false, parse = parse})
end


Chat.known = {
  documents = options.any, ids = false, prompt = false, template = options.any,
  tools = options.any, variables = options.any,
}

return Chat
