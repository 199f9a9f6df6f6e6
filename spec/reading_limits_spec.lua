-- Limits of what files may say, each at its exact value, asked of the modules that check them; and
-- what generation_config.json fills in.

local alike = require "heed.models.alike"
local generation = require "heed.models.generation"
local header = require "heed.files.header"
local message = require "spec.support.message"
local nn = require "heed.nn"
local refuse = require "heed.internal.refuse"
local sentencepiece = require "heed.files.sentencepiece"


describe("a piece of SentencePiece", function()
  local function why(name, score, kind, known)
    return select(2, refuse.try(sentencepiece.check_piece, {name = name, score = score or 0,
                                                            kind = kind or 1}, known or {}))
  end

  it("has as many bytes as the format may give it, and no more", function()
    assert.is_nil(why(("x"):rep(512)))
    assert.is_nil(why(("é"):rep(256)))
    for _, name in ipairs{("x"):rep(513), "\xff"} do
      assert.matches("a piece of at most 512 bytes of UTF-8 expected, got \"", why(name), 1, true)
    end
    assert.is_nil(why(""))
    assert.matches('two pieces "a"$', why("a", 0, 1, {a = {}}))
  end)

  it("is of a kind that is known", function()
    for kind, good in pairs{[0] = false, true, true, true, true, false, true, false} do
      assert.equal(good, why("a", 0, kind) == nil, kind)
      if not good then
        assert.matches(('piece "a": kind %d is not known'):format(kind), why("a", 0, kind), 1, true)
      end
    end
  end)

  it("has a finite score", function()
    for _, good in ipairs{3e38, -3e38, 0, -1e10} do assert.is_nil(why("a", good)) end
    for _, bad in ipairs{3.1e38, -3.1e38, math.huge, -math.huge, 0 / 0} do
      assert.matches('piece "a": a finite score expected', why("a", bad), 1, true)
    end
  end)
end)


describe("the header of safetensors", function()
  local function why(inner)
    local text = ('{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]%s}}'):format(inner)
    local found, no = refuse.try(header.read, text)
    return no or found.odd
  end

  it("nests one table more than it needs, and no more", function()
    assert.is_true(not why "")
    assert.equal("t", why ',"x":[[1]]')                   -- a field that the format does not have
    assert.matches("^invalid header: nested too deep", why ',"x":[[[1]]]')
    assert.matches("^invalid header: nested too deep", why ',"x":[{"a":[1]}]')
  end)

  it("has so many entries of metadata, and two of heed's", function()
    local function read(n)
      local list = {}
      for i = 1, n do list[i] = ('"k%d":"v"'):format(i) end
      return refuse.try(header.read, '{"__metadata__":{' .. table.concat(list, ",") .. "}}")
    end
    assert.equal("v", assert(read((1 << 14) + 2)).metadata.k16386)
    assert.equal("invalid metadata: at most 16386 entries expected",
                 select(2, read((1 << 14) + 3)))
  end)
end)


describe("models.alike", function()
  it("takes ropes for the same whose frequencies float32 makes so", function()
    local function rope_of(factor, attention)
      local m = nn.Module()
      m.head_dim = 4
      m.rope = {base = 10000, scaling = {rope_type = "longrope", short_factor = {1, factor},
                                         long_factor = {1, 1}, factor = 2,
                                         attention_factor = attention or 1,
                                         original_max_position_embeddings = 64}}
      return m
    end
    assert.is_nil(alike(rope_of(2), rope_of(2)))
    assert.is_nil(alike(rope_of(2), rope_of(2 * (1 + 2e-7))))
    for _, factor in ipairs{2 * (1 + 4e-6), 2 * (1 - 4e-6), 3} do
      assert.equal("rope", (alike(rope_of(2), rope_of(factor))))
      assert.equal("rope", (alike(rope_of(factor), rope_of(2))))
    end
    assert.is_nil(alike(rope_of(2), rope_of(2, 1 + 5e-7)))
    for _, attention in ipairs{1 + 3e-6, 1 - 3e-6} do
      assert.equal("rope", (alike(rope_of(2), rope_of(2, attention))))
    end
  end)
end)


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
    for _, bad in ipairs{-1, 1.0, "a", true} do
      assert.matches(begin .. "ids expected as eos_token_id, got ",
                     message(generation.ids, {eos_token_id = bad}, "eos_token_id"), 1, true)
      assert.matches(begin .. "ids expected as eos_token_id, got a",
                     message(generation.ids, {eos_token_id = {0, bad}}, "eos_token_id"), 1, true)
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
end)
