// What a report of an error should hold, in one zip: what works here, versions, variables, the
// command that fails with all that it says, and logs of captures. No values of tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/base/processes.h"

namespace msprobe::commands {

struct BundleMember {
  std::string name;  // in the zip
  std::string text;
};

// The text with every secret replaced, and how many were.
size_t MaskMember(BundleMember& member);

// Runs this program with `arguments`.
Result<base::ChildEnd> RunThisProgram(const std::vector<std::string>& arguments);
// The same as a member: output and exit code. `masked` grows by the secrets in the command line.
Result<BundleMember> RunAgain(const std::vector<std::string>& arguments, size_t& masked);

// The logs and manifests of a dump or monitor folder and of what is below it, by their known names
// alone. At most 1 MiB of each and 16 MiB in all; what is left out is named in the last member.
Result<std::vector<BundleMember>> CollectLogs(const std::vector<std::filesystem::path>& folders);

Status WriteBundle(const std::filesystem::path& path, const std::vector<BundleMember>& members);

}  // namespace msprobe::commands
