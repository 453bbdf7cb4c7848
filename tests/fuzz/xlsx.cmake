msprobe_fuzzer(xlsx report xlsx_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/xlsx")
