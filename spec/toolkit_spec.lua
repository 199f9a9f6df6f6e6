-- The flags with which `make cuda` calls nvcc, by its version: compilers that only say which one
-- they are.

local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a")
end

local MAKE <const> = "MAKEFLAGS= MAKELEVEL= make --no-print-directory KIND=toolkit Q= "
                     .. "CUDART=/x/libcudart_static.a NVCC=%s %s"

-- The commands that make runs, or with "-n" would do, with nvcc of this version.
local function made(version, goals)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write("#!/bin/sh\n", ("echo 'Cuda compilation tools, release %s, V%s.1'\n")
             :format(version, version))
  file:close()
  os.execute("chmod +x " .. path)
  local said = output_of(MAKE:format(path, goals))
  os.remove(path)
  os.execute("rm -rf build/toolkit")
  return said
end

-- The command that compiles this file.
local function compiles(text, name)
  for line in text:gmatch("[^\n]+") do
    if line:find("-c -o build/toolkit/cuda/" .. name .. ".cu.o", 1, true) then return line end
  end
end


describe("the CUDA toolkit", function()
  it("decides for which architectures there is code", function()
    local old = compiles(made("12.0", "-n cuda-all"), "device/plugin")
    assert.matches("code=sm_80 .*code=sm_90a .*code=compute_80 ", old)
    assert.is_nil(old:find("sm_1"))
    assert.is_nil(old:find("compress", 1, true))
    assert.is_truthy(old:find([[HEED_ARCHITECTURES='"8.0 9.0a and PTX 8.0"']], 1, true))
    for _, version in ipairs{"12.8", "13.0"} do
      local new = compiles(made(version, "-n cuda-all"), "device/plugin")
      assert.matches("code=sm_80 .*code=sm_90a .*code=sm_100 .*code=sm_120 ", new)
      assert.is_truthy(new:find(" --compress-mode=size ", 1, true))
      assert.is_truthy(new:find([['"8.0 9.0a 10.0 12.0 and PTX 8.0"']], 1, true))
    end
  end)

  it("builds for one architecture", function()
    local line = compiles(made("12.9", "-n cuda ARCH=86"), "device/plugin")
    assert.is_truthy(line:find([[HEED_ARCHITECTURES='"8.6"']], 1, true))
    assert.is_nil(line:find("sm_90", 1, true))
    assert.is_truthy(line:find(" -Xfatbin=-compress-all ", 1, true))
  end)

  it("is refused below 12.0, and where nvcc says no version", function()
    for _, version in ipairs{"11.8", "x.y"} do
      local said = made(version, "cuda ARCH=80")
      assert.matches("\nCUDA 12%.0 or later is needed; this is no nvcc of it: /", "\n" .. said)
      assert.matches("Error 1\n", said)
    end
  end)

  it("has the static runtime, or make says what is missing", function()
    assert.matches("no libcudart_static%.a is below ", made("12.0", "cuda ARCH=80 CUDART="))
  end)
end)
