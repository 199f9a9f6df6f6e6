-- Talks with a model of a directory.             lua5.4 examples/chat.lua [directory [line ...]]
--
-- Lines come from the arguments, or from the standard input, where an empty one ends the talk. What
-- the model has read stays in a cache: each turn reads what is new alone. Without a directory a
-- tiny model of random weights babbles, and a picture shows where its last layer looks.

local heed = require "heed"
local nn, plot = heed.nn, heed.plot

local TINY <const> = "spec/golden/models/llama3"
local path, lines = arg[1] or TINY, table.move(arg, 2, #arg, 1, {})
if not arg[1] then lines = {"Hello! What are you?", "Why?"} end

local model = assert(heed.models.load(path))
local tok = model.tokenizer

local messages = {}
local cache, known = nn.Cache(), {}                -- known: the ids whose keys it holds


-- How many ids at the start of a list the cache holds; at least one is read again.
local function held(ids)
  local n = 0
  while n < #ids - 1 and known[n + 1] == ids[n + 1] do n = n + 1 end
  return n
end


-- The weights of the last layer while the model writes, a row for each new id: means over heads.
local function watched(write)
  local rows, last = {}, "body.layers." .. #model.body.layers .. ".attend"
  model:on_weights(function(name, weights)         -- (1, heads, T, S)
    if name == last then rows[#rows + 1] = weights:mean(2)[1]:select(1, -1):totable() end
  end)
  local good, text, about = pcall(write)
  model:on_weights()
  if not good then error(text, 0) end
  return text, about, rows
end


-- Where each new id looked: its weights on the last ids before the reply.
local function show(rows, ids, new)
  local WIDTH <const> = 24
  local from = math.max(#ids - WIDTH, 0)
  local table_of, columns, names = {}, {}, {}
  for i = from + 1, #ids do columns[#columns + 1] = tok:decode({ids[i]}, {special = true}) end
  for i, id in ipairs(new:totable()) do
    table_of[i] = table.move(rows[i], from + 1, #ids, 1, {})
    names[i] = tok:decode{id}
  end
  print(plot.heat(heed.tensor(table_of), {rows = names, columns = columns}))
end


local function reply(line)
  messages[#messages + 1] = {role = "user", content = line}
  local ids = model:chat(messages, {prompt = true, ids = true}):totable()
  local n = held(ids)
  if cache:length() > n then cache:truncate(n) end
  local speech = {}
  local new, about, rows = watched(function()
    return model:generate(table.move(ids, n + 1, #ids, 1, {}), {
      max = arg[1] and 500 or 12, seed = 1, cache = cache,
      on_text = function(piece)
        io.write(piece)
        io.flush()
        speech[#speech + 1] = piece
      end,
    })
  end)
  print()
  messages[#messages + 1] = {role = "assistant", content = table.concat(speech)}
  known = ids                                      -- the reply is written anew by the template
  cache:truncate(#ids)
  return ids, new, about, rows
end


local function talk(line)
  if not arg[1] then print("> " .. line) end
  local ids, new, about, rows = reply(line)
  if arg[1] then return end
  print(("%d ids read, %d written, ended by %s"):format(#ids, #new, about.reason))
  show(rows, ids, new)
end


if #lines > 0 then
  for _, line in ipairs(lines) do talk(line) end
else
  io.write("> ")
  for line in io.lines() do
    if line == "" then break end
    talk(line)
    io.write("> ")
  end
end
