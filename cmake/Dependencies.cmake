# Third-party libraries, each as one imported target msprobe_dep::<name>. Reasons: docs/design/dependencies.md.
find_package(Threads REQUIRED)

# A target from a header and (optionally) a library; the static archive is preferred while MSPROBE_STATIC is on.
function(msprobe_dependency name header)
  add_library(msprobe_dep_${name} INTERFACE)
  add_library(msprobe_dep::${name} ALIAS msprobe_dep_${name})
  find_path(MSPROBE_${name}_INCLUDE ${header} REQUIRED)
  target_include_directories(msprobe_dep_${name} SYSTEM INTERFACE "${MSPROBE_${name}_INCLUDE}")
  foreach(library IN LISTS ARGN)
    if(MSPROBE_STATIC)
      find_library(MSPROBE_${library}_LIBRARY NAMES lib${library}.a ${library} REQUIRED)
    else()
      find_library(MSPROBE_${library}_LIBRARY NAMES ${library} REQUIRED)
    endif()
    target_link_libraries(msprobe_dep_${name} INTERFACE "${MSPROBE_${library}_LIBRARY}")
  endforeach()
endfunction()

msprobe_dependency(cli11 CLI/CLI.hpp)
msprobe_dependency(rapidjson rapidjson/reader.h)
msprobe_dependency(nlohmann_json nlohmann/json.hpp)
msprobe_dependency(highway hwy/highway.h)
msprobe_dependency(fmt fmt/format.h)
msprobe_dependency(spdlog spdlog/spdlog.h)
msprobe_dependency(zlib zlib.h z)
msprobe_dependency(libdeflate libdeflate.h deflate)
msprobe_dependency(expat expat.h expat)
msprobe_dependency(yaml_cpp yaml-cpp/yaml.h yaml-cpp)
msprobe_dependency(tomlplusplus toml++/toml.h)
msprobe_dependency(xxhash xxhash.h)
msprobe_dependency(pcre2 pcre2.h pcre2-8)
msprobe_dependency(sqlite sqlite3.h sqlite3)
# The parts without TLS.
msprobe_dependency(libevent event2/http.h event_extra event_core)

# Declarations alone: the library is opened while running. Debian keeps its configuration in the architecture's own folder.
msprobe_dependency(openssl openssl/ssl.h)
find_path(MSPROBE_openssl_CONFIGURATION openssl/opensslconf.h REQUIRED)
target_include_directories(msprobe_dep_openssl SYSTEM INTERFACE "${MSPROBE_openssl_CONFIGURATION}")

# Debian ships no archive of fmt and spdlog. Functions of fmt that are not templates are compiled here, once; spdlog, which one file
# includes, stays header-only. Both ways the binary is self-contained.
add_library(msprobe_fmt STATIC "${CMAKE_SOURCE_DIR}/cmake/fmt_library.cpp")
target_link_libraries(msprobe_dep_fmt INTERFACE msprobe_fmt)
target_compile_definitions(msprobe_dep_spdlog INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
target_link_libraries(msprobe_dep_spdlog INTERFACE msprobe_dep::fmt Threads::Threads)

# Debian's archive calls libm; extensions, for which it would load libraries, are never switched on.
target_link_libraries(msprobe_dep_sqlite INTERFACE m ${CMAKE_DL_LIBS} Threads::Threads)

if(MSPROBE_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
if(MSPROBE_BENCHMARKS)
  find_package(benchmark CONFIG REQUIRED)
endif()
