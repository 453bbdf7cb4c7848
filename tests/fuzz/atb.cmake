msprobe_fuzzer(atb io atb_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/atb"
               READER io/atb.cpp)
