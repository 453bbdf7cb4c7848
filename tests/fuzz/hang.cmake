msprobe_fuzzer(hang analysis/hang hang_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/hang" "${CMAKE_SOURCE_DIR}/docs/example/hang"
               READER analysis/hang/recordings.cpp analysis/hang/hang.cpp)
