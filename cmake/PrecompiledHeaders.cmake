# The headers that most files include, parsed once for the whole program: without a compiler cache they are a large part of a
# build. A target takes part by msprobe_precompile(<target>); its compile options must be those of
# the whole program.
if(MSPROBE_PRECOMPILE)
  file(WRITE "${CMAKE_BINARY_DIR}/generated/precompiled.cpp" "")
  add_library(msprobe_precompiled STATIC "${CMAKE_BINARY_DIR}/generated/precompiled.cpp")
  target_link_libraries(msprobe_precompiled PRIVATE msprobe_warnings msprobe_dep::fmt)
  target_include_directories(msprobe_precompiled PRIVATE "${CMAKE_SOURCE_DIR}/include")
  target_precompile_headers(msprobe_precompiled PRIVATE
    <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view>
    <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
endif()

function(msprobe_precompile target)
  if(MSPROBE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM msprobe_precompiled)
  endif()
endfunction()
