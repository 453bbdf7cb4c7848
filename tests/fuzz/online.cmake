msprobe_fuzzer(online online online_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/online"
               READER online/frame.cpp online/folder_names.cpp)
