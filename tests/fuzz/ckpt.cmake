msprobe_fuzzer(mapping_rules naming mapping_rules_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/mapping_rules"
               READER naming/rules.cpp)
