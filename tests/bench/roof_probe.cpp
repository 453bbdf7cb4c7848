// Prints two words: what one core and what all cores read from memory, in GB/s.
#include <cstdio>

#include "tests/bench/roof.h"

int main() {
  const msprobe::bench::Roof& roof = msprobe::bench::MeasuredRoof();
  std::printf("%.2f %.2f\n", roof.one_core_bytes_per_second / 1e9,
              roof.all_cores_bytes_per_second / 1e9);
}
