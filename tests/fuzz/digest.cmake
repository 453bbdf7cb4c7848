msprobe_fuzzer(digest digest digest_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/digest"
               READER digest/file.cpp digest/join.cpp)
