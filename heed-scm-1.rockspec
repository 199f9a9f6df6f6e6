rockspec_format = "3.0"
package = "heed"
version = "scm-1"

source = {
  url = "git+file://.",    -- `luarocks make` builds the tree it stands in
}

description = {
  summary = "Attention and transformers for Lua",
  detailed = [[
    Tensors as userdata, automatic differentiation, and attention that is fused, masked,
    positioned and differentiable, so that a transformer is a page of Lua.]],
  license = "MIT",
}

dependencies = {
  "lua >= 5.4",
}

build = {
  type = "make",
  build_variables = {CFLAGS = "$(CFLAGS) -O3", LUA_INCDIR = "$(LUA_INCDIR)"},
  install_variables = {PREFIX = "$(PREFIX)", LUADIR = "$(LUADIR)", LIBDIR = "$(LIBDIR)"},
}

test = {
  type = "command",
  command = "make test",
}
