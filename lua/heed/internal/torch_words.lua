-- Names of PyTorch's and its libraries' that heed has under others, with what to write here, for
-- messages about unknown names, which read them through heed.internal.torch_names. For a name
-- without an entry, messages suggest the nearest name.

local F = "heed.relu(x) or x:relu(): all operations are functions of heed and methods"

local LOAD <const> = "heed.models.load(folder), of a folder or a .gguf file of this machine"

local NO_DECOMPOSITION = "your own: heed has no decompositions of matrices"

local torch_words = {}

---Names of `torch`, and of `torch.nn.functional`.
torch_words.heed = {
  FloatTensor = "heed.tensor(values)",
  Generator = "heed.manual_seed(n), or option seed = n of tasks, batches and heed.sample",
  LongTensor = "heed.tensor(values)",
  LoraConfig = "nn.lora(model, {rank = 8, alpha = 16, targets = {\"query\", \"value\"}})",
  Tensor = "heed.tensor(values)",
  Variable = "heed.tensor(values, {requires_grad = true})",
  absolute = "heed.abs(x)",
  amp = "heed.autocast(dtype, f), and heed.optim.Scaler{}",
  as_tensor = "heed.tensor(values)",
  autograd = "heed.grad(y, xs) or heed.custom{forward = f, backward = g}",
  binary_cross_entropy_with_logits = "heed.bce_with_logits(logits, targets)",
  clip_grad_norm_ = "heed.optim.clip_grad_norm(parameters, max)",
  compile = "heed.capture(f)",
  concat = "heed.cat({a, b}, 1)",
  concatenate = "heed.cat({a, b}, 1)",
  cov = "x:matmul(x:t()) / (x:size(2) - 1), where x = x - x:mean(2, {keepdim = true})",
  device = 'its name, such as "cpu" or "cuda:0"',
  from_numpy = 'heed.load("array.npy")',
  from_pretrained = LOAD,
  functional = F,
  get_peft_model = "adapters = nn.lora(model, {rank = 8})",
  get_rng_state = "heed.rng_state()",
  inf = "math.huge",
  inference_mode = "heed.no_grad(f)",
  mm = "heed.matmul(a, b)",
  mv = "heed.matmul(a, b)",
  nan = "0 / 0",
  pad_sequence = "heed.pad(lists): it gives lengths, too",
  pi = "math.pi",
  rearrange = "x:permute, x:flatten and x:unflatten, or heed.einsum",
  rope = "heed.position.rope(x), or option rope = true of layers",
  scaled_dot_product_attention = "heed.attention(q, k, v, {causal = true})",
  set_default_device = "heed.default_device(name)",
  set_grad_enabled = "heed.no_grad(f) or heed.enable_grad(f)",
  set_num_threads = "heed.threads(n)",
  set_printoptions = "heed.printoptions{precision = 6}",
  set_rng_state = "heed.rng_state(state)",
  swapaxes = "heed.transpose(x, 1, 2)",
  utils = "heed.data.batches(x, y, {size = 32})",
  var_mean = "x:var(dim), x:mean(dim)",
  version = "heed._VERSION",
}

for _, name in ipairs{"bfloat16", "bool", "float16", "float32", "float64", "int64", "uint8"} do
  torch_words.heed[name] = ('"%s", as in {dtype = "%s"}'):format(name, name)
end
for name, dtype in pairs{double = "float64", float = "float32", half = "float16", long = "int64"} do
  torch_words.heed[name] = ('"%s", as in {dtype = "%s"}'):format(dtype, dtype)
end


---Names of `torch.utils.data`.
torch_words.data = {
  DataLoader = "heed.data.batches(x, y, {size = 32})",
  TensorDataset = "heed.data.batches(x, y, {size = 32})",
  pad_sequence = "heed.pad(lists)",
}


local EPOCHS <const> = "batches = heed.data.batches(x, y, {epochs = n})"
local RATE <const> = "optimizer = heed.optim.AdamW(model:parameters(), {lr = rate})"

---Options of training loops elsewhere.
torch_words.train = {
  batch_size = "batches = heed.data.batches(x, y, {size = n})",
  criterion = "loss = f",
  data = "batches = heed.data.batches(x, y)",
  dataset = "batches = heed.data.batches(x, y)",
  epochs = EPOCHS,
  gradient_accumulation_steps = "accumulate = n",
  learning_rate = RATE,
  loss_fn = "loss = f",
  lr = RATE,
  max_epochs = EPOCHS,
  max_grad_norm = "clip = norm",
  max_steps = "steps = n",
  num_epochs = EPOCHS,
  num_train_epochs = EPOCHS,
  save_every = "every = n",
  scheduler = "schedule = f",
}


local HEAT <const> = "heed.plot.heat(matrix), or heed.plot.grid(tensor) for several"

---Names of `matplotlib.pyplot`.
torch_words.plot = {
  bar = "heed.plot.bars(numbers)",
  figure = "heed.plot.row{a, b} or heed.plot.grid{a, b}",
  heatmap = HEAT,
  histogram = "heed.plot.hist(numbers)",
  imshow = HEAT,
  line = "heed.plot.curve(numbers)",
  matshow = HEAT,
  plot = "heed.plot.curve(numbers)",
  savefig = 'picture:save("a.png")',
  show = "print(picture)",
  subplots = "heed.plot.row{a, b} or heed.plot.grid{a, b}",
}


---Methods of pictures elsewhere.
torch_words.picture = {
  draw = "print(picture)",
  savefig = 'picture:save("a.png")',
  show = "print(picture)",
}


---Names of `torch.cuda`.
torch_words.cuda = {
  Event = "heed.cuda.elapsed(f)",
  amp = 'x:to("bfloat16")',
  current_device = "heed.default_device()",
  device = 'heed.default_device("cuda:1"), or {device = "cuda:1"} where a tensor is made',
  get_device_capability = "heed.cuda.properties(i).capability",
  get_device_name = "heed.cuda.properties(i).name",
  get_device_properties = "heed.cuda.properties(i)",
  get_rng_state = "heed.cuda.rng_state(nil, i)",
  is_available = "heed.cuda.available()",
  manual_seed = "heed.manual_seed(seed): it is for all devices",
  manual_seed_all = "heed.manual_seed(seed): it is for all devices",
  max_memory_allocated = "heed.cuda.memory(i).peak",
  mem_get_info = "heed.cuda.memory(i).free and .total",
  memory_allocated = "heed.cuda.memory(i).live",
  memory_reserved = "heed.cuda.memory(i).cached",
  reset_max_memory_allocated = "heed.cuda.reset_peak(i)",
  reset_peak_memory_stats = "heed.cuda.reset_peak(i)",
  set_device = 'heed.default_device("cuda:1")',
  set_per_process_memory_fraction = "heed.cuda.limit(bytes, i)",
  set_rng_state = "heed.cuda.rng_state(state, i)",
}


---Options of a call of `torch.nn.MultiheadAttention`, and of `scaled_dot_product_attention`.
torch_words.attention = {
  attn_mask = "mask = m, true where one may attend; or bias = b, which is added",
  average_attn_weights = "weights = true, and weights:mean(2)",
  dropout_p = "dropout = p",
  enable_gqa = "nothing: heads of queries share those of keys",
  is_causal = "causal = true",
  key_padding_mask = "keys = k, true where keys are",
  need_weights = "weights = true",
}


---Options of calls of `torch.nn.Transformer` and its layers, beside those of attention.
torch_words.transformer = setmetatable({
  attention_mask = "keys = k, bool, true where tokens are; or lengths = n",
  input_ids = "the ids as the first argument",
  memory_is_causal = "context_mask = heed.mask.causal()",
  memory_key_padding_mask = "context_keys = k, true where the context has tokens",
  memory_mask = "context_mask = m, true where one may attend",
  output_attentions = "weights = true",
  past_key_values = "cache = nn.Cache()",
  position_ids = "positions = p, from 0",
  src_is_causal = "causal = true of an encoder, source_mask = heed.mask.causal() of a Transformer",
  src_key_padding_mask = "keys = k of an encoder, context_keys = k of a Transformer, true where "
                         .. "tokens are",
  src_mask = "mask = m of an encoder, source_mask = m of a Transformer, true where one may attend",
  tgt_is_causal = "causal = true, as decoders have it unless given",
  tgt_key_padding_mask = "keys = k, true where the target has tokens",
  tgt_mask = "mask = m, true where one may attend",
  token_type_ids = "types = t, from 1, of a model that has some",
  use_cache = "cache = nn.Cache()",
}, {__index = torch_words.attention})


---Options of `torch.nn.MultiheadAttention`.
torch_words.multihead = {
  add_bias_kv = "memory = 1",
  add_zero_attn = "sink = true",
  batch_first = "nothing: x is (B, T, dim)",
  embed_dim = "nn.MultiHeadAttention(dim, heads)",
  kdim = "context_dim = n",
  num_heads = "nn.MultiHeadAttention(dim, heads)",
  vdim = "value_context_dim = n",
}


local TEXTS <const> = "; or call model:generate, which takes texts, of a model of heed.models.load"

---Options of `generate` of the library transformers, and of `model:generate`, for `heed.generate`.
torch_words.generate = {
  ends = "stop = id, or a list of ids",
  eos_token = "stop = id, or a list of ids",
  eos_token_id = "stop = id, or a list of ids",
  do_sample = "temperature = 1; the best id is taken each time unless given",
  max_length = "max = n, of the new ids",
  max_new_tokens = "max = n",
  max_tokens = "max = n",
  num_beams = "beams = n",
  prompt_lookup_num_tokens = "lookup = n",
  on_text = "on_token = f" .. TEXTS,
  stop_strings = "stop = f, of the new ids" .. TEXTS,
  streamer = "on_token = f",
  use_cache = "cache = false, or a cache",
}


local ENCODED <const> = "nothing: a model with an encoder makes it of the prompt; heed.generate "
                        .. "takes another one"

---The same for `model:generate`, which knows texts.
torch_words.words = setmetatable({
  context = ENCODED,
  context_lengths = ENCODED,
  eos_token = "ends = id, or a list of ids",
  eos_token_id = "ends = id, or a list of ids",
  lengths = "nothing: prompts of a list, as {{5, 6}, {7}}, have lengths of their own; "
            .. "heed.generate takes padded ones",
  stop_strings = "stop = text, or a list of texts",
  streamer = "on_text = f",
}, {__index = torch_words.generate})


local CUT <const> = "max = n, in ids"

---Options of tokenizers of the library transformers.
torch_words.encode = {
  add_special_tokens = "special = false for none; they are there unless given",
  max_length = CUT,
  padding = "nothing: ids of a list of texts are padded, and their lengths come behind them",
  return_offsets_mapping = "offsets = true",
  return_tensors = "nothing: ids are a tensor",
  return_token_type_ids = "types = true",
  text_pair = "pair = text",
  truncation = CUT,
}

torch_words.decode = {
  skip_special_tokens = "special = true to keep them; they are left out unless given",
}


---Options of the training of tokenizers in the library tokenizers.
torch_words.tokenizer_train = {
  files = "text = s, or texts = list or function",
  min_frequency = "least = n",
  special_tokens = 'special = {pad = "<pad>", "<other>"}',
  vocab_size = "vocabulary = n",
}


---Options of `apply_chat_template` of the library transformers.
torch_words.chat = {
  add_generation_prompt = "prompt = true",
  chat_template = "template = t",
  tokenize = "ids = true",
}


-- With the names of options that all calls for texts have.
local function for_texts(words)
  words.batch_size, words.max_length, words.max_seq_length = "batch = n", CUT, CUT
  return words
end

---Options of models of texts in the library sentence-transformers.
torch_words.embed = for_texts{
  normalize_embeddings = "nothing: modules.json says so; vectors:normalize(2, -1) does it",
  prompt_name = 'prompt = "query", by its name in the directory',
  truncate_dim = "dims = n",
}


---Options of its rerankers, and of pipelines of the library transformers.
torch_words.classify = for_texts{text_pair = 'pair = "a second text"'}

---The same of `score`, and the pair of `classify`.
torch_words.score = for_texts{
  pair = "the query and the texts, which are the pairs, as arguments",
}


---Options of `from_pretrained` of the library transformers.
torch_words.load = {
  device_map = 'device = "cuda"',
  load_in_4bit = 'quantize = "q4_0"',
  load_in_8bit = 'quantize = "q8_0"',
  quantization_config = 'quantize = "q8_0"',
  torch_dtype = 'dtype = "bfloat16"',
}


---Names of the library transformers, for `heed.models`.
torch_words.models = {from_pretrained = LOAD}


local SQUARED <const> = "function(x) return x:relu():square() end"

---Names of activations elsewhere.
torch_words.activations = {relu2 = SQUARED, relu_squared = SQUARED, squared_relu = SQUARED}


---Options of layers of PyTorch's and of x-transformers.
torch_words.layers = {
  alibi_pos_bias = "position_bias = heed.bias.alibi(heads)",
  attn_kv_heads = "kv_heads = n",
  attn_num_mem_kv = "memory = n",
  attn_qk_norm = "qk_norm = true",
  d_model = "the first argument: nn.Encoder(dim, heads, layers)",
  depth = "the third argument: nn.Encoder(dim, heads, layers)",
  dim_feedforward = "hidden = n",
  ff_glu = "gated = true",
  ff_relu_squared = "activation = " .. SQUARED,
  ff_swish = 'activation = "silu"',
  nhead = "the second argument: nn.Encoder(dim, heads, layers)",
  norm_first = 'norm = "pre"',
  num_kv_heads = "kv_heads = n",
  one_kv_head = "kv_heads = 1",
  pre_norm = 'norm = "pre"',
  rel_pos_bias = "position_bias = heed.bias.t5{heads = n}",
  rotary_pos_emb = "rope = true",
  sandwich_norm = 'norm = "sandwich"',
  use_rmsnorm = 'norm_type = "rms"',
}


---Options of LoRA in the library PEFT.
torch_words.lora = {
  lora_alpha = "alpha = n",
  lora_dropout = "dropout = p",
  r = "rank = n",
  target_modules = 'targets = {"query", "value"}',
}


---Names of `torch.nn`.
torch_words.nn = {
  BCELoss = "heed.binary_cross_entropy(x, targets)",
  BCEWithLogitsLoss = "heed.bce_with_logits(logits, targets)",
  Conv1d = "nn.Linear(size * inputs, outputs) of x:unfold(2, size, step):flatten(3)",
  Conv2d = "nn.Patches(size, dim), of patches that do not overlap; heed has no convolutions",
  BatchNorm1d = "nn.LayerNorm(dim) or nn.RMSNorm(dim); heed has no norms over batches",
  BatchNorm2d = "nn.LayerNorm(dim) or nn.RMSNorm(dim); heed has no norms over batches",
  CrossEntropyLoss = "heed.cross_entropy(logits, targets)",
  Flatten = "function(x) return x:flatten(2) end",
  HuberLoss = "heed.huber_loss(x, y)",
  KLDivLoss = "heed.kl_div(x, target)",
  L1Loss = "heed.l1_loss(x, y)",
  MSELoss = "heed.mse_loss(x, y)",
  ModuleDict = "a table in a field: self.layers = {first = a, second = b}",
  ModuleList = "nn.List{a, b}, or a list in a field: self.layers = {a, b}",
  MultiheadAttention = "nn.MultiHeadAttention(dim, heads)",
  NLLLoss = "heed.nll_loss(x, targets)",
  ParameterDict = "a table in a field: self.weights = {first = nn.Parameter(t)}",
  ParameterList = "a list in a field: self.weights = {nn.Parameter(t)}",
  RotaryEmbedding = "option rope = true of layers, or heed.position.rope(x)",
  SmoothL1Loss = "heed.smooth_l1_loss(x, y)",
  TransformerDecoder = "nn.Decoder(dim, heads, layers)",
  TransformerDecoderLayer = "nn.DecoderLayer(dim, heads, hidden)",
  TransformerEncoder = "nn.Encoder(dim, heads, layers)",
  TransformerEncoderLayer = "nn.EncoderLayer(dim, heads, hidden)",
  functional = F,
  register_module_forward_hook = "m:register_forward_hook(f) of each module",
  utils = "heed.optim.clip_grad_norm(parameters, max)",
}


---Methods of `torch.nn.Module`.
torch_words.module = {
  add_module = "m.name = layer",
  bfloat16 = 'm:to("bfloat16")',
  buffers = "m:state()",
  capture = "m:on_weights(f)",
  cpu = 'm:to("cpu")',
  cuda = 'm:to("cuda")',
  delete_adapter = "adapters:unload(m), of what nn.lora(m) returned",
  disable_adapter = "adapters:unload(m), of what nn.lora(m) returned",
  double = 'm:to("float64")',
  encode = "model:embed(texts), of a model of texts of heed.models.load",
  float = 'm:to("float32")',
  half = 'm:to("float16")',
  load_state_dict = "m:load_state(tensors)",
  merge_adapter = "adapters:merge(), of what nn.lora(m) returned",
  merge_and_unload = "adapters:merge():unload(m), of what nn.lora(m) returned",
  print_trainable_parameters = "print(m)",
  named_buffers = "m:state()",
  named_children = "m:children()",
  register_backward_hook = "m:register_forward_hook(f), and y:register_hook(g) of its results",
  register_buffer = "m.name = nn.Buffer(t)",
  register_full_backward_hook = "m:register_forward_hook(f), and y:register_hook(g) of its results",
  register_module = "m.name = layer",
  register_parameter = "m.name = nn.Parameter(t)",
  requires_grad_ = "m:freeze(), or m:freeze(false) to train again",
  state_dict = "m:state()",
  unmerge_adapter = "adapters:unmerge(), of what nn.lora(m) returned",
}


---Names of `torch.optim`, and of its `lr_scheduler`.
torch_words.optim = {
  CosineAnnealingLR = "opt.lr = rate * heed.optim.cosine(steps)(step)",
  GradScaler = "heed.optim.Scaler{}",
  LinearLR = "opt.lr = rate * heed.optim.linear(steps)(step)",
  OneCycleLR = "heed.optim.one_cycle(steps), of the largest rate",
  ReduceLROnPlateau = "heed.optim.plateau{}; plateau:update(loss) after each validation",
  StepLR = "opt.lr = rate * heed.optim.step(steps)(step)",
  lr_scheduler = "opt.lr = rate * schedule(step), with one such as heed.optim.cosine(steps)",
  swa_utils = "heed.optim.EMA(model)",
}


---Options of optimisers elsewhere.
torch_words.optimizer_options = {learning_rate = "lr = rate"}


---Methods of `torch.optim.Optimizer`.
torch_words.optimizer = {
  load_state_dict = "opt:load_state(tensors)",
  add_param_group = "optim.AdamW{{params = ...}, {params = ..., lr = ...}}",
  defaults = "opt.options",
  param_groups = "opt.groups; their fields are lr, options and parameters",
  state_dict = "opt:state()",
}


---Methods of `torch.Tensor`.
torch_words.tensor = {
  H = "x.mT; there are no complex numbers",
  absolute = "x:abs()",
  apply_ = "a loop, or operations on the whole tensor",
  argwhere = "x:nonzero()",
  as_strided = "x:view, x:unfold or x:expand",
  cat = "heed.cat({a, b}, 1)",
  char = 'x:to("uint8") or x:to("int64")',
  clamp_max = "x:clamp{max = n}",
  clamp_min = "x:clamp{min = n}",
  data_ptr = "x:data() for the elements' bytes",
  detach_ = "x:detach()",
  divide = "x / y, or x:div(y)",
  element_size = "#x:data() // x:numel()",
  fliplr = "x:flip(2)",
  flipud = "x:flip(1)",
  get_device = "x.device",
  grad_fn = "x.requires_grad or x.is_leaf; the graph itself is not shown",
  greater = "x:gt(y)",
  greater_equal = "x:ge(y)",
  index_fill_ = "x[index] = value",
  index_put_ = "x[{index, ...}] = value",
  int = 'x:to("int64")',
  is_cuda = 'x.device ~= "cpu"',
  is_floating_point = 'x.dtype:find("float") ~= nil',
  less = "x:lt(y)",
  less_equal = "x:le(y)",
  mH = "x.mT; there are no complex numbers",
  map_ = "a loop, or operations on the whole tensor",
  masked_scatter_ = "x[mask] = values",
  mm = "x:matmul(y)",
  moveaxis = "x:movedim(source, destination)",
  multiply = "x * y, or x:mul(y)",
  mv = "x:matmul(y)",
  ndim = "x:dim()",
  ndimension = "x:dim()",
  negative = "-x, or x:neg()",
  nelement = "x:numel()",
  not_equal = "x:ne(y)",
  numpy = 'x:totable(), or heed.save("x.npy", x) for a file that NumPy reads',
  reshape_as = "x:reshape(y.shape)",
  resize_ = "x:reshape(sizes)",
  short = 'x:to("int64")',
  squeeze_ = "x:squeeze(dim)",
  storage = "x:data() for the elements' bytes",
  storage_offset = "x:stride() and x:is_contiguous()",
  subtract = "x - y, or x:sub(y)",
  sum_to_size = "x:sum(dims)",
  swapaxes = "x:transpose(dim0, dim1)",
  swapdims = "x:transpose(dim0, dim1)",
  t_ = "x:t()",
  tensor_split = "x:split(sizes) or x:chunk(chunks)",
  tolist = "x:totable()",
  transpose_ = "x:transpose(dim0, dim1)",
  true_divide = "x / y, or x:div(y)",
  type = 'x.dtype, or x:to("float64")',
  unsqueeze_ = "x:unsqueeze(dim)",
  untyped_storage = "x:data() for the elements' bytes",
  view_as = "x:view(y.shape)",
}

for _, name in ipairs{"cholesky", "det", "eig", "inverse", "linalg", "logdet", "lstsq", "pinverse",
                      "qr", "slogdet", "solve", "svd"} do
  torch_words.heed[name], torch_words.tensor[name] = NO_DECOMPOSITION, NO_DECOMPOSITION
end
torch_words.tensor["repeat"] = "x:tile(times)"


return torch_words
