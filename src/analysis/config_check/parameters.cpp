#include "src/analysis/config_check/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/secrets.h"

namespace msprobe::analysis::config_check::internal {

using json::Json;

void Parameters::Set(const std::string& name, Json value) {
  const auto [place, is_new] = places_.emplace(name, object_.size());
  auto& members = object_.get_ref<Json::object_t&>();
  if (is_new) {
    members.Container::emplace_back(name, std::move(value));
  } else {
    std::next(members.begin(), static_cast<std::ptrdiff_t>(place->second))->second =
        std::move(value);
  }
}

const Json* Parameters::Find(const std::string& name) const {
  const auto place = places_.find(name);
  const auto& members = object_.get_ref<const Json::object_t&>();
  return place == places_.end()
             ? nullptr
             : &std::next(members.begin(), static_cast<std::ptrdiff_t>(place->second))->second;
}

Json Parameters::Take() {
  places_.clear();
  return std::exchange(object_, Json::object());
}

Json OneOf(std::vector<Json> values) {
  return {{"description", kSeveralValues}, {"values", Json::array_t(std::move(values))}};
}

const Json* ValuesOf(const Json& value) {
  const Json* values = json::Find(value, "values");
  const bool is_one = values != nullptr && value.size() == 2 &&
                      json::TextOf(json::Member(value, "description")) == kSeveralValues;
  return is_one ? values : nullptr;
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {
namespace {

using base::Secrecy;
using json::Json;

// What is inside of a secret is one. Of "keys" it is the elements of a list, and the values that
// several files give for it, but not members that have names of their own.
Secrecy OfMember(Secrecy parent, std::string_view key) {
  const bool inherits = parent >= Secrecy::kLikely || key == "values";
  return std::max(inherits ? parent : Secrecy::kNone, base::SecrecyOf(key));
}

bool IsNumber(const Json& value) { return value.is_number() || json::IsBigInteger(value); }

// Returns how many values were replaced.
size_t MaskScalar(Secrecy secrecy, Json& value) {
  const bool is_text = value.is_string();
  if ((!is_text && (!IsNumber(value) || secrecy == Secrecy::kNone)) ||
      json::TextOf(value) == internal::kSeveralValues) {  // the mark of values of several files
    return 0;
  }
  if (base::IsSecretValue(secrecy, json::PythonStr(value))) {
    value = base::kMaskedText;
    return 1;
  }
  base::Masked masked = base::MaskText(json::TextOf(value));
  if (is_text) {
    value = std::move(masked.text);
  }
  return masked.count > 0 ? 1 : 0;
}

// Exact, as Python's comparisons of int and float are: through the digits of whole numbers.
std::string Digits(const Json& value) {
  if (value.is_boolean()) {
    return json::BoolOf(value) ? "1" : "0";
  }
  if (!value.is_number_float()) {
    return json::IntegerText(value);
  }
  const double number = json::NumberOf(value);
  const bool is_whole = std::isfinite(number) && std::trunc(number) == number;
  // Zero may carry a sign that integers do not have.
  return is_whole ? fmt::format("{:.0f}", number == 0 ? 0 : number) : "no integer";
}

bool EqualNumbers(const Json& a, const Json& b) {
  return a.is_number_float() && b.is_number_float() ? json::NumberOf(a) == json::NumberOf(b)
                                                    : Digits(a) == Digits(b);
}

bool EqualObjects(const Json& a, const Json& b) {
  const auto& members = b.get_ref<const Json::object_t&>();
  auto same_place = members.begin();
  std::optional<Members> by_name;  // made where the order differs first
  for (const auto& [key, value] : a.items()) {
    const Json* other = nullptr;
    if (!by_name && same_place->first == key) {
      other = &same_place->second;
      ++same_place;
    } else {
      by_name = by_name ? std::move(by_name) : std::optional<Members>(b);
      other = by_name->Find(key);
    }
    if (other == nullptr || !PythonEqual(value, *other)) {
      return false;
    }
  }
  return true;
}

}  // namespace

size_t MaskParameters(Json& value, std::string_view name) {
  size_t count = 0;
  std::vector<std::pair<Json*, Secrecy>> pending = {{&value, base::SecrecyOf(name)}};
  while (!pending.empty()) {
    const auto [next, secrecy] = pending.back();
    pending.pop_back();
    if (next->is_array()) {
      for (Json& item : *next) {
        pending.emplace_back(&item, secrecy);
      }
    } else if (next->is_object()) {
      for (auto& [key, member] : next->get_ref<Json::object_t&>()) {
        pending.emplace_back(&member, OfMember(secrecy, key));
      }
    } else {
      count += MaskScalar(secrecy, *next);
    }
  }
  return count;
}

Members::Members(const Json& object) {
  if (!object.is_object()) {
    return;
  }
  members_.reserve(object.size());
  places_.reserve(object.size());
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    places_.emplace(key, members_.size());
    members_.push_back({key, &value});
  }
}

std::optional<size_t> Members::IndexOf(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? std::nullopt : std::optional<size_t>(place->second);
}

const Json* Members::Find(std::string_view key) const {
  const std::optional<size_t> place = IndexOf(key);
  return place ? members_[*place].value : nullptr;
}

bool PythonEqual(const Json& a, const Json& b) {
  const auto is_number = [](const Json& value) { return value.is_boolean() || IsNumber(value); };
  if (is_number(a) && is_number(b)) {
    return EqualNumbers(a, b);
  }
  if (a.type() != b.type() || a.size() != b.size()) {
    return false;
  }
  if (a.is_object()) {
    return EqualObjects(a, b);
  }
  return a.is_array() ? std::equal(a.begin(), a.end(), b.begin(), PythonEqual)
                      : json::TextOf(a) == json::TextOf(b);
}

report::Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return report::Cell::Number(value);
}

report::Cell ValueCell(report::Table& table, const Json& value) {
  if (value.is_null() || (value.is_string() && json::TextOf(value).empty())) {
    return {};
  }
  if (value.is_boolean()) {
    return report::Cell::Boolean(json::BoolOf(value));
  }
  if (value.is_number_integer()) {
    return report::Cell::Integer(json::IntOf(value));
  }
  return IsNumber(value) ? NumberCell(json::NumberOf(value))
                         : table.KeepText(json::PythonStr(value));
}

}  // namespace msprobe::analysis::config_check
