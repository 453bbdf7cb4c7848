#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/document.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/printed_config.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/json/config.h"
#include "src/json/document.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::resources {
extern const std::string_view kVerlRequirements;
}

namespace msprobe::analysis::config_check {
namespace {

namespace fs = std::filesystem;
using json::Json;

constexpr std::string_view kMissing = "NA";
constexpr uint64_t kRequirementsLimitBytes = uint64_t{1} << 20U;

struct PrintedSettings {
  std::string source;
  Json tree;    // as printed: compared, never shown
  Json masked;  // the same values
  size_t masked_count = 0;
};

PrintedSettings WithMasked(std::string source, Json tree) {
  PrintedSettings settings{std::move(source), std::move(tree), {}, 0};
  settings.masked = settings.tree;
  settings.masked_count = MaskParameters(settings.masked);
  return settings;
}

// A value as printed and masked; neither where there is none.
struct BothForms {
  const Json* printed = nullptr;
  const Json* masked = nullptr;
};

// Values by name; an empty dict is a value, and so is a list. Depth is limited where the tree is
// read.
Status Flatten(const BothForms& value, const std::string& name, internal::NameBudget& names,
               std::map<std::string, BothForms>& settings) {
  MSP_RETURN_IF_ERROR(names.Take(name));
  if (!value.printed->is_object() || (value.printed->empty() && !name.empty())) {
    settings[name] = value;
    return {};
  }
  auto masked = value.masked->begin();
  for (const auto& [key, member] : value.printed->items()) {
    MSP_RETURN_IF_ERROR(Flatten({&member, &*masked},
                                name.empty() ? key : fmt::format("{}/{}", name, key), names,
                                settings));
    ++masked;
  }
  return {};
}

bool IsLeftOut(std::string_view name, bool slime) {
  if (slime) {
    return name.find("profile") != std::string_view::npos;
  }
  return name.find("ray_") != std::string_view::npos ||
         name.find("profiler/") != std::string_view::npos;
}

std::string Repr(const Json& value) {
  std::string text;
  json::AppendPythonRepr(value, text);
  return text;
}

LogSetting Compare(const std::string& name, const std::array<BothForms, 2>& values) {
  LogSetting setting;
  setting.name = name;
  for (size_t side = 0; side < 2; ++side) {
    setting.present[side] = values[side].printed != nullptr;
    setting.values[side] = setting.present[side] ? Repr(*values[side].masked) : kMissing;
  }
  if (!setting.present[0] || !setting.present[1]) {
    return setting;
  }
  // Reports that two secrets differ without showing them; an already masked one compares as equal.
  const auto holds_mask = [](const BothForms& value) {
    return Repr(*value.printed).find(base::kMaskedText) != std::string::npos;
  };
  setting.equal = PythonEqual(*values[0].printed, *values[1].printed) ||
                  (PythonEqual(*values[0].masked, *values[1].masked) &&
                   (holds_mask(values[0]) || holds_mask(values[1])));
  return setting;
}

Result<std::vector<LogSetting>> Settings(std::span<const PrintedSettings> sides, bool only_first,
                                         bool slime = false) {
  std::map<std::string, std::array<BothForms, 2>> all;
  for (size_t side = 0; side < 2; ++side) {
    internal::NameBudget names;
    std::map<std::string, BothForms> flat;
    MSP_RETURN_IF_ERROR(Flatten({&sides[side].tree, &sides[side].masked}, {}, names, flat),
                        sides[side].source);
    for (const auto& [name, value] : flat) {
      if (side == 0 || !only_first || all.contains(name)) {
        all[name][side] = value;
      }
    }
  }
  std::vector<LogSetting> settings;
  for (const auto& [name, values] : all) {
    if (only_first || !IsLeftOut(name, slime)) {
      settings.push_back(Compare(name, values));
    }
  }
  return settings;
}

bool HasSuffix(const fs::path& path, std::initializer_list<std::string_view> suffixes) {
  const std::string suffix = base::AsciiLower(path.extension().string());
  return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
}

Status CheckLogName(const fs::path& path) {
  if (HasSuffix(path, {".log", ".txt"})) {
    return {};
  }
  return UsageError(
      fmt::format("{} is not a log: its name must end in .log or .txt", path.string()));
}

Result<PrintedSettings> ReadLog(const fs::path& path, std::vector<std::string>& warnings,
                                bool slime = false) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes log, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(PrintedConfig config, slime ? FindSlimeArguments(log.text(), path.string())
                                                   : FindPrintedConfig(log.text(), path.string()));
  warnings.insert(warnings.end(), config.warnings.begin(), config.warnings.end());
  return WithMasked(fmt::format("{} line {}", path.filename().string(), config.line),
                    std::move(config.tree));
}

Result<PrintedSettings> ReadRequirements(const fs::path& path) {
  std::string text(resources::kVerlRequirements);
  std::string source = "built-in requirements";
  if (!path.empty()) {
    MSP_ASSIGN_OR_RETURN(text, base::ReadTextFile(path, kRequirementsLimitBytes));
    source = path.filename().string();
  }
  MSP_ASSIGN_OR_RETURN(Json settings, json::ParseYamlData(text, path.string()));
  if (!settings.is_object() || settings.empty()) {
    return BadFormatError(fmt::format("{} holds no settings", path.string()))
        .WithHint("a mapping like \"trainer: {balance_batch: false}\"");
  }
  return WithMasked(std::move(source), std::move(settings));
}

Status CheckFolder(const LogSettingsOptions& options, std::span<const fs::path> files) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output_folder));
  MSP_RETURN_IF_ERROR(base::CheckOutputFiles(files));
  return base::CreateFolders(options.output_folder);
}

std::string JsonOf(const PrintedSettings& side, int indent = -1) {
  return json::DocumentText(side.masked, indent, json::Writer::NonFinite::kPython);
}

// Headings and words are the Python tool's: "name of the hyperparameter", "value in effect", "is
// the same", yes and no.
Status WriteTable(const fs::path& file, std::vector<std::string> columns,
                  const std::vector<LogSetting>& settings) {
  report::Table table("settings", std::move(columns));
  for (const LogSetting& setting : settings) {
    table.AddRow({report::Cell::Text(setting.name), report::Cell::Text(setting.values[0]),
                  report::Cell::Text(setting.values[1]),
                  report::Cell::Text(setting.equal ? "是" : "否")});
  }
  return report::WriteCsv(file, table);
}

Result<LogSettingsRun> CompareLogs(const LogSettingsOptions& options) {
  MSP_RETURN_IF_ERROR(CheckLogName(options.first));
  MSP_RETURN_IF_ERROR(CheckLogName(options.second));
  const int indent = options.slime ? 2 : -1;
  LogSettingsRun run;
  run.files = {options.output_folder / "hyper_params_compare.csv",
               options.output_folder / "NPU_config.json",
               options.output_folder / "bench_config.json"};
  std::array<PrintedSettings, 2> sides;
  MSP_ASSIGN_OR_RETURN(sides[0], ReadLog(options.first, run.warnings, options.slime));
  MSP_ASSIGN_OR_RETURN(sides[1], ReadLog(options.second, run.warnings, options.slime));
  run.sources = {sides[0].source, sides[1].source};
  run.masked = sides[0].masked_count + sides[1].masked_count;
  MSP_ASSIGN_OR_RETURN(run.settings, Settings(sides, false, options.slime));
  MSP_RETURN_IF_ERROR(CheckFolder(options, run.files));
  MSP_RETURN_IF_ERROR(
      WriteTable(run.files[0], {"超参名称", "NPU生效值", "bench生效值", "是否一致"}, run.settings));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(run.files[1], JsonOf(sides[0], indent)));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(run.files[2], JsonOf(sides[1], indent)));
  return run;
}

Result<LogSettingsRun> VerifyLog(const LogSettingsOptions& options) {
  if (!options.first.empty() && !HasSuffix(options.first, {".yaml", ".yml"})) {
    return UsageError(fmt::format("{} is not a YAML file of requirements", options.first.string()))
        .WithHint("-vv [REQUIREMENTS.yaml] LOG, in this order");
  }
  MSP_RETURN_IF_ERROR(CheckLogName(options.second));
  LogSettingsRun run;
  run.verified = true;
  run.files = {options.output_folder / "hyper_params_verify.csv",
               options.output_folder / "tgt_config.json"};
  std::array<PrintedSettings, 2> sides;
  MSP_ASSIGN_OR_RETURN(sides[0], ReadRequirements(options.first));
  MSP_ASSIGN_OR_RETURN(sides[1], ReadLog(options.second, run.warnings));
  run.sources = {sides[0].source, sides[1].source};
  run.masked = sides[0].masked_count + sides[1].masked_count;
  MSP_ASSIGN_OR_RETURN(run.settings, Settings(sides, true));
  MSP_RETURN_IF_ERROR(CheckFolder(options, run.files));
  MSP_RETURN_IF_ERROR(WriteTable(
      run.files[0], {"关键参数名称", "bench生效值", "target生效值", "是否一致"}, run.settings));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(run.files[1], JsonOf(sides[1])));
  return run;
}

}  // namespace

Result<LogSettingsRun> Run(const LogSettingsOptions& options) {
  return options.verify ? VerifyLog(options) : CompareLogs(options);
}

}  // namespace msprobe::analysis::config_check
