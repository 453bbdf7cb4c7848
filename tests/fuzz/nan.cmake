msprobe_fuzzer(rank_dump analysis/nonfinite rank_dump_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/rank_dump"
               READER analysis/nonfinite/rank_dump.cpp analysis/nonfinite/search.cpp dump/communication.cpp)
