msprobe_fuzzer(megatron checkpoint megatron_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/megatron"
               READER checkpoint/megatron/*.cpp)
msprobe_fuzzer(checkpoint checkpoint checkpoint_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/checkpoint"
               READER checkpoint/hugging_face/reader.cpp checkpoint/deepspeed/reader.cpp checkpoint/common/state_dict.cpp checkpoint/common/optimizer_numbers.cpp)
msprobe_fuzzer(chunks checkpoint chunks_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/chunks"
               READER checkpoint/distributed/reader.cpp checkpoint/parameter.cpp)
