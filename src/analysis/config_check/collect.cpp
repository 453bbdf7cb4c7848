#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/environment.h"
#include "src/analysis/config_check/hyperparameters.h"
#include "src/analysis/config_check/interpreter.h"
#include "src/analysis/config_check/pack_writer.h"
#include "src/analysis/config_check/packages.h"
#include "src/analysis/config_check/run.h"
#include "src/analysis/config_check/versions.h"
#include "src/base/secrets.h"
#include "src/json/writer.h"

namespace msprobe::analysis::config_check {
namespace {

namespace fs = std::filesystem;

constexpr double kInterpreterSeconds = 10;

// How versions are called on the screen.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTitles = {{
    {"cann", "CANN"},
    {"ascend_driver", "Ascend driver"},
    {"ascend_firmware", "Ascend firmware"},
    {"nvidia_driver", "NVIDIA driver"},
    {"cuda", "CUDA"},
}};

std::string Sentence(const Status& status) {
  return status.hint().empty() ? status.message()
                               : fmt::format("{} ({})", status.message(), status.hint());
}

struct PythonPart {
  internal::Interpreter interpreter;
  std::vector<internal::Package> packages;
  std::vector<std::string> warnings;
};

Result<PythonPart> ReadPython(const std::string& wanted, const internal::Environment& environment) {
  PythonPart part;
  MSP_ASSIGN_OR_RETURN(const fs::path program, internal::FindInterpreter(wanted, environment));
  MSP_ASSIGN_OR_RETURN(part.interpreter, internal::AskInterpreter(program, kInterpreterSeconds));
  part.packages = internal::FindPackages(part.interpreter.search_path, part.warnings);
  return part;
}

void ReadInputs(const CollectOptions& options, internal::HyperparameterReader& reader,
                CollectSummary& summary) {
  reader.Announce(options.inputs);
  for (const fs::path& path : options.inputs) {
    CollectedInput& input = summary.inputs.emplace_back();
    input.path = path;
    const Result<size_t> count = reader.Add(path);
    if (count.ok()) {
      input.parameters = *count;
      if (*count == 0 && !reader.IsPartOfAnother(path)) {
        summary.warnings.push_back(fmt::format("{}: no hyperparameters in it", path.string()));
      }
      continue;
    }
    input.problem = count.status().message();
    summary.warnings.push_back(Sentence(count.status()));
    summary.complete = false;
  }
  // They quote the scripts.
  for (const std::string& warning : reader.warnings()) {
    summary.warnings.push_back(base::MaskText(warning).text);
  }
  summary.parameters = reader.merged().size();
}

// Empty when there is nothing to write.
std::string ReadDynamic(const fs::path& path, CollectSummary& summary) {
  if (path.empty()) {
    return {};
  }
  Result<std::string> text = internal::ReadDynamicParameters(path, &summary.masked_parameters);
  if (!text.ok()) {
    summary.warnings.push_back(Sentence(text.status()));
    summary.complete = false;
    return {};
  }
  return *std::move(text);
}

std::string OriginsJson(const std::vector<internal::ScriptVariable>& variables) {
  std::string text;
  json::Writer writer(text, 4);
  writer.BeginObject();
  for (const internal::ScriptVariable& variable : variables) {
    writer.Member(variable.name, variable.origin);
  }
  writer.EndObject();
  return text;
}

}  // namespace

Result<CollectSummary> Run(const CollectOptions& options) {
  MSP_RETURN_IF_ERROR(internal::CheckPackPath(options.output));
  CollectSummary summary;
  std::error_code failed;
  summary.output = fs::absolute(options.output, failed).lexically_normal();
  if (failed) {
    return IoError(
        fmt::format("cannot tell where {} is: {}", options.output.string(), failed.message()));
  }

  const internal::Environment environment =
      options.inputs_only ? internal::Environment() : internal::ThisEnvironment();
  internal::Versions versions =
      options.inputs_only ? internal::Versions() : internal::FindVersions(environment);
  for (const auto& [name, version] : versions) {
    for (const auto& [key, title] : kTitles) {
      if (name == key) {
        summary.versions.push_back(fmt::format("{} {}", title, version));
      }
    }
  }
  const Result<PythonPart> python = options.inputs_only
                                        ? Result<PythonPart>(NotFoundError("not asked for"))
                                        : ReadPython(options.python, environment);
  if (python.ok()) {
    summary.interpreter = python->interpreter.path.string();
    summary.packages = python->packages.size();
    summary.warnings.insert(summary.warnings.end(), python->warnings.begin(),
                            python->warnings.end());
    versions.emplace_back("python", python->interpreter.version);
    versions.emplace_back("python_path", summary.interpreter);
  } else if (!options.inputs_only) {
    summary.warnings.push_back(Sentence(python.status()));
    summary.complete = options.python.empty();
  }
  internal::HyperparameterReader reader(options.compat);
  ReadInputs(options, reader, summary);
  const std::string dynamic = ReadDynamic(options.dynamic, summary);
  const internal::EnvironmentJson environment_json =
      internal::WriteEnvironment(environment, reader.environment());
  summary.variables = environment.size();
  summary.script_variables = reader.environment().size();
  summary.masked = environment_json.masked;

  MSP_ASSIGN_OR_RETURN(internal::PackWriter pack, internal::PackWriter::Create(options.output));
  MSP_RETURN_IF_ERROR(pack.Add(internal::kEnvironmentMember, environment_json.text));
  if (python.ok()) {
    MSP_RETURN_IF_ERROR(
        pack.Add(internal::kPackagesMember, internal::WritePackages(python->packages)));
  }
  if (!options.inputs_only) {
    MSP_RETURN_IF_ERROR(pack.Add(internal::kVersionsMember, internal::WriteVersions(versions)));
  }
  if (!reader.environment().empty()) {
    MSP_RETURN_IF_ERROR(
        pack.Add(internal::kScriptVariablesMember, OriginsJson(reader.environment())));
  }
  // Also an empty one: that somebody has looked, and found none.
  const bool looked =
      std::any_of(summary.inputs.begin(), summary.inputs.end(),
                  [](const CollectedInput& input) { return input.problem.empty(); });
  if (summary.parameters > 0 || (looked && !options.compat)) {
    MSP_RETURN_IF_ERROR(pack.Add(internal::kStaticMember, reader.Json(&summary.masked_parameters)));
  }
  if (!dynamic.empty()) {
    MSP_RETURN_IF_ERROR(pack.Add(internal::kDynamicMember, dynamic));
  }
  MSP_RETURN_IF_ERROR(pack.Finish());
  return summary;
}

}  // namespace msprobe::analysis::config_check
