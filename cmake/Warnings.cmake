# Warnings for our own code; third-party headers come in as SYSTEM and are silent.
add_library(msprobe_warnings INTERFACE)
target_compile_options(msprobe_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(MSPROBE_WERROR)
  target_compile_options(msprobe_warnings INTERFACE -Werror)
endif()
