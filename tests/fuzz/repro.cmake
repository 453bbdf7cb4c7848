msprobe_fuzzer(repro analysis/repro repro_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/recheck" "${CMAKE_CURRENT_SOURCE_DIR}/corpus/repro"
               READER "analysis/repro/*.cpp")
