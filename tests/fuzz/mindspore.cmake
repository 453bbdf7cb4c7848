msprobe_fuzzer(mindspore io mindspore_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/formats/mindspore"
               READER io/mindspore.cpp)
