msprobe_fuzzer(monitor monitor monitor_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/monitor")
