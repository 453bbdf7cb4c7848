msprobe_fuzzer(entry_scan analysis/nonfinite entry_scan_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/json"
               READER dump/entry_scan.cpp dump/value_skip.cpp analysis/nonfinite/rank_dump.cpp)
