# Cross-compiling for aarch64 Linux with Debian's g++-aarch64-linux-gnu; programs run under qemu-aarch64, with the C library of a
# Debian for arm64 in build-aarch64-root. QEMU_CPU in the environment chooses the processor, e.g. cortex-a72; all features otherwise.
# The libraries we link (static archives of Debian's arm64 packages) lie in build-aarch64-libraries, where
# tools/dev/fetch_aarch64_libraries.sh puts them, and that root: installing those packages would push the native ones of the same name off the system.
# Header-only libraries come from /usr/include, which Debian's cross compiler searches by itself, after the target's own headers.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
get_filename_component(_root "${CMAKE_CURRENT_LIST_DIR}/../build-aarch64-root" ABSOLUTE)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L "${_root}")

get_filename_component(_libraries "${CMAKE_CURRENT_LIST_DIR}/../build-aarch64-libraries" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${_libraries}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
