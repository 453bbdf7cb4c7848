msprobe_fuzzer(profile_database profile profile_database_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_database"
               READER profile/ascend_database/*.cpp database/sqlite_file.cpp)
msprobe_fuzzer(profile_tables profile profile_tables_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/profile_tables"
               READER profile/ascend_text/csv_files.cpp profile/ascend_text/json_files.cpp)
msprobe_fuzzer(time_text profile time_text_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/time_text"
               READER profile/common/time_text.cpp)
