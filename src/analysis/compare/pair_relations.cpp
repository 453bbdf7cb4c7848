// Which relation a row of a pair has to its partner.
//
// Both values are read from their files where the dump holds tensors, and relation.h says what the
// one is of the other; else the four statistics have to do. Where that finds nothing, the values of
// single ranks are asked (joined sides), and the reference's earlier values of the same name: of
// an earlier call of this step, and of the step before, whose dump is opened for that row alone.
#include "src/analysis/compare/pair_relations.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/dump/call_facts.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {
namespace {

// Errors of the inputs explain as much of what a relation leaves, and no more.
constexpr double kMostExplained = 0.02;
// Earlier calls of the reference that a value is held against.
constexpr size_t kMostEarlier = 8;

bool IsGradient(const SideRow& row) {
  return row.state == dump::RowState::kParametersGrad ||
         row.name.find(".backward.") != std::string_view::npos;
}

std::optional<FourStatistics> StatisticsOf(const SideRow& row) {
  for (const StatValue& value : row.stats) {
    if (!value.is_numeric()) {
      return std::nullopt;
    }
  }
  return FourStatistics{row.stats[kMax].number, row.stats[kMin].number, row.stats[kMean].number,
                        row.stats[kNorm].number, ElementCount(row.shape)};
}

// "gradient of fc1.weight", "fc1.weight", "output.0 of Functional.linear.0.forward".
std::string SubjectOf(const SideRow& row, std::string_view entry, const std::string& place) {
  const bool is_gradient = row.state == dump::RowState::kParametersGrad;
  const size_t section = entry.find(".parameters_grad");
  const dump::EntryName name = dump::ParseEntryName(
      section == std::string_view::npos
          ? entry
          : entry.substr(0, section + std::string_view(".parameters_grad").size()));
  const std::string_view argument = dump::ArgumentOf(entry, row.name);
  if (name.is_module && (is_gradient || row.state == dump::RowState::kParameters)) {
    const std::string_view parameter = argument.substr(argument.rfind('.') + 1);
    return fmt::format("{}{}.{}", is_gradient ? "gradient of " : "", name.subject, parameter);
  }
  return fmt::format("{} of {}", argument.empty() ? "the value" : argument, place);
}

std::optional<Elements> ElementsIn(const OpenTensor& tensor) {
  std::optional<Elements> elements = ElementsOf(tensor.view);
  if (elements && tensor.whole() != nullptr) {
    elements->read = [whole = tensor.changed->whole](int64_t first, std::span<double> values) {
      whole->Read(first, values);
      return true;
    };
  }
  return elements;
}

class RowRelations {
 public:
  explicit RowRelations(const RelationInput& input, CompareMode mode)
      : input_(input), mode_(mode), agreement_(input.noise, mode) {}

  // Whether earlier values are asked, and of what: a weight is the same in all calls of a step, so
  // that a call which takes that of an earlier one takes another's.
  enum class LookBack : uint8_t { kNo, kAtValues, kAtWeights };

  // `explained`: the relative error that inputs explain. `elements` grows by what was read.
  std::optional<PartRelation> Find(const SideRow& npu, const SideRow& bench, double explained,
                                   LookBack look_back, std::vector<int64_t>* ranks,
                                   int64_t* elements) const {
    if (!npu.is_tensor || !bench.is_tensor) {
      return std::nullopt;
    }
    RelationRequest request;
    request.tolerance = std::max(agreement_.Noise(npu, bench), std::min(explained, kMostExplained));
    request.is_gradient = IsGradient(npu);
    const auto found = mode_ == CompareMode::kRealData
                           ? OfTensors(npu, bench, request, look_back, ranks, elements)
                           : std::nullopt;
    if (found || read_) {
      return found;
    }
    return OfStatistics(npu, bench, request, look_back);
  }

 private:
  struct Opened {
    std::optional<OpenTensor> tensor;
    std::optional<Elements> elements;
  };

  Opened Open(bool of_npu, const Side& side, const SideRow& row, const TensorLoader* loader,
              std::vector<std::byte>* scratch) const {
    Opened opened;
    if (row.data_name == "-1" || row.data_name.empty()) {
      return opened;
    }
    Result<OpenTensor> tensor = OpenRow(side, of_npu, row, loader, scratch);
    if (tensor.ok()) {
      opened.tensor = *std::move(tensor);
      opened.elements = ElementsIn(*opened.tensor);
    }
    return opened;
  }

  std::optional<PartRelation> OfTensors(const SideRow& npu, const SideRow& bench,
                                        RelationRequest request, LookBack look_back,
                                        std::vector<int64_t>* ranks, int64_t* elements) const {
    std::vector<std::byte> npu_scratch;
    std::vector<std::byte> bench_scratch;
    const Opened n = Open(true, input_.npu, npu, input_.loader, &npu_scratch);
    const Opened b = Open(false, input_.bench, bench, input_.loader, &bench_scratch);
    if (!n.elements || !b.elements) {
      return std::nullopt;
    }
    read_ = true;
    if (elements != nullptr) {
      *elements += n.elements->count() + b.elements->count();
    }
    if (input_.parts != nullptr) {
      const Result<std::optional<PartSource::Parts>> parts = input_.parts->PartsOf(npu, bench);
      if (parts.ok() && *parts) {
        request.parts = (*parts)->reducing_ranks;
        RankParts of_ranks;
        of_ranks.reduced_again = (*parts)->reduced_again;
        for (const auto& [buffers, to] : {std::pair{&(*parts)->npu, &of_ranks.npu},
                                          std::pair{&(*parts)->bench, &of_ranks.bench}}) {
          for (const tensor::TensorBuffer& buffer : *buffers) {
            if (std::optional<Elements> part = ElementsOf(buffer.view())) {
              to->push_back(*std::move(part));
            }
          }
        }
        if (auto found = FindPartRelation(*n.elements, *b.elements, of_ranks, request)) {
          for (const size_t part : found->parts) {
            if (ranks != nullptr && part < (*parts)->npu_ranks.size()) {
              ranks->push_back((*parts)->npu_ranks[part]);
            }
          }
          return found;
        }
      }
    }
    if (auto found = FindRelation(*n.elements, *b.elements, request)) {
      return PartRelation{*std::move(found), {}};
    }
    if (look_back == LookBack::kNo) {
      return std::nullopt;
    }
    return OfEarlier(npu, bench, look_back, [&](const Side& side, const SideRow& row) {
      std::vector<std::byte> scratch;
      const bool is_of_pair = &side == &input_.bench;
      const Opened earlier = Open(false, side, row, is_of_pair ? input_.loader : nullptr, &scratch);
      return earlier.elements && HoldsSameValues(*n.elements, *earlier.elements, request.tolerance);
    });
  }

  std::optional<PartRelation> OfStatistics(const SideRow& npu, const SideRow& bench,
                                           const RelationRequest& request,
                                           LookBack look_back) const {
    const std::optional<FourStatistics> n = StatisticsOf(npu);
    const std::optional<FourStatistics> b = StatisticsOf(bench);
    if (!n || !b || npu.shape != bench.shape || !agreement_.IsFloating(npu)) {
      return std::nullopt;
    }
    const auto bits = [&](const SideRow& row) {
      const double epsilon = agreement_.Epsilon(row);
      return epsilon > 0 ? static_cast<int>(std::lround(-std::log2(epsilon))) : 52;
    };
    if (auto found = RelationOfStatistics(*n, *b, {bits(npu), bits(bench)}, request)) {
      return PartRelation{*std::move(found), {}};
    }
    if (look_back == LookBack::kNo || n->elements < 8 || n->max == n->min) {
      return std::nullopt;
    }
    return OfEarlier(npu, bench, look_back, [&](const Side&, const SideRow& row) {
      return mode_ == CompareMode::kMd5 ? row.md5 == npu.md5 : NearlyEqual(npu, row, 0);
    });
  }

  // The four statistics are equal up to noise: enough to look at the tensors, or all that there is.
  bool NearlyEqual(const SideRow& npu, const SideRow& row, double more) const {
    const Distance distance = StatisticsDistance(npu, row);
    return distance.comparable && !distance.nonfinite_differs &&
           distance.relative <= agreement_.Noise(npu, row) + more;
  }

  // The reference's earlier values of this name: of calls in front of this one, the nearest first,
  // and of the step before.
  template <typename IsSame>
  std::optional<PartRelation> OfEarlier(const SideRow& npu, const SideRow& bench,
                                        LookBack look_back, const IsSame& is_same) const {
    const std::string_view entry = input_.bench.entries[bench.entry].name;
    const dump::EntryName name = dump::ParseEntryName(entry);
    const std::string_view argument = dump::ArgumentOf(entry, bench.name);
    const auto stale = [](std::string what) {
      return PartRelation{
          {RelationKind::kStale, std::nullopt, std::move(what), "a value is used again?"}, {}};
    };
    const auto holds = [&](const Side& side, const SideRow& row) {
      return row.shape == npu.shape && row.dtype == bench.dtype &&
             NearlyEqual(npu, row, 4 * agreement_.Noise(npu, row)) && is_same(side, row);
    };
    if (name.call) {
      size_t looks = 0;
      for (uint32_t at = bench.entry; at-- > 0 && looks < kMostEarlier;) {
        const std::string_view other = input_.bench.entries[at].name;
        const dump::EntryName earlier = dump::ParseEntryName(other);
        if (earlier.kind != name.kind || earlier.subject != name.subject ||
            earlier.class_name != name.class_name || earlier.direction != name.direction ||
            !earlier.call || *earlier.call >= *name.call) {
          continue;
        }
        ++looks;
        const SideEntry& rows = input_.bench.entries[at];
        for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
          const SideRow& row = input_.bench.rows[i];
          if (dump::ArgumentOf(other, row.name) == argument && holds(input_.bench, row)) {
            PartRelation found =
                stale(fmt::format("the value in call {}, not {}, of", *earlier.call, *name.call));
            if (look_back == LookBack::kAtWeights) {
              found.relation.kind = RelationKind::kWrongPart;
              found.relation.cause = "another's weights?";
            }
            return found;
          }
        }
      }
    }
    if (input_.bench_before.empty()) {
      return std::nullopt;
    }
    SideOptions options;
    options.keep_entry = [&](std::string_view kept) { return kept == entry; };
    const Result<Side> before = LoadSide(input_.bench_before, options);
    if (before.ok()) {
      for (const SideRow& row : before->rows) {
        if (row.name == bench.name && holds(*before, row)) {
          return stale("the value in the step before of");
        }
      }
    }
    return std::nullopt;
  }

  const RelationInput& input_;
  const CompareMode mode_;
  const Agreement agreement_;
  mutable bool read_ = false;  // the tensors: statistics say no more
};

// The bench row of a point: paired by name, by the order of calls, or of another shape.
const SideRow* BenchRowOf(const RelationInput& input, const PairResult& result,
                          const DivergencePoint& point) {
  const RowPair& pair = result.rows[point.row].pair;
  const SideRow& npu = input.npu.rows[pair.npu];
  if (pair.bench != kNoRow &&
      (point.bench_entry_name.empty() ||
       input.bench.entries[input.bench.rows[pair.bench].entry].name == point.bench_entry_name)) {
    return &input.bench.rows[pair.bench];
  }
  const std::string_view argument = dump::ArgumentOf(input.npu.entries[npu.entry].name, npu.name);
  for (const SideEntry& entry : input.bench.entries) {
    if (point.bench_entry_name.empty() ? entry.name != point.entry_name
                                       : entry.name != point.bench_entry_name) {
      continue;
    }
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      if (dump::ArgumentOf(entry.name, input.bench.rows[i].name) == argument) {
        return &input.bench.rows[i];
      }
    }
  }
  return nullptr;
}

// "Functional.linear.0.forward", or the layer of a module's own entry.
std::string PlaceOf(const DivergencePoint& point) {
  return point.layer.empty() || point.parent_module.empty()
             ? point.layer.empty() ? point.entry_name : point.layer
             : fmt::format("{} in {}", point.entry_name, point.layer);
}

}  // namespace

void AddRelations(const RelationInput& input, const PairResult& result, DivergenceReport& report) {
  for (std::optional<DivergencePoint>& point : report.first_of_kind) {
    if (!point || point->kind == OriginKind::kUnmatchedCall ||
        point->kind == OriginKind::kReplica || point->argument) {
      continue;
    }
    const SideRow& npu = input.npu.rows[result.rows[point->row].pair.npu];
    const SideRow* const bench = BenchRowOf(input, result, *point);
    if (bench == nullptr) {
      continue;
    }
    std::optional<PartRelation> found =
        RowRelations(input, result.mode)
            .Find(npu, *bench, point->explained_error,
                  point->kind == OriginKind::kParameter ? RowRelations::LookBack::kAtWeights
                                                        : RowRelations::LookBack::kAtValues,
                  &point->ranks, nullptr);
    if (!found) {
      continue;
    }
    point->relation = std::move(found->relation);
    point->relation->subject = SubjectOf(npu, input.npu.entries[npu.entry].name, PlaceOf(*point));
    if (report.first_origin && report.first_origin->kind == point->kind) {
      report.first_origin->relation = point->relation;
      report.first_origin->ranks = point->ranks;
    }
  }
}

uint64_t AddRowRelations(const RelationInput& input, const DivergenceReport& report,
                         base::ThreadPool& pool, PairResult& result) {
  result.relations.assign(result.rows.size(), {});
  std::vector<uint32_t> rows;
  int64_t elements = 0;
  uint64_t left_out = 0;
  for (uint32_t i = 0; i < result.rows.size(); ++i) {
    const RowPair& pair = result.rows[i].pair;
    if (pair.bench == kNoRow || report.rows[i] < RowStatus::kDrifts) {
      continue;
    }
    const double count =
        result.mode == CompareMode::kRealData ? ElementCount(input.npu.rows[pair.npu].shape) : 1;
    if (elements + static_cast<int64_t>(std::min(count, 0x1p40)) > kMostRelationElements &&
        !rows.empty()) {
      ++left_out;
      continue;
    }
    elements += static_cast<int64_t>(std::min(count, 0x1p40));
    rows.push_back(i);
  }
  std::vector<std::string> texts(rows.size());
  pool.ParallelFor(rows.size(), [&](size_t item, size_t) {
    const RowPair& pair = result.rows[rows[item]].pair;
    const std::optional<PartRelation> found =
        RowRelations(input, result.mode)
            .Find(input.npu.rows[pair.npu], input.bench.rows[pair.bench], 0,
                  RowRelations::LookBack::kNo, nullptr, nullptr);
    if (found) {
      texts[item] = found->relation.text();
    }
  });
  for (size_t item = 0; item < rows.size(); ++item) {
    if (!texts[item].empty()) {
      result.relations[rows[item]] = result.arena->Keep(texts[item]);
    }
  }
  return left_out;
}

}  // namespace msprobe::analysis::compare
