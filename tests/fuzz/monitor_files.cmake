msprobe_fuzzer(monitor_table analysis/monitor monitor_table_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/monitor_table"
               READER analysis/monitor/common/table_rows.cpp)
msprobe_fuzzer(anomalies analysis/monitor anomalies_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/anomalies"
               READER analysis/monitor/common/anomaly_reader.cpp)
