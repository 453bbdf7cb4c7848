// Metrics of the user beside the six of the table: expressions over the sums that every comparison
// makes anyway, and functions in Python files, which run in a process of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/kernels/compare.h"
#include "src/layout/whole_tensor.h"

namespace msprobe::analysis::compare {

// "max_abs / sqrt(reference_square_sum / count)": numbers, + - * / ^, parentheses, functions, and
// the names that Sums() lists.
class SumsExpression {
 public:
  static Result<SumsExpression> Parse(std::string_view text);
  double Of(const kernels::ComparePartial& sums) const;

 private:
  friend class ExpressionParser;
  enum class Kind : uint8_t { kNumber, kSum, kOperator, kFunction };
  struct Step {
    Kind kind;
    size_t which = 0;  // sum, character of the operator, or function
    double number = 0;
  };
  std::vector<Step> steps_;  // operands before what is done with them
};

// The metrics of one comparison of two dumps. Thread-safe between Prepare and Finish.
class UserMetrics {
 public:
  // Checks all names and expressions, and starts the Python of the user to ask the files for
  // theirs.
  static Result<std::unique_ptr<UserMetrics>> Prepare(const UserMetricRules& rules,
                                                      std::vector<std::string>& warnings);
  ~UserMetrics();
  UserMetrics(const UserMetrics&) = delete;
  UserMetrics& operator=(const UserMetrics&) = delete;

  // A pair of equal shape. `sums` is null for single values, `whole` where elements are in the
  // view.
  void Add(size_t row, std::string_view name, const kernels::ComparePartial* sums,
           const TensorView& npu, const layout::WholeTensor* npu_whole, const TensorView& bench,
           const layout::WholeTensor* bench_whole);
  // Columns and cells; rows that were not added show the text of their metrics.
  void Finish(PairResult& result, std::vector<std::string>& warnings);

 private:
  UserMetrics() = default;
  Status AskFiles(std::vector<std::string>& warnings);
  Result<std::string> RunPython(std::string_view what);
  Status Write(size_t row, std::string_view name, const TensorView& npu,
               const layout::WholeTensor* npu_whole, const TensorView& bench,
               const layout::WholeTensor* bench_whole);
  void RunBatch();
  void TakeAnswers(std::string_view answers);
  void Warn(std::string text);

  UserMetricRules rules_;
  std::vector<SumsExpression> expressions_;
  std::vector<std::string> columns_;  // of the files, then of the expressions
  std::vector<std::string> files_;
  std::filesystem::path scratch_;  // a folder of our own; empty: no Python is needed
  int interrupt_slot_ = -1;
  std::mutex mutex_;
  std::string batch_;                                               // pairs that wait
  std::vector<std::pair<size_t, std::vector<UserCell>>> answered_;  // of files, by row
  std::vector<std::pair<size_t, std::vector<double>>> computed_;    // of expressions
  std::vector<std::string> texts_;
  std::vector<std::string> warnings_;
  size_t more_warnings_ = 0;
};

}  // namespace msprobe::analysis::compare
