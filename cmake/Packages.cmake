# What `cpack` makes of an installation (cmake/Install.cmake): an archive to unpack anywhere, a Debian package, and a wheel for
# every CPython. tools/dev/package.sh makes and tries all of them.

# What the extension is compiled for: 0x03080000 is Python 3.8.
file(STRINGS tools/python/native/python_api.h limited_api REGEX "define Py_LIMITED_API")
string(REGEX MATCH "0x0([0-9])([0-9a-f][0-9a-f])0000" limited_api "${limited_api}")
math(EXPR minor "0x${CMAKE_MATCH_2}")
set(MSPROBE_OLDEST_PYTHON "${CMAKE_MATCH_1}.${minor}")

set(CPACK_GENERATOR TGZ DEB External)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_VENDOR msprobe)
set(CPACK_PACKAGE_CONTACT "The developers of msprobe <msprobe@users.noreply.invalid>")
set(CPACK_PACKAGE_FILE_NAME "msprobe-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/cmake/package_kinds.cmake")

# ---- .deb ----
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${MSPROBE_OLDEST_GLIBC})")
# `import msprobe`; trend stores of the monitor in SQLite's format, written from inside a training.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, libsqlite3-0")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/cmake/debian/prerm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Compares what two runs of a model computed (dumps, checkpoints,
configurations, profiles), names the first call whose numbers part, follows
a training's statistics, and records all of it without harming the
training: on Ascend NPUs, GPUs and CPUs.")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")

# What only the .deb has; not part of `cmake --install`.
set(debian "${CMAKE_BINARY_DIR}/debian")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT "${debian}/changelog" @ONLY CONTENT
"msprobe (@PROJECT_VERSION@) unstable; urgency=medium

  * Version @PROJECT_VERSION@.

 -- @CPACK_PACKAGE_CONTACT@  @date@
")
execute_process(COMMAND gzip --best --no-name --force --keep "${debian}/changelog")
install(FILES "${debian}/changelog.gz" DESTINATION share/doc/msprobe COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES cmake/debian/lintian-overrides DESTINATION share/lintian/overrides RENAME msprobe COMPONENT debian EXCLUDE_FROM_ALL)
# So that Debian's python3 finds the package, and its zsh the completion.
install(CODE [[
  set(completions "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/zsh/vendor-completions")
  file(MAKE_DIRECTORY "${completions}")
  file(CREATE_LINK ../site-functions/_msprobe "${completions}/_msprobe" SYMBOLIC)
  set(modules "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/python3/dist-packages")
  file(MAKE_DIRECTORY "${modules}")
  file(CREATE_LINK ../../msprobe/python/msprobe "${modules}/msprobe" SYMBOLIC)
]] COMPONENT debian EXCLUDE_FROM_ALL)

# ---- wheel ----
set(CPACK_EXTERNAL_ENABLE_STAGING ON)
set(CPACK_EXTERNAL_PACKAGE_SCRIPT "${CMAKE_SOURCE_DIR}/cmake/make_wheel.cmake")
set(CPACK_MSPROBE_OLDEST_PYTHON "${MSPROBE_OLDEST_PYTHON}")

include(CPack)
