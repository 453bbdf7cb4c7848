# Read by cpack for each kind of package: what is in it, and below which folder.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 _build)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${_build}" msprobe debian /)
elseif(CPACK_GENERATOR STREQUAL External)
  set(CPACK_MONOLITHIC_INSTALL ON)
endif()
