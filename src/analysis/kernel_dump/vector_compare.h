// Two folders of kernel dumps operator by operator, as the vendor's comparison tool holds them
// against each other: a table with ten measures per tensor.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/kernel_dump/fusion_rules.h"

namespace msprobe::analysis::kernel_dump {

// The ten measures by which the vendor's comparison of kernel dumps judges two arrays.

// In the order of their columns, and of their numbers on the command line.
enum class Measure : uint8_t {
  kCosine,
  kMaxAbsolute,
  kAccumulatedRelative,
  kRelativeEuclidean,
  kKullbackLeibler,
  kStandardDeviation,  // no number: mean and deviation of both sides
  kMeanAbsolute,
  kRootMeanSquare,
  kMaxRelative,
  kMeanRelative,
};
inline constexpr size_t kMeasureCount = 10;

// "CosineSimilarity"
std::string_view MeasureName(Measure measure);
// By a name, or a number from 0; nothing for others.
std::optional<Measure> FindMeasure(std::string_view text);

// m under test, g the reference, n elements, sums over all elements:
//   CosineSimilarity            m.g / (|m| |g|); 1 where both are zeros, none where one is
//   MaxAbsoluteError            max |m - g|
//   AccumulatedRelativeError    sum |m - g| / |g|, elements with g = 0 left out
//   RelativeEuclideanDistance   |m - g| / |g|; 0 where g is all zeros
//   KullbackLeiblerDivergence   sum p log(p / q); p and q are m and g, each moved and scaled to
//                               [0, 1], at least 2^-23, divided by their sum
//   StandardDeviation           (mean;deviation) of m and of g, of the population
//   MeanAbsoluteError           sum |m - g| / n
//   RootMeanSquareError         sqrt(sum (m - g)^2 / n)
//   MaxRelativeError, MeanRelativeError: of the terms of AccumulatedRelativeError
// The sums are double. NaN of an element makes the measures NaN that it takes part in.
struct VectorMeasures {
  uint64_t elements = 0;
  std::array<double, kMeasureCount> values = {};  // by Measure; NaN of no elements
  std::array<double, 2> means = {};               // of m and g
  std::array<double, 2> deviations = {};
  bool zero = false;         // m is all zeros
  bool golden_zero = false;  // g is

  double value(Measure measure) const { return values[static_cast<size_t>(measure)]; }
};

// kUnsupported for complex elements: they are not single numbers.
Status CheckMeasurable(const TensorView& mine, const TensorView& golden);

// NaN wins, as with NumPy's max and min.
inline double LargerOrNaN(double a, double b) { return std::isnan(a) || a >= b ? a : b; }
inline double SmallerOrNaN(double a, double b) { return std::isnan(a) || a <= b ? a : b; }

// Both must have as many elements. The result does not depend on how they lie.
VectorMeasures MeasureVectors(const TensorView& mine, const TensorView& golden);

// As in a table: six digits after the point; "NaN" where the measure is undefined.
std::string MeasureText(const VectorMeasures& measures, Measure measure);

// Whether every measure is within what counts as good: a cosine above 0.99, a relative distance
// below 0.05, a divergence below 0.005, root mean square below 1, mean relative error below 1.
bool IsGood(const VectorMeasures& measures);

struct VectorOptions {
  std::filesystem::path mine;    // folder of kernel dumps, searched recursively, or one of them
  std::filesystem::path golden;  // the same, or arrays called {op_name}.{output}.{time}.npy
  std::filesystem::path output;  // folder, made when missing
  FusionRuleFiles fusion_rules = {};
  std::vector<Measure> measures = {};  // columns, in this order; none: all
  bool thread_by_thread = false;       // of FFTS+: threads are not put together
  bool overflow = false;  // a column that marks float16 tensors at the end of their range
  size_t threads = 0;     // 0: all cores
};

// A row: a pair of tensors, or an operator of which nothing could be compared.
struct VectorRow {
  struct Side {
    std::string op_name;              // "*": this side has no such operator
    std::string dtype;                // empty: not known
    std::optional<uint64_t> address;  // in the memory of the device
  };
  size_t index = 0;  // of the operator, in the order of time; those of the golden side alone follow
  std::string op_type;
  Side mine;
  Side golden;
  std::string tensor;  // "op:input:0"; empty: the operator as a whole
  Shape shape;         // of the tensor of the test, on the device
  std::optional<VectorMeasures> measures;
  std::optional<bool> overflow;  // nothing for what is not a float16
  std::vector<std::string> reasons;
  Status status;  // why there are no measures
};

struct VectorFindings {
  std::vector<VectorRow> rows;
  std::filesystem::path table;  // <output>/result_<time>.csv
  size_t operators = 0;         // on both sides

  size_t compared() const;
  size_t failed() const;
  const VectorRow* FirstBad() const;  // null: all are within IsGood
};

// Operators of one name pair in the order in which they ran, their tensors by direction and number;
// tensors of fused operators with the output that they are in the model before.
// Tensors are compared as the framework knows them, without padding. kNotFound when a side has
// nothing to compare.
Result<VectorFindings> CompareVectors(const VectorOptions& options);

}  // namespace msprobe::analysis::kernel_dump
