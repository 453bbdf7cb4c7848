// Codes become values run by run. Runs of bytes or nibbles that lie in the order of the elements
// go to the kernels, several groups with their scales at a time; other packings are unpacked first.
#include "src/io/coded/grouped_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "src/base/mapped_reads.h"
#include "src/io/contents.h"
#include "src/kernels/codes.h"
#include "src/kernels/convert.h"
#include "src/tensor/float_bits.h"

namespace msprobe::io {

std::string_view ShortDTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "f64";
    case DType::kFloat32:
      return "f32";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat8E4M3FN:
      return "fp8_e4m3";
    case DType::kFloat8E5M2:
      return "fp8_e5m2";
    default:
      return DTypeName(dtype);
  }
}

void CodedTensor::Read(int64_t /*first*/, size_t /*count*/, ReadCodes& read) const {
  read.bytes = {};
}

namespace {

constexpr size_t kRunElements = 256;
// Groups whose scales are looked up at once.
constexpr auto kMostGroups = static_cast<int64_t>(kernels::CodedRun::kMostGroups);
constexpr float kE2M1[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
// Scales or quotients that a writer computed in bfloat16 are off by 2^-9 each; that moves a code by
// a quarter step at most.
constexpr float kWriterError = 0x1p-8F;
constexpr float kMostWriterSteps = 0.25F;
// Float32 arithmetic on ties.
constexpr float kSlack = 0x1p-18F;

// Numbers of all codes, and of each how far a rounded number may lie from it, in units of the
// scale.
struct CodeTable {
  std::array<float, 256> number{};
  std::array<float, 256> bound{};
};

float NumberOf(CodeKind kind, unsigned bits, unsigned code, const std::vector<float>& table) {
  switch (kind) {
    case CodeKind::kFloat8E4M3:
      return tensor::Float8E4M3FNToFloat(static_cast<uint8_t>(code));
    case CodeKind::kFloat8E5M2:
      return tensor::Float8E5M2ToFloat(static_cast<uint8_t>(code));
    case CodeKind::kFloat8E4M3Fnuz:
      return tensor::Float8E4M3FNUZToFloat(static_cast<uint8_t>(code));
    case CodeKind::kFloat4E2M1:
      return (code & 8U) != 0 ? -kE2M1[code & 7U] : kE2M1[code & 7U];
    case CodeKind::kSigned: {
      const unsigned half = 1U << (bits - 1);
      return static_cast<float>(code & (2 * half - 1)) -
             ((code & half) != 0 ? static_cast<float>(2 * half) : 0.F);
    }
    case CodeKind::kUnsigned:
      return static_cast<float>(code);
    case CodeKind::kTable:
      return code < table.size() ? table[code] : 0;
  }
  return 0;
}

// The gaps on both sides of a number decide how far what was rounded to it can be: half the wider
// one, a whole one at the ends, two where scales are powers of two, which may cut off what is up to
// twice as large.
CodeTable MakeTable(const CodeLayout& layout) {
  CodeTable table;
  const unsigned count = 1U << layout.bits;
  std::vector<float> sorted;
  for (unsigned code = 0; code < count; ++code) {
    const float number = NumberOf(layout.kind, layout.bits, code, layout.table);
    table.number[code] = number;
    if (std::isfinite(number)) {
      sorted.push_back(number);
    }
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const bool is_float8 =
      layout.kind == CodeKind::kFloat8E4M3 || layout.kind == CodeKind::kFloat8E5M2;
  for (unsigned code = 0; code < count; ++code) {
    const float number = table.number[code];
    if (!std::isfinite(number) || sorted.size() < 2) {
      continue;
    }
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), number);
    const auto place = static_cast<size_t>(at - sorted.begin());
    const float below = place > 0 ? number - sorted[place - 1] : 0;
    const float above = place + 1 < sorted.size() ? sorted[place + 1] - number : 0;
    const float gap = std::max(below, above);
    // Symmetric writers leave out the lowest of two's complement.
    const bool is_end = place == 0 || place + 1 == sorted.size() ||
                        (layout.kind == CodeKind::kSigned && place == 1);
    float steps = is_end ? 1.F : 0.5F;
    if (is_end && is_float8 && layout.power_of_two_scales) {
      steps = 2;
    }
    table.bound[code] =
        gap * (steps + kSlack) + std::min(std::fabs(number) * kWriterError, gap * kMostWriterSteps);
  }
  return table;
}

class GroupedCodes final : public CodedTensor {
 public:
  GroupedCodes(CodeLayout layout, std::string format)
      : CodedTensor(layout.shape, std::move(format)),
        layout_(std::move(layout)),
        table_(MakeTable(layout_)),
        nibbles_(MakeNibbleRule(layout_, table_)),
        byte_code_(ByteCodeOf(layout_)),
        rows_(layout_.columns == 0 ? 0 : ElementCount(layout_.shape) / layout_.columns) {
    // Full words of a little-endian file are bytes in order.
    if (layout_.packing == CodePacking::kWordsByRow && layout_.bits == 4 &&
        layout_.columns % 8 == 0) {
      layout_.packing = CodePacking::kLowNibbleFirst;
      was_words_ = true;
    } else if (layout_.packing == CodePacking::kWordsByRow && layout_.bits == 8 &&
               layout_.columns % 4 == 0) {
      layout_.packing = CodePacking::kBytes;
    }
  }

  void Read(int64_t first, size_t count, ReadCodes& read) const override {
    read.bytes = {};
    if (layout_.packing > CodePacking::kHighNibbleFirst) {
      return;
    }
    const int64_t per_byte = layout_.packing == CodePacking::kBytes ? 1 : 2;
    const int64_t end = (first + static_cast<int64_t>(count) + per_byte - 1) / per_byte;
    read.first = static_cast<size_t>(first / per_byte);
    read.bytes = base::ReadMapped(
        layout_.codes.subspan(read.first, static_cast<size_t>(end) - read.first), read.scratch);
  }

  void DecodeFrom(const ReadCodes* read_codes, int64_t first, size_t count, DType /*partner*/,
                  float* values, float* bounds) const override {
    if (read_codes == nullptr) {
      thread_local ReadCodes own;
      Read(first, count, own);
      read_codes = &own;
    }
    const std::span<const std::byte> read = read_codes->bytes;
    // The byte of the codes that `read` begins with.
    const auto read_from = static_cast<int64_t>(read_codes->first);
    int64_t row = first / layout_.columns;
    int64_t column = first % layout_.columns;
    while (count > 0) {
      int64_t run = std::min<int64_t>(static_cast<int64_t>(count), layout_.columns - column);
      if (layout_.column_groups != nullptr) {
        run = std::min(run, static_cast<int64_t>(kRunElements));
        DecodeInOtherOrder(row, column, run, read, first, read_from, values, bounds);
      } else {
        run = DecodeGroups(row, column, run, read, first, read_from, values, bounds);
      }
      values += run;
      bounds = bounds == nullptr ? nullptr : bounds + run;
      first += run;
      column += run;
      count -= static_cast<size_t>(run);
      if (column == layout_.columns) {
        column = 0;
        ++row;
      }
    }
  }

  bool DescribeRun(const ReadCodes& read, int64_t first, size_t count,
                   kernels::CodedRun& run) const override {
    const int64_t column = first % layout_.columns;
    const auto elements = static_cast<int64_t>(count);
    return layout_.column_groups == nullptr && elements <= layout_.columns - column &&
           KernelRun(first / layout_.columns, column, elements, read.bytes, first,
                     static_cast<int64_t>(read.first), run) == elements;
  }

  std::vector<Reading> OtherReadings() const override {
    std::vector<Reading> readings;
    const auto add = [&](std::string cause, auto&& change) {
      CodeLayout other = layout_;
      change(other);
      auto tensor = std::make_shared<GroupedCodes>(std::move(other), format());
      readings.push_back({std::move(cause), std::move(tensor)});
    };
    if (!layout_.scales.bytes.empty() || layout_.factor != 1) {
      add("scale_missing", [](CodeLayout& other) {
        other.scales = {};
        other.nested_table.clear();
        other.factor = 1;
      });
      // One of two levels of scales forgotten.
      if (layout_.factor != 1) {
        add("scale_missing", [](CodeLayout& other) { other.factor = 1; });
        add("scale_inverted", [](CodeLayout& other) { other.factor = 1 / other.factor; });
        if (!layout_.scales.bytes.empty()) {
          add("scale_missing", [](CodeLayout& other) { other.scales = {}; });
        }
      }
      if (!layout_.nested_table.empty()) {
        add("scale_missing", [](CodeLayout& other) { other.nested_scales = {}; });
        add("scale_missing", [](CodeLayout& other) { other.nested_offset = 0; });
      }
      auto inverse = std::make_shared<GroupedCodes>(layout_, format());
      inverse->inverse_ = true;
      readings.push_back({"scale_inverted", std::move(inverse)});
    }
    if (layout_.kind == CodeKind::kUnsigned) {
      const auto with_zero = [&](double zero, double added, bool keeps) {
        add("zero_point", [&](CodeLayout& other) {
          if (!keeps) {
            other.zero_packing.reset();
            other.zero = zero;
          }
          other.zero_added += added;
          other.zero += keeps && !other.zero_packing ? added : 0;
        });
      };
      for (const double added : {1.0, -1.0}) {
        with_zero(0, added, true);
      }
      with_zero(0, 0, false);
      with_zero(static_cast<double>(1U << (layout_.bits - 1)), 0, false);
    }
    if (layout_.kind == CodeKind::kUnsigned || layout_.kind == CodeKind::kSigned) {
      // Two's complement taken for a number with an offset, or the other way round.
      const unsigned highest = 1U << (layout_.bits - 1);
      add("zero_point", [&](CodeLayout& other) {
        if (other.kind == CodeKind::kSigned) {
          other.kind = CodeKind::kUnsigned;
          other.zero = highest;
        } else {
          other.flipped_bits ^= highest;
        }
      });
    }
    if (layout_.bits == 4) {
      for (const CodePacking packing :
           {CodePacking::kLowNibbleFirst, CodePacking::kHighNibbleFirst}) {
        if (packing != layout_.packing && !was_words_ &&
            (layout_.packing == CodePacking::kLowNibbleFirst ||
             layout_.packing == CodePacking::kHighNibbleFirst)) {
          add("nibble_order", [&](CodeLayout& other) { other.packing = packing; });
        }
      }
      if (layout_.packing > CodePacking::kHighNibbleFirst || was_words_) {
        for (const NibbleOrder order : {NibbleOrder::kPairs, NibbleOrder::kReversed,
                                        NibbleOrder::kStraight, NibbleOrder::kInterleaved}) {
          auto swapped = std::make_shared<GroupedCodes>(layout_, format());
          if (was_words_) {
            swapped->layout_.packing = CodePacking::kWordsByRow;
          }
          swapped->order_ = order;
          readings.push_back({"nibble_order", std::move(swapped)});
        }
      }
    }
    return readings;
  }

  int64_t group_columns() const override {
    return layout_.column_groups != nullptr ? 1 : layout_.group_columns;
  }
  uint64_t stored_bytes() const override { return layout_.codes.size(); }

  std::optional<ScaleRange> Scales() const override {
    if (layout_.scales.bytes.empty() && layout_.factor == 1) {
      return std::nullopt;
    }
    std::optional<ScaleRange> range;
    const int64_t height = layout_.matrix_rows > 0 ? 1 : layout_.group_rows;
    const int64_t groups =
        layout_.column_groups != nullptr
            ? *std::max_element(layout_.column_groups->begin(), layout_.column_groups->end()) + 1
            : (layout_.columns + layout_.group_columns - 1) / layout_.group_columns;
    for (int64_t row = 0; row < rows_; row += height) {
      for (int64_t group = 0; group < groups; ++group) {
        Widen(std::fabs(ScaleOf(row, group).scale), range);
      }
    }
    return range;
  }

  bool is_unscaled() const override {
    if (layout_.scales.bytes.empty()) {
      return layout_.factor == 1;
    }
    // The second level of nvfp4.
    if (layout_.kind == CodeKind::kFloat4E2M1 && !layout_.scales.is_exponent &&
        layout_.factor == 1) {
      return true;
    }
    constexpr int64_t kLooks = 64;
    const auto count =
        static_cast<int64_t>(layout_.scales.bytes.size() / DTypeSize(layout_.scales.dtype));
    for (int64_t i = 0; i < std::min(count, kLooks); ++i) {
      if (NumberAt(layout_.scales, i) != 1) {
        return false;
      }
    }
    return layout_.nested_table.empty();
  }

 private:
  // The order of the eight codes of a word, for readings of a writer that had another in mind.
  enum class NibbleOrder : uint8_t { kOwn, kPairs, kReversed, kStraight, kInterleaved };

  // Elements of a row that kernels decode, several groups at once: bytes or nibbles in a row. How
  // many there are, or 0.
  int64_t KernelRun(int64_t row, int64_t column, int64_t run, std::span<const std::byte> read,
                    int64_t first, int64_t read_from, kernels::CodedRun& out) const {
    const bool is_bytes = layout_.packing == CodePacking::kBytes && byte_code_;
    if (read.empty() || (!is_bytes && (layout_.bits != 4 || first % 2 != 0))) {
      return 0;
    }
    const int64_t size = layout_.group_columns;
    const int64_t group = column / size;
    // What begins inside of a group ends with it.
    const int64_t groups = column % size == 0 ? std::min(kMostGroups, (run + size - 1) / size) : 1;
    run = std::min(run, (group + groups) * size - column);
    out.is_nibbles = !is_bytes;
    out.group = static_cast<size_t>(size);
    if (is_bytes) {
      const float end =
          layout_.power_of_two_scales && *byte_code_ != kernels::ByteCode::kInt8 ? 2 : 1;
      out.bytes = read.data() + (first - read_from);
      out.code = *byte_code_;
      out.byte_rule = {.inner_steps = 0.5F + kSlack,
                       .end_steps = end + kSlack,
                       .relative = kWriterError,
                       .most_steps = kMostWriterSteps};
      ScalesOf(row, group, groups, out.byte_scales.data());
      return run;
    }
    if (size % 2 != 0) {
      run = std::min(run, size - column % size);
    }
    out.bytes = read.data() + (first / 2 - read_from);
    out.order = layout_.packing == CodePacking::kLowNibbleFirst ? kernels::NibbleOrder::kLowFirst
                                                                : kernels::NibbleOrder::kHighFirst;
    out.nibble_rule = &nibbles_;
    NibbleScalesOf(row, group, groups, out.nibble_scales.data());
    return run;
  }

  // Elements of a row, or the first ones: by the kernels where they know them.
  int64_t DecodeGroups(int64_t row, int64_t column, int64_t run, std::span<const std::byte> read,
                       int64_t first, int64_t read_from, float* values, float* bounds) const {
    kernels::CodedRun known;
    if (const int64_t count = KernelRun(row, column, run, read, first, read_from, known)) {
      kernels::DecodeRun(known, 0, static_cast<size_t>(count), values, bounds);
      return count;
    }
    const int64_t size = layout_.group_columns;
    const int64_t group = column / size;
    run = std::min({run, size - column % size, static_cast<int64_t>(kRunElements)});
    if (layout_.packing == CodePacking::kWordsByColumn && layout_.bits == 4 &&
        order_ == NibbleOrder::kOwn && column % 8 == 0) {
      // Eight codes of a row lie in one word; the next eight in the word `rows_` further on.
      uint32_t words[kRunElements / 8];
      const std::byte* at =
          layout_.codes.data() + static_cast<size_t>(column / 8 * rows_ + row) * sizeof(uint32_t);
      for (int64_t i = 0; i < (run + 7) / 8; ++i) {
        std::memcpy(&words[i], at + static_cast<size_t>(i * rows_) * sizeof(uint32_t),
                    sizeof(uint32_t));
      }
      kernels::NibbleScale scale;
      NibbleScalesOf(row, group, 1, &scale);
      kernels::DecodeNibbles(reinterpret_cast<const std::byte*>(words), static_cast<size_t>(run),
                             kernels::NibbleOrder::kLowFirst, nibbles_, &scale,
                             static_cast<size_t>(run), values, bounds);
      return run;
    }
    uint8_t codes[kRunElements];
    UnpackRun(row, column, run, read, first, read_from, codes);
    Scale(row, group, codes, run, values, bounds);
    return run;
  }

  // Columns that were quantised in another order: each has a group of its own.
  void DecodeInOtherOrder(int64_t row, int64_t column, int64_t run, std::span<const std::byte> read,
                          int64_t first, int64_t read_from, float* values, float* bounds) const {
    uint8_t codes[kRunElements];
    UnpackRun(row, column, run, read, first, read_from, codes);
    for (int64_t i = 0; i < run; ++i) {
      Scale(row, (*layout_.column_groups)[static_cast<size_t>(column + i)], codes + i, 1,
            values + i, bounds == nullptr ? nullptr : bounds + i);
    }
  }

  void UnpackRun(int64_t row, int64_t column, int64_t run, std::span<const std::byte> read,
                 int64_t first, int64_t read_from, uint8_t* codes) const {
    if (!read.empty()) {
      Unpack(read, first, read_from, run, codes);
    } else if (layout_.packing == CodePacking::kWordsByColumn && layout_.bits == 4 &&
               order_ == NibbleOrder::kOwn) {
      UnpackColumn(row, column, run, codes);
    } else {
      for (int64_t i = 0; i < run; ++i) {
        codes[i] = CodeAt(layout_.codes, layout_.packing, rows_, layout_.columns, row, column + i);
      }
    }
  }

  // Codes of eight bits that the kernels know, with scales that are numbers.
  static std::optional<kernels::ByteCode> ByteCodeOf(const CodeLayout& layout) {
    if (layout.bits != 8 || !layout.nested_table.empty()) {
      return std::nullopt;
    }
    switch (layout.kind) {
      case CodeKind::kFloat8E4M3:
        return kernels::ByteCode::kFloat8E4M3;
      case CodeKind::kFloat8E5M2:
        return kernels::ByteCode::kFloat8E5M2;
      case CodeKind::kSigned:
        return kernels::ByteCode::kInt8;
      default:
        return std::nullopt;
    }
  }

  // The scales of `count` groups of a row.
  void ScalesOf(int64_t row, int64_t group, int64_t count, float* scales) const {
    const SideNumbers& numbers = layout_.scales;
    const bool in_a_row = count > 1 && !numbers.bytes.empty() && !numbers.is_exponent &&
                          numbers.column_stride == 1 && layout_.factor == 1 && !inverse_;
    if (in_a_row) {
      const size_t size = DTypeSize(numbers.dtype);
      const auto at = static_cast<size_t>(ScaleRow(row) * numbers.row_stride + group);
      kernels::WidenToFloat(numbers.dtype,
                            numbers.bytes.subspan(at * size, static_cast<size_t>(count) * size),
                            std::span(scales, static_cast<size_t>(count)));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      scales[i] = ScaleOf(row, group + i).scale;
    }
  }

  // What the sixteen codes of four bits are scaled by.
  void NibbleScalesOf(int64_t row, int64_t group, int64_t count,
                      kernels::NibbleScale* scales) const {
    const bool has_zero = layout_.kind == CodeKind::kUnsigned;
    const float zero = has_zero ? static_cast<float>(layout_.zero) : 0;
    if (layout_.nested_table.empty()) {
      float numbers[kMostGroups];
      ScalesOf(row, group, count, numbers);
      for (int64_t i = 0; i < count; ++i) {
        scales[i] = {zero, numbers[i], std::fabs(numbers[i]), 0};
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const GroupScale of_group = ScaleOf(row, group + i);
        scales[i] = {zero, of_group.scale, std::fabs(of_group.scale) + of_group.error,
                     of_group.error};
      }
    }
    for (int64_t i = 0; has_zero && layout_.zero_packing && i < count; ++i) {
      scales[i].zero = static_cast<float>(ZeroOf(row, group + i));
    }
  }

  static kernels::NibbleRule MakeNibbleRule(const CodeLayout& layout, const CodeTable& table) {
    kernels::NibbleRule rule;
    for (unsigned code = 0; code < 16; ++code) {
      rule.numbers[code] = table.number[code];
      rule.steps[code] = table.bound[code];
      if (layout.kind == CodeKind::kUnsigned) {
        const unsigned number = code ^ layout.flipped_bits;
        rule.numbers[code] = static_cast<float>(number);
        rule.steps[code] = (number == 0 || number == 15 ? 1.F : 0.5F) + kSlack;
        rule.relative = kWriterError;
        rule.most_steps = kMostWriterSteps;
        // A writer that adds the zero point in bfloat16 rounds the sum, however small its value.
        rule.added = layout.zero_packing ? 7.5F : 0.F;
      }
    }
    return rule;
  }
  void Unpack(std::span<const std::byte> read, int64_t first, int64_t read_from, int64_t run,
              uint8_t* codes) const {
    if (layout_.packing == CodePacking::kBytes) {
      std::memcpy(codes, read.data() + (first - read_from), static_cast<size_t>(run));
      return;
    }
    const unsigned first_shift = layout_.packing == CodePacking::kLowNibbleFirst ? 0 : 4;
    int64_t done = 0;
    if (first % 2 == 0) {
      const std::byte* bytes = read.data() + (first / 2 - read_from);
      for (; done + 1 < run; done += 2) {
        const auto byte = std::to_integer<unsigned>(bytes[done / 2]);
        codes[done] = static_cast<uint8_t>((byte >> first_shift) & 15U);
        codes[done + 1] = static_cast<uint8_t>((byte >> (4 - first_shift)) & 15U);
      }
    }
    for (int64_t i = done; i < run; ++i) {
      const auto byte =
          std::to_integer<unsigned>(read[static_cast<size_t>((first + i) / 2 - read_from)]);
      codes[i] = static_cast<uint8_t>(
          (byte >> ((first + i) % 2 == 0 ? first_shift : 4 - first_shift)) & 15U);
    }
  }

  // Eight codes of a row lie in one word; the next eight in the word `rows_` further on.
  void UnpackColumn(int64_t row, int64_t column, int64_t run, uint8_t* codes) const {
    for (int64_t i = 0; i < run;) {
      const int64_t at = column + i;
      uint32_t word = LoadLittle<uint32_t>(layout_.codes.data() +
                                           static_cast<size_t>(at / 8 * rows_ + row) * 4) >>
                      static_cast<unsigned>(at % 8 * 4);
      const int64_t end = std::min(run, i + 8 - at % 8);
      for (; i < end; ++i) {
        codes[i] = static_cast<uint8_t>(word & 15U);
        word >>= 4U;
      }
    }
  }

  // Nibble `place` of a word as another writer would have put it.
  int64_t Reordered(int64_t place) const {
    static constexpr int64_t kAwq[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    static constexpr int64_t kAwqBack[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    switch (order_) {
      case NibbleOrder::kOwn:
        return place;
      case NibbleOrder::kPairs:
        return place ^ 1;
      case NibbleOrder::kReversed:
        return 7 - place;
      case NibbleOrder::kStraight:
        return kAwqBack[place];
      case NibbleOrder::kInterleaved:
        return kAwq[place];
    }
    return place;
  }

  // `count` bits from bit `bit` of a column of words that are `stride` words apart.
  unsigned BitsAt(std::span<const std::byte> words, int64_t word, int64_t stride,
                  int64_t bit) const {
    const auto load = [&](int64_t index) {
      return LoadLittle<uint32_t>(words.data() + static_cast<size_t>(index) * sizeof(uint32_t));
    };
    if (layout_.bits == 4) {
      bit = bit / 32 * 32 + Reordered(bit % 32 / 4) * 4;
    }
    const int64_t in_word = bit % 32;
    uint64_t value = load(word + bit / 32 * stride) >> in_word;
    if (in_word + layout_.bits > 32) {
      value |= static_cast<uint64_t>(load(word + (bit / 32 + 1) * stride)) << (32 - in_word);
    }
    return static_cast<unsigned>(value & ((1U << layout_.bits) - 1));
  }

  uint8_t CodeAt(std::span<const std::byte> array, CodePacking packing, int64_t rows,
                 int64_t columns, int64_t row, int64_t column) const {
    const auto bits = static_cast<int64_t>(layout_.bits);
    switch (packing) {
      case CodePacking::kBytes:
        return std::to_integer<uint8_t>(array[static_cast<size_t>(row * columns + column)]);
      case CodePacking::kLowNibbleFirst:
      case CodePacking::kHighNibbleFirst: {
        const int64_t at = row * columns + column;
        const auto byte = std::to_integer<unsigned>(array[static_cast<size_t>(at / 2)]);
        const bool low = (at % 2 == 0) == (packing == CodePacking::kLowNibbleFirst);
        return static_cast<uint8_t>(low ? byte & 15U : byte >> 4U);
      }
      case CodePacking::kWordsByRow:
        return static_cast<uint8_t>(
            BitsAt(array, row * ((columns * bits + 31) / 32), 1, column * bits));
      case CodePacking::kWordsByColumn:
        return static_cast<uint8_t>(BitsAt(array, row, rows, column * bits));
      case CodePacking::kWordsDown:
        return static_cast<uint8_t>(BitsAt(array, column, columns, row * bits));
      case CodePacking::kWordsAcross:
        return static_cast<uint8_t>(
            BitsAt(array, column * ((rows * bits + 31) / 32), 1, row * bits));
      case CodePacking::kInterleaved: {
        static constexpr int64_t kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};
        return static_cast<uint8_t>(
            BitsAt(array, column * (rows / 8), 1, row / 8 * 32 + kPlace[row % 8] * 4));
      }
    }
    return 0;
  }

  static float NumberAt(const SideNumbers& numbers, int64_t index) {
    const std::byte* at =
        numbers.bytes.data() + static_cast<size_t>(index) * DTypeSize(numbers.dtype);
    if (numbers.is_exponent) {
      const int exponent = static_cast<int>(std::to_integer<unsigned>(*at)) - 127;
      return exponent == 128 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.F, exponent);
    }
    switch (numbers.dtype) {
      case DType::kFloat32:
        return std::bit_cast<float>(LoadLittle<uint32_t>(at));
      case DType::kBFloat16:
        return tensor::BFloat16ToFloat(LoadLittle<uint16_t>(at));
      case DType::kFloat16:
        return tensor::Float16ToFloat(LoadLittle<uint16_t>(at));
      default: {
        float value = 0;
        kernels::WidenToFloat(numbers.dtype, {at, DTypeSize(numbers.dtype)}, {&value, 1});
        return value;
      }
    }
  }

  int64_t ScaleRow(int64_t row) const {
    if (layout_.matrix_rows == 0) {
      return row / layout_.group_rows;
    }
    return row / layout_.matrix_rows * layout_.matrix_scale_rows +
           row % layout_.matrix_rows / layout_.group_rows;
  }

  struct GroupScale {
    float scale = 1;
    float error = 0;  // of a scale that was rounded itself, relative to one unit of the code
  };

  GroupScale ScaleOf(int64_t row, int64_t group) const {
    GroupScale result;
    if (!layout_.scales.bytes.empty()) {
      const int64_t index =
          ScaleRow(row) * layout_.scales.row_stride + group * layout_.scales.column_stride;
      if (layout_.nested_table.empty()) {
        result.scale = NumberAt(layout_.scales, index);
      } else {
        const auto code = std::to_integer<size_t>(layout_.scales.bytes[static_cast<size_t>(index)]);
        const float of_group = layout_.nested_scales.bytes.empty()
                                   ? 1.F
                                   : NumberAt(layout_.nested_scales, index / layout_.nested_group);
        const std::vector<float>& numbers = layout_.nested_table;
        const float below = code > 0 ? numbers[code] - numbers[code - 1] : 0;
        const float above = code + 1 < numbers.size() ? numbers[code + 1] - numbers[code] : 0;
        result.scale = numbers[code] * of_group + static_cast<float>(layout_.nested_offset);
        result.error = std::max(std::fabs(below), std::fabs(above)) * std::fabs(of_group) * 0.5F;
      }
    }
    if (layout_.factor != 1) {
      result.scale = static_cast<float>(static_cast<double>(result.scale) * layout_.factor);
    }
    if (inverse_) {
      result.scale = 1 / result.scale;
    }
    return result;
  }

  double ZeroOf(int64_t row, int64_t group) const {
    if (!layout_.zero_packing) {
      return layout_.zero;
    }
    const unsigned code = CodeAt(layout_.zero_codes, *layout_.zero_packing, layout_.zero_rows,
                                 layout_.zero_columns, ScaleRow(row), group);
    double zero = code;
    if (layout_.zero_is_signed && code >= (1U << (layout_.bits - 1))) {
      zero -= static_cast<double>(1U << layout_.bits);
    }
    return zero + layout_.zero_added + layout_.zero;
  }

  void Scale(int64_t row, int64_t group, const uint8_t* codes, int64_t run, float* values,
             float* bounds) const {
    const GroupScale group_scale = ScaleOf(row, group);
    const float scale = group_scale.scale;
    const float size = std::fabs(scale);
    if (layout_.kind != CodeKind::kUnsigned) {
      for (int64_t i = 0; i < run; ++i) {
        values[i] = table_.number[codes[i]] * scale;
      }
      if (bounds != nullptr) {
        for (int64_t i = 0; i < run; ++i) {
          bounds[i] = table_.bound[codes[i]] * (size + group_scale.error) +
                      std::fabs(table_.number[codes[i]]) * group_scale.error;
        }
      }
      return;
    }
    const auto zero = static_cast<float>(ZeroOf(row, group));
    const unsigned last = (1U << layout_.bits) - 1;
    const unsigned flip = layout_.flipped_bits;
    const float added = layout_.zero_packing ? static_cast<float>(last) * 0.5F : 0.F;
    const auto value_of = [&](unsigned code) {
      return (static_cast<float>(code ^ flip) - zero) * scale;
    };
    const auto bound_of = [&](unsigned stored) {
      const unsigned code = stored ^ flip;
      const float steps = code == 0 || code == last ? 1.F : 0.5F;
      // A writer that adds the zero point in bfloat16 rounds the sum, however small its value.
      const float number = std::fabs(static_cast<float>(code) - zero) + added;
      return size * (steps + kSlack + std::min(number * kWriterError, kMostWriterSteps));
    };
    constexpr unsigned kFewCodes = 16;
    if (last < kFewCodes && run >= static_cast<int64_t>(2 * kFewCodes)) {
      // What few codes stand for is computed once for the run.
      float number[kFewCodes];
      float bound[kFewCodes];
      for (unsigned code = 0; code <= last; ++code) {
        number[code] = value_of(code);
        bound[code] = bound_of(code);
      }
      for (int64_t i = 0; i < run; ++i) {
        values[i] = number[codes[i]];
      }
      for (int64_t i = 0; bounds != nullptr && i < run; ++i) {
        bounds[i] = bound[codes[i]];
      }
      return;
    }
    for (int64_t i = 0; i < run; ++i) {
      values[i] = value_of(codes[i]);
    }
    for (int64_t i = 0; bounds != nullptr && i < run; ++i) {
      bounds[i] = bound_of(codes[i]);
    }
  }

  CodeLayout layout_;
  CodeTable table_;
  kernels::NibbleRule nibbles_;  // of codes of four bits, without their scale
  std::optional<kernels::ByteCode> byte_code_;
  int64_t rows_;
  bool inverse_ = false;
  bool was_words_ = false;
  NibbleOrder order_ = NibbleOrder::kOwn;
};

Status Short(std::string_view what, uint64_t has, uint64_t needs) {
  return BadFormatError(fmt::format("{} has {} bytes, its layout needs {}", what, has, needs));
}

// Bytes of an array of codes.
Result<uint64_t> CodeBytes(CodePacking packing, int64_t rows, int64_t columns, unsigned bits) {
  const auto r = static_cast<uint64_t>(rows);
  const auto c = static_cast<uint64_t>(columns);
  const auto words = [&](uint64_t codes) { return (codes * bits + 31) / 32 * 4; };
  switch (packing) {
    case CodePacking::kBytes:
      return r * c;
    case CodePacking::kLowNibbleFirst:
    case CodePacking::kHighNibbleFirst:
      return (r * c + 1) / 2;
    case CodePacking::kWordsByRow:
      return r * words(c);
    case CodePacking::kWordsByColumn:
      return r * words(c);
    case CodePacking::kWordsDown:
    case CodePacking::kWordsAcross:
      return c * words(r);
    case CodePacking::kInterleaved:
      if (r % 8 != 0) {
        return BadFormatError(fmt::format("{} rows are not a multiple of 8", rows));
      }
      return c * r / 2;
  }
  return BadFormatError("unknown packing");
}

}  // namespace

Result<std::shared_ptr<CodedTensor>> MakeGroupedCodes(CodeLayout layout, std::string format) {
  MSP_ASSIGN_OR_RETURN(const int64_t value_bytes, DenseBytes(layout.shape, sizeof(double) * 4));
  (void)value_bytes;
  const int64_t count = ElementCount(layout.shape);
  if (count == 0) {
    layout.columns = 1;
  }
  if (layout.columns <= 0 || count % layout.columns != 0 || layout.group_rows <= 0 ||
      layout.group_columns <= 0 || layout.bits < 1 || layout.bits > 8 || layout.nested_group <= 0) {
    return BadFormatError(fmt::format("no layout of codes: shape {}, rows of {}, groups {}x{}",
                                      ShapeText(layout.shape), layout.columns, layout.group_rows,
                                      layout.group_columns));
  }
  const int64_t rows = count / layout.columns;
  MSP_ASSIGN_OR_RETURN(const uint64_t code_bytes,
                       CodeBytes(layout.packing, rows, layout.columns, layout.bits));
  if (layout.codes.size() < code_bytes) {
    return Short("the array of codes", layout.codes.size(), code_bytes);
  }
  int64_t groups = (layout.columns + layout.group_columns - 1) / layout.group_columns;
  if (layout.column_groups != nullptr) {
    if (static_cast<int64_t>(layout.column_groups->size()) < layout.columns) {
      return Short("the array of group indices", layout.column_groups->size() * 4,
                   static_cast<uint64_t>(layout.columns) * 4);
    }
    groups = 0;
    for (const int32_t group : *layout.column_groups) {
      if (group < 0) {
        return BadFormatError(fmt::format("a group index is {}", group));
      }
      groups = std::max<int64_t>(groups, int64_t{group} + 1);
    }
  }
  if (!layout.scales.bytes.empty() && count > 0) {
    int64_t scale_rows = (rows + layout.group_rows - 1) / layout.group_rows;
    if (layout.matrix_rows > 0) {
      if (rows % layout.matrix_rows != 0 ||
          (layout.matrix_rows + layout.group_rows - 1) / layout.group_rows >
              layout.matrix_scale_rows) {
        return BadFormatError(fmt::format("{} rows in matrices of {} do not fit scales of {}", rows,
                                          layout.matrix_rows, layout.matrix_scale_rows));
      }
      scale_rows = rows / layout.matrix_rows * layout.matrix_scale_rows;
    }
    int64_t down = 0;
    int64_t across = 0;
    int64_t last = 0;
    if (!CheckedMultiply(scale_rows - 1, layout.scales.row_stride, &down) ||
        !CheckedMultiply(groups - 1, layout.scales.column_stride, &across) ||
        !CheckedAdd(down, across, &last) || !CheckedAdd(last, int64_t{1}, &last)) {
      return BadFormatError("scales lie beyond any memory");
    }
    const uint64_t scale_count = layout.scales.bytes.size() / DTypeSize(layout.scales.dtype);
    if (static_cast<uint64_t>(last) > scale_count) {
      return BadFormatError(fmt::format("{} scales, but {} groups of {} in {} rows of {}",
                                        scale_count, groups, layout.group_columns, rows,
                                        layout.columns));
    }
    if (!layout.nested_table.empty()) {
      if (layout.nested_table.size() < 256) {
        return BadFormatError("the table of nested scales has less than 256 entries");
      }
      const uint64_t nested =
          layout.nested_scales.bytes.size() / DTypeSize(layout.nested_scales.dtype);
      if (static_cast<uint64_t>((last - 1) / layout.nested_group) >= nested) {
        return BadFormatError(fmt::format("{} scales in groups of {} need more than {} nested ones",
                                          last, layout.nested_group, nested));
      }
    }
  }
  if (layout.zero_packing && count > 0) {
    const int64_t zero_rows = layout.matrix_rows > 0
                                  ? rows / layout.matrix_rows * layout.matrix_scale_rows
                                  : (rows + layout.group_rows - 1) / layout.group_rows;
    if (layout.zero_columns < groups || layout.zero_rows < zero_rows) {
      return BadFormatError(fmt::format("zero points for {} rows and {} groups, needed are {}, {}",
                                        layout.zero_rows, layout.zero_columns, zero_rows, groups));
    }
    MSP_ASSIGN_OR_RETURN(
        const uint64_t zero_bytes,
        CodeBytes(*layout.zero_packing, layout.zero_rows, layout.zero_columns, layout.bits));
    if (layout.zero_codes.size() < zero_bytes) {
      return Short("the array of zero points", layout.zero_codes.size(), zero_bytes);
    }
  }
  return std::shared_ptr<CodedTensor>(
      std::make_shared<GroupedCodes>(std::move(layout), std::move(format)));
}

std::string GroupText(int64_t group_rows, int64_t group_columns, int64_t rows, int64_t columns) {
  if (group_rows >= rows && group_columns >= columns && rows > 1) {
    return "tensor";
  }
  if (group_rows == 1) {
    return group_columns >= columns ? "channel" : fmt::format("group {}", group_columns);
  }
  return fmt::format("block {}x{}", group_rows, group_columns);
}

}  // namespace msprobe::io
