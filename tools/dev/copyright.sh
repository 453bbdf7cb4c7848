#!/usr/bin/env bash
# Prints who holds the rights in what a package of msprobe contains: our licence's notice, then that of every library that is
# linked in, as Debian states it. The libraries are those of tools/install_dependencies.sh build.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat <<'NOTICE'
msprobe is licensed under the Apache License, Version 2.0; the file LICENSE beside this one holds its text
(Debian: /usr/share/common-licenses/Apache-2.0).

The programs and libraries of this package contain, linked in, the libraries below. They contain parts of GCC's
libstdc++ and libgcc as well, under the GNU General Public License, version 3, with the GCC Runtime Library Exception.
The licences of the scripts in HTML pages stand in each page, under "About".
NOTICE

missing=0
for package in $(tools/install_dependencies.sh --list build | grep -- '-dev$' | grep -v '^python3-'); do
  text=/usr/share/doc/$package/copyright
  printf '\n%s\n%s\n\n' "$(printf '=%.0s' {1..78})" "$package"
  if [ -r "$text" ]; then
    cat "$text"
  else
    printf 'error: the licence of %s is missing: %s\n' "$package" "$text" >&2
    missing=1
  fi
done
exit "$missing"
