msprobe_fuzzer(unstable_calls analysis/inspect unstable_calls_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/unstable_calls"
               READER analysis/inspect/unstable_calls.cpp)
