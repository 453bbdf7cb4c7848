msprobe_fuzzer(recheck analysis/recheck recheck_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/recheck"
               READER "analysis/recheck/*.cpp" "reference/*.cpp" "reference/operators/*.cpp" "reference/arithmetic/*.cpp")
