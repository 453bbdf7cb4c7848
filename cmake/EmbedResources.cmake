# msprobe_embed(<target> <symbol> <file>): adds a source to <target> that defines
#   namespace msprobe::resources { extern const std::string_view <symbol>; }   holding the bytes of <file>.
function(msprobe_embed target symbol file)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/resource_${symbol}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -DINPUT=${file} -DOUTPUT=${output} -DSYMBOL=${symbol}
            -P "${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake"
    DEPENDS "${file}" "${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake"
    VERBATIM)
  set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE "${output}")
endfunction()

# msprobe_embed_if_made(<target> <symbol> <folder> <name>): the same for a file that may not be there (docs/design/dependencies.md
# tells which and how to make it); <symbol> is empty then. Looked for at every build.
function(msprobe_embed_if_made target symbol folder name)
  file(GLOB file CONFIGURE_DEPENDS "${folder}/${name}")
  if(NOT file)
    message(STATUS "${name} is not made: what needs it says so when it is asked")
    set(file "${CMAKE_CURRENT_BINARY_DIR}/not_made_${symbol}")
    if(NOT EXISTS "${file}")
      file(WRITE "${file}" "")
    endif()
  endif()
  msprobe_embed(${target} ${symbol} "${file}")
endfunction()
