msprobe_fuzzer(compare_side analysis/compare compare_side_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/compare_side"
               READER analysis/compare/side.cpp)
msprobe_fuzzer(row_mapping analysis/compare row_mapping_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/row_mapping"
               READER analysis/compare/*mapping.cpp)
msprobe_fuzzer(merge analysis/compare merge_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/merge"
               READER analysis/compare/merge/input.cpp)
