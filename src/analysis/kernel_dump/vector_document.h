// Documents of comparisons by the vendor's measures, and the report of one tensor by elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/array_compare.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/report/document.h"

namespace msprobe::analysis::kernel_dump {

// One tensor of an operator in two kernel dumps, element by element.

struct ElementReportOptions {
  VectorOptions sides;  // mine, golden, output
  std::string op_name;
  bool is_input = false;
  size_t number = 0;
  size_t most_shown = 20;  // elements of either list of the farthest ones
  size_t lines_per_file = 1'000'000;
  bool only_farthest = false;  // no table of all elements
};

struct ElementDifference {
  uint64_t index = 0;
  double mine = 0;
  double golden = 0;
  double absolute = 0;
  double relative = 0;  // to golden; 0 where that is 0
};

struct ElementReport {
  uint64_t elements = 0;
  Shape shape;
  std::vector<ElementDifference> by_absolute;  // the farthest first
  std::vector<ElementDifference> by_relative;
  double least_absolute = 0;
  double most_absolute = 0;
  double least_relative = 0;  // of elements that have one
  double most_relative = 0;
  std::vector<std::filesystem::path> files;
};

// The last run of the operator on both sides. Writes, <name> being {op}_{input|output}_{number}:
//   <name>.npy                                          the tensor of the test
//   <name>_<first element>.csv                          all elements, in parts
//   <name>_absolute_error_topn.csv, <name>_relative_error_topn.csv, <name>_summary.txt
// kNotFound when a side has no such operator, kUsage for a tensor that it does not have, kMismatch
// for shapes that differ, kUnsupported for complex elements. Memory is that of both tensors.
Result<ElementReport> ReportElements(const ElementReportOptions& options);

inline constexpr std::array<report::GateLevel, 1> kVectorGateLevels = {
    {{"different",
      "a tensor beyond the limits of one of the measures, or without a partner; with -op, any "
      "element that differs"}}};

report::Document MakeDocument(const VectorFindings& findings);
report::Document MakeDocument(const FileComparison& comparison);
report::Document MakeDocument(const ElementReportOptions& options, const ElementReport& report);

}  // namespace msprobe::analysis::kernel_dump
