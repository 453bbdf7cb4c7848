#include "src/analysis/ckpt/causes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/compare_pairs.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/io/coded/coded_tensor.h"
#include "src/kernels/convert.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Parameter;
using checkpoint::Piece;

constexpr size_t kSampledRows = 16;
constexpr int64_t kSampledColumns = 2048;
// What folders of one step are called, with its number behind.
constexpr std::string_view kStepPrefixes[] = {"checkpoint-", "checkpoint_", "iter_",
                                              "step",        "global_step", "epoch"};

// Elements of a few rows, as doubles, with the bounds of codes and of the dtype.
struct Sample {
  std::vector<double> values;
  std::vector<double> bounds;
  int64_t columns = 0;  // of each row
  bool is_coded = false;

  size_t rows() const { return columns == 0 ? 0 : values.size() / static_cast<size_t>(columns); }
  std::span<const double> Row(size_t row) const {
    return std::span(values).subspan(row * static_cast<size_t>(columns),
                                     static_cast<size_t>(columns));
  }
  std::span<const double> RowBounds(size_t row) const {
    return std::span(bounds).subspan(row * static_cast<size_t>(columns),
                                     static_cast<size_t>(columns));
  }
};

// Half the gap of the dtype at a value; 0 for what is not rounded.
double HalfGapOf(DType dtype, double value) {
  if (!std::isfinite(value)) {
    return 0;
  }
  switch (dtype) {
    case DType::kBFloat16:
      return std::ldexp(std::max(std::fabs(value), 0x1p-126), -8);
    case DType::kFloat16:
      return std::ldexp(std::max(std::fabs(value), 0x1p-14), -11);
    case DType::kFloat32:
      return std::ldexp(std::max(std::fabs(value), 0x1p-126), -24);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
      return std::ldexp(std::max(std::fabs(value), 0x1p-6), -4);
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return std::ldexp(std::max(std::fabs(value), 0x1p-14), -3);
    default:
      return 0;
  }
}

// One row of a parameter: all axes but the last at one index. Reads through pieces of any kind.
void ReadRow(const Parameter& parameter, const Shape& index, int64_t columns, DType partner,
             Sample& sample) {
  const size_t rank = parameter.shape.size();
  const size_t begin = sample.values.size();
  sample.values.resize(begin + static_cast<size_t>(columns));
  sample.bounds.resize(begin + static_cast<size_t>(columns));
  std::vector<float> decoded(2);
  for (const Piece& piece : parameter.pieces) {
    bool is_in = true;
    int64_t place = 0;
    for (size_t axis = 0; axis + 1 < rank; ++axis) {
      const int64_t at = index[axis] - piece.offset[axis];
      is_in = is_in && at >= 0 && at < piece.view.shape[axis];
      place += at * piece.view.strides[axis];
    }
    const int64_t first = rank == 0 ? 0 : piece.offset[rank - 1];
    const int64_t length = rank == 0 ? 1 : piece.view.shape[rank - 1];
    const int64_t stride = rank == 0 ? 1 : piece.view.strides[rank - 1];
    if (!is_in || first >= columns) {
      continue;
    }
    const int64_t count = std::min(length, columns - first);
    double* values = sample.values.data() + begin + first;
    double* bounds = sample.bounds.data() + begin + first;
    if (piece.coded != nullptr) {
      sample.is_coded = true;
      const int64_t run = stride == 1 ? count : 1;
      decoded.resize(static_cast<size_t>(2 * run));
      for (int64_t at = 0; at < count; at += run) {
        piece.coded->Decode(piece.coded_first + place + at * stride, static_cast<size_t>(run),
                            partner, decoded.data(), decoded.data() + run);
        std::copy_n(decoded.data(), run, values + at);
        std::copy_n(decoded.data() + run, run, bounds + at);
      }
      continue;
    }
    TensorView row = piece.view;
    const size_t skipped = static_cast<size_t>(place) * DTypeSize(row.dtype);
    row.data += skipped;
    row.extent_bytes -= skipped;
    row.shape = {count};
    row.strides = {stride};
    std::vector<std::byte> stored(static_cast<size_t>(count) * DTypeSize(row.dtype));
    tensor::CopyElements(row, 0, count, stored.data());
    kernels::WidenToDouble(row.dtype, stored, {values, static_cast<size_t>(count)});
    for (int64_t i = 0; i < count; ++i) {
      bounds[i] = HalfGapOf(row.dtype, values[i]);
    }
  }
}

// Indices of rows, spread over the parameter: the last ones and the first ones among them.
std::vector<Shape> RowsToSample(const Shape& shape, size_t most) {
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < shape.size(); ++axis) {
    rows *= shape[axis];
  }
  std::vector<Shape> indices;
  const auto count = std::min(static_cast<int64_t>(most), rows);
  for (int64_t i = 0; i < count; ++i) {
    // Not a multiple of any usual block, so that rows of all kinds are among them.
    int64_t row = count == 1 ? 0 : i * (rows - 1) / (count - 1);
    Shape index(shape.size(), 0);
    for (size_t axis = shape.size() < 2 ? 0 : shape.size() - 1; axis-- > 0;) {
      index[axis] = row % shape[axis];
      row /= shape[axis];
    }
    indices.push_back(std::move(index));
  }
  return indices;
}

Sample TakeSample(const Parameter& parameter, DType partner, size_t most_rows = kSampledRows,
                  int64_t most_columns = kSampledColumns) {
  Sample sample;
  if (!parameter.status.ok() || parameter.element_count() == 0) {
    return sample;
  }
  sample.columns = parameter.shape.empty() ? 1 : std::min(parameter.shape.back(), most_columns);
  for (const Shape& index : RowsToSample(parameter.shape, most_rows)) {
    ReadRow(parameter, index, sample.columns, partner, sample);
  }
  return sample;
}

bool Agree(double a, double b, double bound_a, double bound_b, bool coded, bool same_dtype) {
  if (a == b || (std::isnan(a) && std::isnan(b))) {
    return true;
  }
  const double bound = coded ? bound_a + bound_b : same_dtype ? 0 : std::max(bound_a, bound_b);
  return std::fabs(a - b) <= bound;
}

// Early out: most samples differ in their first elements.
bool AllAgree(const Sample& a, const Sample& b, bool same_dtype) {
  if (a.values.size() != b.values.size() || a.values.empty()) {
    return false;
  }
  const bool coded = a.is_coded || b.is_coded;
  for (size_t i = 0; i < a.values.size(); ++i) {
    // Where one side is codes, a plain one has no bound.
    if (!Agree(a.values[i], b.values[i], coded && !a.is_coded ? 0 : a.bounds[i],
               coded && !b.is_coded ? 0 : b.bounds[i], coded, same_dtype)) {
      return false;
    }
  }
  return true;
}

bool IsZero(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
}

bool IsMerged(const Parameter& parameter) {
  return std::any_of(parameter.pieces.begin(), parameter.pieces.end(), [](const Piece& piece) {
    return piece.coded != nullptr && !piece.coded->OtherReadings().empty() &&
           piece.coded->OtherReadings().front().cause == "adapter_not_merged";
  });
}

// The last two axes exchanged.
std::optional<Parameter> Turned(const Parameter& source) {
  const size_t rank = source.shape.size();
  if (rank < 2) {
    return std::nullopt;
  }
  Parameter turned = source;
  std::swap(turned.shape[rank - 1], turned.shape[rank - 2]);
  for (Piece& piece : turned.pieces) {
    std::swap(piece.offset[rank - 1], piece.offset[rank - 2]);
    std::swap(piece.view.shape[rank - 1], piece.view.shape[rank - 2]);
    std::swap(piece.view.strides[rank - 1], piece.view.strides[rank - 2]);
  }
  std::stable_sort(turned.pieces.begin(), turned.pieces.end(),
                   [](const Piece& x, const Piece& y) { return x.offset < y.offset; });
  return turned;
}

// The parts of an axis in another order.
std::optional<Parameter> Reordered(const Parameter& source, size_t axis,
                                   const std::vector<int64_t>& begins,
                                   const std::vector<int64_t>& lengths) {
  std::vector<Parameter> parts;
  for (size_t i = 0; i < begins.size(); ++i) {
    Result<Parameter> part = checkpoint::Slice(source, axis, begins[i], lengths[i]);
    if (!part.ok()) {
      return std::nullopt;
    }
    parts.push_back(*std::move(part));
  }
  Result<Parameter> joined = checkpoint::Concatenate(parts, axis);
  return joined.ok() ? std::optional(*std::move(joined)) : std::nullopt;
}

// Names of parameters that hold several parts side by side.
bool IsJoined(std::string_view name) {
  for (const std::string_view part :
       {"qkv", "gate_up", "linear_fc1", "query_key_value", "c_attn", "experts", "w13", "kv_proj"}) {
    if (name.find(part) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// Hypotheses about one pair.
class PairCauses {
 public:
  PairCauses(const MatchedPair& pair, const std::array<Checkpoint, 2>& both, base::ThreadPool& pool)
      : pair_(pair),
        both_(both),
        pool_(pool),
        a_(TakeSample(pair.a, pair.b.dtype)),
        b_(TakeSample(pair.b, pair.a.dtype)) {
    LookAtRows();
  }

  // A cause, or nothing; `note` says more.
  std::string Find(std::string& note) {
    for (const auto& test : {&PairCauses::Contradicted, &PairCauses::Adapter, &PairCauses::Reading,
                             &PairCauses::Zeroed, &PairCauses::Cast, &PairCauses::TurnedOver,
                             &PairCauses::OtherOrder}) {
      if (std::string cause = (this->*test)(note); !cause.empty()) {
        return cause;
      }
    }
    return "";
  }

  std::string FindOfShapes(std::string& note) {
    for (const auto& test : {&PairCauses::TurnedOver, &PairCauses::MissingRows}) {
      if (std::string cause = (this->*test)(note); !cause.empty()) {
        return cause;
      }
    }
    return "";
  }

  // Whether the whole agrees when one side is replaced.
  bool Confirm(const Parameter& a, const Parameter& b) {
    const MatchedPair trial{pair_.name, a, b, {}};
    const std::vector<PairResult> results =
        ComparePairs(std::span(&trial, 1), both_[0].files, both_[1].files, PairSettings(), pool_);
    return results.front().computed() && results.front().outcome <= Outcome::kRounding;
  }

  bool Try(const Parameter& a, const Parameter& b) {
    if (a.shape != b.shape) {
      return false;
    }
    const Sample sample_a = TakeSample(a, b.dtype);
    const Sample sample_b = TakeSample(b, a.dtype);
    return AllAgree(sample_a, sample_b, SameFormat(a, b)) &&
           !(IsZero(sample_a.values) && IsZero(sample_b.values)) && Confirm(a, b);
  }

  // Scales wrong in places, or everywhere by a factor.
  std::string Scales(std::string& note);
  // Whether those scales are off by a few hundredths in a few places, as compensated errors may
  // look.
  bool are_scales_near() const { return are_scales_near_; }
  // GPTQ and AWQ move values beyond rounding on purpose.
  std::string Calibrated(std::string& note);

  // Whether an element of a run differs by more than rounding explains.
  bool IsBeyond(size_t row, size_t at, size_t size) const {
    const bool coded = a_.is_coded || b_.is_coded;
    const size_t begin = row * static_cast<size_t>(a_.columns) + at;
    for (size_t i = begin; i < begin + size; ++i) {
      if (!Agree(a_.values[i], b_.values[i], coded && !a_.is_coded ? 0 : a_.bounds[i],
                 coded && !b_.is_coded ? 0 : b_.bounds[i], coded, SameFormat(pair_.a, pair_.b))) {
        return true;
      }
    }
    return false;
  }

  static bool SameFormat(const Parameter& a, const Parameter& b) {
    return checkpoint::FormatOf(a) == checkpoint::FormatOf(b);
  }

 private:
  // Whether rows are zero on one side, or have nothing to do with each other. Neither is so for two
  // steps of a training, of which all parameters differ: they are looked at no further.
  void LookAtRows() {
    constexpr size_t kRows = 64;
    constexpr int64_t kColumns = 128;
    const Sample a = TakeSample(pair_.a, pair_.b.dtype, kRows, kColumns);
    const Sample b = TakeSample(pair_.b, pair_.a.dtype, kRows, kColumns);
    if (a.columns != b.columns || a.values.size() != b.values.size()) {
      has_other_rows_ = true;
      return;
    }
    for (size_t row = 0; row < a.rows(); ++row) {
      double product = 0;
      double square_a = 0;
      double square_b = 0;
      for (size_t i = 0; i < a.Row(row).size(); ++i) {
        product += a.Row(row)[i] * b.Row(row)[i];
        square_a += a.Row(row)[i] * a.Row(row)[i];
        square_b += b.Row(row)[i] * b.Row(row)[i];
      }
      has_zero_rows_ = has_zero_rows_ || (square_a == 0) != (square_b == 0);
      const bool is_alike = product * product > 0.36 * square_a * square_b;
      has_other_rows_ =
          has_other_rows_ || (!is_alike && square_a + square_b > 0) || pair_.a.shape.size() < 2;
    }
  }

  std::string Contradicted(std::string& note) {
    for (const Parameter* side : {&pair_.a, &pair_.b}) {
      for (const Piece& piece : side->pieces) {
        if (piece.coded != nullptr && !piece.coded->contradiction().empty()) {
          note.clear();  // it is among the notes of its side
          return piece.coded->contradiction();
        }
      }
    }
    return "";
  }

  // B A times another factor: the least squares tell which.
  std::string Adapter(std::string& note) {
    for (const bool first : {true, false}) {
      const Parameter& merged = first ? pair_.a : pair_.b;
      const Parameter& other = first ? pair_.b : pair_.a;
      if (!IsMerged(merged)) {
        continue;
      }
      const std::optional<Parameter> base = WithReading(merged, 0);
      if (base && Try(first ? *base : other, first ? other : *base)) {
        note = "equal to the base weight without the adapter";
        return "adapter_not_merged";
      }
      if (!base) {
        continue;
      }
      const Sample with = TakeSample(merged, other.dtype);
      const Sample without = TakeSample(*base, other.dtype);
      const Sample target = TakeSample(other, merged.dtype);
      if (with.values.size() != target.values.size() ||
          without.values.size() != target.values.size()) {
        continue;
      }
      double product = 0;
      double square = 0;
      for (size_t i = 0; i < target.values.size(); ++i) {
        const double delta = with.values[i] - without.values[i];
        product += delta * (target.values[i] - without.values[i]);
        square += delta * delta;
      }
      const double factor = square == 0 ? 1 : product / square;
      size_t agreeing = 0;
      for (size_t i = 0; i < target.values.size(); ++i) {
        const double delta = with.values[i] - without.values[i];
        const double bound =
            with.bounds[i] * (1 + std::fabs(factor)) + HalfGapOf(other.dtype, target.values[i]);
        agreeing +=
            std::fabs(target.values[i] - without.values[i] - factor * delta) <= 2 * bound ? 1 : 0;
      }
      if (agreeing * 100 >= target.values.size() * 98 && std::fabs(factor - 1) > 0.001) {
        note =
            fmt::format("the adapter was added {:.4g} times as strong as its config says", factor);
        return std::fabs(factor) < 0.001 ? "adapter_not_merged" : "adapter_scale";
      }
    }
    return "";
  }

  // The parameter with its codes read in another way; nullopt where the format has no such way.
  static std::optional<Parameter> WithReading(const Parameter& source, size_t number) {
    Parameter other = source;
    bool is_changed = false;
    for (Piece& piece : other.pieces) {
      if (piece.coded == nullptr) {
        continue;
      }
      std::vector<io::CodedTensor::Reading> readings = piece.coded->OtherReadings();
      if (number >= readings.size()) {
        return std::nullopt;
      }
      piece.coded = std::move(readings[number].tensor);
      is_changed = true;
    }
    return is_changed ? std::optional(std::move(other)) : std::nullopt;
  }

  static std::vector<std::string> ReadingsOf(const Parameter& side) {
    for (const Piece& piece : side.pieces) {
      if (piece.coded != nullptr) {
        std::vector<std::string> causes;
        for (const io::CodedTensor::Reading& reading : piece.coded->OtherReadings()) {
          causes.push_back(reading.cause);
        }
        return causes;
      }
    }
    return {};
  }

  std::string Reading(std::string& note) {
    for (const bool first : {true, false}) {
      const Parameter& coded = first ? pair_.a : pair_.b;
      const Parameter& other = first ? pair_.b : pair_.a;
      const std::vector<std::string> causes = ReadingsOf(coded);
      for (size_t i = 0; i < causes.size(); ++i) {
        const std::optional<Parameter> reading = WithReading(coded, i);
        if (reading && Try(first ? *reading : other, first ? other : *reading)) {
          note = fmt::format("agrees where the codes of the {} are read with this mistake",
                             first ? "test" : "reference");
          return causes[i];
        }
      }
    }
    return "";
  }

  // Rows that are zero on one side only.
  std::string Zeroed(std::string& note) {
    if (pair_.a.shape.empty() || pair_.a.shape != pair_.b.shape) {
      return "";
    }
    const int64_t rows = pair_.a.shape[0];
    const auto is_lost = [&](int64_t row, bool* of_a) {
      const Result<Parameter> a = checkpoint::Slice(pair_.a, 0, row, 1);
      const Result<Parameter> b = checkpoint::Slice(pair_.b, 0, row, 1);
      if (!a.ok() || !b.ok()) {
        return false;
      }
      const bool zero_a = IsZero(TakeSample(*a, b->dtype, 2, 512).values);
      const bool zero_b = IsZero(TakeSample(*b, a->dtype, 2, 512).values);
      *of_a = zero_a;
      return zero_a != zero_b;
    };
    constexpr int64_t kProbes = 64;
    const int64_t step = std::max<int64_t>(rows / kProbes, 1);
    int64_t found = -1;
    bool of_a = false;
    for (int64_t row = rows - 1; row >= 0 && found < 0; row -= step) {
      if (is_lost(row, &of_a)) {
        found = row;
      }
    }
    if (found < 0) {
      return "";
    }
    bool ignored = false;
    int64_t begin = found;
    while (begin > 0 && is_lost(begin - 1, &ignored) && ignored == of_a) {
      --begin;
    }
    int64_t end = found + 1;
    while (end < rows && is_lost(end, &ignored) && ignored == of_a) {
      ++end;
    }
    for (const auto& [first, count] : {std::pair(int64_t{0}, begin), std::pair(end, rows - end)}) {
      if (count == 0) {
        continue;
      }
      const Result<Parameter> a = checkpoint::Slice(pair_.a, 0, first, count);
      const Result<Parameter> b = checkpoint::Slice(pair_.b, 0, first, count);
      if (!a.ok() || !b.ok() || !Confirm(*a, *b)) {
        return "";
      }
    }
    note =
        fmt::format("rows {}-{} of the {} are zero", begin, end - 1, of_a ? "test" : "reference");
    return IsPart(begin, end, rows) ? "part_missing" : "truncated";
  }

  // Whether the rows are one of the parts that the parameter joins.
  bool IsPart(int64_t begin, int64_t end, int64_t rows) const {
    if (begin == 0 && end == rows) {
      return true;
    }
    if (!IsJoined(pair_.name)) {
      return false;
    }
    const int64_t count = end - begin;
    for (const int64_t parts : PartCounts(rows)) {
      if (rows % parts == 0 && count % (rows / parts) == 0 && begin % (rows / parts) == 0) {
        return true;
      }
    }
    return false;
  }

  // The numbers of parts that rows may consist of.
  std::vector<int64_t> PartCounts(int64_t rows) const {
    std::vector<int64_t> counts = {2, 3, 4, 8};
    for (const Checkpoint& side : both_) {
      for (const std::optional<int64_t>& count :
           {side.facts.experts, side.facts.attention_heads, side.facts.query_groups}) {
        if (count) {
          counts.push_back(*count);
        }
      }
    }
    if (pair_.a.shape.size() > 2) {
      counts.push_back(rows);
    }
    for (const int64_t count : {16, 32, 64}) {
      counts.push_back(count);
    }
    std::erase_if(counts, [&](int64_t count) {
      return count < 2 || count > 512 || count > rows || rows % count != 0;
    });
    return counts;
  }

  // Rows that one side does not have.
  std::string MissingRows(std::string& note) {
    const Shape& a = pair_.a.shape;
    const Shape& b = pair_.b.shape;
    if (a.size() != b.size() || a.empty()) {
      return "";
    }
    for (size_t axis = 0; axis < a.size(); ++axis) {
      Shape other = a;
      other[axis] = b[axis];
      if (other != b) {
        continue;
      }
      const int64_t count = std::min(a[axis], b[axis]);
      const int64_t whole = std::max(a[axis], b[axis]);
      const bool of_a = a[axis] < b[axis];
      // The rows that are there may be the first ones, or any other part.
      std::vector<int64_t> begins = {0, whole - count};
      if (count > 0 && whole % count == 0) {
        for (int64_t begin = count; begin + count < whole && begins.size() < 64; begin += count) {
          begins.push_back(begin);
        }
      }
      for (const int64_t begin : begins) {
        const Result<Parameter> part =
            checkpoint::Slice(of_a ? pair_.b : pair_.a, axis, begin, count);
        if (count > 0 && part.ok() && Try(of_a ? pair_.a : *part, of_a ? *part : pair_.b)) {
          note = fmt::format("the {} has {} of {} {}", of_a ? "test" : "reference", count, whole,
                             axis == 0 ? "rows" : fmt::format("indices of axis {}", axis));
          const bool is_part = begin != 0 || (IsJoined(pair_.name) &&
                                              whole % std::max<int64_t>(whole - count, 1) == 0);
          return is_part ? "part_missing" : "truncated";
        }
      }
    }
    return "";
  }

  // Plain values that were rounded to a narrower dtype on their way.
  std::string Cast(std::string& note) {
    if (a_.is_coded || b_.is_coded || a_.values.size() != b_.values.size()) {
      return "";
    }
    for (const bool first : {true, false}) {
      const Sample& source = first ? b_ : a_;
      const Sample& cast = first ? a_ : b_;
      for (const DType dtype :
           {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2}) {
        if (dtype == (first ? pair_.a : pair_.b).dtype) {
          continue;
        }
        size_t changed = 0;
        bool fits = true;
        for (size_t i = 0; i < cast.values.size() && fits; ++i) {
          const double rounded = Rounded(dtype, source.values[i]);
          fits = rounded == cast.values[i] || (std::isnan(rounded) && std::isnan(cast.values[i]));
          changed += source.values[i] != cast.values[i] ? 1 : 0;
        }
        if (fits && changed > 0) {
          note = fmt::format("values of the {} went through {}", first ? "test" : "reference",
                             DTypeName(dtype));
          return "dtype_cast";
        }
      }
    }
    return "";
  }

  static double Rounded(DType dtype, double value) {
    const auto single = static_cast<float>(value);
    switch (dtype) {
      case DType::kBFloat16:
        return tensor::BFloat16ToFloat(tensor::FloatToBFloat16(single));
      case DType::kFloat16:
        return tensor::Float16ToFloat(tensor::FloatToFloat16(single));
      default: {
        // The nearest of 256; what lies outside is saturated.
        double best = 0;
        double least = std::numeric_limits<double>::infinity();
        for (unsigned code = 0; code < 256; ++code) {
          const double number = dtype == DType::kFloat8E4M3FN
                                    ? tensor::Float8E4M3FNToFloat(static_cast<uint8_t>(code))
                                    : tensor::Float8E5M2ToFloat(static_cast<uint8_t>(code));
          const double apart = std::fabs(number - value);
          if (std::isfinite(number) && (apart < least || (apart == least && code % 2 == 0))) {
            least = apart;
            best = number;
          }
        }
        return best;
      }
    }
  }

  std::string TurnedOver(std::string& note) {
    const std::optional<Parameter> turned = Turned(pair_.a);
    if (turned && turned->shape == pair_.b.shape && Try(*turned, pair_.b)) {
      note = "one of the two is the other one transposed";
      return "transposed";
    }
    return "";
  }

  std::string OtherOrder(std::string& note) {
    const size_t rank = pair_.a.shape.size();
    if (rank == 0 || pair_.a.shape != pair_.b.shape) {
      return "";
    }
    std::vector<size_t> axes = {0};
    if (rank > 1) {
      axes.push_back(rank - 1);
    }
    if (rank > 2) {
      axes.push_back(rank - 2);
    }
    for (const size_t axis : axes) {
      const int64_t length = pair_.a.shape[axis];
      for (const int64_t count : PartCounts(length)) {
        const std::vector<int64_t> order = OrderOfParts(axis, count);
        if (order.empty()) {
          continue;
        }
        std::vector<int64_t> begins;
        for (const int64_t part : order) {
          begins.push_back(part * (length / count));
        }
        const std::optional<Parameter> moved =
            Reordered(pair_.b, axis, begins, std::vector<int64_t>(order.size(), length / count));
        if (moved && Confirm(pair_.a, *moved)) {
          note = fmt::format("{} parts along axis {} lie in another order", count, axis);
          return "part_order";
        }
      }
      if (std::string cause = Interleaved(axis, note); !cause.empty()) {
        return cause;
      }
    }
    return "";
  }

  // For each part of the first side the part of the second one that begins as it does. Empty where
  // some part has none, or all lie where they belong.
  std::vector<int64_t> OrderOfParts(size_t axis, int64_t count) const {
    const int64_t size = pair_.a.shape[axis] / count;
    const auto probe = [&](const Parameter& side, int64_t part, DType partner) {
      const Result<Parameter> slice = checkpoint::Slice(side, axis, part * size, size);
      return slice.ok() ? TakeSample(*slice, partner, 3, 256) : Sample();
    };
    // Taken when they are needed: where the first part has no counterpart, few are.
    std::vector<std::optional<Sample>> of_b(static_cast<size_t>(count));
    const auto part_of_b = [&](int64_t part) -> const Sample& {
      std::optional<Sample>& sample = of_b[static_cast<size_t>(part)];
      return sample ? *sample : sample.emplace(probe(pair_.b, part, pair_.a.dtype));
    };
    const bool same = SameFormat(pair_.a, pair_.b);
    std::vector<int64_t> order;
    std::vector<bool> used(static_cast<size_t>(count), false);
    bool is_moved = false;
    for (int64_t part = 0; part < count; ++part) {
      const Sample of_a = probe(pair_.a, part, pair_.b.dtype);
      int64_t match = -1;
      for (int64_t i = 0; i < count && match < 0; ++i) {
        // Its own place first.
        const int64_t candidate = (part + i) % count;
        if (!used[static_cast<size_t>(candidate)] && AllAgree(of_a, part_of_b(candidate), same)) {
          match = candidate;
        }
      }
      if (match < 0) {
        return {};
      }
      used[static_cast<size_t>(match)] = true;
      is_moved = is_moved || match != part;
      order.push_back(match);
    }
    return is_moved ? order : std::vector<int64_t>();
  }

  // Rows of two halves taken in turn, within the whole or within each head.
  std::string Interleaved(size_t axis, std::string& note) {
    const int64_t length = pair_.a.shape[axis];
    std::vector<int64_t> groups = {1};
    for (const int64_t count : PartCounts(length)) {
      groups.push_back(count);
    }
    for (const int64_t group_count : groups) {
      const int64_t group = length / group_count;
      if (group % 2 != 0 || group < 4) {
        continue;
      }
      for (const bool of_a : {true, false}) {
        const Parameter& mixed = of_a ? pair_.a : pair_.b;
        const Parameter& other = of_a ? pair_.b : pair_.a;
        const std::optional<Parameter> sorted = Deinterleaved(mixed, axis, group_count);
        if (sorted && Try(of_a ? *sorted : other, of_a ? other : *sorted)) {
          note = fmt::format("rows of two halves lie in turn on axis {} of the {}", axis,
                             of_a ? "test" : "reference");
          return "part_order";
        }
      }
    }
    return "";
  }

  // Index h of half p of a group taken from place 2 h + p.
  static std::optional<Parameter> Deinterleaved(const Parameter& source, size_t axis,
                                                int64_t groups) {
    if (source.pieces.size() != 1) {
      return std::nullopt;
    }
    const Piece& whole = source.pieces.front();
    Parameter result = source;
    result.pieces.clear();
    const int64_t half = source.shape[axis] / groups / 2;
    for (int64_t group = 0; group < groups; ++group) {
      for (int64_t part = 0; part < 2; ++part) {
        Piece piece = whole;
        piece.Advance((group * 2 * half + part) * whole.view.strides[axis]);
        piece.offset[axis] = (group * 2 + part) * half;
        piece.view.shape[axis] = half;
        piece.view.strides[axis] = 2 * whole.view.strides[axis];
        result.pieces.push_back(std::move(piece));
      }
    }
    return result;
  }

  const MatchedPair& pair_;
  const std::array<Checkpoint, 2>& both_;
  base::ThreadPool& pool_;
  bool are_scales_near_ = false;
  Sample a_;
  Sample b_;
  bool has_zero_rows_ = false;
  bool has_other_rows_ = false;
};

struct Fit {
  double ratio = 1;     // a in units of b
  double offset = 0;    // of a from that
  double residual = 0;  // what is left, relative to a (or to its deviations)
};

// a = ratio b
Fit FitRun(std::span<const double> a, std::span<const double> b) {
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    square_a += a[i] * a[i];
    square_b += b[i] * b[i];
  }
  if (square_a == 0 || square_b == 0) {
    return {square_a == square_b ? 1.0 : 0.0, 0, 0};
  }
  const double ratio = product / square_b;
  return {ratio, 0, std::sqrt(std::max(square_a - product * ratio, 0.0) / square_a)};
}

// a = ratio b + offset
Fit FitLine(std::span<const double> a, std::span<const double> b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  std::vector<double> x;
  std::vector<double> y;
  for (size_t i = 0; i < a.size(); ++i) {
    x.push_back(a[i] - mean_a);
    y.push_back(b[i] - mean_b);
  }
  Fit fit = FitRun(x, y);
  fit.offset = mean_a - fit.ratio * mean_b;
  return fit;
}

int64_t GroupOf(const Parameter& side) {
  for (const Piece& piece : side.pieces) {
    if (piece.coded != nullptr && piece.coded->group_columns() > 1) {
      return piece.coded->group_columns();
    }
  }
  return 0;
}

bool IsQuantisedDType(DType dtype) {
  return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2 ||
         dtype == DType::kFloat8E4M3FNUZ || dtype == DType::kInt8 || dtype == DType::kUInt8;
}

// Whether a sample consists of codes as they are: integers, or numbers of an fp8 format.
bool AreCodes(const Sample& sample) {
  double largest = 0;
  for (const double value : sample.values) {
    largest = std::max(largest, std::fabs(value));
  }
  // Weights are small; codes reach the end of their range.
  const bool integers = std::all_of(sample.values.begin(), sample.values.end(), [](double value) {
    return value == std::nearbyint(value) && std::fabs(value) <= 255;
  });
  const bool numbers = std::all_of(sample.values.begin(), sample.values.end(), [](double value) {
    const double scaled = std::ldexp(std::fabs(value), 9);
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return scaled == std::nearbyint(scaled) &&
           std::ldexp(fraction, 4) == std::nearbyint(std::ldexp(fraction, 4)) &&
           std::fabs(value) <= 448;
  });
  return largest >= 3 && (integers || numbers);
}

// Whether a side shows codes as they are: nothing scales them.
bool IsUnscaled(const Parameter& side, const Sample& sample) {
  for (const Piece& piece : side.pieces) {
    if (piece.coded != nullptr && piece.coded->is_unscaled()) {
      return true;
    }
  }
  return AreCodes(sample) || (!sample.is_coded && IsQuantisedDType(side.dtype));
}

std::string PairCauses::Scales(std::string& note) {
  if (a_.values.size() != b_.values.size() || a_.values.empty() || a_.columns < 8) {
    return "";
  }
  const bool quantised = a_.is_coded || b_.is_coded || IsQuantisedDType(pair_.a.dtype) ||
                         IsQuantisedDType(pair_.b.dtype) || AreCodes(a_) || AreCodes(b_);
  // Rounding to four bits leaves a tenth, to two a quarter.
  const double most_residual = quantised ? 0.25 : 0.01;
  constexpr int64_t kUsual = 32;
  const int64_t known = std::max(GroupOf(pair_.a), GroupOf(pair_.b));
  const auto size = static_cast<size_t>(
      std::clamp<int64_t>(known == 0 ? kUsual : std::min<int64_t>(known, 64), 8, a_.columns));
  // What rounding may do to the factor of a run.
  constexpr double kDeviations = 4;
  const double root = std::sqrt(static_cast<double>(size));
  size_t runs = 0;
  size_t scaled = 0;
  size_t shifted = 0;
  size_t poor = 0;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t row = 0; row < a_.rows(); ++row) {
    for (size_t at = 0; at + size <= static_cast<size_t>(a_.columns); at += size) {
      ++runs;
      if (!IsBeyond(row, at, size)) {
        continue;
      }
      const std::span<const double> a = a_.Row(row).subspan(at, size);
      const std::span<const double> b = b_.Row(row).subspan(at, size);
      const auto is_other = [&](const Fit& fit) {
        return std::fabs(fit.ratio - 1) > std::max(0.04, kDeviations * fit.residual / root);
      };
      Fit fit = FitRun(a, b);
      if (fit.residual > most_residual) {
        fit = FitLine(a, b);
      }
      if (!(fit.residual <= most_residual) || !std::isfinite(fit.ratio)) {
        ++poor;
      } else if (is_other(fit)) {
        ++scaled;
        smallest = std::min(smallest, std::fabs(fit.ratio));
        largest = std::max(largest, std::fabs(fit.ratio));
      } else if (fit.offset != 0) {
        ++shifted;
      }
    }
  }
  if (scaled + shifted == 0 || poor * 10 > scaled + shifted) {
    return "";
  }
  if (shifted > scaled) {
    note = fmt::format("{} of {} sampled runs of {} elements are the same but for an offset",
                       shifted, runs, size);
    return quantised ? "zero_point" : "";
  }
  note = fmt::format(
      "{} of {} sampled runs of {} elements are the same but for a factor, {:.4g} to "
      "{:.4g}",
      scaled, runs, size, smallest, largest);
  are_scales_near_ = smallest > 0.9 && largest < 1.1 && scaled * 16 < runs;
  const bool raw_a = IsUnscaled(pair_.a, a_);
  const bool raw_b = IsUnscaled(pair_.b, b_);
  return raw_a != raw_b && scaled == runs ? "scale_missing" : "scale_mismatch";
}

std::string PairCauses::Calibrated(std::string& note) {
  const bool integers = [&] {
    for (const Parameter* side : {&pair_.a, &pair_.b}) {
      const std::string format = checkpoint::FormatOf(*side);
      if (format.starts_with("int")) {
        return true;
      }
    }
    return false;
  }();
  if (!integers || a_.values.size() != b_.values.size() || a_.values.empty()) {
    return "";
  }
  const Fit whole = FitRun(a_.values, b_.values);
  size_t near = 0;
  for (size_t i = 0; i < a_.values.size(); ++i) {
    const double bound = (a_.is_coded ? a_.bounds[i] : 0) + (b_.is_coded ? b_.bounds[i] : 0);
    near += std::fabs(a_.values[i] - b_.values[i]) <= 6 * bound ? 1 : 0;
  }
  if (whole.ratio > 0.8 && whole.ratio < 1.25 && whole.residual < 0.35 &&
      near * 100 >= a_.values.size() * 97) {
    note = "errors of a few steps without a change of scale: a writer that compensates errors";
    return "calibrated";
  }
  // One factor for each column: scales that were folded into what comes before.
  size_t constant = 0;
  size_t columns = 0;
  for (int64_t column = 0; column < a_.columns; ++column) {
    std::vector<double> x;
    std::vector<double> y;
    for (size_t row = 0; row < a_.rows(); ++row) {
      x.push_back(a_.Row(row)[static_cast<size_t>(column)]);
      y.push_back(b_.Row(row)[static_cast<size_t>(column)]);
    }
    ++columns;
    constant += FitRun(x, y).residual < 0.35 ? 1 : 0;
  }
  if (a_.rows() >= 8 && constant * 100 >= columns * 95) {
    note =
        "each column is the other one's times a factor: scales that were folded into other "
        "parameters";
    return "calibrated";
  }
  return "";
}

// Enough of a parameter to tell it from others of its shape.
struct Fingerprint {
  Sample a;
  Sample b;
};

}  // namespace

std::vector<std::filesystem::path> SiblingsOf(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  constexpr size_t kMostSiblings = 6;
  std::vector<fs::path> found;
  fs::path folder = base::WithoutLastSlash(fs::absolute(path).lexically_normal());
  fs::path file;
  if (!base::IsFolder(folder)) {
    file = folder.filename();
    folder = folder.parent_path();
  }
  const std::string own = folder.filename().string();
  const fs::path parent = folder.parent_path();
  if (parent.empty() || parent == folder) {
    return found;
  }
  for (const std::string& name : base::NamesIn(parent)) {
    const bool is_step = std::any_of(
        std::begin(kStepPrefixes), std::end(kStepPrefixes), [&](std::string_view prefix) {
          return name.starts_with(prefix) && name.size() > prefix.size();
        });
    if (!is_step || name == own) {
      continue;
    }
    const fs::path candidate = file.empty() ? parent / name : parent / name / file;
    if (base::Exists(candidate)) {
      found.push_back(candidate);
    }
  }
  // The nearest in order: shorter names are lower numbers.
  const auto before = [](const fs::path& x, const fs::path& y) {
    return x.native().size() != y.native().size() ? x.native().size() < y.native().size() : x < y;
  };
  std::sort(found.begin(), found.end(), before);
  const fs::path here = file.empty() ? folder : folder / file;
  while (found.size() > kMostSiblings) {
    const auto place = std::lower_bound(found.begin(), found.end(), here, before);
    const auto behind = found.end() - place;
    found.erase(place - found.begin() > behind ? found.begin() : found.end() - 1);
  }
  return found;
}

namespace {

bool NeedsCause(const PairResult& result) {
  return result.cause.empty() &&
         (result.outcome == Outcome::kDifferent || result.outcome == Outcome::kShapes);
}

void Set(PairResult& result, std::string cause, std::string note) {
  result.cause = std::move(cause);
  if (!note.empty()) {
    result.notes.push_back(fmt::format("{}: {}", result.cause, note));
  }
}

}  // namespace

void CauseSearch::Run(std::vector<PairResult>& results) {
  std::map<Shape, std::vector<size_t>> by_shape;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].outcome <= Outcome::kDifferent) {
      by_shape[results[i].shape_a].push_back(i);
    }
  }
  std::unordered_map<size_t, Fingerprint> prints;
  const auto print_of = [&](size_t i) -> const Fingerprint& {
    const auto [place, is_new] = prints.try_emplace(i);
    if (is_new) {
      const MatchedPair& pair = matched_.pairs[i];
      place->second.a = TakeSample(pair.a, pair.b.dtype, 3, 128);
      place->second.b = TakeSample(pair.b, pair.a.dtype, 3, 128);
    }
    return place->second;
  };
  // Each differing parameter is held against all others of its shape, as far as this allows.
  constexpr size_t kMostLooks = 4'000'000;
  size_t looks = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!NeedsCause(results[i])) {
      continue;
    }
    const MatchedPair& pair = matched_.pairs[i];
    PairCauses causes(pair, both_, pool_);
    std::string note;
    std::string cause =
        results[i].outcome == Outcome::kDifferent ? causes.Find(note) : causes.FindOfShapes(note);
    if (!cause.empty()) {
      Set(results[i], std::move(cause), std::move(note));
      continue;
    }
    if (results[i].outcome != Outcome::kDifferent) {
      continue;
    }
    const Sample& of_a = print_of(i).a;
    for (const size_t j : by_shape[results[i].shape_a]) {
      if (j == i || ++looks > kMostLooks) {
        continue;
      }
      const MatchedPair& other = matched_.pairs[j];
      const bool same = PairCauses::SameFormat(pair.a, other.b);
      if (AllAgree(of_a, print_of(j).b, same) && causes.Try(pair.a, other.b)) {
        Set(results[i], fmt::format("swapped_with:{}", results[j].name),
            fmt::format("the test has the values of {} of the reference", results[j].name));
        break;
      }
      if (AllAgree(print_of(j).a, print_of(i).b, PairCauses::SameFormat(other.a, pair.b)) &&
          causes.Try(other.a, pair.b)) {
        Set(results[i], fmt::format("swapped_with:{}", results[j].name),
            fmt::format("the reference has the values of {} of the test", results[j].name));
        break;
      }
    }
  }
}

bool CauseSearch::HasUnexplained(std::span<const PairResult> results) const {
  return std::any_of(results.begin(), results.end(), NeedsCause);
}

void CauseSearch::RunStale(const std::deque<OtherCheckpoint>& others,
                           std::vector<PairResult>& results) {
  for (const OtherCheckpoint& other : others) {
    std::unordered_map<std::string_view, const MatchedPair*> by_name;
    for (const MatchedPair& pair : other.matched.pairs) {
      by_name.emplace(pair.a.name, &pair);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!NeedsCause(results[i]) || results[i].outcome != Outcome::kDifferent) {
        continue;
      }
      const MatchedPair& pair = matched_.pairs[i];
      const auto found = by_name.find(pair.a.name);
      if (found == by_name.end()) {
        continue;
      }
      PairCauses causes(pair, both_, pool_);
      const std::string where = other.checkpoint.path.string();
      if (causes.Try(found->second->b, pair.b)) {
        Set(results[i], "stale", fmt::format("the reference has the values of {}", where));
      } else if (causes.Try(pair.a, found->second->b)) {
        Set(results[i], "stale", fmt::format("the test has the values of {}", where));
      }
    }
  }
}

namespace {

// Scales that a writer folded away: AWQ multiplies the columns of a weight by factors, and divides
// by them what comes before, a norm or the rows of another weight, so that the model computes the
// same. Found where the columns of a weight of the same layer have the inverse factors.
class FoldedScales {
 public:
  explicit FoldedScales(const MatchedParameters& matched) : matched_(matched) {
    for (size_t index = 0; index < matched.pairs.size(); ++index) {
      const MatchedPair& pair = matched.pairs[index];
      const std::string_view layer = LayerOf(pair.name);
      if (layer.empty() || pair.a.shape.empty() || pair.a.shape.size() > 2 ||
          pair.a.shape != pair.b.shape) {
        continue;
      }
      members_[layer].push_back(index);
      if (pair.a.shape.size() == 2 && IsInteger(pair)) {
        weights_[layer].push_back(index);
      }
    }
  }

  // A note; nothing where no weight explains pair `index`.
  std::string Find(size_t index) {
    const MatchedPair& pair = matched_.pairs[index];
    const auto of_layer = weights_.find(LayerOf(pair.name));
    if (of_layer == weights_.end() || pair.a.shape.empty() || pair.a.shape.size() > 2 ||
        pair.a.shape != pair.b.shape) {
      return "";
    }
    for (const size_t other : of_layer->second) {
      const MatchedPair& weight = matched_.pairs[other];
      if (other != index && weight.a.shape[1] == pair.a.shape[0] &&
          Explains(OwnFactors(index), ColumnFactors(other))) {
        return fmt::format("its scales were folded into the columns of {}", weight.name);
      }
    }
    // The same from the other side; what comes before is in the same module or in one around it.
    if (pair.a.shape.size() != 2 || !IsInteger(pair)) {
      return "";
    }
    for (const size_t other : members_[LayerOf(pair.name)]) {
      const MatchedPair& before = matched_.pairs[other];
      if (other != index && before.a.shape[0] == pair.a.shape[1] &&
          pair.name.starts_with(ParentOf(before.name)) &&
          Explains(OwnFactors(other), ColumnFactors(index))) {
        return fmt::format("scales of {} were folded into its columns", before.name);
      }
    }
    return "";
  }

 private:
  static constexpr int64_t kMostFactors = 2048;

  // The name up to the first number: "model.layers.3".
  static std::string_view LayerOf(std::string_view name) {
    for (size_t begin = 0; begin < name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      const std::string_view part = name.substr(begin, end - begin);
      if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) {
        return name.substr(0, end);
      }
      begin = end + 1;
    }
    return "";
  }

  // "model.layers.3.mlp." of "model.layers.3.mlp.up_proj.weight".
  static std::string_view ParentOf(std::string_view name) {
    const size_t module = name.substr(0, name.rfind('.')).rfind('.');
    return module == std::string_view::npos ? std::string_view() : name.substr(0, module + 1);
  }

  static bool IsInteger(const MatchedPair& pair) {
    return checkpoint::FormatOf(pair.a).starts_with("int") ||
           checkpoint::FormatOf(pair.b).starts_with("int");
  }

  // Logarithms of the first side's numbers in units of the second one's; NaN where there is none.
  static std::vector<double> ElementFactors(const MatchedPair& pair) {
    const Sample a = TakeSample(pair.a, pair.b.dtype, 1, kMostFactors);
    const Sample b = TakeSample(pair.b, pair.a.dtype, 1, kMostFactors);
    std::vector<double> factors;
    for (size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
      factors.push_back(std::log(a.values[i] / b.values[i]));
    }
    return factors;
  }

  static std::vector<double> RowFactors(const MatchedPair& pair) {
    constexpr int64_t kColumns = 256;
    const int64_t columns = std::min(pair.a.shape[1], kColumns);
    std::vector<double> factors;
    for (int64_t row = 0; row < std::min(pair.a.shape[0], kMostFactors); ++row) {
      Sample a;
      Sample b;
      ReadRow(pair.a, {row, 0}, columns, pair.b.dtype, a);
      ReadRow(pair.b, {row, 0}, columns, pair.a.dtype, b);
      factors.push_back(std::log(FitRun(a.values, b.values).ratio));
    }
    return factors;
  }

  const std::vector<double>& OwnFactors(size_t index) {
    std::vector<double>& factors = own_[index];
    if (factors.empty()) {
      const MatchedPair& pair = matched_.pairs[index];
      factors = pair.a.shape.size() == 1 ? ElementFactors(pair) : RowFactors(pair);
    }
    return factors;
  }

  const std::vector<double>& ColumnFactors(size_t index) {
    std::vector<double>& factors = columns_[index];
    if (!factors.empty()) {
      return factors;
    }
    constexpr size_t kRows = 512;
    const MatchedPair& pair = matched_.pairs[index];
    const Sample a = TakeSample(pair.a, pair.b.dtype, kRows, kMostFactors);
    const Sample b = TakeSample(pair.b, pair.a.dtype, kRows, kMostFactors);
    std::vector<double> x(a.rows());
    std::vector<double> y(a.rows());
    for (int64_t column = 0; column < a.columns && a.values.size() == b.values.size(); ++column) {
      for (size_t row = 0; row < a.rows(); ++row) {
        x[row] = a.Row(row)[static_cast<size_t>(column)];
        y[row] = b.Row(row)[static_cast<size_t>(column)];
      }
      factors.push_back(std::log(FitRun(x, y).ratio));
    }
    return factors;
  }

  // Whether the two are each other's negative, but for what rounding to a few bits and clipping
  // leaves: of so many factors no other two correlate so.
  static bool Explains(const std::vector<double>& own, const std::vector<double>& columns) {
    constexpr size_t kLeast = 64;
    constexpr double kLeastChange = 0.01;
    constexpr double kCorrelation = -0.8;
    constexpr double kMostApart = 1.4;
    constexpr double kMostShift = 0.35;  // the factors of its own columns move those of rows
    std::vector<double> x;
    std::vector<double> y;
    for (size_t i = 0; i < std::min(own.size(), columns.size()); ++i) {
      if (std::isfinite(own[i]) && std::isfinite(columns[i])) {
        x.push_back(own[i]);
        y.push_back(columns[i]);
      }
    }
    if (x.size() < kLeast || x.size() * 10 < own.size() * 9) {
      return false;
    }
    const auto count = static_cast<double>(x.size());
    const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
    const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
    double square_x = 0;
    double square_y = 0;
    double product = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      square_x += (x[i] - mean_x) * (x[i] - mean_x);
      square_y += (y[i] - mean_y) * (y[i] - mean_y);
      product += (x[i] - mean_x) * (y[i] - mean_y);
    }
    const double apart = std::sqrt(square_x / square_y);
    return square_x > kLeastChange * kLeastChange * count &&
           product <= kCorrelation * std::sqrt(square_x * square_y) && apart < kMostApart &&
           apart > 1 / kMostApart && std::fabs(mean_x + mean_y) <= kMostShift;
  }

  const MatchedParameters& matched_;
  // Parameters by layer, and of these the weights of integer codes.
  std::unordered_map<std::string_view, std::vector<size_t>> members_;
  std::unordered_map<std::string_view, std::vector<size_t>> weights_;
  std::unordered_map<size_t, std::vector<double>> own_;      // by the index of the pair
  std::unordered_map<size_t, std::vector<double>> columns_;  // by the index of the pair
};

}  // namespace

void CauseSearch::RunLast(std::vector<PairResult>& results) {
  FoldedScales folded(matched_);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!NeedsCause(results[i]) || results[i].outcome != Outcome::kDifferent) {
      continue;
    }
    PairCauses causes(matched_.pairs[i], both_, pool_);
    std::string note = folded.Find(i);
    std::string cause = note.empty() ? causes.Scales(note) : "calibrated";
    if (cause.empty() || (cause == "scale_mismatch" && causes.are_scales_near())) {
      std::string other;
      if (const std::string calibrated = causes.Calibrated(other); !calibrated.empty()) {
        cause = calibrated;
        note = std::move(other);
      }
    }
    if (!cause.empty()) {
      Set(results[i], std::move(cause), std::move(note));
    }
  }
}

}  // namespace msprobe::analysis::ckpt
