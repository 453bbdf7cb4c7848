#include "src/commands/answer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/render.h"
#include "src/report/web_page.h"

namespace msprobe::commands {
namespace {

constexpr size_t kNarrowest = 40;
constexpr size_t kWidest = 10'000;

std::vector<std::string> WordsOf(std::span<const report::GateLevel> levels) {
  std::vector<std::string> words;
  for (const report::GateLevel& level : levels) {
    words.emplace_back(level.word);
  }
  return words;
}

// The command line tells what is wrong with them when the command has ended.
bool InputsAreWhole() { return base::CheckMappedFiles().ok() && base::CheckUnseenPaths().ok(); }

std::string& StandardInputCopy() {
  static auto* const path = new std::string();
  return *path;
}

std::string WithoutCopies(std::string text) {
  const std::string& copy = StandardInputCopy();
  return copy.empty() ? text : base::ReplaceAll(text, copy, "-");
}

Status ShowText(const report::Document& document, const AnswerFlags& flags, const Context& context,
                const OwnForms& own) {
  Context where = context;
  if (!own.file.empty() || own.to_stderr) {  // no terminal, or not that of the context
    where.has_edge = false;
    where.color = false;
  }
  report::ScreenOptions screen = ScreenOf(flags, where);
  if (!own.file.empty()) {  // the same for all who read it
    screen.language = report::Language::kEnglish;
    screen.link_host.clear();
  }
  const std::string text = WithoutCopies(report::RenderTerminal(document, screen));
  if (!own.file.empty()) {
    return base::WriteFileAtomically(own.file, text);
  }
  if (own.to_stderr) {
    fmt::print(stderr, "msprobe: {}", text);
    return {};
  }
  MSP_RETURN_IF_ERROR(Print(text));
  return context.has_edge ? Status() : Print(own.behind);
}

Status WritePage(const std::filesystem::path& path, report::Document& document) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  if (std::none_of(document.files.begin(), document.files.end(),
                   [&](const report::OutputFile& file) { return file.path == path; })) {
    document.files.push_back({path, "page for browsers"});
  }
  return report::WriteAnswerPage(path, document);
}

report::Document DocumentOfFailure(std::string_view command, const Status& failure) {
  report::Document document;
  document.command = command;
  document.verdict.word = "FAILED";
  document.verdict.text = failure.message();
  document.verdict.outcome = report::AnswerOutcome::kIncomplete;
  return document;
}

// On stderr, which CI systems read as well: the standard output may be JSON.
void Annotate(const report::Document& document, const report::Gate& gate) {
  const char* const workspace = std::getenv("GITHUB_WORKSPACE");
  fmt::print(
      stderr, "{}",
      WithoutCopies(report::RenderGithubAnnotations(document, gate, workspace ? workspace : "")));
}

std::filesystem::path& HiddenFolder() {
  static auto* const folder = new std::filesystem::path();
  return *folder;
}

// Answers of every form name no file that is removed in the end.
void HideFiles(report::Document& document) {
  const std::string folder = HiddenFolder().string();
  if (folder.empty()) {
    return;
  }
  std::erase_if(document.files, [&](const report::OutputFile& file) {
    return file.path.string().starts_with(folder);
  });
  for (report::Section& section : document.sections) {
    std::erase_if(section.blocks, [&](report::Block& block) {
      auto* const list = std::get_if<report::List>(&block);
      return list != nullptr &&
             std::erase_if(list->items,
                           [&](const report::Item& item) {
                             return item.text.find(folder) != std::string::npos;
                           }) > 0 &&
             list->items.empty();
    });
  }
  std::erase_if(document.sections, [](const report::Section& section) {
    return section.title.empty() && section.blocks.empty();
  });
  std::erase_if(document.next, [&](const report::Advice& advice) {
    return std::any_of(advice.values.begin(), advice.values.end(), [&](const std::string& value) {
      return value.find(folder) != std::string::npos;
    });
  });
  for (report::TestCase& test : document.cases) {
    if (test.details.find(folder) == std::string::npos) {
      continue;
    }
    std::string details;
    for (const std::string_view line : base::Split(test.details, '\n')) {
      if (line.find(folder) == std::string_view::npos) {
        details.append(details.empty() ? "" : "\n").append(line);
      }
    }
    test.details = std::move(details);
  }
}

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Terminals that open links (OSC 8); others may show their bytes.
bool OpensLinks() {
  constexpr std::array<std::string_view, 6> kPrograms = {"iTerm.app", "vscode",  "WezTerm",
                                                         "Hyper",     "ghostty", "rio"};
  constexpr std::array<std::string_view, 6> kTerminals = {"xterm-kitty",   "alacritty", "foot",
                                                          "xterm-ghostty", "wezterm",   "contour"};
  constexpr int64_t kFirstVte = 5000;
  const char* const terminal = std::getenv("TERM");
  const char* const program = std::getenv("TERM_PROGRAM");
  const char* const vte = std::getenv("VTE_VERSION");
  if (IsSet("NO_COLOR") || terminal == nullptr || std::string_view(terminal) == "dumb") {
    return false;
  }
  return base::IsOneOf(terminal, kTerminals) ||
         (program != nullptr && base::IsOneOf(program, kPrograms)) ||
         (vte != nullptr && base::ParseInt(vte).value_or(0) >= kFirstVte) ||
         IsSet("KONSOLE_VERSION") || IsSet("WT_SESSION") || IsSet("DOMTERM");
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data()
                                                                             : "localhost";
}

// Opens a page where somebody can see it, otherwise says where it is.
void OpenPage(const report::Document& document) {
  const auto page =
      std::find_if(document.files.begin(), document.files.end(),
                   [](const report::OutputFile& file) { return file.path.extension() == ".html"; });
  if (page == document.files.end()) {
    base::LogWarning("--open: no page was written");
    return;
  }
  const bool has_display = IsSet("DISPLAY") || IsSet("WAYLAND_DISPLAY") || IsSet("WSL_DISTRO_NAME");
  if (has_display && !IsSet("CI")) {
    // Absolute: what begins with a dash, or holds a colon, would be something else to an opener.
    std::error_code failure;
    std::string path = std::filesystem::absolute(page->path, failure).string();
    for (const char* const opener : {"xdg-open", "open", "wslview"}) {
      std::string command = opener;
      std::array<char*, 3> arguments = {command.data(), path.data(), nullptr};
      posix_spawn_file_actions_t files;
      ::posix_spawn_file_actions_init(&files);
      for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        ::posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
      }
      pid_t process = 0;
      const bool started =
          ::posix_spawnp(&process, opener, &files, nullptr, arguments.data(), environ) == 0;
      ::posix_spawn_file_actions_destroy(&files);
      if (started) {
        return;
      }
    }
  }
  base::LogInfo(fmt::format("--open: no browser can be started here; the page is {}",
                            base::Printable(page->path.string())));
}

}  // namespace

void LogStatus(const Status& status) {
  base::LogError(status.message());
  if (!status.hint().empty()) {
    base::LogHint(status.hint());
  }
}

Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return IoError("cannot write to the standard output");
  }
  return {};
}

Status PrintUntrusted(std::string_view text) {
  return ::isatty(STDOUT_FILENO) == 1
             ? Print(base::Printable(base::ReplaceAll(text, "\r\n", "\n"), "\n\t"))
             : Print(text);
}

std::vector<Flag> AnswerRows(AnswerFlags& answer, std::span<const report::GateLevel> levels,
                             std::string_view conditions) {
  std::vector<Flag> rows = {
      Switch("--json", &answer.json, "Print the answer as JSON and nothing else", Group::kOutput),
      Choice("--color", "WHEN", &answer.color, {"auto", "always", "never"},
             "Use colours; auto: on a terminal, unless NO_COLOR is set", FromProject{"color"},
             Group::kOutput),
      Number("--width", "N", &answer.width, "Wrap lines at N columns", Between(kNarrowest, kWidest),
             Default{"the terminal's"}, FromProject{"width"}, Group::kOutput)};
  rows.push_back(Choice("--links", "WHEN", &answer.links, {"auto", "always", "never"},
                        "Make links of files and lines of code; auto: on terminals that are known "
                        "to open them",
                        Group::kOutput));
  if (levels.empty()) {
    return rows;
  }
  const std::vector<std::string> words = WordsOf(levels);
  Flag fail_on{.name = "--fail-on",
               .type = "LEVEL",
               .fills = &answer.fail_on,
               .values = words,
               .group = Group::kGate,
               .help = "Exit with code 1 if one of these is found; may be repeated",
               .project_key = "fail_on"};
  if (!conditions.empty()) {
    fail_on.aliases = {"--fail_if"};
    fail_on.values.clear();
    fail_on.only_own_table = true;
    fail_on.help =
        fmt::format("Exit with code 1 on {} or {}; may be repeated", AnyOf(words), conditions);
  }
  rows.push_back(std::move(fail_on));
  rows.push_back(Path("--junit", "FILE", &answer.junit_file,
                      "Also write a JUnit report for CI systems", Group::kGate));
  rows.push_back(Choice("--annotations", "NAME", &answer.annotations, {"github"},
                        "Also print what fails, with file and line, as lines that a CI system "
                        "shows beside the code; on stderr",
                        Group::kGate));
  return rows;
}

std::vector<Flag> ShareRows(AnswerFlags& answer) {
  return {Text(kShareFlag, "K/N", &answer.share,
               "Do share K of N of the work, K from 1 to N; process 1 collects all and answers",
               Default{"what srun, mpirun or PMI says"}, Group::kGeneral),
          Number(kWaitFlag, "SECONDS", &answer.wait_s,
                 "With several processes: how long the first one waits for the others",
                 kNotNegative, Group::kGeneral)};
}

Flag OpenFlag(AnswerFlags& answer) {
  return Switch("--open", &answer.open, "Also write the page, and open it in a browser",
                Group::kOutput);
}

void HideFilesBelow(std::filesystem::path folder) { HiddenFolder() = std::move(folder); }

void NameStandardInput(const std::filesystem::path& copy) { StandardInputCopy() = copy.string(); }

void AnnotateFailure(std::string_view command, const Status& failure) {
  report::Document document = DocumentOfFailure(command, failure);
  document.exit_code = static_cast<int>(ExitCode::kFailed);
  Annotate(document, report::Gate());
}

Status WriteJunitOfFailure(const std::filesystem::path& path, std::string_view command,
                           const Status& failure) {
  const report::Document document = DocumentOfFailure(command, failure);
  MSP_RETURN_IF_ERROR(base::CreateFolders(path.parent_path()));
  return base::WriteFileAtomically(path, report::RenderJunit(document, report::Gate()),
                                   base::Existing::kReplace);
}

Status CheckPage(const std::filesystem::path& page) {
  MSP_RETURN_IF_ERROR(report::CheckAnswerPage());
  return base::CheckOutputFile(page);
}

std::string FailOnHelp(std::span<const report::GateLevel> levels) {
  size_t width = 0;
  for (const report::GateLevel& level : levels) {
    width = std::max(width, level.word.size());
  }
  std::string text = "With --fail-on LEVEL the exit code is 1 if there is";
  for (const report::GateLevel& level : levels) {
    text += fmt::format("\n  {:<{}}  {}", level.word, width, level.meaning);
  }
  return text + "\nor, at every level, if nothing could be compared.";
}

report::ScreenOptions ScreenOf(const AnswerFlags& flags, const Context& context) {
  report::ScreenOptions screen;
  screen.width = flags.width > 0 ? flags.width : context.width;
  screen.has_edge = flags.width > 0 || context.has_edge;
  screen.color = flags.color == "auto" ? context.color : flags.color == "always";
  screen.ascii = context.ascii;
  if (flags.links == "always" || (flags.links == "auto" && context.has_edge && OpensLinks())) {
    screen.link_host = HostName();
  }
  screen.language = context.language;
  return screen;
}

ExitCode ExitCodeOf(const report::Document& document, const AnswerFlags& flags) {
  if (!InputsAreWhole()) {
    return ExitCode::kFailed;
  }
  switch (report::Judge(document, flags.gate())) {
    case report::ExitClass::kDone:
      return ExitCode::kDone;
    case report::ExitClass::kFindings:
      return ExitCode::kFindings;
    case report::ExitClass::kFailed:
      break;
  }
  return ExitCode::kFailed;
}

Result<ExitCode> EmitReport(report::Document document, const AnswerFlags& flags,
                            const Context& context, const OwnForms& own) {
  const bool inputs_are_whole = InputsAreWhole();
  if (!inputs_are_whole) {
    document.verdict.outcome = report::AnswerOutcome::kIncomplete;
  }
  const ExitCode code =
      own.exit_code ? static_cast<ExitCode>(*own.exit_code) : ExitCodeOf(document, flags);
  document.exit_code = static_cast<int>(code);
  if (!own.page.empty()) {
    MSP_RETURN_IF_ERROR(WritePage(own.page, document));
  }
  HideFiles(document);
  if (!flags.junit_file.empty()) {
    document.files.push_back({flags.junit_file, "JUnit report"});
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
        flags.junit_file, WithoutCopies(report::RenderJunit(document, flags.gate()))));
  }
  if (flags.json) {
    MSP_RETURN_IF_ERROR(Print(WithoutCopies(report::RenderJson(document))));
  } else if (own.instead) {
    MSP_RETURN_IF_ERROR(PrintUntrusted(*own.instead));
  } else if (!context.quiet || own.despite_quiet) {
    MSP_RETURN_IF_ERROR(ShowText(document, flags, context, own));
  }
  std::fflush(stdout);  // warnings stand behind what they are about, also in a log file
  for (const std::string& warning : document.warnings) {
    base::LogWarning(WithoutCopies(warning));
  }
  if (flags.annotations == "github") {
    Annotate(document, flags.gate());
  }
  if (flags.open) {
    OpenPage(document);
  }
  // --quiet leaves out the answer, but not why the command fails.
  if (!own.exit_code && code == ExitCode::kFindings) {
    base::LogGate(WithoutCopies(flags.gate().Reason(document)));
  } else if (!own.exit_code && code == ExitCode::kFailed && context.quiet && inputs_are_whole) {
    base::LogError(document.verdict.text);
  }
  return code;
}

}  // namespace msprobe::commands
