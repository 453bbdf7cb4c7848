# MSPROBE_SANITIZE=address;undefined or thread: applied to everything that is built, so that no object file stays blind.
if(MSPROBE_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${MSPROBE_SANITIZE}")
  add_compile_options(-fsanitize=${_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${_sanitizers})
  # What a sanitizer puts between the statements hides from g++ that a value was set (its manual warns of it): release is where this
  # warning counts.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()

# libFuzzer is guided by the branches an input reaches: the components must report them, not only the fuzz targets.
if(MSPROBE_FUZZERS)
  # Line tables are all that reports and coverage need, and forty programs are linked.
  add_compile_options(-fsanitize=fuzzer-no-link -gline-tables-only)
  # Reporting what each comparison compared finds magic numbers, and costs up to five sixths of the time: left to the runs under the
  # sanitizers, whose inputs the fast ones begin with.
  if(NOT MSPROBE_SANITIZE)
    add_compile_options(-fno-sanitize-coverage=trace-cmp)
  endif()
endif()
