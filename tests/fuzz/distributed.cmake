msprobe_fuzzer(distributed checkpoint distributed_fuzz.cpp CORPUS "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/distributed"
               READER checkpoint/distributed/metadata.cpp)
