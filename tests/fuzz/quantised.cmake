msprobe_fuzzer(quantised checkpoint quantised_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/quantised"
               READER checkpoint/quantised/*.cpp checkpoint/adapter/*.cpp io/coded/*.cpp)
