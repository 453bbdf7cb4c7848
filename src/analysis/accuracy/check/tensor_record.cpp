#include "src/analysis/accuracy/check/tensor_record.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/tensor/float_bits.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr double kLimitOfInt64 = 0x1p63;

// The four dtypes that are drawn as floats: how many random bits, and how results round.
struct FloatKind {
  DType dtype;
  int bits;
};
constexpr FloatKind kFloatKinds[] = {
    {DType::kFloat32, 24},
    {DType::kFloat64, 53},
    {DType::kFloat16, 11},
    {DType::kBFloat16, 8},
};
const FloatKind* FloatKindOf(DType dtype) {
  for (const FloatKind& kind : kFloatKinds) {
    if (kind.dtype == dtype) {
      return &kind;
    }
  }
  return nullptr;
}

void StoreFloat(DType dtype, double value, std::byte* out) {
  const auto store = [out](auto element) { std::memcpy(out, &element, sizeof(element)); };
  switch (dtype) {
    case DType::kFloat64:
      store(value);
      return;
    case DType::kFloat16:
      store(tensor::FloatToFloat16(static_cast<float>(value)));
      return;
    case DType::kBFloat16:
      store(tensor::FloatToBFloat16(static_cast<float>(value)));
      return;
    default:
      store(static_cast<float>(value));
      return;
  }
}

void StoreInteger(DType dtype, int64_t value, std::byte* out) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(out, &value, DTypeSize(dtype));
}

// int() of a number of the dump.
Result<int64_t> Whole(const RecordedNumber& number) {
  if (number.is_integer) {
    return number.integer;
  }
  if (std::isnan(number.number)) {
    return BadFormatError("cannot convert float NaN to integer");
  }
  if (std::isinf(number.number)) {
    return BadFormatError("cannot convert float infinity to integer");
  }
  if (!(std::fabs(number.number) < kLimitOfInt64)) {
    return BadFormatError("Overflow when unpacking long");
  }
  return static_cast<int64_t>(number.number);
}

int64_t DrawBetween(int64_t low, int64_t high, TorchGenerator& generator) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const uint64_t drawn = range != 0 && range < (uint64_t{1} << 32U) ? generator.Draw32() % range
                         : range != 0                               ? generator.Draw64() % range
                                                                    : generator.Draw64();
  return static_cast<int64_t>(static_cast<uint64_t>(low) + drawn);
}

class Drawing {
 public:
  Drawing(const TensorRecord& record, TorchGenerator& generator, std::byte* out)
      : record_(record),
        generator_(generator),
        out_(out),
        count_(static_cast<size_t>(ElementCount(record.shape))) {}

  Status Draw() {
    if (!record_.dtype) {
      return UnsupportedError("");
    }
    if (count_ == 0) {
      return {};
    }
    if (!record_.least || !record_.most) {
      return BadFormatError("Data info Min: None , Max: None, info type must be int or float.");
    }
    low_ = record_.least_finite.value_or(*record_.least);
    high_ = record_.most_finite.value_or(*record_.most);
    dtype_ = *record_.dtype;
    size_ = DTypeSize(dtype_);
    if (dtype_ == DType::kBool) {
      return DrawBooleans();
    }
    if (const FloatKind* kind = FloatKindOf(dtype_); kind != nullptr) {
      MSP_RETURN_IF_ERROR(DrawFloats(*kind));
    } else if (GetDTypeInfo(dtype_).kind == DTypeKind::kSigned ||
               GetDTypeInfo(dtype_).kind == DTypeKind::kUnsigned) {
      MSP_RETURN_IF_ERROR(DrawIntegers());
    } else {
      return UnsupportedError("");
    }
    return keeps_ends_ ? OkStatus() : SetEnds();
  }

 private:
  Status DrawBooleans() {
    MSP_ASSIGN_OR_RETURN(int64_t low, Whole(low_));
    MSP_ASSIGN_OR_RETURN(int64_t high, Whole(high_));
    if (low > high) {
      std::swap(low, high);
    }
    for (size_t i = 0; i < count_; ++i) {
      out_[i] = std::byte{DrawBetween(low, high, generator_) > 0 ? uint8_t{1} : uint8_t{0}};
    }
    return {};
  }

  Status DrawIntegers() {
    MSP_ASSIGN_OR_RETURN(const int64_t low, Whole(low_));
    MSP_ASSIGN_OR_RETURN(const int64_t high, Whole(high_));
    if (low > high) {
      return BadFormatError(fmt::format(
          "random_ expects 'from' to be less than 'to', but got from={} >= to={}", low, high + 1));
    }
    for (size_t i = 0; i < count_; ++i) {
      StoreInteger(dtype_, DrawBetween(low, high, generator_), out_ + i * size_);
    }
    return {};
  }

  double Drawn01(const FloatKind& kind) {
    const uint64_t bits = kind.bits > 32 ? generator_.Draw64() : generator_.Draw32();
    return std::ldexp(
        static_cast<double>(bits & ((uint64_t{1} << static_cast<unsigned>(kind.bits)) - 1)),
        -kind.bits);
  }

  Status DrawFloats(const FloatKind& kind) {
    const double high = high_.number;
    const double low = low_.number;
    if (std::isnan(high)) {
      Fill(0, count_, high);
      return {};
    }
    const double original_high = record_.most->number;
    if (original_high != 0 && std::isinf(high)) {
      if (record_.shape.empty()) {
        return BadFormatError("invalid index of a 0-dim tensor");
      }
      Fill(0, count_, high);
      const size_t row = count_ / static_cast<size_t>(record_.shape[0]);
      Fill(count_ - row, row, low);
      keeps_ends_ = true;
      return {};
    }
    const double largest = tensor::FormatOf(kind.dtype).largest;
    const double lowest = std::isinf(low) ? std::copysign(largest, low) : low;
    const double highest = std::isinf(high) ? std::copysign(largest, high) : high;
    const double range = tensor::RoundToDType(dtype_, highest - lowest);
    const double base = tensor::RoundToDType(dtype_, lowest);
    for (size_t i = 0; i < count_; ++i) {
      StoreFloat(dtype_, Scaled(Drawn01(kind), range, base), out_ + i * size_);
    }
    return {};
  }

  // drawn * range + base, with both results rounded to the dtype.
  double Scaled(double drawn, double range, double base) const {
    if (dtype_ == DType::kFloat64) {
      const double product = drawn * range;
      return product + base;
    }
    const float product = static_cast<float>(drawn) * static_cast<float>(range);
    const auto rounded =
        static_cast<float>(tensor::RoundToDType(dtype_, static_cast<double>(product)));
    return tensor::RoundToDType(dtype_, static_cast<double>(rounded + static_cast<float>(base)));
  }

  void Fill(size_t first, size_t count, double value) {
    for (size_t i = first; i < first + count; ++i) {
      StoreFloat(dtype_, value, out_ + i * size_);
    }
  }

  Status Set(size_t place, const RecordedNumber& number) {
    if (FloatKindOf(dtype_) != nullptr) {
      StoreFloat(dtype_, number.number, out_ + place * size_);
      return {};
    }
    MSP_ASSIGN_OR_RETURN(const int64_t whole, Whole(number));
    StoreInteger(dtype_, whole, out_ + place * size_);
    return {};
  }

  // The recorded extremes are at both ends.
  Status SetEnds() {
    const RecordedNumber& high0 = *record_.most;
    const RecordedNumber& low0 = *record_.least;
    const size_t last = count_ - 1;
    if (std::isnan(high0.number)) {
      const RecordedNumber nan = {false, 0, std::numeric_limits<double>::quiet_NaN()};
      MSP_RETURN_IF_ERROR(Set(0, count_ <= 2 ? nan : low_));
      if (count_ > 2) {
        MSP_RETURN_IF_ERROR(Set(1, nan));
      }
      return Set(last, high_);
    }
    MSP_RETURN_IF_ERROR(Set(0, low_));
    MSP_RETURN_IF_ERROR(Set(last, high_));
    if (std::isinf(high0.number)) {
      MSP_RETURN_IF_ERROR(Set(last, high0));
    }
    if (std::isinf(low0.number)) {
      MSP_RETURN_IF_ERROR(Set(0, low0));
    }
    return {};
  }

  const TensorRecord& record_;
  TorchGenerator& generator_;
  std::byte* const out_;
  const size_t count_;
  RecordedNumber low_;
  RecordedNumber high_;
  DType dtype_ = DType::kFloat32;
  size_t size_ = 0;
  bool keeps_ends_ = false;
};

}  // namespace

TorchGenerator::TorchGenerator(uint32_t seed) {
  state_[0] = seed;
  for (size_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30U)) + static_cast<uint32_t>(i);
  }
}

void TorchGenerator::Refill() {
  constexpr size_t kMiddle = 397;
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t mixed = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7FFFFFFFU);
    state_[i] =
        state_[(i + kMiddle) % kWords] ^ (mixed >> 1U) ^ ((mixed & 1U) != 0 ? 0x9908B0DFU : 0U);
  }
  used_ = 0;
}

uint32_t TorchGenerator::Draw32() {
  if (used_ == kWords) {
    Refill();
  }
  uint32_t word = state_[used_++];
  word ^= word >> 11U;
  word ^= (word << 7U) & 0x9D2C5680U;
  word ^= (word << 15U) & 0xEFC60000U;
  return word ^ (word >> 18U);
}

Status DrawTensor(const TensorRecord& record, TorchGenerator& generator, std::byte* out) {
  return Drawing(record, generator, out).Draw();
}

Status DrawUniformTensor(const TensorRecord& record, std::byte* out) {
  constexpr uint32_t kSeed = 42;
  const auto count = static_cast<size_t>(ElementCount(record.shape));
  if (count == 0) {
    return {};
  }
  if (!record.dtype || GetDTypeInfo(*record.dtype).kind == DTypeKind::kComplex) {
    return UnsupportedError("tensors of this dtype cannot be drawn: " + record.dtype_text);
  }
  if (!record.least || !record.most || std::isnan(record.least->number) ||
      std::isnan(record.most->number)) {
    return BadFormatError("the record of a tensor has no minimum and maximum");
  }
  const DType dtype = *record.dtype;
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  const FloatKind* known = FloatKindOf(dtype);
  const auto bounded = [&](double value) {
    if (!std::isinf(value)) {
      return value;
    }
    return std::copysign(known != nullptr ? tensor::FormatOf(dtype).largest : kLimitOfInt64, value);
  };
  const double least = bounded(record.least->number);
  const double most = bounded(record.most->number);
  TorchGenerator generator(kSeed);
  for (size_t i = 0; i < count; ++i) {
    // 53 bits of two draws, as NumPy takes them.
    const uint32_t high = generator.Draw32() >> 5U;
    const uint32_t low = generator.Draw32() >> 6U;
    const double unit = (double{67108864} * high + low) / 9007199254740992.0;
    std::byte* place = out + i * DTypeSize(dtype);
    if (kind == DTypeKind::kBool) {
      *place = std::byte{unit > 0.5 ? uint8_t{1} : uint8_t{0}};
      continue;
    }
    const double value = least + (most - least) * unit;
    if (kind == DTypeKind::kFloat) {
      StoreFloat(dtype, value, place);
    } else {
      const double inside = std::fabs(value) < kLimitOfInt64 ? value : 0;
      StoreInteger(dtype, static_cast<int64_t>(inside), place);
    }
  }
  return {};
}

namespace {

// Larger tensors are not inputs that anybody could check.
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 36U;

std::optional<RecordedNumber> NumberAt(const dump::EntryTree& tree, uint32_t object,
                                       std::string_view key) {
  const uint32_t place = tree.Find(object, key);
  if (place == dump::EntryTree::kNone) {
    return std::nullopt;
  }
  const dump::Node& node = tree[place];
  switch (node.kind) {
    case dump::NodeKind::kInt:
      return RecordedNumber{true, node.integer, static_cast<double>(node.integer)};
    case dump::NodeKind::kFloat:
      return RecordedNumber{false, 0, node.number};
    case dump::NodeKind::kBool:
      return RecordedNumber{true, node.boolean ? 1 : 0, node.boolean ? 1.0 : 0.0};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool IsTensorRecord(const dump::EntryTree& tree, uint32_t place) {
  if (tree[place].kind != dump::NodeKind::kObject) {
    return false;
  }
  const uint32_t dtype = tree.Find(place, "dtype");
  const uint32_t shape = tree.Find(place, "shape");
  return dtype != dump::EntryTree::kNone && tree[dtype].kind == dump::NodeKind::kText &&
         shape != dump::EntryTree::kNone && tree[shape].kind == dump::NodeKind::kList;
}

Result<TensorRecord> ReadTensorRecord(const dump::EntryTree& tree, uint32_t place) {
  TensorRecord record;
  record.dtype_text = tree[tree.Find(place, "dtype")].text;
  record.dtype = ParseDType(record.dtype_text);
  uint64_t bytes = record.dtype ? DTypeSize(*record.dtype) : 1;
  bool valid = true;
  tree.ForEachChild(tree.Find(place, "shape"), [&](uint32_t item) {
    const dump::Node& size = tree[item];
    valid = valid && size.kind == dump::NodeKind::kInt && size.integer >= 0 &&
            !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size.integer), &bytes) &&
            bytes <= kMostTensorBytes;
    record.shape.push_back(valid ? size.integer : 0);
  });
  if (!valid) {
    return BadFormatError("the shape of a tensor is not valid, or too large to be made");
  }
  record.least = NumberAt(tree, place, "Min");
  record.most = NumberAt(tree, place, "Max");
  record.least_finite = NumberAt(tree, place, "Min_except_inf_nan");
  record.most_finite = NumberAt(tree, place, "Max_except_inf_nan");
  const uint32_t grad = tree.Find(place, "requires_grad");
  record.requires_grad = grad != dump::EntryTree::kNone && tree[grad].boolean;
  return record;
}

}  // namespace msprobe::analysis::accuracy
