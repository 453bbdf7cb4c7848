// A search, from the ends to the change:
//
// 1. Both ends are run. Where the good one is bad or the bad one good, there is nothing to find.
// 2. The states with the first k changes are searched for the one that turns bad (search.h).
// 3. The change that was found is tried alone. If that is bad, it is the culprit. If it is good, it
//    takes another one: the states with the first j changes and it are searched in the same way,
//    and so on until what was found is bad by itself (delta debugging by binary search).
//
// Every run is a line of a journal before the next one begins. A search that finds a journal of the
// same plan takes the runs from there as long as there are any: it asks for the same ones in the
// same order, because each depends on nothing but what was seen before.
//
// What a run says: --check by its exit code, as `git bisect run` reads it. Without --check the
// program is run by `msprobe dump`, and `msprobe compare` holds its values against those of the
// good side; the good side is run twice for that. A program that fails where neither end does
// cannot be judged.
#include "src/analysis/bisect/bisect.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "src/analysis/bisect/search.h"
#include "src/analysis/bisect/sources.h"
#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/report/writers.h"

namespace msprobe::analysis::bisect {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournalName = "bisect_runs.jsonl";
constexpr const char* kWorkName = ".msprobe_bisect_work";
constexpr uint64_t kMostJournalBytes = uint64_t{256} << 20;
constexpr uint64_t kMostAnswerBytes = uint64_t{256} << 20;
constexpr int kSkipCode = 125;
constexpr int kLastVerdictCode = 127;
constexpr size_t kMostTogether = 4;
constexpr double kSuffices = 0.9;   // that what was found needs nothing else, before it is tried
constexpr double kWeakShare = 0.1;  // of the rows that differ on the bad side

Chosen FirstOnes(size_t count) {
  Chosen chosen(count);
  for (size_t i = 0; i < count; ++i) {
    chosen[i] = i + 1;
  }
  return chosen;
}

Chosen Joined(Chosen first, const Chosen& second) {
  first.insert(first.end(), second.begin(), second.end());
  std::sort(first.begin(), first.end());
  first.erase(std::unique(first.begin(), first.end()), first.end());
  return first;
}

// "1-5,9"; "none".
std::string NameOf(const Chosen& chosen) {
  std::string name;
  for (size_t i = 0; i < chosen.size();) {
    size_t end = i;
    while (end + 1 < chosen.size() && chosen[end + 1] == chosen[end] + 1) {
      ++end;
    }
    name += name.empty() ? "" : ",";
    name += end == i ? std::to_string(chosen[i]) : fmt::format("{}-{}", chosen[i], chosen[end]);
    i = end + 1;
  }
  return name.empty() ? "none" : name;
}

std::string_view WordOf(Outcome outcome) {
  constexpr std::string_view kWords[] = {"good", "bad", "good?", "bad?", "skip"};
  return kWords[static_cast<size_t>(outcome)];
}

std::optional<Outcome> OutcomeOf(std::string_view word) {
  for (const Outcome outcome :
       {Outcome::kGood, Outcome::kBad, Outcome::kWeaklyGood, Outcome::kWeaklyBad, Outcome::kSkip}) {
    if (WordOf(outcome) == word) {
      return outcome;
    }
  }
  return std::nullopt;
}

// The runs so far, on disk: one line each, appended whole.
class Journal {
 public:
  // Takes the lock of the search, and reads what is there if it is of the same plan.
  Status Open(const fs::path& path, const std::string& plan, bool replaces) {
    path_ = path;
    file_ = base::Descriptor(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!file_.is_open()) {
      return base::SystemError("write", path, errno);
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      return MismatchError(fmt::format("{} is being written by another search", path.string()))
          .WithHint("wait for its end, or choose another folder with -o");
    }
    MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kMostJournalBytes));
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    const std::vector<std::string_view> lines =
        base::Split(std::string_view(text).substr(0, whole), '\n');
    const bool is_same = whole > 0 && lines[0] == plan;
    if (whole > 0 && !is_same && !replaces) {
      return UsageError(
                 fmt::format("{} is of an unfinished search for something else", path.string()))
          .WithHint("--force replaces it; or choose another folder, for example with -o");
    }
    // A line that a killed search has not written to its end goes.
    if (::ftruncate(file_.get(), static_cast<off_t>(is_same ? whole : 0)) != 0) {
      return base::SystemError("write", path, errno);
    }
    if (!is_same) {
      return Append(plan);
    }
    for (size_t i = 1; i < lines.size(); ++i) {
      if (auto run = json::ParseDocument(lines[i]); run.ok() && run->is_object()) {
        runs_[json::TextOf(json::Member(*run, "changes"))].push_back(std::move(*run));
      }
    }
    return {};
  }

  Status Append(std::string line) {
    line += '\n';
    const ssize_t written = ::write(file_.get(), line.data(), line.size());
    if (written >= 0 && written != static_cast<ssize_t>(line.size())) {
      return base::SystemError("write", path_, ENOSPC);
    }
    if (written < 0 || ::fdatasync(file_.get()) != 0) {
      return base::SystemError("write", path_, errno);
    }
    return {};
  }

  // The next run of this state that an earlier process made.
  std::optional<json::Json> Take(const std::string& changes) {
    std::vector<json::Json>& runs = runs_[changes];
    size_t& taken = taken_[changes];
    return taken < runs.size() ? std::optional(runs[taken++]) : std::nullopt;
  }

 private:
  fs::path path_;
  base::Descriptor file_{-1};
  std::map<std::string, std::vector<json::Json>, std::less<>> runs_;
  std::map<std::string, size_t, std::less<>> taken_;
};

class Hunt {
 public:
  explicit Hunt(const Options& options)
      : options_(options),
        work_(fs::absolute(options.output).lexically_normal() / kWorkName),
        logs_(fs::absolute(options.output).lexically_normal() / "logs") {}

  Result<Findings> Run();

 private:
  struct Said {
    Outcome outcome = Outcome::kSkip;
    std::string program;
    std::string check;
    double number = 0;  // rows that differ
  };

  Status Prepare();
  std::string PlanText() const;
  Status Find();
  Status FindPartners(size_t culprit, Noise& noise, Budget& budget);

  // Runs a state once more, or takes it from the journal.
  Result<Outcome> RunState(const Chosen& chosen, std::string_view why);
  Result<Said> RunProgram(const Chosen& chosen, const fs::path& log);
  Result<Said> AskCheck(Start start, const fs::path& log, const End& end);
  Result<Said> AskCompare(const Chosen& chosen, const Start& start, const fs::path& log,
                          const End& end);
  Result<json::Json> CompareWithReference(const fs::path& dump, const fs::path& log);
  Status MakeReference(const Start& start);
  std::vector<std::string> Captured(const std::vector<std::string>& program, const fs::path& dump,
                                    bool is_reference) const;
  bool IsEnd(const Chosen& chosen) const {
    return chosen.empty() || chosen.size() == findings_.changes.size();
  }

  const Options& options_;
  const fs::path work_;
  const fs::path logs_;
  std::unique_ptr<Source> source_;
  Journal journal_;
  Findings findings_;
  std::map<std::string, Tally, std::less<>> tallies_;
  bool end_failed_[2] = {false, false};  // the program itself, of the good and the bad side
  double bad_number_ = 0;
  bool nothing_captured_ = false;
};

std::string Hunt::PlanText() const {
  json::Json plan = json::Json::object();
  plan["msprobe_bisect"] = 1;
  plan["by"] = ByName(options_.by);
  plan["check"] = options_.check;
  plan["program"] = options_.program;
  plan["repeats"] = options_.repeats;
  plan["timeout"] = options_.timeout_s;
  plan["links"] = options_.links;
  json::Json changes = json::Json::array();
  for (const Change& change : findings_.changes) {
    changes.push_back(change.id);
  }
  plan["changes"] = std::move(changes);
  // A hash of the values, which may be long and secret.
  plan["identity"] = fmt::format("{:016x}", std::hash<std::string>()(source_->identity()));
  return json::DocumentText(plan, -1, json::Writer::NonFinite::kText);
}

Status Hunt::Prepare() {
  std::error_code ignored;
  const bool is_new = !fs::exists(options_.output, ignored);
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_RETURN_IF_ERROR(base::CreateFolders(options_.output));
  if (is_new && options_.by == By::kCommits) {
    // The folder may be in the checkout, whose state git must not see changed.
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(options_.output / ".gitignore", "*\n"));
  }
  MSP_RETURN_IF_ERROR(base::CreateFolders(logs_));
  source_ = options_.by == By::kCommits    ? MakeCommitSource(options_, work_)
            : options_.by == By::kPackages ? MakePackageSource(options_, work_)
                                           : MakeSettingSource(options_, work_);
  MSP_ASSIGN_OR_RETURN(findings_.changes, source_->Changes(findings_.warnings));
  if (findings_.changes.empty()) {
    return MismatchError("the good and the bad side are the same: there is nothing to search");
  }
  return journal_.Open(options_.output / kJournalName, PlanText(), options_.replaces);
}

Result<Outcome> Hunt::RunState(const Chosen& chosen, std::string_view why) {
  const std::string name = NameOf(chosen);
  const bool is_repeat = tallies_[name].runs() > 0;
  findings_.repeats += is_repeat ? 1 : 0;
  Row row;
  row.changes = name;
  row.why = is_repeat ? "repeat" : why;
  Said said;
  if (const std::optional<json::Json> before = journal_.Take(name)) {
    said.outcome =
        OutcomeOf(json::TextOf(json::Member(*before, "verdict"))).value_or(Outcome::kSkip);
    said.program = json::TextOf(json::Member(*before, "program"));
    said.check = json::TextOf(json::Member(*before, "check"));
    said.number = json::NumberOf(json::Member(*before, "number"));
    row.seconds = json::NumberOf(json::Member(*before, "seconds"));
    row.log = logs_ / fs::path(json::TextOf(json::Member(*before, "log"))).filename();
    ++findings_.resumed;
  } else {
    const auto begin = std::chrono::steady_clock::now();
    row.log = logs_ / fmt::format("{:03}.txt", findings_.rows.size() + 1);
    std::error_code ignored;
    fs::remove(row.log, ignored);
    MSP_ASSIGN_OR_RETURN(said, RunProgram(chosen, row.log));
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    json::Json line = json::Json::object();
    line["changes"] = name;
    line["verdict"] = WordOf(said.outcome);
    line["program"] = said.program;
    line["check"] = said.check;
    line["number"] = said.number;
    line["seconds"] = row.seconds;
    line["log"] = row.log.filename().string();
    MSP_RETURN_IF_ERROR(
        journal_.Append(json::DocumentText(line, -1, json::Writer::NonFinite::kText)));
  }
  row.verdict = WordOf(said.outcome);
  row.program = said.program;
  row.check = said.check;
  if (chosen.empty() || chosen.size() == findings_.changes.size()) {
    end_failed_[chosen.empty() ? 0 : 1] |= said.program != "exit 0";
    bad_number_ = chosen.empty() ? bad_number_ : std::max(bad_number_, said.number);
  }
  if (said.outcome == Outcome::kBad) {
    findings_.last_bad_log = row.log;
  }
  if (!options_.quiet) {
    base::LogInfo(fmt::format("run {}: {} of {} changes: {} ({})", findings_.rows.size() + 1,
                              chosen.size(), findings_.changes.size(), row.verdict,
                              base::FormatSeconds(row.seconds)));
  }
  findings_.rows.push_back(std::move(row));
  return said.outcome;
}

std::vector<std::string> Hunt::Captured(const std::vector<std::string>& program,
                                        const fs::path& dump, bool is_reference) const {
  std::vector<std::string> all = {
      options_.msprobe.string(), "--no-config", "dump", "--output", dump.string(), "--force"};
  if (is_reference) {
    all.insert(all.end(), {"--repeat", "2"});
  }
  all.emplace_back("--");
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

Result<Hunt::Said> Hunt::RunProgram(const Chosen& chosen, const fs::path& log) {
  Result<Place> place = source_->Make(chosen);
  if (!place.ok()) {
    if (place.status().code() != StatusCode::kMismatch || IsEnd(chosen)) {
      return std::move(place).status();
    }
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(log, place.status().message() + "\n", base::Existing::kReplace));
    return Said{Outcome::kSkip, "not run", "the changes cannot be had together", 0};
  }
  const fs::path files = work_ / "run";
  std::error_code ignored;
  fs::remove_all(files, ignored);
  MSP_RETURN_IF_ERROR(base::CreateFolders(files));
  Start start;
  start.program = options_.program;
  for (std::string& argument : start.program) {
    argument = base::ReplaceAll(argument, "{config}", place->settings.string());
  }
  start.folder = place->folder;
  start.variables = std::move(place->variables);
  // No file of Python's beside the user's modules, and none that is older than its source.
  start.variables.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
  start.variables.emplace_back("MSPROBE_BISECT_FOLDER", files.string());
  start.without_git_variables = options_.by == By::kCommits;
  start.output = log;
  start.patience = std::chrono::seconds(options_.timeout_s);
  if (options_.check.empty() && chosen.empty() && !fs::exists(work_ / "reference", ignored) &&
      !nothing_captured_) {
    MSP_RETURN_IF_ERROR(MakeReference(start));
  }
  const std::vector<std::string> program = start.program;
  if (options_.check.empty() && !nothing_captured_) {
    start.program = Captured(program, files / "dump", false);
  }
  MSP_ASSIGN_OR_RETURN(const End end, RunToEnd(start));
  if (!IsEnd(chosen) && end.failed() && !end_failed_[0] && !end_failed_[1]) {
    return Said{Outcome::kSkip, end.text(), "fails as neither side does", 0};
  }
  if (end.exit_code == kSkipCode && !IsEnd(chosen)) {
    return Said{Outcome::kSkip, end.text(), "", 0};
  }
  start.program = program;
  return options_.check.empty() ? AskCompare(chosen, start, log, end)
                                : AskCheck(std::move(start), log, end);
}

Result<Hunt::Said> Hunt::AskCheck(Start start, const fs::path& log, const End& end) {
  // What the check says must not become what it reads.
  const fs::path saying = work_ / "check.txt";
  std::error_code ignored;
  fs::remove(saying, ignored);
  start.program = {"/bin/sh", "-c", options_.check};
  start.input = log;
  start.output = saying;
  MSP_ASSIGN_OR_RETURN(const End check, RunToEnd(start));
  if (const auto text = base::ReadTextFile(saying, kMostAnswerBytes); text.ok() && !text->empty()) {
    const base::Descriptor out(::open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    const std::string shown = "--- check\n" + *text;
    [[maybe_unused]] const ssize_t written = ::write(out.get(), shown.data(), shown.size());
  }
  if (check.signal != 0 || check.exit_code > kLastVerdictCode) {
    return MismatchError(
               fmt::format("the check ended with {}: {}", check.text(), QuotedTailOf(log)))
        .WithHint("its exit code is the verdict: 0 good, 125 skip, others up to 127 bad");
  }
  Said said{Outcome::kBad, end.text(), check.text(), 0};
  if (check.timed_out || check.exit_code == kSkipCode) {
    said.outcome = Outcome::kSkip;
  } else if (check.exit_code == 0) {
    said.outcome = Outcome::kGood;
  }
  return said;
}

Status Hunt::MakeReference(const Start& start) {
  const fs::path made = work_ / "reference_in_work";
  std::error_code ignored;
  fs::remove_all(made, ignored);
  Start reference = start;
  reference.output = logs_ / "reference.txt";
  fs::remove(reference.output, ignored);
  reference.program = Captured(start.program, made, true);
  MSP_ASSIGN_OR_RETURN(const End end, RunToEnd(reference));
  if (!fs::exists(made, ignored) || fs::is_empty(made, ignored)) {
    nothing_captured_ = true;
    findings_.warnings.emplace_back(
        end.failed()
            ? "the run of the good side failed: exit codes are compared, not values"
            : "nothing was captured: exit codes are compared, not values; --check can tell "
              "good from bad");
    return {};
  }
  fs::rename(made, work_ / "reference", ignored);
  return {};
}

Result<json::Json> Hunt::CompareWithReference(const fs::path& dump, const fs::path& log) {
  const fs::path answer = work_ / "compare.json";
  std::error_code ignored;
  fs::remove(answer, ignored);
  Start start;
  start.program = {options_.msprobe.string(),
                   "--no-config",
                   "compare",
                   dump.string(),
                   (work_ / "reference").string(),
                   "--output",
                   (work_ / "run" / "compared").string(),
                   "--json"};
  start.output = answer;
  start.errors = log;
  MSP_ASSIGN_OR_RETURN(const End end, RunToEnd(start));
  if (end.failed()) {
    return MismatchError(fmt::format("compare ended with {}: {}", end.text(), QuotedTailOf(log)));
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(answer, kMostAnswerBytes));
  MSP_ASSIGN_OR_RETURN(json::Json document, json::ParseDocument(text));
  return json::Member(document, "verdict");
}

Result<Hunt::Said> Hunt::AskCompare(const Chosen& chosen, const Start& start, const fs::path& log,
                                    const End& end) {
  (void)start;
  Said said{end.failed() ? Outcome::kBad : Outcome::kGood, end.text(), "", 0};
  // Where the fault is that the program fails, the others are good.
  if (nothing_captured_ || end.failed() || (!IsEnd(chosen) && end_failed_[1])) {
    return said;
  }
  const Result<json::Json> verdict = CompareWithReference(work_ / "run" / "dump", log);
  if (!verdict.ok()) {
    if (IsEnd(chosen)) {
      return verdict.status();
    }
    return Said{Outcome::kSkip, end.text(), verdict.status().message(), 0};
  }
  const std::string& standing = json::TextOf(json::Member(*verdict, "standing"));
  said.check = json::TextOf(json::Member(*verdict, "word"));
  if (standing == "findings") {
    said.number = json::NumberOf(json::Member(*verdict, "number"));
    const bool is_weak = !IsEnd(chosen) && said.number < kWeakShare * bad_number_;
    said.outcome = is_weak ? Outcome::kWeaklyBad : Outcome::kBad;
    said.check += fmt::format(" ({} rows)", said.number);
  } else if (standing != "clean") {
    said.outcome = Outcome::kSkip;
  }
  return said;
}

Status Hunt::FindPartners(size_t culprit, Noise& noise, Budget& budget) {
  Chosen together = {culprit};
  for (;;) {
    MSP_ASSIGN_OR_RETURN(const State state,
                         Judge(tallies_[NameOf(together)], kSuffices, noise, budget, [&] {
                           return RunState(together, together.size() == 1 ? "alone" : "together");
                         }));
    findings_.culprits = together;
    if (state == State::kBad) {
      findings_.is_alone = true;
      break;
    }
    if (state != State::kGood || together.size() == kMostTogether || together.front() == 1) {
      findings_.warnings.emplace_back(
          state == State::kSkipped
              ? "what was found could not be tried without the changes before it"
          : state == State::kUnknown
              ? "whether what was found suffices is not known: the repeats were used up"
              : "what was found does not suffice by itself");
      break;
    }
    // The state with all changes up to the first of them, and these, is known to be bad; without
    // any of the others it is good.
    const size_t count = together.front() - 1;
    std::vector<Tally> seen(count + 1);
    for (size_t position = 0; position <= count; ++position) {
      const auto known = tallies_.find(NameOf(Joined(FirstOnes(position), together)));
      if (known != tallies_.end()) {
        seen[position] = known->second;
      }
    }
    MSP_ASSIGN_OR_RETURN(
        const Boundary boundary,
        FindBoundary(count, seen, true, noise, budget, [&](size_t position) -> Result<Outcome> {
          const Chosen chosen = Joined(FirstOnes(position), together);
          MSP_ASSIGN_OR_RETURN(const Outcome outcome, RunState(chosen, "partner"));
          tallies_[NameOf(chosen)].Add(outcome);
          return outcome;
        }));
    if (boundary.end != Boundary::End::kFound) {
      findings_.warnings.emplace_back(
          "it does not suffice alone, and what it needs was not found: the repeats were used up");
      break;
    }
    if (boundary.first != boundary.last) {
      findings_.warnings.push_back(
          fmt::format("it also needs one of the changes {}-{}", boundary.first, boundary.last));
      break;
    }
    together = Joined(together, {boundary.first});
    findings_.probability *= boundary.probability;
  }
  findings_.answer = findings_.culprits.size() == 1   ? Answer::kCulprit
                     : findings_.culprits.size() == 2 ? Answer::kPair
                                                      : Answer::kGroup;
  return {};
}

Status Hunt::Find() {
  const size_t count = findings_.changes.size();
  Noise noise(options_.repeats == 0);
  Budget budget{options_.repeats};
  std::vector<Tally> seen(count + 1);
  MSP_ASSIGN_OR_RETURN(
      const Boundary boundary,
      FindBoundary(count, seen, false, noise, budget, [&](size_t position) -> Result<Outcome> {
        const Chosen chosen = FirstOnes(position);
        MSP_ASSIGN_OR_RETURN(const Outcome outcome,
                             RunState(chosen, position == 0       ? "good side"
                                              : position == count ? "bad side"
                                                                  : "search"));
        tallies_[NameOf(chosen)].Add(outcome);
        return outcome;
      }));
  findings_.probability = boundary.probability;
  switch (boundary.end) {
    case Boundary::End::kNeverBad:
      findings_.answer = Answer::kNotReproduced;
      findings_.reason =
          fmt::format("the bad side is good ({} of {})", seen[count].good + seen[count].weakly_good,
                      base::Plural(seen[count].runs(), "run"));
      return {};
    case Boundary::End::kAlwaysBad:
      findings_.answer = Answer::kNotReproduced;
      findings_.reason =
          fmt::format("the good side is bad ({} of {})", seen[0].bad + seen[0].weakly_bad,
                      base::Plural(seen[0].runs(), "run"));
      for (const Row& row : findings_.rows) {
        if (row.changes == "none" && row.verdict.starts_with("bad")) {
          findings_.last_bad_log = row.log;
        }
      }
      return {};
    case Boundary::End::kFlaky:
      findings_.answer = Answer::kFlaky;
      findings_.reason = fmt::format(
          "the runs contradict each other (good side bad in {} of {}, bad side bad in {} of {})",
          seen[0].bad + seen[0].weakly_bad, base::Plural(seen[0].runs(), "run"),
          seen[count].bad + seen[count].weakly_bad, base::Plural(seen[count].runs(), "run"));
      return {};
    case Boundary::End::kFound:
      break;
  }
  if (boundary.first != boundary.last) {
    findings_.answer = Answer::kCulprit;
    findings_.is_range = true;
    for (size_t place = boundary.first; place <= boundary.last; ++place) {
      findings_.culprits.push_back(place);
    }
    return {};
  }
  if (boundary.first == 1) {
    findings_.culprits = {1};  // its state was nothing but it
    findings_.is_alone = true;
    findings_.answer = Answer::kCulprit;
    return {};
  }
  return FindPartners(boundary.first, noise, budget);
}

Status WriteRows(const Findings& findings, const fs::path& path) {
  report::Table table("bisect",
                      {"run", "changes", "why", "verdict", "program", "check", "seconds", "log"});
  int64_t number = 0;
  for (const Row& row : findings.rows) {
    table.AddRow(std::vector<report::Cell>{
        report::Cell::Integer(++number), table.KeepText(row.changes), table.KeepText(row.why),
        table.KeepText(row.verdict), table.KeepText(row.program), table.KeepText(row.check),
        report::Cell::Number(std::round(row.seconds * 1000) / 1000),
        table.KeepText(row.log.filename().string())});
  }
  return report::WriteCsvParts(fs::path(path).replace_extension(), table).status();
}

Result<Findings> Hunt::Run() {
  MSP_RETURN_IF_ERROR(Prepare());
  MSP_RETURN_IF_ERROR(Find());
  findings_.by = options_.by;
  findings_.files.push_back(options_.output / "bisect.csv");
  MSP_RETURN_IF_ERROR(WriteRows(findings_, findings_.files.back()));
  findings_.files.push_back(options_.output / "logs" / "");
  std::error_code ignored;
  fs::remove(options_.output / kJournalName, ignored);
  if (!options_.keeps) {
    if (fs::remove_all(work_, ignored); ignored) {
      findings_.warnings.push_back(
          fmt::format("cannot remove {}: {}", work_.string(), ignored.message()));
    }
  } else {
    findings_.files.push_back(work_ / "");
  }
  return std::move(findings_);
}

}  // namespace

std::string_view ByName(By by) {
  constexpr std::string_view kNames[] = {"commits", "packages", "settings"};
  return kNames[static_cast<size_t>(by)];
}

Result<Findings> Run(const Options& options) { return Hunt(options).Run(); }

}  // namespace msprobe::analysis::bisect
