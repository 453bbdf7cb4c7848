msprobe_fuzzer(json json json_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/json"
               READER json/stream_reader.cpp json/plain_walk.h)
