#include "src/checkpoint/common/optimizer_numbers.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/checkpoint/common/optimizer_names.h"

namespace msprobe::checkpoint {
namespace {

struct Number {
  DType dtype = DType::kFloat64;
  double real = 0;
  int64_t integer = 0;
};

std::optional<Number> ParseNumber(std::string_view text) {
  if (text == "True" || text == "False") {
    return Number{DType::kInt64, 0, text == "True" ? 1 : 0};
  }
  if (const std::optional<int64_t> integer = base::ParseInt(text)) {
    return Number{DType::kInt64, static_cast<double>(*integer), *integer};
  }
  if (const std::optional<double> real = base::ParseDouble(text)) {
    return Number{DType::kFloat64, *real, 0};
  }
  return std::nullopt;
}

// One number, or a list or tuple of them.
std::vector<Number> ParseNumbers(std::string_view text, bool* is_list) {
  *is_list = text.size() > 1 && (text.front() == '(' || text.front() == '[');
  std::vector<Number> numbers;
  if (!*is_list) {
    if (const std::optional<Number> number = ParseNumber(text)) {
      numbers.push_back(*number);
    }
    return numbers;
  }
  for (std::string_view part : base::Split(text.substr(1, text.size() - 2), ',')) {
    part = base::Trim(part);
    if (part.empty()) {
      continue;  // "(1,)"
    }
    const std::optional<Number> number = ParseNumber(part);
    if (!number) {
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Parameter MakeNumbers(const std::string& name, const std::vector<Number>& numbers, bool is_list) {
  bool real = false;
  for (const Number& number : numbers) {
    real = real || number.dtype == DType::kFloat64;
  }
  auto memory = std::make_shared<std::vector<std::byte>>(numbers.size() * sizeof(double));
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::byte* out = memory->data() + i * sizeof(double);
    if (real) {
      std::memcpy(out, &numbers[i].real, sizeof(double));
    } else {
      std::memcpy(out, &numbers[i].integer, sizeof(int64_t));
    }
  }
  TensorView view;
  view.dtype = real ? DType::kFloat64 : DType::kInt64;
  view.shape = is_list ? Shape{static_cast<int64_t>(numbers.size())} : Shape{};
  view.strides = ContiguousStrides(view.shape);
  view.data = memory->data();
  view.extent_bytes = memory->size();
  Parameter parameter = MakeParameter(name, view, kNoFile);
  for (Piece& piece : parameter.pieces) {
    piece.memory = memory;
  }
  return parameter;
}

}  // namespace

void AddOptimizerNumbers(const std::vector<NamedScalar>& scalars, Checkpoint& checkpoint) {
  std::unordered_set<std::string> taken;
  for (const Parameter& parameter : checkpoint.parameters) {
    taken.insert(parameter.name);
  }
  for (const NamedScalar& scalar : scalars) {
    const std::string name = base::Join(scalar.path, ".");
    // "params" lists which parameters a group has, by numbers of the optimizer's own.
    if (scalar.path.empty() || scalar.path.back() == "params" || !IsOptimizerState(name) ||
        !taken.insert(name).second) {
      continue;
    }
    bool is_list = false;
    const bool is_text = scalar.type == "str";
    const std::vector<Number> numbers =
        is_text ? std::vector<Number>() : ParseNumbers(scalar.text, &is_list);
    if (numbers.empty()) {
      checkpoint.settings.push_back({name, scalar.text});
    } else {
      checkpoint.parameters.push_back(MakeNumbers(name, numbers, is_list));
    }
  }
}

}  // namespace msprobe::checkpoint
