msprobe_fuzzer(record_log dump record_log_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/capture/interrupted")
