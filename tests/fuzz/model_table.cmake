msprobe_fuzzer(model_table analysis/response_anomaly model_table_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/model_table"
               READER analysis/response_anomaly/model_table.cpp)
