msprobe_fuzzer(csv base csv_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/csv" "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_csv"
               "${CMAKE_CURRENT_SOURCE_DIR}/corpus/monitor_table"
               READER base/csv_tokenizer.cpp)
