#include "src/commands/doctor_bundle.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/processes.h"
#include "src/base/files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/io/zip.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytesOfFile = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{16} << 20;
constexpr size_t kMostFiles = 1000;
constexpr int kDeepest = 6;

// They tell how a run went, not what it computed.
bool IsLog(const std::string& name) {
  constexpr std::array<std::string_view, 3> kNames = {"dump_error_info.log", "manifest.json",
                                                      "msprobe.log"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

struct Collection {
  std::vector<BundleMember> members;
  uint64_t bytes = 0;
  std::vector<std::string> left_out;
};

void Collect(const fs::path& folder, const std::string& prefix, int depth, Collection& collection) {
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok()) {
    collection.left_out.push_back(names.status().message());
    return;
  }
  for (const std::string& name : *names) {
    const fs::path path = folder / name;
    std::error_code failure;
    const fs::file_status status = fs::symlink_status(path, failure);
    if (fs::is_directory(status)) {
      if (depth < kDeepest) {
        Collect(path, fmt::format("{}/{}", prefix, base::Printable(name)), depth + 1, collection);
      }
      continue;
    }
    if (!fs::is_regular_file(status) || !IsLog(name)) {
      continue;
    }
    Result<std::string> text = base::ReadTextFile(path, kMostBytesOfFile);
    if (text.ok() &&
        (collection.bytes + text->size() > kMostBytes || collection.members.size() >= kMostFiles)) {
      collection.left_out.push_back(fmt::format("{}: there are too many", path.string()));
    } else if (!text.ok()) {
      collection.left_out.push_back(text.status().message());
    } else {
      collection.bytes += text->size();
      collection.members.push_back({fmt::format("{}/{}", prefix, name), *std::move(text)});
    }
  }
}

}  // namespace

Result<base::ChildEnd> RunThisProgram(const std::vector<std::string>& arguments) {
  std::error_code failure;
  base::ChildOptions options;
  options.program = {fs::read_symlink("/proc/self/exe", failure).string()};
  if (failure) {
    return IoError(fmt::format("cannot find this program: {}", failure.message()));
  }
  options.program.insert(options.program.end(), arguments.begin(), arguments.end());
  constexpr std::chrono::hours kPatience{24};  // comparisons of clusters take their time
  options.patience = kPatience;
  return base::RunChild(options);
}

size_t MaskMember(BundleMember& member) {
  base::Masked masked = base::MaskText(member.text);
  member.text = std::move(masked.text);
  return masked.count;
}

Result<BundleMember> RunAgain(const std::vector<std::string>& arguments, size_t& masked) {
  MSP_ASSIGN_OR_RETURN(const base::ChildEnd end, RunThisProgram(arguments));
  std::string text =
      fmt::format("$ msprobe {}\n", base::Join(base::MaskArguments(arguments, &masked), " "));
  text += end.output;
  text += end.cut ? "\n(output truncated)\n" : "\n";
  text += end.signal != 0 ? fmt::format("ended by signal {}\n", end.signal)
                          : fmt::format("exit code {}\n", end.exit_code);
  return BundleMember{"command.txt", std::move(text)};
}

Result<std::vector<BundleMember>> CollectLogs(const std::vector<fs::path>& folders) {
  Collection collection;
  for (size_t i = 0; i < folders.size(); ++i) {
    std::error_code failure;
    if (!fs::is_directory(folders[i], failure)) {
      return NotFoundError(
          fmt::format("{}: no such directory", base::Printable(folders[i].string())));
    }
    Collect(folders[i], fmt::format("logs/{}", i), 0, collection);
  }
  if (!collection.left_out.empty()) {
    collection.members.push_back(
        {"logs/left_out.txt", base::Join(collection.left_out, "\n") + "\n"});
  }
  return std::move(collection.members);
}

Status WriteBundle(const fs::path& path, const std::vector<BundleMember>& members) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  io::ZipWriter zip(file);
  for (const BundleMember& member : members) {
    MSP_RETURN_IF_ERROR(zip.AddDeflated(member.name, member.text));
  }
  MSP_RETURN_IF_ERROR(zip.Finish());
  return file.Commit();
}

}  // namespace msprobe::commands
