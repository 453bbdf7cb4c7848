# Run by cpack when msprobe is installed in a folder of its own.
execute_process(
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/../tools/dev/make_wheel.py" --version "${CPACK_PACKAGE_VERSION}"
          --summary "${CPACK_PACKAGE_DESCRIPTION_SUMMARY}" --python "${CPACK_MSPROBE_OLDEST_PYTHON}"
          --output "${CPACK_TOPLEVEL_DIRECTORY}" "${CPACK_TEMPORARY_DIRECTORY}"
  OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(CPACK_EXTERNAL_BUILT_PACKAGES "${wheel}")
