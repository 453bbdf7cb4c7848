// How a block becomes values: each type has a function that takes it apart into integers and runs
// of scale and offset, value = integer * scale + offset; what rounding may do follows from those
// alone. Blocks of 256 ("k-quants") have scales that are rounded integers themselves, times a
// float16.
#include "src/io/gguf/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/mapped_reads.h"
#include "src/io/contents.h"
#include "src/tensor/float_bits.h"

namespace msprobe::io {
namespace {

constexpr size_t kMostElements = 256;
constexpr size_t kMostRuns = 16;
constexpr size_t kBlocksInOneRead = 256;
constexpr float kBlockSlack = 0x1p-18F;  // of float32 arithmetic

// One block taken apart.
struct Parts {
  std::array<int16_t, kMostElements> integers;  // number of the code, less its constant offset
  struct Run {
    float scale = 0;
    float offset = 0;
    float scale_error = 0;   // how far the writer's own scale may have been from it
    float offset_error = 0;  // the same of the offset
  };
  std::array<Run, kMostRuns> runs;
};

struct BlockType {
  GgufType type;
  void (*take_apart)(const std::byte* block, Parts& parts);
  int64_t run_elements;
  int lowest;  // integers at the ends of the range
  int highest;
  // The writer chose the codes by the stored scales, so that only those at the ends are off by the
  // rounding of the scales.
  bool rescaled;
  int middle;          // what was subtracted from the code
  int64_t half_codes;  // two codes share a byte that lie so far apart; 0: no nibbles
};

float Half(const std::byte* at) { return tensor::Float16ToFloat(LoadLittle<uint16_t>(at)); }

// Half the gap of float16 at a number.
float HalfGapOfHalf(float value) {
  const int exponent = value == 0 ? -14 : std::max(std::ilogb(value), -14);
  return std::ldexp(1.F, exponent - 11);
}

unsigned Byte(const std::byte* at, size_t index) { return std::to_integer<unsigned>(at[index]); }

void OneRun(float scale, float offset, bool has_offset, Parts& parts) {
  parts.runs[0] = {scale, offset, HalfGapOfHalf(scale), has_offset ? HalfGapOfHalf(offset) : 0.F};
}

// 16 bytes: the first 16 codes in the low nibbles, the others in the high ones.
void Nibbles(const std::byte* bytes, const std::byte* fifth_bits, int middle, Parts& parts) {
  const uint32_t fifth = fifth_bits == nullptr ? 0 : LoadLittle<uint32_t>(fifth_bits);
  for (size_t i = 0; i < 16; ++i) {
    const unsigned byte = Byte(bytes, i);
    const unsigned low = (byte & 15U) | ((fifth >> i & 1U) << 4U);
    const unsigned high = (byte >> 4U) | ((fifth >> (i + 16) & 1U) << 4U);
    parts.integers[i] = static_cast<int16_t>(static_cast<int>(low) - middle);
    parts.integers[i + 16] = static_cast<int16_t>(static_cast<int>(high) - middle);
  }
}

void TakeQ4_0(const std::byte* block, Parts& parts) {
  OneRun(Half(block), 0, false, parts);
  Nibbles(block + 2, nullptr, 8, parts);
}
void TakeQ4_1(const std::byte* block, Parts& parts) {
  OneRun(Half(block), Half(block + 2), true, parts);
  Nibbles(block + 4, nullptr, 0, parts);
}
void TakeQ5_0(const std::byte* block, Parts& parts) {
  OneRun(Half(block), 0, false, parts);
  Nibbles(block + 6, block + 2, 16, parts);
}
void TakeQ5_1(const std::byte* block, Parts& parts) {
  OneRun(Half(block), Half(block + 2), true, parts);
  Nibbles(block + 8, block + 4, 0, parts);
}
void TakeQ8_0(const std::byte* block, Parts& parts) {
  OneRun(Half(block), 0, false, parts);
  for (size_t i = 0; i < 32; ++i) {
    parts.integers[i] = static_cast<int8_t>(Byte(block, 2 + i));
  }
}
constexpr int16_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
void TakeIq4Nl(const std::byte* block, Parts& parts) {
  OneRun(Half(block), 0, false, parts);
  for (size_t i = 0; i < 16; ++i) {
    parts.integers[i] = kIq4[Byte(block, 2 + i) & 15U];
    parts.integers[i + 16] = kIq4[Byte(block, 2 + i) >> 4U];
  }
}
// Twice the numbers of e2m1, so that they are integers.
constexpr int16_t kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
void TakeMxfp4(const std::byte* block, Parts& parts) {
  parts.runs[0] = {std::ldexp(1.F, static_cast<int>(Byte(block, 0)) - 128), 0, 0, 0};
  for (size_t i = 0; i < 16; ++i) {
    parts.integers[i] = kTwiceE2M1[Byte(block, 1 + i) & 15U];
    parts.integers[i + 16] = kTwiceE2M1[Byte(block, 1 + i) >> 4U];
  }
}

// A run of a block of 256: both numbers are integers of a few bits times a float16.
void KRun(float d, unsigned scale, float dmin, unsigned minimum, Parts::Run& run) {
  run = {d * static_cast<float>(scale), -dmin * static_cast<float>(minimum), std::fabs(d) * 0.5F,
         std::fabs(dmin) * 0.5F};
}

// Signed scales have ends of their own: a whole gap.
Parts::Run SignedRun(float d, int scale, int lowest, int highest) {
  const float steps = scale == lowest || scale == highest ? 1.F : 0.5F;
  return {d * static_cast<float>(scale), 0, std::fabs(d) * steps, 0};
}

void TakeQ2K(const std::byte* block, Parts& parts) {
  const float d = Half(block + 80);
  const float dmin = Half(block + 82);
  for (size_t run = 0; run < 16; ++run) {
    KRun(d, Byte(block, run) & 15U, dmin, Byte(block, run) >> 4U, parts.runs[run]);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t byte = i / 128 * 32 + i % 32;
    parts.integers[i] = static_cast<int16_t>(Byte(block, 16 + byte) >> (2 * (i % 128 / 32)) & 3U);
  }
}

void TakeQ3K(const std::byte* block, Parts& parts) {
  const std::byte* scales = block + 96;
  const float d = Half(block + 108);
  for (size_t run = 0; run < 16; ++run) {
    const unsigned low = run < 8 ? Byte(scales, run) & 15U : Byte(scales, run - 8) >> 4U;
    const unsigned high = Byte(scales, 8 + run % 4) >> (2 * (run / 4)) & 3U;
    const int scale = static_cast<int>(low | high << 4U) - 32;
    parts.runs[run] = SignedRun(d, scale, -32, 31);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t byte = i / 128 * 32 + i % 32;
    const unsigned low = Byte(block, 32 + byte) >> (2 * (i % 128 / 32)) & 3U;
    const unsigned high = Byte(block, i % 32) >> (i / 32) & 1U;
    parts.integers[i] = static_cast<int16_t>(static_cast<int>(low | high << 2U) - 4);
  }
}

// Eight scales and eight minima of six bits in twelve bytes.
void K4Runs(const std::byte* block, Parts& parts) {
  const float d = Half(block);
  const float dmin = Half(block + 2);
  const std::byte* packed = block + 4;
  for (size_t run = 0; run < 8; ++run) {
    unsigned scale = 0;
    unsigned minimum = 0;
    if (run < 4) {
      scale = Byte(packed, run) & 63U;
      minimum = Byte(packed, run + 4) & 63U;
    } else {
      scale = (Byte(packed, run + 4) & 15U) | (Byte(packed, run - 4) >> 6U) << 4U;
      minimum = Byte(packed, run + 4) >> 4U | (Byte(packed, run) >> 6U) << 4U;
    }
    KRun(d, scale, dmin, minimum, parts.runs[run]);
  }
}

void TakeQ4K(const std::byte* block, Parts& parts) {
  K4Runs(block, parts);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned byte = Byte(block, 16 + i / 64 * 32 + i % 32);
    parts.integers[i] = static_cast<int16_t>(i % 64 < 32 ? byte & 15U : byte >> 4U);
  }
}

void TakeQ5K(const std::byte* block, Parts& parts) {
  K4Runs(block, parts);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned byte = Byte(block, 48 + i / 64 * 32 + i % 32);
    const unsigned fifth = Byte(block, 16 + i % 32) >> (i / 32) & 1U;
    parts.integers[i] = static_cast<int16_t>((i % 64 < 32 ? byte & 15U : byte >> 4U) | fifth << 4U);
  }
}

void TakeQ6K(const std::byte* block, Parts& parts) {
  const float d = Half(block + 208);
  for (size_t run = 0; run < 16; ++run) {
    const auto scale = static_cast<int8_t>(Byte(block, 192 + run));
    parts.runs[run] = SignedRun(d, scale, -128, 127);
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t in_half = i % 128;
    const unsigned byte = Byte(block, i / 128 * 64 + in_half % 64);
    const unsigned low = in_half < 64 ? byte & 15U : byte >> 4U;
    const unsigned high = Byte(block, 128 + i / 128 * 32 + i % 32) >> (2 * (in_half / 32)) & 3U;
    parts.integers[i] = static_cast<int16_t>(static_cast<int>(low | high << 4U) - 32);
  }
}

constexpr BlockType kBlockTypes[] = {
    {{2, "q4_0", 32, 18, {}, true}, TakeQ4_0, 32, -8, 7, false, 8, 16},
    {{3, "q4_1", 32, 20, {}, true}, TakeQ4_1, 32, 0, 15, false, 0, 16},
    {{6, "q5_0", 32, 22, {}, true}, TakeQ5_0, 32, -16, 15, false, 16, 16},
    {{7, "q5_1", 32, 24, {}, true}, TakeQ5_1, 32, 0, 31, false, 0, 16},
    {{8, "q8_0", 32, 34, {}, true}, TakeQ8_0, 32, -127, 127, false, 0, 0},
    {{10, "q2_k", 256, 84, {}, true}, TakeQ2K, 16, 0, 3, true, 0, 0},
    {{11, "q3_k", 256, 110, {}, true}, TakeQ3K, 16, -4, 3, true, 4, 0},
    {{12, "q4_k", 256, 144, {}, true}, TakeQ4K, 32, 0, 15, true, 0, 32},
    {{13, "q5_k", 256, 176, {}, true}, TakeQ5K, 32, 0, 31, true, 0, 32},
    {{14, "q6_k", 256, 210, {}, true}, TakeQ6K, 16, -32, 31, true, 32, 64},
    {{20, "iq4_nl", 32, 18, {}, true}, TakeIq4Nl, 32, -127, 113, false, 0, 16},
    {{39, "mxfp4", 32, 17, {}, true}, TakeMxfp4, 32, -12, 12, false, 0, 16},
};

// Types without blocks, and those whose sizes are all that is known here.
constexpr GgufType kOtherTypes[] = {
    {0, "f32", 1, 4, DType::kFloat32, true},
    {1, "f16", 1, 2, DType::kFloat16, true},
    {30, "bf16", 1, 2, DType::kBFloat16, true},
    {28, "f64", 1, 8, DType::kFloat64, true},
    {24, "i8", 1, 1, DType::kInt8, true},
    {25, "i16", 1, 2, DType::kInt16, true},
    {26, "i32", 1, 4, DType::kInt32, true},
    {27, "i64", 1, 8, DType::kInt64, true},
    {9, "q8_1", 32, 36, {}, false},
    {15, "q8_k", 256, 292, {}, false},
    {16, "iq2_xxs", 256, 66, {}, false},
    {17, "iq2_xs", 256, 74, {}, false},
    {18, "iq3_xxs", 256, 98, {}, false},
    {19, "iq1_s", 256, 50, {}, false},
    {21, "iq3_s", 256, 110, {}, false},
    {22, "iq2_s", 256, 82, {}, false},
    {23, "iq4_xs", 256, 136, {}, false},
    {29, "iq1_m", 256, 56, {}, false},
    {34, "tq1_0", 256, 54, {}, false},
    {35, "tq2_0", 256, 66, {}, false},
};

// Half the wider gap beside a number of a table, in units of the scale.
float GapIn(std::span<const int16_t> table, int16_t number) {
  int below = 0;
  int above = 0;
  for (const int16_t other : table) {
    if (other < number) {
      below = below == 0 ? number - other : std::min(below, number - other);
    } else if (other > number) {
      above = above == 0 ? other - number : std::min(above, other - number);
    }
  }
  return static_cast<float>(std::max(below, above));
}

class GgufBlocks final : public CodedTensor {
 public:
  // How another reader would understand the same bytes.
  struct Mistake {
    enum class Scale : uint8_t { kOwn, kOne, kInverse } scale = Scale::kOwn;
    enum class Order : uint8_t { kOwn, kSwapped, kInterleaved } order = Order::kOwn;
    enum class Zero : uint8_t {
      kOwn,
      kNone,
      kOneMore,
      kOneLess,
      kFlipped,     // the minimum added instead of subtracted
      kComplement,  // two's complement instead of a number with an offset
    } zero = Zero::kOwn;
  };

  GgufBlocks(const BlockType& type, Shape shape, std::span<const std::byte> bytes,
             const Mistake& mistake)
      : CodedTensor(std::move(shape), std::string(type.type.name)),
        type_(type),
        bytes_(bytes),
        mistake_(mistake) {
    std::span<const int16_t> table;
    if (type.take_apart == TakeIq4Nl) {
      table = kIq4;
    } else if (type.take_apart == TakeMxfp4) {
      table = kTwiceE2M1;
    }
    for (int number = kLowestNumber; number <= kHighestNumber; ++number) {
      const bool is_end = number <= type.lowest || number >= type.highest;
      const float gap = table.empty() ? 1.F : GapIn(table, static_cast<int16_t>(number));
      // The least squares that follow the choice of codes move the scale of iq4_nl a little.
      const float writer = type.take_apart == TakeIq4Nl ? 0.25F : 0.F;
      // Writers of k-quants look for the scale with the least error, which may cut off the ends.
      const float end = type.rescaled ? 1.5F : 1.F;
      steps_[static_cast<size_t>(number - kLowestNumber)] =
          gap * ((is_end ? end : 0.5F) + writer + kBlockSlack);
    }
  }

  void Read(int64_t first, size_t count, ReadCodes& read) const override {
    const int64_t elements = type_.type.block_elements;
    const auto block_bytes = static_cast<size_t>(type_.type.block_bytes);
    const auto first_block = static_cast<size_t>(first / elements);
    const auto end_block =
        static_cast<size_t>((first + static_cast<int64_t>(count) + elements - 1) / elements);
    read.first = first_block * block_bytes;
    read.bytes = base::ReadMapped(
        bytes_.subspan(read.first, (end_block - first_block) * block_bytes), read.scratch);
  }

  void DecodeFrom(const ReadCodes* read, int64_t first, size_t count, DType /*partner*/,
                  float* values, float* bounds) const override {
    if (read == nullptr) {
      thread_local ReadCodes own;
      Read(first, count, own);
      read = &own;
    }
    const int64_t elements = type_.type.block_elements;
    const int64_t block_bytes = type_.type.block_bytes;
    const std::byte* block =
        read->bytes.data() + (static_cast<size_t>(first / elements * block_bytes) - read->first);
    int64_t skipped = first % elements;
    Parts parts;
    while (count > 0) {
      type_.take_apart(block, parts);
      Misread(parts);
      const int64_t used = std::min<int64_t>(elements - skipped, static_cast<int64_t>(count));
      for (int64_t i = 0; i < used;) {
        const int64_t at = skipped + i;
        const int64_t in_run = std::min(used - i, type_.run_elements - at % type_.run_elements);
        Fill(parts.runs[static_cast<size_t>(at / type_.run_elements)], parts.integers.data() + at,
             in_run, values + i, bounds == nullptr ? nullptr : bounds + i);
        i += in_run;
      }
      values += used;
      bounds = bounds == nullptr ? nullptr : bounds + used;
      count -= static_cast<size_t>(used);
      skipped = 0;
      block += block_bytes;
    }
  }

  std::vector<Reading> OtherReadings() const override {
    std::vector<Reading> readings;
    const auto add = [&](std::string cause, const Mistake& mistake) {
      readings.push_back(
          {std::move(cause), std::make_shared<GgufBlocks>(type_, shape(), bytes_, mistake)});
    };
    add("scale_missing", {Mistake::Scale::kOne, {}, {}});
    add("scale_inverted", {Mistake::Scale::kInverse, {}, {}});
    if (type_.half_codes > 0) {
      add("nibble_order", {{}, Mistake::Order::kSwapped, {}});
      add("nibble_order", {{}, Mistake::Order::kInterleaved, {}});
    }
    for (const auto zero : {Mistake::Zero::kNone, Mistake::Zero::kOneMore, Mistake::Zero::kOneLess,
                            Mistake::Zero::kFlipped, Mistake::Zero::kComplement}) {
      add("zero_point", {{}, {}, zero});
    }
    return readings;
  }

  std::optional<ScaleRange> Scales() const override {
    std::optional<ScaleRange> range;
    ReadCodes read;
    Parts parts;
    const auto count = static_cast<size_t>(ElementCount(shape()));
    const auto runs = static_cast<size_t>(type_.type.block_elements / type_.run_elements);
    for (size_t first = 0; first < count; first += kBlocksInOneRead * kMostElements) {
      Read(static_cast<int64_t>(first), std::min(count - first, kBlocksInOneRead * kMostElements),
           read);
      const auto block_bytes = static_cast<size_t>(type_.type.block_bytes);
      for (size_t at = 0; at + block_bytes <= read.bytes.size(); at += block_bytes) {
        type_.take_apart(read.bytes.data() + at, parts);
        for (size_t run = 0; run < runs; ++run) {
          // The integers of mxfp4 are twice its numbers.
          const float halves = type_.take_apart == TakeMxfp4 ? 2 : 1;
          Widen(std::fabs(parts.runs[run].scale) * halves, range);
        }
      }
    }
    return range;
  }

  int64_t group_columns() const override { return type_.run_elements; }
  uint64_t stored_bytes() const override { return bytes_.size(); }

 private:
  static constexpr int kLowestNumber = -128;
  static constexpr int kHighestNumber = 127;

  void Misread(Parts& parts) const {
    const auto elements = static_cast<size_t>(type_.type.block_elements);
    const auto runs = elements / static_cast<size_t>(type_.run_elements);
    if (mistake_.order != Mistake::Order::kOwn) {
      const auto half = static_cast<size_t>(type_.half_codes);
      for (size_t at = 0; at < elements; at += 2 * half) {
        if (mistake_.order == Mistake::Order::kSwapped) {
          std::swap_ranges(parts.integers.begin() + static_cast<std::ptrdiff_t>(at),
                           parts.integers.begin() + static_cast<std::ptrdiff_t>(at + half),
                           parts.integers.begin() + static_cast<std::ptrdiff_t>(at + half));
          continue;
        }
        std::array<int16_t, kMostElements> mixed{};
        for (size_t i = 0; i < half; ++i) {
          mixed[2 * i] = parts.integers[at + i];
          mixed[2 * i + 1] = parts.integers[at + half + i];
        }
        std::copy_n(mixed.begin(), 2 * half,
                    parts.integers.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    if (mistake_.zero == Mistake::Zero::kComplement && type_.middle != 0) {
      for (size_t i = 0; i < elements; ++i) {
        const int code = (parts.integers[i] + type_.middle) ^ type_.middle;
        parts.integers[i] = static_cast<int16_t>(code - type_.middle);
      }
    }
    for (size_t run = 0; run < runs; ++run) {
      Parts::Run& of_run = parts.runs[run];
      if (mistake_.scale == Mistake::Scale::kOne) {
        of_run = {1, 0, 0, 0};
      } else if (mistake_.scale == Mistake::Scale::kInverse) {
        of_run = {of_run.scale == 0 ? 0 : 1 / of_run.scale, of_run.offset, 0, 0};
      }
      const float own = static_cast<float>(type_.middle) * of_run.scale;
      switch (mistake_.zero) {
        case Mistake::Zero::kOwn:
          break;
        case Mistake::Zero::kNone:
          of_run.offset = type_.middle != 0 ? own : 0;
          break;
        case Mistake::Zero::kOneMore:
          of_run.offset -= of_run.scale;
          break;
        case Mistake::Zero::kOneLess:
          of_run.offset += of_run.scale;
          break;
        case Mistake::Zero::kFlipped:
          of_run.offset = -of_run.offset;
          break;
        case Mistake::Zero::kComplement:
          break;
      }
    }
  }

  void Fill(const Parts::Run& run, const int16_t* integers, int64_t count, float* values,
            float* bounds) const {
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(integers[i]) * run.scale + run.offset;
    }
    if (bounds == nullptr) {
      return;
    }
    const float size = std::fabs(run.scale);
    // Slack of the sum, where a small value is the difference of two large ones.
    const float slack = std::fabs(run.offset) * kBlockSlack + run.scale_error * kBlockSlack;
    const bool has_no_scale = run.scale == 0;
    const auto range = static_cast<float>(std::max(type_.highest, -type_.lowest));
    for (int64_t i = 0; i < count; ++i) {
      const auto magnitude = static_cast<float>(std::abs(static_cast<int>(integers[i])));
      const float steps = steps_[static_cast<size_t>(integers[i] - kLowestNumber)];
      if (!type_.rescaled) {
        bounds[i] = (size + run.scale_error) * steps + magnitude * run.scale_error +
                    run.offset_error + slack;
        continue;
      }
      bounds[i] = size * steps + slack;
      if (has_no_scale) {
        // The whole range of codes vanished with its scale.
        bounds[i] += range * run.scale_error + run.offset_error;
      } else if (integers[i] <= type_.lowest || integers[i] >= type_.highest) {
        // A run's largest number may have either sign; the float16 of the block is rounded, too.
        bounds[i] += range * (run.scale_error + size * 0x1p-10F) + run.offset_error;
      }
    }
  }

  const BlockType& type_;
  std::span<const std::byte> bytes_;
  Mistake mistake_;
  std::array<float, 256> steps_{};
};

}  // namespace

const GgufType* FindGgufType(uint32_t number) {
  for (const BlockType& type : kBlockTypes) {
    if (type.type.number == number) {
      return &type.type;
    }
  }
  for (const GgufType& type : kOtherTypes) {
    if (type.number == number) {
      return &type;
    }
  }
  return nullptr;
}

Result<std::shared_ptr<const CodedTensor>> MakeGgufBlocks(const GgufType& type, Shape shape,
                                                          std::span<const std::byte> bytes) {
  for (const BlockType& known : kBlockTypes) {
    if (known.type.number != type.number) {
      continue;
    }
    MSP_RETURN_IF_ERROR(DenseBytes(shape, 1).status());
    const int64_t count = ElementCount(shape);
    if (shape.empty() || shape.back() % type.block_elements != 0) {
      return BadFormatError(fmt::format("rows of shape {} are not whole blocks of {} elements",
                                        ShapeText(shape), type.block_elements));
    }
    const int64_t blocks = count / type.block_elements;
    if (bytes.size() / static_cast<size_t>(type.block_bytes) < static_cast<size_t>(blocks)) {
      return BadFormatError(fmt::format("{} bytes are too few for {} blocks of {}", bytes.size(),
                                        blocks, type.block_bytes));
    }
    return std::shared_ptr<const CodedTensor>(
        std::make_shared<GgufBlocks>(known, std::move(shape), bytes, GgufBlocks::Mistake()));
  }
  return UnsupportedError(fmt::format("values of {} are not known", type.name));
}

}  // namespace msprobe::io
