#include "src/commands/launch_trace.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/unfinished.h"

namespace msprobe::commands {
namespace {

constexpr char kFrameworkLetter = 'f';
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
  return letters->find(kFrameworkLetter) == std::string::npos ? LaunchProgress::kPython
                                                              : LaunchProgress::kFramework;
}

std::string WhyNothing(LaunchProgress progress, std::string_view framework) {
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
      return fmt::format(
          "{} was imported, but in the chosen steps and ranks no model with parameters was called, "
          "or a message above says what prevented the capture",
          name);
  }
  return {};
}

}  // namespace msprobe::commands
