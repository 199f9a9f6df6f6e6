-- Files of formats that heed neither writes nor reads: what save and load say of them.

local heed = require "heed"

local made = {}

local function new_path(ending)
  local path = os.tmpname()
  made[#made + 1] = path
  made[#made + 1] = path .. ending
  return path .. ending
end


local function write(path, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end


local function refusal(path, bytes)
  write(path, bytes)
  local loaded, why, missing = heed.load(path)
  assert.is_nil(loaded)
  assert.is_false(missing)
  assert.is_truthy(why:find("load: " .. path .. ": ", 1, true), why)
  return why
end


teardown(function()
  for _, path in ipairs(made) do os.remove(path) end
end)


describe("load", function()
  it("says that a pickle is one, and what to write instead", function()
    for _, bytes in ipairs {
      "\x80\2}.", "\x80\4\x95\1\0\0\0\0\0\0\0}\x94.", "\x80\2}q\0.........................",
      "\x80\2\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",       -- PyTorch's, before it wrote archives
    } do
      local why = refusal(new_path ".pt", bytes)
      assert.is_truthy(why:find("this is a pickle of Python", 1, true), why)
      assert.is_truthy(why:find("safetensors.torch.save_file", 1, true), why)
    end
  end)

  it("says that an archive is one", function()
    for _, ending in ipairs {".pt", ".npz"} do
      local why = refusal(new_path(ending), "PK\3\4" .. ("\0"):rep(40))
      assert.is_truthy(why:find("this is a zip archive, such as PyTorch's .pt", 1, true), why)
    end
  end)

  it("tells a pickle from a long header that begins with the same bytes", function()
    local path, n = new_path ".safetensors", 0x280280
    write(path, string.pack("<I8", n) .. "{}" .. (" "):rep(n - 2))
    assert.same({}, (assert(heed.load(path))))
  end)
end)


describe("save", function()
  it("refuses the endings of formats that it does not write, and says what to write", function()
    for ending, what in pairs {
      [".pt"] = "a pickle: end the path in .safetensors", [".PTH"] = "a pickle",
      [".pkl"] = "a pickle", [".npz"] = "an archive of arrays: end the path in .safetensors",
    } do
      local path = new_path(ending)
      local good, why = pcall(heed.save, path, {x = heed.ones(2)})
      local wanted = ("save: heed writes no %s file, which is %s"):format(ending:lower(), what)
      assert.is_false(good)
      assert.is_truthy(why:find(wanted, 1, true), why)
      assert.is_nil(io.open(path))
    end
    assert.is_true(heed.save(new_path ".pt.safetensors", {x = heed.ones(2)}))
  end)
end)
