msprobe_fuzzer(json json json_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/json")
