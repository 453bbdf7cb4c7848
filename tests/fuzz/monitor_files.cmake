msprobe_fuzzer(monitor_table analysis/monitor monitor_table_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/monitor_table")
msprobe_fuzzer(anomalies analysis/monitor anomalies_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/anomalies")
