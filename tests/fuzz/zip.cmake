msprobe_fuzzer(zip io zip_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/data/formats/pt" "${CMAKE_SOURCE_DIR}/tests/data/formats/bad"
               READER io/zip.cpp io/pt_zip.cpp io/npz.cpp)
