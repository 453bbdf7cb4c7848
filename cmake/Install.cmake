# What `cmake --install` puts where, beside the program and its library: headers, documents, licences. The packages are made of
# the same files (cmake/Packages.cmake).
include(GNUInstallDirs)

# For other languages: the C interface. -I PREFIX/include -L PREFIX/lib/msprobe -lmsprobe_capture
install(FILES include/msprobe/capture.h include/msprobe/monitor.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/msprobe")

install(FILES README.md README.zh.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Licences of what is linked in ask for their texts; ours comes first. Debian keeps them beside its packages.
set(MSPROBE_COPYRIGHT "${CMAKE_BINARY_DIR}/copyright")
execute_process(COMMAND "${CMAKE_SOURCE_DIR}/tools/dev/copyright.sh" OUTPUT_FILE "${MSPROBE_COPYRIGHT}" RESULT_VARIABLE failed)
if(failed)
  message(WARNING "The licences of the libraries are incomplete: what is installed from here should not be passed on")
endif()
install(FILES "${MSPROBE_COPYRIGHT}" LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
