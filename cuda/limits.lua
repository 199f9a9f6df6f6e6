-- The most that compiled kernels may take, and the least width of their accesses: `make ledger`
-- holds them to it (spec/ledger.lua), for all architectures alike, but for what a row has 'on' one
-- of them. They were taken for 9.0a; of all attention, blocks and float32 products for 8.0, 8.6,
-- 8.9, 10.0 and 12.0, too.
--
-- A row is for the kernels of a family, all or those of "mixed" or "double" types; the first row
-- that fits holds. Where there is no row, or a row has no number: 255 registers, no spill (in
-- bytes), 49152 bytes of static shared memory; and but for "mixed" and "double", no 64-bit float in
-- a loop over memory ('double'). 'steps' are instructions for each 16 bytes of the loop with the
-- widest accesses, 'width' is their bytes.

-- Loads ahead of the sums, more than for others.
local PREPARED <const> = {["100"] = {registers = 136}, ["120"] = {registers = 128}}

return {
  ["attention/attention"] = {
    {"attend_rows", "double", registers = 136},
    {"attend_rows", registers = 136},
    {"attend_weights", "double", registers = 104},
    {"attend_weights", registers = 136, double = 3},     -- numbers that are converted
  },
  ["attention/attention_back"] = {
    {"add_bands", "double", registers = 40},
    {"add_bands", registers = 40},
    {"attend_back_diagonals", "double", registers = 128},
    {"attend_back_diagonals", registers = 136},
    {"attend_back_keys", "double", registers = 128},
    {"attend_back_keys", registers = 208},
    {"attend_back_rows", "double", registers = 136},
    {"attend_back_rows", registers = 136},
    {"prepare_rows", "double", registers = 80, on = PREPARED},
    {"prepare_rows", registers = 80, on = PREPARED},
  },
  ["attention/fast_back_bfloat16"] = {
    {"add_bands", registers = 40},
    {"back_tiles", registers = 255},
    {"sum_diagonals", registers = 232},
  },
  ["attention/fast_back_float16"] = {
    {"add_bands", registers = 40},
    {"back_tiles", registers = 255},
    {"sum_diagonals", registers = 232},
  },
  ["attention/few"] = {
    {"attend_part", "double", registers = 248},
    {"attend_part", registers = 248,                     -- spills of four rows of a warp
     on = {["100"] = {registers = 252}, ["120"] = {registers = 253, spill = 4}}},
    {"join_parts", "double", registers = 48},
    {"join_parts", registers = 48},
  },
  ["attention/attention_mask"] = {
    {"find_bad_length", registers = 40},
    {"find_ids", registers = 40},
  },
  ["blocks/blocks"] = {
    {"multiply_few", registers = 128, steps = 85, width = 16},     -- on 12.0; 40 on 9.0a
    {"unpack", registers = 64},
  },
  ["copy/copy"] = {
    {"convert_rows", "double", registers = 48},
    {"convert_rows", registers = 48},
    {"fill_rows", registers = 40, steps = 200, width = 1},
    {"move_rows", registers = 48},
    {"move_squares", registers = 56, steps = 295, width = 1},
  },
  ["device/device"] = {
    {"seal", registers = 16},
  },
  ["device/plugin"] = {
    {"is_there", registers = 8},
  },
  ["index/gather"] = {
    {"gather", registers = 56, width = 8},
    {"report_first", registers = 24},
  },
  ["index/nonzero"] = {
    {"count_tiles", registers = 40},
    {"put_tiles", registers = 40, steps = 135, width = 8},
    {"sum_before", registers = 40, steps = 375, width = 8},
  },
  ["index/scatter"] = {
    {"add_distinct", "double", registers = 56, width = 8},
    {"add_distinct", registers = 56, width = 8},
    {"make_keys", registers = 56, width = 8},
    {"report_first", registers = 24},
    {"set_distinct", registers = 64, width = 8},
    {"set_last", registers = 56, width = 8},
    {"sum_windows", "double", registers = 80, steps = 320, width = 8},
    {"sum_windows", registers = 80, width = 8},
  },
  ["index/sort"] = {
    {"count_digits", registers = 40, steps = 35, width = 4},
    {"make_keys", registers = 48, steps = 25, width = 4},
    {"put_rows", registers = 48},
    {"scatter_digits", registers = 72, steps = 45, width = 4},
    {"sort_sheets", registers = 56, steps = 180, width = 4},
    {"sum_before", registers = 40, width = 4},
  },
  ["optimize/clip"] = {
    {"scale_chunks", registers = 72, double = 18, steps = 5, width = 16},
    {"sum_chunks", registers = 72, double = 53, steps = 10, width = 16},
    {"sum_up", registers = 32, double = 18, steps = 10, width = 8},
  },
  ["optimize/optimize"] = {
    {"step_lines", registers = 88, spill = 8, steps = 30, width = 8},
  },
  ["product/float"] = {
    {"multiply_float", registers = 128, spill = 4, steps = 50, width = 16},  -- on 8.0, 8.6, 8.9
  },
  ["product/matmul"] = {
    {"multiply", "mixed", registers = 96},
    {"multiply", "double", registers = 80, steps = 40, width = 8},
    {"multiply", registers = 96, double = 2, steps = 185, width = 2},
  },
  ["random/random"] = {
    {"bools", registers = 80},
    {"dropout", registers = 56},
    {"integers", registers = 80},
    {"normal_double", "double", registers = 72},
    {"normal_float", registers = 72},
    {"probabilities", registers = 48},
    {"put_order", registers = 48},
    {"random_keys", registers = 56, steps = 90, width = 8},
    {"uniform_double", "double", registers = 72},
    {"uniform_float", registers = 72},
  },
  ["rows/loss"] = {
    {"loss_back_rows", "mixed", registers = 96},
    {"loss_back_rows", "double", registers = 104},
    {"loss_back_rows", registers = 56},
    {"loss_rows", "mixed", registers = 64},
    {"loss_rows", "double", registers = 64, steps = 225, width = 16},
    {"loss_rows", registers = 56, steps = 175, width = 16},
  },
  ["rows/norm"] = {
    {"norm_back_parts", "double", registers = 32, steps = 35, width = 8},
    {"norm_back_parts", registers = 32, double = 3, steps = 70, width = 4},
    {"norm_back_rows", "mixed", registers = 104, steps = 25, width = 4},
    {"norm_back_rows", "double", registers = 112, steps = 10, width = 16},
    {"norm_back_rows", registers = 96, double = 5, steps = 20, width = 16},
    {"norm_rows", "mixed", registers = 64},
    {"norm_rows", "double", registers = 64, steps = 15, width = 16},
    {"norm_rows", registers = 56, double = 18, steps = 45, width = 16},
  },
  ["rows/reduce_extreme"] = {
    {"reduce_parts", "double", registers = 40, steps = 40, width = 4},
    {"reduce_parts", registers = 48, steps = 45, width = 4},
    {"reduce_rows", "double", registers = 64, width = 16},
    {"reduce_rows", registers = 64, width = 8},
  },
  ["rows/reduce_float"] = {
    {"reduce_parts", "double", registers = 40, steps = 95, width = 8},
    {"reduce_parts", registers = 40, steps = 60, width = 4},
    {"reduce_rows", "mixed", registers = 72},
    {"reduce_rows", "double", registers = 72, width = 16},
    {"reduce_rows", registers = 72, width = 16},
  },
  ["rows/rotate"] = {
    {"rotate_rows", "double", registers = 96, steps = 10, width = 16},
    {"rotate_rows", registers = 80, steps = 30, width = 16},
  },
  ["rows/scan"] = {
    {"reduce_parts", "mixed", registers = 56},
    {"reduce_parts", "double", registers = 48, steps = 15, width = 16},
    {"reduce_parts", registers = 56, double = 18, steps = 45, width = 16},
    {"scan_rows", "mixed", registers = 64},
    {"scan_rows", "double", registers = 64, steps = 200, width = 16},
    {"scan_rows", registers = 72, double = 73, steps = 265, width = 16},
  },
  ["rows/reduce_sum"] = {
    {"reduce_parts", "double", registers = 40, steps = 20, width = 8},
    {"reduce_parts", registers = 48, double = 2, steps = 30, width = 8},
    {"reduce_rows", "mixed", registers = 64},
    {"reduce_rows", "double", registers = 64, width = 16},
    {"reduce_rows", registers = 64, double = 18, width = 8},
  },
  ["rows/softmax"] = {
    {"softmax_rows", "mixed", registers = 80},
    {"softmax_rows", "double", registers = 88, steps = 70, width = 16},
    {"softmax_rows", registers = 56, double = 9, steps = 90, width = 16},
  },
  ["vector/derivative_double"] = {
    {"run_row", "double", registers = 64},
  },
  ["vector/derivative_float"] = {
    {"run_row", registers = 64},
  },
  ["vector/map_double"] = {
    {"run_row", "double", registers = 56},
  },
  ["vector/map_float"] = {
    {"run_row", registers = 56},
  },
  ["vector/map_integer"] = {
    {"run_row", registers = 56},
  },
}
