msprobe_fuzzer(capture_settings capture capture_settings_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/capture_settings"
               READER capture/settings*.cpp capture/filters.cpp capture/free_benchmark_settings.cpp)
msprobe_fuzzer(name_pattern capture name_pattern_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/name_pattern"
               READER capture/name_pattern.cpp)
msprobe_fuzzer(other_run capture other_run_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/other_run"
               READER capture/run_identity.cpp dump/record_log.cpp)
