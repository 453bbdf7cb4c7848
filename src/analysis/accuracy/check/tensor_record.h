// A tensor's entry of a dump.json.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/dump/entry_tree.h"

namespace msprobe::analysis::accuracy {

// Inputs drawn for an operator of which a dump has only minima and maxima: the same bits that
// PyTorch's CPU generator gives the Python tool after the same draws.

inline constexpr uint32_t kDefaultSeed = 1234;

// MT19937 (Matsumoto and Nishimura, 1998), seeded as by init_genrand.
class TorchGenerator {
 public:
  explicit TorchGenerator(uint32_t seed = kDefaultSeed);

  uint32_t Draw32();
  // The first draw is the high half.
  uint64_t Draw64() {
    const uint64_t high = Draw32();
    return high << 32U | Draw32();
  }

 private:
  static constexpr size_t kWords = 624;
  void Refill();

  std::array<uint32_t, kWords> state_;
  size_t used_ = kWords;
};

// A number of a dump: integers keep their type, because int() of it must not round.
struct RecordedNumber {
  bool is_integer = false;
  int64_t integer = 0;
  double number = 0;
};

// The record of a tensor in a dump.
struct TensorRecord {
  std::string dtype_text;      // "torch.float32"
  std::optional<DType> dtype;  // nullopt: none that can be drawn
  Shape shape;
  std::optional<RecordedNumber> least;  // "Min"; nullopt: null, or no number
  std::optional<RecordedNumber> most;
  // Without inf and NaN, where the dump has them.
  std::optional<RecordedNumber> least_finite;
  std::optional<RecordedNumber> most_finite;
  bool requires_grad = false;
};

// Writes element_count * size bytes to `out`, which the caller has made as large. An error, with
// the words that go into the results, when the record cannot be drawn.
Status DrawTensor(const TensorRecord& record, TorchGenerator& generator, std::byte* out);

// The same for MindSpore's checker: NumPy's RandomState(42).uniform(least, most), made anew for
// each tensor; infinite bounds are those of the dtype, truth values are true in half of the cases.
Status DrawUniformTensor(const TensorRecord& record, std::byte* out);

// An object with a dtype and a shape.
bool IsTensorRecord(const dump::EntryTree& tree, uint32_t place);
// An error when the shape is none, or has more elements than memory could hold.
Result<TensorRecord> ReadTensorRecord(const dump::EntryTree& tree, uint32_t place);

}  // namespace msprobe::analysis::accuracy
