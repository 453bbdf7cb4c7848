// Inside of the room: the Python distributions that lie in some folders, told by their metadata.
// Nothing is imported.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::analysis::config_check::internal {

struct Package {
  std::string name;  // as its metadata spells it
  std::string version;
};

// "torch-npu" for "Torch_NPU", "torch.npu" and "torch-npu", which are one distribution.
std::string NormalName(std::string_view name);

// Of a distribution that lies in several folders the first counts: that is the one Python imports.
// Sorted by name, case aside. Folders that do not exist hold nothing.
std::vector<Package> FindPackages(std::span<const std::filesystem::path> search_path,
                                  std::vector<std::string>& warnings);

// "NAME=VERSION" per line, the pack's member "pip".
std::string WritePackages(std::span<const Package> packages);

// Name and version from the headers of METADATA or PKG-INFO; empty where they say nothing.
Package ParseMetadata(std::string_view text);

}  // namespace msprobe::analysis::config_check::internal
