# Makefile for heed
#
#   make demo   make test   make   make lib   make install PREFIX=p   make bench   make clean
#   make asan, tsan, overflow, valgrind, strict, neon, lint: parts of the test, or more of it

# == CHANGE THE SETTINGS BELOW TO SUIT YOUR ENVIRONMENT =====================

CC= gcc
CFLAGS= -O3
LUA= lua5.4
LUA_INCDIR= /usr/include/lua5.4
LUA_LIB= -llua5.4
PREFIX= /usr/local
LUADIR= $(PREFIX)/share/lua/5.4
LIBDIR= $(PREFIX)/lib/lua/5.4
JOBS= $(shell nproc 2>/dev/null || echo 1)
SPEC= spec
Q= @

# == END OF USER SETTINGS -- NO NEED TO CHANGE ANYTHING BELOW THIS LINE =====

# Each kind of build has its folder, so that one never mixes with another.
KIND= release
B= build/$(KIND)

# Neither -march nor -ffast-math: one changes the processors, the other the host's arithmetic.
FLAGS= -std=gnu11 $(CFLAGS) -fwrapv -fno-math-errno -fno-trapping-math -ffp-contract=fast \
  -fvisibility=hidden -fPIC -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Isrc -I$(LUA_INCDIR) $(FLAGS_$(KIND))
FLAGS_strict= -Werror
FLAGS_asan= -DHEED_CACHE=0 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_tsan= -O1 -g -fsanitize=thread
FLAGS_valgrind= -g
LIBS= -lm -lpthread -ldl

SOURCES= $(wildcard src/core/*.c src/cpu/*.c src/op/*.c src/lua/*.c)
EMBED= $(B)/src/lua/lua_half.o $(B)/half.o
OBJECTS= $(filter-out $(EMBED),$(SOURCES:%.c=$(B)/%.o))
CORE= $(filter-out $(B)/src/lua/%,$(OBJECTS))
PROGRAMS= $(patsubst %.c,$(B)/%,$(wildcard spec/c/*.c))
HALF= $(sort $(shell find lua -name '*.lua' ! -name meta.lua))

# How Lua finds the module in this tree, and how a kind of build is run. Leaks are looked for in
# Lua only (%b is the program's name): what a spec starts, gnuplot say, has leaks of its own.
HERE= LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;" \
  LUA_CPATH="$(CURDIR)/$(B)/?.so;;" HEED_BUILD=$(KIND)
START_asan= env LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" \
  UBSAN_OPTIONS=print_stacktrace=1 \
  ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:include_if_exists=$(CURDIR)/$(B)/%b"
START_overflow= env LD_PRELOAD="$$($(CC) -print-file-name=libclang_rt.ubsan_standalone-x86_64.so)"
START_valgrind= valgrind --quiet --keep-debuginfo=yes --error-exitcode=9 --leak-check=full \
  --errors-for-leak-kinds=definite

ifeq ($(MAKELEVEL),0)
MAKEFLAGS+= -j$(JOBS) --no-print-directory
endif

all: $(B)/heed/core.so

$(B)/heed/core.so: $(OBJECTS)
	@mkdir -p $(@D); echo link $@
	$(Q)$(CC) -shared $(FLAGS) $(LDFLAGS) -Wl,-z,nodelete -o $@ $^ $(LIBS)

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D); echo compile $@
	$(Q)$(CC) $(FLAGS) $(SHAPES_$(KIND)) -MMD -MP -c -o $@ $<

# clang alone sees unsigned overflow: looked for in shape arithmetic, where none is meant.
$(B)/src/core/layout.o $(B)/src/core/storage.o $(B)/src/op/%.o: SHAPES_overflow= -O1 -g \
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

# One object, in which only what is public can be seen, so that a host's names are its own.
$(B)/libheed.a: $(OBJECTS) $(EMBED)
	@mkdir -p $(B)/include/op; echo link $@
	$(Q)cp src/heed.h src/lua/heed_lua.h $(B)/include && cp src/op/ops.def $(B)/include/op
	$(Q)$(CC) -r -nostdlib -o $(B)/libheed.o $^
	$(Q)objcopy --localize-hidden $(B)/libheed.o
	$(Q)rm -f $@ && ar rcs $@ $(B)/libheed.o

$(B)/host: examples/host/host.c $(B)/libheed.a
	@echo link $@
	$(Q)$(CC) -O2 -Wall -I$(B)/include -I$(LUA_INCDIR) -o $@ $^ $(LUA_LIB) $(LIBS)

# C programs that test: lua_*.c embed Lua and the whole module, the others the core alone.
$(B)/spec/c/lua_%: $(B)/spec/c/lua_%.o $(OBJECTS) $(EMBED)
	@echo link $@
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LUA_LIB) $(LIBS)

$(B)/spec/c/%: $(B)/spec/c/%.o $(CORE)
	@echo link $@
	$(Q)$(CC) $(FLAGS) -o $@ $^ $(LIBS)

lib: $(B)/libheed.a $(B)/host
core: $(CORE)
objects: $(OBJECTS) $(EMBED) $(PROGRAMS:=.o)

install: all
	mkdir -p "$(DESTDIR)$(LUADIR)" "$(DESTDIR)$(LIBDIR)/heed"
	cp -R lua/heed "$(DESTDIR)$(LUADIR)"
	install -m 755 $(B)/heed/core.so "$(DESTDIR)$(LIBDIR)/heed"

clean:; rm -rf $(filter-out build/venv,$(wildcard build/*))   # PyTorch stays: it is 5 GB

# == CHECKS; `make asan SPEC=spec/x_spec.lua` runs one file =================

spec: all
	@echo detect_leaks=1 >$(B)/$(notdir $(LUA))
	$(HERE) $(START_$(KIND)) $(LUA) $$(command -v busted) $(SPEC)

programs: $(PROGRAMS)
	@failed=0; for p in $^; do echo $$p; $$p || failed=$$((failed + 1)); done; \
	echo "$$(($(words $^) - failed)) passed, $$failed failed"; test $$failed = 0

asan valgrind:; @$(MAKE) spec KIND=$@
overflow:; @$(MAKE) spec KIND=overflow CC=clang
tsan:; @$(MAKE) programs KIND=tsan
strict:; @$(MAKE) objects KIND=strict
neon:; @$(MAKE) core KIND=neon CC=aarch64-linux-gnu-gcc
lint:; luacheck --quiet --no-color lua spec examples bench heed-scm-1.rockspec

# From another folder and another place, as a user has it.
I= $(CURDIR)/build/installed
installed: lib
	@$(MAKE) install PREFIX=$(I)
	cd / && LUA_PATH="$(I)/share/lua/5.4/?.lua;$(I)/share/lua/5.4/?/init.lua" \
	  LUA_CPATH="$(I)/lib/lua/5.4/?.so" $(LUA) -e 'print(require("heed").randn(2, 3))'
	cd / && $(CURDIR)/$(B)/host

# == ALL OF IT, ON A BARE MACHINE ===========================================

SETUP= CC="$(CC)" LUA="$(LUA)" LUA_INCDIR="$(LUA_INCDIR)" .ci/setup

demo:
	@$(SETUP) build
	@$(MAKE) all
	@$(HERE) $(LUA) examples/counting.lua

test:
	@$(SETUP) build test
	@rm -f build/tally
	@.ci/check specs $(MAKE) spec
	@.ci/check asan $(MAKE) asan
	@.ci/check programs $(MAKE) programs KIND=asan
	@.ci/check threads $(MAKE) tsan
	@.ci/check installed $(MAKE) installed
	@.ci/check strict $(MAKE) strict
	@.ci/check lint $(MAKE) lint
	@! command -v aarch64-linux-gnu-gcc >/dev/null || .ci/check neon $(MAKE) neon
	@.ci/check

bench: all
	@$(SETUP) bench
	@bench/setup
	@$(HERE) LUA="$(LUA)" bench/run

.PHONY: all lib core objects install clean spec programs asan valgrind overflow tsan strict neon \
  lint installed demo test bench
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
