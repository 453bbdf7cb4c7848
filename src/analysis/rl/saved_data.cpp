#include "src/analysis/rl/saved_data.h"

#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::analysis::rl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".npy";

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int64_t> NumberBehind(std::string_view name, std::string_view word) {
  return name.starts_with(word) && IsDigits(name.substr(word.size()))
             ? base::ParseInt(name.substr(word.size()))
             : std::nullopt;
}

bool IsFolder(const fs::path& path) { return base::IsFolder(path); }

class Finder {
 public:
  Result<SavedData> Run(const fs::path& folder) {
    const fs::path data = folder / "data";
    if (!IsFolder(data)) {
      return NotFoundError(fmt::format("{} holds no folder \"data\"", folder.string()))
          .WithHint("name the folder that was given to SingleSave");
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> keys, base::ListFolder(data));
    for (const std::string& key : keys) {
      if (!IsFolder(data / key)) {
        continue;
      }
      key_ = key;
      found_.keys[key];  // also where it holds nothing
      MSP_RETURN_IF_ERROR(
          Numbered(data / key, "step", [this](const fs::path& step, int64_t number) {
            location_.step = number;
            return Numbered(step, "rank", [this](const fs::path& rank, int64_t rank_number) {
              location_.rank = rank_number;
              return Rank(rank);
            });
          }));
    }
    return std::move(found_);
  }

 private:
  // Calls visit(path, number) for every folder <word><number>; others are told.
  template <typename Visit>
  Status Numbered(const fs::path& folder, std::string_view word, const Visit& visit) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    for (const std::string& name : names) {
      const fs::path path = folder / name;
      if (!IsFolder(path)) {
        continue;
      }
      const std::optional<int64_t> number = NumberBehind(name, word);
      if (!number) {
        found_.warnings.push_back(
            fmt::format("{} is left out: its name is not {}<number>", path.string(), word));
        continue;
      }
      MSP_RETURN_IF_ERROR(visit(path, *number));
    }
    return {};
  }

  Status Rank(const fs::path& folder) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    bool has_micro_steps = false;
    for (const std::string& name : names) {
      const std::optional<int64_t> number = NumberBehind(name, "micro_step");
      if (number && IsFolder(folder / name)) {
        has_micro_steps = true;
        location_.micro_step = *number;
        MSP_RETURN_IF_ERROR(Files(folder / name));
      }
    }
    location_.micro_step = 0;
    return has_micro_steps ? Status() : Files(folder);
  }

  Status Files(const fs::path& folder) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
    for (const std::string& name : names) {
      if (!name.ends_with(kEnding)) {
        continue;
      }
      const std::string stem = name.substr(0, name.size() - kEnding.size());
      const std::string prefix = key_ + ".";
      location_.member = stem == key_               ? std::string()
                         : stem.starts_with(prefix) ? stem.substr(prefix.size())
                                                    : stem;
      found_.keys[key_].insert_or_assign(location_, folder / name);
    }
    return {};
  }

  SavedData found_;
  std::string key_;
  ArrayLocation location_;
};

}  // namespace

std::strong_ordering ArrayLocation::operator<=>(const ArrayLocation& other) const {
  if (const auto order =
          std::tie(step, rank, micro_step) <=> std::tie(other.step, other.rank, other.micro_step);
      std::is_neq(order)) {
    return order;
  }
  if (IsDigits(member) && IsDigits(other.member) && member.size() != other.member.size()) {
    return member.size() <=> other.member.size();
  }
  return member <=> other.member;
}

Result<SavedData> FindSavedData(const fs::path& folder) { return Finder().Run(folder); }

std::vector<FilePair> PairFiles(const LocatedFiles& first, const LocatedFiles& second) {
  std::map<ArrayLocation, FilePair> paired;
  for (const auto& [location, path] : first) {
    paired[location].first = path;
  }
  for (const auto& [location, path] : second) {
    paired[location].second = path;
  }
  std::vector<FilePair> pairs;
  pairs.reserve(paired.size());
  for (auto& [location, pair] : paired) {
    pair.location = location;
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

std::string LocationText(const ArrayLocation& location) {
  return fmt::format("step {}, rank {}, micro step {}{}", location.step, location.rank,
                     location.micro_step,
                     location.member.empty() ? "" : ", " + base::Printable(location.member));
}

}  // namespace msprobe::analysis::rl
