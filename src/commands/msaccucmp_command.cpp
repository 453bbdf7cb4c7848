#include "src/commands/msaccucmp_command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/array_compare.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/parse_tools.h"

namespace msprobe::commands {
namespace {

namespace dumps = analysis::kernel_dump;

constexpr const char* kConvertNotes =
    R"(Exit codes beyond 0, 2 and 3 are those of msaccucmp.py, that of the last failure: 11 damaged dump,
12 no such tensor, 22 layout, 23 shape. convert_failed_file_list.txt names what failed.)";

VendorCode LastFailure(const dumps::Findings& findings) {
  VendorCode code = VendorCode::kDone;
  for (const dumps::FileResult& file : findings.files) {
    if (!file.status.ok()) {
      code = VendorCodeOf(file.status);
    }
    for (const dumps::Converted& part : file.parts) {
      if (!part.status.ok()) {
        code = VendorCodeOf(part.status);
      }
    }
  }
  return code;
}

}  // namespace

VendorCode VendorCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return VendorCode::kDone;
    case StatusCode::kNotFound:
      return VendorCode::kIndexOutOfBounds;
    case StatusCode::kIo:
      return VendorCode::kPath;
    case StatusCode::kUnsupported:
      return VendorCode::kBadFormat;
    case StatusCode::kMismatch:
      return VendorCode::kBadShape;
    default:
      return VendorCode::kBadDump;
  }
}

std::vector<Positional> MsaccucmpConvertCommand::positionals() {
  return {{.name = "DUMP", .fills = &argument_, .help = "Kernel dump, or a folder of them"}};
}

std::vector<Flag> MsaccucmpConvertCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--dump-file",
       .letter = "-d",
       .aliases = {"--dump_path"},
       .type = "PATH,PATH",
       .fills = &dumps_,
       .separator = ',',
       .group = Group::kInput,
       .help = "Kernel dumps, or a folder of them",
       .since = kPython26},
      {.name = "--input-tensor",
       .letter = "-i",
       .type = "N",
       .fills = &options_.input,
       .bounds = kNotNegative,
       .group = Group::kSelection,
       .help = "The input with this number alone; of files, with -f",
       .since = kPython26,
       .excludes = "--output-tensor"},
      {.name = "--output-tensor",
       .letter = "-o",
       .type = "N",
       .fills = &options_.output_number,
       .bounds = kNotNegative,
       .group = Group::kSelection,
       .help = "The output with this number alone; of files, with -f",
       .since = kPython26},
      {.name = "--format",
       .letter = "-f",
       .type = "NAME",
       .fills = &options_.format,
       .help = "Layout of the arrays: ND, NCHW, NHWC, HWCN, NCDHW and others",
       .default_text = "that of the device",
       .since = kPython26},
      {.name = "--shape",
       .letter = "-s",
       .type = "N,N,...",
       .fills = &shape_,
       .bounds = kNotNegative,
       .separator = ',',
       .help = "Shape to cut the padding down to; of files, with -f",
       .default_text = "what the file tells",
       .since = kPython26},
      {.name = "--type",
       .letter = "-t",
       .type = "NAME",
       .fills = &kind_,
       .values = {"npy", "bin", "msnpy", "pt"},
       .group = Group::kOutput,
       .help = "What to write; msnpy: .npy with the names that MindSpore gives",
       .since = kPython26},
      {.name = "--output",
       .aliases = {"-out"},
       .type = "DIR",
       .fills = &options_.output,
       .group = Group::kOutput,
       .help = "Folder for the arrays",
       .default_text = ".",
       .since = kPython26},
      ForceFlag(),
      ThreadsFlag(options_.threads),
      {.name = "--custom-script-path",
       .letter = "-c",
       .type = "DIR",
       .fills = &script_,
       .help = "Refused: no code is run from files",
       .since = kPython26,
       .hidden = true},
      {.name = "--version",
       .letter = "-v",
       .type = "N",
       .fills = &version_,
       .values = {"1", "2"},
       .help = "Accepted: files tell their own version",
       .since = kPython26,
       .hidden = true},
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> MsaccucmpConvertCommand::examples() const {
  return {
      {"msprobe msaccucmp convert -d dump/step0/0 -out arrays", "in the layouts of the device"},
      {"msprobe msaccucmp convert -d MatMul.x.4.1.1700000000001004 -f ND -s 20,37 -o 0 -out arrays",
       "one matrix as rows and columns"}};
}

std::string MsaccucmpConvertCommand::notes() const { return kConvertNotes; }

Status MsaccucmpConvertCommand::FillOptions(const Context& context) {
  if (!script_.empty()) {
    return UnsupportedError("-c: conversions written in Python are not run")
        .WithHint("every layout that a kernel dump names is built in: see parse --help");
  }
  if (dumps_.empty()) {
    std::filesystem::path dump;
    MSP_RETURN_IF_ERROR(TakePath(argument_, "DUMP", "--dump-file", dump));
    options_.inputs.push_back(std::move(dump));
  } else if (!argument_.empty()) {
    return UsageError("DUMP and --dump-file name dumps twice");
  }
  for (const std::string& dump : dumps_) {
    options_.inputs.emplace_back(dump);
  }
  const bool is_folder = std::any_of(options_.inputs.begin(), options_.inputs.end(),
                                     [](const auto& path) { return base::IsFolder(path); });
  for (const char* flag : {"--input-tensor", "--output-tensor", "--shape"}) {
    if (context.Given(flag) && options_.format.empty()) {
      return UsageError(fmt::format("{} needs -f", context.typed.find(flag)->second));
    }
    if (context.Given(flag) && is_folder) {
      base::LogWarning(fmt::format("{} is left out for a folder: it means one tensor of one file",
                                   context.typed.find(flag)->second));
    }
  }
  if (is_folder) {
    options_.input.reset();
    options_.output_number.reset();
    shape_.clear();
  }
  if (!shape_.empty()) {
    options_.shape = shape_;
  }
  options_.kind = kind_ == "bin"  ? dumps::ArrayFile::kBin
                  : kind_ == "pt" ? dumps::ArrayFile::kPt
                                  : dumps::ArrayFile::kNpy;
  options_.names = kind_ == "msnpy" ? dumps::ArrayNames::kMindSpore : dumps::ArrayNames::kVendor;
  if (options_.output.empty()) {
    options_.output = ".";
  }
  return {};
}

Result<ExitCode> MsaccucmpConvertCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(FillOptions(context));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_RETURN_IF_ERROR(base::CheckWritable(options_.output));
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(dumps::Findings findings, dumps::Run(options_));
  OwnForms own;
  if (findings.failed_files() > 0) {
    base::LogError(base::Printable(findings.FirstFailure()));
    MSP_ASSIGN_OR_RETURN(std::filesystem::path list,
                         dumps::WriteFailedList(options_.output, findings));
    findings.written_beside.push_back(std::move(list));
    own.exit_code = static_cast<int>(LastFailure(findings));
  }
  report::Document document = dumps::MakeDocument(findings, options_.output);
  document.command = "msaccucmp convert";
  document.seconds = watch.seconds();
  return GiveAnswer(std::move(document), answer_, context, own);
}

std::vector<Positional> MsaccucmpFileCompareCommand::positionals() {
  return {{.name = "FILE", .fills = &argument_, .help = "The .npy file under test"},
          {.name = "REFERENCE", .fills = &reference_, .help = "The file to compare it with"}};
}

std::vector<Flag> MsaccucmpFileCompareCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--my-dump-path",
       .letter = "-m",
       .type = "FILE",
       .fills = &mine_,
       .group = Group::kInput,
       .help = "The .npy file under test",
       .since = kPython26},
      {.name = "--golden-dump-path",
       .letter = "-g",
       .type = "FILE",
       .fills = &golden_,
       .group = Group::kInput,
       .help = "The reference",
       .since = kPython26},
      ResultsFlag(output_, "Folder of file_result_<time>.txt", ".", kPython26),
      ForceFlag()};
  AddAnswerFlags(flags, answer_, dumps::kVectorGateLevels);
  return flags;
}

std::vector<Example> MsaccucmpFileCompareCommand::examples() const {
  return {{"msprobe msaccucmp file_compare -m npu.npy -g gpu.npy -out result",
           "also as result/file_result_<time>.txt"}};
}

std::string MsaccucmpFileCompareCommand::notes() const {
  return FailOnHelp(dumps::kVectorGateLevels);
}

Result<ExitCode> MsaccucmpFileCompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(TakePath(argument_, "FILE", "--my-dump-path", mine_));
  MSP_RETURN_IF_ERROR(TakePath(reference_, "REFERENCE", "--golden-dump-path", golden_));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  if (output_.empty()) {
    output_ = ".";
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(output_));
  MSP_RETURN_IF_ERROR(base::CheckWritable(output_));
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(const dumps::FileComparison comparison,
                       dumps::CompareArrayFiles(mine_, golden_, output_));
  report::Document document = dumps::MakeDocument(comparison);
  document.seconds = watch.seconds();
  OwnForms own;
  if (!comparison.status.ok()) {
    base::LogError(
        base::Printable(fmt::format("{}: {}", mine_.string(), comparison.status.message())));
    own.exit_code = static_cast<int>(VendorCodeOf(comparison.status));
  }
  return GiveAnswer(std::move(document), answer_, context, own);
}

MsaccucmpCommand::MsaccucmpCommand() {
  commands_.push_back(std::make_unique<MsaccucmpCompareCommand>());
  commands_.push_back(std::make_unique<MsaccucmpConvertCommand>());
  commands_.push_back(std::make_unique<MsaccucmpFileCompareCommand>());
  commands_.push_back(std::make_unique<ParseOverflowCommand>("msaccucmp overflow"));
}

std::vector<Example> MsaccucmpCommand::examples() const {
  return {{"msprobe msaccucmp compare -m npu_dump -g gpu_dump -out result",
           "result/result_<time>.csv: ten measures per tensor"}};
}

std::vector<Command*> MsaccucmpCommand::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : commands_) {
    commands.push_back(command.get());
  }
  return commands;
}

}  // namespace msprobe::commands
