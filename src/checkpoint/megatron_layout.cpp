#include "src/checkpoint/megatron_layout.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTracker = "latest_checkpointed_iteration.txt";
constexpr std::string_view kRelease = "release";
constexpr std::string_view kIterationPrefix = "iter_";
constexpr std::string_view kRankPrefix = "mp_rank_";
constexpr size_t kIterationDigits = 7;
// Of one number in a rank folder's name: beyond any machine, far below overflow.
constexpr size_t kMostRankDigits = 6;
constexpr uint64_t kTrackerLimitBytes = 4096;
// The second one: older versions beside a distributed optimizer.
constexpr std::array<std::string_view, 2> kRankFiles = {"model_optim_rng.pt", "model_rng.pt"};

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The number as the digits after "iter_", at least seven.
std::optional<int64_t> IterationOfName(std::string_view name) {
  if (!name.starts_with(kIterationPrefix)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kIterationPrefix.size());
  const bool decimal = std::all_of(digits.begin(), digits.end(),
                                   [](char digit) { return digit >= '0' && digit <= '9'; });
  return decimal && digits.size() >= kIterationDigits ? base::ParseInt(digits) : std::nullopt;
}

// The last part of the path, also when it ends in a slash or in "/.".
std::string LastName(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error).lexically_normal();
  if (whole.filename().empty()) {
    whole = whole.parent_path();
  }
  return whole.filename().string();
}

Status NoSuchFolder(const fs::path& wanted, const fs::path& root, std::string_view tracked) {
  Status status =
      NotFoundError(fmt::format("checkpoint directory not found: {} ({} says \"{}\")",
                                wanted.native(), (root / kTracker).native(), tracked));
  const std::string existing = ExistingIterations(root);
  if (existing.empty()) {
    return status;
  }
  return std::move(status).WithHint(
      fmt::format("{} has {}: pass such a folder itself", root.native(), existing));
}

}  // namespace

std::string ExistingIterations(const fs::path& folder) {
  constexpr size_t kMostNamed = 10;
  const Result<std::vector<std::string>> entries = base::ListFolder(folder);
  if (!entries.ok()) {
    return {};
  }
  std::vector<std::string> found;
  for (const std::string& entry : *entries) {
    if ((IterationOfName(entry) || entry == kRelease) && IsFolder(folder / entry)) {
      found.push_back(entry);
    }
  }
  if (found.size() > kMostNamed) {
    found.erase(found.begin() + 1, found.end() - static_cast<std::ptrdiff_t>(kMostNamed - 2));
    found.insert(found.begin() + 1, "...");
  }
  return base::Join(found, ", ");
}

Result<IterationFolder> FindIterationFolder(const fs::path& folder) {
  if (!IsFolder(folder)) {
    return NotFoundError(fmt::format("checkpoint directory not found: {}", folder.native()));
  }
  const fs::path tracker = folder / kTracker;
  if (!IsFile(tracker)) {
    return IterationFolder{folder, IterationOfName(LastName(folder))};
  }
  MSP_ASSIGN_OR_RETURN(const std::string content, base::ReadTextFile(tracker, kTrackerLimitBytes),
                       tracker.native());
  const std::string_view text = base::Trim(content);
  IterationFolder found;
  if (text == kRelease) {
    found.path = folder / kRelease;
  } else {
    const std::optional<int64_t> number = base::ParseInt(text);
    if (!number || *number < 0) {
      return BadFormatError(
                 fmt::format("{} says \"{}\": neither the number of an iteration nor \"release\"",
                             tracker.native(), base::Printable(text.substr(0, 50))))
          .WithHint("pass the folder of one iteration, such as iter_0000100");
    }
    found.path = folder / fmt::format("iter_{:07}", *number);
    found.iteration = number;
  }
  if (!IsFolder(found.path)) {
    return NoSuchFolder(found.path, folder, base::Printable(text));
  }
  return found;
}

std::string RankFolderName(const ParallelSizes& sizes, const RankPlace& place) {
  std::string name = fmt::format("{}{:02}", kRankPrefix, place.tensor);
  if (sizes.pipeline > 1) {
    name += fmt::format("_{:03}", place.pipeline);
  }
  if (sizes.expert > 1) {
    name += fmt::format("_{:03}", place.expert);
  }
  return name;
}

std::optional<std::vector<int64_t>> ParseRankFolderName(std::string_view name) {
  if (!name.starts_with(kRankPrefix)) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (std::string_view digits : base::Split(name.substr(kRankPrefix.size()), '_')) {
    const std::optional<int64_t> number = base::ParseInt(digits);
    if (!number || *number < 0 || digits.size() > kMostRankDigits || numbers.size() == 3) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<std::string>> ListRankFolders(const fs::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(folder));
  std::erase_if(names, [&folder](const std::string& name) {
    return !ParseRankFolderName(name) || !IsFolder(folder / name);
  });
  return names;
}

fs::path RankFile(const fs::path& rank_folder) {
  for (std::string_view name : kRankFiles) {
    if (IsFile(rank_folder / name)) {
      return rank_folder / name;
    }
  }
  return rank_folder / kRankFiles[0];
}

bool LooksLikeMegatron(const fs::path& folder) {
  const Result<IterationFolder> found = FindIterationFolder(folder);
  if (!found.ok()) {
    // A tracker that leads nowhere: opening says what is wrong with it.
    return IsFile(folder / kTracker);
  }
  const Result<std::vector<std::string>> ranks = ListRankFolders(found->path);
  return ranks.ok() && !ranks->empty();
}

}  // namespace msprobe::checkpoint
