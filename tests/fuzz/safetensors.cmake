msprobe_fuzzer(safetensors io safetensors_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/formats/safetensors"
               "${CMAKE_SOURCE_DIR}/tests/data/formats/bad"
               READER io/safetensors.cpp)
