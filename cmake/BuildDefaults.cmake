# What every target shares: language level, build type, output folders, compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# As on x86-64: a byte of text is the same number everywhere, and a product is rounded before it is added. The baseline of x86-64 has
# no instruction that does both at once, that of others has, and g++ takes it unasked.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  add_compile_options(-fsigned-char -ffp-contract=off)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

# Loops over elements are compiled with -O3 (src/kernels); elsewhere it makes no command faster and costs compile time.
string(REPLACE "-O3" "-O2" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(MSPROBE_CCACHE ccache)
if(MSPROBE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MSPROBE_CCACHE}")
endif()

# Sources of a component are compiled several at a time, as the headers they share cost more than they do: a third of the time
# (docs/performance.md). Names in a component are unique therefore, in anonymous namespaces too. Off in the preset dev, where a file that
# was edited is compiled alone, and where every file has to stand on what it includes.
option(MSPROBE_UNITY "Compile several sources of a component at a time" ON)
set(MSPROBE_UNITY_SIZE 24 CACHE STRING "Sources compiled at a time")

function(msprobe_compile_together target)
  if(MSPROBE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MSPROBE_UNITY_SIZE})
  endif()
endfunction()

# A release without the optimisations that take a third of the compiler's time (docs/performance.md).
function(msprobe_compile_quickly target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()
