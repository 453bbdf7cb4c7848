#include "src/analysis/kernel_dump/vector_compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/io/kernel_dump/format.h"
#include "src/kernels/element_pairs.h"
#include "src/report/writers.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::kernel_dump {
namespace {

// Finds the tensor of a fused operator, which replaces several of the reference, there.

// An output of an operator of the reference.
struct ReferencePlace {
  const VectorOperator* op = nullptr;
  size_t output = 0;
};

class OriginFinder {
 public:
  // `reference` must outlive the finder.
  static Result<OriginFinder> Make(const FusionRuleFiles& files,
                                   const std::vector<VectorOperator>& reference);

  // All runs of the operator of this name in the reference, in order.
  const std::vector<const VectorOperator*>& Runs(std::string_view name) const;
  // Whether rules know the operator of the test.
  bool HasRules(std::string_view op) const;

  // For the `turn`-th run of an operator; nothing where neither rules nor the file itself tell an
  // origin that the reference has.
  std::optional<ReferencePlace> Find(const OpenOperator& open, std::string_view op, size_t turn,
                                     bool outputs, size_t number) const;

 private:
  std::optional<ReferencePlace> InReference(const OutputPlace& origin, size_t turn) const;

  std::vector<FusionRules> rules_;                    // of the test side
  std::map<OutputPlace, OutputPlace> golden_places_;  // by origin
  std::map<std::string_view, std::vector<const VectorOperator*>> runs_;
};

constexpr std::array<std::string_view, kMeasureCount> kNames = {
    "CosineSimilarity",          "MaxAbsoluteError",          "AccumulatedRelativeError",
    "RelativeEuclideanDistance", "KullbackLeiblerDivergence", "StandardDeviation",
    "MeanAbsoluteError",         "RootMeanSquareError",       "MaxRelativeError",
    "MeanRelativeError"};

constexpr double kLeastShare =
    tensor::FormatOf(DType::kFloat32).epsilon();  // of float32, in which the vendor's tool counts
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct SideSums {
  double sum = 0;
  double squares = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double deviations = 0;  // squares of differences from the mean, in the second pass
  double shares = 0;

  void Add(double x) {
    sum += x;
    squares += x * x;
    least = SmallerOrNaN(least, x);
    most = LargerOrNaN(most, x);
  }
  // Moved and scaled to [0, 1].
  double Share(double x) const {
    const double range = most - least;
    return std::max(range == 0 ? 0.0 : (x - least) / range, kLeastShare);
  }
};

// Without the sign of a NaN or of a zero, which depend on the machine and on the order of sums.
std::string NumberText(double value, int digits) {
  if (std::isnan(value)) {
    return "nan";
  }
  std::string text = fmt::format("{:.{}f}", value, digits);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.front() == '-' ? text.substr(1) : text;
}

}  // namespace

std::string_view MeasureName(Measure measure) { return kNames[static_cast<size_t>(measure)]; }

std::optional<Measure> FindMeasure(std::string_view text) {
  for (size_t i = 0; i < kMeasureCount; ++i) {
    if (text == kNames[i] || base::ParseInt(text) == static_cast<int64_t>(i)) {
      return static_cast<Measure>(i);
    }
  }
  return std::nullopt;
}

Status CheckMeasurable(const TensorView& mine, const TensorView& golden) {
  for (const DType dtype : {mine.dtype, golden.dtype}) {
    if (GetDTypeInfo(dtype).kind == DTypeKind::kComplex) {
      return UnsupportedError("these measures are not defined for complex numbers");
    }
  }
  return {};
}

VectorMeasures MeasureVectors(const TensorView& mine, const TensorView& golden) {
  VectorMeasures measures;
  measures.elements = static_cast<uint64_t>(mine.element_count());
  measures.values.fill(kNaN);
  if (measures.elements == 0) {
    measures.means = measures.deviations = {kNaN, kNaN};
    return measures;
  }
  SideSums m;
  SideSums g;
  double dot = 0;
  double absolute = 0;
  double max_absolute = 0;
  double squares = 0;
  double relative = 0;
  double max_relative = 0;
  kernels::ForEachPair<double>(mine, golden, [&](double x, double y) {
    m.Add(x);
    g.Add(y);
    dot += x * y;
    const double difference = std::fabs(x - y);
    absolute += difference;
    squares += difference * difference;
    max_absolute = LargerOrNaN(max_absolute, difference);
    const double ratio = y == 0 ? 0 : difference / std::fabs(y);
    relative += ratio;
    max_relative = LargerOrNaN(max_relative, ratio);
  });
  const auto count = static_cast<double>(measures.elements);
  measures.means = {m.sum / count, g.sum / count};
  double entropy = 0;
  kernels::ForEachPair<double>(mine, golden, [&](double x, double y) {
    m.deviations += (x - measures.means[0]) * (x - measures.means[0]);
    g.deviations += (y - measures.means[1]) * (y - measures.means[1]);
    const double p = m.Share(x);
    const double q = g.Share(y);
    m.shares += p;
    g.shares += q;
    entropy += p == q ? 0 : p * std::log(p / q);
  });
  measures.deviations = {std::sqrt(m.deviations / count), std::sqrt(g.deviations / count)};
  measures.zero = m.most == 0 && m.least == 0;
  measures.golden_zero = g.most == 0 && g.least == 0;
  const auto set = [&](Measure measure, double value) {
    measures.values[static_cast<size_t>(measure)] = value;
  };
  set(Measure::kCosine, measures.zero && measures.golden_zero
                            ? 1
                            : dot / (std::sqrt(m.squares) * std::sqrt(g.squares)));
  set(Measure::kMaxAbsolute, max_absolute);
  set(Measure::kAccumulatedRelative, relative);
  set(Measure::kRelativeEuclidean, measures.golden_zero ? 0 : std::sqrt(squares / g.squares));
  // Where an element is not finite there are no shares: std::max would have hidden it.
  set(Measure::kKullbackLeibler, std::isfinite(m.most - m.least) && std::isfinite(g.most - g.least)
                                     ? entropy / m.shares - std::log(m.shares / g.shares)
                                     : kNaN);
  set(Measure::kMeanAbsolute, absolute / count);
  set(Measure::kRootMeanSquare, std::sqrt(squares / count));
  set(Measure::kMaxRelative, max_relative);
  set(Measure::kMeanRelative, relative / count);
  return measures;
}

std::string MeasureText(const VectorMeasures& measures, Measure measure) {
  if (measures.elements == 0) {
    return "NaN";
  }
  if (measure == Measure::kStandardDeviation) {
    return fmt::format("({};{}),({};{})", NumberText(measures.means[0], 3),
                       NumberText(measures.deviations[0], 3), NumberText(measures.means[1], 3),
                       NumberText(measures.deviations[1], 3));
  }
  if (measure == Measure::kCosine && (measures.zero || measures.golden_zero)) {
    return measures.zero && measures.golden_zero ? "1.0" : "NaN";
  }
  return NumberText(measures.value(measure), 6);
}

bool IsGood(const VectorMeasures& measures) {
  if (measures.elements == 0) {
    return true;
  }
  const bool one_is_zero = measures.zero != measures.golden_zero;
  return !one_is_zero && measures.value(Measure::kCosine) > 0.99 &&
         measures.value(Measure::kRelativeEuclidean) < 0.05 &&
         measures.value(Measure::kKullbackLeibler) < 0.005 &&
         measures.value(Measure::kRootMeanSquare) < 1 && measures.value(Measure::kMeanRelative) < 1;
}

namespace {

// The table of a comparison of kernel dumps, as the vendor's tool writes it.

using report::Cell;

constexpr std::string_view kUnknown = "NaN";

std::vector<Measure> ChosenMeasures(const VectorOptions& options) {
  std::vector<Measure> measures = options.measures;
  for (size_t i = 0; options.measures.empty() && i < kMeasureCount; ++i) {
    measures.push_back(static_cast<Measure>(i));
  }
  return measures;
}

void AddSide(const VectorRow::Side& side, report::Table& table, std::vector<Cell>& cells) {
  cells.push_back(table.KeepText(side.op_name));
  cells.push_back(table.KeepText(side.dtype.empty() ? kUnknown : side.dtype));
  cells.push_back(table.KeepText(side.address ? fmt::format("{}", *side.address) : kUnknown));
}

std::string_view OverflowText(const std::optional<bool>& overflow) {
  return !overflow ? kUnknown : *overflow ? "YES" : "NO";
}

// <output>/result_<time>.csv: Index, OpType, NPUDump, DataType, Address, GroundTruth, DataType,
// Address, TensorIndex, Shape, [OverFlow,] the measures, CompareFailReason. "NaN" stands for what
// is not known, "*" for an operator that a side does not have. Returns its path.
Result<std::filesystem::path> WriteVectorTable(const VectorOptions& options,
                                               const std::vector<VectorRow>& rows) {
  const std::vector<Measure> measures = ChosenMeasures(options);
  std::vector<std::string> columns = {"Index",       "OpType",      "NPUDump",  "DataType",
                                      "Address",     "GroundTruth", "DataType", "Address",
                                      "TensorIndex", "Shape"};
  if (options.overflow) {
    columns.emplace_back("OverFlow");
  }
  for (const Measure measure : measures) {
    columns.emplace_back(MeasureName(measure));
  }
  columns.emplace_back("CompareFailReason");
  report::Table table("result", std::move(columns));
  for (const VectorRow& row : rows) {
    std::vector<Cell> cells;
    cells.push_back(Cell::Integer(static_cast<int64_t>(row.index)));
    cells.push_back(
        table.KeepText(row.op_type.empty() || row.tensor.empty() ? kUnknown : row.op_type));
    AddSide(row.mine, table, cells);
    AddSide(row.golden, table, cells);
    cells.push_back(table.KeepText(row.tensor.empty() ? kUnknown : row.tensor));
    cells.push_back(table.KeepText(row.mine.dtype.empty()
                                       ? std::string(kUnknown)
                                       : fmt::format("[{}]", fmt::join(row.shape, ","))));
    if (options.overflow) {
      cells.push_back(Cell::Text(OverflowText(row.overflow)));
    }
    for (const Measure measure : measures) {
      cells.push_back(table.KeepText(row.measures ? MeasureText(*row.measures, measure)
                                                  : std::string(kUnknown)));
    }
    cells.push_back(table.KeepText(base::Join(row.reasons, ",")));
    table.AddRow(cells);
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  MSP_ASSIGN_OR_RETURN(
      const std::vector<std::filesystem::path> files,
      report::WriteCsvParts(options.output / fmt::format("result_{}", stamp.text()), table,
                            SIZE_MAX));
  return files.front();
}

Result<OriginFinder> OriginFinder::Make(const FusionRuleFiles& files,
                                        const std::vector<VectorOperator>& reference) {
  OriginFinder finder;
  for (const std::filesystem::path* const path : {&files.network, &files.quantised}) {
    if (!path->empty()) {
      MSP_ASSIGN_OR_RETURN(FusionRules rules, FusionRules::Read(*path));
      finder.rules_.push_back(std::move(rules));
    }
  }
  if (!files.reference.empty()) {
    MSP_ASSIGN_OR_RETURN(const FusionRules rules, FusionRules::Read(files.reference));
    finder.golden_places_ = rules.ByOrigin();
  }
  for (const VectorOperator& op : reference) {
    finder.runs_[op.name].push_back(&op);
  }
  return finder;
}

const std::vector<const VectorOperator*>& OriginFinder::Runs(std::string_view name) const {
  static const std::vector<const VectorOperator*> kNone;
  const auto found = runs_.find(name);
  return found == runs_.end() ? kNone : found->second;
}

bool OriginFinder::HasRules(std::string_view op) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const FusionRules& rules) { return rules.has(op); });
}

std::optional<ReferencePlace> OriginFinder::InReference(const OutputPlace& origin,
                                                        size_t turn) const {
  if (const auto& runs = Runs(origin.op); turn < runs.size()) {
    return ReferencePlace{runs[turn], origin.output};
  }
  const auto fused = golden_places_.find(origin);
  if (fused == golden_places_.end()) {
    return std::nullopt;
  }
  const auto& runs = Runs(fused->second.op);
  return turn < runs.size() ? std::optional<ReferencePlace>({runs[turn], fused->second.output})
                            : std::nullopt;
}

std::optional<ReferencePlace> OriginFinder::Find(const OpenOperator& open, std::string_view op,
                                                 size_t turn, bool outputs, size_t number) const {
  std::optional<OutputPlace> origin;
  for (const FusionRules& rules : rules_) {
    std::optional<OutputPlace> further = origin    ? rules.Origin(origin->op, origin->output)
                                         : outputs ? rules.Origin(op, number)
                                                   : rules.InputOrigin(op, number);
    origin = further ? std::move(further) : std::move(origin);
  }
  const io::kernel_dump::DumpedTensor* const tensor = open.dumped(outputs, number);
  if (!origin && tensor != nullptr && tensor->origin) {
    origin = {io::kernel_dump::InFileNames(tensor->origin->op), tensor->origin->output};
  }
  return origin ? InReference(*origin, turn) : std::nullopt;
}

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
  kernels::NumberReader<float> numbers(view);
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

// The rows of one operator of the test.
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

  // Tensors of the reference beyond those of the operator of the test.
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

  // Files that were cut meanwhile have no result.
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
