// Elements chosen by their values (sorting, extremes along a dim) or by indices (gather, scatter).
// Values are exact. Of equal elements any may be chosen: an index is right if it names an element
// of the right value, and no other index of its row names the same.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

// x as rows along one dim.
struct RowsAlong {
  Value rows;  // the dim last
  int64_t dim = 0;
  size_t length = 0;
  size_t count = 0;
};

bool ReadRows(Call& call, const Arithmetic& m, const Value& x, int64_t dim, RowsAlong& along) {
  if (x == nullptr || call.failed()) {
    return false;
  }
  along.dim = DimOf(call, dim, x->shape.size());
  if (call.failed()) {
    return false;
  }
  along.rows = DimLast(m, x, along.dim);
  along.length = static_cast<size_t>(x->shape.empty() ? 1 : along.rows->shape.back());
  along.count = along.length == 0 ? 0 : x->size() / along.length;
  if (std::any_of(x->value.begin(), x->value.end(), [](double v) { return std::isnan(v); })) {
    call.Fail("the order of NaN is not the same everywhere");
  }
  return !call.failed();
}

// The places in their row, in order of their values; equal ones as they stand.
std::vector<int64_t> OrderOfRow(const RowsAlong& along, size_t row, bool descending) {
  std::vector<int64_t> order(along.length);
  std::iota(order.begin(), order.end(), int64_t{0});
  const double* values = along.rows->value.data() + row * along.length;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double left = values[a];
    const double right = values[b];
    return descending ? left > right : left < right;
  });
  return order;
}

// Captured indices where they name elements of the values that `places` name; those otherwise.
// `given`: the captured ones in the order of rows, or null.
std::vector<double> IndicesLike(const RowsAlong& along, const std::vector<int64_t>& places,
                                size_t width, const Value& given) {
  std::vector<double> indices(places.begin(), places.end());
  if (given == nullptr || given->size() != places.size() || width == 0) {
    return indices;
  }
  std::vector<bool> used;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i % width == 0) {
      used.assign(along.length, false);
    }
    const double index = given->value[i];
    if (!(index >= 0 && index < static_cast<double>(along.length))) {
      continue;
    }
    const auto at = static_cast<size_t>(index);
    const double* values = along.rows->value.data() + i / width * along.length;
    if (!used[at] && values[at] == values[places[i]]) {
      indices[i] = static_cast<double>(at);
      used[at] = true;
    }
  }
  return indices;
}

// `width` places of each row, as values in the shape of x, and as indices where they are captured.
Values ChosenAlong(Call& call, const Arithmetic& m, const RowsAlong& along,
                   const std::vector<int64_t>& places, size_t width, bool keep,
                   size_t index_output) {
  Shape shape = along.rows->shape;
  const bool is_number = shape.empty();
  if (!is_number) {
    shape.back() = static_cast<int64_t>(width);
  }
  std::vector<int64_t> sources(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    sources[i] = static_cast<int64_t>((width == 0 ? 0 : i / width) * along.length) + places[i];
  }
  Value values = DimBack(m, m.Take({along.rows}, shape, std::move(sources)), along.dim);
  if (values == nullptr) {
    return {nullptr};
  }
  Shape reduced = values->shape;
  if (!keep && !is_number) {
    reduced.erase(reduced.begin() + along.dim);
    values = m.Reshape(values, reduced);
  }
  if (m.taping() || index_output >= call.outputs().size()) {
    return {values};
  }
  Value given = call.outputs()[index_output].value;
  if (given == nullptr || given->shape != values->shape) {
    given = nullptr;
  } else if (keep) {
    given = DimLast(m, given, along.dim);
  }
  std::vector<double> chosen = IndicesLike(along, places, width, given);
  const Value indices = keep ? DimBack(m, MakeValue(shape, std::move(chosen)), along.dim)
                             : MakeValue(values->shape, std::move(chosen));
  return index_output == 0 ? Values{indices} : Values{values, indices};
}

// Whether an element of the row is as good as the one that was chosen, for gradients.
bool IsTied(const RowsAlong& along, const std::vector<int64_t>& order, size_t row, size_t width) {
  const double* values = along.rows->value.data() + row * along.length;
  for (size_t i = 0; i + 1 < order.size() && i < width; ++i) {
    if (values[order[i]] == values[order[i + 1]]) {
      return true;
    }
  }
  return false;
}

Values Sorted(Call& call, const Arithmetic& m, size_t width_or_all, bool descending, int64_t dim,
              bool keep, size_t index_output) {
  RowsAlong along;
  if (!ReadRows(call, m, call.Tensor(0, "input"), dim, along)) {
    return {nullptr};
  }
  const size_t width = std::min(width_or_all, along.length);
  if (along.length == 0 || (width_or_all != SIZE_MAX && width < width_or_all)) {
    return {call.Fail("there are not so many elements")};
  }
  std::vector<int64_t> places;
  places.reserve(along.count * width);
  for (size_t row = 0; row < along.count; ++row) {
    const std::vector<int64_t> order = OrderOfRow(along, row, descending);
    if (m.taping() && IsTied(along, order, row, width)) {
      return {call.Fail("gradients of extremes depend on which of equal elements is taken")};
    }
    places.insert(places.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(width));
  }
  return ChosenAlong(call, m, along, places, width, keep, index_output);
}

Values Sort(Call& call, const Arithmetic& m) {
  return Sorted(call, m, SIZE_MAX, call.Bool(2, "descending", false), call.Int(1, "dim", -1), true,
                1);
}
Values ArgSort(Call& call, const Arithmetic& m) {
  return Sorted(call, m, SIZE_MAX, call.Bool(2, "descending", false), call.Int(1, "dim", -1), true,
                0);
}
Values TopK(Call& call, const Arithmetic& m) {
  const int64_t k = call.Int(1, "k");
  if (!call.Bool(4, "sorted", true)) {
    return {call.Fail("its elements are in any order")};
  }
  if (k < 0) {
    return {call.Fail("a negative number of elements")};
  }
  return Sorted(call, m, static_cast<size_t>(k), call.Bool(3, "largest", true),
                call.Int(2, "dim", -1), true, 1);
}
template <bool kLargest>
Values ArgExtreme(Call& call, const Arithmetic& m) {
  if (!call.Has(1, "dim")) {
    const Value x = call.Tensor(0, "input");
    if (x == nullptr || x->size() == 0) {
      return {call.Fail("an extreme of no elements")};
    }
    RowsAlong along;
    if (!ReadRows(call, m, m.Reshape(x, {static_cast<int64_t>(x->size())}), 0, along)) {
      return {nullptr};
    }
    const std::vector<int64_t> order = OrderOfRow(along, 0, kLargest);
    const Value given = call.outputs().empty() ? nullptr : call.outputs()[0].value;
    const Shape shape = given == nullptr ? Shape() : given->shape;
    if (ElementCount(shape) != 1) {
      return {call.Fail("its output is not a single number")};
    }
    return {MakeValue(shape, IndicesLike(along, {order[0]}, 1, given))};
  }
  return Sorted(call, m, 1, kLargest, call.Int(1, "dim"), call.Bool(2, "keepdim", false), 0);
}

// ---- by indices ----

// index(place) along `dim` for every place of `shape`, in which the other dims are those of x.
template <typename Index>
Value TakenAlong(Call& call, const Arithmetic& m, const Value& x, int64_t dim, const Shape& shape,
                 const Index& index) {
  if (!m.Affords(shape)) {
    return nullptr;
  }
  const Shape strides = ContiguousStrides(x->shape);
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  Shape place(shape.size(), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t d = 0; d < place.size(); ++d) {
      double at = static_cast<double>(place[d]);
      if (static_cast<int64_t>(d) == dim) {
        at = index(i, place);
        at += at < 0 ? static_cast<double>(x->shape[d]) : 0;
      }
      if (!(at >= 0 && at < static_cast<double>(x->shape[d]))) {
        return call.Fail("an index is beyond the tensor");
      }
      indices[i] += static_cast<int64_t>(at) * strides[d];
    }
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < shape[d]) {
        break;
      }
      place[d] = 0;
    }
  }
  return m.Take({x}, shape, std::move(indices));
}

Values Gathered(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x == nullptr ? 0 : x->shape.size());
  const Value index = call.Tensor(2, "index");
  if (call.failed() || index->shape.size() != x->shape.size()) {
    return {call.Fail("an index of another rank")};
  }
  return {TakenAlong(call, m, x, dim, index->shape,
                     [&](size_t i, const Shape&) { return index->value[i]; })};
}

Values IndexSelected(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x == nullptr ? 0 : x->shape.size());
  const Value index = call.Tensor(2, "index");
  if (call.failed() || x->shape.empty() || index->shape.size() > 1) {
    return {call.Fail("index_select of unusual shapes")};
  }
  Shape shape = x->shape;
  shape[static_cast<size_t>(dim)] = static_cast<int64_t>(index->size());
  return {TakenAlong(call, m, x, dim, shape, [&](size_t, const Shape& place) {
    return index->value[static_cast<size_t>(place[static_cast<size_t>(dim)])];
  })};
}

Values TakenFlat(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value index = call.Tensor(1, "index");
  if (call.failed()) {
    return {nullptr};
  }
  std::vector<int64_t> indices;
  for (double at : index->value) {
    at += at < 0 ? static_cast<double>(x->size()) : 0;
    if (!(at >= 0 && at < static_cast<double>(x->size()))) {
      return {call.Fail("an index is beyond the tensor")};
    }
    indices.push_back(static_cast<int64_t>(at));
  }
  return {m.Take({x}, index->shape, std::move(indices))};
}

// Where the elements of the source go in x; empty where they do not fit.
std::vector<int64_t> Targets(Call& call, const Value& x, int64_t dim, const Value& index,
                             const Shape& shape, bool whole_slices) {
  if (shape.size() != x->shape.size()) {
    call.Fail("an index of another rank");
    return {};
  }
  const Shape strides = ContiguousStrides(x->shape);
  std::vector<int64_t> targets(static_cast<size_t>(ElementCount(shape)));
  Shape place(shape.size(), 0);
  for (size_t i = 0; i < targets.size(); ++i) {
    for (size_t d = 0; d < place.size(); ++d) {
      double at = static_cast<double>(place[d]);
      if (static_cast<int64_t>(d) == dim) {
        at = index->value[whole_slices ? static_cast<size_t>(place[d]) : i];
        at += at < 0 ? static_cast<double>(x->shape[d]) : 0;
      }
      if (!(at >= 0 && at < static_cast<double>(x->shape[d]))) {
        call.Fail("an index is beyond the tensor");
        return {};
      }
      targets[i] += static_cast<int64_t>(at) * strides[d];
    }
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < shape[d]) {
        break;
      }
      place[d] = 0;
    }
  }
  return targets;
}

// Elements of `shape` from the first corner of x.
Value Corner(const Arithmetic& m, const Value& x, const Shape& shape) {
  if (x->shape == shape) {
    return x;
  }
  const Shape strides = ContiguousStrides(x->shape);
  std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
  Shape place(shape.size(), 0);
  for (int64_t& index : indices) {
    for (size_t d = 0; d < place.size(); ++d) {
      if (place[d] >= x->shape[d]) {
        return m.Fail("the source is smaller than the index");
      }
      index += place[d] * strides[d];
    }
    for (size_t d = place.size(); d-- > 0;) {
      if (++place[d] < shape[d]) {
        break;
      }
      place[d] = 0;
    }
  }
  return m.Take({x}, shape, std::move(indices));
}

// x with elements of the source in place of its own: as one Take of both.
Value Replaced(Call& call, const Arithmetic& m, const Value& x, const Value& source,
               const std::vector<int64_t>& targets) {
  if (call.failed() || x == nullptr || source == nullptr) {
    return nullptr;
  }
  std::vector<int64_t> indices(x->size());
  std::iota(indices.begin(), indices.end(), int64_t{0});
  for (size_t i = 0; i < targets.size(); ++i) {
    int64_t& index = indices[static_cast<size_t>(targets[i])];
    if (index >= static_cast<int64_t>(x->size())) {
      return call.Fail("several elements are written to one place");
    }
    index = static_cast<int64_t>(x->size() + (source->size() == 1 ? 0 : i));
  }
  return m.Take({x, source}, x->shape, std::move(indices));
}

// x plus elements of the source, in any order.
Value AddedAt(Call& call, const Arithmetic& m, const Value& x, const Value& source,
              const std::vector<int64_t>& targets) {
  if (call.failed() || x == nullptr || source == nullptr || source->size() != targets.size()) {
    return call.Fail("the source does not fit the index");
  }
  auto out = std::make_shared<Tensor>();
  out->shape = x->shape;
  out->value = x->value;
  out->error = Numbers::Unset(x->size());
  std::vector<double> magnitude(x->size());
  std::vector<uint32_t> terms(x->size(), 0);
  for (size_t i = 0; i < x->size(); ++i) {
    out->error[i] = x->error_at(i);
    magnitude[i] = std::fabs(x->value[i]);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto at = static_cast<size_t>(targets[i]);
    out->value[at] += source->value[i];
    out->error[at] += source->error_at(i);
    magnitude[at] += std::fabs(source->value[i]);
    ++terms[at];
  }
  for (size_t i = 0; i < x->size(); ++i) {
    out->error[i] += terms[i] > 0 ? m.rounding().Gamma(terms[i] + 1) * magnitude[i] : 0;
  }
  return m.Finish(out, {x, source}, [&m, source, targets](const Value& gradient) {
    return Values{gradient, m.Take({gradient}, source->shape, targets)};
  });
}

Values Scattered(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x == nullptr ? 0 : x->shape.size());
  const Value index = call.Tensor(2, "index");
  if (call.Has(4, "reduce")) {
    return {call.Fail("scatter with a reduction")};
  }
  const bool by_tensor = call.IsTensor(3, "src") || call.IsTensor(SIZE_MAX, "value");
  Value source = by_tensor ? call.Tensor(3, call.IsTensor(3, "src") ? "src" : "value")
                           : Operand(call, m, 3, call.Has(3, "src") ? "src" : "value");
  if (call.failed()) {
    return {nullptr};
  }
  const std::vector<int64_t> targets = Targets(call, x, dim, index, index->shape, false);
  if (!source->shape.empty() && source->shape.size() == index->shape.size()) {
    source = Corner(m, source, index->shape);
  } else if (source->size() != 1) {
    return {call.Fail("the source does not fit the index")};
  }
  if (!by_tensor) {
    source = m.Stored(source);
  }
  return {Replaced(call, m, x, source, targets)};
}

Values ScatterAdded(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x == nullptr ? 0 : x->shape.size());
  const Value index = call.Tensor(2, "index");
  const Value source = call.Tensor(3, "src");
  if (call.failed() || source->shape.size() != index->shape.size()) {
    return {call.Fail("the source does not fit the index")};
  }
  const std::vector<int64_t> targets = Targets(call, x, dim, index, index->shape, false);
  return {AddedAt(call, m, x, Corner(m, source, index->shape), targets)};
}

template <bool kAdd>
Values IndexWritten(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim"), x == nullptr ? 0 : x->shape.size());
  const Value index = call.Tensor(2, "index");
  Value source = call.Tensor(3, "source");
  if (call.failed() || x->shape.empty() || source->shape.size() != x->shape.size() ||
      index->size() != static_cast<size_t>(source->shape[static_cast<size_t>(dim)])) {
    return {call.Fail("the source does not fit the index")};
  }
  const std::vector<int64_t> targets = Targets(call, x, dim, index, source->shape, true);
  if (kAdd) {
    const double alpha = call.Number(4, "alpha", 1);
    source = alpha == 1 ? source : m.Stored(m.Multiply(source, m.Scalar(alpha)));
    return {AddedAt(call, m, x, source, targets)};
  }
  return {Replaced(call, m, x, source, targets)};
}

}  // namespace

OperatorList SelectionOperators() {
  return {
      {"sort", Sort},
      {"argsort", ArgSort},
      {"topk", TopK},
      {"argmax", ArgExtreme<true>},
      {"argmin", ArgExtreme<false>},
      {"gather", Gathered},
      {"index_select", IndexSelected},
      {"take", TakenFlat},
      {"scatter", Scattered},
      {"scatter_add", ScatterAdded},
      {"index_add", IndexWritten<true>},
      {"index_copy", IndexWritten<false>},
  };
}

// Truth values and choices: exact.

namespace {

struct Equal {
  bool operator()(double x, double y) const { return x == y; }
};
struct Unequal {
  bool operator()(double x, double y) const { return x != y; }
};
struct Less {
  bool operator()(double x, double y) const { return x < y; }
};
struct LessOrEqual {
  bool operator()(double x, double y) const { return x <= y; }
};
struct Greater {
  bool operator()(double x, double y) const { return x > y; }
};
struct GreaterOrEqual {
  bool operator()(double x, double y) const { return x >= y; }
};

// A number beside a tensor may be rounded to its type: elements that are so near stay open.
template <typename Relation>
Values Compared(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  const Value result = m.Zip(
      a, b, [](double x, double y) { return Term(Relation()(x, y) ? 1 : 0); }, nullptr, nullptr, 0);
  if (result == nullptr || (a->is_exact() && b->is_exact())) {
    return {result};
  }
  const Value distance = m.Subtract(a, b);
  std::vector<double> error(result->size());
  for (size_t i = 0; i < error.size(); ++i) {
    error[i] = std::fabs(distance->value[i]) <= distance->error_at(i) ? 1 : 0;
  }
  return {MakeValue(result->shape, result->value.Shared(), std::move(error))};
}

template <bool (*kTruth)(bool, bool)>
Values Logical(Call& call, const Arithmetic& m) {
  return {m.Zip(
      call.Tensor(0, "input"), call.Tensor(1, "other"),
      [](double x, double y) { return Term(kTruth(x != 0, y != 0) ? 1 : 0); }, nullptr, nullptr,
      0)};
}
bool Both(bool x, bool y) { return x && y; }
bool Either(bool x, bool y) { return x || y; }
bool One(bool x, bool y) { return x != y; }

// For bools, which is how masks are made; integers are left alone.
template <bool (*kTruth)(bool, bool)>
Values BitsOfBools(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, "other");
  if (call.DTypeOf(a) != DType::kBool || call.DTypeOf(b) != DType::kBool) {
    return {call.Fail("bits of integers")};
  }
  return Logical<kTruth>(call, m);
}

template <bool (*kTruth)(double)>
Values Asked(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kTruth(x) ? 1 : 0); }, nullptr, 0)};
}
bool IsZero(double x) { return x == 0; }
bool IsNan(double x) { return std::isnan(x); }
bool IsInfinite(double x) { return std::isinf(x); }
bool IsFinite(double x) { return std::isfinite(x); }

Values InvertedBools(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (call.DTypeOf(x) != DType::kBool) {
    return {call.Fail("bits of integers")};
  }
  return Asked<IsZero>(call, m);
}

Values Choice(Call& call, const Arithmetic& m) {
  const bool is_method =
      call.IsTensor(0, "condition") && call.DTypeOf(call.Tensor(0, "condition")) != DType::kBool &&
      call.IsTensor(1, "condition") && call.DTypeOf(call.Tensor(1, "condition")) == DType::kBool;
  if (is_method) {  // x.where(condition, other)
    const Value condition = call.Tensor(1, "condition");
    return {m.Where(condition, call.Tensor(0, "input"), Operand(call, m, 2, "other"))};
  }
  const Value condition = call.Tensor(0, "condition");
  return {m.Where(condition, Operand(call, m, 1, "input"), Operand(call, m, 2, "other"))};
}

Values MaskedFill(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value mask = call.Tensor(1, "mask");
  return {m.Where(mask, Operand(call, m, 2, "value"), x)};
}

}  // namespace

OperatorList ComparisonOperators() {
  return {
      {"eq equal", Compared<Equal>},
      {"ne not_equal", Compared<Unequal>},
      {"lt less", Compared<Less>},
      {"le less_equal", Compared<LessOrEqual>},
      {"gt greater", Compared<Greater>},
      {"ge greater_equal", Compared<GreaterOrEqual>},
      {"logical_and", Logical<Both>},
      {"logical_or", Logical<Either>},
      {"logical_xor", Logical<One>},
      {"logical_not", Asked<IsZero>},
      {"bitwise_and and iand", BitsOfBools<Both>},
      {"bitwise_or or ior", BitsOfBools<Either>},
      {"bitwise_xor xor ixor", BitsOfBools<One>},
      {"bitwise_not invert", InvertedBools},
      {"isnan", Asked<IsNan>},
      {"isinf", Asked<IsInfinite>},
      {"isfinite", Asked<IsFinite>},
      {"where", Choice},
      {"masked_fill", MaskedFill},
  };
}

}  // namespace msprobe::reference
