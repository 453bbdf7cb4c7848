# How programs and libraries that people copy to other hosts are linked: everything but the C library is in them, and of the C
# library they ask for no symbol newer than MSPROBE_OLDEST_GLIBC (the test package.installs_and_works looks).
set(MSPROBE_OLDEST_GLIBC 2.17)

if(MSPROBE_STATIC AND NOT MSPROBE_SANITIZE)
  set(MSPROBE_RELEASE_LINKING ON)
else()
  set(MSPROBE_RELEASE_LINKING OFF)
endif()

# msprobe_link_for_release(<target>): does nothing in builds for development.
function(msprobe_link_for_release target)
  if(NOT MSPROBE_RELEASE_LINKING)
    return()
  endif()
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed)
  target_sources(${target} PRIVATE "${CMAKE_SOURCE_DIR}/cmake/older_glibc/functions.cpp")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_sources(${target} PRIVATE "${CMAKE_SOURCE_DIR}/cmake/older_glibc/start.cpp")
  endif()
  set_property(SOURCE "${CMAKE_SOURCE_DIR}/cmake/older_glibc/functions.cpp" "${CMAKE_SOURCE_DIR}/cmake/older_glibc/start.cpp"
               TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS -ffunction-sections)
  # Threads and the loader's functions lived here before glibc 2.34; later ones keep the files for such programs.
  target_link_options(${target} PRIVATE
    "LINKER:--push-state,--no-as-needed" -l:libpthread.so.0 -l:libdl.so.2 "LINKER:--pop-state")
endfunction()
