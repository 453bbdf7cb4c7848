msprobe_fuzzer(pack analysis/config_check pack_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/pack"
               READER analysis/config_check/pack.cpp analysis/config_check/*_check.cpp
                      analysis/config_check/step_files.cpp analysis/config_check/values.cpp)
msprobe_fuzzer(printed_config analysis/config_check printed_config_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/printed_config"
               READER analysis/config_check/printed_config.cpp analysis/config_check/literal_lines.cpp)
msprobe_fuzzer(metadata analysis/config_check metadata_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/metadata"
               READER analysis/config_check/packages.cpp analysis/config_check/versions.cpp)
