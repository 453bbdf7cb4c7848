#include "src/analysis/config_check/collect.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/analysis/config_check/document.h"
#include "src/analysis/config_check/hyperparameters.h"
#include "src/analysis/config_check/packages.h"
#include "src/analysis/config_check/parameters.h"
#include "src/base/output_files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/json/writer.h"

extern char** environ;  // POSIX gives it no header
extern char** environ;  // POSIX gives it no header

namespace msprobe::analysis::config_check::internal {

namespace fs = std::filesystem;

Status CheckPackPath(const fs::path& path) {
  if (path.extension() != ".zip") {
    return UsageError(fmt::format("the pack cannot be written to {}: its name must end with .zip",
                                  path.empty() ? "\"\"" : path.string()))
        .WithHint("for example -o config_check_pack.zip");
  }
  if (base::IsFolder(path)) {
    return UsageError(
        fmt::format("the pack cannot be written to {}: it is a directory", path.string()));
  }
  return base::CheckOutputFile(path);
}

PackWriter::PackWriter(base::AtomicFile file)
    : file_(std::make_unique<base::AtomicFile>(std::move(file))), zip_(*file_) {}

Result<PackWriter> PackWriter::Create(const fs::path& path) {
  MSP_RETURN_IF_ERROR(CheckPackPath(path));
  if (path.has_parent_path()) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  return PackWriter(std::move(file));
}

Status PackWriter::Add(std::string_view member, std::string_view content) {
  return zip_.AddDeflated(member, content);
}

Status PackWriter::Finish() {
  MSP_RETURN_IF_ERROR(zip_.Finish());
  return file_->Commit();
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAnswerLimitBytes = size_t{1} << 20U;
// Site packages may print while Python starts: the answer begins behind the last mark.
constexpr std::string_view kMark = "\x01msprobe\x01";
constexpr char kEnd = '\x02';
constexpr const char* kQuestion =
    "import sys\n"
    "parts = ['%d.%d.%d' % sys.version_info[:3], sys.executable or ''] + sys.path\n"
    "text = '\\x01msprobe\\x01' + '\\0'.join(parts) + '\\x02'\n"
    "sys.stdout.buffer.write(text.encode('utf-8', 'surrogateescape'))\n";

// As shells look: what may not be run or entered is passed over. base::IsRegularFile() remembers
// what the system did not tell, so that another Python is not taken without a word.
bool IsProgram(const fs::path& path) {
  const bool is_forbidden = ::access(path.c_str(), X_OK) != 0 && errno == EACCES;
  return !is_forbidden && base::IsRegularFile(path);
}

// Empty when PATH leads to none.
fs::path LookUp(const std::string& name, const std::string& search_path) {
  for (const std::string_view folder : base::Split(search_path, ':')) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (IsProgram(candidate)) {
      return candidate;
    }
  }
  return {};
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }
  int get() const { return value_; }
  void Close() {
    if (value_ >= 0) {
      ::close(value_);
      value_ = -1;
    }
  }

 private:
  int value_;
};

// Reads until the other end closes; false when the time is over or there is too much.
bool ReadAnswer(int descriptor, Clock::time_point deadline, std::string& answer) {
  std::array<char, 16384> buffer{};
  while (answer.size() <= kAnswerLimitBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    struct pollfd wait = {descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) {
      return true;
    }
    if (count < 0 && errno != EINTR) {
      return false;
    }
    answer.append(buffer.data(), count < 0 ? 0 : static_cast<size_t>(count));
    // The answer is whole: whatever the interpreter does before it ends is of no interest.
    if (answer.ends_with(kEnd) && answer.find(kMark) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// In a process group of its own, so that it can be ended with all that it starts.
Result<pid_t> StartProgram(const fs::path& program, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  std::string path = program.string();
  std::string no_files = "-B";  // it must leave no compiled files behind
  std::string command = "-c";
  std::string question = kQuestion;
  std::array<char*, 5> arguments = {path.data(), no_files.data(), command.data(), question.data(),
                                    nullptr};
  pid_t child = 0;
  const int failure =
      ::posix_spawn(&child, path.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    return IoError(fmt::format("cannot run {}: {}", path, std::strerror(failure)));
  }
  return child;
}

Result<Interpreter> ParseAnswer(const fs::path& program, std::string_view answer) {
  const size_t mark = answer.rfind(kMark);
  Interpreter interpreter;
  if (mark != std::string_view::npos && answer.ends_with(kEnd)) {
    answer.remove_prefix(mark + kMark.size());
    answer.remove_suffix(1);
    const std::vector<std::string_view> parts = base::Split(answer, '\0');
    if (parts.size() >= 2) {
      interpreter.version = parts[0];
      interpreter.path = parts[1].empty() ? program : fs::path(parts[1]);
      for (size_t i = 2; i < parts.size(); ++i) {
        interpreter.search_path.emplace_back(parts[i]);
      }
      return interpreter;
    }
  }
  return BadFormatError(
             fmt::format("{} did not report its package path (sys.path)", program.string()))
      .WithHint("check that it is Python 3, or name another one with --python");
}

}  // namespace

Result<fs::path> FindInterpreter(const std::string& wanted, const Environment& environment) {
  const std::string search_path = ValueOf(environment, "PATH");
  if (!wanted.empty()) {
    const fs::path found =
        wanted.find('/') == std::string::npos ? LookUp(wanted, search_path) : fs::path(wanted);
    if (!IsProgram(found)) {
      return NotFoundError(fmt::format("--python {}: there is no such program", wanted))
          .WithHint("name the interpreter that runs the training, e.g. /usr/bin/python3");
    }
    return found;
  }
  for (const char* name : {"python3", "python"}) {
    if (fs::path found = LookUp(name, search_path); !found.empty()) {
      return found;
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = ValueOf(environment, variable);
    if (const fs::path found = fs::path(folder) / "bin" / "python3";
        !folder.empty() && IsProgram(found)) {
      return found;
    }
  }
  return NotFoundError("no Python in PATH, VIRTUAL_ENV or CONDA_PREFIX: packages are not recorded")
      .WithHint("name the interpreter that runs the training with --python");
}

Result<Interpreter> AskInterpreter(const fs::path& program, double limit_seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return IoError(
        fmt::format("cannot run {}: no pipe: {}", program.string(), std::strerror(errno)));
  }
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  MSP_ASSIGN_OR_RETURN(const pid_t child, StartProgram(program, writing.get()));
  writing.Close();
  std::string answer;
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_seconds));
  const bool in_time = ReadAnswer(reading.get(), Clock::now() + limit, answer);
  ::kill(-child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return IoError(fmt::format("{} did not answer within {} s", program.string(), limit_seconds))
        .WithHint("name another interpreter with --python");
  }
  return ParseAnswer(program, answer);
}

Environment ThisEnvironment() { return ParseEnvironment(environ); }

Environment ParseEnvironment(const char* const* entries) {
  Environment environment;
  std::unordered_set<std::string_view> names;
  for (; entries != nullptr && *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const size_t sign = entry.find('=');
    if (sign == std::string_view::npos || sign == 0 ||
        !names.insert(entry.substr(0, sign)).second) {
      continue;
    }
    environment.emplace_back(entry.substr(0, sign), entry.substr(sign + 1));
  }
  return environment;
}

std::string ValueOf(const Environment& environment, std::string_view name) {
  const auto found = std::find_if(environment.begin(), environment.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return found == environment.end() ? std::string() : found->second;
}

EnvironmentJson WriteEnvironment(const Environment& environment,
                                 const std::vector<ScriptVariable>& of_scripts) {
  EnvironmentJson result;
  json::Writer writer(result.text, 4);
  writer.BeginObject();
  for (const auto& [name, value] : environment) {
    const std::string& variable = name;
    if (std::none_of(of_scripts.begin(), of_scripts.end(),
                     [&](const ScriptVariable& set) { return set.name == variable; })) {
      const base::Masked masked = base::MaskValue(name, value);
      result.masked += masked.count > 0 ? 1 : 0;
      writer.Member(name, masked.text);
    }
  }
  for (const ScriptVariable& set : of_scripts) {
    json::Json value = set.value;
    result.masked += MaskParameters(value, set.name) > 0 ? 1 : 0;
    writer.Key(set.name);
    json::WriteDocument(value, writer);
  }
  writer.EndObject();
  return result;
}

}  // namespace msprobe::analysis::config_check::internal

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
