#include "src/commands/python_package.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/auxv.h>

#include "msprobe/version.h"

#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

// From the program's folder: an installation or an unpacked archive, a build folder, a copy.
constexpr std::string_view kOwnFolders[] = {"../lib/msprobe/python", "../python", "python"};

// Empty when nothing tells: in a container without /proc, and started by a name that does not lead
// to it.
fs::path ThisProgram() {
  std::error_code failure;
  fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (failure) {
    const auto* const started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    program = started_as == nullptr ? fs::path() : fs::canonical(started_as, failure);
  }
  return program;
}

bool HoldsPackage(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "msprobe" / "_inject" / "sitecustomize.py", ignored);
}

// Where pip puts packages whose programs it puts into `programs`: an environment or a prefix
// (lib64 on some distributions, dist-packages on Debian), or a folder named by `--target`.
std::vector<fs::path> FoldersOfPip(const fs::path& programs) {
  std::vector<fs::path> folders = {programs / ".."};
  for (const std::string_view library : {"../lib", "../lib64"}) {
    std::error_code failure;
    for (fs::directory_iterator entry(programs / library, failure), end; !failure && entry != end;
         entry.increment(failure)) {
      if (entry->path().filename().string().starts_with("python3")) {
        folders.push_back(entry->path() / "site-packages");
        folders.push_back(entry->path() / "dist-packages");
      }
    }
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

}  // namespace

Result<fs::path> FindPythonFolder() {
  if (const char* named = std::getenv("MSPROBE_PYTHON_PATH"); named != nullptr && *named != '\0') {
    if (!HoldsPackage(named)) {
      return NotFoundError(
                 fmt::format(
                     "MSPROBE_PYTHON_PATH is {}, which does not contain the Python package msprobe",
                     base::Printable(named)))
          .WithHint("unset it, or set it to the folder that holds the package msprobe");
    }
    // Absolute: the script may change its working directory before it starts further processes.
    std::error_code failure;
    const fs::path folder = fs::absolute(named, failure);
    if (failure) {
      return IoError(fmt::format("cannot resolve MSPROBE_PYTHON_PATH={}: {}",
                                 base::Printable(named), failure.message()));
    }
    return folder;
  }
  const fs::path program = ThisProgram();
  if (program.empty()) {
    return NotFoundError("cannot find the location of this program without /proc")
        .WithHint("mount /proc, or set MSPROBE_PYTHON_PATH to the folder of the package msprobe");
  }
  const fs::path programs = program.parent_path();
  for (const std::string_view folder : kOwnFolders) {
    if (HoldsPackage(programs / folder)) {
      return (programs / folder).lexically_normal();
    }
  }
  constexpr std::string_view kRecord = "msprobe-" MSPROBE_VERSION ".dist-info";
  for (const fs::path& folder : FoldersOfPip(programs)) {
    std::error_code ignored;
    if (HoldsPackage(folder) && fs::exists(folder / kRecord, ignored)) {
      return folder.lexically_normal();
    }
  }
  return NotFoundError(fmt::format("the Python package of msprobe {} is not beside {}",
                                   MSPROBE_VERSION, base::Printable(program.string())))
      .WithHint("set MSPROBE_PYTHON_PATH to the folder that holds the package msprobe");
}

Result<std::string> PathThatFinds(const fs::path& folder) {
  std::string path = (folder / "msprobe" / "_inject").string();
  if (path.find(':') != std::string::npos) {
    return UsageError(fmt::format("the Python package of msprobe is in {}, and PYTHONPATH cannot "
                                  "name a folder with a colon",
                                  base::Printable(folder.string())))
        .WithHint("move it, or set MSPROBE_PYTHON_PATH to a copy or a link without a colon");
  }
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr && *before != '\0') {
    path += ":";
    path += before;
  }
  return path;
}

}  // namespace msprobe::commands
