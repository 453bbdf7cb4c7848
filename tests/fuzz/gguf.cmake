msprobe_fuzzer(gguf io gguf_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/gguf" READER io/gguf/*.cpp)
