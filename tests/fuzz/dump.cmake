msprobe_fuzzer(stack_file dump stack_file_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/stack_file"
               READER dump/stack_file.cpp dump/member_stream.cpp)
msprobe_fuzzer(dump_file dump dump_file_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/dump_file"
               READER dump/dump_file.cpp dump/member_stream.cpp dump/leaves.cpp dump/names.cpp dump/entry_tree.cpp)
