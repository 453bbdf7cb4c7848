// By which rule the output of an operator is judged, and every limit of these rules: the table
// config/accuracy_standards.json, or one like it that the user gives.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"

#include "src/json/config.h"

namespace msprobe::analysis::accuracy {

enum class Standard : uint8_t {
  kBenchmark,     // errors of both devices against the CPU, by their ratio
  kBinary,        // equal, element by element
  kAbsolute,      // relative and absolute errors within fixed bounds
  kUlp,           // errors in units of the last place
  kThousandth,    // share of elements with a relative error below a thousandth
  kAccumulative,  // as kAbsolute with wider bounds, and balanced signs
};
// As the results spell it: 标杆比对法.
std::string_view AlgorithmName(Standard standard, bool english);

// The Python tool whose rules apply.
enum class StandardVersion : uint8_t { k811, k26 };

// A limit per dtype of the device. Dtypes other than the first two have that of float32.
struct DTypeLimit {
  double half = 0;
  double bfloat16 = 0;
  double single = 0;

  double For(std::optional<DType> dtype) const {
    return dtype == DType::kFloat16 ? half : dtype == DType::kBFloat16 ? bfloat16 : single;
  }
};

// A limit per level of an operator: L0 (most), L1, L2. 8.1.1 knows L0 only.
using LevelLimit = std::array<double, 3>;

struct Limits {
  DTypeLimit small_value;  // |bench| up to it counts as small
  double small_value_accumulative = 0;
  DTypeLimit absolute_rtol;
  DTypeLimit absolute_atol;   // of small values
  DTypeLimit benchmark_atol;  // of small values
  DTypeLimit accumulative_bound;
  DTypeLimit accumulative_error_balance;
  DTypeLimit smallest_divisor;  // of the ratio of two errors
  LevelLimit ratio_small_value = {};
  LevelLimit ratio_rmse = {};
  LevelLimit ratio_max_relative = {};
  LevelLimit ratio_mean_relative = {};
  LevelLimit ratio_error_balance = {};
  DTypeLimit ulp_large;  // an error above it is counted
  DTypeLimit ulp_share;  // of elements that are counted
  double ulp_mean_float32 = 0;
  double ulp_share_ratio = 0;
  double thousandth = 0;
  double status_cosine = 0;
  double status_max_abs = 0;
  double status_hundredth = 0;
  double status_thousandth = 0;
  double status_ten_thousandth = 0;
  double mindspore_cosine = 0;
  double mindspore_max_abs = 0;
};

// Lists of operators that are treated in their own way.
struct ApiLists {
  std::vector<std::string> never_run;
  std::vector<std::string> types_never_run;
  std::vector<std::string> hf32_inputs;
  std::vector<std::string> keep_attached;  // their arguments are not detached
  std::vector<std::string> keep_dtype;     // not raised for the CPU
  std::vector<std::string> quantised;      // integer outputs may differ by one
  std::vector<std::string> mindspore_tensor;
};

class Standards {
 public:
  // The table that is built in.
  static const Standards& BuiltIn();
  // A file with some of its keys, in JSON; the others keep what is built in.
  static Result<Standards> Load(const std::filesystem::path& path);

  // `api`: "matmul". `dtype`: of the output, as dumps spell it; empty where it plays no role.
  Standard Of(std::string_view api, std::string_view dtype) const;
  // 0, 1 or 2; of names as 26.x compares them.
  size_t LevelOf(std::string_view api) const;

  const Limits& limits() const { return limits_; }
  const ApiLists& apis() const { return apis_; }
  void SetQuantised(std::vector<std::string> apis) { apis_.quantised = std::move(apis); }
  // Where the limits come from: "built in", or the file's name.
  const std::string& source() const { return source_; }

 private:
  Status Read(const json::Config& config);

  std::map<std::string, Standard, std::less<>> standards_;
  std::map<std::string, size_t, std::less<>> levels_;
  Limits limits_;
  ApiLists apis_;
  std::string source_ = "built in";
};

}  // namespace msprobe::analysis::accuracy
