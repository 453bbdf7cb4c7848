// From argv to an exit code: parses, finds the command, runs it, and reports what went wrong.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/progress.h"
#include "src/base/secrets.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/commands.h"
#include "src/commands/flag_parser.h"
#include "src/commands/project_file.h"
#include "src/commands/suggestions.h"
#include "src/report/render.h"
#include "src/report/texts.h"

namespace msprobe::commands {
namespace {

constexpr size_t kDefaultWidth = 100;
constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfMemoryHint =
    "use fewer --threads; check ulimit -v and the memory limit of the container";

// Runs before everything else: libraries allocate before main().
[[gnu::constructor(101)]] void GuardStart() { base::InstallTerminateCleanup(); }

ExitCode ToExitCode(StatusCode code) {
  return code == StatusCode::kUsage ? ExitCode::kUsage : ExitCode::kFailed;
}

// COLUMNS, as other programs take it, then the terminal's width.
size_t TerminalWidth() {
  constexpr int64_t kLeast = 40;
  constexpr int64_t kMost = 1000;
  const char* const columns = std::getenv("COLUMNS");
  const std::optional<int64_t> chosen = columns == nullptr ? std::nullopt : base::ParseInt(columns);
  if (chosen && *chosen >= kLeast && *chosen <= kMost) {
    return static_cast<size_t>(*chosen);
  }
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast) {
    return size.ws_col;
  }
  return kDefaultWidth;
}

// As setlocale() would choose, without its side effects: the first of the three that is set counts.
bool LocaleHasUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      const std::string locale = base::AsciiLower(value);
      return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
  }
  return false;
}

std::string MessageInChinese(std::string_view text) {
  return report::InLanguage(text, report::Language::kChinese);
}

void Speak(report::Language language) {
  base::SetLogTranslation(language == report::Language::kChinese ? MessageInChinese : nullptr);
}

// Progress on stderr, in the language of the screen.
class ProgressInChinese final : public base::ProgressSink {
 public:
  void Show(const std::string& line) override {
    base::StderrProgress().Show(MessageInChinese(line));
  }
  void Clear() override { base::StderrProgress().Clear(); }
  std::chrono::microseconds interval() const override { return base::StderrProgress().interval(); }
};

base::ProgressSink& ProgressIn(report::Language language) {
  static ProgressInChinese chinese;
  return language == report::Language::kChinese ? static_cast<base::ProgressSink&>(chinese)
                                                : base::StderrProgress();
}

report::Language LanguageNamed(std::string_view value) {
  return value == "zh" ? report::Language::kChinese : report::Language::kEnglish;
}

// --lang, wherever it stands: errors of the command line itself are in that language, too.
// Otherwise the locale decides, if it can show more than ASCII.
report::Language LanguageOf(std::span<char* const> arguments) {
  std::string_view value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      break;
    }
    if (argument.starts_with("--lang=")) {
      value = argument.substr(argument.find('=') + 1);
    } else if (argument == "--lang" && i + 1 < arguments.size()) {
      value = arguments[i + 1];
    }
  }
  if (value.empty()) {
    return LocaleHasUtf8() ? report::LanguageOfLocale() : report::Language::kEnglish;
  }
  return LanguageNamed(value);
}

ExitCode ReportUsageError(const ParsedLine& line) {
  LogStatus(line.status);
  base::LogHint(fmt::format("{} --help explains all flags", TitleOf(line.path)));
  return ExitCode::kUsage;
}

// The same commands of a program whose variables hold the defaults.
CommandPath Untouched(const CommandPath& path, Program& fresh) {
  std::vector<std::string> names;
  std::transform(path.begin() + 1, path.end(), std::back_inserter(names),
                 [](const Command* command) { return std::string(command->name()); });
  return FindCommand(fresh, names);
}

ExitCode PrintOrFail(const std::string& text) {
  return Print(text).ok() ? ExitCode::kDone : ExitCode::kFailed;
}

// The value of --junit; empty: none, or the command has no such flag.
std::filesystem::path JunitFile(Command& command) {
  for (const Flag& flag : RowsOf(command.flags())) {
    if (flag.name == "--junit") {
      return *std::get<std::filesystem::path*>(flag.fills);
    }
  }
  return {};
}

// Makes an exception of a library, most often that memory ran out, a failure like others. Memory of
// the command is free again when this returns.
Result<ExitCode> Caught(const std::function<Result<ExitCode>()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return IoError(kOutOfMemory).WithHint(kOutOfMemoryHint);
  } catch (const std::exception& error) {
    return IoError(fmt::format("unexpected: {}", error.what()));
  }
}

// A folder that is removed at the end: for standard input as a file, and results that are not
// wanted.
class Scratch {
 public:
  Result<std::filesystem::path> Folder() {
    if (!folder_) {
      std::error_code failure;
      const std::filesystem::path place = std::filesystem::temp_directory_path(failure);
      if (failure) {
        return IoError("no folder for temporary files: " + failure.message());
      }
      folder_.emplace(place);
      MSP_RETURN_IF_ERROR(folder_->Create());
    }
    return folder_->path();
  }

 private:
  std::optional<base::StagingFolder> folder_;
};

// "-" as an input is a file with all that the standard input holds: what reads it may seek.
// Commands that read it while it comes do so themselves.
class StandardInput {
 public:
  explicit StandardInput(Scratch& scratch) : scratch_(scratch) {}

  Status Replace(Command& command) {
    for (const Positional& positional : command.positionals()) {
      if (!positional.streams && !positional.takes_rest) {
        MSP_RETURN_IF_ERROR(Replace(positional.fills));
      }
    }
    for (const Flag& flag : RowsOf(command.flags())) {
      if (flag.group == Group::kInput && !flag.streams) {
        MSP_RETURN_IF_ERROR(Replace(flag.fills));
      }
    }
    return {};
  }

  // `failure` with "-" for the name of the file.
  Status Named(Status failure) const {
    if (file_.empty() || failure.ok()) {
      return failure;
    }
    Status named(failure.code(), base::ReplaceAll(failure.message(), file_.string(), "-"));
    named.WithHint(base::ReplaceAll(failure.hint(), file_.string(), "-"));
    return named;
  }

 private:
  static constexpr uint64_t kMostBytes = uint64_t{64} << 30U;

  Status Replace(const Target& target) {
    if (auto* const one = std::get_if<std::filesystem::path*>(&target); one != nullptr) {
      return Replace(**one);
    }
    if (auto* const some = std::get_if<std::vector<std::filesystem::path>*>(&target);
        some != nullptr) {
      for (std::filesystem::path& path : **some) {
        MSP_RETURN_IF_ERROR(Replace(path));
      }
    }
    return {};
  }

  Status Replace(std::filesystem::path& path) {
    if (path != "-") {
      return {};
    }
    if (!file_.empty()) {
      return UsageError("- is given twice, and the standard input can be read once");
    }
    if (::isatty(STDIN_FILENO) == 1) {
      return UsageError("- is the standard input, which is a terminal")
          .WithHint("pipe a file into the command, or name it");
    }
    MSP_ASSIGN_OR_RETURN(const std::filesystem::path folder, scratch_.Folder());
    MSP_RETURN_IF_ERROR(CopyTo(folder));
    path = file_;
    return {};
  }

  // The next of its bytes, 0 at its end.
  static Result<size_t> ReadInto(std::vector<char>& buffer) {
    while (true) {
      const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (count >= 0) {
        return static_cast<size_t>(count);
      }
      if (errno != EINTR) {
        return IoError(fmt::format("cannot read the standard input: {}", std::strerror(errno)));
      }
    }
  }

  // Named as its content: some commands tell by the ending what a file holds.
  Status CopyTo(const std::filesystem::path& folder) {
    std::vector<char> buffer(size_t{1} << 20U);
    MSP_ASSIGN_OR_RETURN(size_t count, ReadInto(buffer));
    const bool is_json = count > 0 && buffer.front() == '{';
    file_ = folder / (is_json ? "stdin.json" : "stdin");
    NameStandardInput(file_);
    MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(file_));
    uint64_t bytes = 0;
    while (count > 0) {
      bytes += count;
      if (bytes > kMostBytes) {
        return UnsupportedError(fmt::format("the standard input holds more than {}",
                                            base::FormatBytes(kMostBytes)))
            .WithHint("name the file instead of -");
      }
      MSP_RETURN_IF_ERROR(file.Write({buffer.data(), count}));
      MSP_ASSIGN_OR_RETURN(count, ReadInto(buffer));
    }
    return file.Commit();
  }

  Scratch& scratch_;
  std::filesystem::path file_;
};

// "-o none" of a command that judges: its results go where they are removed.
Status DropResults(Command& command, Scratch& scratch) {
  const std::vector<Flag> flags = RowsOf(command.flags());
  const auto named = [&](std::string_view name) {
    return std::find_if(flags.begin(), flags.end(),
                        [&](const Flag& flag) { return flag.name == name; });
  };
  const auto output = named("--output");
  if (output == flags.end() || named("--fail-on") == flags.end()) {
    return {};
  }
  auto* const* const path = std::get_if<std::filesystem::path*>(&output->fills);
  if (path == nullptr || **path != kNoFiles) {
    return {};
  }
  if (base::ThisSharing().share.count > 1) {
    return UsageError("-o none leaves no folder in which several processes could meet")
        .WithHint("-o FOLDER, on a file system that all of them see");
  }
  MSP_ASSIGN_OR_RETURN(const std::filesystem::path folder, scratch.Folder());
  **path = folder / (output->type == "FILE" ? "none.json" : "none");
  HideFilesBelow(folder);
  return {};
}

// The command line as it can be shown and copied: secrets are masked, also those of a script behind
// "--".
std::string ShownCommandLine(const std::vector<std::string>& arguments) {
  std::string line = "msprobe";
  for (const std::string& argument : base::MaskArguments(arguments)) {
    line += " " + ShellWord(argument);
  }
  // As one line: some programs have short options for passwords.
  return base::Printable(base::MaskText(line).text);
}

std::string AnnotationsOf(Command& command) {
  for (const Flag& flag : RowsOf(command.flags())) {
    if (flag.name == "--annotations") {
      return *std::get<std::string*>(flag.fills);
    }
  }
  return {};
}

// --share and --wait, of a command that has them. The work is known by the command line, without
// what may differ between the processes of a run.
Status TakeShare(Command& command, std::span<const std::string> arguments) {
  std::optional<base::Sharing> sharing;
  for (const Flag& flag : RowsOf(command.flags())) {
    if (flag.name == kShareFlag) {
      sharing = base::ThisSharing();
      if (const std::string& share = *std::get<std::string*>(flag.fills); !share.empty()) {
        MSP_ASSIGN_OR_RETURN(sharing->share, base::ParseShare(share));
      }
    } else if (flag.name == kWaitFlag && sharing) {
      sharing->patience = std::chrono::seconds(*std::get<int64_t*>(flag.fills));
    }
  }
  if (!sharing) {
    // What cannot be shared out every process does alone, as if nothing had launched it.
    base::SetSharing({});
    return {};
  }
  std::error_code ignored;
  sharing->work = std::filesystem::current_path(ignored).string();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = WithDashes(arguments[i].substr(0, arguments[i].find('=')));
    if (name == kShareFlag || name == kWaitFlag || name == "--threads") {
      i += arguments[i].find('=') == std::string::npos ? 1 : 0;
    } else {
      sharing->work += '\n' + arguments[i];
    }
  }
  base::SetSharing(*std::move(sharing));
  return {};
}

// A CI job finds a report of a run that failed, too.
ExitCode RunChosen(const CommandPath& path, const Status& paths,
                   std::span<const std::string> arguments, const Context& context) {
  Command& command = *path.back();
  const std::filesystem::path junit_file = JunitFile(command);
  const Status junit = junit_file.empty() ? OkStatus() : base::CheckOutputFile(junit_file);
  const std::string title = NameBelowProgram(path);
  Scratch scratch;
  StandardInput standard_input(scratch);
  const Result<ExitCode> outcome = Caught([&]() -> Result<ExitCode> {
    MSP_RETURN_IF_ERROR(paths);
    MSP_RETURN_IF_ERROR(junit);
    MSP_RETURN_IF_ERROR(standard_input.Replace(command));
    MSP_RETURN_IF_ERROR(TakeShare(command, arguments));
    MSP_RETURN_IF_ERROR(DropResults(command, scratch));
    return command.Run(context);
  });
  // Damage to the inputs that the command did not notice may be the cause of its failure.
  const std::array<Status, 2> inputs = {base::CheckMappedFiles(), base::CheckUnseenPaths()};
  Status failure;  // the first that is reported
  if (!outcome.ok()) {
    failure = standard_input.Named(NameMissingInput(path, outcome.status()));
    LogStatus(failure);
    if (const std::string hint = SuggestForInput(path, failure.message()); !hint.empty()) {
      base::LogHint(hint);
    }
  }
  ExitCode code = outcome.ok() ? *outcome : ToExitCode(failure.code());
  for (const Status& input : inputs) {
    if (!input.ok()) {
      if (outcome.ok() || outcome.status().message() != input.message()) {
        LogStatus(input);
      }
      code = ExitCode::kFailed;
      failure = failure.ok() ? input : failure;
    }
  }
  if (code == ExitCode::kFailed && !failure.ok() && !junit_file.empty() && junit.ok()) {
    if (const Status written = WriteJunitOfFailure(junit_file, title, failure); !written.ok()) {
      LogStatus(written);
    }
  }
  if (code == ExitCode::kFailed && !failure.ok() && AnnotationsOf(command) == "github") {
    AnnotateFailure(title, failure);
  }
  return code;
}

// A full disk behind stdout may only show when it is flushed, now or earlier.
int FinishOutput(ExitCode code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) {
    return static_cast<int>(code);
  }
  base::LogError("cannot write to the standard output; is the disk full?");
  return static_cast<int>(code == ExitCode::kDone ? ExitCode::kFailed : code);
}

// Where a log line, which is put together first, could fail in its turn.
template <typename... Texts>
void PrintWithoutMemory(const Texts&... texts) {
  (std::fputs(texts, stderr), ...);
}

int RunParsed(int argc, char** argv) {
  Context context;
  context.color = base::WantsColor(STDOUT_FILENO);
  context.width = TerminalWidth();
  context.has_edge = ::isatty(STDOUT_FILENO) == 1;
  context.ascii = !LocaleHasUtf8();
  context.language = LanguageOf({argv + std::min(argc, 1), argv + argc});
  Speak(context.language);
  Program program;
  Program fresh;  // its variables hold the defaults
  std::vector<std::string> arguments = {argv + std::min(argc, 1), argv + argc};
  if (arguments == std::vector<std::string>{"version"}) {  // as git, go and others have it
    arguments = {"--version"};
  }
  ParsedLine line = ParseArguments(program, arguments, &ProjectFile::Find);
  Command& command = *line.path.back();
  if (line.project_language == "en" || line.project_language == "zh") {  // no other is known
    context.language = LanguageNamed(line.project_language);
    Speak(context.language);
  }
  if (line.general.help && line.status.ok()) {
    return FinishOutput(
        PrintOrFail(HelpText(Untouched(line.path, fresh), context.width, context.language)));
  }
  if (!line.status.ok()) {
    return FinishOutput(ReportUsageError(line));
  }
  if (program.wants_version()) {
    return FinishOutput(PrintOrFail("msprobe " MSPROBE_VERSION "\n"));
  }
  if (command.is_group()) {
    return FinishOutput(PrintOrFail(HelpText(line.path, context.width, context.language)));
  }
  std::vector<std::string> inputs;
  for (const std::filesystem::path& input : GivenInputs(command)) {
    if (!input.empty()) {
      inputs.push_back(base::Printable(base::MaskText(input.string()).text));
    }
  }
  report::SetProvenance({ShownCommandLine(arguments), std::move(inputs)});
  context.framework = program.framework();
  context.quiet = line.general.quiet;
  context.verbose = line.general.verbose;
  context.typed = std::move(line.typed);
  context.from_project = std::move(line.from_project);
  if (context.Given(ForceFlag().name)) {
    base::SetExistingFiles(base::Existing::kReplace);
  }
  if (context.verbose) {
    base::SetLogLevel(base::LogLevel::kDebug);
  }
  if (context.quiet) {
    base::SetLogLevel(base::LogLevel::kError);
  } else {
    base::SetProgressSink(&ProgressIn(context.language));
  }
  if (!line.project_remark.empty()) {
    base::LogInfo(line.project_remark);
  }
  return FinishOutput(RunChosen(line.path, line.paths, arguments, context));
}

}  // namespace

// Exceptions from outside of a command end here.
int RunCommandLine(int argc, char** argv) {
  base::InstallInterruptCleanup();
  base::GuardMappedFiles();
  base::NoteNewFolders();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  int code = static_cast<int>(ExitCode::kFailed);
  try {
    code = RunParsed(argc, argv);
  } catch (const std::bad_alloc&) {
    PrintWithoutMemory("error: ", kOutOfMemory, "\n  hint: ", kOutOfMemoryHint, "\n");
  } catch (const std::exception& error) {
    PrintWithoutMemory("error: unexpected: ", error.what(), "\n");
  }
  base::RemoveEmptyNewFolders();
  return code;
}

}  // namespace msprobe::commands
