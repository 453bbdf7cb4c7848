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
#include "src/json/value_tree.h"
#include "src/json/writer.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::resources {
extern const std::string_view kVerlRequirements;
}

namespace msprobe::analysis::config_check {
namespace {

namespace fs = std::filesystem;
using json::ValueKind;
using json::ValueTree;

constexpr std::string_view kMissing = "NA";
constexpr uint64_t kRequirementsLimitBytes = uint64_t{1} << 20U;

struct PrintedSettings {
  std::string source;
  ValueTree tree;    // as printed: compared, never shown
  ValueTree masked;  // the same nodes
  size_t masked_count = 0;
};

PrintedSettings WithMasked(std::string source, ValueTree tree) {
  MaskedTree masked = MaskParameters(tree);
  return {std::move(source), std::move(tree), std::move(masked.tree), masked.count};
}

// Node by name; an empty dict is a value, and so is a list. Depth is limited where the tree is
// read.
Status Flatten(const ValueTree& tree, uint32_t node, const std::string& name,
               internal::NameBudget& names, std::map<std::string, uint32_t>& settings) {
  MSP_RETURN_IF_ERROR(names.Take(name));
  if (tree[node].kind != ValueKind::kObject || (tree[node].child_count == 0 && !name.empty())) {
    settings[name] = node;
    return {};
  }
  for (const Members::Member& member : Members(tree, node)) {
    MSP_RETURN_IF_ERROR(
        Flatten(tree, member.node,
                name.empty() ? std::string(member.key) : fmt::format("{}/{}", name, member.key),
                names, settings));
  }
  return {};
}

bool IsLeftOut(std::string_view name) {
  return name.find("ray_") != std::string_view::npos ||
         name.find("profiler/") != std::string_view::npos;
}

LogSetting Compare(const std::string& name, std::span<const PrintedSettings> sides,
                   std::array<std::optional<uint32_t>, 2> nodes) {
  LogSetting setting;
  setting.name = name;
  for (size_t side = 0; side < 2; ++side) {
    setting.present[side] = nodes[side].has_value();
    if (nodes[side]) {
      json::AppendPythonRepr(sides[side].masked, *nodes[side], setting.values[side]);
    } else {
      setting.values[side] = kMissing;
    }
  }
  // Reports that two secrets differ without showing them; an already masked one compares as equal.
  const auto equal = [&](const ValueTree& first, const ValueTree& second) {
    return nodes[0] && nodes[1] && PythonEqual(first, *nodes[0], second, *nodes[1]);
  };
  const auto holds_mask = [&](size_t side) {
    std::string text;
    json::AppendPythonRepr(sides[side].tree, *nodes[side], text);
    return text.find(base::kMaskedText) != std::string::npos;
  };
  setting.equal = equal(sides[0].tree, sides[1].tree) ||
                  (equal(sides[0].masked, sides[1].masked) && (holds_mask(0) || holds_mask(1)));
  return setting;
}

Result<std::vector<LogSetting>> Settings(std::span<const PrintedSettings> sides, bool only_first) {
  std::array<std::map<std::string, uint32_t>, 2> flat;
  std::map<std::string, std::array<std::optional<uint32_t>, 2>> all;
  for (size_t side = 0; side < 2; ++side) {
    internal::NameBudget names;
    MSP_RETURN_IF_ERROR(Flatten(sides[side].tree, 0, {}, names, flat[side]), sides[side].source);
    for (const auto& [name, node] : flat[side]) {
      if (side == 0 || !only_first || all.contains(name)) {
        all[name][side] = node;
      }
    }
  }
  std::vector<LogSetting> settings;
  for (const auto& [name, nodes] : all) {
    if (only_first || !IsLeftOut(name)) {
      settings.push_back(Compare(name, sides, nodes));
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

Result<PrintedSettings> ReadLog(const fs::path& path, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes log, base::FileBytes::Open(path));
  MSP_ASSIGN_OR_RETURN(PrintedConfig config, FindPrintedConfig(log.text(), path.string()));
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
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::ParseYamlData(text, path.string()));
  if (config.root.kind != json::ConfigKind::kObject || config.root.members.empty()) {
    return BadFormatError(fmt::format("{} holds no settings", path.string()))
        .WithHint("a mapping like \"trainer: {balance_batch: false}\"");
  }
  std::string as_json;
  json::Writer writer(as_json, -1);
  internal::WriteParameter(config.root, writer);
  MSP_ASSIGN_OR_RETURN(ValueTree tree, json::ParseValueTree(as_json), path.string());
  return WithMasked(std::move(source), std::move(tree));
}

Status CheckFolder(const LogSettingsOptions& options, std::span<const fs::path> files) {
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options.output_folder));
  MSP_RETURN_IF_ERROR(base::CheckOutputFiles(files));
  return base::CreateFolders(options.output_folder);
}

std::string JsonOf(const PrintedSettings& side) {
  std::string text;
  json::Writer writer(text, -1);
  json::WriteTree(side.masked, 0, writer);
  return text;
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
  LogSettingsRun run;
  run.files = {options.output_folder / "hyper_params_compare.csv",
               options.output_folder / "NPU_config.json",
               options.output_folder / "bench_config.json"};
  std::array<PrintedSettings, 2> sides;
  MSP_ASSIGN_OR_RETURN(sides[0], ReadLog(options.first, run.warnings));
  MSP_ASSIGN_OR_RETURN(sides[1], ReadLog(options.second, run.warnings));
  run.sources = {sides[0].source, sides[1].source};
  run.masked = sides[0].masked_count + sides[1].masked_count;
  MSP_ASSIGN_OR_RETURN(run.settings, Settings(sides, false));
  MSP_RETURN_IF_ERROR(CheckFolder(options, run.files));
  MSP_RETURN_IF_ERROR(
      WriteTable(run.files[0], {"超参名称", "NPU生效值", "bench生效值", "是否一致"}, run.settings));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(run.files[1], JsonOf(sides[0])));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(run.files[2], JsonOf(sides[1])));
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
