// The advice that msprobe gives, in every language: config/advice.json, which tools/web reads as
// well. Documents hold the row and the values of its placeholders; each output form asks for the
// text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/report/texts.h"

namespace msprobe::report {

struct Advice {
  Advice() = default;
  explicit Advice(std::string_view row, std::vector<std::string> of_placeholders = {})
      : id(row), values(std::move(of_placeholders)) {}

  bool operator==(const Advice&) const = default;

  std::string id;                   // of the row, "compare.input"; empty: no advice
  std::vector<std::string> values;  // of {0}, {1} and so on
};

// The text with its values. "(s)" in it is an "s" unless the value before it is "1".
std::string AdviceText(const Advice& advice, Language language = Language::kEnglish);
inline std::string AdviceText(std::string_view id) { return AdviceText(Advice(id)); }

// All rows, in order of their ids.
std::vector<std::string> AdviceIds();

}  // namespace msprobe::report
