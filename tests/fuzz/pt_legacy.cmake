msprobe_fuzzer(pt_legacy io pt_legacy_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/pt_legacy"
               READER io/pt_legacy.cpp io/tensor_file.cpp)
