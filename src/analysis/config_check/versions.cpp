#include "src/analysis/config_check/versions.h"

#include <algorithm>
#include <array>

#include <sys/utsname.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check::internal {
namespace {

namespace fs = std::filesystem;

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
    if (!config.ok() || config->root.Find("cuda") == nullptr) {
      continue;
    }
    const json::ConfigValue* version = config->root.Find("cuda")->Find(kVersionKey);
    if (version != nullptr && version->kind == json::ConfigKind::kText) {
      return version->text;
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
