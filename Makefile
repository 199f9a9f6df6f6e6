# Makefile for heed
#
#   make demo   make test   make check   make   make repl   make bench   make clean
#   make bench-quick   make bench ROWS=attention   make bench BENCH="--threads 1,2"
#   make cuda (for the GPU at hand)   make cuda-all   make lib   make install PREFIX=p
#   make rock URL=git+https://...: what LuaRocks publishes, of the source that is there
#   eval "$(make env)": where this shell's Lua finds the module
#   make mutate FILES="lua/heed/optim src/op/optimize.c": faults that no spec finds
#   make asan, fuzz, tsan, sweep, basic, bare, sealed, clang, emulated, emulated-asan, emulated-race,
#   bytes, orders, nvcc, ledger, strict, neon, neon-run, lint, installed: parts of the check; make overflow,
#   valgrind, differential (beside PyTorch): beyond it; cuda/check: all that needs a GPU

# == CHANGE THE SETTINGS BELOW TO SUIT YOUR ENVIRONMENT =====================

CC= gcc
CFLAGS= -O3
LUA= lua5.4
LUA_INCDIR= /usr/include/lua5.4
LUA_LIB= -llua5.4
NVCC= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
PREFIX= /usr/local
BINDIR= $(PREFIX)/bin
LUADIR= $(PREFIX)/share/lua/5.4
LIBDIR= $(PREFIX)/lib/lua/5.4
INCDIR= $(PREFIX)/include/heed
FUZZ= 53376 1 2
JOBS= $(shell nproc 2>/dev/null || echo 1)
RUN_SPEC= $(LUA) spec/support/busted.lua
SPEC= $(EARLY) $(filter-out $(EARLY) $(NOT_$(KIND)),$(wildcard spec/*_spec.lua))
Q= @

# == END OF USER SETTINGS -- NO NEED TO CHANGE ANYTHING BELOW THIS LINE =====

# Each kind of build has its folder, so that one never mixes with another.
KIND= release
B= build/$(KIND)
# Where the objects of src/ are: kinds whose flags are the same have them in one place.
O= build/$(or $(SAME_$(KIND)),$(KIND))
SAME_emulated= release
SAME_emulated-race= release
SAME_emulated-asan= asan

# Neither -march nor -ffast-math: one changes the processors, the other the host's arithmetic.
# -fno-plt: loading a module finds Lua's functions anyway, and small calls take a tenth less.
# No -ffp-contract: GCC fuses products and sums anyway (with gnu11), clang since 14 those within one
# expression. With -ffp-contract=fast clang fuses across expressions, for each number of rows in
# another way, and a row's bits depend on how many there are.
FLAGS= -std=gnu11 $(CFLAGS) -fwrapv -fno-math-errno -fno-trapping-math \
  -fvisibility=hidden -fPIC -fno-plt -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Werror=implicit-function-declaration -Werror=switch -Isrc -I$(LUA_INCDIR) $(FLAGS_$(KIND))
FLAGS_asan= -DHEED_EXACT=1 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
  -fno-sanitize-recover=all
FLAGS_tsan= -O1 -g -fsanitize=thread
FLAGS_valgrind= -g
FLAGS_basic= -DHEED_BASIC_KINDS -Werror -Wframe-larger-than=18432
FLAGS_clang= -Werror
FLAGS_emulated-asan= $(FLAGS_asan)
LIBS= -lm -lpthread -ldl
VERSION= $(shell sed -n 's/.*_VERSION = "heed \(.*\)".*/\1/p' lua/heed/init.lua)

SOURCES= $(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))
EMBED= $(O)/src/lua/lua_half.o $(O)/src/lua/lua_sealed.o $(O)/src/lua/lua_models.o $(B)/half.o
OBJECTS= $(filter-out $(EMBED),$(SOURCES:%.c=$(O)/%.o))
CORE= $(filter-out $(O)/src/lua/%,$(OBJECTS))
PROGRAMS= $(patsubst %.c,$(B)/%,$(filter-out spec/c/cuda_%,$(wildcard spec/c/*.c)))
HALF= $(sort $(shell find lua -name '*.lua'))

# How Lua finds the module in this tree, before where it looks anyhow, and how a kind of build is
# run. Leaks are looked for in Lua only (%b is the program's name): what a spec starts, gnuplot
# say, has leaks of its own.
HERE= LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(addsuffix ;,$(LUA_PATH));" \
  LUA_CPATH="$(abspath $(B))/?.so;$(addsuffix ;,$(LUA_CPATH));" HEED_BUILD=$(KIND) \
  HEED_OBJECTS="$(abspath $(O))" \
  LUA_INCDIR="$(LUA_INCDIR)"
START_asan= env LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" \
  UBSAN_OPTIONS=print_stacktrace=1 \
  ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:include_if_exists=$(abspath $(B))/%b"
START_emulated= env HEED_DEVICE=cuda
START_emulated-asan= HEED_DEVICE=cuda $(START_asan)
START_emulated-race= $(START_emulated)
RUN_emulated-race= timeout 1800
START_overflow= env LD_PRELOAD="$$($(CC) -print-file-name=libclang_rt.ubsan_standalone-x86_64.so)"
START_neon= $(RUN_neon)
START_valgrind= valgrind --quiet --keep-debuginfo=yes --error-exitcode=9 --leak-check=full \
  --errors-for-leak-kinds=definite

# A test is a process, and JOBS of them run at once: each has a log, shown when it ends, and whoever
# asked for several adds them up. A program without a count is one test, a spec without one has
# failed; so has what exits badly, whatever it counted.
LOGS= $(B)/log
LONG= $(patsubst %,spec/%_spec.lua,metamorphic cycles interrupt durable products table elementwise)
# What takes long begins early; and what a kind of build leaves out: specs of the Lua half alone, of
# texts and of processes say nothing of a GPU, and others take long on the emulated one.
EARLY= $(filter-out $(NOT_$(KIND)),$(LONG) $(patsubst %,spec/%_spec.lua,gradients mask few_queries \
  raw_errors fields train words traps memory))
NOT_emulated= $(patsubst %,spec/%_spec.lua,api bare chart chat close complete config_defaults \
  constrain decoders fields foreign_files generation_config generation_saving help house image json \
  ledger limits model_file mutate normalizer overload overrides path pictures pieces plot png \
  progress prompt raw_errors reading_limits sentencepiece stubs suite texts tokenizer \
  tokenizer_kinds tokenizer_limits tokenizer_lists tokenizer_parts tokenizer_training \
  toolkit train traps vocabularies wordpiece words)
NOT_emulated-asan= $(NOT_emulated) $(patsubst %,spec/%_spec.lua,atomic cache_methods cache_shared \
  defaults docs durable embed examples memory metrics models module saving second)
logs= $(patsubst %,$(LOGS)/%.log,$(1:$(B)/%=%))
LOG= >$@ 2>&1; printf '\nexit status %d\n' $$? >>$@; sed '$$d' $@
SUM= @awk '/^[0-9]+ passed, [0-9]+ failed/ { n++; p += $$1; f += bad = $$3; s += $$5 } \
  /^exit status [0-9]+$$/ { if ($$3 ? !bad : !n && FILENAME ~ /_spec/) f += bad = 1; \
    else if (!$$3 && !n) p++; \
    if (bad) print "failed: " FILENAME; n = bad = 0 } \
  END { printf "%d passed, %d failed%s\n", p, f, s ? ", " s " skipped" : ""; \
    exit f > 0 || p == 0 }' $^

ifeq ($(MAKELEVEL),0)
MAKEFLAGS+= -j$(JOBS) --no-print-directory
endif

all: $(B)/heed/core.so
	@! $(GPU) >/dev/null 2>&1 || test -e $(B)/heed/cuda.so || echo "a GPU is here: make cuda"

# A plugin must be of the same table of operations and the same structs as the core.
INTERFACE= $(shell cat src/op/*.def src/base/*.def $(patsubst %,src/%.h,heed heed_optim base/layout base/scalar \
  base/view base/work memory/device memory/plugin) | cksum | cut -d' ' -f1)
$(O)/src/memory/plugin.o $(B)/cuda/device/plugin.cu.o: SHOWN= -DHEED_INTERFACE=$(INTERFACE)ull

# == CUDA: an object of its own, by nvcc where it is; or emulated, by the C++ compiler ==

GPU= nvidia-smi --query-gpu=compute_cap --format=csv,noheader
CUDA= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CXX= g++
ARCH= $(subst 90,90a,$(sort $(subst .,,$(shell $(GPU) 2>/dev/null))))
# The version of CUDA that nvcc is of, 1208 for 12.8, asked for once; and what is new in some.
RELEASE= $(eval RELEASE:= $(shell $(NVCC) --version | \
  awk '/ release / { sub(/.* release /, ""); split($$0, v, "[.,]"); print v[1] * 100 + v[2] }'))$(RELEASE)
since= $(shell test 0$(RELEASE) -ge $1 && echo '$2')
CUDART= $(firstword $(wildcard $(patsubst %,%/libcudart_static.a,$(CUDA)/lib64 $(CUDA)/lib \
  /usr/lib/$(shell $(CC) -print-multiarch))))
ARCH_ALL= 80 90a $(call since,1208,100 120)
PTX_ALL= 80
ARCHITECTURES= $(foreach a,$(ARCH),-gencode arch=compute_$a,code=sm_$a) \
  $(foreach a,$(PTX),-gencode arch=compute_$a,code=compute_$a)
PLAIN_CXX= -fPIC -fno-exceptions -fno-rtti -fvisibility=hidden -fno-threadsafe-statics \
  -Wall -Wextra -Werror=switch -Wno-missing-field-initializers
# Warps of blocks of gradients, where all GPUs that code is for take the same: see fast_back.h.
BACK_WARPS= $(if $(PTX),,$(if $(filter-out 90a 100,$(ARCH)),$(if \
  $(filter-out 86 89 120,$(ARCH)),,8),4))
# Code for 9.0a alone: what products of warpgroups do is compiled in no other way (ways.h).
GROUPS_ALONE= $(if $(filter-out 90a,$(ARCH))$(PTX),,-DHEED_WARPGROUPS_ALONE)
# Code for one architecture is compressed fast, for several, which others get, as well as can be. A
# third of all headers would be the special functions of C++17, which nothing here calls: the
# compiler takes them for included. -O1 is for the host's code, which only launches; kernels are
# optimised as ever.
COMPRESSED= $(if $(word 2,$(ARCH) $(PTX)),$(call since,1208,--compress-mode=size), \
  -Xfatbin=-compress-all)
CUDA_FLAGS= -std=c++17 -O1 $(ARCHITECTURES) $(COMPRESSED) -D_GLIBCXX_BITS_SPECFUN_H -Isrc -I. \
  $(if $(filter 90a,$(ARCH)),-DHEED_WARPGROUPS) $(GROUPS_ALONE) $(BACK_WARPS:%=-DHEED_BACK_WARPS=%) \
  $(PLAIN_CXX:%=-Xcompiler=%) -Xptxas=-v
EMULATED= -std=gnu++17 -O2 -g1 $(PLAIN_CXX) -Wno-unknown-pragmas -ffp-contract=off -Isrc -I. \
  $(EMULATED_$(KIND))
EMULATED_emulated-asan= -DHEED_EXACT=1 -fno-omit-frame-pointer -fno-sanitize-recover=all \
  -fsanitize=address,alignment,shift -O1
# Kernels say each access to memory, to functions of spec/emulated/emulate_race.cc.
WATCHED_emulated-race= -fsanitize=thread --param=tsan-distinguish-volatile=1 \
  --param=tsan-instrument-func-entry-exit=0
# What takes long to compile comes first, so that two jobs end together.
SLOW= $(wildcard cuda/attention/*.cu cuda/rows/*.cu cuda/vector/*.cu)
KERNELS= $(sort $(SLOW)) $(sort $(filter-out $(SLOW),$(wildcard cuda/*.cu cuda/*/*.cu)))
SHARED_CORE= $(O)/src/base/layout.o $(O)/src/base/scalar.o

ifneq ($(filter emulated%,$(KIND)),)
CUDA_OBJECTS= $(patsubst %,$(B)/%.o,$(KERNELS) $(wildcard spec/emulated/*.cc))
all: $(B)/heed/cuda.so
cuda: $(B)/heed/cuda.so
else
CUDA_OBJECTS= $(patsubst %,$(B)/%.o,$(KERNELS))
$(B)/cuda/device/plugin.cu.o: SHOWN+= -DHEED_ARCHITECTURES='"$(shell \
  echo $(ARCH) $(PTX:%=and PTX %) | sed 's/\([0-9][a-f]*\)\( \|$$\)/.\1\2/g')"'
CUDA_LIBS= $(CUDART) -Wl,--exclude-libs,ALL -lrt
ifeq ($(NVCC),)
cuda:; @echo "no nvcc is here: install the CUDA Toolkit, or set NVCC" >&2; exit 1
else ifeq ($(strip $(ARCH)),)
cuda:; @echo "no GPU is here: make cuda-all, or make cuda ARCH=90a" >&2; exit 1
else
cuda: $(B)/heed/cuda.so
endif
endif
cuda-all:; @$(MAKE) cuda ARCH="$(ARCH_ALL)" PTX="$(PTX_ALL)"
nvcc:; @$(MAKE) cuda KIND=nvcc ARCH=90a

# Registers, loops and so on of kernels, held against cuda/limits.lua; TABLE=file: as tables.
TABLE=
CUOBJDUMP= $(or $(shell command -v cuobjdump),$(wildcard $(CUDA)/bin/cuobjdump),$(shell \
  .ci/cuobjdump build/cuobjdump))
MEASURED= $(KERNELS:%=$1/%.kernels)
ledger:
	@$(MAKE) kernels KIND=nvcc ARCH="$(or $(strip $(ARCH)),90a)" CUOBJDUMP="$(CUOBJDUMP)"
	@$(LUA) spec/ledger.lua $(TABLE:%=--table %) $(call MEASURED,build/nvcc)
# The same for all architectures that the limits are for, each in a folder of its own.
ARCH_LEDGER= 80 86 89 90a $(call since,1208,100 120)
ledger-all:
	@for a in $(ARCH_LEDGER); do $(MAKE) kernels KIND=nvcc \
	  B=build/nvcc-$$a ARCH=$$a CUOBJDUMP="$(CUOBJDUMP)" || exit; done
	@$(LUA) spec/ledger.lua $(TABLE:%=--table %) \
	  $(foreach a,$(ARCH_LEDGER),$(call MEASURED,build/nvcc-$a))
kernels: cuda $(call MEASURED,$(B))
$(B)/%.cu.kernels: $(B)/%.cu.o $(patsubst %,spec/%.lua,kernels support/sass support/tiles \
  support/ledger)
	@CUOBJDUMP="$(CUOBJDUMP)" $(LUA) spec/kernels.lua $< >$@ || { rm -f $@; exit 1; }

# Other architectures than last time: all is compiled again.
$(B)/cuda/architectures: anew
	@mkdir -p $(@D); echo '$(ARCHITECTURES)' | cmp -s - $@ || echo '$(ARCHITECTURES)' >$@
ifeq ($(filter emulated%,$(KIND)),)
	@test 0$(RELEASE) -ge 1200 || { echo "CUDA 12.0 or later is needed; this is no nvcc of it:" \
	  "$(NVCC)" >&2; exit 1; }
	@test -n "$(CUDART)" || { echo "no libcudart_static.a is below $(CUDA), where nvcc is: it" \
	  "comes with NVIDIA's toolkit; or say make CUDART=/a/path/libcudart_static.a" >&2; exit 1; }
endif

$(B)/heed/cuda.so: $(CUDA_OBJECTS) $(SHARED_CORE)
	@mkdir -p $(@D); echo link $@
	$(Q)$(CC) -shared $(FLAGS_$(KIND)) -Wl,-z,nodelete -o $@ $^ $(CUDA_LIBS) $(LIBS)

# Results of single operations are those of the CPU: no products fused with sums.
$(patsubst %,$(B)/cuda/%.cu.o,copy/copy $(addprefix vector/,map_float map_double map_integer \
  derivative_float derivative_double)): FUSED= -fmad=false

$(B)/cuda/product/cublas.cu.o: SHOWN= -DHEED_TOOLKIT='"$(CUDA)"'

$(B)/%.cu.o: %.cu Makefile $(B)/cuda/architectures
	@mkdir -p $(@D); echo compile $@
ifneq ($(filter emulated%,$(KIND)),)
	$(Q)$(CXX) $(EMULATED) $(WATCHED_$(KIND)) $(SHOWN) -MMD -MP -c -x c++ -o $@ $<
else
	$(Q)$(NVCC) $(CUDA_FLAGS) $(FUSED) $(SHOWN) -MMD -MP -c -o $@ $< 2>$@.usage || \
	  { cat $@.usage >&2; exit 1; }
	@grep -av '^ptxas info\|^    ' $@.usage >&2 || true
endif

$(B)/spec/emulated/%.cc.o: spec/emulated/%.cc Makefile
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CXX) $(EMULATED) -MMD -MP -c -o $@ $<

# Programs that hold a GPU, real or emulated, against the CPU: one, or all of them.
# Programs of .c compare works, and see a GPU as a device; those of .cu are kernels themselves.
GPU_SPECS= $(wildcard spec/c/cuda_*.c spec/c/cuda_*.cu)
CUDA_PROGRAMS= $(patsubst %,$(B)/%,$(basename $(GPU_SPECS)))
$(patsubst %.cu,$(B)/%,$(wildcard spec/c/cuda_*.cu)): $(B)/%: $(B)/%.cu.o \
  $(filter $(B)/cuda/runtime.cu.o $(B)/spec/emulated/%,$(CUDA_OBJECTS))
	@echo link $@
	$(Q)$(CC) $(FLAGS_$(KIND)) -o $@ $^ $(CUDA_LIBS) $(LIBS)

# Those that say something of a kind of build, for cuda/check.
specs:; @echo $(SPEC)

gpu: $(call logs,$(CUDA_PROGRAMS)); $(SUM)
$(call logs,$(CUDA_PROGRAMS)): export HEED_CUDA= $(abspath $(B)/heed/cuda.so)
$(call logs,$(CUDA_PROGRAMS)): cuda

emulated emulated-asan:; @$(MAKE) gpu KIND=$@ && $(MAKE) spec KIND=$@
# Accesses to memory that nothing orders; some of the works with warps in other orders, and with
# the shared memory, in KiB, of other GPUs.
ORDERS= lowest highest 1
KIB_lowest= 163
KIB_highest= 227
# Of works that are watched, every SOME-th: all of them take more than half an hour.
SOME= 8
emulated-race:; @HEED_SOME=$(SOME) $(MAKE) gpu KIND=$@
# What kernels of attention do to memory, beside the least.
bytes:; @$(MAKE) counted KIND=emulated-race
counted: all cuda; @$(HERE) $(LUA) spec/bytes.lua
orders: $(ORDERS:%=order-%)
order-%:; @HEED_EMULATED_ORDER=$* HEED_EMULATED_SHARED=$(KIB_$*) HEED_SOME=40 $(MAKE) gpu KIND=emulated-race LOGS=$(B)/log-$*

$(B)/heed/core.so: $(OBJECTS)
	@mkdir -p $(@D); echo link $@
	$(Q)$(CC) -shared $(FLAGS) $(LDFLAGS) -Wl,-z,nodelete -o $@ $^ $(LIBS)

define COMPILE
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CC) $(FLAGS) $(SHOWN) $(SHAPES_$(KIND)) -MMD -MP -c -o $@ $<
endef

$(B)/%.o: %.c Makefile
	$(COMPILE)

$(SOURCES:%.c=$(O)/%.o): $(O)/%.o: %.c Makefile
	$(COMPILE)

# Its vectors of 64 bytes never leave its own code, whatever the CPU.
$(B)/spec/c/ways_wide.o: CFLAGS+= -Wno-psabi

# clang alone sees unsigned overflow: looked for in shape arithmetic, where none is meant.
$(O)/src/base/layout.o $(O)/src/memory/storage.o $(O)/src/graph/%.o $(O)/src/op/%.o: SHAPES_overflow= -O1 -g \
  -fsanitize=unsigned-integer-overflow,signed-integer-overflow -fno-sanitize-recover=all

# The Lua half as C, for programs that carry it inside: name, chunk name, text, ..., NULL.
$(B)/half.c: $(HALF) Makefile
	@mkdir -p $(@D)
	@{ echo 'extern const char *const heed_half[];'; echo 'const char *const heed_half[] = {'; \
	for f in $(HALF); do \
	  echo $$f | sed 's:lua/::; h; s:/init.lua$$::; s:.lua$$::; s:/:.:g; G; s:\n:", "@:; s:.*:"&",:'; \
	  sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' "$$f"; echo ','; \
	done; echo '0};'; } >$@

$(B)/half.o: $(B)/half.c
	$(Q)$(CC) $(FLAGS) -c -o $@ $<

HOSTS= $(patsubst examples/host/%.c,$(B)/%,$(wildcard examples/host/*.c))

# Two objects, one without Lua and one for it, in which only what is public can be seen, so that
# a host's names are its own.
$(B)/libheed.a: $(OBJECTS) $(EMBED)
	@mkdir -p $(B)/include/op $(B)/include/base; echo link $@
	$(Q)cp $(wildcard src/heed*.h) src/lua/heed_api.h src/lua/heed_lua.h $(B)/include
	$(Q)cp src/op/*.def $(B)/include/op
	$(Q)cp src/base/blocks.def $(B)/include/base
	$(Q)$(CC) -r -nostdlib -o $(B)/heed.o $(CORE)
	$(Q)$(CC) -r -nostdlib -o $(B)/heed_lua.o $(filter-out $(CORE),$^)
	$(Q)objcopy --localize-hidden $(B)/heed.o && objcopy --localize-hidden $(B)/heed_lua.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/heed.o $(B)/heed_lua.o

$(HOSTS): $(B)/%: examples/host/%.c $(B)/libheed.a
	@echo link $@
	$(Q)$(CC) -O2 -Wall -I$(B)/include -I$(LUA_INCDIR) -o $@ $^ $(LUA_LIB) $(LIBS)

# In it heed is told another version of Lua.
$(B)/spec/c/lua_version: WRAPPED= -Wl,--wrap=lua_version
# In it huge pages are asked for, memory is given back, or there is none.
$(B)/spec/c/pages: WRAPPED= $(patsubst %,-Xlinker --wrap=%,madvise free calloc aligned_alloc)
# In it the machine's memory is told.
$(B)/spec/c/memory: WRAPPED= -Wl,--wrap=machine_memory,--wrap=machine_resident
# In it memory ends.
$(B)/spec/c/lua_models: WRAPPED= -Wl,--wrap=realloc
# In it heed's requests for memory fail, and what is fused is composed.
$(B)/spec/c/lua_starved: WRAPPED= $(patsubst %,-Xlinker --wrap=%,core_alloc core_grow \
  storage_new cpu_scratch op_supports op_fuses)

# In it readline is its own.
$(B)/spec/c/lua_readline: WRAPPED= -Wl,--wrap=dlsym

# In it blocks of memory are counted.
$(B)/spec/c/lua_leaks: WRAPPED= $(patsubst %,-Xlinker --wrap=%,malloc calloc realloc free \
  aligned_alloc posix_memalign)

# In it polls are counted.
$(B)/spec/c/text_stops $(B)/spec/c/pass_stops: WRAPPED= -Wl,--wrap=core_poll

# C programs that test: lua_*.c embed Lua and the whole module, the others the core alone.
$(B)/spec/c/lua_%: $(B)/spec/c/lua_%.o $(OBJECTS) $(EMBED)
	@echo link $@
	$(Q)$(CC) $(FLAGS) $(WRAPPED) -o $@ $^ $(LUA_LIB) $(LIBS)

$(B)/spec/c/%: $(B)/spec/c/%.o $(CORE)
	@echo link $@
	$(Q)$(CC) $(FLAGS) $(WRAPPED) -o $@ $^ $(LIBS)

# A Lua in which heed is sealed, and C modules find Lua's functions.
SEALED= $(B)/spec/sealed/lua
$(SEALED): $(B)/spec/sealed/lua.o $(OBJECTS) $(EMBED)
	@echo link $@
	$(Q)$(CC) $(FLAGS) -Wl,-E -o $@ $^ $(LUA_LIB) $(LIBS)

# Plugins that fit and that do not, for spec/c/plugin.c.
PLUGINS= $(patsubst %.c,$(B)/%.so,$(wildcard spec/c/plugins/*.c))
$(B)/spec/c/plugins/%.so: spec/c/plugins/%.c Makefile
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CC) $(FLAGS) -DHEED_INTERFACE=$(INTERFACE)ull -MMD -MP -shared -o $@ $<
$(B)/spec/c/plugin $(B)/spec/c/cuda_cublas: | $(PLUGINS)

# C and C++ modules that are not linked against heed, for spec/api_spec.lua.
MODULES= $(patsubst %,$(B)/%.so,$(basename $(wildcard spec/c/modules/*.c*)))
$(B)/spec/c/modules/%.so: spec/c/modules/%.c Makefile
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CC) $(FLAGS) -Isrc/lua -MMD -MP -shared -o $@ $<
$(B)/spec/c/modules/%.so: spec/c/modules/%.cc Makefile
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CXX) -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Isrc -Isrc/lua \
	  -I$(LUA_INCDIR) $(FLAGS_$(KIND)) -MMD -MP -shared -o $@ $<
$(LOGS)/spec/api_spec.lua.log: $(MODULES)

lib: $(B)/libheed.a $(HOSTS)
modules: $(MODULES)
core: $(CORE)
objects: $(OBJECTS) $(EMBED) $(PROGRAMS:=.o)

install: all
	@echo install $(DESTDIR)$(PREFIX)
	$(Q)mkdir -p "$(DESTDIR)$(LUADIR)" "$(DESTDIR)$(LIBDIR)/heed"
	$(Q)cp -R lua/heed "$(DESTDIR)$(LUADIR)"
	$(Q)install -m 755 $(B)/heed/*.so "$(DESTDIR)$(LIBDIR)/heed"
	$(Q)mkdir -p "$(DESTDIR)$(BINDIR)" && rm -f "$(DESTDIR)$(BINDIR)/heed"
	$(Q)sed 's:@LUADIR@:$(LUADIR):g; s:@LIBDIR@:$(LIBDIR):g; s:@LUA@:$(LUA):g' heed.in \
	  >"$(DESTDIR)$(BINDIR)/heed" && chmod 755 "$(DESTDIR)$(BINDIR)/heed"
	$(Q)! test -f $(B)/libheed.a || { \
	  mkdir -p "$(DESTDIR)$(INCDIR)" "$(DESTDIR)$(PREFIX)/lib/pkgconfig" && \
	  cp -R $(B)/include/* "$(DESTDIR)$(INCDIR)" && cp $(B)/libheed.a "$(DESTDIR)$(PREFIX)/lib" && \
	  sed 's:@PREFIX@:$(PREFIX):; s:@INCDIR@:$(INCDIR):; s:@VERSION@:$(VERSION):; s:@LIBS@:$(LIBS):' \
	    heed.pc.in >"$(DESTDIR)$(PREFIX)/lib/pkgconfig/heed.pc"; }

# The rockspec of this version, and its source as a rock. What is published is tagged v$(VERSION).
ROCK= build/rock/heed-$(VERSION)-1
rock:
	@test -n "$(URL)" || { echo "where is the source? make rock URL=git+https://..." >&2; exit 1; }
	@mkdir -p build/rock
	@sed -e 's|"scm-1"|"$(VERSION)-1"|' -e 's|^  url = .*|  url = "$(URL)", tag = "v$(VERSION)",|' \
	  heed-scm-1.rockspec >$(ROCK).rockspec && echo $(ROCK).rockspec
	@if command -v luarocks >/dev/null; then luarocks lint $(ROCK).rockspec && \
	  cd build/rock && luarocks pack $(notdir $(ROCK)).rockspec; \
	else echo "no luarocks is here: its 'pack' and 'upload' take the rockspec" >&2; fi

clean:; rm -rf $(filter-out build/venv,$(wildcard build/*))   # PyTorch stays: it is 5 GB

# == CHECKS; `make asan SPEC=spec/x_spec.lua` runs one file =================

anew:
spec: $(call logs,$(SPEC)); $(SUM)
programs: $(call logs,$(PROGRAMS)); $(SUM)

$(B)/$(notdir $(LUA)):; @mkdir -p $(@D); echo detect_leaks=1 >$@

$(LOGS)/spec/%_spec.lua.log: all $(B)/$(notdir $(LUA))
	@mkdir -p $(@D)
	@$(HERE) $(START_$(KIND)) $(RUN_SPEC) spec/$*_spec.lua $(LOG)

$(LOGS)/spec/c/%.log: $(B)/spec/c/% anew
	@mkdir -p $(@D)
	@{ echo $<; $(RUN_$(KIND)) $<; } $(LOG)

asan basic valgrind:; @$(MAKE) spec KIND=$@
# The specs where heed's Lua half finds no 'debug'.
bare:; @HEED_WITHOUT=debug LUA_INIT_5_4="require 'spec.support.without'" \
  $(MAKE) spec LOGS=$(B)/log-bare
# The specs, the blocks of the pages and the examples in a state that its host has sealed.
sealed: $(SEALED); @$(MAKE) spec RUN_SPEC="$(SEALED) spec/sealed/busted.lua" LOGS=$(B)/log-sealed
overflow:; @$(MAKE) spec KIND=overflow CC=clang
sweep:; @HEED_SWEEP=1 $(MAKE) swept LOGS=$(B)/log-sweep
swept: $(call logs,spec/atomic_spec.lua $(B)/spec/c/lua_starved); $(SUM)
# The programs and the specs, compiled by clang without a warning.
clang:; @$(MAKE) programs KIND=clang CC=clang && $(MAKE) spec KIND=clang CC=clang
# Random calls, graphs and damaged files: FUZZ is how many for each seed, and the seeds. As it is,
# 100,000 calls and 5,000 files.
fuzz:; @$(MAKE) fuzzed KIND=asan
FUZZED= $(patsubst %,$(LOGS)/fuzz/%.log,$(wordlist 2,99,$(FUZZ)))
fuzzed: $(FUZZED); $(SUM)
$(FUZZED): $(LOGS)/fuzz/%.log: all anew
	@mkdir -p $(@D); echo "seed $*"
	@$(HERE) $(START_$(KIND)) $(LUA) spec/fuzz.lua $(firstword $(FUZZ)) $* $(LOG)

# Programs but those in whose states one thread works.
ALONE= $(patsubst %,spec/c/%,ends lua_header lua_hostile lua_memory lua_models lua_starved text text_stops \
  train unicode)
tsan:; @$(MAKE) threads KIND=tsan
threads: $(call logs,$(filter-out $(ALONE:%=$(B)/%),$(PROGRAMS))); $(SUM)
# Without a warning, and with frames that a small stack has room for.
strict:; @$(MAKE) objects KIND=basic
# Compiled for ARM, and run under QEMU with ARM's Lua, which .ci/arm fetches: the C programs, but
# that QEMU can't fork a process of several threads, nor tell its shares; and specs of kernels.
ARM= $(CURDIR)/build/arm
FLAGS_neon= -I$(ARM)/usr/include/aarch64-linux-gnu
RUN_neon= qemu-aarch64 -L $(ARM)
NEON= $(filter-out %/fork %/mapped,$(PROGRAMS)) $(patsubst %,spec/%_spec.lua,attention clip elementwise \
  few_queries golden numbers optim position)
neon:; @$(MAKE) core KIND=neon CC=aarch64-linux-gnu-gcc
neon-run:
	@.ci/arm $(ARM)
	@$(MAKE) neon-runs KIND=neon CC=aarch64-linux-gnu-gcc LUA=$(ARM)/usr/bin/lua5.4 \
	  LUA_INCDIR=$(ARM)/usr/include/lua5.4 LUA_LIB="-L$(ARM)/usr/lib/aarch64-linux-gnu -llua5.4"
neon-runs: $(call logs,$(NEON)); $(SUM)
lint:; luacheck --quiet --no-color lua spec examples bench docs cuda heed-scm-1.rockspec

# From another folder and another place, as a user has it.
I= $(CURDIR)/build/installed
PKG= $$(PKG_CONFIG_PATH="$(I)/lib/pkgconfig" pkg-config --cflags --libs heed)
installed: lib
	@$(MAKE) install PREFIX=$(I)
	cd / && LUA_PATH="$(I)/share/lua/5.4/?.lua;$(I)/share/lua/5.4/?/init.lua" \
	  LUA_CPATH="$(I)/lib/lua/5.4/?.so" $(LUA) -e 'print(require("heed").randn(2, 3))'
	cd / && $(I)/bin/heed -e 'print(heed.randn(2, 3), nn.Linear(2, 3), optim.AdamW)'
	cd / && $(I)/bin/heed --help | grep -q '^usage: heed' && $(I)/bin/heed --version | grep -q ^heed
	cd / && $(CURDIR)/$(B)/host
	cd / && $(CURDIR)/$(B)/sandbox $(CURDIR)/examples/host/script.lua
	sed -n '/^```c$$/,/^```$$/{/^```/!p}' docs/embedding.md >$(I)/program.c
	cd $(I) && $$(sed -n 's:/usr/local:$(I):g; s:^    \(cc program.c .*\):\1:p' $(CURDIR)/docs/embedding.md)
	cd / && $(I)/program
	$(CXX) -std=c++17 -Wall -Wextra -Werror -o $(I)/program_cc spec/c/host.cc $(PKG)
	cd / && $(I)/program_cc
	$(CXX) -std=c++17 -Wall -Wextra -Werror -I$(LUA_INCDIR) -o $(I)/lua_cc spec/c/host_lua.cc \
	  $(PKG) $(LUA_LIB)
	cd / && $(I)/lua_cc

# Faults planted in FILES, or in what changed SINCE a revision: which does none of these specs find,
# in this kind of build and ALSO in others?
FILES=
SINCE=
COUNT= 50
SEED= 1
MUTATE=
ALSO=
NO_KERNELS= $(patsubst %,spec/%_spec.lua,house suite mutate)   # they read texts
QUICK= $(filter-out $(LONG) $(NO_KERNELS),$(wildcard spec/*_spec.lua))
mutate:
	@$(HERE) $(LUA) spec/mutate.lua count=$(COUNT) seed=$(SEED) since="$(SINCE)" jobs=$(JOBS) \
	  kinds="$(KIND) $(ALSO)" make="$(MUTATE)" spec="$(if $(filter file,$(origin SPEC)),$(QUICK),$(SPEC))" $(FILES)

# == ALL OF IT, ON A BARE MACHINE ===========================================

SETUP= CC="$(CC)" LUA="$(LUA)" LUA_INCDIR="$(LUA_INCDIR)" .ci/setup

demo:
	@$(SETUP) build
	@$(MAKE) all
	@$(HERE) $(LUA) examples/counting.lua

repl: all
	@$(HERE) $(LUA) -i -e 'print(require("heed.prompt")(_G, true))'

env:; @echo 'export LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$${LUA_PATH:-;}"' \
  'LUA_CPATH="$(abspath $(B))/?.so;$${LUA_CPATH:-;}"'

# What the CPU shows in three minutes; and everything.
test:
	@$(SETUP) build test
	@rm -f build/tally/test-*
	@.ci/check test-specs $(MAKE) spec
	@.ci/check test-programs $(MAKE) programs
	@.ci/check --sum test-

CLANG= $(shell command -v clang)
ARM_CC= $(shell command -v aarch64-linux-gnu-gcc)
ARM_QEMU= $(and $(ARM_CC),$(shell command -v qemu-aarch64),$(shell .ci/arm $(ARM) && echo here))
check:
	@$(SETUP) build test
	@rm -f build/tally/check-*
	@.ci/check check-strict $(MAKE) strict
	@.ci/check check-lint $(MAKE) lint
	@.ci/check check-asan $(MAKE) asan
	@.ci/check check-fuzz $(MAKE) fuzz
	@.ci/check check-programs $(MAKE) programs KIND=asan
	@.ci/check check-threads $(MAKE) tsan
	@.ci/check check-sweep $(MAKE) sweep
	@.ci/check check-basic $(MAKE) basic
	@.ci/check check-bare $(MAKE) bare
	@.ci/check check-sealed $(MAKE) sealed
	@.ci/check check-clang $(if $(CLANG),$(MAKE) clang,--skip "no clang is here")
	@HEED_SOME=3 .ci/check check-gpu $(MAKE) gpu KIND=emulated-asan
	@.ci/check check-race $(MAKE) emulated-race
	@for o in $(ORDERS); do .ci/check check-order-$$o $(MAKE) order-$$o; done
	@.ci/check check-bytes $(MAKE) bytes
	@.ci/check check-gpu-asan $(MAKE) spec KIND=emulated-asan
	@.ci/check check-installed $(MAKE) installed
	@.ci/check check-neon $(if $(ARM_CC),$(MAKE) neon,--skip "no compiler for ARM is here")
	@.ci/check check-neon-run $(if $(ARM_QEMU),$(MAKE) neon-run,--skip "no QEMU, no Lua for ARM")
	@.ci/check check-nvcc $(if $(NVCC),$(MAKE) nvcc,--skip "no nvcc is here")
	@.ci/check check-ledger $(if $(NVCC),$(MAKE) ledger ARCH=90a,--skip "no nvcc is here")
	@.ci/check --sum check-

# Beside PyTorch: all rows in some fifteen minutes, or those that ROWS finds, or a few; what
# attention over long sequences takes in memory; on a GPU.
ROWS=
BENCH=
bench bench-quick bench-memory bench-cuda: all
	@$(SETUP) bench
	@bench/setup
	@$(HERE) LUA="$(LUA)" CC="$(CC)" bench/run $(patsubst bench-%,--%,$(filter-out bench,$@)) \
	  --rows "$(ROWS)" $(BENCH)

# All of it into bench/RESULTS.md, and a few rows into the README: SECONDS is when the table of all
# rows ends at the latest. For a machine that does nothing else.
SECONDS= 3000
bench-results: all
	-@$(MAKE) bench BENCH="--into whole --threads 1,2 --seconds $(SECONDS)"
	-@$(MAKE) bench ROWS="MiniLM|decoder of" BENCH="--into models --threads 1,2"
	-@$(MAKE) bench-memory BENCH="--into memory --threads 2"
	-@for l in avx2 base; do $(MAKE) bench-quick BENCH="--into $$l --level $$l"; done

# Random calls here and in PyTorch: results and gradients that differ, but for what is meant to.
DIFFERENTIAL= --cases 10000 --seed 1
differential: all
	@$(SETUP) bench
	@bench/setup
	@$(HERE) LUA="$(LUA)" "$${PYTHON:-build/venv/bin/python}" bench/differential.py $(DIFFERENTIAL)

.PHONY: all lib core modules objects install rock clean spec programs anew asan fuzz fuzzed basic \
  bare sealed clang valgrind overflow sweep tsan threads strict neon neon-run neon-runs lint installed demo repl env test \
  check bench bench-cuda bench-quick bench-memory bench-results differential cuda cuda-all nvcc ledger \
  ledger-all kernels bytes counted gpu emulated emulated-asan emulated-race orders
.SECONDARY:
-include $(shell find $(sort $(B) $(O)) -name '*.d' 2>/dev/null)
