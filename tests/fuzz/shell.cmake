msprobe_fuzzer(shell analysis/config_check shell_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/shell"
               "${CMAKE_SOURCE_DIR}/tests/data/config_check/dump_inputs"
               READER analysis/config_check/shell_*.cpp analysis/config_check/launch_*.cpp)
