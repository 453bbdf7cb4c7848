# What `cmake --install` puts where, beside the program and its library: headers, manual pages, documents, licences. The packages are made of
# the same files (cmake/Packages.cmake).
include(GNUInstallDirs)

# For other languages: the C interface. -I PREFIX/include -L PREFIX/lib/msprobe -lmsprobe_capture
install(FILES include/msprobe/capture.h include/msprobe/monitor.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/msprobe")

# An emulator runs the program of another architecture.
set(MSPROBE_RUN ${CMAKE_CROSSCOMPILING_EMULATOR} "$<TARGET_FILE:msprobe>")
configure_file(cmake/install_manual.cmake.in "${CMAKE_BINARY_DIR}/install_manual.cmake.in" @ONLY)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/install_manual.cmake" INPUT "${CMAKE_BINARY_DIR}/install_manual.cmake.in")
install(SCRIPT "${CMAKE_BINARY_DIR}/install_manual.cmake")

install(FILES README.md README.zh.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# Whoever ran the examples may have left compiled files beside them.
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" PATTERN "__pycache__" EXCLUDE)

# Licences of what is linked in ask for their texts; ours comes first. Debian keeps them beside its packages.
set(MSPROBE_COPYRIGHT "${CMAKE_BINARY_DIR}/copyright")
execute_process(COMMAND "${CMAKE_SOURCE_DIR}/tools/dev/copyright.sh" OUTPUT_FILE "${MSPROBE_COPYRIGHT}" RESULT_VARIABLE failed)
if(failed)
  message(WARNING "The licences of the libraries are incomplete: what is installed from here should not be passed on")
endif()
install(FILES "${MSPROBE_COPYRIGHT}" LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
