#include "src/commands/doctor_command.h"

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

constexpr const char* kNotes =
    R"(Everything is tried, nothing is changed: python3 is the one on PATH, as your scripts would find it, and is asked for
the frameworks that it has. What is merely absent, such as a framework that you do not use, is no failure.

--bundle packs what a report of an error should hold into one zip: this answer, versions, the variables that change
what a run does (none whose name speaks of keys or passwords), the command behind -- with all that it says and its exit
code, and of the folders named by --logs the error logs and manifests. It holds no values of tensors; look into it
before you send it.)";

constexpr report::GateLevel kLevels[] = {
    {.word = "any", .meaning = "something that should work is broken"}};

report::Tone ToneOf(Health health) {
  return health == Health::kWorks    ? report::Tone::kGood
         : health == Health::kAbsent ? report::Tone::kPlain
                                     : report::Tone::kBad;
}

std::string_view WordOf(Health health) {
  return health == Health::kWorks ? "ok" : health == Health::kAbsent ? "absent" : "BROKEN";
}

report::Document MakeDocument(const std::vector<Check>& checks) {
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
      if (!check.remedy.empty()) {
        document.next.push_back(check.remedy);
      }
    }
  }
  document.verdict.word = broken == 0 ? "WELL" : "BROKEN";
  document.verdict.text = broken == 0
                              ? "WELL: everything that is here works"
                              : fmt::format("BROKEN: {} of {} do not work", broken, checks.size());
  document.verdict.tone = broken == 0 ? report::Tone::kGood : report::Tone::kBad;
  document.verdict.standing = broken == 0 ? report::Standing::kClean : report::Standing::kFindings;
  document.levels = report::OutcomesOf(kLevels);
  report::SetFound(document.levels, "any", broken != 0);
  document.verdict.number = static_cast<double>(broken);
  document.verdict.unit = "checks";
  document.sections.emplace_back().blocks.emplace_back(std::move(list));
  return document;
}

}  // namespace

std::vector<Positional> DoctorCommand::positionals() {
  return {{.name = "COMMAND",
           .fills = &command_,
           .help = "Behind --, with --bundle: what msprobe is to run, as typed, but for its name",
           .takes_rest = true}};
}

std::vector<Flag> DoctorCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--bundle",
       .type = "FILE",
       .fills = &bundle_,
       .group = Group::kOutput,
       .help = "Pack what a report of an error should hold into this zip"},
      {.name = "--logs",
       .type = "DIR",
       .fills = &logs_,
       .group = Group::kInput,
       .help = "Pack the error logs and manifests of these dump or monitor folders",
       .needs = "--bundle"},
  };
  flags.push_back(ForceFlag());
  AddAnswerFlags(flags, answer_, kLevels);
  return flags;
}

std::vector<Example> DoctorCommand::examples() const {
  return {
      {"msprobe doctor", "what works here?"},
      {"msprobe doctor --bundle report.zip -- compare npu_dump gpu_dump -o result",
       "a report of a command that fails"},
      {"msprobe doctor --bundle report.zip --logs dump",
       "a report of a capture that is not as it should be"},
  };
}

std::string DoctorCommand::notes() const {
  return kNotes + std::string("\n\n") + FailOnHelp(kLevels);
}

Result<ExitCode> DoctorCommand::Run(const Context& context) {
  if (bundle_.empty() && !command_.empty()) {
    return UsageError("a command is only run for a report")
        .WithHint("msprobe doctor --bundle report.zip -- COMMAND");
  }
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  if (!bundle_.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(bundle_));
  }
  report::Document document = MakeDocument(ExamineMachine());
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
