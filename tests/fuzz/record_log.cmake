msprobe_fuzzer(record_log dump record_log_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/capture/interrupted"
               READER dump/record_log.cpp dump/dump_json_writer.cpp)
