std = "lua54"
max_line_length = 100
self = false                        -- methods keep their form, used or not
ignore = {"581"}                    -- "not (x <= y)" is no "x > y" when NaN may come
exclude_files = {"lua/heed/meta.lua"}

files["spec"].std = "+busted"
files["*.rockspec"].std = "rockspec"
