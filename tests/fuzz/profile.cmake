msprobe_fuzzer(profile_csv profile profile_csv_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_csv")
msprobe_fuzzer(profile_trace profile profile_trace_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_trace")
