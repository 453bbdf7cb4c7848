msprobe_fuzzer(kernel_dump io kernel_dump_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/kernel_dump"
               READER io/kernel_dump/*.cpp io/protobuf_fields.cpp)
msprobe_fuzzer(code_mapping analysis/kernel_dump code_mapping_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/code_mapping"
               READER analysis/kernel_dump/ir_file.cpp analysis/kernel_dump/scope_finder.cpp)
msprobe_fuzzer(kernel_compare analysis/compare kernel_compare_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/kernel_compare"
               READER analysis/compare/folders/*.cpp
                      analysis/compare/tensor_folder.cpp analysis/kernel_dump/vector_*.cpp analysis/kernel_dump/origin_finder.cpp analysis/kernel_dump/thread_slices.cpp)
msprobe_fuzzer(fusion_rules analysis/kernel_dump fusion_rules_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/fusion_rules"
               READER analysis/kernel_dump/fusion_rules.cpp)
msprobe_fuzzer(torchair analysis/compare torchair_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/torchair"
               READER analysis/compare/folders/torchair.cpp)
