#include "src/commands/accuracy_flags.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/python_package.h"
#include "src/dump/layout.h"

namespace msprobe::commands {

Flag StandardVersionFlag(std::string& version) {
  return Choice("--standard-version", "NAME", &version, {"8.1.1", "26"},
                "Version of the Python tool whose rules and limits hold");
}

analysis::accuracy::StandardVersion StandardVersionOf(const std::string& version) {
  return version == "26" ? analysis::accuracy::StandardVersion::k26
                         : analysis::accuracy::StandardVersion::k811;
}

Flag StandardsFileFlag(std::filesystem::path& file) {
  return Path("--standards", "FILE", &file,
              "JSON with limits and operators that replace built-in ones", Default{"built in"});
}

Flag LanguageFlag(std::string& language) {
  return Choice("--lang", "NAME", &language, {"zh", "en"},
                "Language of column names and messages in the files", Group::kOutput);
}

std::vector<Flag> WorkerFlags(analysis::accuracy::CheckOptions& options) {
  return {
      Number("--device -d", "ID", &options.device_ids, "Numbers of the devices", kNotNegative,
             Arguments{1, kUnlimited}, kPython811),
      Choice("--device-type", "NAME", &options.device, {"auto", "npu", "cuda", "cpu"},
             "Kind of the devices; auto: the first of NPU, GPU and CPU that is there"),
      Path("--python", "FILE", &options.pythons,
           "Python with PyTorch, which runs the operators; of several the first that has it",
           Default{"python3, or else /usr/bin/python3"}),
      Path("--reference", "FILE", &options.reference_file,
           "Python file with references of custom operators"),
      Number("--time-limit", "SECONDS", &options.time_limit_s,
             "For one call; a slower one costs its row, and its worker is started again",
             Between(0.01, 1e6)),
  };
}

namespace {

// The dump.json of the one rank that a dump holds.
Result<std::filesystem::path> OnlyDumpOf(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(dump::DumpLayout layout, dump::FindDump(folder));
  std::erase_if(layout.ranks, [](const dump::RankFolder& rank) { return !rank.has_dump; });
  if (layout.ranks.size() == 1) {
    return layout.ranks.front().folder / dump::kDumpFileName;
  }
  if (layout.ranks.empty()) {
    return NotFoundError(
        fmt::format("{} holds no {}", base::Printable(folder.string()), dump::kDumpFileName));
  }
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names;
  for (const dump::RankFolder& rank : layout.ranks) {
    if (names.size() == kMostNamed) {
      names.push_back(fmt::format("and {} more", layout.ranks.size() - kMostNamed));
      break;
    }
    names.push_back(base::Printable(rank.folder.string()));
  }
  return UsageError(fmt::format("{} holds {}; the operators of one are run at a time",
                                base::Printable(folder.string()),
                                base::Plural(layout.ranks.size(), "dump")))
      .WithHint("name one of " + base::Join(names, ", "));
}

}  // namespace

Status PrepareChecks(const Context& context, analysis::accuracy::CheckOptions& options) {
  options.mindspore = context.framework == "mindspore";
  if (std::set<int64_t>(options.device_ids.begin(), options.device_ids.end()).size() !=
      options.device_ids.size()) {
    return UsageError("-d names a device twice");
  }
  std::error_code failure;
  if (base::IsFolder(options.dump)) {
    MSP_ASSIGN_OR_RETURN(options.dump, OnlyDumpOf(options.dump));
  }
  if (!options.dump.empty() && options.dump.extension() != ".json") {
    return UsageError(fmt::format("{} is no .json file", base::Printable(options.dump.string())))
        .WithHint("give the dump.json of a rank");
  }
  for (std::filesystem::path* path : {&options.reference_file, &options.error_data_folder}) {
    if (!path->empty() && !base::Exists(*path)) {
      return NotFoundError(fmt::format("there is no {}", base::Printable(path->string())));
    }
  }
  if (!options.reference_file.empty()) {
    options.reference_file = std::filesystem::absolute(options.reference_file, failure);
  }
  // Where no operator can be run nothing is lost without it.
  const Result<std::filesystem::path> folder = FindPythonFolder();
  if (folder.ok()) {
    options.worker_script = *folder / "msprobe" / "_accuracy" / "worker.py";
  } else {
    options.no_worker_script = folder.status().message();
  }
  return {};
}

}  // namespace msprobe::commands
