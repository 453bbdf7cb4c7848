#include "src/analysis/repro/repro.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/recheck/recheck.h"
#include "src/analysis/recheck/step_ranks.h"
#include "src/analysis/repro/captured_call.h"
#include "src/analysis/repro/script.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"

namespace msprobe::analysis::repro {
namespace {

// The README.md of a reproduction: what the call is, what is wrong with it, and how to see it.

// "is off by 1.37e+04 times its error bound: output.0 [3, 2] is ..., exactly ...".
std::string VerdictSentence(const recheck::CallVerdict& verdict) {
  switch (verdict.verdict) {
    case recheck::Verdict::kWithin:
      return "is within its error bound";
    case recheck::Verdict::kNotCheckable:
      return fmt::format("cannot be rechecked: {}", base::Printable(verdict.reason));
    case recheck::Verdict::kBeyond:
      break;
  }
  const recheck::Judgement& worst = *verdict.worst();
  if (!worst.reason.empty()) {
    return fmt::format("is wrong in {}: {}", base::Printable(worst.tensor), worst.reason);
  }
  const std::string off =
      std::isinf(verdict.ratio)
          ? "is off where no error is allowed"
          : fmt::format("is off by {:.3g} times its error bound", verdict.ratio);
  return fmt::format("{}: {} {} is {:.9g}, exactly {:.9g}", off, base::Printable(worst.tensor),
                     worst.element, worst.captured, worst.exact);
}

std::string MakeReadme(const Answer& answer) {
  const std::string name = base::Printable(answer.call);
  std::string text = fmt::format("# {}\n\nOne call, as it was captured. It {}.\n\n", name,
                                 VerdictSentence(answer.verdict));
  text += answer.no_script.empty()
              ? "    python3 run.py --device cpu     makes the call again under PyTorch (cuda, "
                "npu), and "
                "compares with the capture;\n"
                "                                    -o FOLDER writes what it computed as a dump" +
                    std::string(dump::ParseEntryName(answer.call).is_module
                                    ? ";\n                                    --module "
                                      "FILE.py:FUNCTION makes the module where its class is not "
                                      "known\n"
                                    : "\n")
              : fmt::format("There is no script for PyTorch: {}.\n\n",
                            base::Printable(answer.no_script));
  text +=
      "    sh recheck.sh                   recomputes it in float64 and judges the capture "
      "(needs msprobe)\n\nTensors:\n\n";
  for (const std::string& tensor : answer.tensors) {
    text += fmt::format("- {}\n", tensor);
  }
  if (answer.minimised) {
    text += fmt::format("\nMade smaller from {} to {} elements, by:\n\n",
                        base::FormatCount(answer.minimised->elements_before),
                        base::FormatCount(answer.minimised->elements_after));
    for (const std::string& step : answer.minimised->steps) {
      text += fmt::format("- {}\n", step);
    }
  }
  return text;
}

constexpr const char* kDumpFolder = "dump";
constexpr const char* kRecheckScript =
    "#!/bin/sh\n"
    "# Recomputes the call from its inputs and judges its results.\n"
    "exec msprobe recheck \"$(dirname \"$0\")/dump\" \"$@\"\n";

// The entries that a name may mean, the first to be preferred where neither is wrong.
std::vector<std::string> HalvesOf(const std::string& call) {
  const dump::EntryName name = dump::ParseEntryName(call);
  if (name.direction != dump::Direction::kNone) {
    return {call};
  }
  // Numbers of modules come after the direction: "Module.net.fc.Linear.0" has none yet.
  if (call.starts_with("Module.") || call.starts_with("Cell.")) {
    const size_t dot = call.rfind('.');
    const std::string front = call.substr(0, dot);
    const std::string back = call.substr(dot);
    return {front + ".forward" + back, front + ".backward" + back};
  }
  return {call + ".forward", call + ".backward"};
}

struct Place {
  recheck::DumpEntries entries;
  dump::RankFolder folder;
  std::filesystem::path json;
  std::vector<std::string> names;  // halves of the call that are there
};

Result<Place> FindCall(const Options& options, const dump::DumpLayout& layout,
                       std::vector<std::string>& warnings) {
  const std::vector<std::string> halves = HalvesOf(options.call);
  constexpr size_t kMostKnown = 1'000'000;
  std::vector<std::string> known;  // the calls of the ranks that do not have it
  std::filesystem::path shown;     // the first of those
  size_t read = 0;
  for (const dump::RankFolder& rank : layout.ranks) {
    if ((!rank.has_dump && !layout.is_single_file) || (options.step && rank.step != options.step) ||
        (options.rank && rank.rank != options.rank)) {
      continue;
    }
    const std::filesystem::path json =
        rank.folder / (layout.is_single_file ? layout.single_file_name : dump::kDumpFileName);
    Result<recheck::DumpEntries> entries = recheck::DumpEntries::Open(json);
    if (!entries.ok()) {
      warnings.push_back(
          fmt::format("{} is left out: {}", json.string(), entries.status().message()));
      continue;
    }
    ++read;
    std::vector<std::string> names;
    std::copy_if(halves.begin(), halves.end(), std::back_inserter(names),
                 [&](const std::string& half) { return entries->Has(half); });
    if (!names.empty()) {
      return Place{*std::move(entries), rank, json, std::move(names)};
    }
    if (known.size() < kMostKnown) {
      known.insert(known.end(), entries->calls().begin(), entries->calls().end());
      shown = shown.empty() ? json : shown;
    }
  }
  if (read == 0 && warnings.empty() && (options.step || options.rank)) {
    return NotFoundError(
               fmt::format("{} has no such step and rank", base::Printable(options.dump.string())))
        .WithHint("msprobe show lists what is in a folder");
  }
  if (read == 0) {
    return NotFoundError(
               fmt::format("{} holds no dump.json that can be read", options.dump.string()))
        .WithHint("msprobe show lists what is in a folder");
  }
  return NotFoundError(
             fmt::format("{} has no call {}", options.dump.string(), base::Printable(options.call)))
      .WithHint(dump::NamesLikeHint(options.call, known, shown.string()));
}

// A name that cannot lead out of the folder where it is put.
std::string FolderName(const std::string& call) {
  std::string name = call;
  std::replace_if(
      name.begin(), name.end(),
      [](char letter) {
        return !((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                 (letter >= 'A' && letter <= 'Z') || letter == '.' || letter == '_');
      },
      '_');
  return name.substr(0, 200) + "_repro";
}

std::vector<std::string> TensorTexts(const CapturedCall& call) {
  std::vector<std::string> texts;
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    const Json& record = call.entries[leaf.place];
    texts.push_back(
        fmt::format("{}{}: {} {}{}", leaf.entry == call.name ? "" : "forward ",
                    base::Printable(leaf.name), base::Printable(record["dtype"].get<std::string>()),
                    ShapeText(leaf.shape), leaf.data_name.empty() ? ", without values" : ""));
  }
  return texts;
}

// A communication on all of its ranks, in the order of the group.
struct Ranks {
  std::vector<std::pair<int64_t, CapturedCall>> calls;
  std::string problem;  // why they are not all known; there are no calls then
};

Result<Ranks> ReadRanks(const dump::DumpLayout& layout, const dump::RankFolder& own,
                        const std::string& name, recheck::DumpSteps& steps) {
  Ranks ranks;
  if (!own.rank) {
    ranks.problem = "the dump does not tell which rank made it";
    return ranks;
  }
  const Result<std::vector<recheck::RankCall>> together =
      steps.RanksOf(own.step).CallsTogether(*own.rank, name);
  if (!together.ok()) {
    ranks.problem = together.status().message();
    return ranks;
  }
  for (const recheck::RankCall& one : *together) {
    const auto folder =
        std::find_if(layout.ranks.begin(), layout.ranks.end(), [&](const dump::RankFolder& rank) {
          return rank.step == own.step && rank.rank == one.rank;
        });
    if (folder == layout.ranks.end()) {
      return NotFoundError(fmt::format("rank {} is not in the dump", one.rank));
    }
    MSP_ASSIGN_OR_RETURN(const recheck::DumpEntries entries,
                         recheck::DumpEntries::Open(folder->folder / dump::kDumpFileName));
    MSP_ASSIGN_OR_RETURN(CapturedCall call, ReadCall(entries, one.call), one.call);
    ranks.calls.emplace_back(one.rank, std::move(call));
  }
  return ranks;
}

}  // namespace

Result<Answer> Run(const Options& options) {
  const base::Stopwatch watch;
  base::ThreadPool pool(options.threads);
  Answer answer;
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(options.dump));
  MSP_ASSIGN_OR_RETURN(const Place place, FindCall(options, layout, answer.warnings));
  recheck::DumpSteps steps(layout);
  const bool is_communication = dump::ParseEntryName(place.names[0]).kind == "Distributed";
  std::optional<CapturedCall> call;
  for (const std::string& name : place.names) {
    MSP_ASSIGN_OR_RETURN(CapturedCall half, ReadCall(place.entries, name), name);
    MSP_ASSIGN_OR_RETURN(recheck::CallVerdict verdict,
                         is_communication
                             ? recheck::RecheckCall(place.entries, name, recheck::Precision(), pool,
                                                    steps.OthersOf(place.folder, name))
                             : Recheck(half, pool),
                         name);
    if (!call || (answer.verdict.verdict != recheck::Verdict::kBeyond &&
                  verdict.verdict == recheck::Verdict::kBeyond)) {
      call = std::move(half);
      answer.verdict = std::move(verdict);
    }
  }
  answer.call = call->name;
  answer.dump_json = place.json;
  if (call->tensors.empty()) {
    return NotFoundError(fmt::format("{} holds no tensors of {}", place.json.string(), call->name))
        .WithHint("capture the step again with \"task\": \"tensor\"");
  }
  answer.folder =
      options.output.empty() ? std::filesystem::path(FolderName(call->name)) : options.output;
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(answer.folder));
  const std::filesystem::path dump_json = answer.folder / kDumpFolder / dump::kDumpFileName;
  MSP_RETURN_IF_ERROR(
      base::CheckOutputFiles(std::array{dump_json, answer.folder / "README.md",
                                        answer.folder / "run.py", answer.folder / "recheck.sh"}));
  if (options.minimise) {
    answer.no_minimum =
        is_communication ? "communication is not made smaller" : ReasonAgainst(answer.verdict);
    if (answer.no_minimum.empty()) {
      answer.minimised = Minimise(*call, answer.verdict, options.attempts, pool);
      MSP_ASSIGN_OR_RETURN(answer.verdict, Recheck(*call, pool));
    }
  }
  answer.tensors = TensorTexts(*call);
  answer.elements = call->element_count();
  Ranks ranks;
  if (is_communication) {
    MSP_ASSIGN_OR_RETURN(ranks, ReadRanks(layout, place.folder, call->name, steps));
    for (const auto& [rank, one] : ranks.calls) {
      MSP_RETURN_IF_ERROR(
          WriteDump(one, answer.folder / kDumpFolder / fmt::format("step0/rank{}", rank)));
    }
  }
  if (ranks.calls.empty()) {
    MSP_RETURN_IF_ERROR(WriteDump(*call, answer.folder / kDumpFolder));
  }
  const auto write = [&](const char* name, const std::string& text) {
    answer.files.push_back(answer.folder / name);
    return base::WriteFileAtomically(answer.files.back(), text);
  };
  const std::optional<Fault> fault = FaultOf(*call, answer.verdict);
  const Result<std::string> script =
      !is_communication       ? MakeScript(*call, fault)
      : ranks.problem.empty() ? MakeScriptOfRanks(ranks.calls, fault, place.folder.rank.value_or(0))
                              : Result<std::string>(UnsupportedError(ranks.problem));
  if (script.ok()) {
    MSP_RETURN_IF_ERROR(write("run.py", *script));
  } else {
    answer.no_script = script.status().message();
  }
  MSP_RETURN_IF_ERROR(write("recheck.sh", kRecheckScript));
  MSP_RETURN_IF_ERROR(write("README.md", MakeReadme(answer)));
  answer.files.push_back(answer.folder / fmt::format("{}/", kDumpFolder));
  answer.seconds = watch.seconds();
  return answer;
}

namespace {

using report::Item;
using report::List;
using report::ListKind;
using report::Section;

constexpr size_t kShownSteps = 12;

Section CallSection(const Answer& answer) {
  List list{ListKind::kFacts, {}};
  list.items.push_back({"call", base::Printable(answer.call)});
  list.items.push_back({"recheck", "it " + VerdictSentence(answer.verdict)});
  Item tensors{"tensors", base::Plural(answer.elements, "element")};
  tensors.number = static_cast<double>(answer.elements);
  for (const std::string& tensor : answer.tensors) {
    tensors.details.push_back({"", tensor});
  }
  list.items.push_back(std::move(tensors));
  return report::MakeSection("The call", std::move(list));
}

Section MinimisedSection(const Minimised& minimised) {
  Section section{"Made smaller", {}};
  List facts{ListKind::kFacts, {}};
  facts.items.push_back({"elements",
                         fmt::format("{} to {}", base::FormatCount(minimised.elements_before),
                                     base::FormatCount(minimised.elements_after)),
                         report::Tone::kPlain, static_cast<double>(minimised.elements_after)});
  facts.items.push_back(
      {"attempts",
       fmt::format("{}{}", base::FormatCount(minimised.attempts),
                   minimised.ran_out ? ": all that were allowed, more may be possible" : ""),
       report::Tone::kPlain, static_cast<double>(minimised.attempts)});
  facts.items.push_back({"stays", minimised.kept.empty() ? "one element of each tensor"
                                                         : base::Join(minimised.kept, ", ")});
  section.blocks.emplace_back(std::move(facts));
  List steps{ListKind::kBullets, {}, {kShownSteps}};
  for (const std::string& step : minimised.steps) {
    steps.items.push_back({"", step});
  }
  section.blocks.emplace_back(std::move(steps));
  return section;
}

}  // namespace

report::Document MakeDocument(const Answer& answer) {
  report::Document document;
  document.command = "repro";
  document.verdict.Say(
      "WRITTEN",
      fmt::format("{}, isolated, to {}", base::Printable(answer.call), answer.folder.string()),
      report::Tone::kStrong);
  document.verdict.unit = "elements";
  document.verdict.number = static_cast<double>(answer.elements);
  document.sections.push_back(CallSection(answer));
  if (answer.minimised) {
    document.sections.push_back(MinimisedSection(*answer.minimised));
  }
  document.warnings = answer.warnings;
  if (!answer.no_minimum.empty()) {
    document.warnings.push_back("not made smaller: " + base::Printable(answer.no_minimum));
  }
  if (answer.no_script.empty()) {
    document.Advise(report::Advice("repro.run", {(answer.folder / "run.py").string()}));
  } else {
    document.warnings.push_back("no script for PyTorch: " + base::Printable(answer.no_script));
  }
  document.AddFiles(answer.files);
  document.seconds = answer.seconds;
  document.action = "written";
  return document;
}

}  // namespace msprobe::analysis::repro
