msprobe_fuzzer(monitor monitor monitor_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/monitor"
               READER monitor/settings*.cpp monitor/output_folder.cpp monitor/watched_names.cpp)
