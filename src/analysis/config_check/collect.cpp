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
  for (const fs::path& path : options.inputs) {
    CollectedInput& input = summary.inputs.emplace_back();
    input.path = path;
    const Result<size_t> count = reader.Add(path);
    if (count.ok()) {
      input.parameters = *count;
      if (*count == 0) {
        summary.warnings.push_back(fmt::format("{}: no hyperparameters in it", path.string()));
      }
      continue;
    }
    input.problem = count.status().message();
    summary.warnings.push_back(Sentence(count.status()));
    summary.complete = false;
  }
  summary.warnings.insert(summary.warnings.end(), reader.warnings().begin(),
                          reader.warnings().end());
  summary.parameters = reader.merged().size();
}

// Empty when there is nothing to write.
std::string ReadDynamic(const fs::path& path, CollectSummary& summary) {
  if (path.empty()) {
    return {};
  }
  Result<std::string> text = internal::ReadDynamicParameters(path);
  if (!text.ok()) {
    summary.warnings.push_back(Sentence(text.status()));
    summary.complete = false;
    return {};
  }
  return *std::move(text);
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

  const internal::Environment environment = internal::ThisEnvironment();
  internal::Versions versions = internal::FindVersions(environment);
  for (const auto& [name, version] : versions) {
    for (const auto& [key, title] : kTitles) {
      if (name == key) {
        summary.versions.push_back(fmt::format("{} {}", title, version));
      }
    }
  }
  const internal::EnvironmentJson environment_json = internal::WriteEnvironment(environment);
  summary.variables = environment.size();
  summary.masked = environment_json.masked;

  const Result<PythonPart> python = ReadPython(options.python, environment);
  if (python.ok()) {
    summary.interpreter = python->interpreter.path.string();
    summary.packages = python->packages.size();
    summary.warnings.insert(summary.warnings.end(), python->warnings.begin(),
                            python->warnings.end());
    versions.emplace_back("python", python->interpreter.version);
    versions.emplace_back("python_path", summary.interpreter);
  } else {
    summary.warnings.push_back(Sentence(python.status()));
    summary.complete = options.python.empty();
  }
  internal::HyperparameterReader reader(options.compat);
  ReadInputs(options, reader, summary);
  const std::string dynamic = ReadDynamic(options.dynamic, summary);

  MSP_ASSIGN_OR_RETURN(internal::PackWriter pack, internal::PackWriter::Create(options.output));
  MSP_RETURN_IF_ERROR(pack.Add(internal::kEnvironmentMember, environment_json.text));
  if (python.ok()) {
    MSP_RETURN_IF_ERROR(
        pack.Add(internal::kPackagesMember, internal::WritePackages(python->packages)));
  }
  MSP_RETURN_IF_ERROR(pack.Add(internal::kVersionsMember, internal::WriteVersions(versions)));
  if (summary.parameters > 0) {
    MSP_RETURN_IF_ERROR(pack.Add(internal::kStaticMember, reader.Json()));
  }
  if (!dynamic.empty()) {
    MSP_RETURN_IF_ERROR(pack.Add(internal::kDynamicMember, dynamic));
  }
  MSP_RETURN_IF_ERROR(pack.Finish());
  return summary;
}

}  // namespace msprobe::analysis::config_check
