// Rows that the commands of the accuracy check have in common.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/commands/command.h"

namespace msprobe::commands {

// --standard-version 8.1.1|26
Flag StandardVersionFlag(std::string& version);
analysis::accuracy::StandardVersion StandardVersionOf(const std::string& version);
// --standards FILE
Flag StandardsFileFlag(std::filesystem::path& file);
// --lang zh|en
Flag LanguageFlag(std::string& language);

// The process that runs operators: --device, --device-type, --python, --reference, --time-limit.
std::vector<Flag> WorkerFlags(analysis::accuracy::CheckOptions& options);
// Finds the worker's script and the dump, and checks what WorkerFlags() took.
Status PrepareChecks(const Context& context, analysis::accuracy::CheckOptions& options);

}  // namespace msprobe::commands
