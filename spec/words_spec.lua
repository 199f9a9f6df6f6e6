-- model:generate: words of models from directories, with what generation_config.json says.

local directories = require "spec.support.directories"
local heed = require "heed"
local json = require "heed.files.json"
local message = require "spec.support.message"
local nn = require "heed.nn"

local HERE <const> = directories.HERE
local DECODERS <const> = {
  "gemma2", "gpt2", "gpt_neox", "granite", "mistral", "olmo2", "phi", "phi3_partial", "qwen2",
  "qwen3", "smollm3",
}
local FILES <const> = {
  ["config.json"] = "config.json", ["model.safetensors"] = "model.safetensors",
  ["tokenizer.json"] = "tokenizer.json",
}
local TEMPLATE <const> = "{{ bos_token }}{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}"
                         .. "<|eot_id|>{% endfor %}"
                         .. "{% if add_generation_prompt %}assistant: {% endif %}"


-- A model of texts whose generation_config.json is what it is given, or missing.
local function load(generation)
  local place <close> = directories.make("llama3", FILES)
  directories.write(place.path .. "/chat_template.jinja", TEMPLATE)
  if generation then
    directories.write(place.path .. "/generation_config.json", json.encode(generation))
  end
  return assert(heed.models.load(place.path))
end


local golden = assert(json.decode(directories.read(HERE .. "llama3/words.json")))
local plain = load{}

local function from_zero(ids)
  local list = {}
  for i, id in ipairs(ids:totable()) do list[i] = id - 1 end
  return list
end


-- A model whose words are those of a text, one after the other: it knows where it is by the length.
local function speaking(text, generation, tokenizer)
  local m = load(generation)
  m.tokenizer = tokenizer or m.tokenizer
  local ids = m.tokenizer:encode(text, {special = false})
  local asked = 0
  m:register_forward_hook(function(_, _, logits)
    local B, T, V = logits:size()
    asked = asked + 1
    local forced = heed.full({B, T, V}, -10, {dtype = "float32"})
    forced[{{}, {}, ids[math.min(asked, #ids)]}] = 10
    return forced
  end)
  return m, ids
end


describe("words of a model", function()
  it("are the golden ids of all decoders, with lookup too", function()
    local right = 0
    for _, name in ipairs(DECODERS) do
      local place <close> = directories.make(name)
      local m = assert(heed.models.load(place.path, {dtype = "float32"}))
      local e = assert(heed.load(HERE .. name .. "/expect.safetensors"))
      local keys, prompts = e.prompts_mask:ne(0), {}
      for b = 1, #keys do prompts[b] = (e.prompts + 1)[b][keys[b]] end
      local new, about = m:generate(prompts, {max = e.greedy:size(2), ends = false})
      for b = 1, #keys do
        local wanted = (e.greedy[b] + 1):totable()
        assert.same(wanted, new[b]:totable(), name)
        assert.equal("max", about[b].reason)
        local ids, more = m:generate(prompts[b], {max = #wanted, ends = false, lookup = 3})
        assert.same(wanted, ids:totable(), name)
        local l = more.lookup
        right = right + l.right
        assert.equal(#wanted - 1, l.calls + l.right, name)
        assert.is_true(l.right <= l.guessed and l.guessed <= 3 * l.calls)
      end
    end
    assert.is_true(right > 10)
  end)


  it("begin with the first id of bos_token_id where a text has no token", function()
    local content = assert(json.decode(directories.read(HERE .. "llama3/tokenizer.json")))
    content.post_processor = json.null
    local place <close> = directories.make("llama3", FILES)
    directories.write(place.path .. "/tokenizer.json", json.encode(content))
    local bare = assert(heed.tokenizer.load(place.path))
    local o = {max = 3, ends = false}
    for _, start in ipairs{680, json.array{680, 3}} do
      local m = load{bos_token_id = start}
      m.tokenizer = bare
      local text, about = m:generate("", o)
      local ids, own = m:generate({681}, o)
      assert.equal(bare:decode(ids), text)
      assert.same(own.ids:totable(), about.ids:totable())
    end
    for _, none in ipairs{json.array{}, "other"} do
      local m = load{bos_token_id = none}
      m.tokenizer = bare
      assert.matches(none == "other" and "generate: generation_config.json: ids expected as "
                     .. "bos_token_id, got the string 'other'"
                     or "generate: a text of at least one token expected, got ''$",
                     message(m.generate, m, "", o))
    end
  end)


  it("of beams have scores that are divided by their number, unless an option says more", function()
    local function model(ids)
      return heed.ones(ids:size(1), ids:size(2), 6) * heed.arange(1, 6) * 0.3
    end
    local function scores(penalty)
      local o = {cache = false, max = 4, beams = 3, stop = 5, length_penalty = penalty}
      local list = {}
      for i, beam in ipairs(select(2, heed.generate(model, {1}, o))) do
        list[i] = ("%.5f %d"):format(beam.score, #beam.ids)
      end
      return list
    end
    assert.same(scores(1), scores())
    assert.not_same(scores(2), scores())
    assert.not_same(scores(0), scores())
  end)


  it("follow a chat by the options of m:chat", function()
    local list, seen = {{role = "user", content = "a b"}}, {}
    local source = "{{ messages[0].content }}{% if tools %} tools {{ tools | length }}{% endif %}"
                   .. "{% if documents %} documents{% endif %}{{ more }}"
    for _, o in ipairs{
      {template = "x {{ messages[0].content }}"}, {template = source},
      {template = source, tools = {{name = "f"}}}, {template = source, documents = {{a = 1}}},
      {template = source, variables = {more = " and more"}},
    } do
      local given = {max = 6, ends = false}
      local own = {prompt = true, ids = true}
      for name, value in pairs(o) do own[name], given[name] = value, value end
      local prompt = plain:chat(list, own)
      local wanted = plain:generate(prompt, {max = 6, ends = false})
      local _, about = plain:generate(list, given)
      assert.same(wanted:totable(), about.ids:totable())
      seen[table.concat(about.ids:totable(), " ")] = true
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.is_true(n >= 4, n)
  end)

  it("are the golden ids of T5 and BART, and stop at their ends", function()
    for _, name in ipairs{"t5", "bart"} do
      local place <close> = directories.make(name)
      local m = assert(heed.models.load(place.path))
      local e = assert(heed.load(HERE .. name .. "/expect.safetensors"))
      local keys, prompts = e.prompts_mask:ne(0), {}
      for b = 1, #keys do prompts[b] = (e.prompts + 1)[b][keys[b]] end
      m.generation.decoder_start_token_id = name == "t5" and 0 or 2
      local new = m:generate(prompts, {max = e.greedy:size(2), ends = false})
      for b = 1, #keys do assert.same((e.greedy[b] + 1):totable(), new[b]:totable(), name) end
      local last = new[1][4]
      local cut, about = m:generate(prompts[1], {ends = last})
      assert.equal(last, cut[#cut])
      assert.equal("end", about.reason)
      assert.same(new[1]:totable(), table.move(new[1]:totable(), 1, #cut, 1, new[1]:totable()))
      local best, found = m:generate(prompts[1], {beams = 2, max = 4, ends = false})
      assert.same(found.beams[1].ids:totable(), best:totable())
      local modes = {}
      m.source:register_forward_hook(function(side) modes[#modes + 1] = side.training end)
      m:train()
      m:generate(prompts[1], {max = 1})
      assert.same({{false}, true}, {modes, m.source.training})
      local cache = nn.Cache()
      m:generate(prompts[1], {max = 1, cache = cache})
      assert.matches("an empty cache expected", message(m.generate, m, {9}, {cache = cache}))
      local unknown = assert(heed.models.load(place.path))
      unknown.generation.decoder_start_token_id = nil
      assert.matches("decoder_start_token_id expected",
                     message(unknown.generate, unknown, prompts[1]), 1, true)
    end
  end)


  it("of texts are texts, of ids ids, of messages the reply, of lists lists", function()
    for b, prompt in ipairs(golden.prompts) do
      local text, about = plain:generate(prompt, {max = 24, ends = false})
      assert.same(golden.greedy[b], from_zero(about.ids))
      local whole = plain.tokenizer:encode(prompt)
      local joined = heed.cat{whole, about.ids}
      assert.equal(prompt .. text, plain.tokenizer:decode(joined))
      assert.same(golden.greedy[b], from_zero(plain:generate(whole, {max = 24, ends = false})))
      assert.same(golden.greedy[b],
                  from_zero(plain:generate(whole:totable(), {max = 24, ends = false})))
    end
    local o = {max = 24, ends = false}
    local texts, abouts = plain:generate(golden.prompts, o)
    for b, about in ipairs(abouts) do
      assert.same(golden.greedy[b], from_zero(about.ids))
      assert.equal((plain:generate(golden.prompts[b], o)), texts[b])
    end
    local ids = plain.tokenizer:encode("x")
    assert.same(golden.greedy[3], from_zero(plain:generate(ids:unsqueeze(1), o)[1]))
    local messages = {{role = "user", content = "The <|eot_id|> model"}}
    local reply, about = plain:generate(messages, o)
    local prompt = plain:chat(messages, {prompt = true, ids = true})
    assert.same(plain:generate(prompt, o):totable(), about.ids:totable())
    assert.equal(plain.tokenizer:decode(about.ids), reply)
    local both = plain:generate({messages, "x", {7, 8}}, o)
    assert.equal(reply, both[1])
    assert.equal(texts[3], both[2])
    assert.equal(24, #both[3])
  end)


  it("end where the file says, or the caller", function()
    local m = load{eos_token_id = golden.eos}
    local _, about = m:generate(golden.prompts[1], {max = 24})
    assert.equal("end", about.reason)
    assert.equal(golden.eos, about.ids[#about.ids] - 1)
    local text = m:generate(golden.prompts[1], {max = 24})
    local two = load{eos_token_id = {3, golden.eos}}
    assert.equal(text, (two:generate(golden.prompts[1], {max = 24})))
    assert.is_true(#m:generate(golden.prompts[1], {max = 24, ends = false}) > #text)
    assert.equal(text, (load{eos_token_id = 3}:generate(golden.prompts[1],
                                                        {max = 24, ends = golden.eos + 1})))
    assert.is_nil(text:find(m.tokenizer:token(golden.eos + 1), 1, true))
    local seen = 0
    _, about = plain:generate("x", {stop = function(ids)
      seen = #ids
      return seen == 3
    end})
    assert.equal("stop", about.reason)
    assert.equal(3, #about.ids)
    for _, beams in ipairs{false, 2} do               -- no text has the id that ended it
      local speaks, ids = speaking "one two!"
      text, about = speaks:generate({{role = "user", content = "x"}}, {
        cache = false, max = #ids, ends = ids[#ids], beams = beams or nil,
      })
      assert.same(ids:totable(), about.ids:totable())
      assert.equal(m.tokenizer:decode(ids[{{1, -2}}]), text)
    end
    local callable = setmetatable({}, {__call = function(_, ids) return #ids == 2 end})
    assert.equal(2, #select(2, plain:generate("x", {stop = callable})).ids)
  end)


  it("go on from their prompt, also where a text's first blank is no part of it", function()
    local place <close> = directories.make("llama3", {})
    local blanks = [[{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}]]
    directories.write(place.path .. "/tokenizer.json", [[{"pre_tokenizer":]] .. blanks
      .. [[,"decoder":]] .. blanks .. [=[,"model":{"type":"Unigram","unk_id":0,"vocab":
      [["<unk>",0],["▁a",-1],["▁b",-1],["c",-1]]}}]=])
    local tokenizer = assert(heed.tokenizer.load(place.path))
    local pieces = {}
    local text = speaking("b c b", {}, tokenizer):generate("a a", {
      max = 3, ends = false, cache = false,
      on_text = function(piece) pieces[#pieces + 1] = piece end,
    })
    assert.equal(" b", text:sub(1, 2))
    assert.equal(text, table.concat(pieces))
    local beams = speaking("b c b", {}, tokenizer)
    assert.equal(" b", beams:generate("a a", {
      max = 1, ends = false, cache = false, beams = 2,
    }):sub(1, 2))
  end)

  it("go on from a cache without the tokens that begin a text", function()
    local cache = nn.Cache()
    plain:generate({3}, {max = 1, cache = cache})
    plain:generate("one two", {max = 1, cache = cache})
    assert.equal(1 + #plain.tokenizer:encode("one two", {special = false}), cache:length())
  end)

  it("stop at texts, exactly, and nothing of these is shown before", function()
    local text = "one two three four, one two five"
    for _, case in ipairs{
      {"three", "one two "}, {" three f", "one two"}, {"e t", "on"},
      {"two five", "one two three four, one "},
      {"one", ""}, {"nothing", text}, {{"five", "four"}, "one two three "}, {"five!", text},
      {{"two t", "two three"}, "one "}, {"e", "on"}, {{"x", text}, ""},
      {"one two f", "one two three four, "},
    } do
      local pieces = {}
      local m, ids = speaking(text)
      local words, about = m:generate({{role = "user", content = "x"}}, {
        cache = false, max = #ids, ends = false, stop = case[1],
        on_text = function(piece, b)
          assert.equal(1, b)
          assert.is_true(utf8.len(piece) > 0)
          pieces[#pieces + 1] = piece
        end,
      })
      assert.equal(case[2], words)
      assert.equal(case[2], table.concat(pieces))
      assert.equal(case[2] == text and "max" or "stop", about.reason)
      local best, found = speaking(text):generate({{role = "user", content = "x"}}, {
        cache = false, max = #ids, ends = false, stop = case[1], beams = 2,
      })
      assert.equal(case[2], best)
      assert.same(about.ids:totable(), found.ids:totable())
      local shown = {}
      assert.same(about.ids:totable(), speaking(text):generate({3}, {
        cache = false, max = #ids, ends = false, stop = case[1] ~= "nothing" and case[1] or nil,
        on_text = case[1] ~= "one" and function(piece) shown[#shown + 1] = piece end or nil,
      }):totable())
      assert.equal(case[2], table.concat(shown))
    end
  end)


  it("come as they are made, in whole characters", function()
    local text, pieces = "né 漢字 🎉 fin", {}
    local m, ids = speaking(text)
    local words = m:generate({{role = "user", content = "x"}}, {
      cache = false, max = #ids, ends = false,
      on_text = function(piece) pieces[#pieces + 1] = piece end,
    })
    assert.equal(text, words)
    assert.equal(text, table.concat(pieces))
    assert.is_true(#pieces > 5)
    for _, piece in ipairs(pieces) do assert.is_truthy(utf8.len(piece)) end
    local n, said = 0
    m, ids = speaking(text)
    words, said = m:generate({{role = "user", content = "x"}}, {
      cache = false, max = #ids, ends = false,
      on_text = function() n = n + 1 return n < 3 end,
    })
    assert.equal("caller", said.reason)
    assert.equal(3, n)
    assert.equal(text:sub(1, #words), words)
    said = select(2, speaking(text):generate({3}, {
      cache = false, max = 9, ends = false, on_token = function() n = n + 1 return n < 5 end,
    }))
    assert.same({"caller", 2}, {said.reason, #said.ids})
    assert.is_true(#said.ids < #ids)
  end)


  it("show no special token", function()
    local m = speaking("ab")
    local eot = m.tokenizer:id "<|eot_id|>"
    local seen = {}
    local words = m:generate({{role = "user", content = "x"}}, {
      cache = false, max = 3, ends = false,
      logits = function(logits, ids)
        if #ids == 1 then logits[eot] = 99 end
      end,
      on_text = function(piece) seen[#seen + 1] = piece end,
    })
    assert.is_nil(words:find("eot", 1, true))
    assert.equal(words, table.concat(seen))
  end)


  it("refuse models without logits of the next id, and prompts that are none", function()
    for _, name in ipairs{"gemma3_bidirectional", "distilbert", "bert_reranker", "vit", "clip"} do
      local place <close> = directories.make(name)
      local m = assert(heed.models.load(place.path))
      assert.matches("logits of the next id expected; this one (" .. m.config.model_type,
                     message(m.generate, m, "x"), 1, true)
    end
    for _, class in ipairs{"Gemma3ForCausalLM", "LlamaModel"} do
      local from = class == "LlamaModel" and "llama3" or "gemma3_bidirectional"
      local place <close> = directories.make(from, nil, function(c)
        c.architectures = json.array{class}
      end)
      local m = assert(heed.models.load(place.path))
      assert.matches("this one (" .. m.config.model_type .. ") has none",
                     message(m.generate, m, {3}), 1, true)
    end
    for _, bad in ipairs{3, true, {}, print, heed.zeros(3), {x = 1}, {print}, {1, "a"}, {"a", 3},
                         {1, x = 2}, heed.zeros({1, 1, 1}, {dtype = "int64"})} do
      assert.matches("generate: ", message(plain.generate, plain, bad), 1, true)
    end
    assert.matches("as prompt 1, got a table; a message has a role, too$",
                   message(plain.generate, plain, {{content = "a"}}))
    assert.matches("expected as prompt 2, got true", message(plain.generate, plain, {"a", true}), 1,
                   true)
    for given, wanted in pairs{
      [{on_txt = print}] = "unknown option 'on_txt'", [{stop = 3}] = "option stop, got 3",
      [{stop = {""}}] = "option stop", [{ends = "a"}] = "option ends",
      [{ends = {0}}] = "option ends",
      [{logits = 3}] = "option logits", [{on_text = 3}] = "option on_text",
      [{on_token = "x"}] = "option on_token", [{config = 3}] = "config", [{parse = 3}] = "parse",
      [{beams = 2, on_text = print}] = "no option on_text expected with beams",
      [{beams = 2, lookup = 3}] = "no option lookup expected with beams",
      [{lookup = 0}] = "option lookup", [{lookup = 2, cache = false}] = "takes back",
      [{lookup = 2, window = 4}] = "takes back",
      [{lookup = 2, cache = nn.Cache{window = 8}}] = "takes back",
      [{lookup = 2, cache = {}}] = "a cache of another kind does not let it",
    } do
      assert.matches(wanted, message(plain.generate, plain, "x", given), 1, true)
    end
    for _, holed in ipairs{{5, nil, 6}, {{5}, nil, {6}}, {{5}, {6, nil, 7}}, {"x", nil, "y"}} do
      assert.matches("generate: .*position 2", message(plain.generate, plain, holed))
    end
    for _, name in ipairs{"stop", "ends"} do
      assert.matches("option " .. name .. ": an entry expected at position 2, since", message(
        plain.generate, plain, "x", {[name] = {"a", nil, "b"}}))
    end
    assert.matches("one prompt expected with option lookup, got 2",
                   message(plain.generate, plain, {"x", "y"}, {lookup = 2}), 1, true)
  end)


  it("leave nothing behind when a function of the caller's fails", function()
    local before = plain:generate("x", {max = 6, ends = false})
    plain:train()
    for _, name in ipairs{"on_text", "on_token", "logits", "stop"} do
      local n = 0
      local function fails()
        n = n + 1
        if n == 2 then error("mine: " .. name) end
      end
      assert.matches("mine: " .. name, message(plain.generate, plain, "x", {
        max = 6, ends = false, [name] = fails,
      }), 1, true)
      assert.is_true(plain.training)
      assert.is_true(heed.is_grad_enabled())
      local run = coroutine.create(function()
        return (plain:generate("x", {max = 6, ends = false, [name] = coroutine.yield}))
      end)
      local text
      repeat
        local good, given = coroutine.resume(run)
        assert.is_true(good, given)
        assert.is_true(heed.is_grad_enabled())
        text = given
      until coroutine.status(run) == "dead"
      assert.equal(before, text)
      assert.is_true(plain.training)
      assert.is_true(heed.is_grad_enabled())
      assert.equal(before, (plain:generate("x", {max = 6, ends = false})))
    end
    local inner
    local text = plain:generate("x", {max = 6, ends = false, on_text = function()
      plain:eval()
      plain:chat({{role = "user", content = "a"}})
      inner = plain:generate("x", {max = 6, ends = false})
    end})
    assert.equal(before, text)
    assert.equal(before, inner)
    assert.is_true(plain.training)
    plain:eval()
  end)
end)


describe("generation_config.json", function()
  local prompt <const> = golden.prompts[1]

  -- The ids of a model with such a file, and those of heed.generate with options.
  local function same(file, given, o)
    local m = load(file)
    local _, about = m:generate(prompt, o)
    local ids = m.tokenizer:encode(prompt)
    given.stop = given.stop or {}
    local wanted = heed.generate(m, ids, given)
    assert.same(wanted:totable(), about.ids:totable())
    return about.ids
  end

  it("gives what the caller does not", function()
    local n = #plain.tokenizer:encode(prompt)
    same({max_new_tokens = 7}, {max = 7})
    same({max_length = n + 5}, {max = 5})
    same({max_length = 3}, {max = 0})
    same({max_new_tokens = 0}, {max = 0})
    same({max_new_tokens = 7}, {max = 3}, {max = 3})
    same({max_new_tokens = 9, repetition_penalty = 1.7}, {max = 9, repetition_penalty = 1.7})
    same({max_new_tokens = 9, temperature = 0.5, top_k = 3, top_p = 0.9}, {max = 9})
    local draws = {max = 9, temperature = 0.5, top_k = 3, top_p = 0.9, min_p = 0.01, seed = 4}
    same({max_new_tokens = 9, do_sample = true, temperature = 0.5, top_k = 3, top_p = 0.9,
          min_p = 0.01}, draws, {seed = 4})
    draws = {max = 9, temperature = 1, top_k = 50, seed = 4}
    same({max_new_tokens = 9, do_sample = true}, draws, {seed = 4})
    draws = {max = 9, temperature = 1, seed = 4}
    same({max_new_tokens = 9, do_sample = true, top_k = 0}, draws, {seed = 4})
    same({max_new_tokens = 9, do_sample = true, top_k = 0}, {max = 9, temperature = 1, seed = 4},
         {seed = 4})
    same({max_new_tokens = 9, do_sample = true}, {max = 9}, {temperature = 0})
    same({max_new_tokens = 9, do_sample = true, top_k = 2}, {max = 9}, {config = false, max = 9})
    same({max_new_tokens = 6, num_beams = 2, length_penalty = 2, early_stopping = true},
         {max = 6, beams = 2, length_penalty = 2, early_stopping = true})
    same({max_new_tokens = 6, num_beams = 3, length_penalty = 4, eos_token_id = 54},
         {max = 6, beams = 3, length_penalty = 4, stop = 55})
    same({max_new_tokens = 3, eos_token_id = 54}, {max = 9, stop = 55}, {config = false, max = 9})
    same({max_new_tokens = 6, num_beams = 2}, {max = 6, temperature = 1, seed = 1},
         {temperature = 1, seed = 1})
    local m = speaking("one two three", {stop_strings = {"three"}})
    assert.equal("one two ", (m:generate({{role = "user", content = "x"}},
                                         {cache = false, max = 9, ends = false})))
  end)


  it("may have keys at the values that change nothing, and no others", function()
    local neutral = {
      diversity_penalty = 0.0, encoder_no_repeat_ngram_size = 0, encoder_repetition_penalty = 1.0,
      epsilon_cutoff = 0.0, eta_cutoff = 0.0, guidance_scale = 1, num_beam_groups = 1,
      num_return_sequences = 1, penalty_alpha = 0, remove_invalid_values = false,
      renormalize_logits = false, token_healing = false, typical_p = 1.0,
    }
    local wanted = plain:generate(prompt, {max = 4})
    assert.equal(wanted, load(neutral):generate(prompt, {max = 4}))
    for name, value in pairs(neutral) do
      local other = value == false and true or value == 0 and 0.5 or 2
      assert.matches(("generation_config.json: %s = %s is not known"):format(name, other),
                     message(plain.generate, load{[name] = other}, prompt), 1, true)
    end
  end)

  it("says which ids may come", function()
    local free = from_zero(select(2, plain:generate(prompt, {max = 8, ends = false})).ids)
    local function ids(file, o)
      local given = {max = 8, ends = false}
      for name, value in pairs(o or {}) do given[name] = value end
      return from_zero(select(2, load(file):generate(prompt, given)).ids)
    end
    assert.is_false(free[1] == ids{suppress_tokens = {free[1]}}[1])
    local begun = ids{begin_suppress_tokens = {free[1]}}
    assert.is_false(free[1] == begun[1])
    local last = ids({forced_eos_token_id = 9}, {max = 5})
    assert.same({free[1], free[2], free[3], free[4], 9}, last)
    last = select(2, load{forced_eos_token_id = 9}:generate(prompt, {ends = false})).ids
    assert.same({100, 9}, {#last, last[-1] - 1})
    local ends = {eos_token_id = free[3]}
    local function with(file)
      for name, value in pairs(ends) do file[name] = value end
      return from_zero(select(2, load(file):generate(prompt, {max = 8})).ids)
    end
    assert.equal(3, #with{})
    assert.is_true(#with{min_new_tokens = 5} >= 5)
    assert.equal(3, #with{min_new_tokens = 2})
    local n = #plain.tokenizer:encode(prompt)
    assert.is_true(#with{min_length = n + 4} >= 4)
    assert.equal(3, #with{min_length = n + 2})
    local repeats = from_zero(select(2, plain:generate("x", {max = 24, ends = false})).ids)
    assert.equal(repeats[23], repeats[24])
    local m = load{no_repeat_ngram_size = 2}
    local varied = select(2, m:generate("x", {max = 24, ends = false})).ids:totable()
    local seen = {}
    for i = 1, #varied - 1 do
      local key = varied[i] .. " " .. varied[i + 1]
      assert.is_nil(seen[key])
      seen[key] = true
    end
  end)

  it("says which ids may begin, behind the first one where that is forced", function()
    local place <close> = directories.make "t5"
    local m = assert(heed.models.load(place.path))
    local function ids(own, given)
      own.decoder_start_token_id, m.generation = 0, own
      return from_zero(m:generate(given or {3, 4}, {max = 3, ends = false}))
    end
    local first = ids{}[1]
    assert.not_equal(first, ids{begin_suppress_tokens = {first}}[1])
    local forced = ids{forced_bos_token_id = 7}
    assert.equal(7, forced[1])
    local begun = ids{forced_bos_token_id = 7, begin_suppress_tokens = {7, forced[2]}}
    assert.equal(7, begun[1])
    assert.not_equal(forced[2], begun[2])
    local again = ids{forced_bos_token_id = 7, begin_suppress_tokens = {begun[2]}}
    assert.same(forced, again)
    m = load()
    first = ids({}, {5, 6})[1]
    assert.not_equal(first, ids({forced_bos_token_id = 7, begin_suppress_tokens = {first}},
                                {5, 6})[1])
  end)


  it("is refused where it would change words in an unknown way", function()
    for key, value in pairs{
      typical_p = 0.5, bad_words_ids = {{3}}, penalty_alpha = 0.6, num_return_sequences = 3,
      guidance_scale = 2, some_new_key = 1, max_time = 3, diversity_penalty = 0.5,
    } do
      local m = load{[key] = value}
      local why = message(m.generate, m, "x", {max = 1})
      assert.matches(key, why, 1, true)
      assert.matches("config = false", why, 1, true)
      assert.is_string(m:generate("x", {max = 1, config = false}))
    end
    for key, value in pairs{typical_p = 1, diversity_penalty = 0, guidance_scale = json.null,
                            transformers_version = "5", pad_token_id = 3} do
      assert.is_string(load{[key] = value}:generate("x", {max = 1}))
    end
    for key, value in pairs{max_new_tokens = "a", eos_token_id = "x", do_sample = 3,
                            repetition_penalty = {}, num_beams = 1.5, suppress_tokens = {-1},
                            min_length = -1, no_repeat_ngram_size = "2", stop_strings = 3} do
      local m = load{[key] = value}
      assert.matches("generate: .*expected", message(m.generate, m, "x"))
    end
    local m = load{num_beams = 2, repetition_penalty = 2}
    assert.matches("repetition_penalty is not known with beams", message(m.generate, m, "x"), 1,
                   true)
  end)
end)
