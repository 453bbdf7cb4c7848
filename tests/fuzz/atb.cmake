msprobe_fuzzer(atb io atb_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/atb")
