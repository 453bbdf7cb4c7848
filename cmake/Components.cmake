# Every component, and the components that it may use directly. This is the only list of these arrows: link lines are
# made from it, and tools/dev/check_includes.py holds every #include against it. "public" stands for include/msprobe.
set(MSPROBE_COMPONENTS
  "base:"
  "tensor:base"
  "kernels:tensor base"
  "json:base"
  "report:io json base"
  "io:kernels json tensor base"
  "dump:io json kernels tensor base"
  "reference:dump io kernels json tensor base"
  "layout:kernels json tensor base"
  "analysis/compare:analysis/kernel_dump analysis/recheck layout dump io kernels json report tensor base"
  "analysis/isolate:dump report base"
  "analysis/compile_check:report base"
  "analysis/inspect:checkpoint dump io json kernels report tensor base"
  "analysis/bisect:json report base"
  "analysis/hang:dump io json report base"
  "device:tensor base"
  "monitor:json kernels tensor base"
  "perturb:kernels tensor base"
  "grad_probe:io kernels json tensor base"
  "online:kernels tensor base"
  "checkpoint:layout io kernels json tensor base"
  "naming:checkpoint io kernels json tensor base"
  "digest:naming checkpoint io kernels json tensor base"
  "capture:digest checkpoint reference online dump io kernels device monitor perturb grad_probe json tensor base"
  "analysis/ckpt:digest naming checkpoint dump io kernels json report tensor base"
  "analysis/config_check:io json report base"
  "analysis/kernel_dump:io json kernels report tensor base"
  "analysis/nonfinite:analysis/compare analysis/kernel_dump dump io json kernels report tensor base"
  "analysis/graph:analysis/compare analysis/nonfinite layout database dump json report base"
  "analysis/recheck:reference dump io kernels json report tensor base"
  "analysis/response_anomaly:report json base"
  "analysis/offline_model:json base"
  "analysis/grad:io report kernels tensor base"
  "analysis/rl:io json kernels report tensor base"
  "database:base"
  "profile:database io json report base"
  "analysis/perf:profile report json base"
  "analysis/memory:dump io kernels json tensor report base"
  "analysis/monitor:dump monitor report json base"
  "analysis/accuracy:online dump io kernels json report tensor base"
  "analysis/repro:analysis/accuracy analysis/recheck reference dump io kernels json report tensor base"
  "serve:analysis/graph report json base"
  "commands:digest analysis/accuracy analysis/bisect analysis/ckpt analysis/compare analysis/compile_check analysis/config_check analysis/grad analysis/graph analysis/hang analysis/inspect analysis/isolate analysis/kernel_dump analysis/memory analysis/monitor analysis/nonfinite analysis/offline_model analysis/perf analysis/recheck analysis/repro analysis/response_anomaly analysis/rl capture device dump io json monitor online report serve kernels tensor base"
)

# msprobe_component(<name> [RUNS_BRIEFLY] SOURCES file... [DEPENDENCIES target...]): one static library msprobe_<name>, linked as the plan
# says. RUNS_BRIEFLY: no loop of this component takes a share of a command's time that people would notice (docs/performance.md).
function(msprobe_component name)
  cmake_parse_arguments(COMPONENT "RUNS_BRIEFLY" "" "SOURCES;DEPENDENCIES" ${ARGN})
  string(REPLACE "/" "_" target "msprobe_${name}")
  add_library(${target} STATIC ${COMPONENT_SOURCES})
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}/include"
                             "${CMAKE_BINARY_DIR}/generated")
  target_link_libraries(${target} PRIVATE msprobe_warnings)
  set(known FALSE)
  foreach(entry IN LISTS MSPROBE_COMPONENTS)
    if(entry MATCHES "^${name}:(.*)$")
      set(known TRUE)
      string(REPLACE " " ";" uses "${CMAKE_MATCH_1}")
      foreach(other IN LISTS uses)
        string(REPLACE "/" "_" other_target "msprobe_${other}")
        target_link_libraries(${target} PUBLIC ${other_target})
      endforeach()
    endif()
  endforeach()
  if(NOT known)
    message(FATAL_ERROR "component ${name} is not on the plan in cmake/Components.cmake")
  endif()
  target_link_libraries(${target} PUBLIC ${COMPONENT_DEPENDENCIES})
  if(COMPONENT_RUNS_BRIEFLY)
    msprobe_compile_quickly(${target})
  endif()
  if(NOT name STREQUAL "kernels")  # flags of their own, and the hot loops of this program
    msprobe_compile_together(${target})
  endif()
endfunction()
