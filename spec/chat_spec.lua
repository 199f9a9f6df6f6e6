-- Chat templates: what Jinja gave for those of published formats (spec/golden/models/chat), ids
-- that no message can change, and templates that are refused.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"

local HERE <const> = "spec/golden/models/chat/"
local FORMATS <const> = {
  "chatml", "gemma", "granite", "llama2", "llama3", "mistral", "phi3", "qwen3", "smollm3", "zephyr",
}
local FILES <const> = {
  ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
  ["generation_config.json"] = "generation_config.json",
  ["tokenizer.json"] = "tokenizer.json",
}
local HELLO <const> = {{role = "user", content = "Hello"}}


-- A model with files beside it, as values of JSON or texts.
local function load(files)
  local place <close> = directories.make("llama3", FILES)
  for name, value in pairs(files or {}) do
    directories.write(place.path .. "/" .. name,
                      type(value) == "string" and value or json.encode(value))
  end
  return assert(heed.models.load(place.path))
end


-- The objects of a file of cases that stand in lines of their own, as texts.
local function lines_of(text)
  local list = {}
  for line in text:gmatch('[^\n]+') do list[#list + 1] = line:match('^%s*({"messages".*}),?$') end
  return list
end


-- What a case is called with: its messages as tables or as JSON; variables as JSON, whose names
-- have an order.
local function call(m, case, line, as_json)
  local variables, messages = line:match('"variables":(%b{})'), line:match('"messages":(%b[])')
  assert.same(case.messages, json.decode(messages))
  return m:chat(as_json and messages or case.messages,
                {prompt = case.add_generation_prompt, variables = variables})
end


local plain = load()

-- What a template gives, less the place in the program that messages begin with.
local function rendered(source, given)
  local o = {template = source}
  for name, value in pairs(given or {}) do o[name] = value end
  return plain:chat(HELLO, o)
end


describe("chat templates", function()
  for _, format in ipairs(FORMATS) do
    it("of " .. format .. " give the golden texts and errors", function()
      local text = directories.read(HERE .. format .. "/cases.json")
      local golden, lines = assert(json.decode(text)), lines_of(text)
      local function token(name) return golden[name] ~= json.null and golden[name] or nil end
      local m = load{
        ["chat_template.jinja"] = directories.read(HERE .. format .. "/chat_template.jinja"),
        ["tokenizer_config.json"] = {bos_token = token "bos_token",
                                     eos_token = {content = token "eos_token"}},
      }
      assert.equal(#golden.cases, #lines)
      for i, case in ipairs(golden.cases) do
        for _, as_json in ipairs{true, false} do
          if case.error then
            local why = message(call, m, case, lines[i], as_json)
            assert.equal(case.error, why:match("the template refuses the messages: (.*)$"))
          else
            assert.equal(case.text, call(m, case, lines[i], as_json))
          end
        end
      end
    end)
  end


  for _, name in ipairs{"jinja", "expressions"} do
    it("do what Jinja does: " .. name, function()
      local golden = directories.read(HERE .. name .. ".json")
      local variables = golden:match('"variables": (%b{}),\n"cases"')
      for _, case in ipairs(assert(json.decode(golden)).cases) do
        local good, text = pcall(rendered, case.template, {variables = variables})
        assert.is_true(good, case.template .. ": " .. tostring(text))
        assert.equal(case.text, text, case.template)
      end
    end)
  end


  it("refuse what they do not know, by its name and line", function()
    for template, wanted in pairs{
      ["{% include 'a' %}"] = "line 1: the statement 'include' is not known",
      ["a\n\n{% do x %}"] = "line 3: the statement 'do' is not known",
      ["{{ messages | sort }}"] = "filter 'sort' is not known; there are",
      ["{{ messages | lenght }}"] = "did you mean 'length'",
      ["{{ 1 is divisibleby 3 }}"] = "test 'divisibleby' is not known",
      ["{{ 'a'.center(3) }}"] = "method 'center' of the string 'a' is not known",
      ["{{ messages | tojson(sort_keys=true) }}"] = "tojson has no argument 'sort_keys'",
      ["{{ messages | first(3) }}"] = "gives 1 arguments to first, which takes 0",
      ["{{ 'a' | trim('b', 'c') }}"] = "gives 2 arguments to trim, which takes 1",
      ["{{ cycler('a') }}"] = "line 1: 'cycler' is not known",
      ["{{ 'a'. }}"] = "line 1: a name expected, got the end of the tag",
      ["{{ {1: 2} }}"] = "line 1: 'text' expected, got '1'",
      ["{% set 'a' = 1 %}"] = "line 1: a name expected, got 'a'",
      ["{{ nobody() }}"] = "calls 'nobody', which is not defined",
      ["{{ nothing.at }}"] = "asks 'nothing', which is not defined for a member",
      ["{{ 'a' * 3 }}"] = "for the string 'a' * 3", ["{{ 1 + 'a' }}"] = "for 1 + the string 'a'",
      ["{% macro f() %}{% endmacro %}{{ 1 + f }}"] = "asks for 1 + a macro",
      ["{{ 1 / 0 }}"] = "divides by 0", ["{{ true + 1 }}"] = "asks for true + 1",
      ["{{ '10000000000000000000' | int }}"] = "int gets 1e+19, which is not known with 64 bits",
      ["{{ '8000000000000000' | int(base=16) }}"] = "which is not known with 64 bits",
      ["{{ '10000000000000005' | int(base=16) }}"] = "which is not known with 64 bits",
      ["{{ '10' | int(base=1) }}"] = "int takes bases from 2 to 36",
      ["{{ 'a'.replace('', 'b') }}"] = "replaces an empty text",
      ["{{ 'a' | replace('', 'b') }}"] = "replaces an empty text",
      ["{{ 'a'.split('') }}"] = "splits by an empty text",
      ["{{ 'a b'.split(none, 1) }}"] = "split has a count, and no separator",
      ["{{ * 2 }}"] = "line 1: a value expected, got '*'",
      ["{{ 'ab'[0 1] }}"] = "line 1: ']' expected, got '1'",
      ["{{ nothing | int }}"] = "gives 'nothing', which is not defined to int",
      ["{{ 2 ** 3 }}"] = "line 1: the end of the tag expected, got '**'",
      ["{{ messages }}"] = "writes a list as a text", ["{{ 1 ? 2 }}"] = "line 1: '?' is not known",
      ["{{ 'é' | upper }}"] = "upper gets letters beyond ASCII",
      ["{{ (1 }}"] = "a '}' without its opening one", ["{{ 'a }}"] = "a string has no end",
      ["{{ '\\u12' }}"] = "a broken escape",
      ["{{ 1"] = "a tag has no end", ["{# a"] = "a comment has no end",
      ["{% if 1 %}\n"] = "'elif' or 'else' or 'endif' expected, got the end",
      ["{% for a in b %}{% endif %}"] = "'else' or 'endfor' expected, got 'endif'",
      ["x{% endif %}"] = "'endif' ends nothing",
      ["{% break\n%}"] = "line 1: the statement 'break' stands in no loop",
      ["{% for a in 'text' %}{% endfor %}"] = "goes through the string 'text'",
      ["{% for a, b in [1] %}{% endfor %}"] = "takes 1 for 2 names",
      ["{% set messages.x = 1 %}"] = "'messages', which is no namespace",
      ["{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}"] = "macro 'f' takes 1 arguments, got 2",
      ["{{ messages[::0] }}"] = "a slice with step 0",
      ["{{ strftime_now('%Q') }}"] = "the date as '%Q', which is not known",
      ["{{ (((1 < 'a'))) }}"] = "compares 1 and the string 'a'",
      ["{{ 'a'.split(1) }}"] = "gives 1 to split, which takes a text",
      ["{{ [1] | tojson(indent='a') }}"] = "gives the string 'a' to tojson, which takes a whole",
      ["{{ nothing | tojson }}"] = "writes 'nothing', which is not defined as JSON",
      ["{{ 'a' | tojson(ensure_ascii=true) }}"] = "tojson asks for ASCII, which is not known",
      ["{{ [1] | dictsort }}"] = "gives a list to dictsort, which takes a map",
      ["{{ messages['a':] }}"] = "takes a slice at the string 'a'",
      ["{{ 3[1:] }}"] = "takes a slice of 3", ["{{ 'abc'[::2] }}"] = "takes a slice of the string",
      ["{{ 1 in 3 }}"] = "looks for 1 in 3",
      ["{% for a in [1] %}{{ loop.depth }}{% endfor %}"] = "loop has no member 'depth' that is",
      ["{{ messages[1 2] }}"] = "line 1: ']' expected, got '2'",
      ["{{ [1 2] }}"] = "line 1: ']' expected, got '2'",
      ["{{ {'a': 1 'b': 2} }}"] = "line 1: '}' expected, got 'b'",
      ["{{ range(1 2) }}"] = "line 1: ')' expected, got '2'",
      ["{% macro f(a b) %}"] = "line 1: ')' expected, got 'b'",
      ["{% for a of b %}"] = "line 1: 'in' expected, got 'of'",
      ["{% set a, b %}x{% endset %}"] = "line 1: '=' expected, got the end of the tag",
      ["\n{{ 1\nx\n}}"] = "line 3: the end of the tag expected, got 'x'",
      ["a\n{% endif %}"] = "line 2: 'endif' ends nothing",
      ["a\n{% if 1 %}\n\n"] = "line 2: 'elif' or 'else' or 'endif' expected, got the end",
      ["x{% for a in b %}\n{% endif %}"] = "line 2: 'else' or 'endfor' expected, got 'endif'",
      ["{% for a in [1] %}{% endfor %}{% break %}"] = "'break' stands in no loop",
      ["{{ '\\xg12' }}"] = "a broken escape", ["{% set a %}"] = "'endset' expected, got the end",
      ["{{ [1] + 1 }}"] = "asks for a list + 1", ["{{ -'a' }}"] = "asks for -1 * the string 'a'",
      ["{{ [1].items() }}"] = "method 'items' of a list is not known",
      ["{{ messages[9].at }}"] = "asks an element, which is not defined for a member",
      ["{{ messages['nope'].at }}"] = "asks 'nope', which is not defined for a member",
      ["{% for a in [1] %}{{ loop[0] }}{% endfor %}"] = "loop has no member an element that is",
      ["{{ 1 in 'abc' }}"] = "looks for 1 in the string 'abc'",
      ["{{ 'a' in 3 }}"] = "looks for the string 'a' in 3",
      ["{% for a, b in [[1, 2, 3]] %}{% endfor %}"] = "takes a list for 2 names",
      ["{% set m = messages[0] %}{% set m.x = 1 %}"] = "'m', which is no namespace",
      ["{{ '10' | int(base=37) }}"] = "int takes bases from 2 to 36",
      ["{{ range(1, 2, 0)[0] }}"] = "that is too long", ["{{ range()[0] }}"] = "that is too long",
      ["{{ 'ab'.replace('a') }}"] = "gives nothing to replace, which takes a text",
      ["{{ raise_exception() }}"] = "writes nothing as a text",
    } do
      assert.matches(wanted, message(rendered, template), 1, true)
    end
    for _, name in ipairs{"caller", "cycler", "joiner", "kwargs", "lipsum", "self", "super",
                          "varargs"} do
      assert.matches(("line 1: '%s' is not known"):format(name),
                     message(rendered, "{{ " .. name .. " }}"), 1, true)
    end
    for _, way in ipairs{"break", "continue"} do
      local template = "{% for a in [1] %}{% macro f() %}{% " .. way .. " %}"
      assert.matches(("'%s' stands in no loop"):format(way), message(rendered, template), 1, true)
    end
    for _, template in ipairs{
      "{% if 1 x %}{% endif %}", "{% if 1 %}{% elif 1 x %}{% endif %}",
      "{% if 1 %}{% else x %}{% endif %}", "{% if 1 %}{% endif x %}",
      "{% for a in [1] x %}{% endfor %}", "{% for a in [1] %}{% else x %}{% endfor %}",
      "{% for a in [1] %}{% endfor x %}", "{% set a = 1 x %}", "{% set a %}{% endset x %}",
      "{% macro f() x %}{% endmacro %}", "{% macro f() %}{% endmacro x y %}",
      "{% generation x %}{% endgeneration %}", "{{ 1 x }}", "{% set a.b = 1 x %}", "{% set a x %}",
      "{% generation %}{% endgeneration x %}", "{% for a in [1] %}{% break x %}{% endfor %}",
    } do
      assert.matches("the end of the tag expected, got 'x'", message(rendered, template), 1, true)
    end
  end)

  it("get none as tools and documents where there are none, as from transformers", function()
    for _, name in ipairs{"tools", "documents"} do
      local source = ("{% if X is defined %}d{% endif %}{% if X is not none %}n{% endif %}"
                      .. "{% if X %}t{% endif %}"):gsub("X", name)
      assert.equal("d", rendered(source))
      assert.equal("dnt", rendered(source, {[name] = {{name = "f"}}}))
      assert.equal("dnt", rendered(source, {variables = {[name] = {{name = "f"}}}}))
    end
  end)

  it("have Python's words, whole numbers, booleans and equality", function()
    for source, wanted in pairs{
      [ [["don't a1b x-yZ (ab {cd [ef <gh 1ab a.b"|title]] ]
        = "Don't A1b X-Yz (Ab {Cd [Ef <Gh 1ab A.b",
      [ [["don't a1b".title()]] ] = "Don'T A1B",
      ["'3.7'|int"] = "3", ["'-3.7'|int"] = "-3", ["'+5'|int"] = "5", ["' 7 '|int"] = "7",
      ["'1_000'|int"] = "1000", ["'1e3'|int"] = "1000", ["'5.'|int"] = "5", ["'.5'|int"] = "0",
      ["'0x10'|int"] = "0", ["'inf'|int"] = "0", ["'1__0'|int"] = "0", ["'_1'|int"] = "0",
      ["'1_'|int"] = "0", ["'e3'|int"] = "0", ["'1e'|int"] = "0", ["'--1'|int"] = "0",
      ["'0x1A'|int(base=16)"] = "26", ["'1A'|int(0, 16)"] = "26", ["'zz'|int(7, base=16)"] = "7",
      ["'12.7'|int(base=16)"] = "12", ["'-0b11'|int(base=2)"] = "-3", ["'0o17'|int(base=8)"] = "15",
      ["12|int(base=16)"] = "12", ["'1_0'|int(base=16)"] = "16", ["' 10 '|int(base=2)"] = "2",
      ["'1e3'|int(base=16)"] = "483", ["'zz'|int(base=36)"] = "1295", ["'0x'|int(base=16)"] = "0",
      ["'+11'|int(base=2)"] = "3", ["'0b1'|int(base=16)"] = "177", ["'12'|int(base=2)"] = "12",
      ["'-7fffffffffffffff'|int(base=16)"] = "-9223372036854775807",
      ["'a'|int(9)"] = "9", ["'a'|int(default=9)"] = "9", ["none|int"] = "0", ["true|int"] = "1",
      ["1 == true"] = "True", ["0 == false"] = "True", ["1.0 == true"] = "True",
      ["1 in [true]"] = "True", ["[1] == [true]"] = "True", ["1 != true"] = "False",
      ["2 == true"] = "False", ["'a' == true"] = "False", ["none == false"] = "False",
      ["1 == 1.0"] = "True", ["{'a': 1} == {'a': 1.0}"] = "True",
      ["{'a': 1} == {'b': 1}"] = "False",
      ["{'a': 1} == {'a': 2}"] = "False", ["{'a': 1} == {'a': 1, 'b': 2}"] = "False",
      ["{'a': 1, 'b': 2} == {'b': 2, 'a': 1}"] = "True", ["'a' in nothing"] = "False",
      ["nothing == nowhere"] = "True", ["strftime_now('%Y-%m-%d%%') | length"] = "11",
      ["1 is true"] = "False", ["true is number"] = "True", ["true is integer"] = "False",
      ["true is odd"] = "True", ["false is even"] = "True", ["3.0 is odd"] = "True",
      ["1 is eq true"] = "True", ["1 is odd is true"] = "True", ["1 is odd if true"] = "True",
      ["1 is odd and false"] = "False", ["1 is odd or true"] = "True",
      ["1 is odd not in [false]"] = "True", ["1 is odd if false else 2"] = "2",
      ["1 is odd in [true]"] = "True", ["1 is defined in [false]"] = "False",
      ["9.95"] = "9.95", ["12345678901234568.0"] = "1.2345678901234568e+16",
      ["[1e999, -1e999, 1e999 - 1e999] | join(' ')"] = "inf -inf nan",
      ["[1e999, -1e999, 1e999 - 1e999] | tojson"] = "[Infinity, -Infinity, NaN]",
      ["1e999|int"] = "0", ["(-1e999)|int"] = "0", ["(1e999 - 1e999)|int"] = "0",
      ["'1e999'|int(3)"] = "3", ["'a,b'.split(',', -1) | length"] = "2",
      ["'a,b'.split(',', 0) | length"] = "1", ["'éa'[1:]"] = "a", ["[7].0"] = "7",
      ["{'a': 1}[0] is defined"] = "False", ["'\\U0001F600!'"] = "\u{1f600}!",
      ["{'b': 1, 'A': 1, 'B': 1, 'a': 1, 'c': 1, 'C': 1} | dictsort | map('first') | join"]
        = "AabBcC",
      ["'0'|int(base=2)"] = "0", ["'a'|indent(2, none)"] = "a",
      ["messages[none:][0].content"] = "Hello", ["add_generation_prompt"] = "False",
    } do
      assert.equal(wanted, rendered("{{ " .. source .. " }}"), source)
    end
    for source, wanted in pairs{
      ["{% macro f(x) %}<{{ x }}>{% endmacro %}{{ dict(get=f).get(2) }}"] = "<2>",
      ["{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}"] = "12",
      ["{% for a in [1] if true %}{% endfor %}{{ a is defined }}"] = "False",
      ["{% if true %}\n  {% if true %}x{% endif %}\n{% endif %}"] = "x",
      ["{% if true %}  {% if true %}x{% endif %}{% endif %}"] = "  x",
      ["{{ 1 }}  {% if true %}x{% endif %}"] = "1  x",
      ["{% for a in [1] %}{% macro f() %}{% endmacro %}{{ a }}{% break %}{% endfor %}"] = "1",
    } do
      assert.equal(wanted, rendered(source), source)
    end
    local source = "{{ messages[0].content | length }}{{ messages[0].content[1:] | trim }}"
    for content, wanted in pairs{["\xff\x80"] = "2\x80", ["\u{d800}a"] = "2a",
                                 ["é\xff"] = "3\xa9\xff"} do
      assert.equal(wanted, plain:chat({{role = "user", content = content}}, {template = source}))
    end
  end)

  it("may have as much as their limits say, and no more", function()
    local turns = "{% for a in range(50000) %}{% endfor %}"
    local doubled = "{% set ns = namespace(x='x') %}{% for a in range(26) %}"
                    .. "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ (ns.x ~ 'EMPTY') | length }}"
    for _, case in ipairs{
      {99, "a simpler expression expected", function(n)
        return "{{ " .. ("("):rep(n) .. "1" .. (")"):rep(n) .. " }}"
      end},
      {98, "a simpler expression expected", function(n)
        return "{{ [" .. ("1, "):rep(200) .. ("("):rep(n) .. "1" .. (")"):rep(n) .. "] | length }}"
      end},
      {3999, "a tag has no end in sight", function(n)
        return "{{ " .. ("not "):rep(n) .. "1 }}"
      end},
      {59, "fewer blocks within each other", function(n)
        return ("{% for a in [1] %}"):rep(n) .. ("{% endfor %}"):rep(n)
      end},
      {50000, "too many turns", function(n)
        return turns:rep(3) .. "{% for a in range(" .. n .. ") %}{% endfor %}"
      end},
      {50000, "too many turns", function(n)
        return turns:rep(3) .. "{% for a in range(" .. n .. ") if false %}{% endfor %}"
      end},
      {25000, "too many turns", function(n)
        return turns:rep(3) .. "{% macro f() %}{% endmacro %}{% for a in range(" .. n .. ") %}"
               .. "{{ f() }}{% endfor %}"
      end},
      {100000, "a range that is too long", function(n) return "{{ range(" .. n .. ")[0] }}" end},
      {100000, "a range that is too long", function(n)
        return "{{ range(1, 1 - " .. n .. ", -1)[0] }}"
      end},
      {0, "makes a text of 67108865 bytes", function(n)
        return (doubled:gsub("EMPTY", ("x"):rep(n)))
      end},
    } do
      local most, wanted, template = table.unpack(case)
      rendered(template(most))
      assert.matches(wanted, message(rendered, template(most + 1)), 1, true)
    end
  end)

  it("end, whatever they are", function()
    local deep = ("("):rep(150) .. "1" .. (")"):rep(150)
    for template, wanted in pairs{
      ["{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"] =
        "too many turns",
      ["{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"] = "calls itself too often",
      ["{% set ns = namespace(x='ab') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
       .. "{% endfor %}"] = "makes a text of",
      ["{% for a in range(99999) %}{{ '" .. ("x"):rep(5000) .. "' }}{% endfor %}"] =
        "writes too much",
      ["{{ " .. deep .. " }}"] = "a simpler expression expected",
      ["{{ range(10000000) }}"] = "a range that is too long",
      [("{% if 1 %}"):rep(99) .. ("{% endif %}"):rep(99)] = "fewer blocks within each other",
      ["{{ " .. ("not "):rep(5000) .. "1 }}"] = "no end in sight",
    } do
      assert.matches(wanted, message(rendered, template), 1, true)
    end
    local most = "{% for a in range(65536) %}" .. ("x"):rep(4096) .. "{% endfor %}"
    local ending = "{{ raise_exception('end') }}"
    assert.matches("messages: end$", message(rendered, most .. ending))
    assert.matches("writes too much", message(rendered, most .. "x" .. ending))
    local function nested(n) return ("{% if 1 %}"):rep(n) .. "x" .. ("{% endif %}"):rep(n) end
    assert.equal(("x"):rep(99), rendered(nested(1):rep(98) .. nested(59)))
    local again = "{% macro f(n) %}x{% if n > 1 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(N) }}"
    assert.equal(("x"):rep(100), rendered((again:gsub("N", "100"))))
    assert.matches("calls itself too often", message(rendered, (again:gsub("N", "101"))))
    local names = {}
    for name in pairs(_G) do names[#names + 1] = name end
    for _, name in ipairs(names) do
      local text = rendered("{{ " .. name .. " is defined }}")
      assert.equal("False", text, name)
    end
  end)

  it("are understood when they are used, not before", function()
    local m = load{["chat_template.jinja"] = "{% nonsense %}"}
    assert.matches("'nonsense' is not known", message(m.chat, m, HELLO), 1, true)
    assert.matches("the directory has no chat template", message(plain.chat, plain, HELLO), 1, true)
    assert.equal("x", load{["chat_template.json"] = {chat_template = "x"}}:chat(HELLO))
    for bad, wanted in pairs{
      [{chat_template = 3}] = "chat_template", [{chat_template = {{name = "a"}}}] = "chat_template",
      [{chat_template = {"a"}}] = "chat_template", [{bos_token = 3}] = "bos_token",
      [{eos_token = {content = 3}}] = "eos_token",
    } do
      local place <close> = directories.make("llama3", FILES)
      directories.write(place.path .. "/tokenizer_config.json", json.encode(bad))
      local none, refusal = heed.models.load(place.path)
      assert.is_nil(none)
      assert.matches("tokenizer_config.json: .* expected as " .. wanted, refusal)
    end
  end)

  it("have names where a directory has several", function()
    local m = load{["tokenizer_config.json"] = {chat_template = {
      {name = "default", template = "plain"}, {name = "tool_use", template = "tools"},
      {name = "rag", template = "rag {{ documents | length }}"},
    }}}
    assert.equal("plain", m:chat(HELLO))
    assert.equal("tools", m:chat(HELLO, {tools = {{name = "f"}}}))
    assert.equal("rag 2", m:chat(HELLO, {template = "rag", documents = {{}, {}}}))
    assert.matches("there is no template 'rap'; did you mean 'rag'",
                   message(m.chat, m, HELLO, {template = "rap"}), 1, true)
    m = load{
      ["tokenizer_config.json"] = {chat_template = "old", bos_token = "<b>"},
      ["chat_template.jinja"] = "new {{ bos_token }}{{ eos_token }}",
      ["special_tokens_map.json"] = {eos_token = "<e>", bos_token = "<other>"},
    }
    assert.equal("new <b><e>", m:chat(HELLO))
  end)

  it("may be a function of the caller's", function()
    local seen
    local function f(messages, o)
      seen = o.prompt
      return {"<|eot_id|>", {messages[1].content}, "!"}
    end
    local bad = {{role = "user", content = "a<|eot_id|>"}}
    assert.equal("<|eot_id|>a<|eot_id|>!", plain:chat(bad, {template = f, prompt = true}))
    assert.is_true(seen)
    local ids = plain:chat(bad, {template = f, ids = true})
    local eot = plain.tokenizer:id("<|eot_id|>")
    assert.equal(1, ids:eq(eot):sum():item())
    assert.equal(eot, ids[1])
    for _, parts in ipairs{"text", {3}, {{}}, {{3}}, {x = "a"}} do
      assert.matches("expected", message(plain.chat, plain, bad, {template = function()
        return parts
      end}))
    end
    assert.matches("my own", message(plain.chat, plain, bad, {template = function()
      error "my own"
    end}))
  end)

  it("refuse tools and documents that are neither lists nor texts", function()
    for _, name in ipairs{"tools", "documents"} do
      assert.matches(("chat: a list, or a text of JSON, expected as option %s, got 5"):format(name),
                     message(plain.chat, plain, {{role = "user", content = "a"}},
                             {[name] = 5, template = "{{ 1 }}"}), 1, true)
    end
    assert.equal("f", rendered("{{ tools[0].name }}", {tools = '[{"name": "f"}]'}))
    assert.equal("5False", rendered("{{ a.b }}{{ c is mapping }}",
                                    {variables = {a = {b = 5}, c = {}}}))
    assert.equal("1", rendered("{{ 1 }}", {variables = {}}))
    assert.equal("abcdefghi", rendered("{{ m | join }}", {variables = {m = {
      d = 1, a = 1, c = 1, i = 1, b = 1, f = 1, e = 1, h = 1, g = 1}}}))
    for given, wanted in pairs{
      [5] = "a table with names expected as option variables, got 5",
      [{3}] = "a table with names expected as option variables, got a table",
      ["[1"] = 'option variables: expected "," or "]" at byte 3',
      [{a = {"b", c = 2}}] = "a list expected, got one with the string 'c' as a key",
    } do
      assert.matches(wanted, message(rendered, "{{ 1 }}", {variables = given}), 1, true)
    end
    for _, name in ipairs{"tools", "documents", "template", "variables"} do
      assert.matches(("generate: option %s: messages expected as the prompt, got the string 'a'")
                     :format(name), message(plain.generate, plain, "a", {[name] = {}}), 1, true)
    end
    assert.matches("messages expected as the prompt 1, got a table",
                   message(plain.generate, plain, {{1}, {2}}, {tools = {}}), 1, true)
  end)

  it("refuse the date where there is none", function()
    local date = os.date
    rawset(os, "date", nil)
    local why = message(rendered, "{{ strftime_now('%Y') }}")
    rawset(os, "date", date)
    assert.matches("which this program does not tell", why)
  end)

  it("refuse what are no messages", function()
    for _, bad in ipairs{3, "text", "[3]", "{}", {3}, {{content = "a"}}, {{role = 3}},
                         {role = "user"}, {{role = "user", content = print}},
                         {{role = "user", [1] = "a", b = 2}},
                         {{role = "user", content = {[true] = 1}}}} do
      assert.matches("chat: ", message(plain.chat, plain, bad, {template = "{{ 1 }}"}), 1, true)
    end
    local function refused(bad) return message(plain.chat, plain, bad, {template = "{{ 1 }}"}) end
    local one = {role = "user", content = "a"}
    for said, bad in pairs{["the string 'hi'"] = "hi", ["the string '{}'"] = "{}",
                           ["a table with names"] = one, ["5"] = 5} do
      assert.matches("chat: a list of messages expected, {{role = \"user\", content = \"…\"}}, or "
                     .. "its JSON, got " .. said, refused(bad), 1, true)
    end
    assert.matches("generate: a text, ids, messages, .*; write {message}$",
                   message(plain.generate, plain, one))
    for said, bad in pairs{["5"] = {role = "user", content = 5},
                           ["true"] = {role = "user", content = true},
                           ["nil"] = {role = "user", text = "a"}} do
      assert.matches("chat: a text or a list of parts expected as content of message 2, or "
                     .. "tool_calls in its place, got " .. said, refused{one, bad}, 1, true)
    end
    assert.matches("content of message 1, .* got 5$", refused '[{"role": "user", "content": 5}]')
    assert.matches("of message 1, .* got none$", refused '[{"role": "user", "content": null}]')
    for _, good in ipairs{
      {role = "assistant", tool_calls = {{name = "f"}}}, {role = "tool", content = {a = 1}},
      {role = "assistant", reasoning_content = "a"},
    } do
      assert.equal("1", plain:chat({one, good}, {template = "{{ 1 }}"}))
    end
    assert.equal("1", plain:chat('[{"role": "assistant", "content": null, "tool_calls": [{}]}]',
                                 {template = "{{ 1 }}"}))
    local endless = {role = "user"}
    endless.content = endless
    assert.matches("nested too deep", message(plain.chat, plain, {endless}, {template = "{{ 1 }}"}))
    local function nested(n, name)
      local value = "x"
      for _ = 1, n do value = {[name] = value} end
      return {role = "user", content = value}
    end
    for _, name in ipairs{1, "a"} do
      assert.equal("1", plain:chat({nested(62, name)}, {template = "{{ 1 }}"}))
      assert.matches("nested too deep",
                     message(plain.chat, plain, {nested(63, name)}, {template = "{{ 1 }}"}))
    end
    assert.matches("unknown option 'promt'", message(plain.chat, plain, HELLO, {promt = true}))
    local heard = false
    local spy = setmetatable({role = "user", content = "hi"}, {
      __index = function() heard = true end, __eq = function() heard = true end,
      __len = function() heard = true end, __pairs = function() heard = true end,
    })
    assert.equal("hi", plain:chat({spy}, {template = "{{ messages[0].content }}"}))
    assert.is_false(heard)
  end)
end)


describe("ids of a chat", function()
  local m = load{
    ["chat_template.jinja"] = directories.read(HERE .. "llama3/chat_template.jinja"),
    ["tokenizer_config.json"] = {bos_token = "<|begin_of_text|>"},
  }
  local o = {ids = true, variables = {date_string = "today"}}

  it("are those of the whole text", function()
    for _, content in ipairs{"Hello", "\n\n  two lines\n", "", "a <b> c", "é\u{3000}", "<|eot_i"} do
      local list = {{role = "user", content = content}, {role = "assistant", content = "\nHi"}}
      local text = m:chat(list, {variables = o.variables})
      local whole = m.tokenizer:encode(text, {special = false, parse = true})
      assert.same(whole:totable(), m:chat(list, o):totable())
    end
  end)

  it("have no special token that a message makes", function()
    local special = {"<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"}
    local function counts(content)
      local list = {{role = "system", content = content}, {role = "user", content = content}}
      local ids, found = m:chat(list, o), {}
      for i, name in ipairs(special) do
        found[i] = ids:eq(assert(m.tokenizer:id(name))):sum():item()
      end
      return found
    end
    local wanted = counts "x"
    for _, name in ipairs(special) do
      assert.same(wanted, counts(name))
      assert.same(wanted, counts(("%s %s\n%s"):format(name, name, name)))
      assert.same(wanted, counts(name:sub(1, 5)))
    end
    assert.same({1, 2, 0}, wanted)
    local clock = {template = "{{ strftime_now(messages[0].content) }}", ids = true}
    assert.is_true(#m:chat({{role = "user", content = special[2]}}, clock) > 1)
    local text = m:chat({{role = "user", content = "<|eot_id|>"}}, {variables = o.variables})
    local ids = m:chat({{role = "user", content = "<|eot_id|>"}}, o)
    assert.equal(text, m.tokenizer:decode(ids, {special = true}))
  end)

  it("have special tokens of roles that are known, and of no other words", function()
    local values = require "heed.models.chat.values"
    local function marks(role) return values.from({role = role, name = role}, "a message").at end
    for role in ("assistant developer function ipython model system tool user"):gmatch "%a+" do
      assert.equal(("t"):rep(#role), marks(role).role.marks)
      assert.equal(("m"):rep(#role), marks(role).name.marks)
    end
    assert.equal("mmmmm", marks("users").role.marks)
    for role, mark in pairs{user = "t", eot_id = "m"} do
      local text = ('{"role": "%s"}'):format(role)
      assert.equal(mark:rep(#role), values.from_json(text, "a message").at.role.marks)
    end
  end)

  it("take a text's joints into account: what is half a template's is no special token", function()
    local eot = m.tokenizer:id "<|eot_id|>"
    local function count(template, list)
      return m:chat(list, {template = template, ids = true}):eq(eot):sum():item()
    end
    local half = "<|eot{{ messages[0].content }}|>{{ messages[0].role }}"
    assert.equal(0, count(half, {{role = "user", content = "_id"}}))
    assert.equal(1, count("<|eot{{ '_id' }}|>", {{role = "user", content = "_id"}}))
    assert.equal(0, count("<|{{ messages[0].role }}|>", {{role = "eot_id", content = ""}}))
    assert.equal(0, count("{{ messages[0].content | trim }}", {{role = "user",
                                                                content = " <|eot_id|> "}}))
    assert.equal(0, count("{{ messages | tojson }}", {{role = "user", content = "<|eot_id|>"}}))
  end)

  it("find special tokens in parts of a text alone", function()
    local tok, eot = m.tokenizer, m.tokenizer:id "<|eot_id|>"
    local text = "<|eot_id|>é<|eot_id|> <|eot_id|>"
    local function found(parts)
      local parse = heed.tensor(parts, {dtype = "int64"})
      local ids, offsets = tok:encode(text, {special = false, parse = parse, offsets = true})
      local at = {}
      for i, id in ipairs(ids:totable()) do
        if id == eot then at[#at + 1] = offsets[i][1] end
      end
      return at
    end
    assert.same({1, 13, 24}, found{{1, #text}})
    assert.same({1}, found{{1, 10}})
    assert.same({1, 24}, found{{1, 12}, {24, 33}})
    assert.same({13}, found{{2, 22}})
    assert.same({}, found{{2, 21}, {22, 32}})
    for _, bad in ipairs{{{0, 3}}, {{3, 2}, {1, 2}}, {{1, 100}}, {{5, 3}}} do
      assert.matches("parse", message(found, bad), 1, true)
    end
    for _, bad in ipairs{3, "a", {1, 2}, heed.zeros(2, 2), heed.zeros(3, {dtype = "int64"})} do
      assert.matches("option parse", message(tok.encode, tok, text, {parse = bad}), 1, true)
    end
    local none = heed.zeros({0, 2}, {dtype = "int64"})
    assert.equal(0, tok:encode(text, {special = false, parse = none}):eq(eot):sum():item())
  end)
end)
