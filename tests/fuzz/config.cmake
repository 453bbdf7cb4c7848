msprobe_fuzzer(config json config_fuzz.cpp CORPUS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/config"
               READER json/config*.cpp json/strict_json.cpp json/yaml_scalar.cpp)
