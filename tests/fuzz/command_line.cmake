msprobe_fuzzer(command_line commands command_line_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/command_line"
               READER commands/flag_parser.cpp commands/flag.cpp)
