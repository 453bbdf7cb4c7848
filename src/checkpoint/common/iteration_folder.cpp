#include "src/checkpoint/common/iteration_folder.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::checkpoint {
namespace {

constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
constexpr std::string_view kIterationPrefix = "iter_";
constexpr std::string_view kRelease = "release";
constexpr size_t kShortestIteration = 7;  // digits
constexpr uint64_t kLongestTracker = 4096;

std::optional<int64_t> IterationOfName(std::string_view name) {
  if (!name.starts_with(kIterationPrefix) ||
      name.size() < kIterationPrefix.size() + kShortestIteration) {
    return std::nullopt;
  }
  return base::ParseInt(name.substr(kIterationPrefix.size()));
}

// What could have been meant, for an error's hint.
std::string IterationsIn(const std::filesystem::path& root) {
  std::vector<std::string> found;
  if (const auto names = base::ListFolder(root); names.ok()) {
    for (const std::string& name : *names) {
      if (name == kRelease || name.starts_with(kIterationPrefix)) {
        found.push_back(name);
      }
    }
  }
  constexpr size_t kShown = 5;
  const size_t count = found.size();
  if (count > kShown) {
    found.erase(found.begin(), found.end() - kShown);
    return fmt::format("there are {} iterations, the last ones {}; pass one of them", count,
                       base::Join(found, ", "));
  }
  return found.empty() ? "the folder has no iter_* folder at all"
                       : fmt::format("there is {}; pass that folder", base::Join(found, ", "));
}

}  // namespace

Result<IterationFolder> FindIterationFolder(const std::filesystem::path& root) {
  const std::filesystem::path tracker = root / kTrackerName;
  if (!base::Exists(tracker)) {
    // "iter_0000005/" has an empty last component.
    const std::filesystem::path named = base::WithoutLastSlash(root);
    return IterationFolder{root, IterationOfName(named.filename().native())};
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(tracker, kLongestTracker));
  const std::string_view word = base::Trim(text);
  IterationFolder result;
  if (word == kRelease) {
    result.folder = root / kRelease;
  } else {
    result.iteration = base::ParseInt(word);
    if (!result.iteration || *result.iteration < 0) {
      return BadFormatError(fmt::format("{}: \"{}\" is neither an iteration nor \"release\"",
                                        tracker.native(), base::Printable(word.substr(0, 50))))
          .WithHint(IterationsIn(root));
    }
    result.folder = root / fmt::format("{}{:07}", kIterationPrefix, *result.iteration);
  }
  if (!base::IsFolder(result.folder)) {
    return NotFoundError(fmt::format("{} names the folder {}, which does not exist",
                                     tracker.native(), result.folder.filename().native()))
        .WithHint(IterationsIn(root));
  }
  return result;
}

}  // namespace msprobe::checkpoint
