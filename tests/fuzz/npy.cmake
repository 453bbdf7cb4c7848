msprobe_fuzzer(npy io npy_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/formats/npy" "${CMAKE_SOURCE_DIR}/tests/data/formats/bad"
               READER io/npy.cpp)
