#include "src/commands/parse_tools.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/call_record.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/nonfinite/overflow.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/print.h"
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

Status TellFailures(const dumps::Findings& findings) {
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
Result<ExitCode> TellConverted(const dumps::Findings& findings, const Context& context) {
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
  MSP_RETURN_IF_ERROR(TellFailures(findings));
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

}  // namespace

Flag ResultsFlag(std::filesystem::path& folder, std::string help, std::string default_text,
                 Since since) {
  return Path("--output -o -out --output_path", "DIR", &folder, std::move(help),
              Default{std::move(default_text)}, since, Group::kOutput);
}

std::vector<Positional> ParseCadCommand::positionals() {
  return {Argument("DUMPS", &dumps_, "Folder of kernel dumps", OrFlag{"--my-dump-path"})};
}

FlagTable ParseCadCommand::flags() {
  return {
      Group::kInput,
      Path("--my-dump-path -m", "DIR", &dumps_, "Folder of kernel dumps", kPython811),
      VendorToolFlag("--msaccucmp-path -asc", vendor_tool_),
      ResultsFlag(output_, "Folder for the arrays",
                  std::string(kResults) + "/batch_dump_convert/<time>"),
      ForceFlag(),
  };
}

std::vector<Example> ParseCadCommand::examples() const {
  return {{"msprobe parse cad -m dump/step0 -out arrays",
           "arrays/<operator>/<time>/*.npy, which vc compares"}};
}

Result<ExitCode> ParseCadCommand::Run(const Context& context) {
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
  return TellConverted(all, context);
}

std::vector<Positional> ParseCnCommand::positionals() {
  return {Argument("FILE", &options_.left, "The .npy file under test", OrFlag{"--my-dump-path"}),
          Argument("REFERENCE", &options_.right, "The .npy file to compare it with",
                   OrFlag{"--golden-dump-path"})};
}

FlagTable ParseCnCommand::flags() {
  return {
      Group::kInput,
      Path("--my-dump-path -m", "FILE", &options_.left, "The .npy file under test", kPython811),
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

std::vector<Example> ParseCnCommand::examples() const {
  return {{"msprobe parse cn -m npu.npy -g gpu.npy -p 5", "the first five elements that differ"}};
}

Result<ExitCode> ParseCnCommand::Run(const Context& context) {
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

std::vector<Positional> ParseDcCommand::positionals() {
  return {Argument("DUMP", &dump_, "Kernel dump, or a folder of them", OrFlag{"--name"})};
}

FlagTable ParseDcCommand::flags() {
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

std::vector<Example> ParseDcCommand::examples() const {
  return {{"msprobe parse dc -n MatMul.x.4.1.1700000000001004 -f ND -out arrays",
           "matrices of a MatMul as plain rows and columns"}};
}

Result<ExitCode> ParseDcCommand::Run(const Context& context) {
  options_.inputs = {dump_};
  if (options_.output.empty()) {
    options_.output = std::filesystem::path(kResults) / "dump_convert";
  }
  MSP_ASSIGN_OR_RETURN(const dumps::Findings findings, dumps::Run(options_));
  return TellConverted(findings, context);
}

std::vector<Positional> ParseOverflowCommand::positionals() {
  return {Argument("DUMPS", &options_.dumps, "Folder with overflow records and kernel dumps",
                   OrFlag{"--input"})};
}

FlagTable ParseOverflowCommand::flags() {
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

std::vector<Example> ParseOverflowCommand::examples() const {
  return {{"msprobe parse overflow dump/step0", "the kernel that overflowed, and its line of code"},
          {"msprobe parse overflow -d dump/step0 -n 5 -o out",
           "the first five, also as overflow_summary_<time>.txt"}};
}

std::string ParseOverflowCommand::notes() const {
  return FailOnHelp(nonfinite::kOverflowGateLevels);
}

Result<ExitCode> ParseOverflowCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const nonfinite::OverflowFindings findings,
                       nonfinite::FindOverflows(options_));
  report::Document document = nonfinite::MakeDocument(findings);
  document.command = title_;
  return GiveAnswer(std::move(document), answer_, context);
}

std::vector<Positional> ParsePkCommand::positionals() {
  return {Argument("FILE", &file_, "Record of calls", OrFlag{"--file"})};
}

FlagTable ParsePkCommand::flags() {
  return {
      Group::kInput,
      Path("--file -f", "FILE", &file_, "Record of calls, a JSON list in each line (.pkl)",
           kPython811),
      Group::kSelection,
      Text("--name -n", "TEXT", &call_, "How the name of the call begins", kPython811, kRequired),
  };
}

std::vector<Example> ParsePkCommand::examples() const {
  return {{"msprobe parse pk -f api_stack_dump.pkl -n Functional_conv2d_1",
           "where the call was made, and its tensors"}};
}

Result<ExitCode> ParsePkCommand::Run(const Context&) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> lines, dumps::DescribeCalls(file_, call_));
  MSP_RETURN_IF_ERROR(PrintUntrusted(base::Join(lines, "\n") + "\n"));
  return ExitCode::kDone;
}

std::vector<Positional> ParsePtCommand::positionals() {
  return {Argument("FILE", &file_, "A .npy file", OrFlag{"--name"})};
}

FlagTable ParsePtCommand::flags() {
  return {
      Group::kInput,
      Path("--name -n", "FILE", &file_, "A .npy file", kPython811),
  };
}

std::vector<Example> ParsePtCommand::examples() const {
  return {
      {"msprobe parse pt -n arrays/MatMul.x.4.1.17.output.0.npy", "its range and first elements"}};
}

Result<ExitCode> ParsePtCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const dumps::ArrayView view, dumps::ViewArray(file_));
  MSP_RETURN_IF_ERROR(
      Print(fmt::format("{}\nPath: {}\nTextFile: {}\n{}", view.facts, file_.string(),
                        view.text_file.string(), TableText(view.table, context))));
  return ExitCode::kDone;
}

std::vector<Positional> ParseVcCommand::positionals() {
  return {
      Argument("FOLDER", &target_, "Folder under test, as cad makes it", OrFlag{"--my-dump-path"}),
      Argument("REFERENCE", &golden_, "Folder to compare it with", OrFlag{"--golden-dump-path"})};
}

FlagTable ParseVcCommand::flags() {
  return {
      Group::kInput,
      Path("--my-dump-path -m", "DIR", &target_, "Folder under test, as cad makes it", kPython811),
      Path("--golden-dump-path -g", "DIR", &golden_, "Folder to compare it with", kPython811),
      VendorToolFlag("--msaccucmp-path -cmp_path", vendor_tool_),
      ResultsFlag(output_, "Folder for batch_compare_<time>.csv",
                  std::string(kResults) + "/batch_compare_result"),
      ForceFlag(),
  };
}

std::vector<Example> ParseVcCommand::examples() const {
  return {{"msprobe parse vc -m npu_arrays -g gpu_arrays", "one row per pair of arrays"}};
}

Result<ExitCode> ParseVcCommand::Run(const Context& context) {
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
    MSP_RETURN_IF_ERROR(Print(fmt::format("{} compared, {} differ\n{}\n",
                                          base::Plural(comparison.rows.size(), "pair"), differing,
                                          comparison.table.string())));
  }
  return ExitCode::kDone;
}

std::vector<std::unique_ptr<Command>> ParseTools() {
  std::vector<std::unique_ptr<Command>> tools;
  tools.push_back(std::make_unique<ParseCadCommand>());
  tools.push_back(std::make_unique<ParseCnCommand>());
  tools.push_back(std::make_unique<ParseDcCommand>());
  tools.push_back(std::make_unique<ParseOverflowCommand>());
  tools.push_back(std::make_unique<ParsePkCommand>());
  tools.push_back(std::make_unique<ParsePtCommand>());
  tools.push_back(std::make_unique<ParseVcCommand>());
  return tools;
}

}  // namespace msprobe::commands
