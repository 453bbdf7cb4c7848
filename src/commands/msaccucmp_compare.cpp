// msprobe msaccucmp compare: its flags, and what of the vendor's tool they stand for.
#include <utility>

#include <fmt/format.h>

#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_document.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/msaccucmp_command.h"

namespace msprobe::commands {
namespace {

namespace dumps = analysis::kernel_dump;

constexpr const char* kCompareNotes =
    R"(Measures: 0 CosineSimilarity, 1 MaxAbsoluteError, 2 AccumulatedRelativeError, 3 RelativeEuclideanDistance,
4 KullbackLeiblerDivergence, 5 StandardDeviation, 6 MeanAbsoluteError, 7 RootMeanSquareError, 8 MaxRelativeError,
9 MeanRelativeError. A tensor counts as good with a cosine above 0.99, a relative distance below 0.05, a divergence
below 0.005, a root mean square error and a mean relative error below 1.

Exit codes beyond 0 to 3 are those of msaccucmp.py, that of the last operator that could not be compared: 2 no partner,
11 damaged dump or no tensor that fits.

)";

Flag NotOurs(std::string_view name, std::vector<std::string> aliases, std::string type,
             Target fills, std::string help) {
  return {.name = name,
          .aliases = std::move(aliases),
          .type = std::move(type),
          .fills = fills,
          .help = std::move(help),
          .since = kPython26,
          .hidden = true};
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

}  // namespace

std::vector<Positional> MsaccucmpCompareCommand::positionals() {
  return {{.name = "DUMPS", .fills = &argument_, .help = "Kernel dumps under test"},
          {.name = "REFERENCE", .fills = &reference_, .help = "Dumps to compare them with"}};
}

std::vector<Flag> MsaccucmpCompareCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--my-dump-path",
       .letter = "-m",
       .type = "PATH",
       .fills = &options_.mine,
       .group = Group::kInput,
       .help = "Kernel dumps under test",
       .since = kPython26},
      {.name = "--golden-dump-path",
       .letter = "-g",
       .type = "PATH",
       .fills = &options_.golden,
       .group = Group::kInput,
       .help = "Reference: kernel dumps, or arrays {op_name}.{output}.{time}.npy",
       .since = kPython26},
      {.name = "--fusion-rule-file",
       .letter = "-f",
       .type = "FILE",
       .fills = &options_.fusion_rules.network,
       .group = Group::kInput,
       .help = "Graph of the compiled model as JSON: which operators of the reference its own ones "
               "were fused from",
       .since = kPython26},
      {.name = "--quant-fusion-rule-file",
       .type = "FILE",
       .fills = &options_.fusion_rules.quantised,
       .group = Group::kInput,
       .help = "The same of the quantised model, behind the other",
       .since = kPython26},
      {.name = "--close-fusion-rule-file",
       .aliases = {"-cf"},
       .type = "FILE",
       .fills = &options_.fusion_rules.reference,
       .group = Group::kInput,
       .help = "The same of the reference, where it is a compiled model, too",
       .since = kPython26},
      {.name = "--op-name",
       .aliases = {"-op"},
       .type = "NAME",
       .fills = &elements_.op_name,
       .group = Group::kSelection,
       .help = "Only this operator, element by element",
       .since = kPython26},
      {.name = "--input-tensor",
       .letter = "-i",
       .type = "N",
       .fills = &input_,
       .bounds = kNotNegative,
       .group = Group::kSelection,
       .help = "With -op: the input with this number",
       .since = kPython26,
       .needs = "--op-name",
       .excludes = "--output-tensor"},
      {.name = "--output-tensor",
       .letter = "-o",
       .type = "N",
       .fills = &output_number_,
       .bounds = kNotNegative,
       .group = Group::kSelection,
       .help = "With -op: the output with this number",
       .default_text = "0",
       .since = kPython26,
       .needs = "--op-name"},
      {.name = "--algorithm",
       .aliases = {"-alg"},
       .type = "NAME,NAME",
       .fills = &measures_,
       .help = "Measures by name or number",
       .since = kPython26},
      {.name = "--overflow-detection",
       .aliases = {"-overflow_detection"},
       .fills = &options_.overflow,
       .help = "Also a column OverFlow: float16 tensors that reach 65504",
       .since = kPython26},
      {.name = "--topn",
       .letter = "-n",
       .type = "N",
       .fills = &elements_.most_shown,
       .bounds = {.least = 1, .most = 10000},
       .group = Group::kOutput,
       .help = "With -op: elements of either list of the farthest ones",
       .since = kPython26,
       .needs = "--op-name"},
      {.name = "--max-line",
       .aliases = {"-ml"},
       .type = "N",
       .fills = &elements_.lines_per_file,
       .bounds = {.least = 10000, .most = 1000000},
       .group = Group::kOutput,
       .help = "With -op: elements of one file",
       .since = kPython26,
       .needs = "--op-name"},
      {.name = "--ignore-single-op-result",
       .fills = &elements_.only_farthest,
       .group = Group::kOutput,
       .help = "With -op: no table of all elements",
       .since = kPython26,
       .needs = "--op-name"},
      {.name = "--output",
       .aliases = {"-out"},
       .type = "DIR",
       .fills = &options_.output,
       .group = Group::kOutput,
       .help = "Folder of result_<time>.csv",
       .default_text = ".",
       .since = kPython26},
      ForceFlag(),
      ThreadsFlag(options_.threads),
      NotOurs("--custom-script-path", {"-c"}, "DIR", &ignored_,
              "Refused: no code is run from files"),
      NotOurs("--algorithm-options", {"-a"}, "TEXT", &ignored_, "Refused: the measures have none"),
      NotOurs("--mapping", {"-map"}, "", static_cast<bool*>(nullptr), "Needs rules of fusion"),
      NotOurs("--range", {"-r"}, "TEXT", &ignored_, "Needs rules of fusion"),
      NotOurs("--select", {"-s"}, "TEXT", &ignored_, "Needs rules of fusion"),
      NotOurs("--post-process", {"-p"}, "N", &ignored_, "Accepted: nothing is left out"),
      NotOurs("--max-cmp-size", {"-max"}, "N", &ignored_, "Accepted: every element is compared"),
      NotOurs("--advisor", {"-advisor"}, "", static_cast<bool*>(nullptr),
              "Accepted: the answer tells it"),
      NotOurs("--version", {"-v"}, "N", &ignored_, "Accepted: files tell their own version"),
      {.name = "--ffts",
       .aliases = {"-ffts"},
       .fills = &options_.thread_by_thread,
       .group = Group::kSelection,
       .help = "Compare the threads that FFTS+ ran one by one, and not put together",
       .since = kPython26},
  };
  AddAnswerFlags(flags, answer_, dumps::kVectorGateLevels);
  return flags;
}

std::vector<Example> MsaccucmpCompareCommand::examples() const {
  return {{"msprobe msaccucmp compare -m npu_dump -g gpu_dump -out result", "all operators"},
          {"msprobe msaccucmp compare -m npu_dump -g gpu_dump -op conv1 -o 0 -n 50 -out result",
           "the 50 elements of an output that differ most"}};
}

std::string MsaccucmpCompareCommand::notes() const {
  return kCompareNotes + FailOnHelp(dumps::kVectorGateLevels);
}

Status MsaccucmpCompareCommand::CheckFlags(const Context& context) const {
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

Result<ExitCode> MsaccucmpCompareCommand::CompareOperator(const Context& context) {
  elements_.sides = options_;
  elements_.is_input = input_.has_value();
  elements_.number = static_cast<size_t>(input_.value_or(output_number_.value_or(0)));
  const base::Stopwatch watch;
  MSP_ASSIGN_OR_RETURN(const dumps::ElementReport report, dumps::ReportElements(elements_));
  report::Document document = dumps::MakeDocument(elements_, report);
  document.seconds = watch.seconds();
  return GiveAnswer(std::move(document), answer_, context);
}

Result<ExitCode> MsaccucmpCompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(TakePath(argument_, "DUMPS", "--my-dump-path", options_.mine));
  MSP_RETURN_IF_ERROR(TakePath(reference_, "REFERENCE", "--golden-dump-path", options_.golden));
  MSP_RETURN_IF_ERROR(CheckFlags(context));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  MSP_ASSIGN_OR_RETURN(options_.measures, MeasuresOf(measures_));
  if (options_.output.empty()) {
    options_.output = ".";
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_RETURN_IF_ERROR(base::CheckWritable(options_.output));
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
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace msprobe::commands
