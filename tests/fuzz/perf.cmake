msprobe_fuzzer(perf_inputs analysis/perf perf_inputs_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/perf_inputs"
               READER analysis/perf/perf.cpp analysis/perf/name_map.cpp)
msprobe_fuzzer(perf_pair analysis/perf perf_pair_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/perf_pair"
               READER analysis/perf/*.cpp)
