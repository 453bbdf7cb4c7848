// Work of both sides by the operator that did it, with where, on which shapes and by which kernels:
// what a change of the time is explained by.
//
// Each piece of work goes to the group of its operator, under the names of one vendor, or to that
// of its kernel where no operator launched it or a graph did. A group sums up its time by context
// (the outermost operator, the innermost module, found for backward operators over their forward
// ones), by shapes, types and kernels. A side is tallied by the numbers of its profile first: names
// are spelled once per equal pieces of work, not once per piece.
//
// Findings come from the groups in three steps: a change that all operators share (clocks, power);
// operators of one side that those of the other replaced, which count together with their net
// change; and the rest, a finding each, with the one context and the one kernel that most of the
// change happened in.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/perf/device_work.h"
#include "src/analysis/perf/pair_comparison.h"

namespace msprobe::analysis::perf {

struct Amount {
  double ms = 0;
  int64_t calls = 0;
};
using Amounts = std::array<Amount, 2>;  // base, comparison

inline double Change(const Amounts& amounts) { return amounts[1].ms - amounts[0].ms; }
Finding MakeFinding(std::string where, std::string_view metric, const Amounts& amounts);

struct WorkGroup {
  std::string label;  // "aten::mm"; of work that no operator launched the kernel's name
  std::string_view family;
  bool is_operator = false;
  Amounts total;
  std::map<std::string, Amounts> contexts;  // " in MmBackward0 under nn.Module: MLP (backward)"
  std::map<std::string, Amounts> shapes;
  std::map<std::string, Amounts> types;
  std::map<std::string, Amounts> kernels;
  // The families of `kernels`, by their whole names, that are not `family`.
  std::map<std::string, std::string_view> families;
  // Operators, marked ranges and modules around the first call, innermost first.
  std::vector<std::string> callers;
  std::string call_stack;  // of the first call that recorded one

  bool is_removed() const { return total[1].calls == 0 && total[0].calls > 0; }
  bool is_added() const { return total[0].calls == 0 && total[1].calls > 0; }
};

// By which names work is grouped.
enum class GroupBy : uint8_t {
  kOperator,  // the innermost operator around the launch
  kKernel     // the kernel: where one side's kernels come from graphs and the other's do not
};
GroupBy ChooseGrouping(const DeviceWork& base, const DeviceWork& comparison);

// Computing only. `names`: operators that go by another name.
std::vector<WorkGroup> GroupComputing(const DeviceWork& base, const DeviceWork& comparison,
                                      GroupBy by, const std::map<std::string, std::string>& names);

// For profiles without device work: host time of operators, without their callees. Python code and
// marked ranges have names of their own.
std::vector<WorkGroup> GroupHostWork(const HostTree& base, const profile::Profile& base_profile,
                                     const HostTree& comparison,
                                     const profile::Profile& comparison_profile,
                                     const std::map<std::string, std::string>& names);

// From work by operator to findings: what changed most, where, and in which respect.

// One finding per group whose time changed, `metric` as in findings.h; unsorted. Operators of one
// side that operators of the other side have replaced are one finding, with the net change.
// A change that all operators share to the same degree is one finding of its own, in front.
std::vector<Finding> FindingsOfGroups(std::vector<WorkGroup> groups, std::string_view metric);

}  // namespace msprobe::analysis::perf
