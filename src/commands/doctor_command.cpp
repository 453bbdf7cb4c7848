#include "src/commands/doctor_command.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/doctor_bundle.h"
#include "src/commands/doctor_checks.h"
#include "src/report/document.h"
#include "src/report/render.h"

namespace msprobe::commands {
namespace {

constexpr const char* kDoctorNotes =
    R"(Nothing is changed. Frameworks are looked up in the python3 on PATH, which is the one your scripts use. A framework that
is merely absent is not a failure.

--bundle writes an error report as one zip: the output of this command, versions, the environment variables that affect
a run (except those whose names suggest keys or passwords), the output and exit code of the command after --, and the
error logs and manifests of the folders given by --logs. It contains no tensor values. Check it before you send it.)";

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

report::Document DocumentOfChecks(const std::vector<Check>& checks) {
  report::Document document;
  document.command = "doctor";
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
  document.verdict.word = broken == 0 ? "OK" : "BROKEN";
  document.verdict.text = broken == 0
                              ? "OK: everything that is installed works"
                              : fmt::format("BROKEN: {} of {} do not work", broken, checks.size());
  document.verdict.tone = broken == 0 ? report::Tone::kGood : report::Tone::kBad;
  document.verdict.standing = broken == 0 ? report::Standing::kClean : report::Standing::kFindings;
  document.levels = report::OutcomesOf(kDoctorLevels);
  report::SetFound(document.levels, "any", broken != 0);
  document.verdict.number = static_cast<double>(broken);
  document.verdict.unit = "checks";
  document.sections.emplace_back().blocks.emplace_back(std::move(list));
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
  if (!bundle_.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(bundle_));
  }
  report::Document document = DocumentOfChecks(ExamineMachine());
  if (!bundle_.empty()) {
    std::vector<BundleMember> members = {
        {"doctor.json", report::RenderJson(document)},
        {"variables.txt", base::Join(TellingVariables(), "\n") + "\n"}};
    MSP_ASSIGN_OR_RETURN(std::vector<BundleMember> logs, CollectLogs(logs_));
    members.insert(members.end(), std::make_move_iterator(logs.begin()),
                   std::make_move_iterator(logs.end()));
    if (!command_.empty()) {
      MSP_ASSIGN_OR_RETURN(BundleMember said, RunAgain(command_));
      members.push_back(std::move(said));
    }
    MSP_RETURN_IF_ERROR(WriteBundle(bundle_, members));
    document.files.push_back({bundle_, fmt::format("{} files for a report", members.size())});
  }
  OwnForms own;
  own.despite_quiet = true;
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace msprobe::commands
