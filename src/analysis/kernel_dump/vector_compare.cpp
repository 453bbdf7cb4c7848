#include "src/analysis/kernel_dump/vector_compare.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/number_reader.h"
#include "src/analysis/kernel_dump/origin_finder.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/analysis/kernel_dump/vector_table.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;

constexpr const char* kNobody = "*";
constexpr double kLargestHalf = tensor::FormatOf(DType::kFloat16).largest;

// The n-th run of an operator on either side; null where there is none of this name.
struct OperatorPair {
  const VectorOperator* mine = nullptr;
  const VectorOperator* golden = nullptr;
  size_t turn = 0;
};

std::vector<OperatorPair> PairOperators(const std::vector<VectorOperator>& mine,
                                        const OriginFinder& finder) {
  std::map<std::string_view, size_t> taken;
  std::vector<OperatorPair> pairs;
  for (const VectorOperator& op : mine) {
    const std::vector<const VectorOperator*>& partners = finder.Runs(op.name);
    const size_t turn = taken[op.name]++;
    pairs.push_back({&op, turn < partners.size() ? partners[turn] : nullptr, turn});
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

// The rows of one operator under test.
class PairComparison {
 public:
  PairComparison(const VectorOptions& options, const OriginFinder& finder, size_t index,
                 const OperatorPair& pair)
      : options_(options), finder_(finder), index_(index), pair_(pair) {}

  std::vector<VectorRow> Rows() {
    const Result<OpenOperator> mine = OpenOperator::Open(*pair_.mine);
    if (!mine.ok()) {
      AddFailure(mine.status());
      return std::move(rows_);
    }
    Status namesake;
    if (pair_.golden != nullptr && Golden(*pair_.golden, namesake) == nullptr) {
      AddFailure(namesake);
      return std::move(rows_);
    }
    for (const bool outputs : {false, true}) {
      const size_t own = mine->count(outputs);
      for (size_t number = 0; number < own; ++number) {
        AddTensor(*mine, outputs, number);
      }
      for (const size_t number : NumbersOfNamesake(outputs, own)) {
        AddTensor(*mine, outputs, number);
      }
    }
    if (rows_.empty() && pair_.golden == nullptr) {
      AddFailure(NotFoundError(
          fmt::format("{} has no operator of this name and turn", options_.golden.string())));
    }
    CheckFiles(*mine);
    return std::move(rows_);
  }

  // Operators of the reference that something was compared with.
  std::vector<const VectorOperator*> used() const {
    std::vector<const VectorOperator*> used;
    for (const auto& [op, open] : golden_) {
      used.push_back(op);
    }
    return used;
  }

  static VectorRow OfReferenceAlone(const VectorOptions& options, size_t index,
                                    const VectorOperator& op) {
    VectorRow row;
    row.index = index;
    row.mine.op_name = kNobody;
    row.golden.op_name = op.name;
    row.status = NotFoundError(
        fmt::format("{} has no operator of this name and turn", options.mine.string()));
    row.reasons.push_back(fmt::format("[{}] {}", op.name, row.status.message()));
    return row;
  }

 private:
  // Open, once; null with the reason.
  const OpenOperator* Golden(const VectorOperator& op, Status& status) {
    auto found = golden_.find(&op);
    if (found == golden_.end()) {
      found = golden_.emplace(&op, OpenOperator::Open(op)).first;
    }
    status = found->second.status();
    return found->second.ok() ? &*found->second : nullptr;
  }

  // What the reference has behind the tensors of the operator under test.
  std::vector<size_t> NumbersOfNamesake(bool outputs, size_t first) {
    Status ignored;
    const OpenOperator* const golden =
        pair_.golden == nullptr ? nullptr : Golden(*pair_.golden, ignored);
    // A reference of arrays has no inputs.
    return golden == nullptr ? std::vector<size_t>() : golden->NumbersFrom(outputs, first);
  }

  // Rules come first, then names; the file's own word counts where names do not help, and where the
  // reference is what ran before the fusion.
  std::optional<ReferencePlace> PlaceOf(const OpenOperator& mine, bool outputs, size_t number) {
    const bool of_dumps = pair_.golden != nullptr && !pair_.golden->dump.empty();
    return finder_.HasRules(pair_.mine->name) || !of_dumps
               ? finder_.Find(mine, pair_.mine->name, pair_.turn, outputs, number)
               : std::nullopt;
  }

  VectorRow NewRow(const VectorOperator* golden) const {
    VectorRow row;
    row.index = index_;
    row.op_type = pair_.mine->op_type;
    row.mine.op_name = pair_.mine->name;
    row.golden.op_name = golden != nullptr ? golden->name : kNobody;
    return row;
  }

  void AddFailure(const Status& status) {
    VectorRow row = NewRow(pair_.golden);
    row.status = status;
    row.reasons.push_back(fmt::format("[{}] {}", row.mine.op_name, status.message()));
    rows_.push_back(std::move(row));
  }

  void AddTensor(const OpenOperator& mine, bool outputs, size_t number) {
    const std::optional<ReferencePlace> origin = PlaceOf(mine, outputs, number);
    const VectorOperator* const golden = origin ? origin->op : pair_.golden;
    if (golden == nullptr || (!origin && !outputs && golden->dump.empty())) {
      return;  // nothing to compare it with
    }
    VectorRow row = NewRow(golden);
    row.tensor = fmt::format("{}:{}:{}", pair_.mine->name, outputs ? "output" : "input", number);
    Status opened;
    const OpenOperator* const open = Golden(*golden, opened);
    row.status = open == nullptr
                     ? opened
                     : CompareTensor(mine, outputs, number, *golden, *open, origin || outputs,
                                     origin ? origin->output : number, row);
    if (!row.status.ok()) {
      row.reasons.push_back(fmt::format("[{}] {}", row.tensor, row.status.message()));
    }
    rows_.push_back(std::move(row));
  }

  Status CompareTensor(const OpenOperator& mine, bool outputs, size_t number,
                       const VectorOperator& golden_op, const OpenOperator& golden,
                       bool golden_outputs, size_t golden_number, VectorRow& row) const {
    for (const bool is_mine : {true, false}) {
      if (is_mine ? !mine.has(outputs, number) : !golden.has(golden_outputs, golden_number)) {
        return NotFoundError(fmt::format(
            "{} has no such tensor", is_mine ? options_.mine.string() : options_.golden.string()));
      }
    }
    const kd::DumpedTensor* const a = mine.dumped(outputs, number);
    const kd::DumpedTensor* const b = golden.dumped(golden_outputs, golden_number);
    row.mine.address = a != nullptr ? a->address : std::nullopt;
    row.golden.address = b != nullptr ? b->address : std::nullopt;
    MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer left, mine.AsFrameworkKnows(outputs, number));
    MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer right,
                         golden.AsFrameworkKnows(golden_outputs, golden_number));
    row.shape = a != nullptr && a->shape && !mine.is_joined(outputs, number) ? *a->shape
                                                                             : left.view().shape;
    return Measure(left.view(), right.view(), golden_op, row);
  }

  // Files that were cut meanwhile have told nothing.
  void CheckFiles(const OpenOperator& mine) {
    Status status = mine.Check();
    for (const auto& [op, open] : golden_) {
      if (status.ok() && open.ok()) {
        status = open->Check();
      }
    }
    if (!status.ok()) {
      rows_.clear();
      AddFailure(status);
    }
  }

  Status Measure(const TensorView& left, const TensorView& right, const VectorOperator& golden,
                 VectorRow& row) const {
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
                      PathOf(row.measures->zero ? *pair_.mine : golden)));
    } else if (row.measures->elements == 1) {
      row.reasons.emplace_back("This tensor is scalar.");
    }
    return {};
  }

  static std::string PathOf(const VectorOperator& op) {
    return op.dump.empty() ? op.arrays.begin()->second.string() : op.dump.string();
  }

  const VectorOptions& options_;
  const OriginFinder& finder_;
  const size_t index_;
  const OperatorPair& pair_;
  std::map<const VectorOperator*, Result<OpenOperator>> golden_;
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
  MSP_ASSIGN_OR_RETURN(const std::vector<VectorOperator> mine,
                       FindVectorOperators(options.mine, !options.thread_by_thread));
  MSP_ASSIGN_OR_RETURN(const std::vector<VectorOperator> golden,
                       FindVectorOperators(options.golden, !options.thread_by_thread));
  if (mine.front().dump.empty()) {
    return UsageError(fmt::format("{} holds arrays; kernel dumps are expected there",
                                  options.mine.string()))
        .WithHint("the kernel dumps come first, arrays of the original model second");
  }
  MSP_ASSIGN_OR_RETURN(const OriginFinder finder, OriginFinder::Make(options.fusion_rules, golden));
  const std::vector<OperatorPair> pairs = PairOperators(mine, finder);
  std::vector<std::vector<VectorRow>> rows(pairs.size());
  std::vector<std::vector<const VectorOperator*>> used(pairs.size());
  base::ThreadPool pool(
      std::clamp<size_t>(options.threads == 0 ? base::UsableCores() : options.threads, 1,
                         std::max<size_t>(pairs.size(), 1)));
  pool.ParallelFor(pairs.size(), [&](size_t item, size_t) {
    PairComparison comparison(options, finder, item, pairs[item]);
    rows[item] = comparison.Rows();
    used[item] = comparison.used();
  });
  VectorFindings findings;
  std::set<const VectorOperator*> known;
  for (size_t i = 0; i < pairs.size(); ++i) {
    findings.operators += pairs[i].golden == nullptr && used[i].empty() ? 0U : 1U;
    known.insert(used[i].begin(), used[i].end());
    if (pairs[i].golden != nullptr) {
      known.insert(pairs[i].golden);
    }
    std::move(rows[i].begin(), rows[i].end(), std::back_inserter(findings.rows));
  }
  size_t index = pairs.size();
  for (const VectorOperator& op : golden) {
    if (known.count(&op) == 0) {
      findings.rows.push_back(PairComparison::OfReferenceAlone(options, index++, op));
    }
  }
  MSP_ASSIGN_OR_RETURN(findings.table, WriteVectorTable(options, findings.rows));
  return findings;
}

}  // namespace msprobe::analysis::kernel_dump
