msprobe_fuzzer(hyperparameters analysis/config_check hyperparameters_fuzz.cpp
               CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/hyperparameters" "${CMAKE_SOURCE_DIR}/tests/data/config_check/dump_inputs"
               READER analysis/config_check/hyperparameters.cpp analysis/config_check/flatten_config.cpp)
