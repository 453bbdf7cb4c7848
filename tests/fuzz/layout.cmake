msprobe_fuzzer(layout layout layout_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/layout"
               READER layout/layout_file.cpp)
