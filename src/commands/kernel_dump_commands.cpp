// msprobe parse: what an Ascend device dumps below the framework, as arrays. The small tools behind
// it (cad, cn, dc, ...) are subcommands, and can also be typed line by line at its prompt. msprobe
// code_mapping: the lines of code behind the dump of a MindSpore graph.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/array_compare.h"
#include "src/analysis/kernel_dump/call_record.h"
#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/nonfinite/overflow.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/flag_parser.h"
#include "src/commands/suggestions.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

namespace dumps = analysis::kernel_dump;
namespace nonfinite = analysis::nonfinite;

constexpr const char* kResults = "./parse_data";

Flag VendorToolFlag(std::string_view names, std::filesystem::path& path) {
  return Path(names, "FILE", &path,
              "Accepted and not used: nothing of the vendor's package is needed", kPython811,
              kHidden, Group::kInput);
}

Status LogFailures(const dumps::Findings& findings) {
  for (const dumps::FileResult& file : findings.files) {
    if (!file.status.ok()) {
      base::LogError(
          fmt::format("{}: {}", file.path.string(), base::Printable(file.status.message())));
    }
    for (const dumps::Converted& part : file.parts) {
      if (!part.status.ok()) {
        base::LogError(fmt::format("{}, {}: {}", file.path.string(), part.what,
                                   base::Printable(part.status.message())));
      }
    }
    for (const std::string& warning : file.warnings) {
      base::LogWarning(base::Printable(fmt::format("{}: {}", file.path.string(), warning)));
    }
  }
  return {};
}

// Names of what was written, and how many; kFailed when something was not.
Result<ExitCode> ReportConverted(const dumps::Findings& findings, const Context& context) {
  std::string text;
  for (const dumps::FileResult& file : findings.files) {
    for (const dumps::Converted& part : file.parts) {
      if (part.status.ok()) {
        text += part.path.string() + "\n";
      }
    }
  }
  if (!context.quiet) {
    MSP_RETURN_IF_ERROR(PrintUntrusted(text));
  }
  MSP_RETURN_IF_ERROR(LogFailures(findings));
  return findings.failed_files() > 0 ? ExitCode::kFailed : ExitCode::kDone;
}

std::string TableText(const report::Table& table, const Context& context) {
  return report::TerminalTable(table,
                               {.width = context.width, .color = context.color, .digits = 6});
}

report::Table ElementTable(const std::vector<dumps::ElementPair>& elements) {
  report::Table table("elements", {"Index", "Left", "Right", "Diff"});
  for (const dumps::ElementPair& element : elements) {
    table.AddRow(std::vector<report::Cell>{
        report::Cell::Integer(static_cast<int64_t>(element.index)),
        report::Cell::Number(static_cast<double>(element.left)),
        report::Cell::Number(static_cast<double>(element.right)),
        report::Cell::Number(static_cast<double>(element.left - element.right))});
  }
  return table;
}

Status SaveAsText(const std::filesystem::path& path, const std::filesystem::path& text) {
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  return dumps::WriteArrayText(text, file, *tensor);
}

std::string SideText(std::string_view title, const dumps::ArrayPair::Side& side, bool saved) {
  std::string text = fmt::format("{}:\n ├─ NpyFile: {}\n", title, side.path.string());
  if (saved) {
    text += fmt::format(" ├─ TxtFile: {}.txt\n", side.path.string());
  }
  return text + fmt::format(" └─ NpySpec: {}\n", dumps::ArrayFacts(side.shape, side.dtype, side.max,
                                                                   side.min, side.mean));
}

// cad: every dump of a folder, as arrays in <output>/<operator>/<time>/.
class ParseCadCommand final : public Command {
 public:
  ParseCadCommand()
      : Command("cad", "Convert all kernel dumps of a folder, a folder per operator and call") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--my-dump-path -m", "DIR", &dumps_, "Folder of kernel dumps", kPython811),
        VendorToolFlag("--msaccucmp-path -asc", vendor_tool_),
        ResultsFlag(output_, "Folder for the arrays",
                    std::string(kResults) + "/batch_dump_convert/<time>"),
        ForceFlag(),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMPS", &dumps_, "Folder of kernel dumps", OrFlag{"--my-dump-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse cad -m dump/step0 -out arrays",
             "arrays/<operator>/<time>/*.npy, which vc compares"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    const std::filesystem::path output =
        output_.empty()
            ? std::filesystem::path(kResults) / "batch_dump_convert" / base::TimestampNow()
            : output_;
    uint64_t left_out = 0;
    MSP_ASSIGN_OR_RETURN(const std::vector<dumps::DumpPath> found,
                         dumps::FindDumpFiles(dumps_, "", left_out));
    dumps::Findings all;
    for (const dumps::DumpPath& dump : found) {
      if (!dump.parsed) {
        continue;
      }
      dumps::Options options;
      options.inputs = {dump.path};
      options.output = output / dump.parsed->op_name / std::to_string(dump.parsed->timestamp);
      MSP_ASSIGN_OR_RETURN(dumps::Findings findings, dumps::Run(options));
      std::move(findings.files.begin(), findings.files.end(), std::back_inserter(all.files));
    }
    if (all.files.empty()) {
      return NotFoundError(fmt::format("{}: no kernel dump", dumps_.string()));
    }
    return ReportConverted(all, context);
  }

 private:
  std::filesystem::path dumps_;
  std::filesystem::path output_;
  std::filesystem::path vendor_tool_;
};

// cn: two arrays, element by element.
class ParseCnCommand final : public Command {
 public:
  ParseCnCommand() : Command("cn", "Compare two .npy files element by element") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--my-dump-path -m", "FILE", &options_.left, "The test .npy file", kPython811),
        Path("--golden-dump-path -g", "FILE", &options_.right, "The .npy file to compare it with",
             kPython811),
        Group::kOutput,
        Number("--print -p", "N", &options_.shown,
               "Elements to show of the errors, and from the first on", kPositive, kPython811),
        Switch("--save -s", &save_, "Also write the elements of both to text files beside them",
               kPython811),
        Group::kMethod,
        Number("--atol -al", "X", &options_.atol, "Difference that counts as equal", kNotNegative,
               kPython811),
        Number("--rtol -rl", "X", &options_.rtol, "The same relative to the second file",
               kNotNegative, kPython811),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("FILE", &options_.left, "The test .npy file", OrFlag{"--my-dump-path"}),
            Argument("REFERENCE", &options_.right, "The .npy file to compare it with",
                     OrFlag{"--golden-dump-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse cn -m npu.npy -g gpu.npy -p 5", "the first five elements that differ"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const dumps::ArrayPair pair, dumps::CompareArrays(options_));
    if (pair.left.shape != pair.right.shape) {
      base::LogWarning(fmt::format("shapes differ, {} and {}; the shorter one goes on with zeros",
                                   ShapeText(pair.left.shape), ShapeText(pair.right.shape)));
    }
    if (save_) {
      for (const std::filesystem::path& path : {options_.left, options_.right}) {
        MSP_RETURN_IF_ERROR(SaveAsText(path, path.string() + ".txt"));
      }
    }
    std::string text = "Error Item Table\n" + TableText(ElementTable(pair.first_errors), context);
    text += "Top Item Table\n" + TableText(ElementTable(pair.first), context);
    text += SideText("Left", pair.left, save_) + SideText("Right", pair.right, save_);
    text += fmt::format(
        "NumCnt:   {}\nAllClose: {}\nCosSim:   {:.6g}\nErrorPer: {:.6g}  (rl= {}, al= {})\n",
        pair.elements, pair.all_close ? "True" : "False", pair.cosine, pair.error_ratio(),
        options_.rtol, options_.atol);
    MSP_RETURN_IF_ERROR(Print(text));
    return ExitCode::kDone;
  }

 private:
  analysis::kernel_dump::ArrayCompareOptions options_;
  bool save_ = false;
};

// dc: a dump or a folder of them, in a chosen layout.
class ParseDcCommand final : public Command {
 public:
  ParseDcCommand()
      : Command("dc", "Convert a kernel dump, or a folder of them, to .npy in a chosen layout") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--name -n -d --dump_path", "PATH", &dump_, "Kernel dump, or a folder of them",
             kPython811),
        Group::kMethod,
        Text("--format -f", "NAME", &options_.format,
             "Layout of the arrays: ND, NCHW, NHWC, HWCN, NCDHW and others",
             Default{"that of the device"}, kPython811),
        VendorToolFlag("--msaccucmp-path -cmp_path", vendor_tool_),
        ResultsFlag(options_.output, "Folder for the arrays",
                    std::string(kResults) + "/dump_convert"),
        ForceFlag(),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &dump_, "Kernel dump, or a folder of them", OrFlag{"--name"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse dc -n MatMul.x.4.1.1700000000001004 -f ND -out arrays",
             "matrices of a MatMul as plain rows and columns"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    options_.inputs = {dump_};
    if (options_.output.empty()) {
      options_.output = std::filesystem::path(kResults) / "dump_convert";
    }
    MSP_ASSIGN_OR_RETURN(const dumps::Findings findings, dumps::Run(options_));
    return ReportConverted(findings, context);
  }

 private:
  std::filesystem::path dump_;
  analysis::kernel_dump::Options options_;
  std::filesystem::path vendor_tool_;
};

// overflow: the kernels that overflow records name.
class ParseOverflowCommand final : public Command {
 public:
  explicit ParseOverflowCommand(std::string title)
      : Command(
            "overflow",
            "Name the operator that overflowed first on a device, its call and its line of code"),
        title_(std::move(title)) {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input -d --dump_path", "DIR", &options_.dumps,
             "Folder with overflow records (Opdebug.*) and kernel dumps", kPython811),
        Path("--calls", "DUMP", &options_.calls,
             "Dump of the API calls of the same step, to find the call of the kernel",
             Default{"the one beside the records"}),
        Path("--ir", "FILE", &options_.ir,
             "Text of the MindSpore graph that ran, to find the lines of code of the operator"),
        Group::kMethod,
        Number("--top-num -n", "N", &options_.most,
               "How many records to look at, from the first one on; 0: all", kNotNegative,
               kPython811),
        ResultsFlag(options_.output, "Folder of overflow_summary_<time>.txt", "none"),
        ForceFlag(),
        AnswerRows(answer_, nonfinite::kOverflowGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMPS", &options_.dumps, "Folder with overflow records and kernel dumps",
                     OrFlag{"--input"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe parse overflow dump/step0", "the kernel that overflowed, and its line of code"},
        {"msprobe parse overflow -d dump/step0 -n 5 -o out",
         "the first five, also as overflow_summary_<time>.txt"}};
  }

  std::string notes() const override { return FailOnHelp(nonfinite::kOverflowGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const nonfinite::OverflowFindings findings,
                         nonfinite::FindOverflows(options_));
    report::Document document = nonfinite::MakeDocument(findings);
    document.command = title_;
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  const std::string title_;
  analysis::nonfinite::OverflowOptions options_;
  AnswerFlags answer_;
};

// pk: calls of an old record.
class ParsePkCommand final : public Command {
 public:
  ParsePkCommand()
      : Command("pk", "Show the stack and the tensors of a call in a .pkl record of old dumps") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--file -f", "FILE", &file_, "Record of calls, a JSON list in each line (.pkl)",
             kPython811),
        Group::kSelection,
        Text("--name -n", "TEXT", &call_, "How the name of the call begins", kPython811, kRequired),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("FILE", &file_, "Record of calls", OrFlag{"--file"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse pk -f api_stack_dump.pkl -n Functional_conv2d_1",
             "where the call was made, and its tensors"}};
  }

  Result<ExitCode> Run(const Context&) override {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> lines, dumps::DescribeCalls(file_, call_));
    MSP_RETURN_IF_ERROR(PrintUntrusted(base::Join(lines, "\n") + "\n"));
    return ExitCode::kDone;
  }

 private:
  std::filesystem::path file_;
  std::string call_;
};

// pt: one array.
class ParsePtCommand final : public Command {
 public:
  ParsePtCommand()
      : Command("pt",
                "Show a .npy file: shape, range, first elements; all of them go to a text file") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--name -n", "FILE", &file_, "A .npy file", kPython811),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("FILE", &file_, "A .npy file", OrFlag{"--name"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse pt -n arrays/MatMul.x.4.1.17.output.0.npy",
             "its range and first elements"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_ASSIGN_OR_RETURN(const dumps::ArrayView view, dumps::ViewArray(file_));
    MSP_RETURN_IF_ERROR(
        Print(fmt::format("{}\nPath: {}\nTextFile: {}\n{}", view.facts, file_.string(),
                          view.text_file.string(), TableText(view.table, context))));
    return ExitCode::kDone;
  }

 private:
  std::filesystem::path file_;
};

// vc: two folders of converted dumps.
class ParseVcCommand final : public Command {
 public:
  ParseVcCommand()
      : Command("vc", "Compare two folders of converted kernel dumps array by array") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--my-dump-path -m", "DIR", &target_, "Test folder, as cad makes it", kPython811),
        Path("--golden-dump-path -g", "DIR", &golden_, "Folder to compare it with", kPython811),
        VendorToolFlag("--msaccucmp-path -cmp_path", vendor_tool_),
        ResultsFlag(output_, "Folder for batch_compare_<time>.csv",
                    std::string(kResults) + "/batch_compare_result"),
        ForceFlag(),
    };
  }

  std::vector<Positional> positionals() override {
    return {
        Argument("FOLDER", &target_, "Test folder, as cad makes it", OrFlag{"--my-dump-path"}),
        Argument("REFERENCE", &golden_, "Folder to compare it with", OrFlag{"--golden-dump-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe parse vc -m npu_arrays -g gpu_arrays", "one row per pair of arrays"}};
  }

  Result<ExitCode> Run(const Context& context) override {
    for (const std::filesystem::path& folder : {target_, golden_}) {
      if (!base::IsFolder(folder)) {
        return NotFoundError(fmt::format("{}: no such folder", folder.string()));
      }
      if (!dumps::HoldsOnlyArrays(folder)) {
        return UnsupportedError(fmt::format("{} holds other files than arrays", folder.string()))
            .WithHint("cad converts kernel dumps first: parse cad -m DUMPS -out ARRAYS");
      }
    }
    const std::filesystem::path output =
        output_.empty() ? std::filesystem::path(kResults) / "batch_compare_result" : output_;
    MSP_ASSIGN_OR_RETURN(const dumps::BatchComparison comparison,
                         dumps::CompareArrayFolders(target_, golden_, output));
    if (!context.quiet) {
      const auto differing =
          std::count_if(comparison.rows.begin(), comparison.rows.end(),
                        [](const dumps::BatchRow& row) { return !row.same_bytes; });
      const std::string counts = fmt::format(
          "{} compared, {} differ", base::Plural(comparison.rows.size(), "pair"), differing);
      MSP_RETURN_IF_ERROR(Print(report::InLanguage(counts, context.language) + "\n" +
                                comparison.table.string() + "\n"));
    }
    return ExitCode::kDone;
  }

 private:
  std::filesystem::path target_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
  std::filesystem::path vendor_tool_;
};

}  // namespace

std::unique_ptr<Command> MakeParseOverflow(std::string title) {
  return std::make_unique<ParseOverflowCommand>(std::move(title));
}

namespace {

// In the order of their names.
void AddTools(Command& command) {
  command.Add(std::make_unique<ParseCadCommand>());
  command.Add(std::make_unique<ParseCnCommand>());
  command.Add(std::make_unique<ParseDcCommand>());
  command.Add(MakeParseOverflow("parse overflow"));
  command.Add(std::make_unique<ParsePkCommand>());
  command.Add(std::make_unique<ParsePtCommand>());
  command.Add(std::make_unique<ParseVcCommand>());
}

constexpr size_t kLongestLine = size_t{1} << 20U;

// libedit's interface of readline knows one set of words, for the whole process.
const std::vector<std::string>* offered_words = nullptr;

// Called again and again for one beginning of a word; the result is freed by the library.
char* OfferWord(const char* begin, int again) {
  static size_t next = 0;
  if (again == 0) {
    next = 0;
  }
  while (offered_words != nullptr && next < offered_words->size()) {
    const std::string& word = (*offered_words)[next++];
    if (word.compare(0, std::strlen(begin), begin) == 0) {
      return ::strdup(word.c_str());
    }
  }
  return nullptr;
}

template <typename Function>
void Look(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// Editing is libedit's (BSD licence), opened while running: where the host has none, lines are read
// as the terminal gives them. What comes through a pipe is read without either, and no prompt is
// shown.
class LineEditor {
 public:
  // `words` are offered at the tabulator key.
  LineEditor(std::string prompt, std::vector<std::string> words);
  // The library stays: it has hooks at the end of the process.
  ~LineEditor() { offered_words = nullptr; }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool is_terminal() const { return is_terminal_; }
  // The next line without its end; nothing at the end of the input.
  std::optional<std::string> Next();

 private:
  std::optional<std::string> PlainLine();

  std::string prompt_;
  bool is_terminal_ = false;
  void* library_ = nullptr;
  char* (*read_)(const char*) = nullptr;
  int (*remember_)(const char*) = nullptr;
};

LineEditor::LineEditor(std::string prompt, std::vector<std::string> words)
    : prompt_(std::move(prompt)),
      is_terminal_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
  static std::vector<std::string> kept;
  kept = std::move(words);
  offered_words = &kept;
  if (!is_terminal_) {
    return;
  }
  for (const char* name : {"libedit.so.2", "libedit.so.0", "libedit.so"}) {
    library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) {
      break;
    }
  }
  if (library_ == nullptr) {
    return;
  }
  Look(library_, "readline", read_);
  Look(library_, "add_history", remember_);
  if (void* const entry = ::dlsym(library_, "rl_completion_entry_function"); entry != nullptr) {
    *static_cast<char* (**)(const char*, int)>(entry) = &OfferWord;
  }
}

std::optional<std::string> LineEditor::PlainLine() {
  if (is_terminal_) {
    std::fputs(prompt_.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string line;
  int c = 0;
  while ((c = std::fgetc(stdin)) != EOF && c != '\n') {
    if (line.size() < kLongestLine) {
      line.push_back(static_cast<char>(c));
    }
  }
  if (c == EOF && line.empty()) {
    return std::nullopt;
  }
  return line;
}

std::optional<std::string> LineEditor::Next() {
  if (read_ == nullptr) {
    return PlainLine();
  }
  char* const typed = read_(prompt_.c_str());
  if (typed == nullptr) {
    return std::nullopt;
  }
  std::string line(typed);
  std::free(typed);
  if (!line.empty() && remember_ != nullptr) {
    remember_(line.c_str());
  }
  return line;
}

// Words as a shell cuts them: blanks separate, quotes of both kinds and backslashes hold together.
// Nothing when a quote does not end.
std::optional<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < line.size() &&
                 (line[i + 1] == '"' || line[i + 1] == '\\')) {
        word.push_back(line[++i]);
      } else {
        word.push_back(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word.push_back(line[++i]);
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (in_word) {
        words.push_back(std::exchange(word, {}));
      }
      in_word = false;
    } else {
      word.push_back(c);
      in_word = true;
    }
  }
  if (quote != 0) {
    return std::nullopt;
  }
  if (in_word) {
    words.push_back(std::move(word));
  }
  return words;
}

// The commands of `msprobe parse`, one in a line.

constexpr const char* kPrompt = "Parse >>> ";

// A program of its own, whose commands are the tools; made anew for every line, so that no value
// stays from the line before.
class ParseProgram final : public CommandGroup {
 public:
  ParseProgram() : CommandGroup("parse", "Tools for kernel dumps, one in a line; exit ends") {
    AddTools(*this);
  }
};

// Runs one line. An error has not been reported yet.
Result<ExitCode> RunLine(const std::vector<std::string>& words, const Context& outer) {
  ParseProgram program;
  ParsedLine line = ParseArguments(program, words);
  Command& command = *line.path.back();
  if ((line.general.help && line.status.ok()) || command.is_group()) {
    if (!line.status.ok()) {
      return line.status;
    }
    MSP_RETURN_IF_ERROR(Print(HelpText(line.path, outer.width, outer.language)));
    return ExitCode::kDone;
  }
  MSP_RETURN_IF_ERROR(std::move(line.status));
  MSP_RETURN_IF_ERROR(std::move(line.paths));
  Context context = outer;
  context.quiet = outer.quiet || line.general.quiet;
  context.typed = std::move(line.typed);
  base::SetExistingFiles(context.Given(ForceFlag().name) ? base::Existing::kReplace
                                                         : base::Existing::kRefuse);
  Result<ExitCode> outcome = command.Run(context);
  if (!outcome.ok()) {
    return NameMissingInput(line.path, std::move(outcome).status());
  }
  return outcome;
}

// Until the input ends or somebody types `exit`. A command that fails is reported and the next one
// is read; kFailed when one did.
Result<ExitCode> RunParseShell(const Context& context) {
  const std::vector<std::string> names = SubcommandNames(ParseProgram());
  LineEditor editor(kPrompt, names);
  if (editor.is_terminal() && !context.quiet) {
    const std::string greeting = fmt::format(
        "Commands: {}. help and help COMMAND explain, exit ends.", base::Join(names, ", "));
    MSP_RETURN_IF_ERROR(Print(report::InLanguage(greeting, context.language) + "\n"));
  }
  ExitCode code = ExitCode::kDone;
  while (std::optional<std::string> line = editor.Next()) {
    std::optional<std::vector<std::string>> words = SplitWords(*line);
    if (!words) {
      base::LogError("a quote that does not end");
      code = ExitCode::kFailed;
      continue;
    }
    if (words->empty() || words->front().starts_with('#')) {
      continue;
    }
    if (words->front() == "exit" || words->front() == "quit") {
      break;
    }
    if (words->front() == "help" || words->front() == "?") {  // "help dc" is "dc --help"
      const bool is_of_tool = words->size() > 1;
      *words = {is_of_tool ? (*words)[1] : "--help"};
      if (is_of_tool && base::IsOneOf(words->front(), names)) {
        words->emplace_back("--help");
      }
    }
    const Result<ExitCode> outcome = RunLine(*words, context);
    if (!outcome.ok()) {
      LogStatus(outcome.status());
    }
    if (!outcome.ok() || *outcome != ExitCode::kDone) {
      code = ExitCode::kFailed;
    }
  }
  return code;
}

namespace dumps = analysis::kernel_dump;

constexpr const char* kParseNotes =
    R"(Without a dump, `msprobe parse` reads commands line by line: at a terminal with a prompt and a history,
otherwise from the standard input. They are the commands below, and `help`; `exit` or the end of the input ends it. Exit code 3: one of them failed.)";

// msprobe parse: what an Ascend device dumps below the framework, as arrays.
class ParseCommand final : public Command {
 public:
  ParseCommand()
      : Command("parse",
                "Convert kernel dumps, overflow records and ATB dumps of Ascend to .npy or .pt") {
    AddTools(*this);
    options_.kind = dumps::ArrayFile::kPt;
  }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input -d --dump_path", "PATH", &dump_, "The same as DUMP", kPython26),
        Group::kSelection,
        Text("--filter", "PATTERN", &options_.filter, "Files whose names match: \"MatMul.*\""),
        Number("--input-number", "N", &options_.input, "The input with this number alone",
               kNotNegative),
        Number("--output-number", "N", &options_.output_number, "The output with this number alone",
               kNotNegative),
        Group::kMethod,
        Text("--layout", "NAME", &options_.format,
             "Layout of the arrays: ND, NCHW, NHWC, HWCN, CHWN, NCDHW, NDHWC, DHWCN or DHWNC",
             Default{"that of the device"}, Excludes{"--to-original"}),
        Switch("--to-original", &options_.to_original,
               "Every tensor in the layout and shape that the framework knows"),
        Number("--shape -s", "N,N,...", &shape_, "Shape to cut the padding down to", kNotNegative,
               kSeparatedByCommas, Default{"what the file tells"}, Needs{"--layout"}),
        Group::kOutput,
        Choice("--type -t", "NAME", &options_.kind,
               {{"npy", dumps::ArrayFile::kNpy},
                {"pt", dumps::ArrayFile::kPt},
                {"bin", dumps::ArrayFile::kBin}},
               "What to write", kPython26),
        OutputFolderFlag(options_.output, "Folder for the arrays", {"--output_path"}),
        Switch("--index", &options_.index,
               "Also write parse_index.csv: what was made of which tensor"),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &dump_, "A dump file, or a folder, searched recursively",
                     OrFlag{"--input"}, kOrNeither)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe parse dump/step0 -t npy -o arrays",
         "all dumps of a step, in the device's layouts"},
        {"msprobe parse dump/step0 --to-original -t npy -o arrays --index",
         "the same as the framework sees them, with a table"},
        {"msprobe parse overflow -d dump/step0", "which operator overflowed"},
        {"echo 'dc -n dump/step0 -f ND' | msprobe -f pytorch parse", "commands from a script"},
    };
  }

  std::string notes() const override { return kParseNotes; }

  Result<ExitCode> Run(const Context& context) override {
    if (dump_.empty()) {
      base::SetSharing({});  // whoever types commands types them for one process
      return RunParseShell(context);
    }
    options_.inputs = {dump_};
    if (!shape_.empty()) {
      options_.shape = shape_;
    }
    // Reported once, not for every tensor.
    MSP_RETURN_IF_ERROR(PrepareResults(options_.output, "./output"));
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const dumps::Findings findings, dumps::Run(options_));
    if (!findings.reports) {
      return ExitCode::kDone;
    }
    // The answer may go to a file, or nowhere: what failed is reported where errors are looked for.
    if (const uint64_t failed = findings.failed_files(); failed > 0) {
      base::LogError(base::Printable(findings.FirstFailure()));
      if (failed > 1) {
        base::LogHint(
            fmt::format("{} could not be converted whole; the answer names each tensor and why",
                        base::Plural(failed, "file")));
      }
    }
    report::Document document = dumps::MakeDocument(findings, options_.output);
    document.seconds = watch.seconds();
    document.warnings.insert(document.warnings.end(), findings.missing.begin(),
                             findings.missing.end());
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  std::filesystem::path dump_;
  std::vector<int64_t> shape_;
  analysis::kernel_dump::Options options_;
  AnswerFlags answer_;
};

class CodeMappingCommand final : public Command {
 public:
  CodeMappingCommand()
      : Command("code_mapping", "Find the lines of code behind the dump of a MindSpore graph") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--ir", "FILE", &options_.ir, "Text of the graph, as MindSpore saves it (save_graphs)",
             kPython811, kRequired),
        Path("--dump-data", "PATH", &options_.dump_data, "The same as DUMP", kPython811),
        OutputFolderFlag(options_.output, "Folder of code_mapping_<time>.csv", {"--output_path"}),
        ForceFlag(),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &options_.dump_data,
                     "Folder of the dump, or one of its .npy files or statistic.csv",
                     OrFlag{"--dump-data"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe -f mindspore code_mapping --ir graph.ir --dump_data dump/rank_0 --output lines",
         "a row per dump file with its lines of code"}};
  }

  std::string notes() const override {
    return "Where the folder has no .npy files, every statistic.csv in it gets the columns Code "
           "Stack and Scope Name.";
  }

  Result<ExitCode> Run(const Context& context) override {
    if (options_.output.empty()) {
      options_.output = "./";
    }
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_ASSIGN_OR_RETURN(const analysis::kernel_dump::CodeMapping mapping,
                         analysis::kernel_dump::MapCode(options_));
    return EmitReport(analysis::kernel_dump::MakeDocument(mapping), answer_, context);
  }

 private:
  analysis::kernel_dump::CodeMappingOptions options_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeParse() { return std::make_unique<ParseCommand>(); }
std::unique_ptr<Command> MakeCodeMapping() { return std::make_unique<CodeMappingCommand>(); }

}  // namespace msprobe::commands
