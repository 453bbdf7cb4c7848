// How fast this machine reads memory, and multiplies and adds: the limits that figures of
// benchmarks are set beside.
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

// Fused multiplications and additions of doubles that this thread makes in a second, each counted
// as two, with the widest vectors of the machine and nothing but registers. Best of several bursts;
// 0 where that is not known how to measure.
double MeasuredFmaPeak();

}  // namespace msprobe::bench
