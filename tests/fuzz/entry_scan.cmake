msprobe_fuzzer(entry_scan analysis/nan entry_scan_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/json")
