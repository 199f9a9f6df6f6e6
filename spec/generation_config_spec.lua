-- generation_config.json: the options that it fills in, the ids that it forbids and asks for, and
-- what is refused, asked of the modules that read it, and of models.

local directories = require "spec.support.directories"
local generation = require "heed.models.generation"
local heed = require "heed"
local message = require "spec.support.message"
local nn = require "heed.nn"
local processors = require "heed.models.processors"


describe("generation_config.json", function()
  local function filled(own, o, prompt)
    o = o or {}
    generation.fill(own, o, prompt or 4)
    return o
  end

  it("says how words are drawn where the caller does not", function()
    assert.same({}, filled{})
    assert.same({}, filled{temperature = 0.5, top_k = 9, top_p = 0.5, min_p = 0.1})
    local own = {do_sample = true, temperature = 0.5, top_k = 9, top_p = 0.5, min_p = 0.1}
    assert.same({temperature = 0.5, top_k = 9, top_p = 0.5, min_p = 0.1}, filled(own))
    assert.same({temperature = 2, top_k = 3, top_p = 0.7, min_p = 0.2},
                filled(own, {temperature = 2, top_k = 3, top_p = 0.7, min_p = 0.2}))
    assert.same({temperature = 0}, filled(own, {temperature = 0}))
    assert.same({temperature = 1, top_k = 50}, filled{do_sample = true})
    assert.same({temperature = 1}, filled{do_sample = true, top_k = 0})
    assert.same({temperature = 1}, filled({do_sample = true}, {top_k = 0}))
    assert.same({temperature = 1, top_k = 50, seed = 3}, filled({do_sample = true}, {seed = 3}))
    for _, o in ipairs{{temperature = 2}, {top_k = 2}, {top_p = 0.5}, {min_p = 0.5}, {seed = 2}} do
      local wanted = {temperature = 1, top_p = 0.25}      -- asked for by the caller alone
      for name, value in pairs(o) do wanted[name] = value end
      assert.same(wanted, filled({top_p = 0.25}, o))
    end
  end)

  it("says how many beams there are, and how they end", function()
    local own = {num_beams = 3, length_penalty = 2.0, early_stopping = true}
    assert.same({beams = 3, length_penalty = 2.0, early_stopping = true}, filled(own))
    assert.same({beams = 2, length_penalty = 0.5, early_stopping = false},
                filled(own, {beams = 2, length_penalty = 0.5, early_stopping = false}))
    assert.same({temperature = 2}, filled(own, {temperature = 2}))
    assert.same({}, filled{num_beams = 1, length_penalty = 2.0, early_stopping = true})
    assert.same({beams = 1, length_penalty = 2.0, early_stopping = true},
                filled({length_penalty = 2.0, early_stopping = true}, {beams = 1}))
    assert.same({beams = 2}, filled({num_beams = 2, do_sample = true}))
    assert.same({beams = 2, temperature = 0}, filled({num_beams = 2}, {temperature = 0}))
    assert.same({beams = 4, top_k = 2}, filled({num_beams = 2, top_p = 0.5},
                                               {beams = 4, top_k = 2}))
  end)

  it("has a penalty of repetition, without beams", function()
    assert.same({repetition_penalty = 1.5}, filled{repetition_penalty = 1.5})
    assert.same({repetition_penalty = 2}, filled({repetition_penalty = 1.5},
                                                 {repetition_penalty = 2}))
    local wanted = "generate: generation_config.json: repetition_penalty is not known with beams"
    assert.matches(wanted, message(filled, {repetition_penalty = 1.5, num_beams = 2}), 1, true)
    assert.same({beams = 2}, filled{repetition_penalty = 1, num_beams = 2})
    assert.same({beams = 2}, filled({}, {beams = 2}))
  end)

  it("says how many words there are at most, with those of the prompt or without", function()
    assert.same({max = 7}, filled{max_new_tokens = 7, max_length = 9})
    assert.same({max = 5}, filled({max_length = 9}, nil, 4))
    assert.same({max = 0}, filled({max_length = 9}, nil, 9))
    assert.same({max = 0}, filled({max_length = 9}, nil, 12))
    assert.same({max = 2}, filled({max_new_tokens = 7}, {max = 2}))
  end)

  it("is refused where a value is of another kind, by name", function()
    local begin = "generate: generation_config.json: "
    for _, case in ipairs{
      {{do_sample = 1}, "a boolean expected as do_sample, got 1"},
      {{num_beams = 1.5}, "a whole number expected as num_beams, got 1.5"},
      {{num_beams = -1}, "a whole number expected as num_beams, got -1"},
      {{num_beams = "2"}, "a number expected as num_beams, got the string '2'"},
      {{do_sample = true, top_p = true}, "a number expected as top_p, got true"},
      {{num_beams = 2, early_stopping = "never"},
       "a boolean expected as early_stopping, got the string 'never'"},
      {{num_beams = 2, length_penalty = "a"}, "a number expected as length_penalty"},
      {{repetition_penalty = "a"}, "a number expected as repetition_penalty"},
      {{max_length = 1.5}, "a whole number expected as max_length, got 1.5"},
      {{max_new_tokens = -2}, "a whole number expected as max_new_tokens, got -2"},
    } do
      assert.matches(begin .. case[2], message(filled, case[1]), 1, true)
    end
    assert.same({max = 0}, filled{max_new_tokens = 0})
    assert.same({}, filled{num_beams = 0})
    for said, bad in pairs{["-1"] = -1, ["1.0"] = 1.0, ["the string 'a'"] = "a", ["true"] = true} do
      for _, value in ipairs{bad, {0, bad}} do
        assert.matches(begin .. "ids expected as eos_token_id, got " .. said,
                       message(generation.ids, {eos_token_id = value}, "eos_token_id"), 1, true)
      end
    end
    assert.same({1, 4}, generation.ids({eos_token_id = {0, 3}}, "eos_token_id"))
    assert.same({1}, generation.ids({eos_token_id = 0}, "eos_token_id"))
    assert.same({}, generation.ids({}, "eos_token_id"))
  end)

  it("may have keys that change nothing, and no others", function()
    local own = {bos_token_id = 1, decoder_start_token_id = 2, eos_token_id = 3, top_k = 4,
                 diversity_penalty = 0, encoder_no_repeat_ngram_size = 0,
                 encoder_repetition_penalty = 1, epsilon_cutoff = 0.0, eta_cutoff = 0,
                 guidance_scale = 1, num_beam_groups = 1, num_return_sequences = 1,
                 penalty_alpha = 0, remove_invalid_values = false, renormalize_logits = false,
                 token_healing = false, typical_p = 1.0, use_cache = false}
    assert.equal(own, generation.used(own, true))
    assert.same({bos_token_id = 1, decoder_start_token_id = 2, eos_token_id = 3},
                generation.used(own, false))
    for name, bad in pairs{diversity_penalty = 1, encoder_no_repeat_ngram_size = 1,
                           encoder_repetition_penalty = 0, epsilon_cutoff = 1, eta_cutoff = 1,
                           guidance_scale = 2, num_beam_groups = 2, num_return_sequences = 0,
                           penalty_alpha = 1, remove_invalid_values = true,
                           renormalize_logits = true, token_healing = true, typical_p = 0.5,
                           other = 1} do
      assert.matches(("generate: generation_config.json: %s = %s is not known; option config = "
                      .. "false goes without what the file says"):format(name, bad),
                     message(generation.used, {[name] = bad}, true), 1, true)
      assert.same({}, generation.used({[name] = bad}, false))
    end
  end)


  -- The ids of 5 that may come behind ids of which the first ones are the prompt.
  local function open_ids(own, ids, prompt, c)
    c = c or {}
    local rows = {table.move(ids, 1, prompt, 1, {})}
    local behind = table.move(ids, prompt + 1, #ids, 1, {})
    local change = processors{own = own, before = c.before or 0, ends = c.ends or {5},
                              max = c.max or 4, most = 5, rows = rows}
    local logits = heed.arange(1, 5):to("float32")
    local list = {}
    for id, value in ipairs((change and change(logits, behind, 1) or logits):totable()) do
      if value ~= -math.huge then
        assert.equal(id, value)
        list[#list + 1] = id
      end
    end
    return table.concat(list)
  end

  it("says which ids may not come, and which must", function()
    local all, no_end = "12345", "1234"
    for _, case in ipairs{
      {{}, {1}, 1, all},
      {{no_repeat_ngram_size = 0}, {1, 1, 1}, 1, all},
      {{no_repeat_ngram_size = 1}, {}, 0, all}, {{no_repeat_ngram_size = 1}, {1, 3}, 1, "245"},
      {{no_repeat_ngram_size = 2}, {1, 2, 3, 1}, 2, "1345"},
      {{no_repeat_ngram_size = 2}, {1, 2, 1, 3, 1}, 2, "145"},
      {{no_repeat_ngram_size = 2}, {4, 4}, 2, "1235"}, {{no_repeat_ngram_size = 2}, {4}, 1, all},
      {{no_repeat_ngram_size = 3}, {1, 2, 3, 1, 2}, 2, "1245"},
      {{no_repeat_ngram_size = 3}, {1, 2, 3, 4, 2}, 2, all},
      {{min_length = 0}, {}, 0, all},
      {{min_length = 3}, {1, 2}, 1, no_end}, {{min_length = 3}, {1, 2, 3}, 1, all},
      {{min_length = 3}, {1}, 1, all, {ends = {}}},
      {{min_length = 3}, {1}, 1, "235", {ends = {1, 4}}},
      {{min_new_tokens = 0}, {1}, 1, all},
      {{min_new_tokens = 2}, {1, 2, 3}, 2, no_end}, {{min_new_tokens = 2}, {1, 2, 3, 4}, 2, all},
      {{min_new_tokens = 2}, {1}, 1, all, {ends = {}}},
      {{forced_bos_token_id = 2}, {1}, 1, "3"}, {{forced_bos_token_id = 2}, {1, 2}, 1, all},
      {{forced_bos_token_id = {0, 2}}, {1}, 1, "13"}, {{forced_bos_token_id = 2}, {1, 2}, 2, all},
      {{forced_eos_token_id = 3}, {1, 2, 2, 2}, 1, "4"},
      {{forced_eos_token_id = 3}, {1, 2, 2}, 1, all},
      {{forced_eos_token_id = 3}, {1, 2, 2, 2, 2}, 1, all},
      {{forced_eos_token_id = 3}, {1}, 1, "4", {max = 1}},
      {{suppress_tokens = {0, 4}}, {1, 2}, 1, "234"}, {{suppress_tokens = {}}, {1}, 1, all},
      {{begin_suppress_tokens = {1}}, {1, 2}, 2, "1345"},
      {{begin_suppress_tokens = {1}}, {1, 2, 3}, 2, all},
      {{begin_suppress_tokens = {1}}, {1}, 1, "1345"},
      {{begin_suppress_tokens = {1}, forced_bos_token_id = 3}, {1}, 1, "4"},
      {{begin_suppress_tokens = {1}, forced_bos_token_id = 3}, {1, 4}, 1, "1345"},
      {{begin_suppress_tokens = {1}, forced_bos_token_id = 3}, {1, 4, 4}, 1, all},
      {{begin_suppress_tokens = {1}, forced_bos_token_id = 3}, {1, 4}, 2, "1345"},
      {{begin_suppress_tokens = {}}, {1}, 1, all},
      {{suppress_tokens = {3}, forced_eos_token_id = 3}, {1, 2, 2, 2}, 1, ""},
      {{min_length = 5}, {1, 2}, 1, no_end, {before = 2}},
      {{min_length = 5}, {1, 2}, 1, all, {before = 3}},
      {{forced_bos_token_id = 2}, {1}, 1, all, {before = 1}},
      {{begin_suppress_tokens = {1}, forced_bos_token_id = 3}, {1}, 1, "1345", {before = 1}},
    } do
      assert.equal(case[4], open_ids(case[1], case[2], case[3], case[5]))
    end
  end)

  it("comes before what the caller does to logits", function()
    local more = function(logits, ids, row)
      assert.equal(-math.huge, logits[2])
      assert.same({{7}, 2}, {ids, row})
      return logits + 1
    end
    local c = {own = {suppress_tokens = {1}}, before = 0, ends = {}, max = 4, most = 3,
               rows = {{1}, {1, 2}}}
    assert.same({1, -math.huge, 1}, processors(c, more)(heed.zeros(3), {7}, 2):totable())
    assert.same({0, -math.huge, 0}, processors(c)(heed.zeros(3), {7}, 2):totable())
    assert.same({0, -math.huge, 0},
                processors(c, function() end)(heed.zeros(3), {7}, 2):totable())
    c.own = {}
    assert.equal(more, processors(c, more))
    assert.is_nil(processors(c))
  end)

  it("may keep ids from coming that the model lacks, and ask for none of them", function()
    for _, case in ipairs{
      {{suppress_tokens = {0, 5}}, {1}, 1, "2345"}, {{suppress_tokens = {5}}, {1}, 1, "12345"},
      {{begin_suppress_tokens = {9, 1}}, {1}, 1, "1345"},
    } do
      assert.equal(case[4], open_ids(case[1], case[2], case[3]))
    end
    for _, name in ipairs{"forced_bos_token_id", "forced_eos_token_id"} do
      assert.matches("generate: generation_config.json: ids of at most 4 expected as " .. name
                     .. ", got 5", message(open_ids, {[name] = {0, 5}}, {1}, 1), 1, true)
    end
  end)


  -- A model whose file says so, and how many ids it knows.
  local function model(name, own)
    local place <close> = directories.make(name)
    local m = assert(heed.models.load(place.path))
    m.generation = own
    return m, m.words.weight:size(1)
  end

  it("has lengths of all that a cache has, the prompt and the new ids", function()
    local m = model("qwen2", {})
    local whole = m:generate({1, 2, 3}, {max = 4, ends = false})
    m.generation = {max_length = 6}
    assert.equal(3, #m:generate({1, 2, 3}))
    for _, first in ipairs{{1}, {1, 2}} do
      local cache = nn.Cache()
      m(heed.tensor{first}, {cache = cache})
      local rest = table.move({1, 2, 3}, #first + 1, 3, 1, {})
      assert.same(whole[{{1, 3}}]:totable(), m:generate(rest, {cache = cache}):totable())
    end
  end)

  it("has ends that never come where the model lacks their ids", function()
    local m, n = model("qwen2", {eos_token_id = 1 << 20})
    local wanted = m:generate({1, 2}, {max = 3, ends = false})
    for _, ends in ipairs{n, {1 << 20, n}} do
      m.generation = {eos_token_id = ends, min_length = 9, min_new_tokens = 9}
      local ids, about = m:generate({1, 2}, {max = 3})
      assert.is_true(ids:equal(wanted))
      assert.equal("max", about.reason)
    end
    m.generation.eos_token_id = wanted[1] - 1
    assert.is_false(m:generate({1, 2}, {max = 1}):equal(wanted[{{1, 1}}]))
  end)

  it("passes over such ends alone, not those of the caller", function()
    local m, n = model("qwen2", {eos_token_id = 1 << 20})
    assert.equal(1, #m:generate({1, 2}, {max = 1, ends = {n}}))
    for _, ends in ipairs{n + 1, {1, n + 1}, {n + 1.0}} do
      assert.matches(("generate: an id of at most %d expected as option ends, got %d$"):format(
        n, n + 1), message(m.generate, m, {1, 2}, {max = 1, ends = ends}))
    end
    assert.equal(1, #m:generate({1, 2}, {max = 1}))
  end)

  it("is refused where a text would begin with an id that the model lacks", function()
    local m, n = model("bart", {})
    m.generation.decoder_start_token_id = n
    assert.matches(("generate: generation_config.json: ids of at most %d expected as "
                    .. "decoder_start_token_id, got %d"):format(n - 1, n),
                   message(m.generate, m, {1, 2}, {max = 1}), 1, true)
    m.generation.decoder_start_token_id = n - 1
    assert.equal(1, #m:generate({1, 2}, {max = 1}))
  end)
end)
