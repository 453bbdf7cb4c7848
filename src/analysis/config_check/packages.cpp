#include "src/analysis/config_check/packages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMetadataLimitBytes = uint64_t{8} << 20U;  // descriptions can be long

// A name or version that would break the lines of the pack is none.
std::string OneLine(std::string_view text) {
  const std::string_view trimmed = base::Trim(text);
  return trimmed.find_first_of("\r\n") == std::string_view::npos ? std::string(trimmed)
                                                                 : std::string();
}

// "numpy-1.24.2.dist-info"
Package ParseFolderName(std::string_view name) {
  name = name.substr(0, name.rfind('.'));
  const size_t dash = name.find('-');
  if (dash == std::string_view::npos) {
    return {std::string(name), {}};
  }
  // Eggs go on with "-py3.10".
  std::string_view version = name.substr(dash + 1);
  version = version.substr(0, version.find("-py"));
  return {OneLine(name.substr(0, dash)), OneLine(version)};
}

// Tells what is there and cannot be read.
void Warn(const Status& status, std::vector<std::string>& warnings) {
  if (!status.ok() && status.code() != StatusCode::kNotFound) {
    warnings.push_back(status.message() + "; the list of packages is made without it");
  }
}

std::optional<Package> ReadPackage(const fs::path& folder, const std::string& name,
                                   std::vector<std::string>& warnings) {
  const bool wheel = name.ends_with(".dist-info");
  const bool info = name.ends_with(".egg-info");
  const bool egg = name.ends_with(".egg");
  if (!wheel && !info && !egg) {
    return std::nullopt;
  }
  const fs::path entry = folder / name;
  std::error_code error;
  const bool is_folder = fs::is_directory(entry, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    Warn(IoError(fmt::format("cannot look at {}: {}", entry.string(), error.message())), warnings);
  }
  if (!is_folder && !info) {
    return std::nullopt;
  }
  const fs::path metadata = wheel       ? entry / "METADATA"
                            : egg       ? entry / "EGG-INFO" / "PKG-INFO"
                            : is_folder ? entry / "PKG-INFO"
                                        : entry;
  const Result<std::string> text = base::ReadTextFile(metadata, kMetadataLimitBytes);
  Warn(text.status(), warnings);
  Package package = text.ok() ? ParseMetadata(*text) : Package();
  const Package named = ParseFolderName(name);
  if (package.name.empty()) {
    package.name = named.name;
  }
  if (package.version.empty()) {
    package.version = named.version;
  }
  return package.name.empty() ? std::nullopt : std::optional(std::move(package));
}

}  // namespace

std::string NormalName(std::string_view name) {
  std::string result;
  for (const char c : base::AsciiLower(name)) {
    const bool separator = c == '-' || c == '_' || c == '.';
    if (!separator) {
      result += c;
    } else if (!result.ends_with('-')) {
      result += '-';
    }
  }
  return result;
}

Package ParseMetadata(std::string_view text) {
  Package package;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (base::Trim(line).empty()) {
      break;  // the description follows
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line[0] == ' ' || line[0] == '\t') {
      continue;
    }
    const std::string header = base::AsciiLower(line.substr(0, colon));
    if (header == "name" && package.name.empty()) {
      package.name = OneLine(line.substr(colon + 1));
    } else if (header == "version" && package.version.empty()) {
      package.version = OneLine(line.substr(colon + 1));
    }
  }
  return package;
}

std::vector<Package> FindPackages(std::span<const fs::path> search_path,
                                  std::vector<std::string>& warnings) {
  std::vector<std::pair<std::string, Package>> found;  // by normalized name
  std::unordered_set<std::string> names;
  std::unordered_set<std::string> folders;
  for (const fs::path& folder : search_path) {
    std::error_code error;
    const bool is_folder = fs::is_directory(folder, error);
    if (error && error != std::errc::no_such_file_or_directory && !folder.empty()) {
      Warn(IoError(fmt::format("cannot look at {}: {}", folder.string(), error.message())),
           warnings);
    }
    if (folder.empty() || !is_folder || !folders.insert(folder.string()).second) {
      continue;
    }
    const Result<std::vector<std::string>> entries = base::ListFolder(folder);
    Warn(entries.status(), warnings);
    if (!entries.ok()) {
      continue;
    }
    for (const std::string& name : *entries) {
      std::optional<Package> package = ReadPackage(folder, name, warnings);
      if (!package) {
        continue;
      }
      std::string normal_name = NormalName(package->name);
      if (names.insert(normal_name).second) {
        found.emplace_back(std::move(normal_name), *std::move(package));
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<Package> packages;
  packages.reserve(found.size());
  for (auto& [name, package] : found) {
    packages.push_back(std::move(package));
  }
  return packages;
}

std::string WritePackages(std::span<const Package> packages) {
  std::string text;
  for (const Package& package : packages) {
    text += package.name;
    text += '=';
    text += package.version;
    text += '\n';
  }
  return text;
}

namespace {

constexpr uint64_t kFileLimitBytes = uint64_t{1} << 20U;
constexpr std::string_view kVersionKey = "version";

struct VersionFile {
  std::string_view path;  // under the folder of CANN
  std::string_view key;
};
// The whole toolkit's own word first, then those of its parts.
constexpr std::array<VersionFile, 7> kCannFiles = {{
    {"ascend_toolkit_install.info", kVersionKey},
    {"aarch64-linux/ascend_toolkit_install.info", kVersionKey},
    {"x86_64-linux/ascend_toolkit_install.info", kVersionKey},
    {"version.cfg", "toolkit_running_version"},
    {"version.cfg", "runtime_running_version"},
    {"compiler/version.info", kVersionKey},
    {"runtime/version.info", kVersionKey},
}};
constexpr std::array<const char*, 3> kCannVariables = {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME",
                                                       "ASCEND_AICPU_PATH"};
constexpr std::array<const char*, 3> kCannFolders = {
    "usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann", "usr/local/Ascend/latest"};
constexpr std::array<const char*, 2> kCudaVariables = {"CUDA_HOME", "CUDA_PATH"};

std::string ReadVersion(const fs::path& file, std::string_view key) {
  const Result<std::string> text = base::ReadTextFile(file, kFileLimitBytes);
  return text.ok() ? ParseVersion(*text, key) : std::string();
}

template <size_t kVariables>
std::vector<fs::path> Folders(const Environment& environment,
                              const std::array<const char*, kVariables>& variables) {
  std::vector<fs::path> folders;
  for (const char* variable : variables) {
    if (std::string folder = ValueOf(environment, variable); !folder.empty()) {
      folders.emplace_back(std::move(folder));
    }
  }
  return folders;
}

std::string CannVersion(const Environment& environment, const fs::path& root) {
  std::vector<fs::path> folders = Folders(environment, kCannVariables);
  for (const char* folder : kCannFolders) {
    folders.push_back(root / folder);
  }
  for (const fs::path& folder : folders) {
    for (const VersionFile& file : kCannFiles) {
      if (std::string version = ReadVersion(folder / file.path, file.key); !version.empty()) {
        return version;
      }
    }
  }
  return {};
}

// The first line. The kernel does not tell the true size of its files.
std::string KernelLine(const fs::path& path) {
  const std::string head = base::HeadOf(path, 1024);
  return head.substr(0, head.find('\n'));
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ..."
std::string NvidiaDriverVersion(const fs::path& root) {
  const std::string first = KernelLine(root / "proc/driver/nvidia/version");
  for (const std::string_view word : base::Split(first, ' ')) {
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return std::string(word);
    }
  }
  return std::string(base::Trim(KernelLine(root / "sys/module/nvidia/version")));
}

std::string CudaVersion(const Environment& environment, const fs::path& root) {
  std::vector<fs::path> folders = Folders(environment, kCudaVariables);
  folders.push_back(root / "usr/local/cuda");
  for (const fs::path& folder : folders) {
    const Result<json::Config> config = json::LoadJsonConfig(folder / "version.json");
    if (config.ok()) {
      const json::Json& version = json::Member(json::Member(config->root(), "cuda"), kVersionKey);
      if (version.is_string()) {
        return json::TextOf(version);
      }
    }
  }
  return {};
}

}  // namespace

std::string ParseVersion(std::string_view text, std::string_view key) {
  for (const std::string_view line : base::Split(text, '\n')) {
    const size_t sign = line.find('=');
    const std::string_view name = base::Trim(line.substr(0, sign));
    const bool same = sign != std::string_view::npos && base::EqualsIgnoringCase(name, key);
    if (!same) {
      continue;
    }
    std::string_view value = base::Trim(line.substr(sign + 1));
    if (value.starts_with('[') && value.ends_with(']')) {
      value = value.substr(1, value.size() - 2);
      value.remove_prefix(value.rfind(':') + 1);
    }
    return std::string(value);
  }
  return {};
}

Versions FindVersions(const Environment& environment, const fs::path& root) {
  Versions versions;
  const auto add = [&versions](const char* name, std::string version) {
    if (!version.empty()) {
      versions.emplace_back(name, std::move(version));
    }
  };
  add("cann", CannVersion(environment, root));
  add("ascend_driver", ReadVersion(root / "usr/local/Ascend/driver/version.info", kVersionKey));
  add("ascend_firmware", ReadVersion(root / "usr/local/Ascend/firmware/version.info", kVersionKey));
  add("nvidia_driver", NvidiaDriverVersion(root));
  add("cuda", CudaVersion(environment, root));
  struct utsname machine {};
  add("architecture", ::uname(&machine) == 0 ? machine.machine : "");
  return versions;
}

std::string WriteVersions(const Versions& versions) {
  std::string text;
  json::Writer writer(text, 4);
  writer.BeginObject();
  for (const auto& [name, version] : versions) {
    writer.Member(name, version);
  }
  writer.EndObject();
  return text;
}

}  // namespace msprobe::analysis::config_check::internal
