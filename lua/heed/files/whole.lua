-- Files that are read whole, by a parser that refuses what is malformed; and what a path is.

local core = require "heed.core"
local heed = require "heed"
local options = require "heed.internal.options"
local refuse = require "heed.internal.refuse"

local whole = {}


---Refuses any value but a path; and all of them where the host opened this state without files.
---@param who string the function that it was given to
---@param path any
---@param what? string an option's name, in place of argument 'path'
function whole.check_path(who, path, what)
  core.check_files(who)
  if type(path) == "string" and path ~= "" and not path:find("\0", 1, true) then return end
  heed.fail("%s: a path expected%s, got %s", who, what and " as " .. what or "",
            options.kind(path))
end


---Reads a file. A parser refuses its text by `refuse.with`; nil and a message come back then, as
---they do for a file that cannot be read.
---@param who string
---@param path string
---@param parse fun(text: string, ...): any, any
---@param ... any what the parser is given beside the text
---@return any read
---@return any more the parser's second result, or a message
function whole.read(who, path, parse, ...)
  whole.check_path(who, path)
  local text, why = core.read_file(path)
  if not text then return nil, ("%s: %s"):format(who, why) end
  local read, more = refuse.try(parse, text, ...)
  if read then return read, more end
  return nil, ("%s: %s: %s"):format(who, path, more)
end


return whole
