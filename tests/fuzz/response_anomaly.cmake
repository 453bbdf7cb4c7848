msprobe_fuzzer(response_anomaly analysis/response_anomaly response_anomaly_fuzz.cpp CORPUS
               "${CMAKE_CURRENT_SOURCE_DIR}/corpus/response_anomaly"
               READER analysis/response_anomaly/request.cpp analysis/response_anomaly/limits_file.cpp analysis/response_anomaly/judge.cpp)
