#include "src/commands/accuracy_flags.h"

namespace msprobe::commands {

Flag StandardVersionFlag(std::string& version) {
  return {.name = "--standard-version",
          .type = "NAME",
          .fills = &version,
          .values = {"8.1.1", "26"},
          .help = "Version of the Python tool whose rules and limits hold"};
}

analysis::accuracy::StandardVersion StandardVersionOf(const std::string& version) {
  return version == "26" ? analysis::accuracy::StandardVersion::k26
                         : analysis::accuracy::StandardVersion::k811;
}

Flag StandardsFileFlag(std::filesystem::path& file) {
  return {.name = "--standards",
          .type = "FILE",
          .fills = &file,
          .help = "JSON with limits and operators that replace built-in ones",
          .default_text = "built in"};
}

Flag LanguageFlag(std::string& language) {
  return {.name = "--lang",
          .type = "NAME",
          .fills = &language,
          .values = {"zh", "en"},
          .group = Group::kOutput,
          .help = "Language of column names and messages in the files"};
}

}  // namespace msprobe::commands
