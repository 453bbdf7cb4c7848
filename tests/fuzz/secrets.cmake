msprobe_fuzzer(secrets base secrets_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/secrets" READER base/secret*.cpp)
