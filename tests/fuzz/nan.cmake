msprobe_fuzzer(rank_dump analysis/nan rank_dump_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/rank_dump"
               READER analysis/nan/rank_dump.cpp analysis/nan/levels.cpp analysis/nan/communication.cpp)
