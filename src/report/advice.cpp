#include "src/report/advice.h"

#include <array>
#include <functional>
#include <map>

#include <nlohmann/json.hpp>

namespace msprobe::resources {
extern const std::string_view kAdvice;
}

namespace msprobe::report {
namespace {

using Texts = std::array<std::string, 2>;  // by Language

const std::map<std::string, Texts, std::less<>>& Rows() {
  static const auto* const rows = [] {
    auto* const read = new std::map<std::string, Texts, std::less<>>();
    const nlohmann::json table = nlohmann::json::parse(resources::kAdvice, nullptr, false);
    for (const auto& [id, texts] : table.items()) {
      read->emplace(id, Texts{texts.value("en", ""), texts.value("zh", "")});
    }
    return read;
  }();
  return *rows;
}

}  // namespace

std::string AdviceText(const Advice& advice, Language language) {
  const auto row = Rows().find(advice.id);
  if (row == Rows().end()) {
    return advice.id;
  }
  std::string filled;
  bool is_one = false;
  for (std::string_view rest = row->second[static_cast<size_t>(language)]; !rest.empty();) {
    const size_t index = rest.size() > 2 && rest[0] == '{' && rest[2] == '}'
                             ? static_cast<size_t>(rest[1]) - '0'
                             : advice.values.size();
    if (index < advice.values.size()) {
      // The row "text" hands on a hint, which has its own translation.
      filled +=
          advice.id == "text" ? InLanguage(advice.values[index], language) : advice.values[index];
      is_one = advice.values[index] == "1";
      rest.remove_prefix(3);
    } else if (rest.starts_with("(s)")) {
      filled += is_one ? "" : "s";
      rest.remove_prefix(3);
    } else {
      filled += rest.front();
      rest.remove_prefix(1);
    }
  }
  return filled;
}

std::vector<std::string> AdviceIds() {
  std::vector<std::string> ids;
  for (const auto& [id, texts] : Rows()) {
    ids.push_back(id);
  }
  return ids;
}

}  // namespace msprobe::report
