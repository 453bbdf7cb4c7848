// The gradients of one process, step by step:
//
//   <dump_path>/rank<R>/grad_summary_<step>.csv
//   <dump_path>/rank<R>/step<step>/<parameter>.npy    levels L1 and L2: bool, above 0 or not;
//                                  <parameter>.npz    or as bits: `bits` of uint8 as numpy.packbits
//                                                     has them, `shape` of int64
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/files.h"

namespace msprobe::grad_probe {

// The configuration of the task grad_probe, checked.

// L0: statistics and a checksum. L1: statistics and signs. L2: also how the values are distributed.
enum class Level : uint8_t { kL0, kL1, kL2 };

// How signs are stored: a byte per element in <parameter>.npy, or a bit in <parameter>.npz.
enum class SignFormat : uint8_t { kNpy, kPacked };

struct Bound {
  double value = 0;  // rounded to float32, as elements are compared with it
  std::string text;  // as Python spells it: "0", "-0.01"
};

struct Settings {
  std::string dump_path;
  std::vector<int64_t> ranks;  // sorted, no doubles; empty: all
  std::vector<int64_t> steps;
  Level level = Level::kL1;
  std::vector<std::string> parameters;  // exact names; empty: all
  SignFormat sign_format = SignFormat::kNpy;
  std::vector<Bound> bounds = {{-1, "-1"}, {0, "0"}, {1, "1"}};
};

// Whether the task of a configuration is grad_probe; false too where it cannot be read.
bool IsGradProbe(const base::Path& config_path, std::string_view overrides_json);

// `config_path` empty: defaults. `overrides_json` empty, or one object of top-level keys that win
// over the file. Errors name file, line, key, value and what is allowed.
Result<Settings> LoadSettings(const base::Path& config_path, std::string_view overrides_json);

// One gradient in one pass over its bytes: statistics, a checksum, how its values are distributed,
// and their signs.

struct Numbers {
  uint64_t element_count = 0;
  // NaN where an element is NaN, and of no elements. Rounded to the dtype of a half, else to
  // float32.
  double max = 0;
  double min = 0;
  double norm = 0;  // sqrt(sum of squares)
  uint64_t zero_count = 0;
  uint32_t crc32 = 0;  // level L0: of the elements as little-endian float32
  // Level L2: elements x of (b[i-1], b[i]], from (-inf, b[0]] to (b[last], inf); NaN and +inf count
  // to the last. One more than there are bounds.
  std::vector<uint64_t> intervals;
};

// `signs`: levels L1 and L2, a byte per element, 1 where it is above 0; null otherwise. Only
// floating dtypes (kUnsupported else).
Result<Numbers> Measure(const TensorView& gradient, Level level, std::span<const Bound> bounds,
                        std::byte* signs);

// A gradient as a row of grad_summary_<step>.csv, spelled as the Python tool spells it: RFC 4180,
// lines end with CRLF, numbers as Python's repr of a float.

// With the byte order mark. "param_name,MD5,max,min,norm,shape" (L0), without MD5 (L1), with the
// intervals and "=0" in its place (L2).
std::string HeaderLine(Level level, std::span<const Bound> bounds);

void AppendRow(std::string_view name, const Numbers& numbers, const Shape& shape, Level level,
               std::string& out);

// Writes its files on a thread, in the order in which they come and within a bound of memory.
class Probe {
 public:
  explicit Probe(Settings settings);
  ~Probe();  // writes all files

  const Settings& settings() const { return settings_; }

  // Whether a step of a rank is selected; `finished`: no later one is.
  bool Selects(int64_t rank, int64_t step, bool& finished) const;

  // Makes the folders and removes the table that an earlier run left of this step.
  Status BeginStep(int64_t rank, int64_t step);
  // A gradient of the step in progress; an error loses its row and nothing else.
  Status Put(std::string_view name, const TensorView& gradient);
  // The table goes to the disk; an error tells of anything that could not be written so far.
  Status EndStep();
  // Waits until all files are there.
  Status Flush();
  // In the child: the thread is not there, and what waits is the parent's.
  void AfterFork();

 private:
  Settings settings_;
  base::Path table_;
  base::Path signs_folder_;
  std::string rows_;
  struct Files;
  std::unique_ptr<Files> files_;
};

}  // namespace msprobe::grad_probe
