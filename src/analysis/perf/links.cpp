#include "src/analysis/perf/links.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace msprobe::analysis::perf {
namespace {

using profile::Flow;
using profile::Kernel;

auto LaunchKey(const Kernel& kernel) {
  return std::make_tuple(kernel.start, kernel.process, kernel.thread);
}

struct Link {
  profile::Nanoseconds host = 0;
  uint32_t kernel = 0;
};

}  // namespace

KernelLinks::KernelLinks(const profile::Profile& side) {
  std::vector<uint32_t> by_key(side.kernels.size());
  std::iota(by_key.begin(), by_key.end(), 0U);
  const auto before = [&side](uint32_t a, uint32_t b) {
    return LaunchKey(side.kernels[a]) < LaunchKey(side.kernels[b]);
  };
  std::stable_sort(by_key.begin(), by_key.end(), before);

  std::vector<Link> links;
  links.reserve(side.flows.size());
  for (const Flow& flow : side.flows) {
    const auto key = std::make_tuple(flow.end, flow.end_process, flow.end_thread);
    const auto after = std::upper_bound(by_key.begin(), by_key.end(), key,
                                        [&side](const auto& wanted, uint32_t other) {
                                          return wanted < LaunchKey(side.kernels[other]);
                                        });
    if (after != by_key.begin() && LaunchKey(side.kernels[*(after - 1)]) == key) {
      links.push_back({flow.start, *(after - 1)});
    }
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const Link& a, const Link& b) { return a.host < b.host; });

  kernels_.reserve(links.size());
  for (const Link& link : links) {
    if (times_.empty() || times_.back() != link.host) {
      times_.push_back(link.host);
      begins_.push_back(static_cast<uint32_t>(kernels_.size()));
    }
    kernels_.push_back(link.kernel);
  }
  begins_.push_back(static_cast<uint32_t>(kernels_.size()));
}

uint32_t KernelLinks::Find(profile::Nanoseconds host_time) const {
  const auto found = std::lower_bound(times_.begin(), times_.end(), host_time);
  if (found == times_.end() || *found != host_time) {
    return kNone;
  }
  return static_cast<uint32_t>(found - times_.begin());
}

}  // namespace msprobe::analysis::perf
