msprobe_fuzzer(mapping_rules analysis/ckpt mapping_rules_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/mapping_rules"
               READER analysis/ckpt/mapping_rules.cpp analysis/ckpt/mapping_pattern.cpp)
