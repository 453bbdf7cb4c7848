#include "src/analysis/kernel_dump/vector_compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/number_reader.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/analysis/kernel_dump/vector_table.h"
#include "src/base/strings.h"
#include "src/base/thread_pool.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;

constexpr const char* kNobody = "*";
constexpr double kLargestHalf = 65504;

// The n-th run of an operator on either side; null where there is none.
struct OperatorPair {
  const VectorOperator* mine = nullptr;
  const VectorOperator* golden = nullptr;
};

std::vector<OperatorPair> PairOperators(const std::vector<VectorOperator>& mine,
                                        const std::vector<VectorOperator>& golden) {
  std::map<std::string_view, std::vector<const VectorOperator*>> by_name;
  for (const VectorOperator& op : golden) {
    by_name[op.name].push_back(&op);
  }
  std::map<std::string_view, size_t> taken;
  std::vector<OperatorPair> pairs;
  for (const VectorOperator& op : mine) {
    const std::vector<const VectorOperator*>& partners = by_name[op.name];
    const size_t turn = taken[op.name]++;
    pairs.push_back({&op, turn < partners.size() ? partners[turn] : nullptr});
  }
  std::map<std::string_view, size_t> seen;
  for (const VectorOperator& op : golden) {
    if (seen[op.name]++ >= taken[op.name]) {
      pairs.push_back({nullptr, &op});
    }
  }
  return pairs;
}

// Whether a float16 tensor holds the largest number of its type, or infinity.
std::optional<bool> ReachesLimit(const TensorView& view) {
  if (view.dtype != DType::kFloat16) {
    return std::nullopt;
  }
  NumberReader<float> numbers(view);
  const auto count = static_cast<size_t>(view.element_count());
  for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
    const std::span<const float> block =
        numbers.Read(first, std::min(tensor::kCopyBlockElements, count - first));
    if (std::any_of(block.begin(), block.end(),
                    [](float x) { return static_cast<double>(std::fabs(x)) >= kLargestHalf; })) {
      return true;
    }
  }
  return false;
}

// The rows of one pair of operators.
class PairComparison {
 public:
  PairComparison(const VectorOptions& options, size_t index, const OperatorPair& pair)
      : options_(options), index_(index), pair_(pair) {}

  std::vector<VectorRow> Rows() {
    if (pair_.mine == nullptr || pair_.golden == nullptr) {
      AddFailure(NotFoundError(
          fmt::format("{} has no operator of this name and turn",
                      pair_.mine == nullptr ? options_.mine.string() : options_.golden.string())));
      return std::move(rows_);
    }
    const Result<OpenOperator> mine = OpenOperator::Open(*pair_.mine);
    const Result<OpenOperator> golden = OpenOperator::Open(*pair_.golden);
    for (const Result<OpenOperator>* side : {&mine, &golden}) {
      if (!side->ok()) {
        AddFailure(side->status());
        return std::move(rows_);
      }
    }
    for (const bool outputs : {false, true}) {
      // A reference of arrays has no inputs.
      const size_t count =
          golden->is_dump() || outputs ? std::max(mine->count(outputs), golden->count(outputs)) : 0;
      for (size_t number = 0; number < count; ++number) {
        AddTensor(*mine, *golden, outputs, number);
      }
    }
    for (const Status& status : {mine->Check(), golden->Check()}) {
      if (!status.ok()) {
        rows_.clear();
        AddFailure(status);
      }
    }
    return std::move(rows_);
  }

 private:
  VectorRow NewRow() const {
    VectorRow row;
    row.index = index_;
    row.op_type = pair_.mine != nullptr ? pair_.mine->op_type : "";
    row.mine.op_name = pair_.mine != nullptr ? pair_.mine->name : kNobody;
    row.golden.op_name = pair_.golden != nullptr ? pair_.golden->name : kNobody;
    return row;
  }

  void AddFailure(const Status& status) {
    VectorRow row = NewRow();
    row.status = status;
    row.reasons.push_back(fmt::format("[{}] {}",
                                      pair_.mine != nullptr ? row.mine.op_name : row.golden.op_name,
                                      status.message()));
    rows_.push_back(std::move(row));
  }

  void AddTensor(const OpenOperator& mine, const OpenOperator& golden, bool outputs,
                 size_t number) {
    VectorRow row = NewRow();
    row.tensor = fmt::format("{}:{}:{}", pair_.mine->name, outputs ? "output" : "input", number);
    row.status = CompareTensor(mine, golden, outputs, number, row);
    if (!row.status.ok()) {
      row.reasons.push_back(fmt::format("[{}] {}", row.tensor, row.status.message()));
    }
    rows_.push_back(std::move(row));
  }

  Status CompareTensor(const OpenOperator& mine, const OpenOperator& golden, bool outputs,
                       size_t number, VectorRow& row) const {
    for (const OpenOperator* side : {&mine, &golden}) {
      if (!side->has(outputs, number)) {
        return NotFoundError(fmt::format("{} has no such tensor", side == &mine
                                                                      ? options_.mine.string()
                                                                      : options_.golden.string()));
      }
    }
    const kd::DumpedTensor* const a = mine.dumped(outputs, number);
    const kd::DumpedTensor* const b = golden.dumped(outputs, number);
    row.mine.address = a != nullptr ? a->address : std::nullopt;
    row.golden.address = b != nullptr ? b->address : std::nullopt;
    MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer left, mine.AsFrameworkKnows(outputs, number));
    MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer right,
                         golden.AsFrameworkKnows(outputs, number));
    row.shape = a != nullptr && a->shape ? *a->shape : left.view().shape;
    return Measure(left.view(), right.view(), row);
  }

  Status Measure(const TensorView& left, const TensorView& right, VectorRow& row) const {
    row.mine.dtype = DTypeName(left.dtype);
    row.golden.dtype = DTypeName(right.dtype);
    if (options_.overflow) {
      row.overflow = ReachesLimit(left);
    }
    if (left.shape != right.shape) {
      return MismatchError(fmt::format("the shapes differ, {} and {}", ShapeText(left.shape),
                                       ShapeText(right.shape)));
    }
    MSP_RETURN_IF_ERROR(CheckMeasurable(left, right));
    row.measures = MeasureVectors(left, right);
    if (row.measures->elements == 0) {
      row.reasons.emplace_back("This tensor has no elements.");
    } else if (row.measures->zero != row.measures->golden_zero) {
      row.reasons.push_back(
          fmt::format("Cannot compare by Cosine Similarity. All the data is zero in {}.",
                      row.measures->zero ? PathOf(*pair_.mine) : PathOf(*pair_.golden)));
    } else if (row.measures->elements == 1) {
      row.reasons.emplace_back("This tensor is scalar.");
    }
    return {};
  }

  static std::string PathOf(const VectorOperator& op) {
    return op.dump.empty() ? op.arrays.begin()->second.string() : op.dump.string();
  }

  const VectorOptions& options_;
  const size_t index_;
  const OperatorPair& pair_;
  std::vector<VectorRow> rows_;
};

}  // namespace

size_t VectorFindings::compared() const {
  return static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(), [](const VectorRow& row) { return row.measures.has_value(); }));
}

size_t VectorFindings::failed() const { return rows.size() - compared(); }

const VectorRow* VectorFindings::FirstBad() const {
  const auto bad = std::find_if(rows.begin(), rows.end(), [](const VectorRow& row) {
    return row.measures && !IsGood(*row.measures);
  });
  return bad == rows.end() ? nullptr : &*bad;
}

Result<VectorFindings> CompareVectors(const VectorOptions& options) {
  MSP_ASSIGN_OR_RETURN(const std::vector<VectorOperator> mine, FindVectorOperators(options.mine));
  MSP_ASSIGN_OR_RETURN(const std::vector<VectorOperator> golden,
                       FindVectorOperators(options.golden));
  if (mine.front().dump.empty()) {
    return UsageError(fmt::format("{} holds arrays; kernel dumps are expected there",
                                  options.mine.string()))
        .WithHint("the kernel dumps come first, arrays of the original model second");
  }
  const std::vector<OperatorPair> pairs = PairOperators(mine, golden);
  std::vector<std::vector<VectorRow>> rows(pairs.size());
  base::ThreadPool pool(
      std::clamp<size_t>(options.threads == 0 ? base::UsableCores() : options.threads, 1,
                         std::max<size_t>(pairs.size(), 1)));
  pool.ParallelFor(pairs.size(), [&](size_t item, size_t) {
    rows[item] = PairComparison(options, item, pairs[item]).Rows();
  });
  VectorFindings findings;
  for (size_t i = 0; i < pairs.size(); ++i) {
    findings.operators += pairs[i].mine != nullptr && pairs[i].golden != nullptr ? 1U : 0U;
    std::move(rows[i].begin(), rows[i].end(), std::back_inserter(findings.rows));
  }
  MSP_ASSIGN_OR_RETURN(findings.table, WriteVectorTable(options, findings.rows));
  return findings;
}

}  // namespace msprobe::analysis::kernel_dump
