-- heed.constrain: ids that keep a text on its way to JSON, or to one of some answers.

local close = require "spec.support.close"
local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"

local TOKENIZERS <const> = {"bpe_llama3", "unigram", "bpe_llama2"}

local function tokenizer(name)
  return assert(heed.tokenizer.load("spec/golden/tokenizers/" .. name))
end


-- Words of a model whose logits are random numbers.
local function babble(tok, constraint, seed, max)
  local V = #tok + 3                                 -- as models have some more, for alignment
  heed.manual_seed(seed)
  local ids = heed.generate(function(ids)
    return heed.randn(ids:size(1), ids:size(2), V) * 3
  end, {1}, {
    cache = false, max = max or 150, temperature = 1, logits = constraint, seed = seed,
    stop = function(so_far) return constraint:over(so_far) end,
  })
  return ids
end


-- Whether a text may become JSON, and whether it is complete, byte by byte.
local function follow(text, object)
  local state = require("heed.constrain.json").start(object or false)
  for i = 1, #text do
    local byte = text:byte(i)
    state = state.step(byte)
    if not state then return false, i end
  end
  return true, state.complete or false
end


describe("heed.constrain.json", function()
  it("lets through what is JSON, to its end", function()
    for _, text in ipairs{
      "0", "-0", "12", "-1.5", "1e9", "2E3", "0e1", "0E+1", "0.5e1", "2.50E-07",
      "true", "false", "null", '""', '"a"', "[]", "{}",
      '"\\n\\u00e9\\uD7ff\\ue000 \\"/"', '"é漢\u{1F389}\u{7ff}\u{800}\u{ffff}\u{10ffff}\127"',
      '"\u{d7ff}\u{e000}\u{fff}\u{1000}\u{10000}\u{3ffff}\u{40000}\u{fffff}\u{100000}"',
      '[1, 2,\n[] ,{ "a" : [ ] } ]', ' {"a":{"b":[null,true,-3.25e+1]},"c":""}', "\n\t [\r\n1]",
      '{ }', '[ [ ] ]', '{"":0}',
    } do
      local good, complete = follow(text)
      assert.is_true(good, text .. " fails at " .. tostring(complete))
      assert.is_true(complete, text)
      assert.is_not_nil(json.decode(text))
    end
  end)


  it("stops where no JSON begins so", function()
    for text, at in pairs{
      ["01"] = 2, ["-a"] = 2, ["1.a"] = 3, [".5"] = 1, ["+1"] = 1, ["1e"] = nil, ["1e+a"] = 4,
      ["tree"] = 3, ["nulL"] = 4, ["'a'"] = 1, ['"a\n"'] = 3, ['"\\x"'] = 3, ['"\\ud800"'] = 5,
      ['"\\uDfff"'] = 5, ['"\\u12g4"'] = 6, ["[1,]"] = 4, ["[,"] = 2, ["[1 2]"] = 4, ["{1:2}"] = 2,
      ['{"a" 1}'] = 6, ['{"a":}'] = 6, ['{"a":1,}'] = 8, ["[1}"] = 3, ['{"a":1]'] = 7, ["{]"] = 2,
      ["1 "] = 2, ["[] "] = 3, ['"\x80'] = 2, ['"\xc1'] = 2, ['"\xc3a'] = 3, ['"\xe0\x80'] = 3,
      ['"\xed\xa0'] = 3, ['"\xf0\x80'] = 3, ['"\xf4\x90'] = 3, ['"\xf5'] = 2, ['"\xe1\x80a'] = 4,
      ['"\xf1\x80\x80"'] = 5, [("["):rep(33)] = 33, [(" "):rep(17)] = 17, [("1"):rep(16)] = 16,
      ["1e999"] = 5, ["//"] = 1, ["NaN"] = 1, ["Infinity"] = 1, ["[1" .. (" "):rep(17)] = 19,
    } do
      local good, where = follow(text)
      assert.is_false(good, text)
      assert.equal(at, where, text)
    end
    local good, complete = follow("1e")
    assert.is_true(good)
    assert.is_false(complete)
    assert.is_true(follow(("["):rep(32)))
    for _, number in ipairs{"-" .. ("1"):rep(15), "0." .. ("1"):rep(15), "1e99", "1e-99"} do
      assert.is_true(follow(number))
      assert.same({false, #number + 1}, {follow(number .. "1")})
    end
    assert.is_false((follow("[1", true)))
    assert.is_false((follow("1", true)))
    assert.is_true((follow(' {"a":[1', true)))
  end)


  for _, name in ipairs(TOKENIZERS) do
    it("makes JSON of random logits with " .. name, function()
      local tok, complete = tokenizer(name), 0
      for seed = 1, 8 do
        local object = seed % 2 == 0
        local c = heed.constrain.json(tok, {object = object})
        local ids = babble(tok, c, seed)
        local text = tok:decode(ids)
        assert.equal(c:complete(ids:totable()), c:complete(ids))
        if c:complete(ids:totable()) then
          local value = json.decode(text)
          assert.is_not_nil(value, text)
          assert.is_true(not object or type(value) == "table")
          complete = complete + 1
        else
          assert.equal(150, #ids)
        end
      end
      assert.is_true(complete >= 2)
    end)
  end


  it("is complete with the id that ended it, too", function()
    local m = assert(heed.models.load(directories.HERE .. "llama3"))
    local json_alone, stop = heed.constrain.json(m.tokenizer), 1
    while m.tokenizer:decode{stop} ~= "" do stop = stop + 1 end
    local text, about = m:generate("x", {logits = function(logits, ids)
      logits = json_alone:apply(logits, ids, {stop})        -- ends as soon as it may
      if logits[stop] > -math.huge then logits[stop] = 1e9 end
      return logits
    end, ends = {stop}, max = 40})
    assert.equal("end", about.reason)
    assert.equal(stop, about.ids[#about.ids])
    assert.is_not_nil(json.decode(text))
    assert.is_true(json_alone:complete(about.ids))
    assert.is_true(json_alone:complete(about.ids:narrow(1, 1, #about.ids - 1)))
    assert.is_false(json_alone:complete{stop})
  end)


  it("goes with beams, and with the ends of a model", function()
    local files = {
      ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
      ["tokenizer.json"] = "tokenizer.json",
    }
    local place <close> = directories.make("llama3", files)
    local m = assert(heed.models.load(place.path))
    local tok = m.tokenizer
    local answers = heed.constrain.answers(tok, {"yes", "no", "yes, of course"})
    for _, o in ipairs{{}, {beams = 3}, {temperature = 1.5, seed = 1}, {temperature = 2}} do
      o.logits = answers
      local text, about = m:generate("Is it?", o)
      assert.is_truthy(({yes = 1, no = 1, ["yes, of course"] = 1})[text:gsub("^ ", "")], text)
      if not o.beams then assert.is_true(about.reason == "end" or about.reason == "stop") end
    end
    local digits = heed.constrain.json(tok)
    local eot = m.tokenizer:id "<|eot_id|>"
    local text, about = m:generate("x", {
      ends = eot, max = 60, seed = 2, temperature = 3,
      logits = digits,
    })
    assert.is_true(json.decode(text) ~= nil or about.reason == "max", text)
  end)
end)


describe("heed.constrain.answers", function()
  it("gives one of the texts", function()
    local tok, seen = tokenizer "unigram", {}
    local c = heed.constrain.answers(tok, {"yes", "no", "maybe so", "é"})
    for seed = 1, 25 do
      local ids = babble(tok, c, seed)
      seen[tok:decode(ids):gsub("^ ", "")] = true
      assert.is_true(c:over(ids:totable()))
    end
    for text in pairs(seen) do
      assert.is_truthy(({yes = 1, no = 1, ["maybe so"] = 1, ["é"] = 1})[text], text)
    end
    assert.is_true(next(seen, next(seen)) ~= nil)
  end)


  it("keeps masks of what it lets through until it is collected", function()
    local tok = tokenizer "unigram"
    local c, logits = heed.constrain.answers(tok, {"no"}), heed.zeros(#tok, {device = "cpu"})
    local function live()
      for _ = 1, 2 do collectgarbage() end
      return heed.memory().live
    end
    local before, kept = live(), nil
    for i = 1, 2 do
      c:apply(logits, {})
      local now = live()
      assert.is_true(now >= before + #tok and now == (kept or now), i)
      kept = now
    end
    c = nil
    assert.is_true(not c and live() <= before)
  end)


  it("says what it cannot do", function()
    local tok = tokenizer "bpe_llama3"
    for _, bad in ipairs{3, {}, {3}, {""}, {a = "b"}, "yes"} do
      assert.matches("constrain.answers: ", message(heed.constrain.answers, tok, bad), 1, true)
    end
    for _, bad in ipairs{3, {}, "tok", setmetatable({}, {__name = "heed"})} do
      assert.matches("a tokenizer expected", message(heed.constrain.json, bad), 1, true)
    end
    assert.matches("unknown option 'objct'", message(heed.constrain.json, tok, {objct = true}), 1,
                   true)
    local c = heed.constrain.answers(tok, {"no"})
    local ids = tok:encode("no", {special = false}):totable()
    assert.is_true(c:over(ids))
    assert.is_false(c:over{})
    assert.matches("the text is complete", message(c, heed.zeros(#tok), ids), 1, true)
    assert.matches("not what it lets through", message(c, heed.zeros(#tok), {#tok}), 1, true)
    local kept = c:apply(heed.zeros(#tok), ids, {5})
    assert.equal(1, kept:isfinite():sum():item())
    assert.equal(0, kept[5])
    assert.matches("there is no 'ovr'; did you mean 'over'", message(function()
      return c.ovr
    end), 1, true)
    assert.matches("apply: at most 3 arguments",
                   message(c.apply, c, heed.zeros(#tok), ids, {5}, 4), 1, true)
    for _, name in ipairs{"complete", "over"} do
      assert.matches(name .. ": at most 1 argument ", message(c[name], c, ids, 2), 1, true)
    end
    assert.matches("check_tokenizer: at most 2 arguments",
                   message(c.check_tokenizer, c, "f", tok, 3), 1, true)
    assert.equal("heed.Constraint(constrain.answers)", tostring(c))
  end)
end)


-- Beside what follows of the definition, each token by itself.
describe("the ids that a constraint lets through", function()
  -- The bytes that each token adds to a text, as where the letter a stands before it.
  local function texts_of(tok)
    local texts, before = {}, tok:encode("a", {special = false}):totable()
    local text = tok:decode(before)
    for id = 1, #tok do
      before[#before + (id == 1 and 1 or 0)] = id
      local whole = tok:decode(before)
      texts[id] = whole:sub(1, #text) == text and whole:sub(#text + 1) or ""
    end
    return texts
  end

  local function open_of(c, V, ids, ends)
    local found = {}
    local logits = c:apply(heed.arange(1, V):to("float32"), ids, ends)
    for id, value in ipairs(logits:totable()) do
      if value ~= -math.huge then
        assert.equal(id, value)
        found[#found + 1] = id
      end
    end
    return found
  end

  for _, name in ipairs(TOKENIZERS) do
    it("are all those whose texts go on as they should: " .. name, function()
      local tok = tokenizer(name)
      local texts, answers = texts_of(tok), {"yes", "no", "nobody there", "é"}
      local c, lengths = heed.constrain.answers(tok, answers), {}
      local function wanted_behind(so_far)
        local list = {}
        for id, text in ipairs(texts) do
          for _, answer in ipairs(answers) do
            local next_text = so_far .. text
            local good = text ~= "" and (answer:sub(1, #next_text) == next_text
                                         or (" " .. answer):sub(1, #next_text) == next_text)
            if good then
              list[#list + 1], lengths[#text] = id, true
              break
            end
          end
        end
        return list
      end
      local first = wanted_behind ""
      assert.same(first, open_of(c, #tok, {}))
      assert.is_true(next(lengths, next(lengths)) ~= nil)            -- tokens of several bytes
      for _, id in ipairs(first) do
        local behind = wanted_behind(texts[id])
        local complete = c:complete{id}
        assert.equal(texts[id]:gsub("^ ", "") == "no" or texts[id]:gsub("^ ", "") == "yes"
                     or texts[id]:gsub("^ ", "") == "é", complete)
        assert.equal(complete and #behind == 0, c:over{id})
        if #behind > 0 then assert.same(behind, open_of(c, #tok, {id})) end
      end
      local some = math.max(table.unpack(first)) - 1
      local few = {}
      for _, id in ipairs(first) do few[#few + 1] = id <= some and id or nil end
      assert.same(few, open_of(c, some, {}))
      for _, n in ipairs{#tok, #tok + 5} do assert.same(first, open_of(c, n, {})) end
    end)
  end

  it("have the ends beside them where the text is complete", function()
    local tok = tokenizer "bpe_llama3"
    local c = heed.constrain.answers(tok, {"no", "nobody"})
    local ids = tok:encode("no", {special = false}):totable()
    local plain = open_of(c, #tok, ids)
    assert.is_true(#plain > 0)
    for _, ends in ipairs{{#tok}, {#tok - 1, #tok}, {#tok - 1}} do
      local wanted = table.move(ends, 1, #ends, #plain + 1, table.move(plain, 1, #plain, 1, {}))
      table.sort(wanted)
      assert.same(wanted, open_of(c, #tok, ids, ends))
      assert.same(open_of(c, #tok, {}), open_of(c, #tok, {}, ends))
    end
    assert.same(plain, open_of(c, #tok, ids))
    assert.is_true(c:complete(ids))
    assert.is_false(c:over(ids))
    assert.is_false(c:complete{})
    assert.is_false(c:over{#tok})
    assert.is_false(c:complete{#tok})
  end)

  it("are found where the tokenizer knows one of a few letters or the digit 1", function()
    local place <close> = directories.make("llama3", {["tokenizer.json"] = "tokenizer.json"})
    local function ids_of(...)
      local vocab = {}
      for i, name in ipairs{"?", "b", "bc", ...} do vocab[name] = i - 1 end
      local text = json.encode{model = {type = "BPE", vocab = vocab,
                                        merges = json.array{json.array{"b", "c"}}}}
      directories.write(place.path .. "/tokenizer.json", text)
      local tok = assert(heed.tokenizer.load(place.path))
      return open_of(heed.constrain.answers(tok, {"bc", "d"}), #tok, {})
    end
    for _, letter in ipairs{"a", "e", "1"} do assert.same({2, 3}, ids_of("c", letter), letter) end
    assert.matches("constrain: a tokenizer that knows the letter a expected$",
                   message(ids_of, "c", "x"))
  end)

  it("are asked for by lists and logits alone", function()
    local tok = tokenizer "bpe_llama3"
    local c = heed.constrain.answers(tok, {"no"})
    for said, bad in pairs{["5"] = 5, ["the string 'a'"] = "a"} do
      for _, name in ipairs{"over", "complete"} do
        assert.matches(("%s: a list of ids expected as argument 'ids', got %s"):format(name, said),
                       message(c[name], c, bad), 1, true)
      end
      assert.matches("constrain.answers: a list of ids expected as argument 'ids', got " .. said,
                     message(c, heed.zeros(#tok), bad), 1, true)
      assert.matches("constrain.answers: a list of ids expected as argument 'ends', got " .. said,
                     message(c.apply, c, heed.zeros(#tok), {}, bad), 1, true)
      assert.matches("constrain.answers: logits of shape (V) expected, got " .. said,
                     message(c, bad, {}), 1, true)
    end
    assert.matches("over: a whole number expected as id 2 of argument 'ids', got 1.5",
                   message(c.over, c, {1, 1.5}), 1, true)
    assert.matches("logits of shape (V) expected, got a tensor of shape (2, 3)",
                   message(c, heed.zeros(2, 3), {}), 1, true)
  end)
end)


describe("a constraint of another tokenizer", function()
  local model = assert(heed.models.load("spec/golden/models/llama3"))
  local function run(tok)
    return model:generate({5}, {max = 2, logits = heed.constrain.answers(tok, {"yes"})})
  end

  it("is refused by model:generate, with how the tokens differ", function()
    assert.matches("generate: option logits: a constraint for the model's tokenizer expected, got "
                   .. "one whose tokenizer has 1050 tokens, not 683; write "
                   .. "heed.constrain.answers(model.tokenizer, ...)",
                   message(run, tokenizer "unigram"), 1, true)
    local place <close> = directories.make("llama3", {["tokenizer.json"] = "tokenizer.json"})
    local path = place.path .. "/tokenizer.json"
    local file = json.decode(directories.read(path))
    for name, id in pairs(file.model.vocab) do
      if id == 69 or id == 70 then file.model.vocab[name] = 139 - id end
    end
    directories.write(path, json.encode(file))
    assert.matches("got one whose tokenizer has the string '%g+' as token 70, not the string",
                   message(run, assert(heed.tokenizer.load(place.path))))
  end)

  it("is taken where the tokens are the same, or the model has none to compare", function()
    assert.equal(2, #run(model.tokenizer))
    local same = tokenizer "bpe_llama3"
    for _ = 1, 2 do assert.equal(2, #run(same)) end
    local place <close> = directories.make("llama3")
    local bare = assert(heed.models.load(place.path))
    local c = heed.constrain.answers(same, {"yes"})
    assert.equal(2, #bare:generate({5}, {max = 2, logits = c, ends = false}))
  end)
end)


describe("option logits of heed.generate", function()
  local function model(ids) return heed.ones(ids:size(1), ids:size(2), 6) * heed.arange(1, 6) end

  it("changes logits in place or by others, for each row", function()
    local calls = {}
    local o = {cache = false, max = 3, logits = function(logits, ids, row)
      calls[#calls + 1] = row .. ":" .. table.concat(ids, ",")
      if row == 2 then return -logits end
      logits[6] = -math.huge
    end}
    local new = heed.generate(model, {{1}, {2, 3}}, o)
    assert.same({5, 5, 5}, new[1]:totable())
    assert.same({1, 1, 1}, new[2]:totable())
    assert.same({"1:", "2:", "1:5", "2:1", "1:5,5", "2:1,1"}, calls)
  end)


  it("gets log-probabilities of beams", function()
    local seen = 0
    local ids, beams = heed.generate(model, {1}, {
      cache = false, max = 2, beams = 2,
      logits = function(logits, _, prompt)
        assert.equal(1, prompt)
        assert.is_true(close(logits:exp():sum():item(), 1, 1e-5))
        seen = seen + 1
        logits[6] = -math.huge
      end,
    })
    assert.same({5, 5}, ids:totable())
    assert.equal(2, #beams)
    assert.equal(3, seen)
  end)


  it("may let one id through to beams", function()
    local ids = heed.generate(model, {1}, {
      cache = false, max = 3, beams = 2,
      logits = function(logits) logits[{{5, 6}}], logits[{{1, 3}}] = -math.huge, -math.huge end,
    })
    assert.same({4, 4, 4}, ids:totable())
  end)


  it("refuses what are no logits", function()
    for _, bad in ipairs{3, "a", heed.zeros(5), heed.zeros(6, {dtype = "int64"}), {1}} do
      assert.matches("or nil, expected from option logits for row 1", message(
        heed.generate, model, {1}, {cache = false, logits = function() return bad end}), 1, true)
    end
    assert.matches("a largest number expected", message(heed.generate, model, {1}, {
      cache = false, logits = function(logits) logits:fill_(-math.huge) end,
    }), 1, true)
    local kept = heed.zeros(1, 1, 6)
    heed.generate(function() return kept end, {1}, {
      cache = false, max = 1, logits = function(logits) logits:fill_(3) end,
    })
    assert.equal(0, kept:sum():item())
  end)
end)
