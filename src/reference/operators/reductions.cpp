// Reductions: sums and means in any order, extremes, spread.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

size_t RankOf(const Value& x) { return x == nullptr ? 0 : x->shape.size(); }

// How many elements become one.
double CountOf(const Value& x, const std::vector<int64_t>& dims) {
  double count = 1;
  for (const int64_t dim : dims) {
    count *= static_cast<double>(x->shape[static_cast<size_t>(dim)]);
  }
  return count;
}

// keepdim stands behind dim; MindSpore calls it keep_dims.
bool Keeps(Call& call, size_t position) {
  return call.Bool(position, "keepdim", false) || call.Bool(SIZE_MAX, "keep_dims", false);
}

Values SumOf(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const std::vector<int64_t> dims = DimsOf(call, 1, "dim", RankOf(x));
  const bool keep = Keeps(call, 2);
  return call.failed() ? Values{nullptr} : Values{m.Sum(x, dims, keep)};
}

Value MeanValue(const Arithmetic& m, const Value& x, const std::vector<int64_t>& dims, bool keep) {
  // The sum by a count, or by its rounded reciprocal.
  return m.Divide(m.Sum(x, dims, keep), m.Scalar(CountOf(x, dims)));
}

Values MeanOf(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const std::vector<int64_t> dims = DimsOf(call, 1, "dim", RankOf(x));
  const bool keep = Keeps(call, 2);
  if (call.failed()) {
    return {nullptr};
  }
  if (CountOf(x, dims) == 0) {
    return {call.Fail("a mean of no elements")};
  }
  return {MeanValue(m, x, dims, keep)};
}

// The places of x by rows of what is reduced: out[i] are those that become element i.
std::vector<std::vector<int64_t>> PlacesByRow(const Value& x, const std::vector<int64_t>& dims,
                                              Shape* reduced, Shape* kept) {
  std::vector<bool> is_reduced(x->shape.size(), false);
  for (const int64_t dim : dims) {
    is_reduced[static_cast<size_t>(dim)] = true;
  }
  for (size_t dim = 0; dim < x->shape.size(); ++dim) {
    kept->push_back(is_reduced[dim] ? 1 : x->shape[dim]);
    if (!is_reduced[dim]) {
      reduced->push_back(x->shape[dim]);
    }
  }
  const Shape strides = ContiguousStrides(*kept);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(ElementCount(*kept)));
  Shape place(x->shape.size(), 0);
  for (size_t i = 0; i < x->size(); ++i) {
    int64_t row = 0;
    for (size_t dim = 0; dim < place.size(); ++dim) {
      row += is_reduced[dim] ? 0 : place[dim] * strides[dim];
    }
    rows[static_cast<size_t>(row)].push_back(static_cast<int64_t>(i));
    for (size_t dim = place.size(); dim-- > 0;) {
      if (++place[dim] < x->shape[dim]) {
        break;
      }
      place[dim] = 0;
    }
  }
  return rows;
}

// Where in its row each of `places` is; captured indices are right if they name an equal element.
Value IndicesOf(const Value& x, const std::vector<std::vector<int64_t>>& rows,
                const std::vector<int64_t>& places, const Value& captured, const Shape& shape) {
  std::vector<double> indices(places.size());
  const bool is_given = captured != nullptr && captured->shape == shape;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::vector<int64_t>& row = rows[i];
    indices[i] = static_cast<double>(std::find(row.begin(), row.end(), places[i]) - row.begin());
    const double index = is_given ? captured->value[i] : -1;
    if (index >= 0 && index < static_cast<double>(row.size())) {
      const double named = x->value[static_cast<size_t>(row[static_cast<size_t>(index)])];
      const double best = x->value[static_cast<size_t>(places[i])];
      indices[i] = named == best || (std::isnan(named) && std::isnan(best)) ? index : indices[i];
    }
  }
  return MakeValue(shape, std::move(indices));
}

// The largest or smallest element of each row is one of the elements, exactly; NaN wins. Where
// several are equal the gradient is that of one of them, and which one is up to the implementation.
template <bool kLargest>
Values ExtremeOf(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x != nullptr && call.IsTensor(1, "other")) {
    return {ExtremeOfTwo(m, x, call.Tensor(1, "other"), kLargest)};
  }
  const std::vector<int64_t> dims = DimsOf(call, 1, "dim", RankOf(x));
  const bool keep = Keeps(call, 2);
  if (call.failed()) {
    return {nullptr};
  }
  Shape reduced;
  Shape kept;
  const std::vector<std::vector<int64_t>> rows = PlacesByRow(x, dims, &reduced, &kept);
  std::vector<int64_t> places;
  for (const std::vector<int64_t>& row : rows) {
    if (row.empty()) {
      return {call.Fail("an extreme of no elements")};
    }
    int64_t best = row.front();
    size_t equals = 0;
    for (const int64_t at : row) {
      const double value = x->value[static_cast<size_t>(at)];
      const double champion = x->value[static_cast<size_t>(best)];
      if (std::isnan(value) ||
          (!std::isnan(champion) && (kLargest ? value > champion : value < champion))) {
        best = at;
        if (std::isnan(value)) {
          break;
        }
      }
    }
    for (const int64_t at : row) {
      equals += x->value[static_cast<size_t>(at)] == x->value[static_cast<size_t>(best)] ? 1 : 0;
    }
    if (m.taping() && equals != 1) {
      return {call.Fail("gradients of extremes depend on which of equal elements is taken")};
    }
    places.push_back(best);
  }
  const Shape shape = keep ? kept : reduced;
  Values results = {m.Take({x}, shape, places)};
  if (dims.size() == 1 && call.outputs().size() == 2 && !m.taping()) {
    results.push_back(IndicesOf(x, rows, places, call.outputs()[1].value, shape));
  }
  return results;
}

// Running sums along one dim, in any order of additions.
Values RunningSum(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), RankOf(x));
  if (call.failed()) {
    return {nullptr};
  }
  if (m.taping()) {
    return {call.Fail("gradients of running sums are not recomputed")};
  }
  const Value rows = DimLast(m, x, dim);
  const auto length = static_cast<size_t>(rows->shape.empty() ? 1 : rows->shape.back());
  std::vector<double> values(rows->size());
  std::vector<double> errors(rows->size());
  for (size_t first = 0; length > 0 && first < rows->size(); first += length) {
    double sum = 0;
    double magnitudes = 0;
    double carried = 0;
    for (size_t i = 0; i < length; ++i) {
      sum += rows->value[first + i];
      magnitudes += std::fabs(rows->value[first + i]);
      carried += rows->error_at(first + i);
      values[first + i] = sum;
      errors[first + i] = carried + m.rounding().Gamma(i) * magnitudes;
    }
  }
  return {DimBack(m, MakeValue(rows->shape, std::move(values), std::move(errors)), dim)};
}

}  // namespace

OperatorList ReductionOperators() {
  return {
      {"sum reduce_sum reducesum", SumOf},
      {"mean reduce_mean reducemean", MeanOf},
      {"amax", ExtremeOf<true>},
      {"amin", ExtremeOf<false>},
      {"max", ExtremeOf<true>},
      {"min", ExtremeOf<false>},
      {"cumsum", RunningSum, Rounds::kSteps},
  };
}

// Variances, norms and the logarithm of a sum of exponentials, step by step.

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
