// Finds the Python distributions in some folders by their metadata.
// Nothing is imported.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/analysis/config_check/collect.h"

namespace msprobe::analysis::config_check::internal {

struct Package {
  std::string name;  // as its metadata spells it
  std::string version;
};

// "torch-npu" for "Torch_NPU", "torch.npu" and "torch-npu", which are one distribution.
std::string NormalName(std::string_view name);

// If a distribution is in several folders, the first one counts: Python imports that one. Sorted by
// name, ignoring case. Folders that do not exist hold nothing.
std::vector<Package> FindPackages(std::span<const std::filesystem::path> search_path,
                                  std::vector<std::string>& warnings);

// "NAME=VERSION" per line, the pack's member "pip".
std::string WritePackages(std::span<const Package> packages);

// Name and version from the headers of METADATA or PKG-INFO; empty where they say nothing.
Package ParseMetadata(std::string_view text);

// Versions that no Python package tells: CANN, drivers, CUDA.

// What the pack calls it, and the version. Only what was found.
using Versions = std::vector<std::pair<std::string, std::string>>;

// "cann", "ascend_driver", "ascend_firmware", "nvidia_driver", "cuda", "architecture". `root` is
// put in front of the fixed places ("/usr/local/Ascend/driver/version.info"), not of those that
// the environment names.
Versions FindVersions(const Environment& environment, const std::filesystem::path& root = "/");

// The value of the first key that the text has, in lines "key=value", case aside. Of
// "[7.1:CANN-8.0]" what follows the last colon.
std::string ParseVersion(std::string_view text, std::string_view key);

// JSON object, the pack's member "versions", which the Python tool passes over.
std::string WriteVersions(const Versions& versions);

}  // namespace msprobe::analysis::config_check::internal
