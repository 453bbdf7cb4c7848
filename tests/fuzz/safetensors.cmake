msprobe_fuzzer(safetensors io safetensors_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/formats/safetensors"
               "${CMAKE_SOURCE_DIR}/tests/data/formats/bad"
               "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/safetensors"
               READER io/safetensors.cpp io/safetensors_shards.cpp)
