std = "lua54"
max_line_length = 100
exclude_files = {"spec/golden", "lua/heed/meta.lua"}

files["spec"].std = "+busted"
files["*.rockspec"].std = "rockspec"
