msprobe_fuzzer(signs analysis/grad signs_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/signs"
               READER analysis/grad/sign_file.cpp)
