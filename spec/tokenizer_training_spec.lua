-- heed.tokenizer.train beside a trainer in plain Lua, which counts all pairs before each step.

local files = require "spec.support.files"
local heed = require "heed"
local json = require "heed.files.json"

local train = heed.tokenizer.train

local TEXT <const> = [[
the cat sat on the mat, and the other cat sat there; then they ate, and then they sat.
aaaa aaa aaaaa aaaaaaa banana bananas 'tis the cat's  mat   12 123 12345
naïve café, cafés — “quoted” 日本語 日本 the the the thethethe
]]


-- The reference ------------------------------------------------------------

-- Joins a pair in a word, from left to right.
local function joined(word, left, right, new)
  local list, i = {}, 1
  while i <= #word do
    if word[i] == left and word[i + 1] == right then
      list[#list + 1] = new
      i = i + 2
    else
      list[#list + 1] = word[i]
      i = i + 1
    end
  end
  return list
end


-- The pair that is there most often: of equals the one with the smaller ids.
local function best_pair(words, ids)
  local counts, best = {}, nil
  for _, word in ipairs(words) do
    for i = 1, #word - 1 do
      local key = word[i] .. "\0" .. word[i + 1]
      counts[key] = (counts[key] or 0) + word.count
    end
  end
  for key, count in pairs(counts) do
    local left, right = key:match "^(.-)%z(.*)$"
    local pair = {count = count, left = left, right = right}
    local a, b = ids[left], ids[right]
    if not best or count > best.count or count == best.count and
       (a < ids[best.left] or a == ids[best.left] and b < ids[best.right]) then
      best = pair
    end
  end
  return best
end


-- The names of all tokens, and merges: words are lists of letters with their counts.
local function reference(first, words, size, least, prefix)
  local tokens, ids, merges = {}, {}, {}
  local function add(name)
    if ids[name] then return end
    tokens[#tokens + 1] = name
    ids[name] = #tokens
  end
  for _, name in ipairs(first) do add(name) end
  while #tokens < size do
    local best = best_pair(words, ids)
    if not best or best.count < least then break end
    local new = best.left .. best.right:sub(#prefix + 1)
    add(new)
    merges[#merges + 1] = best.left .. " " .. best.right
    for i, word in ipairs(words) do
      words[i] = joined(word, best.left, best.right, new)
      words[i].count = word.count
    end
  end
  return tokens, merges
end


-- Words by their text, with how often they are there, as lists of letters.
local function letters_of(counts, letter)
  local words = {}
  for text, count in pairs(counts) do
    local word = {count = count}
    for c in text:gmatch(letter.pattern) do word[#word + 1] = letter.name(c, #word == 0) end
    words[#words + 1] = word
  end
  return words
end


local function name_of_byte(c)
  local byte = c:byte()
  local itself = byte > 32 and byte < 127 or byte > 160 and byte ~= 173
  return utf8.char(itself and byte or byte < 33 and 256 + byte or byte < 161 and 162 + byte or 323)
end


-- Words of blanks and what stands behind them, which the pattern of the options cuts too.
local PATTERN <const> = " ?[^ \\n]+|[ \\n]"

local function bpe_reference(text, size, least)
  local counts, first = {}, {}
  for blank, word in text:gmatch "( ?)([^ \n]*)" do
    -- A blank that no letter follows is a word of its own.
    local token = word ~= "" and blank .. word or blank
    if token ~= "" then counts[token] = (counts[token] or 0) + 1 end
  end
  local lines = select(2, text:gsub("\n", ""))
  if lines > 0 then counts["\n"] = lines end
  for byte = 0, 255 do first[byte + 1] = name_of_byte(string.char(byte)) end
  table.sort(first, function(a, b) return utf8.codepoint(a) < utf8.codepoint(b) end)
  return reference(first, letters_of(counts, {pattern = ".", name = name_of_byte}), size, least, "")
end


local BERT <const> = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

local function wordpiece_reference(text, size, least)
  local counts, all, inside = {}, {}, {}
  for word in text:gmatch "%S+" do counts[word] = (counts[word] or 0) + 1 end
  for word in pairs(counts) do
    for i, c in utf8.codes(word) do
      all[c] = true
      inside[c] = inside[c] or i > 1
    end
  end
  local points, first = {}, {table.unpack(BERT)}
  for c in pairs(all) do points[#points + 1] = c end
  table.sort(points)
  for _, c in ipairs(points) do first[#first + 1] = utf8.char(c) end
  for _, c in ipairs(points) do
    if inside[c] then first[#first + 1] = "##" .. utf8.char(c) end
  end
  local function name(c, starts) return (starts and "" or "##") .. c end
  local words = letters_of(counts, {pattern = utf8.charpattern, name = name})
  return reference(first, words, size, least, "##")
end


-- A trained tokenizer's file, as a table.
local function file_of(tok)
  local name = os.tmpname()
  assert(tok:save(name .. ".json"))
  local file = json.decode(files.read(name .. ".json"))
  os.remove(name .. ".json")
  os.remove(name)
  return file
end

local function names_of(tok)
  local names = {}
  for id = 1, #tok do names[id] = tok:token(id) end
  return names
end

local function message(f, ...)
  local ok, why = pcall(f, ...)
  assert.is_false(ok)
  return why
end


describe("byte-level BPE", function()
  it("joins the most frequent pairs, in order", function()
    for _, o in ipairs{{2, 330}, {2, 270}, {1, 400}, {5, 1000}, {1, 500}} do
      local tokens, merges = bpe_reference(TEXT, o[2], o[1])
      local tok = train{kind = "bpe", text = TEXT, vocabulary = o[2], least = o[1],
                        pattern = PATTERN}
      assert.same(tokens, names_of(tok))
      assert.same(merges, {table.unpack(file_of(tok).model.merges)})
    end
  end)

  it("joins runs of equal letters from their start", function()
    for _, n in ipairs{2, 3, 4, 5, 6, 7, 15, 16} do
      local text = ("a"):rep(n) .. " " .. ("ab"):rep(n) .. ("a"):rep(n // 2)
      local tokens, merges = bpe_reference(text, 300, 1)
      local tok = train{kind = "bpe", text = text, vocabulary = 300, least = 1, pattern = PATTERN}
      assert.same(tokens, names_of(tok))
      assert.same(merges, {table.unpack(file_of(tok).model.merges)})
    end
  end)

  it("cuts as GPT-2 does unless a pattern is given, and gives back any bytes", function()
    local tok = train{kind = "bpe", text = TEXT:rep(3), vocabulary = 400}
    assert.equal(1, #tok:encode " the")
    assert.equal(2, #tok:encode "the the")
    for _, text in ipairs{TEXT, "\xff\0\xc3 x", ""} do
      assert.equal(text, tok:decode(tok:encode(text)))
    end
    local file = file_of(tok)
    assert.equal("BPE", file.model.type)
    assert.is_true(file.pre_tokenizer.use_regex)
    assert.equal(json.null, file.normalizer)
    local other = file_of(train{kind = "bpe", text = TEXT, vocabulary = 300, pattern = "a+|[^a]"})
    assert.equal("a+|[^a]", other.pre_tokenizer.pretokenizers[1].pattern.Regex)
    assert.is_false(other.pre_tokenizer.pretokenizers[2].use_regex)
  end)

  it("has the parts that the package tokenizers writes", function()
    local file, null = file_of(train{kind = "bpe", text = TEXT, vocabulary = 300}), json.null
    file.model.vocab, file.model.merges = nil, nil
    assert.same({
      type = "BPE", dropout = null, unk_token = null, continuing_subword_prefix = null,
      end_of_word_suffix = null, fuse_unk = false, byte_fallback = false, ignore_merges = false,
    }, file.model)
    local bytes = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
                   use_regex = true}
    assert.same(bytes, file.pre_tokenizer)
    bytes.add_prefix_space = true
    assert.same(bytes, file.decoder)
    local cut = file_of(train{kind = "bpe", text = TEXT, vocabulary = 300, pattern = "a+|[^a]"})
    local parts = cut.pre_tokenizer
    assert.equal("Sequence", parts.type)
    assert.same({type = "Split", pattern = {Regex = "a+|[^a]"}, behavior = "Isolated",
                 invert = false}, parts.pretokenizers[1])
    bytes.add_prefix_space, bytes.use_regex = false, false
    assert.same(bytes, parts.pretokenizers[2])
  end)
end)


describe("WordPiece", function()
  -- Without marks that BERT cuts at, in lower case.
  local text = TEXT:gsub("[,;.'—“”]", " "):gsub("é", "e"):gsub("ï", "i"):gsub("[日本語]+", "ж")
  text = text:gsub("\u{2014}", " "):gsub("[^%w \nжё]", " ")

  it("joins pieces, whose prefix stands once", function()
    for _, o in ipairs{{2, 60}, {2, 200}, {1, 400}, {3, 100}} do
      local tokens = wordpiece_reference(text, o[2], o[1])
      local tok = train{kind = "wordpiece", text = text, vocabulary = o[2], least = o[1]}
      assert.same(tokens, names_of(tok))
    end
  end)

  it("has BERT's parts", function()
    local tok = train{kind = "wordpiece", text = text, vocabulary = 90}
    local file = file_of(tok)
    assert.same({type = "BertNormalizer", clean_text = true, handle_chinese_chars = true,
                 strip_accents = json.null, lowercase = true}, file.normalizer)
    assert.same({type = "BertPreTokenizer"}, file.pre_tokenizer)
    assert.same({type = "WordPiece", prefix = "##", cleanup = true}, file.decoder)
    file.model.vocab = nil
    assert.same({type = "WordPiece", continuing_subword_prefix = "##", unk_token = "[UNK]",
                 max_input_chars_per_word = 100}, file.model)
    assert.same({pad = 1, unk = 2, cls = 3, sep = 4, mask = 5}, tok:special())
    assert.equal("the cat", tok:decode(tok:encode "The CAT"))
    assert.same({3, tok:id "the", 4}, tok:encode("the"):totable())
    assert.equal(2, tok:encode("ω", {special = false}):item())
    local cased = file_of(train{kind = "wordpiece", text = "The the", vocabulary = 40,
                                lower = false})
    assert.is_false(cased.normalizer.lowercase)
    assert.equal(5, cased.model.vocab.T)
  end)

  it("cuts no character where a long text has no blank", function()
    local a, b, n = "\u{3042}", "\u{3044}", 2 ^ 20 // 3 | 0
    local tok = train{kind = "wordpiece", text = a:rep(n) .. b .. a:rep(n + 1), vocabulary = 9}
    local names = names_of(tok)
    assert.same({a, b, "##" .. a}, table.move(names, 6, 8, 1, {}))
  end)

  it("counts thousands of pairs", function()
    local letters, words = {}, {}
    for c = 0x430, 0x44f do letters[#letters + 1] = utf8.char(c) end
    for c = 0x561, 0x586 do letters[#letters + 1] = utf8.char(c) end
    for _, a in ipairs(letters) do
      for _, b in ipairs(letters) do words[#words + 1] = a .. b end
    end
    local n, first, last = #letters, letters[1], letters[#letters]
    local once = table.concat(words, " ")
    local names = names_of(train{kind = "wordpiece", lower = false, vocabulary = 5 + 2 * n + 3,
                                 text = once .. " " .. once .. " " .. last .. last})
    assert.same({"##" .. last, last .. last, first .. first, first .. letters[2]},
                table.move(names, 5 + 2 * n, #names, 1, {}))
  end)

  it("takes the most frequent characters, and leaves out words with others", function()
    local tok = train{kind = "wordpiece", text = "aab ab ab cab bca b cc da", vocabulary = 100,
                      characters = 2, least = 1}
    local names = names_of(tok)
    assert.same({"a", "b", "##a", "##b", "ab", "aa", "aab"},
                table.move(names, 6, #names, 1, {}))
    names = names_of(train{kind = "wordpiece", text = "dd cc bb aa ee ee", vocabulary = 100,
                           characters = 3, least = 9})
    assert.same({"a", "b", "e", "##a", "##b", "##e"}, table.move(names, 6, #names, 1, {}))
  end)
end)


describe("training", function()
  it("takes a text, a list and a function alike", function()
    local parts = {"the cat", "sat on", "the mat the cat"}
    local function from(o)
      o.kind, o.vocabulary, o.least = "bpe", 280, 1
      return names_of(train(o))
    end
    local list = from{texts = parts}
    local i = 0
    assert.same(list, from{texts = function() i = i + 1 return parts[i] end})
    assert.not_same(list, from{text = table.concat(parts)})
    assert.same(from{text = "the cat"}, from{texts = {"the cat"}})
  end)

  it("counts a long text in pieces that end with a line", function()
    local line = "the cat sat on the mat and ate\n"
    local long, short = line:rep(100000), line:rep(10)
    local o = {kind = "bpe", vocabulary = 300}
    o.text = long
    local one = names_of(train(o))
    o.text = short
    assert.same(one, names_of(train(o)))
    o.text = ("é"):rep(2000000)
    local tok = train(o)
    assert.equal(("é"):rep(100), tok:decode(tok:encode(("é"):rep(100))))
    assert.equal("Ã©", tok:token(257))
    for id = 258, #tok do assert.matches("^[Ã©]+$", tok:token(id)) end
  end)

  -- A mebibyte at least, up to the end of a line that no blank stands beside; else up to a line's
  -- end or a blank; else a mebibyte of whole characters.
  it("cuts a long text where no word stands", function()
    local MEBI <const> = 1 << 20
    local pattern = "xy|x y| c|\n\n|\n b|\nz|a{1,64}|[\\s\\S]"
    local byte = {["\n"] = "Ċ", [" "] = "Ġ"}
    -- Whether each of the words is there as a whole where a text of n bytes has them: position,
    -- from 0, and text.
    local function kept(n, ...)
      local parts, at, words = {}, 0, {...}
      for i = 1, #words, 2 do
        parts[#parts + 1] = ("a"):rep(words[i] - at) .. words[i + 1]
        at = words[i] + #words[i + 1]
      end
      parts[#parts + 1] = ("a"):rep(n - at)
      local names = names_of(train{kind = "bpe", text = table.concat(parts), pattern = pattern,
                                   vocabulary = 400, least = 1})
      local found, list = {}, {}
      for _, name in ipairs(names) do found[name] = true end
      for i = 2, #words, 2 do
        list[#list + 1] = found[words[i]:gsub("[\n ]", byte)] or false
      end
      return table.unpack(list)
    end
    assert.is_true(kept(2 * MEBI, MEBI - 1, "xy"))
    assert.is_false(kept(2 * MEBI + 1, MEBI - 1, "xy"))
    assert.is_true(kept(2 * MEBI + 1, MEBI - 2, "xy"))
    assert.is_true(kept(2 * MEBI + 1, MEBI, "xy"))
    -- The ends of lines.
    assert.same({true, false}, {kept(2 * MEBI + 1, MEBI - 1, "xy", MEBI + 5, "\nz")})
    assert.same({true, false}, {kept(2 * MEBI + 1, MEBI - 1, "xy", 2 * MEBI - 2, "\nz")})
    assert.same({false, true}, {kept(2 * MEBI + 2, MEBI - 1, "xy", 2 * MEBI - 1, "\nz")})
    assert.same({true, true}, {kept(2 * MEBI + 1, MEBI - 1, "\n", MEBI + 9, "\nz")})
    for _, word in ipairs{"\n\n", "\n b"} do
      assert.same({true, true, false}, {kept(2 * MEBI + 1, MEBI - 1, "xy", MEBI + 4, word,
                                             MEBI + 20, "\nz")})
      assert.same({true, false}, {kept(2 * MEBI + 1, MEBI - 1, "xy", MEBI + 4, word)})
    end
    -- Blanks.
    assert.same({true, true}, {kept(2 * MEBI + 1, MEBI - 1, "xy", MEBI + 7, " c")})
    assert.same({true, true}, {kept(2 * MEBI + 2, MEBI - 1, "xy", 2 * MEBI - 1, " c")})
    assert.same({false, true}, {kept(2 * MEBI + 3, MEBI - 1, "xy", 2 * MEBI, " c")})
    assert.same({true, true}, {kept(2 * MEBI + 1, MEBI, " c", MEBI + 9, "x y")})
    -- Characters of several bytes.
    for i = 1, 3 do
      local text = ("a"):rep(MEBI - i) .. "\u{1f600}" .. ("a"):rep(MEBI)
      local tok = train{kind = "bpe", text = text, pattern = pattern, vocabulary = 400, least = 1}
      assert.equal(1, #tok:encode "\u{1f600}")
    end
  end)

  it("puts special tokens first, by part and by list, which no letters become", function()
    local tok = train{kind = "bpe", text = ("<eos> the "):rep(20), vocabulary = 280, special = {
      eos = "<eos>", pad = "<pad>", "<|user|>", "<eos>", "Ġthe",
    }}
    assert.same({"<pad>", "<eos>", "<|user|>", "Ġthe"}, {tok:token(1), tok:token(2), tok:token(3),
                                                         tok:token(4)})
    assert.same({pad = 1, eos = 2}, tok:special())
    assert.is_true(#tok:encode "<eos>" > 1)
    assert.equal(2, tok:encode("<eos>", {parse = true}):item())
    assert.equal("a ", tok:decode(tok:encode("a <eos>", {parse = true})))
    for id = 5, #tok do assert.not_equal(" the", tok:token(id)) end
    tok = train{kind = "wordpiece", text = "a b", vocabulary = 40, special = {unk = "<unk>", "[X]"}}
    assert.same({"[PAD]", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[X]"},
                table.move(names_of(tok), 1, 6, 1, {}))
  end)

  it("puts a text between two special tokens, where there are both", function()
    for special, wanted in pairs{[{cls = "<c>"}] = {"the"}, [{sep = "<s>"}] = {"the"},
                                 [{cls = "<c>", sep = "<s>"}] = {"<c>", "the", "<s>"}} do
      local tok = train{kind = "bpe", text = ("the "):rep(20), vocabulary = 270, special = special}
      local names = {}
      for i, id in ipairs(tok:encode("the"):totable()) do names[i] = tok:token(id) end
      assert.same(wanted, names)
    end
  end)

  it("is saved, and loaded again with its special tokens", function()
    local tok = train{kind = "bpe", text = TEXT, vocabulary = 300, special = {pad = "<p>"}}
    local folder = os.tmpname()
    os.remove(folder)
    local done, why = tok:save(folder .. "/within")
    assert.is_nil(done)
    assert.matches("^save: ", why)
    for _ = 1, 2 do assert.is_true(tok:save(folder)) end
    local again = assert(heed.tokenizer.load(folder))
    assert.same({pad = 1}, again:special())
    assert.same(names_of(tok), names_of(again))
    assert.same(tok:encode(TEXT):totable(), again:encode(TEXT):totable())
    assert.matches("save: a tokenizer that was trained expected; this one was read from a file",
                   message(again.save, again, folder))
    assert(os.execute("rm -r '" .. folder .. "'"))
  end)

  it("says what it does not take", function()
    local function said(o)
      local given = {kind = "bpe", text = "a", vocabulary = 300}
      for name, value in pairs(o) do given[name] = value end
      for name, value in pairs(given) do if value == "none" then given[name] = nil end end
      return message(train, given)
    end
    assert.matches("'bpe' or 'wordpiece' expected as option kind, got the string 'bp'",
                   said{kind = "bp"})
    assert.matches("tokenizer.train: .*option vocabulary", said{vocabulary = "none"})
    assert.matches("option vocabulary", said{vocabulary = 0.5})
    assert.matches("a vocabulary of at least 256 tokens expected, got 100", said{vocabulary = 100})
    assert.matches("one of the options text and texts expected, got none", said{text = "none"})
    assert.matches("one of the options text and texts expected, got both", said{texts = {}})
    assert.matches("a string expected as option text, got 3", said{text = 3})
    assert.matches("a string expected as text 2, got true",
                   said{text = "none", texts = {"a", true}})
    assert.matches("a string expected as text 1, got 1",
                   said{text = "none", texts = function() return 1 end})
    assert.matches("a list of texts or a function expected as option texts, got 5",
                   said{text = "none", texts = 5})
    assert.matches("unknown option 'lower'", said{lower = true})
    assert.matches("unknown option 'pattern'", said{kind = "wordpiece", pattern = "a"})
    assert.matches("a repeated group is not known", said{pattern = "(a)*b"})
    assert.matches("a string expected as option pattern", said{pattern = 3})
    assert.matches("option least", said{least = 0})
    assert.matches("option special: unknown part 'padd'; did you mean 'pad'",
                   said{special = {padd = "x"}})
    for _, part in ipairs{"p.d", "bos eos", "", "%a+", "("} do
      assert.matches("option special: unknown part '" .. part .. "'; ",
                     said{special = {[part] = "<x>"}}, 1, true)
    end
    assert.matches("a text of UTF%-8 expected as option special.pad", said{special = {pad = ""}})
    assert.matches("option special%[1%], got", said{special = {"\xff"}})
    assert.matches("a table expected as option special", said{special = "x"})
    assert.matches("a special token that is no character of words expected, got 'a'",
                   said{special = {"a"}})
    local many = {"a"}
    for i = 2, 600 do many[i] = ("<%d>"):format(i) end
    assert.matches("a special token that is no character of words expected, got 'a'",
                   said{vocabulary = 1000, special = many})
    assert.matches("a special token that is no character of words expected, got '##b'",
                   said{kind = "wordpiece", text = "ab", special = {"##b"}})
    assert.matches("at most 1 argument expected", message(train, {}, 2))
    assert.matches("a table of options expected", message(train, "bpe"))
  end)

  it("keeps to the limit of memory, and drops what it took", function()
    local function used()
      collectgarbage()
      collectgarbage()
      return heed.memory().other
    end
    local words = {}
    for i = 1, 60000 do words[i] = ("w%dx%d"):format(i, i * 7919 % 100003) end
    local text = table.concat(words, " ")
    local function learn() train{kind = "bpe", text = text, vocabulary = 300} end
    learn()
    local before = used()
    learn()
    assert.equal(before, used())
    local limit = heed.memory().limit
    heed.memory{limit = heed.memory().live + before + (8 << 20)}
    local why = message(train, {kind = "bpe", text = text, vocabulary = 2000})
    heed.memory{limit = limit}
    assert.matches("tokenizer.train: .*memory", why)
    assert.is_true(used() <= before)          -- a failure drops what was kept for later
    learn()
    assert.is_true(used() <= before)
  end)

  it("keeps to the limit of memory in words, wherever it comes", function()
    local text, refused, limit = ("the cat sat "):rep(50), 0, heed.memory().limit
    for more = 0, 2000000, 20000 do
      collectgarbage()
      local now = heed.memory()
      heed.memory{limit = now.live + now.other + more}
      local good, why = pcall(train, {kind = "bpe", text = text, vocabulary = 300})
      heed.memory{limit = limit}
      if not good then
        refused = refused + 1
        assert.equal("string", type(why))
        assert.matches("tokenizer.train: memory limit of", why)
      end
    end
    assert.is_true(refused > 0)
  end)
end)
