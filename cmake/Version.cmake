# include/msprobe/version.h is generated from the project version, so that it is stated once.
configure_file("${CMAKE_SOURCE_DIR}/cmake/version.h.in" "${CMAKE_BINARY_DIR}/generated/msprobe/version.h" @ONLY)
