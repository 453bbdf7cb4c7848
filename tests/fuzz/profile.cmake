msprobe_fuzzer(profile_csv profile profile_csv_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_csv"
               READER profile/ascend_text/csv_rows.cpp)
msprobe_fuzzer(profile_trace profile profile_trace_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_trace"
               READER profile/common/trace_events.cpp profile/common/event_runs.cpp profile/common/event_repair.cpp
                      profile/pytorch_trace/*.cpp profile/ascend_text/trace.cpp)
