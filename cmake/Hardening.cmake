# What makes a mistake in a reader end the program instead of letting a file take it over (docs/security.md; what it costs:
# docs/performance.md). Not in builds with sanitizers, which look for the same and more. The test package.hardened reads the result.
option(MSPROBE_HARDENING "Stack protector, checked containers and library calls, control flow protection" ON)

if(MSPROBE_HARDENING AND NOT MSPROBE_SANITIZE)
  add_compile_options(-fstack-protector-strong)
  # Indices of vectors, spans and strings, empty optionals: an abort instead of a read outside.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")  # needs an optimising compiler
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    add_compile_options(-fstack-clash-protection -fcf-protection)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    add_compile_options(-fstack-clash-protection -mbranch-protection=standard)
  endif()
  # All symbols are bound at the start and their tables read-only from then on; no page is writable and executable.
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()
