-- Files of text as lists: lines, CSV, JSON lines.

local heed = require "heed"
local data = heed.data

local path = os.tmpname()

local function written(text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

teardown(function() os.remove(path) end)


describe("data.lines", function()
  it("has the lines of a file without their ends", function()
    assert.same({"one", "", " two ", "three"}, data.lines(written "one\n\r\n two \r\nthree"))
    assert.same({"one"}, data.lines(written "\xEF\xBB\xBFone\n"))
    assert.same({"a\rb", "\0"}, data.lines(written "a\rb\n\0\n"))
    assert.same({}, data.lines(written ""))
  end)
end)


describe("data.csv", function()
  it("has rows of numbers and texts, and a header", function()
    local rows, header = data.csv(written "name,x,y\nann,1,-2.5\n\"b, \"\"c\"\"\",.5,1e3\r\n")
    assert.same({"name", "x", "y"}, header)
    assert.same({{"ann", 1, -2.5}, {'b, "c"', 0.5, 1000.0}}, rows)
    assert.equal("integer", math.type(rows[1][2]))
  end)

  it("leaves texts that look like numbers to some, but are none", function()
    local rows = data.csv(written '007,0x10,nan,"1",,-,.,1e,0.5,0\n', {header = false})
    assert.same({{"007", "0x10", "nan", "1", "", "-", ".", "1e", 0.5, 0}}, rows)
  end)

  it("leaves numbers that Lua has not as their texts, digit by digit", function()
    local largest, least = "9223372036854775807", "-9223372036854775808"
    local rows = data.csv(written(largest .. "," .. least .. ",+12\n"), {header = false})
    assert.same({{math.maxinteger, math.mininteger, 12}}, rows)
    for _, n in ipairs(rows[1]) do assert.equal("integer", math.type(n)) end
    local fields = {"9223372036854775808", "-9223372036854775809", "12345678901234567890", "1e400",
                    "-1e400"}
    assert.same({fields}, data.csv(written(table.concat(fields, ",")), {header = false}))
    assert.same({{1e19, 1e300}}, data.csv(written "10000000000000000000.0,1e300", {header = false}))
  end)

  it("takes other separators, lines within quotes, and no header", function()
    local rows, header = data.csv(written 'a;"1\n2"\n3;4', {header = false, separator = ";"})
    assert.same({{"a", "1\n2"}, {3, 4}}, rows)
    assert.is_nil(header)
    assert.same({{1, 2}}, data.csv(written "1^2", {header = false, separator = "^"}))
    assert.same({{1, 2}}, data.csv(written "1]2", {header = false, separator = "]"}))
    assert.same({{1, 2}}, data.csv(written "1\t2", {header = false, separator = "\t"}))
    local x = heed.tensor((data.csv(written "a,b\n1,2\n3,4\n")))
    assert.is_true(x:equal(heed.tensor{{1, 2}, {3, 4}}))
  end)

  it("takes blank lines at the end for none, where rows have several fields", function()
    for _, text in ipairs{"a,b\n1,2\n\n", "a,b\r\n1,2\r\n\r\n\n", "a,b\n1,2\n\r"} do
      assert.same({{1, 2}}, (data.csv(written(text))))
    end
    assert.same({{1}, {""}}, (data.csv(written "a\n1\n\n")))
    assert.matches("line 3: 2 fields expected", select(2, data.csv(written "a,b\n1,2\n\n3,4\n")))
  end)

  it("names the line of what is malformed", function()
    for text, message in pairs {
      ['a,b\n1,2\n3\n'] = "line 3: 2 fields expected, as in the first line, got 1",
      ['a\n"1\n2"\n3,4\n'] = "line 4: 1 fields expected, as in the first line, got 2",
      ['a,b\n"1,2\n'] = "line 2: a quote is open",
      ['a,b\rc,d\n'] = 'line 1: "\\n" expected behind a carriage return, got "c"',
      ['a,b\n1,"2"\r'] = 'line 2: "\\n" expected behind a carriage return, got the end of the file',
      ['a,b\n"1"x,2\n'] = 'line 2: "," or the end of the line expected behind a quote, got "x"',
    } do
      local rows, why = data.csv(written(text))
      assert.is_nil(rows)
      assert.equal("data.csv: " .. path .. ": " .. message, why:sub(1, #path + 12 + #message))
    end
  end)
end)


describe("data.json_lines", function()
  it("has a value for each line", function()
    local values = data.json_lines(written '{"text": "a", "label": 1}\n\n [1, 2]\r\n3')
    assert.same({{text = "a", label = 1}, {1, 2}, 3}, values)
  end)

  it("has a value for null, which is told apart", function()
    local row = data.json_lines(written '{"a": null, "b": [null, 1]}')[1]
    assert.is_true(data.is_null(row.a) and data.is_null(row.b[1]))
    for _, value in pairs{false, "null", {}, 0} do assert.is_false(data.is_null(value)) end
    assert.is_false(data.is_null(nil))
  end)

  it("names the line of what is malformed", function()
    local values, why = data.json_lines(written '{"a": 1}\n{"a": }\n')
    assert.is_nil(values)
    assert.is_truthy(why:find("data.json_lines: " .. path .. ": line 2: ", 1, true), why)
  end)
end)


describe("each of them", function()
  local all = {csv = data.csv, json_lines = data.json_lines, lines = data.lines}

  it("gives nil and a message where there is no such file", function()
    for name, f in pairs(all) do
      local list, why = f("/nonexistent/a.txt")
      assert.is_nil(list)
      assert.is_truthy(why:find("data." .. name .. ": /nonexistent/a.txt: ", 1, true), why)
    end
  end)

  it("refuses what is no path or option", function()
    for name, f in pairs(all) do
      for _, wrong in ipairs {"", "a\0b", 3, {}} do
        assert.error_matches(function() f(wrong) end, "data%." .. name .. ": .*a path expected")
      end
      assert.error_matches(function() f(path, {}, 3) end, "data%." .. name)
    end
    assert.error_matches(function() data.csv(path, {separator = ", "}) end, "option separator: one")
    assert.error_matches(function() data.csv(path, {separator = '"'}) end, "option separator: one")
    assert.error_matches(function() data.csv(path, {header = 1}) end, "data%.csv: .*header")
    assert.error_matches(function() data.csv(path, {sep = ";"}) end, "data%.csv: .*'sep'")
  end)

  it("asks for memory before its list is made", function()
    local limit = heed.memory().limit
    written(("\n"):rep(1 << 20))
    heed.memory{limit = heed.memory().live + (8 << 20)}
    for _, f in pairs(all) do
      local done, why = pcall(f, path)
      heed.memory{limit = limit}
      assert.is_false(done)
      assert.matches("the entries of the file", why)
      heed.memory{limit = heed.memory().live + (8 << 20)}
    end
    heed.memory{limit = limit}
  end)
end)
