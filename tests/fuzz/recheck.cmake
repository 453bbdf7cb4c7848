msprobe_fuzzer(recheck analysis/recheck recheck_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/recheck"
               READER "analysis/recheck/*.cpp" "analysis/recheck/operators/*.cpp" "analysis/recheck/arithmetic/*.cpp")
