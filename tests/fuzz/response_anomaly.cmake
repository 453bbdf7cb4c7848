msprobe_fuzzer(response_anomaly analysis/response_anomaly response_anomaly_fuzz.cpp CORPUS
               "${CMAKE_CURRENT_SOURCE_DIR}/corpus/response_anomaly")
