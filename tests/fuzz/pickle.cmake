msprobe_fuzzer(pickle io pickle_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/pickle" "${CMAKE_SOURCE_DIR}/tests/data/formats/pt"
               "${CMAKE_SOURCE_DIR}/tests/data/formats/bad"
               READER io/pickle_*.cpp io/torch_rebuild.cpp)
