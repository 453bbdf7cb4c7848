#include "src/commands/doctor_command.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/doctor_ascend.h"
#include "src/commands/doctor_bundle.h"
#include "src/commands/doctor_checks.h"
#include "src/report/document.h"
#include "src/report/render.h"

namespace msprobe::commands {
namespace {

constexpr const char* kDoctorNotes =
    R"(Nothing is changed. Frameworks are looked up in the python3 on PATH, which is the one your scripts use. A framework that
is merely absent is not a failure.

--ascend also makes the experiments of docs/hardware.md on the Ascend devices of this machine, a few seconds per device, and
a minute more where python3 has torch_npu: a small network is captured, and one of its calls is dumped by the runtime.
Please send the report that it writes, msprobe_ascend.zip unless --bundle names another file.

--bundle writes an error report as one zip: the output of this command, versions, the environment variables that affect
a run, the output and exit code of the command after --, and the error logs and manifests of the folders given by --logs.
It contains no tensor values. Passwords, tokens and keys are masked, recognised by their names or by how they look. A secret
with neither is not recognised: the names of the variables that are not masked are printed. Check the file before you send it.)";

constexpr report::GateLevel kDoctorLevels[] = {
    {.word = "any", .meaning = "something that should work is broken"}};

report::Tone ToneOf(Health health) {
  return health == Health::kWorks    ? report::Tone::kGood
         : health == Health::kAbsent ? report::Tone::kPlain
                                     : report::Tone::kBad;
}

std::string_view WordOf(Health health) {
  return health == Health::kWorks ? "ok" : health == Health::kAbsent ? "absent" : "BROKEN";
}

// Adds what `checks` found to the document, and gives the number of broken ones.
size_t AddChecks(const std::vector<Check>& checks, std::string title, report::Document& document) {
  report::List list{report::ListKind::kFacts, {}};
  size_t broken = 0;
  for (const Check& check : checks) {
    report::Item item;
    item.label = WordOf(check.health);
    item.text =
        check.finding.empty() ? check.what : fmt::format("{}: {}", check.what, check.finding);
    item.tone = ToneOf(check.health);
    if (!check.remedy.empty()) {
      item.details.push_back({"fix", "fix: " + check.remedy});
    }
    list.items.push_back(std::move(item));
    if (check.health == Health::kBroken) {
      ++broken;
      // What two checks ask for is done once.
      if (!check.remedy.empty() && std::find(document.next.begin(), document.next.end(),
                                             check.remedy) == document.next.end()) {
        document.next.push_back(check.remedy);
      }
    }
  }
  document.sections.push_back({std::move(title), {}});
  document.sections.back().blocks.emplace_back(std::move(list));
  return broken;
}

report::Document MakeDoctorDocument(const std::vector<Check>& checks,
                                    const std::optional<AscendExamination>& ascend) {
  report::Document document;
  document.command = "doctor";
  size_t broken = AddChecks(checks, "", document);
  size_t count = checks.size();
  if (ascend) {
    broken += AddChecks(ascend->checks, "Experiments with Ascend devices", document);
    count += ascend->checks.size();
  }
  document.verdict.word = broken == 0 ? "OK" : "BROKEN";
  document.verdict.text = broken == 0 ? "OK: everything that is installed works"
                                      : fmt::format("BROKEN: {} of {} do not work", broken, count);
  document.verdict.tone = broken == 0 ? report::Tone::kGood : report::Tone::kBad;
  document.verdict.standing = broken == 0 ? report::Standing::kClean : report::Standing::kFindings;
  document.levels = report::OutcomesOf(kDoctorLevels);
  report::SetFound(document.levels, "any", broken != 0);
  document.verdict.number = static_cast<double>(broken);
  document.verdict.unit = "checks";
  if (ascend && !ascend->tried && broken == 0) {
    document.verdict.word = "NOT TRIED";
    document.verdict.text = "NOT TRIED: no Ascend device answers here; everything else works";
    document.verdict.tone = report::Tone::kCaution;
    document.verdict.standing = report::Standing::kNothingCompared;
  }
  return document;
}

}  // namespace

std::vector<Positional> DoctorCommand::positionals() {
  return {
      {.name = "COMMAND",
       .fills = &command_,
       .help =
           "With --bundle: the msprobe command to run again, after --, without the word msprobe",
       .takes_rest = true}};
}

std::vector<Flag> DoctorCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--ascend",
       .fills = &ascend_,
       .group = Group::kInput,
       .help = "Also try on Ascend devices what only hardware can confirm, and write a report"},
      {.name = "--bundle",
       .type = "FILE",
       .fills = &bundle_,
       .group = Group::kOutput,
       .help = "Write an error report to this zip file"},
      {.name = "--logs",
       .type = "DIR",
       .fills = &logs_,
       .group = Group::kInput,
       .help = "Include the error logs and manifests of these dump or monitor folders",
       .needs = "--bundle"},
  };
  flags.push_back(ForceFlag());
  AddAnswerFlags(flags, answer_, kDoctorLevels);
  return flags;
}

std::vector<Example> DoctorCommand::examples() const {
  return {
      {"msprobe doctor", "check this machine"},
      {"msprobe doctor --bundle report.zip -- compare npu_dump gpu_dump -o result",
       "an error report of a failing command"},
      {"msprobe doctor --bundle report.zip --logs dump",
       "an error report of a capture that went wrong"},
      {"msprobe doctor --ascend", "try msprobe on this machine's Ascend devices"},
  };
}

std::string DoctorCommand::notes() const {
  return kDoctorNotes + std::string("\n\n") + FailOnHelp(kDoctorLevels);
}

Result<ExitCode> DoctorCommand::Run(const Context& context) {
  if (bundle_.empty() && !command_.empty()) {
    return UsageError("a command can only be given with --bundle")
        .WithHint("msprobe doctor --bundle report.zip -- COMMAND");
  }
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  if (ascend_ && bundle_.empty()) {
    bundle_ = "msprobe_ascend.zip";
  }
  if (!bundle_.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(bundle_));
  }
  const std::vector<Check> checks = ExamineMachine();
  std::optional<AscendExamination> ascend;
  if (ascend_) {
    ascend = ExamineAscend();
  }
  report::Document document = MakeDoctorDocument(checks, ascend);
  if (!bundle_.empty()) {
    const std::vector<TellingVariable> variables = TellingVariables();
    size_t masked = 0;
    std::vector<std::string> as_they_are;
    BundleMember variables_member{"variables.txt", ""};
    for (const TellingVariable& variable : variables) {
      variables_member.text += fmt::format("{}={}\n", variable.name, variable.value);
      masked += variable.masked;
      if (variable.masked == 0) {
        as_they_are.push_back(variable.name);
      }
    }
    std::vector<BundleMember> members = {{"doctor.json", report::RenderJson(document)},
                                         std::move(variables_member)};
    MSP_ASSIGN_OR_RETURN(std::vector<BundleMember> logs, CollectLogs(logs_));
    members.insert(members.end(), std::make_move_iterator(logs.begin()),
                   std::make_move_iterator(logs.end()));
    if (ascend) {
      members.insert(members.end(), std::make_move_iterator(ascend->members.begin()),
                     std::make_move_iterator(ascend->members.end()));
    }
    if (!command_.empty()) {
      MSP_ASSIGN_OR_RETURN(BundleMember said, RunAgain(command_, masked));
      members.push_back(std::move(said));
    }
    for (BundleMember& member : members) {
      masked += MaskMember(member);
    }
    // Before the file is there, so that a person may look first.
    base::LogInfo(fmt::format("{}: {} masked; variables that are not: {}", bundle_.string(),
                              base::Plural(masked, "value"),
                              as_they_are.empty() ? "none" : base::Join(as_they_are, ", ")));
    MSP_RETURN_IF_ERROR(WriteBundle(bundle_, members));
    document.files.push_back({bundle_, fmt::format("{} files for a report, {} masked",
                                                   members.size(), base::Plural(masked, "value"))});
  }
  OwnForms own;
  own.despite_quiet = true;
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace msprobe::commands
