# Warnings for our own code; third-party headers come in as SYSTEM and are silent.
add_library(msprobe_warnings INTERFACE)
target_compile_options(msprobe_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Part of clang's -Wconversion, but not of g++'s: signs of indices and sizes are not information here.
  # clang 14 takes a `this` that a generic lambda calls an overloaded function with for unused.
  target_compile_options(msprobe_warnings INTERFACE -Wno-sign-conversion -Wno-unused-lambda-capture)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 takes ordinary joins of std::string for overlapping copies (GCC bug 105651), and a moved std::variant for uninitialised.
  target_compile_options(msprobe_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(MSPROBE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ is silent about anonymous types in the file it is given, and takes one that a unity file includes for a header.
  target_compile_options(msprobe_warnings INTERFACE -Wno-subobject-linkage)
endif()
if(MSPROBE_WERROR)
  target_compile_options(msprobe_warnings INTERFACE -Werror)
endif()
