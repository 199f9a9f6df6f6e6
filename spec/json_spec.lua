-- JSON: texts that are read, texts that are refused and why; written values are read back.

local json = require "heed.files.json"
local message = require "spec.support.message"
local plain = require "spec.support.json"

local accepted = {
  ['[]'] = {}, ['{}'] = {}, [' [ ] '] = {}, ['\t\n\r[1]'] = {1},
  ['0'] = 0, ['-1'] = -1, ['1.5'] = 1.5, ['-0.5e-1'] = -0.05, ['1E+2'] = 100.0, ['20e1'] = 200.0,
  ['9223372036854775807'] = math.maxinteger, ['-9223372036854775808'] = math.mininteger,
  ['9223372036854775808'] = 2.0 ^ 63, ['1e-400'] = 0.0,
  ['true'] = true, ['false'] = false,
  ['123456789012345678'] = 123456789012345678, ['-1234567890123456789'] = -1234567890123456789,
  ['999999999999999999'] = 999999999999999999, ['-0.0'] = -0.0, ['-0e1'] = -0.0, ['0.0'] = 0.0,
  ['""'] = "", ['"a\\"\\\\\\/\\b\\f\\n\\r\\t"'] = 'a"\\/\b\f\n\r\t', ['"\127"'] = "\127",
  ['"\\u0041\\u00e9\\u20AC"'] = "Aé€", ['"\\uD834\\uDD1E"'] = "𝄞", ['"\\u0000"'] = "\0",
  ['"\u{2028}\u{FFFF}\u{10FFFF}"'] = "\u{2028}\u{FFFF}\u{10FFFF}",
  ['[[],{"a":[1,"x"]},true]'] = {{}, {a = {1, "x"}}, true},
  ['{"":0,"a":{"b":{"c":[]}}}'] = {[""] = 0, a = {b = {c = {}}}},
}

local refused = {
  ["expected a value at byte 1, got the end"] = {""},
  ["expected a value at byte 3, got the end"] = {" \n"},
  ['expected a value at byte 1, got "à"'] = {"à!"},
  ['expected a value at byte 1, got "अ"'] = {"अ!"},
  ['expected a value at byte 1, got "߿"'] = {"߿!"},
  ['expected a value at byte 1, got "\u{ffff}"'] = {"\u{ffff}!"},
  ['expected a value at byte 1, got "\u{10000}"'] = {"\u{10000}!"},
  ["expected a value"] = {
    "[,1]", "[1,]", "[,]", "[1,,2]", "*", "'a'", "NaN", "Infinity", "nul", "True", "+1", ".5",
    "[truth]", '{"a":}', "[a]", "\u{FEFF}{}", "[\\u0020]", "undefined", "\0", "\f[]", '["a", ]',
  },
  ['expected ","'] = {
    "[1 2]", '{"a":1 "b":2}', "[1", '{"a":1', "[1}", '{"a":1]', "[1.]", "[1e]", "[1e+]", "[1.2.3]",
    "[0x1]", '["a" "b"]', "[1:2]",
  },
  ['expected ":"'] = {'{"a" 1}', '{"a"}', '{"a",1}', '{"a"=1}'},
  ["expected a name"] = {
    "{1:2}", "{a:1}", '{"a":1,}', "{,}", "{null:1}", "{", "{'a':1}", "{[1]:1}",
  },
  ["expected the end"] = {"[] []", "1 2", "{}}", '"a""b"', "[1]x", "nullx", "[]\0"},
  ["bad number"] = {"01", "-01", "-", "--", "-x", "[00]", "[01x]", "-Infinity"},
  ["number out of range"] = {"1e400", "-1e400", ("9"):rep(400)},
  ["has no end"] = {'"', '"abc', '["a', '"\\"'},
  ["control character"] = {'"a\nb"', '"\t"', '"\0"', '"\31"', '"a long text, \31 and its end"'},
  ["bad escape"] = {'"\\x41"', '"\\a"', '"\\', '"\\\n"', "\"\\'\"", '"\\U0041"'},
  ["bad \\u escape"] = {'"\\u"', '"\\u12"', '"\\u12G4"', '"\\u-123"', '"\\u 123"'},
  ["half of a surrogate pair"] = {
    '"\\uD834"', '"\\uD834x"', '"\\uDD1E"', '"\\uD834\\u0041"', '"\\uDD1E\\uD834"',
    '"\\uD834\\uD834"', '"\\uDD1E\\uDD1E"',
  },
  ["invalid UTF-8 at byte 2"] = {
    '"\xff"', '"\xc0\x80"', '"\xe2\x82"', '"\xed\xa0\x80"', '"\xf4\x90\x80\x80"', '"\x80"',
    "[\xe9]",
  },
  ["nested too deep at byte 129"] = {("["):rep(129)},
  ['duplicate name "a"'] = {'{"a":1,"a":1}', '{"a":null,"b":2,"a":3}', '{"\\u0061":1,"a":2}'},
}


describe("json.decode", function()
  for text, value in pairs(accepted) do
    it(("reads %q"):format(text), function()
      local read, why = json.decode(text)
      assert.is_nil(why)
      assert.are.same(value, read)
      assert.are.equal(math.type(value), math.type(read))
    end)
  end

  for wanted, texts in pairs(refused) do
    for _, text in ipairs(texts) do
      it(("refuses %q: %s"):format(text:sub(1, 30), wanted), function()
        local read, why = json.decode(text)
        assert.is_nil(read)
        assert.is_truthy(why:find(wanted, 1, true), why)
      end)
    end
  end

  it("keeps null apart from nothing", function()
    local read = json.decode '{"a":null,"b":[null,1]}'
    assert.are.equal(json.null, read.a)
    assert.are.equal(json.null, read.b[1])
    assert.are.equal("null", tostring(json.null))
  end)

  it("keeps the sign of zero", function()
    assert.are.equal(-math.huge, 1 / json.decode "-0")
    assert.are.equal("-0.0", json.encode(-0.0))
  end)

  it("ends at a depth, not in a crash", function()
    local function nested(n) return ("["):rep(n) .. ("]"):rep(n) end
    assert.is_truthy(json.decode(nested(128)))
    local deep = {nested(129), ("["):rep(1000000), ('{"a":'):rep(1000000)}
    for _, text in ipairs(deep) do
      local read, why = json.decode(text)
      assert.is_nil(read)
      assert.is_truthy(why:find("nested too deep", 1, true))
    end
    assert.is_nil(json.decode("[[1]]", 1))
    assert.are.same({1}, json.decode("[1]", 1))
  end)

  it("survives every truncation and every changed byte", function()
    local text = '{"a":[1,-2.5e3,"x\\u0041\\n€"],"b":{"c":null,"d":true}}'
    for n = 0, #text - 1 do
      local read, why = json.decode(text:sub(1, n))
      assert.is_nil(read)
      assert.is_string(why)
    end
    for n = 1, #text do
      for _, c in ipairs {"\0", '"', "\\", "[", "}", "\xff", "9", ","} do
        local read, why = json.decode(text:sub(1, n - 1) .. c .. text:sub(n + 1))
        assert.is_true(read ~= nil or type(why) == "string")
      end
    end
  end)

  -- Texts that are damaged at random, in the pieces that JSON is made of.
  local PIECES <const> = {
    "{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "\\n", "00", "dD83", "\\uDE00", "1", "-", "e9",
    ".5", "e999", "true", "null", "fals", " ", "\t", "\0", "é", "\xff", "\xe2", "\u{1F600}", '"a"',
    '"a":1,', "18446744073709551616", "-9223372036854775808", '"\\""',
  }

  local function damaged(text)
    for _ = 1, math.random(0, 3) do
      local from = math.random(#text + 1)
      local piece = math.random(5) > 1 and PIECES[math.random(#PIECES)] or ""
      text = text:sub(1, from - 1) .. piece .. text:sub(from + math.random(0, 3))
    end
    return text
  end

  it("reads and refuses as the reader in plain Lua does", function()
    local base <const> =
      '{"a":[1,-2.5e3,"x\\u0041\\n€ and a longer text"], "b" : {"c":null,"d\\ud83d\\ude00":true}}'
    local Array <const> = getmetatable(json.array{})
    local faults = 0
    math.randomseed(26)
    for _ = 1, 20000 do
      local text, depth = damaged(base), math.random(1, 4)
      local value, why = json.decode(text, depth)
      local wanted, wanted_why = plain.decode(text, depth, json.null, Array)
      if why ~= wanted_why then assert.equal(wanted_why, why, ("%q"):format(text)) end
      assert.same(wanted, value)
      if why then faults = faults + 1 end
      local good, check_why = json.check(text, depth)
      if not (why and why:find "duplicate") then assert.equal(why, check_why) end
      assert.equal(not check_why, good == true)
    end
    assert.is_true(faults > 5000 and faults < 19000, faults)
  end)

  it("takes only a string", function()
    assert.has_error(function() json.decode(nil) end)
    assert.has_error(function() json.decode {} end)
  end)
end)


describe("json.encode", function()
  it("sorts names and leaves out spaces", function()
    assert.are.equal('{"a":[1,2.5,"x"],"b":true,"c":null}',
      json.encode {c = json.null, b = true, a = {1, 2.5, "x"}})
  end)

  it("distinguishes an empty list from an empty object", function()
    assert.are.equal("{}", json.encode {})
    assert.are.equal("[]", json.encode(json.array {}))
    assert.are.equal('{"a":[],"b":{}}', json.encode(json.decode '{"b":{},"a":[]}'))
  end)

  it("escapes what it must", function()
    assert.are.equal([["\u0000\u001f\"\\\n\t/é"]], json.encode "\0\31\"\\\n\t/é")
  end)

  it("writes numbers that read back the same, in few digits", function()
    assert.are.equal("[0.1,3.0,1e+300,7]", json.encode {0.1, 3.0, 1e300, 7})
    for _, value in ipairs {1 / 3, 2 ^ 53 + 2.0, 5e-324, 1.7976931348623157e308, math.pi * 1e-7,
      math.maxinteger, math.mininteger} do
      local read = json.decode(json.encode(value))
      assert.are.equal(value, read)
      assert.are.equal(math.type(value), math.type(read))
    end
  end)

  it("writes a point in every locale", function()
    for _, name in ipairs {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"} do
      if os.setlocale(name) then
        local text, read = json.encode {1.5}, json.decode "[2.5]"
        os.setlocale "C"
        assert.are.equal("[1.5]", text)
        assert.are.same({2.5}, read)
      end
    end
  end)

  it("writes what a log needs for NaN", function()
    assert.are.equal('[null,null,1.0]', json.encode({0 / 0, math.huge, 1.0}, "null"))
  end)

  it("refuses what JSON cannot hold", function()
    local circle = {}
    circle[1] = circle
    for _, value in ipairs {0 / 0, math.huge, "\xff", print, circle, {1, a = 2}, {[2] = 1},
      {[true] = 1}, {["\xff"] = 1}, {a = print}} do
      local text, why = json.text(value)
      assert.is_nil(text)
      assert.matches("json.encode: " .. why, message(json.encode, value), 1, true)
    end
    assert.has_error(function() json.encode(nil) end)
    assert.equal('{"a":[1]}', (json.text{a = {1}}))
  end)
end)


describe("json.before", function()
  it("orders by bytes", function()
    local names = {"b", "a.10", "a.2", "B", "é", "", "a", "aa"}
    table.sort(names, json.before)
    assert.are.same({"", "B", "a", "a.10", "a.2", "aa", "b", "é"}, names)
  end)
end)
