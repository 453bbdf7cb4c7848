// States of a repository, without a trace in it. A repository of our own in the folder of the
// search borrows the objects of the user's (objects/info/alternates) and is the only one that is
// written to: no worktree, ref, index or configuration of the user's is.
//
// The changes are the commits on one line from the good side to the bad one: from the bad side the
// first parent that descends from the good side, and so on. A merge on it is one change. A state
// with the first k of them is a checkout; any other set is the longest beginning with the rest
// picked onto it, where that is possible without a conflict.
#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/bisect/sources.h"
#include "src/base/files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"

namespace msprobe::analysis::bisect {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostGitBytes = uint64_t{256} << 20;
constexpr size_t kShownId = 10;

class CommitSource final : public Source {
 public:
  CommitSource(const Options& options, fs::path work)
      : options_(options), work_(std::move(work)), tree_(work_ / "checkout") {}

  Result<std::vector<Change>> Changes(std::vector<std::string>& warnings) override;
  Result<Place> Make(const Chosen& chosen) override;

 private:
  // What git says in the user's repository, or in ours.
  Result<std::string> Ask(std::vector<std::string> arguments);
  Result<std::string> Own(std::vector<std::string> arguments);
  Result<std::string> Git(std::vector<std::string> program, bool is_ours);
  Result<std::string> CommitOf(const std::string& name, std::string_view flag);
  Status MakeRepository();
  Status Link();
  void WarnOfMissing(std::vector<std::string>& warnings);

  const Options& options_;
  const fs::path work_;
  const fs::path tree_;
  bool is_made_ = false;
  std::string good_;
  std::string prefix_;  // of the current folder in the checkout
  fs::path top_;
  std::vector<std::string> commits_;  // from good to bad, without the good one
  std::map<size_t, int> mainline_;    // which parent of it is on the line
};

Result<std::string> CommitSource::Git(std::vector<std::string> program, bool is_ours) {
  const fs::path output = work_ / "git.out";
  const fs::path errors = work_ / "git.err";
  std::error_code ignored;
  fs::remove(output, ignored);
  fs::remove(errors, ignored);
  Start start;
  start.program = std::move(program);
  start.without_git_variables = is_ours;
  start.variables = {{"GIT_OPTIONAL_LOCKS", "0"}, {"GIT_TERMINAL_PROMPT", "0"}, {"LC_ALL", "C"}};
  if (is_ours) {
    start.variables.emplace_back("GIT_LFS_SKIP_SMUDGE", "1");
    start.variables.emplace_back("GIT_EDITOR", "true");
  }
  start.output = output;
  start.errors = errors;
  MSP_ASSIGN_OR_RETURN(const End end, RunToEnd(start));
  if (end.failed()) {
    return MismatchError(fmt::format("git ended with {}: {}", end.text(), QuotedTailOf(errors)));
  }
  return base::ReadTextFile(output, kMostGitBytes);
}

Result<std::string> CommitSource::Ask(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"git", "--no-pager", "-c", "core.fsmonitor=false"});
  MSP_ASSIGN_OR_RETURN(std::string text, Git(std::move(arguments), false));
  return std::string(base::Trim(text));
}

Result<std::string> CommitSource::Own(std::vector<std::string> arguments) {
  std::vector<std::string> program = {"git", "--no-pager"};
  // Nothing that a configuration of the user names may run or ask.
  for (const char* setting :
       {"core.hooksPath=/dev/null", "core.fsmonitor=false", "commit.gpgSign=false",
        "rerere.enabled=false", "advice.detachedHead=false", "gc.auto=0", "user.name=msprobe",
        "user.email=msprobe@localhost"}) {
    program.insert(program.end(), {"-c", setting});
  }
  program.insert(program.end(), {"-C", tree_.string()});
  program.insert(program.end(), arguments.begin(), arguments.end());
  return Git(std::move(program), true);
}

Result<std::string> CommitSource::CommitOf(const std::string& name, std::string_view flag) {
  if (name.empty() || name.front() == '-') {
    return UsageError(fmt::format("{} {}: not the name of a commit", flag, base::Printable(name)));
  }
  Result<std::string> commit =
      Ask({"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  if (!commit.ok()) {
    return NotFoundError(
        fmt::format("{} {}: the repository has no such commit", flag, base::Printable(name)));
  }
  return commit;
}

Result<std::vector<Change>> CommitSource::Changes(std::vector<std::string>& warnings) {
  MSP_RETURN_IF_ERROR(base::CreateFolders(work_));
  Result<std::string> top = Ask({"rev-parse", "--show-toplevel"});
  if (!top.ok()) {
    return UsageError("--by commits needs a git repository: " + top.status().message())
        .WithHint("run it in the checkout, with git installed");
  }
  top_ = *top;
  MSP_ASSIGN_OR_RETURN(prefix_, Ask({"rev-parse", "--show-prefix"}));
  MSP_ASSIGN_OR_RETURN(good_, CommitOf(options_.good, "--good"));
  MSP_ASSIGN_OR_RETURN(const std::string bad, CommitOf(options_.bad, "--bad"));
  if (good_ == bad) {
    return UsageError("--good and --bad are the same commit");
  }
  MSP_ASSIGN_OR_RETURN(const std::string between,
                       Ask({"rev-list", "--ancestry-path", "--parents", good_ + ".." + bad, "--"}));
  std::map<std::string, std::vector<std::string>, std::less<>> parents;
  for (const std::string_view line : base::Split(between, '\n')) {
    const std::vector<std::string_view> ids = base::Split(line, ' ');
    parents[std::string(ids[0])].assign(ids.begin() + 1, ids.end());
  }
  if (parents.count(bad) == 0) {
    Status error =
        UsageError(fmt::format("{} is not an ancestor of {}", base::Printable(options_.good),
                               base::Printable(options_.bad)));
    if (const auto base = Ask({"merge-base", good_, bad}); base.ok() && *base == bad) {
      return error.WithHint("they are the other way round: exchange --good and --bad");
    } else if (base.ok()) {
      return error.WithHint("their last common commit is " + base->substr(0, kShownId));
    }
    return error;
  }
  std::vector<int> lines;
  for (std::string at = bad; at != good_;) {
    commits_.push_back(at);
    const std::vector<std::string>& of = parents[at];
    size_t next = 0;
    while (next < of.size() && of[next] != good_ && parents.count(of[next]) == 0) {
      ++next;
    }
    if (next == of.size()) {
      return InternalError("no line of commits leads to " + good_);
    }
    lines.push_back(of.size() > 1 ? static_cast<int>(next) + 1 : 0);
    at = of[next];
  }
  std::reverse(commits_.begin(), commits_.end());
  std::reverse(lines.begin(), lines.end());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] > 0) {
      mainline_[i + 1] = lines[i];
    }
  }
  std::map<std::string, std::string, std::less<>> subjects;
  MSP_ASSIGN_OR_RETURN(const std::string log,
                       Ask({"log", "--ancestry-path", "--format=%H %s", good_ + ".." + bad, "--"}));
  for (const std::string_view line : base::Split(log, '\n')) {
    const size_t blank = std::min(line.find(' '), line.size());
    subjects[std::string(line.substr(0, blank))] =
        base::Printable(base::MaskText(base::Trim(line.substr(blank))).text);
  }
  std::vector<Change> changes;
  for (const std::string& commit : commits_) {
    changes.push_back({commit.substr(0, kShownId), subjects[commit]});
  }
  if (!mainline_.empty()) {
    warnings.push_back(
        fmt::format("{} on the way: each is one change", base::Plural(mainline_.size(), "merge")));
  }
  MSP_RETURN_IF_ERROR(MakeRepository());
  WarnOfMissing(warnings);
  return changes;
}

Status CommitSource::MakeRepository() {
  std::error_code ignored;
  fs::remove_all(tree_, ignored);  // of a search that was killed
  MSP_RETURN_IF_ERROR(base::CreateFolders(tree_));
  MSP_ASSIGN_OR_RETURN(const std::string common, Ask({"rev-parse", "--git-common-dir"}));
  const fs::path git = fs::absolute(common, ignored).lexically_normal();
  MSP_ASSIGN_OR_RETURN(const std::string objects, Ask({"rev-parse", "--git-path", "objects"}));
  const Result<std::string> format = Ask({"rev-parse", "--show-object-format"});
  std::vector<std::string> init = {"init", "--quiet", "--template="};
  if (format.ok() && *format == "sha256") {
    init.emplace_back("--object-format=sha256");
  }
  MSP_RETURN_IF_ERROR(Own(std::move(init)).status());
  const fs::path alternates = tree_ / ".git" / "objects" / "info" / "alternates";
  MSP_RETURN_IF_ERROR(base::CreateFolders(alternates.parent_path()));
  const std::string borrowed = fs::absolute(objects, ignored).lexically_normal().string();
  if (borrowed.find('\n') != std::string::npos || borrowed.starts_with('"')) {
    return UnsupportedError(fmt::format("{} cannot be borrowed from", base::Printable(borrowed)));
  }
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(alternates, borrowed + "\n"));
  if (const auto shallow = base::ReadTextFile(git / "shallow", kMostGitBytes); shallow.ok()) {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(tree_ / ".git" / "shallow", *shallow));
  }
  is_made_ = true;
  return {};
}

// The checkout has neither files that git does not know nor the submodules.
void CommitSource::WarnOfMissing(std::vector<std::string>& warnings) {
  if (!Make({}).ok()) {
    return;
  }
  std::error_code ignored;
  if (fs::exists(tree_ / ".gitmodules", ignored)) {
    warnings.emplace_back("submodules are not checked out");
  }
  for (const std::string& argument : options_.program) {
    if (!argument.empty() && argument.front() != '-' && argument.front() != '/' &&
        fs::is_regular_file(argument, ignored) &&
        !fs::exists(tree_ / prefix_ / argument, ignored)) {
      warnings.push_back(
          fmt::format("{} is not in the good commit: it can be given as an absolute "
                      "path, or with --link",
                      base::Printable(argument)));
    }
  }
}

Status CommitSource::Link() {
  for (const std::string& link : options_.links) {
    const fs::path below = fs::path(prefix_) / link;
    const fs::path target = (top_ / below).lexically_normal();
    const fs::path place = (tree_ / below).lexically_normal();
    const std::string relative = place.lexically_relative(tree_).string();
    if (link.empty() || fs::path(link).is_absolute() || relative.starts_with("..") ||
        relative == "." || relative.starts_with(".git")) {
      return UsageError(
          fmt::format("--link {}: not a path below the checkout", base::Printable(link)));
    }
    std::error_code error;
    if (fs::exists(fs::symlink_status(place, error))) {
      continue;  // the commit has it
    }
    MSP_RETURN_IF_ERROR(base::CreateFolders(place.parent_path()));
    fs::create_symlink(target, place, error);
    if (error) {
      return IoError(fmt::format("cannot link {}: {}", base::Printable(link), error.message()));
    }
  }
  return {};
}

Result<Place> CommitSource::Make(const Chosen& chosen) {
  size_t beginning = 0;
  while (beginning < chosen.size() && chosen[beginning] == beginning + 1) {
    ++beginning;
  }
  const std::string& commit = beginning == 0 ? good_ : commits_[beginning - 1];
  MSP_RETURN_IF_ERROR(Own({"checkout", "--quiet", "--force", "--detach", commit, "--"}).status());
  MSP_RETURN_IF_ERROR(Own({"clean", "--quiet", "-ffdx"}).status());
  for (size_t i = beginning; i < chosen.size(); ++i) {
    std::vector<std::string> pick = {"cherry-pick", "--no-commit"};
    if (const auto line = mainline_.find(chosen[i]); line != mainline_.end()) {
      pick.push_back(fmt::format("--mainline={}", line->second));
    }
    pick.push_back(commits_[chosen[i] - 1]);
    if (Status status = Own(std::move(pick)).status(); !status.ok()) {
      // The state of a pick that failed must not meet the next checkout.
      MSP_RETURN_IF_ERROR(Own({"reset", "--quiet", "--hard", commit}).status());
      return status;
    }
  }
  MSP_RETURN_IF_ERROR(Link());
  Place place;
  place.folder = tree_ / prefix_;
  std::error_code ignored;
  if (!fs::is_directory(place.folder, ignored)) {
    MSP_RETURN_IF_ERROR(base::CreateFolders(place.folder));
  }
  return place;
}

}  // namespace

std::unique_ptr<Source> MakeCommitSource(const Options& options, fs::path work) {
  return std::make_unique<CommitSource>(options, std::move(work));
}

}  // namespace msprobe::analysis::bisect
