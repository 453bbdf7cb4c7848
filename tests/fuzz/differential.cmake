# Our readers against those of PyTorch and NumPy on the same damaged files.
if(MSPROBE_TESTS)
  add_executable(list_tensors differential/list_tensors.cpp)
  target_link_libraries(list_tensors PRIVATE msprobe_io msprobe_warnings msprobe_dep::nlohmann_json msprobe_dep::zlib)
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " _emulator)
  add_test(NAME fuzz.differential
           COMMAND "${MSPROBE_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/differential/differential.py" "$<TARGET_FILE:list_tensors>" --files 300
                   --emulator "${_emulator}")
endif()
