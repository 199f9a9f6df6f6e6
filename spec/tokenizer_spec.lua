-- heed.tokenizer: what the package `tokenizers` makes of the same files and texts, and refusals.
-- spec/golden/tokenizers/NAME has a tokenizer.json and cases, whose ids and bytes count from 0.

local files = require "spec.support.files"
local tokenizers = require "spec.support.golden_tokenizers"
local heed = require "heed"
local json = require "heed.files.json"
local tokenizer_of = require "spec.support.tokenizer_of"

-- Tokens of bytes; true: and the normalizer is NFC.
local OF_BYTES <const> = {
  bpe_gpt2 = false, bpe_llama3 = false, cl100k = false, modernbert = true, o200k = false,
  qwen2 = true, smollm2 = false,
}

local function folder(name) return "spec/golden/tokenizers/" .. name end

local function load(name) return assert(tokenizer_of(tokenizers.text(name))) end

local function cases_of(name) return json.decode(files.read(folder(name) .. "/cases.json")) end

local function from_zero(ids)
  local list = ids:totable()
  for i = 1, #list do list[i] = list[i] - 1 end
  return list
end

-- Half open from 0, as the package has it.
local function half_open(offsets)
  local list = {}
  for i, at in ipairs(offsets:totable()) do list[i] = {at[1] - 1, at[2]} end
  return list
end

-- The first difference as text, or nil.
local function difference(expected, got, at)
  if #expected ~= #got then return ("%s: %d expected, got %d"):format(at, #expected, #got) end
  for i = 1, #expected do
    local a, b = expected[i], got[i]
    if type(a) == "table" then
      if a[1] ~= b[1] or a[2] ~= b[2] then
        return ("%s[%d]: %d-%d expected, got %d-%d"):format(at, i, a[1], a[2], b[1], b[2])
      end
    elseif a ~= b then return ("%s[%d]: %d expected, got %d"):format(at, i, a, b) end
  end
end

-- Numbers in [0, n) by a generator of its own.
local function drawing(state)
  return function(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n
  end
end


describe("heed.tokenizer", function()
  for _, name in ipairs(tokenizers.names) do
    describe(name, function()
      local tok = load(name)
      local golden = cases_of(name)

      it("gives the ids and offsets of each text", function()
        assert.is_true(#golden.cases > 100)
        for i, case in ipairs(golden.cases) do
          local at = ("%s, case %d %q"):format(name, i, case.text)
          local ids, offsets = tok:encode(case.text, {special = false, parse = true,
                                                      offsets = true})
          assert.is_nil(difference(case.ids, from_zero(ids), at .. ": ids"))
          assert.is_nil(difference(case.offsets, half_open(offsets), at .. ": offsets"))
          ids = tok:encode(case.text, {parse = true})
          assert.is_nil(difference(case.ids_special or case.ids, from_zero(ids), at))
        end
      end)

      it("decodes them", function()
        for _, case in ipairs(golden.cases) do
          local ids = tok:encode(case.text, {special = false, parse = true})
          assert.equal(case.decoded or case.text, tok:decode(ids, {special = true}))
          ids = tok:encode(case.text, {parse = true})
          local plain = tok:decode(ids)
          assert.equal(case.decoded_skip or case.decoded or case.text, plain)
        end
      end)

      it("joins pairs, and keeps to a limit", function()
        assert.is_true(#golden.pairs > 3)
        for _, case in ipairs(golden.pairs) do
          local ids = tok:encode(case.text, {pair = case.pair, parse = true})
          assert.same(case.ids_special or case.ids, from_zero(ids))
        end
        for _, case in ipairs(golden.truncated) do
          local pair = type(case.pair) == "string" and case.pair or nil
          local ids = tok:encode(case.text, {pair = pair, parse = true, max = case.max_length})
          assert.same(case.ids, from_zero(ids))
        end
      end)

      local composes = OF_BYTES[name]
      if composes ~= nil then it("gives back any bytes", function()
        local draw = drawing(7)
        for i = 1, 200 do
          local list = {}
          for j = 1, draw(60) do
            list[j] = string.char(i % 2 == 0 and draw(256) or 32 + draw(200))
          end
          local text = table.concat(list)
          local ids = tok:encode(text, {special = false})
          local back = tok:decode(ids, {special = true})
          if not composes then assert.equal(text, back) end
          assert.same(ids:totable(), tok:encode(back, {special = false}):totable())
        end
      end) end
    end)
  end

  it("has golden cases of these tokenizers alone", function()
    local pipe <close>, found = assert(io.popen "ls spec/golden/tokenizers"), {}
    for name in pipe:lines() do found[#found + 1] = name end
    assert.same(tokenizers.names, found)
  end)

  local llama = assert(heed.tokenizer.load(folder "bpe_llama3"))

  it("takes special tokens in a text as text unless they are asked for", function()
    local id = llama:id("<|eot_id|>")
    assert.equal(682 + 1, id)
    assert.equal(id, llama:encode("<|eot_id|>", {special = false, parse = true}):item())
    local ids = llama:encode("<|eot_id|>", {special = false})
    assert.is_true(#ids:totable() > 1)
    assert.equal("<|eot_id|>", llama:decode(ids))
    assert.equal("", llama:decode{id})
    assert.equal("<|eot_id|>", llama:decode({id}, {special = true}))
    assert.equal("<|eot_id|>", llama:token(id))
    assert.is_nil(llama:id("no such token"))
    assert.is_nil(llama:token(9999))
    assert.equal(683, #llama)
    assert.equal("heed.Tokenizer(683 tokens)", tostring(llama))
  end)

  it("pads a list of texts", function()
    local ids, lengths = llama:encode{"a text", "", "the"}
    assert.same({3, ids:size(2)}, {ids:size(1), lengths:totable()[1]})
    assert.same(llama:encode("a text"):totable(), ids:totable()[1])
    assert.same({1, 2}, {lengths:totable()[2], lengths:totable()[3]})
  end)

  it("cuts long words as it cuts short ones", function()
    local word = ("thenandtheenteren"):rep(3)                 -- 51 letters: the heap
    local ids = llama:encode(word, {special = false})
    assert.equal(word, llama:decode(ids))
    local long = ("en"):rep(40)
    assert.same({llama:id("en")}, {llama:encode(long, {special = false}):totable()[1]})
    local many = llama:encode((" "):rep(200000) .. "x", {special = false})
    assert.equal(200001, #llama:decode(many))
  end)

  it("says what it does not take", function()
    local function said(f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      return message
    end
    assert.matches("encode: a string expected as text, got 3", said(llama.encode, llama, 3))
    assert.matches("encode: unknown option 'specials'",
                   said(llama.encode, llama, "x", {specials = true}))
    assert.matches("option max", said(llama.encode, llama, "x", {max = 0}))
    assert.matches("decode: ids from 1 to 683 expected, got 684 at position 2",
                   said(llama.decode, llama, {1, 684}))
    assert.matches("write tok:encode", said(llama.encode, "x"))
    assert.matches("option pair", said(llama.encode, llama, {"x"}, {pair = "y"}))
    for _, path in ipairs{3, "", "\0tokenizer.json"} do
      assert.matches("tokenizer.load: a path expected", said(heed.tokenizer.load, path))
    end
    for _, name in ipairs{"id", "token"} do
      assert.matches(name .. ": at most 1 argument expected", said(llama[name], llama, 1, 2))
    end
    assert.matches("decode: at most 2 arguments expected", said(llama.decode, llama, {1}, {}, 2))
    assert.matches("encode: at most 2 arguments expected", said(llama.encode, llama, "a", {}, 2))
    assert.equal("", llama:decode{})
    local none, why = heed.tokenizer.load("no/such/folder")
    assert.is_nil(none)
    assert.matches("cannot open", why)
  end)

  local small = files.read(folder "bpe_llama3" .. "/tokenizer.json")

  local function changed(from, to)
    local a, b = small:find(from, 1, true)
    local name = os.tmpname()
    files.write(name .. ".json", small:sub(1, a - 1) .. to .. small:sub(b + 1))
    local tok, why = heed.tokenizer.load(name .. ".json")
    os.remove(name .. ".json")
    os.remove(name)
    return tok, why
  end

  local function refused(from, to)
    local tok, why = changed(from, to)
    return tok == nil and why
  end

  it("gives what belongs to its text, though a finalizer gives it another one meanwhile", function()
    local tok = heed.tokenizer.train{kind = "bpe", text = ("the cat sat "):rep(9), vocabulary = 270}
    local text, other, calls = ("cat "):rep(20), ("the "):rep(200), 0
    local _, right = tok:encode(text, {offsets = true})
    local function again()
      return setmetatable({}, {__gc = function()
        calls = calls + 1
        tok:encode(other)
        if calls < 30 then again() end
      end})
    end
    again()
    collectgarbage("incremental", 1, 1000, 30)     -- a cycle at each allocation
    local equal = true
    while calls < 30 do
      local _, offsets = tok:encode(text, {offsets = true})
      equal = equal and offsets:equal(right)
    end
    collectgarbage("incremental", 200, 100, 13)
    assert.is_true(equal)
  end)

  it("finds the longest of the added tokens at a place", function()
    for _, other in ipairs{"<|end_of_text|>", "<|begin_of_text|>"} do
      local tok = assert(changed(('"content":"%s"'):format(other), '"content":"<|eot_id|>>"'))
      local id = tok:id "<|eot_id|>>"
      assert.equal(id, tok:encode("<|eot_id|>>", {special = false, parse = true}):item())
    end
    local tok = assert(changed('"content":"<|eot_id|>"', '"content":"<|begin_of_text|>>"'))
    assert.equal(683, tok:encode("<|begin_of_text|>>", {special = false, parse = true}):item())
  end)

  it("names the part of a file that it does not know", function()
    assert.matches("the normalizer 'NFX' is not known",
                   refused('"normalizer":null', '"normalizer":{"type":"NFX"}'))
    assert.matches("the model 'Other' is not known", refused('"type":"BPE"', '"type":"Other"'))
    assert.matches("'dropout' is not known", refused('"dropout":null', '"dropout":0.1'))
    assert.matches("a repeated group is not known at '%(a%)%*b|",
                   refused("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(a)*b"))
    assert.matches("an unknown escape at '\\G", refused("\\\\p{N}{1,3}", "\\\\G"))
    assert.matches("no such category", refused("\\\\p{N}{1,3}", "\\\\p{Nx}"))
    assert.matches("the behaviour 'Other'", refused('"Isolated"', '"Other"'))
    assert.matches("the post%-processor 'Other'", refused('"TemplateProcessing"', '"Other"'))
    assert.matches("merge 1 of the BPE model", refused('["Ġ","Ġ"]', '["Ġ","no such"]'))
    assert.matches("a token's id", refused('"id":680', '"id":99999999'))
    assert.matches("JSON: expected a value at byte %d+, got \"n\"",
                   refused('"normalizer":null', '"normalizer":nil'))
    assert.matches("JSON: half of a surrogate pair at byte", refused('"1.0"', '"\\ud800"'))
    assert.matches("surrogate pair", refused('"1.0"', '"\\ud800\\u0041"'))
  end)

  it("refuses patterns that come back too often, and reads nested groups at once", function()
    local contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    local tok = assert(changed(contractions, ("(?:a|a)"):rep(60) .. "b"))
    local good, why = pcall(tok.encode, tok, ("a"):rep(80))
    assert.is_false(good)
    assert.matches("encode: regular expression: more than %d+ steps for one match", why)
    assert.equal("abc", tok:decode(tok:encode("abc", {special = false})))
    tok = assert(changed(contractions, "(" .. ("(?:a|b)"):rep(60) .. ")x"))
    local text = ("ab"):rep(30) .. "x"
    assert.equal(text, tok:decode(tok:encode(text, {special = false})))
  end)

  it("reads groups, options and alternatives behind each other", function()
    local e, n, both = llama:id "e", llama:id "n", llama:id "en"
    for pattern, wanted in pairs{
      ["(?:t|e)?()(?:n|q)|x"] = {both}, ["(?:x|(?:q|e)())(?:n)()"] = {both},
      ["(?:e|en)(?:v|n)?"] = {both}, ["(?:e|en)"] = {e, n}, ["(?:t|e)(?=n)"] = {e, n},
      ["(?:t|e)(?!n)"] = {both}, ["((?:e|v)(?:q|n)?)?()$"] = {both}, ["(?:v|^e)"] = {e, n},
    } do
      local tok = assert(changed("(?i:'s|'t|'re|'ve|'m|'ll|'d)", pattern))
      assert.same(wanted, tok:encode("en", {special = false}):totable(), pattern)
    end
  end)

  it("survives files that are damaged", function()
    local draw = drawing(3)
    local name = os.tmpname()
    local path = name .. ".json"
    for _ = 1, 300 do
      local text = small
      for _ = 1, 1 + draw(3) do
        local at = 1 + draw(draw(2) == 0 and #text or 2000)
        local other = draw(3) == 0 and "" or string.char(draw(256))
        text = text:sub(1, at - 1) .. other .. text:sub(at + 1 + draw(3))
      end
      files.write(path, text)
      local tok, why = heed.tokenizer.load(path)
      if tok then tok:encode("The text's 123  end\n\n <|eot_id|>", {parse = true})
      else assert.matches("tokenizer.load: ", why, 1, true) end
    end
    os.remove(path)
    os.remove(name)
  end)
end)
