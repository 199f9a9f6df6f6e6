-- Functions of heed.core that the Lua half alone calls: each names the argument that is of another
-- type than it takes, and has done nothing then. And the results of an attempt.

local core = require "heed.core"
local heed = require "heed"
local message = require "spec.support.message"

local function f() end

local tok = assert(heed.tokenizer.load "spec/golden/tokenizers/bpe_gpt2").native
local bytes = heed.zeros({6}, {dtype = "uint8", device = "cpu"})
local file = assert(core.open_file "spec/support/message.lua")

-- Function, its arguments, and by their positions the types that Lua's own check names. Nothing
-- else is wrong with them.
local calls = {
  {"add_hook", {heed.ones(2), f}, {[2] = "function"}},
  {"called", {"f", f}, {"string"}},
  {"check_entries", {"f", 1, "what"}, {"string", "number", "string"}},
  {"check_files", {"f"}, {"string"}},
  {"check_room", {"f", 1, "what"}, {"string", "number", "string"}},
  {"clip_gradients", {{}, 2, 1}, {"table", "number", "number"}},
  {"commit", {"f", {}}, {"string", "table"}},
  {"commit_during", {"f", {}, {}, f}, {"string", "table", "table"}},
  {"crc32", {"x", 0}, {[2] = "number"}},
  {"file_tensor", {file, 0, "who", {1}, "uint8"}, {[3] = "string"}},
  {"fits", {1, {}}, {[2] = "table"}},
  {"frames", {f, f}, {"function", "function"}},
  {"hint", {"a", {"b"}}, {"string", "table"}},
  {"json.check", {"[]", 9}, {"string"}},
  {"json.decode", {"[]", 9}, {"string"}},
  {"json.entry", {"{}", 1, nil, {}, {}}, {"string", [4] = "table", [5] = "table"}},
  {"json.first", {"[]", 1}, {"string"}},
  {"layer_enterer", {{}, {}, f}, {"table", "table", "function"}},
  {"map_file", {file, "name"}, {[2] = "string"}},
  {"nearest", {"a", {"b"}}, {"string", "table"}},
  {"optim_step", {{}, {}, {}, {}}, {"table", "table", "table", "table"}},
  {"pass", {0}, {"number"}},
  {"png_rows", {bytes, "", 2, 2, 1}, {[2] = "string"}},
  {"poll", {"f"}, {"string"}},
  {"put_file", {file, "x"}, {[2] = "string"}},
  {"raise", {"why"}, {"string"}},
  {"readline.add", {"line"}, {"string"}},
  {"readline.attach", {f}, {"function"}},
  {"record", {{}, {}, f}, {"table", "table", "function"}},
  {"refuse_dot", {"f"}, {"string"}},
  {"refuse_option", {"f", "a", {}}, {"string", [3] = "table"}},
  {"remove_hook", {-1}, {"number"}},
  {"require_grad", {{}, true, {}}, {"table", [3] = "table"}},
  {"set_fields", {{}}, {"table"}},
  {"tell_options", {"no operation", {"a"}}, {"string"}},
  {"text.encode", {tok, "a", "b", true, true, 0}, {[2] = "string", [3] = "string",
                                                   [6] = "number"}},
  {"text.find", {tok, "a"}, {[2] = "string"}},
  {"text.read", {"{}"}, {"string"}},
  {"text.trainer", {"{}"}, {"string"}},
  {"watched", {{}, f, {}}, {"table", "function", "table"}},
  {"with_generators", {{}, f}, {"table"}},
}


describe("a function of heed.core", function()
  for _, row in ipairs(calls) do
    local name, arguments, types = table.unpack(row)
    it("names the argument that is of another type: " .. name, function()
      local part, own = name:match "^(%w+)%.(%w+)$"
      local call = part and core[part][own] or core[name]
      local n = 0
      for i in pairs(arguments) do n = math.max(n, i) end
      for i, wanted in pairs(types) do
        local changed = table.move(arguments, 1, n, 1, {})
        changed[i] = true
        assert.matches(("bad argument #%d to '[^']*' %%(%s expected, got boolean%%)")
                       :format(i, wanted), message(call, table.unpack(changed, 1, n)))
      end
    end)
  end
end)


describe("an attempt", function()
  it("gives what its function gives, and nothing where that fails or within another", function()
    local function attempt(...) return table.pack(core.attempt(...)) end
    local function all(...) return ... end
    assert.same({1, nil, 3, n = 3}, attempt(all, 1, nil, 3))
    assert.same({n = 0}, attempt(error, "no"))
    assert.same({0, 7, n = 2}, attempt(function() return attempt(all, 1).n, 7 end))
    assert.same({5, n = 1}, attempt(all, 5))
    assert.matches("a function expected", message(core.attempt, 5))
  end)
end)
