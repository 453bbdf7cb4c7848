// Profiles made by hand, times in microseconds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/profile/profile.h"
#include "tests/unit/support/table_rows.h"

namespace msprobe::analysis::perf::test_support {

class MadeProfile {
 public:
  explicit MadeProfile(profile::Device device = profile::Device::kGpu) {
    profile_.device = device;
    profile_.path = "profile";
  }

  profile::Operator& Op(std::string_view name, int64_t start_us, int64_t end_us,
                        std::string_view thread = "1") {
    profile::Operator operation;
    operation.name = Text(name);
    operation.thread = Text(thread);
    operation.process = Text("100");
    operation.shapes = Text("[[2, 3]]");
    operation.types = Text("['float']");
    operation.shape_key = Text("2,3");
    operation.start = start_us * 1000;
    operation.end = end_us * 1000;
    operation.duration_us = static_cast<double>(end_us) - static_cast<double>(start_us);
    profile_.operators.push_back(operation);
    return profile_.operators.back();
  }
  // A kernel that was launched at a host time; it starts where the last one ended.
  profile::Kernel& Launch(int64_t host_us, std::string_view name, double duration_us) {
    profile::Kernel kernel;
    kernel.name = Text(name);
    kernel.process = Text("0");
    kernel.thread = Text("7");
    kernel.start = device_time_;
    kernel.end = kernel.start + static_cast<int64_t>(duration_us * 1000);
    kernel.duration_us = duration_us;
    device_time_ = kernel.end + 1;
    profile_.kernels.push_back(kernel);
    profile_.flows.push_back(
        {host_us * 1000, kernel.start, Text("100"), kernel.process, kernel.thread});
    return profile_.kernels.back();
  }
  void Allocate(int64_t at_us, double size_kb, std::string_view name = {}) {
    profile::Allocation allocation;
    allocation.name = Text(name);
    allocation.at = at_us * 1000;
    allocation.allocated = Text(std::to_string(at_us));
    allocation.released = Text("None");
    allocation.size_kb = size_kb;
    profile_.allocations.push_back(allocation);
  }
  void Python(std::string_view name, int64_t start_us, int64_t end_us) {
    profile_.python_calls.push_back(
        {Text(name), name.substr(0, 10) == "nn.Module:", start_us * 1000, end_us * 1000});
  }
  void ForwardBackward(int64_t forward_us, int64_t backward_us) {
    profile_.forward_backward.push_back(
        {forward_us * 1000, backward_us * 1000, Text("100"), Text("100"), Text("2")});
  }
  void BackwardThread(std::string_view thread) { profile_.backward_thread = Text(thread); }

  profile::TextId Text(std::string_view text) { return profile_.texts.Intern(text); }
  profile::Profile& operator*() { return profile_; }
  profile::Profile* operator->() { return &profile_; }

 private:
  profile::Profile profile_;
  int64_t device_time_ = 1'000'000;
};

using msprobe::test_support::Rows;

}  // namespace msprobe::analysis::perf::test_support
