msprobe_fuzzer(config json config_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/config")
