// msprobe msaccucmp: the command lines of the vendor's comparison tool, msaccucmp.py, for scripts
// that call it.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/array_compare.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

// Exit codes of the vendor's tool for work that was done in part. What ends a command at once has
// the codes of this program, of which 2 (command line) and 3 (path) are the same there.
enum class VendorCode : int {
  kDone = 0,
  kNoDumpFile = 2,
  kPath = 3,  // also what cannot be written, for which the vendor has 19
  kBadDump = 11,
  kIndexOutOfBounds = 12,
  kBadFormat = 22,
  kBadShape = 23,
};
VendorCode VendorCodeOf(const Status& status);

// convert: dumps to arrays.

// compare: two folders of dumps, or one operator of them.

// file_compare: two arrays.

namespace dumps = analysis::kernel_dump;

constexpr const char* kVectorCompareNotes =
    R"(Measures: 0 CosineSimilarity, 1 MaxAbsoluteError, 2 AccumulatedRelativeError, 3 RelativeEuclideanDistance,
4 KullbackLeiblerDivergence, 5 StandardDeviation, 6 MeanAbsoluteError, 7 RootMeanSquareError, 8 MaxRelativeError,
9 MeanRelativeError. A tensor counts as good with a cosine above 0.99, a relative distance below 0.05, a divergence
below 0.005, a root mean square error and a mean relative error below 1.

Exit codes beyond 0 to 3 are those of msaccucmp.py, that of the last operator that could not be compared: 2 no partner,
11 damaged dump or no tensor that fits.

)";

// A flag of the vendor's tool that is accepted or refused; `alias` alone is its short spelling.
Flag NotOurs(std::string_view name, std::string alias, std::string_view value, Target fills,
             std::string help) {
  Flag flag = Row(name, value, std::move(fills), std::move(help), kPython26, kHidden);
  flag.aliases = {std::move(alias)};
  return flag;
}

// "0,MaxAbsoluteError"; none for "all". kUsage for an unknown name.
Result<std::vector<dumps::Measure>> MeasuresOf(const std::string& text) {
  std::vector<dumps::Measure> measures;
  if (text == "all") {
    return measures;
  }
  for (const std::string_view part : base::Split(text, ',')) {
    const std::optional<dumps::Measure> measure = dumps::FindMeasure(base::Trim(part));
    if (!measure) {
      return UsageError(fmt::format("--algorithm: \"{}\" is not one of the ten measures", part))
          .WithHint(
              "their names and numbers are in the help; measures written in Python are not run");
    }
    measures.push_back(*measure);
  }
  return measures;
}

VendorCode LastFailure(const dumps::VectorFindings& findings) {
  VendorCode code = VendorCode::kDone;
  // An operator that was compared in part counts as compared, as in the vendor's tool.
  for (size_t i = 0; i < findings.rows.size();) {
    size_t end = i;
    bool compared = false;
    const Status* failure = nullptr;
    for (; end < findings.rows.size() && findings.rows[end].index == findings.rows[i].index;
         ++end) {
      compared = compared || findings.rows[end].measures.has_value();
      failure = findings.rows[end].status.ok() ? failure : &findings.rows[end].status;
    }
    if (!compared && failure != nullptr) {
      code = failure->code() == StatusCode::kNotFound && findings.rows[i].tensor.empty()
                 ? VendorCode::kNoDumpFile
                 : VendorCode::kBadDump;
    }
    i = end;
  }
  return code;
}

class MsaccucmpCompareCommand final : public Command {
 public:
  MsaccucmpCompareCommand()
      : Command("compare",
                "Compare kernel dumps operator by operator with ten measures, or one operator "
                "element by element") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--my-dump-path -m", "PATH", &options_.mine, "Kernel dumps of the test", kPython26),
        Path("--golden-dump-path -g", "PATH", &options_.golden,
             "Reference: kernel dumps, or arrays {op_name}.{output}.{time}.npy", kPython26),
        Path("--fusion-rule-file -f", "FILE", &options_.fusion_rules.network,
             "Graph of the compiled model as JSON: which operators of the reference its own ones "
             "were fused from",
             kPython26),
        Path("--quant-fusion-rule-file", "FILE", &options_.fusion_rules.quantised,
             "Like --fusion-rule-file, for the quantised model; applied after it", kPython26),
        Path("--close-fusion-rule-file -cf", "FILE", &options_.fusion_rules.reference,
             "The same of the reference, where it is a compiled model, too", kPython26),
        Group::kSelection,
        Text("--op-name -op", "NAME", &elements_.op_name, "Only this operator, element by element",
             kPython26),
        Number("--input-tensor -i", "N", &input_, "With -op: the input with this number",
               kNotNegative, kPython26, Needs{"--op-name"}, Excludes{"--output-tensor"}),
        Number("--output-tensor -o", "N", &output_number_, "With -op: the output with this number",
               kNotNegative, Default{"0"}, kPython26, Needs{"--op-name"}),
        Group::kMethod,
        Text("--algorithm -alg", "NAME,NAME", &measures_, "Measures by name or number", kPython26),
        Switch("--overflow-detection -overflow_detection", &options_.overflow,
               "Also a column OverFlow: float16 tensors that reach 65504", kPython26),
        Group::kOutput,
        Number("--topn -n", "N", &elements_.most_shown,
               "With -op: elements of either list of the farthest ones", Between(1, 10000),
               kPython26, Needs{"--op-name"}),
        Number("--max-line -ml", "N", &elements_.lines_per_file, "With -op: elements of one file",
               Between(10000, 1000000), kPython26, Needs{"--op-name"}),
        Switch("--ignore-single-op-result", &elements_.only_farthest,
               "With -op: no table of all elements", kPython26, Needs{"--op-name"}),
        Path("--output -out", "DIR", &options_.output, "Folder of result_<time>.csv", Default{"."},
             kPython26),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        Group::kMethod,
        NotOurs("--custom-script-path", "-c", "DIR", &ignored_,
                "Refused: no code is run from files"),
        NotOurs("--algorithm-options", "-a", "TEXT", &ignored_, "Refused: the measures have none"),
        NotOurs("--mapping", "-map", "", static_cast<bool*>(nullptr), "Needs rules of fusion"),
        NotOurs("--range", "-r", "TEXT", &ignored_, "Needs rules of fusion"),
        NotOurs("--select", "-s", "TEXT", &ignored_, "Needs rules of fusion"),
        NotOurs("--post-process", "-p", "N", &ignored_, "Accepted: nothing is left out"),
        NotOurs("--max-cmp-size", "-max", "N", &ignored_, "Accepted: every element is compared"),
        NotOurs("--advisor", "-advisor", "", static_cast<bool*>(nullptr),
                "Accepted: the answer tells it"),
        NotOurs("--version", "-v", "N", &ignored_, "Accepted: files tell their own version"),
        Group::kSelection,
        Switch("--ffts -ffts", &options_.thread_by_thread,
               "Compare the threads that FFTS+ ran one by one, and not put together", kPython26),
        AnswerRows(answer_, dumps::kVectorGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMPS", &options_.mine, "Kernel dumps of the test", OrFlag{"--my-dump-path"}),
            Argument("REFERENCE", &options_.golden, "Dumps to compare them with",
                     OrFlag{"--golden-dump-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe msaccucmp compare -m npu_dump -g gpu_dump -out result", "all operators"},
            {"msprobe msaccucmp compare -m npu_dump -g gpu_dump -op conv1 -o 0 -n 50 -out result",
             "the 50 elements of an output that differ most"}};
  }

  std::string notes() const override {
    return kVectorCompareNotes + FailOnHelp(dumps::kVectorGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckFlags(context));
    MSP_ASSIGN_OR_RETURN(options_.measures, MeasuresOf(measures_));
    MSP_RETURN_IF_ERROR(PrepareResults(options_.output, "."));
    if (!elements_.op_name.empty()) {
      if (options_.fusion_rules.any()) {
        base::LogWarning("--op-name pairs by name; rules of fusion are for whole comparisons");
      }
      return CompareOperator(context);
    }
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const dumps::VectorFindings findings, dumps::CompareVectors(options_));
    OwnForms own;
    // Where a gate is asked for, it judges.
    const VendorCode code = LastFailure(findings);
    if (code != VendorCode::kDone && answer_.fail_on.empty()) {
      own.exit_code = static_cast<int>(code);
    }
    report::Document document = dumps::MakeDocument(findings);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  Status CheckFlags(const Context& context) const {
    for (const char* flag :
         {"--custom-script-path", "--algorithm-options", "--mapping", "--range", "--select"}) {
      if (const auto typed = context.typed.find(flag); typed != context.typed.end()) {
        return UnsupportedError(fmt::format("{} is not built in", typed->second))
            .WithHint(
                "measures and conversions written in Python are not run, and nothing is counted in "
                "rules of fusion; every operator is compared with all measures without the flag");
      }
    }
    return {};
  }

  Result<ExitCode> CompareOperator(const Context& context) {
    elements_.sides = options_;
    elements_.is_input = input_.has_value();
    elements_.number = static_cast<size_t>(input_.value_or(output_number_.value_or(0)));
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const dumps::ElementReport report, dumps::ReportElements(elements_));
    report::Document document = dumps::MakeDocument(elements_, report);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context);
  }

  analysis::kernel_dump::VectorOptions options_;
  analysis::kernel_dump::ElementReportOptions elements_;
  std::string measures_ = "all";
  std::optional<int64_t> input_;
  std::optional<int64_t> output_number_;
  std::string ignored_;
  AnswerFlags answer_;
};

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

class MsaccucmpConvertCommand final : public Command {
 public:
  MsaccucmpConvertCommand()
      : Command("convert", "Convert kernel dumps and overflow records to .npy, .pt or .bin") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--dump-file -d --dump_path", "PATH,PATH", &dumps_,
             "Kernel dumps, or a folder of them", kSeparatedByCommas, kPython26),
        Group::kSelection,
        Number("--input-tensor -i", "N", &options_.input,
               "The input with this number alone; of files, with -f", kNotNegative, kPython26,
               Excludes{"--output-tensor"}),
        Number("--output-tensor -o", "N", &options_.output_number,
               "The output with this number alone; of files, with -f", kNotNegative, kPython26),
        Group::kMethod,
        Text("--format -f", "NAME", &options_.format,
             "Layout of the arrays: ND, NCHW, NHWC, HWCN, NCDHW and others",
             Default{"that of the device"}, kPython26),
        Number("--shape -s", "N,N,...", &shape_,
               "Shape to cut the padding down to; of files, with -f", kNotNegative,
               kSeparatedByCommas, Default{"what the file tells"}, kPython26),
        Group::kOutput,
        Choice("--type -t", "NAME", &kind_, {"npy", "bin", "msnpy", "pt"},
               "What to write; msnpy: .npy with the names that MindSpore gives", kPython26),
        Path("--output -out", "DIR", &options_.output, "Folder for the arrays", Default{"."},
             kPython26),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        Group::kMethod,
        Path("--custom-script-path -c", "DIR", &script_, "Refused: no code is run from files",
             kPython26, kHidden),
        Choice("--version -v", "N", &version_, {"1", "2"}, "Accepted: files tell their own version",
               kPython26, kHidden),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &argument_, "Kernel dump, or a folder of them")};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe msaccucmp convert -d dump/step0/0 -out arrays", "in the layouts of the device"},
        {"msprobe msaccucmp convert -d MatMul.x.4.1.1700000000001004 -f ND -s 20,37 -o 0 -out "
         "arrays",
         "one matrix as rows and columns"}};
  }

  std::string notes() const override { return kConvertNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(FillOptions(context));
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
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  Status FillOptions(const Context& context);

  std::vector<std::string> dumps_;
  std::filesystem::path argument_;
  std::string kind_ = "npy";
  std::vector<int64_t> shape_;
  std::string script_;
  std::string version_ = "2";
  analysis::kernel_dump::Options options_;
  AnswerFlags answer_;
};

Status MsaccucmpConvertCommand::FillOptions(const Context& context) {
  if (!script_.empty()) {
    return UnsupportedError("-c: conversions written in Python are not run")
        .WithHint("every layout that a kernel dump names is built in: see parse --help");
  }
  if (dumps_.empty()) {
    if (argument_.empty()) {
      return MissingArgument("msprobe msaccucmp convert", "DUMP");
    }
    options_.inputs.push_back(argument_);
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
  return PrepareResults(options_.output, ".");
}

class MsaccucmpFileCompareCommand final : public Command {
 public:
  MsaccucmpFileCompareCommand()
      : Command("file_compare", "Compare two .npy files with eight measures") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--my-dump-path -m", "FILE", &mine_, "The test .npy file", kPython26),
        Path("--golden-dump-path -g", "FILE", &golden_, "The reference", kPython26),
        ResultsFlag(output_, "Folder of file_result_<time>.txt", ".", kPython26),
        ForceFlag(),
        AnswerRows(answer_, dumps::kVectorGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("FILE", &mine_, "The test .npy file", OrFlag{"--my-dump-path"}),
            Argument("REFERENCE", &golden_, "The file to compare it with",
                     OrFlag{"--golden-dump-path"})};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe msaccucmp file_compare -m npu.npy -g gpu.npy -out result",
             "also as result/file_result_<time>.txt"}};
  }

  std::string notes() const override { return FailOnHelp(dumps::kVectorGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(PrepareResults(output_, "."));
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
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  std::filesystem::path mine_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
  AnswerFlags answer_;
};

class MsaccucmpCommand final : public CommandGroup {
 public:
  MsaccucmpCommand()
      : CommandGroup("msaccucmp",
                     "Convert and compare kernel dumps with the command lines of msaccucmp.py") {
    Add(std::make_unique<MsaccucmpCompareCommand>());
    Add(std::make_unique<MsaccucmpConvertCommand>());
    Add(std::make_unique<MsaccucmpFileCompareCommand>());
    Add(MakeParseOverflow("msaccucmp overflow"));
  }

  std::vector<Example> examples() const override {
    return {{"msprobe msaccucmp compare -m npu_dump -g gpu_dump -out result",
             "result/result_<time>.csv: ten measures per tensor"}};
  }
};

}  // namespace

std::unique_ptr<Command> MakeMsaccucmp() { return std::make_unique<MsaccucmpCommand>(); }

}  // namespace msprobe::commands
