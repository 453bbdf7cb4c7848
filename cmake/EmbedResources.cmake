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
  target_sources(${target} PRIVATE "${output}")
endfunction()
