// How fast this machine reads memory: the limit every figure in a benchmark is set beside.
#pragma once

namespace msprobe::bench {

struct Roof {
  double one_core_bytes_per_second = 0;
  double all_cores_bytes_per_second = 0;
  unsigned cores = 0;
};

// Measured once per process, in about two seconds and 512 MiB. Best of several bursts, since other
// work on the machine only ever makes a burst slower.
const Roof& MeasuredRoof();

}  // namespace msprobe::bench
