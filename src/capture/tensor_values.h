// The values of one tensor as a dump records them: statistics, checksums, and a copy of the bytes
// for its file, from one pass over the elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/capture/settings.h"
#include "src/device/device.h"
#include "src/dump/dump_file.h"
#include "src/json/writer.h"
#include "src/kernels/stats.h"

namespace msprobe::capture {

// A tensor as the hooks describe it.

struct TensorDescription {
  std::string_view type;        // "torch.Tensor"
  std::string_view dtype_text;  // as the framework spells it
  std::optional<DType> dtype;   // not known: described without values
  Shape shape;
  Shape strides;               // in elements; empty with a shape: row-major
  const void* data = nullptr;  // null: no values
  std::optional<bool> requires_grad;
  bool conjugated = false;
  bool negated = false;
  bool is_numpy = false;
  device::Kind device = device::Kind::kHost;
  int32_t device_index = 0;
  device::Stream stream = nullptr;
};

// One of Max, Min, Mean, Norm as it is spelled in JSON.
struct StatisticValue {
  enum class Kind : uint8_t { kNull, kBool, kInteger, kUnsigned, kFloat };
  Kind kind = Kind::kNull;
  bool truth = false;
  int64_t integer = 0;
  uint64_t natural = 0;
  double number = 0;

  static StatisticValue Bool(bool value);
  static StatisticValue Integer(int64_t value);
  static StatisticValue Unsigned(uint64_t value);
  static StatisticValue Float(double value);
  bool is_non_finite() const;
};
void PutStatistic(const StatisticValue& value, json::Writer& json);

using Statistics = std::array<StatisticValue, dump::kStatisticCount>;

// The rules in effect (docs/formats/dump_json.md).
struct StatisticRules {
  Precision precision = Precision::kHigh;
  bool is_numpy = false;
  bool is_mindspore = false;  // low precision: complex tensors have a Norm

  bool operator==(const StatisticRules&) const = default;
};

struct ValueRequest {
  StatisticRules rules;
  bool statistics = true;
  bool extended = false;
  bool crc32 = false;            // the checksum under "md5"
  bool xor64 = false;            // the other checksum under "md5"
  std::byte* copy_to = nullptr;  // room for size_bytes(): row-major, little-endian
};

struct TensorValues {
  Statistics statistics;
  std::optional<uint32_t> crc32;
  std::optional<int64_t> xor64;
  std::optional<StatisticValue> scalar;  // in place of the XOR, of tensors without dimensions
  std::optional<uint32_t> copy_crc32;    // of the bytes as copied, where that came for free
  // Only with `extended`.
  kernels::TensorStats counts;
  double finite_max = 0;  // NaN: no element is finite
  double finite_min = 0;

  // Whether Max or Min is NaN or infinite.
  bool overflowed() const { return statistics[0].is_non_finite() || statistics[1].is_non_finite(); }
};

// `view` has at least one element; all of them are readable.
TensorValues ExamineTensor(const TensorView& view, const ValueRequest& request);

// Values that may be asked for again: what a call is given is, mostly, what another call gave back.
// Thread-safe.
class SeenValues {
 public:
  // As ExamineTensor. `identity` stands for the bytes of the view, see msprobe_put_tensor_known.
  TensorValues Examine(const TensorView& view, const ValueRequest& request, uint64_t identity);

 private:
  struct Known {
    uint64_t identity = 0;
    DType dtype = DType::kFloat32;
    std::span<const std::byte> bytes;  // where they were; never read
    ValueRequest request;
    uint64_t sample = 0;
    TensorValues values;
  };
  static constexpr size_t kPlaces = 1024;  // a later tensor takes the place of an earlier one
  std::mutex mutex_;
  std::vector<Known> known_;  // of identities, by their remainder; made when the first comes
};

// Max, min, mean and norm as numbers of float32: elements of other types are cast to it first.
// `keeps_half`: those of float16 and bfloat16 are rounded to their own type. `view` as above.
std::array<double, 4> FloatStatistics(const TensorView& view, bool keeps_half);

// The four values when somebody else reduced the tensor: spelled as the rules of its dtype say.
Statistics SpellStatistics(DType dtype, bool is_scalar, const std::array<double, 4>& values,
                           const StatisticRules& rules);

}  // namespace msprobe::capture
