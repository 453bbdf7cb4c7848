msprobe_fuzzer(replay monitor replay_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/replay"
               READER monitor/replay.cpp)
msprobe_fuzzer(trend_store monitor trend_store_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/trend_store"
               READER monitor/trend_store.cpp)
msprobe_fuzzer(run_follower analysis/monitor run_follower_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/run_follower"
               READER analysis/monitor/top/run_follower.cpp)
