msprobe_fuzzer(snapshot analysis/memory snapshot_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/snapshot"
               READER analysis/memory/snapshot.cpp)
