#include "src/commands/launch_trace.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

constexpr char kFrameworkLetter = 'f';
constexpr char kReasonBegins = '!';  // up to the end of the line
constexpr size_t kMostReasons = 8;
constexpr uint64_t kMostBytes = uint64_t{16} << 20;

}  // namespace

LaunchTrace::LaunchTrace() {
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  if (failure) {
    return;
  }
  std::string path;
  base::RemoveAbandoned(folder, base::Leftovers::kOfLaunchers);
  descriptor_ = base::MakeUnfinished([&] {
    path = (folder / "msprobe-launch-XXXXXX").string();
    return ::mkostemp(path.data(), O_CLOEXEC);
  });
  if (descriptor_ >= 0) {
    path_ = std::move(path);
  }
}

LaunchTrace::~LaunchTrace() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

LaunchProgress LaunchTrace::Read() const {
  if (path_.empty()) {
    return LaunchProgress::kUnknown;
  }
  const Result<std::string> letters = base::ReadTextFile(path_, kMostBytes);
  if (!letters.ok()) {
    return LaunchProgress::kUnknown;
  }
  if (letters->empty()) {
    return LaunchProgress::kNoPython;
  }
  bool in_reason = false;
  for (const char letter : *letters) {
    if (letter == kFrameworkLetter && !in_reason) {
      return LaunchProgress::kFramework;
    }
    in_reason = in_reason ? letter != '\n' : letter == kReasonBegins;
  }
  return LaunchProgress::kPython;
}

std::vector<std::string> LaunchTrace::Reasons() const {
  std::vector<std::string> reasons;
  const Result<std::string> text =
      path_.empty() ? Result<std::string>(std::string()) : base::ReadTextFile(path_, kMostBytes);
  size_t begin = text.ok() ? text->find(kReasonBegins) : std::string::npos;
  while (begin != std::string::npos && reasons.size() < kMostReasons) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    std::string reason = base::Printable(text->substr(begin + 1, end - begin - 1));
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(std::move(reason));
    }
    begin = text->find(kReasonBegins, end);
  }
  return reasons;
}

std::string WhyNothing(LaunchProgress progress, std::string_view framework,
                       const std::vector<std::string>& reasons) {
  const std::string_view name = framework == "mindspore" ? "MindSpore" : "PyTorch";
  switch (progress) {
    case LaunchProgress::kUnknown:
      return {};
    case LaunchProgress::kNoPython:
      return "no Python process of the program loaded msprobe: it needs PYTHONPATH, which python3 "
             "-I, -E and -S ignore, env -i, sudo and ssh do not pass on, and a script may set anew "
             "without what was in it";
    case LaunchProgress::kPython:
      return fmt::format("no Python process of the program imported {}", name);
    case LaunchProgress::kFramework:
      return fmt::format("{} was imported, but {}", name,
                         reasons.empty()
                             ? "in the chosen steps and ranks no model with parameters was called"
                             : base::Join(reasons, "; "));
  }
  return {};
}

}  // namespace msprobe::commands
