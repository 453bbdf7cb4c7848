msprobe_fuzzer(isolate analysis/isolate isolate_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/isolate"
               READER analysis/isolate/run.cpp)
