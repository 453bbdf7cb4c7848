// The registry of operators by their names, and how operators read their arguments.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

using Names = std::map<std::string, const Operator*, std::less<>>;

// Borrows the operators.
Names NamesOf(const OperatorList& operators) {
  Names names;
  for (const Operator& operation : operators) {
    for (const std::string_view name : base::Split(operation.names, ' ')) {
      names.emplace(std::string(name), &operation);
    }
  }
  return names;
}

OperatorList Concatenated(const std::vector<OperatorList>& families) {
  OperatorList all;
  for (const OperatorList& family : families) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace

const std::vector<Operator>& AllOperators() {
  static const OperatorList all =
      Concatenated({ElementwiseOperators(),   ComparisonOperators(),    ActivationOperators(),
                    ContractionOperators(),   NormalizationOperators(), ReductionOperators(),
                    LossOperators(),          MoveOperators(),          CopyOperators(),
                    CreationOperators(),      ConvolutionOperators(),   PoolingOperators(),
                    InterpolationOperators(), SelectionOperators(),     AttentionOperators(),
                    MomentOperators(),        ListOperators(),          OptimizerOperators(),
                    EliminationOperators(),   TriangularOperators()});
  return all;
}

std::string PlainOperatorName(const dump::EntryName& call) {
  std::string_view name = call.subject;
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    name.remove_prefix(dot + 1);
  }
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) {
    name = name.substr(2, name.size() - 4);
  }
  while (name.size() > 1 && name.ends_with("_")) {
    name.remove_suffix(1);
  }
  std::string plain;
  for (const char letter : name) {
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

const Operator* FindOperator(const dump::EntryName& call) {
  static const OperatorList modules = ModuleOperators();
  static const OperatorList collectives =
      Concatenated({CollectiveOperators(), PointToPointOperators()});
  static const Names module_names = NamesOf(modules);
  static const Names collective_names = NamesOf(collectives);
  static const Names function_names = NamesOf(AllOperators());
  if (call.is_module) {
    const auto found = module_names.find(call.class_name);
    return found == module_names.end() ? nullptr : found->second;
  }
  // gather and scatter mean something else among ranks.
  const Names& names = call.kind == "Distributed" ? collective_names : function_names;
  const auto found = names.find(PlainOperatorName(call));
  return found == names.end() ? nullptr : found->second;
}

Value Operand(Call& call, const Arithmetic& arithmetic, size_t position, std::string_view name) {
  if (call.IsTensor(position, name)) {
    return call.Tensor(position, name);
  }
  const double number = call.Number(position, name);
  return call.failed() ? nullptr : arithmetic.Scalar(number);
}

Value RootOfSquares(const Arithmetic& arithmetic, const Value& x) {
  if (x == nullptr) {
    return nullptr;
  }
  std::vector<double> roots(x->size());
  std::vector<double> errors(x->size());
  for (size_t i = 0; i < roots.size(); ++i) {
    const double error = x->error_at(i);
    roots[i] = std::sqrt(x->value[i]);
    const double low = std::sqrt(std::max(0.0, x->value[i] - error));
    const double high = std::sqrt(x->value[i] + error);
    errors[i] = std::max(roots[i] - low, high - roots[i]) +
                arithmetic.rounding().function_units * arithmetic.rounding().Step(roots[i]);
  }
  return MakeValue(x->shape, std::move(roots), std::move(errors));
}

int64_t DimOf(Call& call, int64_t dim, size_t rank) {
  const auto count = static_cast<int64_t>(std::max<size_t>(rank, 1));
  const int64_t place = dim < 0 ? dim + count : dim;
  if (place < 0 || place >= count) {
    call.Fail(fmt::format("there is no dim {} of {}", dim, rank));
    return 0;
  }
  return place;
}

std::vector<int64_t> DimsOf(Call& call, size_t position, std::string_view name, size_t rank) {
  std::vector<int64_t> dims = call.Ints(position, name);
  if (rank == 0) {
    return {};
  }
  for (int64_t& dim : dims) {
    dim = DimOf(call, dim, rank);
  }
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), int64_t{0});
  }
  std::sort(dims.begin(), dims.end());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

std::vector<int64_t> Spread(Call& call, std::vector<int64_t> numbers, size_t count,
                            int64_t otherwise) {
  if (numbers.empty()) {
    numbers.push_back(otherwise);
  }
  if (numbers.size() == 1) {
    numbers.resize(count, numbers[0]);
  }
  if (numbers.size() != count) {
    call.Fail(fmt::format("{} numbers where {} are needed", numbers.size(), count));
    numbers.resize(count, otherwise);
  }
  return numbers;
}

Value DimLast(const Arithmetic& arithmetic, const Value& x, int64_t dim) {
  if (x == nullptr || x->shape.empty() || dim + 1 == static_cast<int64_t>(x->shape.size())) {
    return x;
  }
  std::vector<int64_t> order;
  for (int64_t i = 0; i < static_cast<int64_t>(x->shape.size()); ++i) {
    if (i != dim) {
      order.push_back(i);
    }
  }
  order.push_back(dim);
  return arithmetic.Permute(x, order, true);
}

Value DimBack(const Arithmetic& arithmetic, const Value& x, int64_t dim) {
  if (x == nullptr || x->shape.empty() || dim + 1 == static_cast<int64_t>(x->shape.size())) {
    return x;
  }
  std::vector<int64_t> order;
  const auto last = static_cast<int64_t>(x->shape.size()) - 1;
  for (int64_t i = 0; i < last; ++i) {
    order.push_back(i);
  }
  order.insert(order.begin() + dim, last);
  return arithmetic.Permute(x, order);
}

std::optional<DType> DTypeArgument(Call& call, size_t position, std::string_view name) {
  return ParseDType(call.Text(position, name, ""));
}

}  // namespace msprobe::reference
