#include "src/analysis/config_check/step_files.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check {

std::optional<int64_t> NumberBehind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(prefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return base::ParseInt(digits);
}

StepFiles FindStepFiles(const Pack& pack, Part part, std::string_view file_name) {
  StepFiles found;
  for (const std::string_view member : pack.MembersBelow(std::string(PartName(part)) + "/")) {
    const std::vector<std::string_view> pieces = base::Split(member, '/');
    const bool wanted = file_name.empty() ? member.ends_with(".json") : pieces.back() == file_name;
    if (!wanted) {
      continue;
    }
    constexpr size_t kPieces = 4;  // part, step, rank, file
    std::optional<int64_t> step;
    std::optional<int64_t> rank;
    if (pieces.size() == kPieces) {
      step = NumberBehind(pieces[1], "step");
      rank = NumberBehind(pieces[2], "rank");
    }
    if (step && rank) {
      found.files.push_back({*step, *rank, member});
    } else {
      found.unplaced.emplace_back(member);
    }
  }
  std::sort(found.files.begin(), found.files.end(), [](const StepFile& a, const StepFile& b) {
    return std::tie(a.step, a.rank, a.member) < std::tie(b.step, b.rank, b.member);
  });
  return found;
}

std::string OnlyIn(const std::vector<StepFile>& files, const std::vector<StepFile>& others) {
  std::set<std::pair<int64_t, int64_t>> known;
  for (const StepFile& file : others) {
    known.emplace(file.step, file.rank);
  }
  std::set<std::pair<int64_t, int64_t>> missing;
  for (const StepFile& file : files) {
    if (known.count({file.step, file.rank}) == 0) {
      missing.emplace(file.step, file.rank);
    }
  }
  constexpr size_t kShown = 3;
  std::string text;
  size_t shown = 0;
  for (const auto& [step, rank] : missing) {
    if (shown == kShown) {
      text += fmt::format(" and {} more", missing.size() - kShown);
      break;
    }
    text += fmt::format("{}step {} rank {}", shown == 0 ? "" : ", ", step, rank);
    ++shown;
  }
  return text;
}

}  // namespace msprobe::analysis::config_check
