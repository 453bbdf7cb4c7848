msprobe_fuzzer(accuracy analysis/accuracy accuracy_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/accuracy"
               READER analysis/accuracy/check/frames.cpp analysis/accuracy/common/details_file.cpp analysis/accuracy/check/arguments.cpp
                      analysis/accuracy/check/generator.cpp analysis/accuracy/check/tensor_record.cpp)
