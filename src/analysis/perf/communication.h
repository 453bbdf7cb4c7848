// Collectives side by side: by the names that profilers give them, as the sheet shows it, and by
// what they do, which is the same whether NCCL or HCCL did it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/options.h"
#include "src/analysis/perf/pair_comparison.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// The sheet CommunicationCompare; empty where neither side communicates. With steps: what began
// inside of them.
report::FormattedTable CommunicationSheet(const profile::Profile& base,
                                          const profile::Profile& comparison,
                                          const PairOptions& options);

// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "recv",
// "reduce", "gather", "scatter", "barrier"; empty for names that say none of these.
std::string_view CollectiveKind(std::string_view name);

// Kinds of collectives, from the names of their kernels or else of their callers (the kernels of
// RCCL have one name for all). A name is looked into once, however many kernels have it, or lie
// below it.
class KindsOfCollectives {
 public:
  // Without `by_kind` collectives are distinguished by name.
  KindsOfCollectives(const DeviceWork& work, bool by_kind) : work_(work), by_kind_(by_kind) {}

  // Empty: unknown.
  std::string_view KindOf(const WorkItem& item);
  // The kind, or the name of the kernel.
  std::string Of(const WorkItem& item);

 private:
  struct KnownKernel {
    std::string label;
    std::string_view kind;  // empty: not known from its name
  };

  KnownKernel& Known(profile::TextId name);
  std::string_view OfCaller(profile::TextId name);

  const DeviceWork& work_;
  const bool by_kind_;
  std::unordered_map<profile::TextId, KnownKernel> kernels_;
  std::unordered_map<profile::TextId, std::string_view> callers_;
};

// Totals by kind, largest difference first; where the options ask for it, by the names of the
// sheet. Names of no kind are listed as they are. `works`: what the devices of the sides did, as
// far as that was read.
std::vector<Collective> CompareCollectives(const profile::Profile& base,
                                           const profile::Profile& comparison,
                                           const std::array<const DeviceWork*, 2>& works,
                                           const PairOptions& options);

}  // namespace msprobe::analysis::perf
