// Variances, norms and the logarithm of a sum of exponentials, step by step.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

struct Elements {
  Value x;
  std::vector<int64_t> dims;
  bool keep = false;
  double count = 1;
};

bool ReadElements(Call& call, size_t dim_position, size_t keep_position, Elements& elements) {
  elements.x = call.Tensor(0, "input");
  elements.dims =
      DimsOf(call, dim_position, "dim", elements.x == nullptr ? 0 : elements.x->shape.size());
  elements.keep = call.Bool(keep_position, "keepdim", false);
  if (call.failed()) {
    return false;
  }
  for (const int64_t dim : elements.dims) {
    elements.count *= static_cast<double>(elements.x->shape[static_cast<size_t>(dim)]);
  }
  if (elements.count < 1) {
    call.Fail("of no elements");
  }
  return !call.failed();
}

Value Root(const Arithmetic& m, const Value& x) {
  return m.Map(
      x, [](double v) { return Term(std::sqrt(v)); },
      // At 0 frameworks differ: 0, infinite or NaN.
      [](double v) {
        return v == 0 ? Term(0, std::numeric_limits<double>::infinity()) : Term(0.5 / std::sqrt(v));
      });
}

Value VarianceOf(Call& call, const Arithmetic& m) {
  Elements elements;
  if (!ReadElements(call, 1, 3, elements)) {
    return nullptr;
  }
  double correction = call.Bool(2, "unbiased", true) ? 1 : 0;
  if (call.Has(SIZE_MAX, "correction")) {
    correction = call.Number(SIZE_MAX, "correction");
  }
  const double divisor = elements.count - correction;
  if (!(divisor > 0)) {
    return call.Fail("a variance of too few elements");
  }
  const Value mean = m.Divide(m.Sum(elements.x, elements.dims, true), m.Filled({}, elements.count));
  const Value distance = m.Subtract(elements.x, mean);
  return m.Divide(m.Sum(m.Multiply(distance, distance), elements.dims, elements.keep),
                  m.Filled({}, divisor));
}
Values Variance(Call& call, const Arithmetic& m) { return {VarianceOf(call, m)}; }
Values Deviation(Call& call, const Arithmetic& m) { return {Root(m, VarianceOf(call, m))}; }

// The norm of all elements along dims, 1 or 2 (Frobenius). torch.norm and torch.linalg.norm have
// the same name in a dump, and the latter takes the norm of a matrix where an order is given.
template <bool kVector>
Values NormOf(Call& call, const Arithmetic& m) {
  Elements elements;
  if (!ReadElements(call, 2, 3, elements)) {
    return {nullptr};
  }
  const std::string word = call.Text(1, "p", "");
  const std::string_view name = call.Has(SIZE_MAX, "ord") ? "ord" : "p";
  const double p = word == "fro" || word == "inf" ? 2 : call.Number(1, name, 2);
  if (word == "inf" || call.Has(SIZE_MAX, "dtype") || (p != 1 && p != 2)) {
    return {call.Fail("a norm of this order is not recomputed")};
  }
  if (!kVector && word != "fro" && call.Has(1, name) && elements.dims.size() == 2) {
    return {call.Fail("it may be the norm of a matrix or of its elements")};
  }
  if (p == 1) {
    const Value magnitudes = m.Map(
        elements.x, [](double v) { return Term(std::fabs(v)); },
        [](double v) { return Term((v > 0) - (v < 0)); }, 0);
    return {m.Sum(magnitudes, elements.dims, elements.keep)};
  }
  return {Root(m, m.Sum(m.Multiply(elements.x, elements.x), elements.dims, elements.keep))};
}

Values LogSumExp(Call& call, const Arithmetic& m) {
  Elements elements;
  if (!ReadElements(call, 1, 2, elements)) {
    return {nullptr};
  }
  double largest = -std::numeric_limits<double>::infinity();
  for (const double value : elements.x->value) {
    largest = std::max(largest, value);
  }
  const bool is_far =
      std::any_of(elements.x->value.begin(), elements.x->value.end(),
                  [&](double value) { return std::isnan(value) || largest - value > 600; });
  if (!std::isfinite(largest) || is_far) {
    return {call.Fail("numbers that are too far apart")};
  }
  // As if shifted by the largest of all, which changes no digit.
  const Value parts = m.Map(
      m.Subtract(elements.x, m.Filled({}, largest)), [](double v) { return Term(std::exp(v)); },
      [](double v) { return Term(std::exp(v)); });
  const Value logs = m.Map(
      m.Sum(parts, elements.dims, elements.keep),
      [](double v) { return Term(std::log(v), std::fabs(std::log(v)) + 1); },
      [](double v) { return Term(1 / v); });
  return {m.Add(logs, m.Filled({}, largest))};
}

}  // namespace

OperatorList MomentOperators() {
  return {
      {"var", Variance},        {"std", Deviation},
      {"norm", NormOf<false>},  {"vector_norm", NormOf<true>},
      {"logsumexp", LogSumExp},
  };
}

}  // namespace msprobe::reference
