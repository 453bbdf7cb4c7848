// Rows that the commands of the accuracy check have in common.
#pragma once

#include <filesystem>
#include <string>

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

}  // namespace msprobe::commands
