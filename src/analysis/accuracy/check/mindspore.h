// Dumps of MindSpore and MindTorch: the operators that PyTorch has as well, with PyTorch on the
// CPU, in the same dtypes, as the bench.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/accuracy/check/dump_calls.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/check/result.h"
#include "src/analysis/accuracy/common/operator_name.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/dump/entry_scan.h"

namespace msprobe::analysis::accuracy {

// Of the details file of these checks.
inline constexpr std::array<std::string_view, 9> kMindSporeColumns = {
    "API Name",  "Bench Dtype",    "Tested Dtype", "Shape",  "Cosine",
    "MaxAbsErr", "MaxRelativeErr", "Status",       "Message"};

// Whether operators of this name are checked; others are left out without a row.
bool IsCheckedByMindSpore(const OperatorName& name, bool is_mindtorch, const ApiLists& lists);

struct MindSporeJudgement {
  std::array<std::string, kMindSporeColumns.size()> cells;
  bool passes = false;
  std::string message;
  double max_abs = 0;
};
// A pair of outputs or gradients; nullopt: it is no tensor.
MindSporeJudgement JudgeMindSpore(std::string name, const std::optional<TensorView>& bench,
                                  const std::optional<TensorView>& tested, const Limits& limits);

Result<Check> RunMindSpore(const CheckOptions& options, const Standards& standards,
                           const DumpCalls& dump, const dump::EntryAccess& records);

}  // namespace msprobe::analysis::accuracy
