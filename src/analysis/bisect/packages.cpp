// Versions of packages, in an environment of our own: made with `python3 -m venv` in the folder of
// the search, and taken from one state to the next by `pip install --no-deps` of what differs. The
// environment of the user is not touched.
//
// Each side is a lock file or what `pip freeze` printed. Of a line only these forms are understood,
// so that no file can name an index, a further file or an option: NAME==VERSION with extras and a
// marker, NAME @ URL, and --hash=... behind them.
#include <algorithm>
#include <map>
#include <set>
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

constexpr uint64_t kMostLockBytes = uint64_t{16} << 20;

struct Pinned {
  std::string line;     // for pip, without hashes
  std::string version;  // or the URL
};
using Lock = std::map<std::string, Pinned, std::less<>>;  // by normal name

std::string NormalPackageName(std::string_view name) {
  std::string normal = base::AsciiLower(name);
  std::string result;
  for (const char c : normal) {
    const bool is_dash = c == '-' || c == '_' || c == '.';
    if (!is_dash) {
      result += c;
    } else if (result.empty() || result.back() != '-') {
      result += '-';
    }
  }
  return result;
}

bool IsPackageName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return base::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

bool IsVersion(std::string_view version) {
  return !version.empty() && std::all_of(version.begin(), version.end(), [](char c) {
    return base::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '+' || c == '!' || c == '-' || c == '_';
  });
}

bool IsPrintableText(std::string_view text) { return base::Printable(text) == text; }

// One line without comment, or nullopt-like empty name.
Result<std::pair<std::string, Pinned>> ParsePin(std::string_view line) {
  const auto refuse = [] {
    return UnsupportedError("not NAME==VERSION or NAME @ URL")
        .WithHint("options, editable packages and files are not read: remove the line, or pin it");
  };
  const size_t hash = line.find(" --hash");
  std::string_view text = base::Trim(line.substr(0, hash));
  if (hash != std::string_view::npos) {
    for (const std::string_view word : base::Split(line.substr(hash), ' ')) {
      if (!word.empty() && !word.starts_with("--hash=")) {
        return refuse();
      }
    }
  }
  std::string marker;
  const size_t at = text.find(" @ ");
  if (const size_t semicolon = text.find(at == std::string_view::npos ? ";" : " ;");
      semicolon != std::string_view::npos) {
    marker = " ; " + std::string(base::Trim(text.substr(text.find(';', semicolon) + 1)));
    text = base::Trim(text.substr(0, semicolon));
  }
  const size_t equals = text.find("==");
  const size_t end_of_name = std::min(equals, at);
  if (end_of_name == std::string_view::npos || !IsPrintableText(text) || !IsPrintableText(marker) ||
      marker.find(" -") != std::string::npos) {
    return refuse();
  }
  std::string_view name = base::Trim(text.substr(0, end_of_name));
  std::string extras;
  if (const size_t bracket = name.find('['); bracket != std::string_view::npos) {
    extras = std::string(name.substr(bracket));
    name = base::Trim(name.substr(0, bracket));
    const std::string_view inside = std::string_view(extras).substr(1, extras.size() - 2);
    if (extras.size() < 3 || extras.back() != ']') {
      return refuse();
    }
    for (const std::string_view extra : base::Split(inside, ',')) {
      if (!IsPackageName(base::Trim(extra))) {
        return refuse();
      }
    }
  }
  Pinned pinned;
  if (end_of_name == equals) {
    std::string_view version =
        base::Trim(text.substr(equals + (text.substr(equals).starts_with("===") ? 3 : 2)));
    if (!IsPackageName(name) || !IsVersion(version)) {
      return refuse();
    }
    pinned.version = std::string(version);
    pinned.line = fmt::format("{}{}=={}{}", name, extras, version, marker);
  } else {
    const std::string_view url = base::Trim(text.substr(at + 3));
    if (!IsPackageName(name) || url.empty() || url.find(' ') != std::string_view::npos ||
        !(url.starts_with("https://") || url.starts_with("file://"))) {
      return refuse();
    }
    pinned.version = std::string(url);
    pinned.line = fmt::format("{}{} @ {}{}", name, extras, url, marker);
  }
  return std::pair(NormalPackageName(name), std::move(pinned));
}

Result<Lock> ReadLock(const std::string& file, std::string_view flag) {
  Result<std::string> text = base::ReadTextFile(file, kMostLockBytes);
  if (!text.ok()) {
    return std::move(text).status().AddContext(flag);
  }
  Lock lock;
  std::string joined;
  size_t number = 0;
  size_t first = 0;
  for (const std::string_view raw : base::Split(*text, '\n')) {
    ++number;
    first = joined.empty() ? number : first;
    std::string_view line = base::Trim(raw);
    if (const size_t comment = line.starts_with('#') ? 0 : line.find(" #");
        comment != std::string_view::npos) {
      line = base::Trim(line.substr(0, comment));
    }
    const bool continues = line.ends_with('\\');
    if (continues) {
      line.remove_suffix(1);
    }
    joined += (joined.empty() ? "" : " ") + std::string(base::Trim(line));
    if (continues || base::Trim(joined).empty()) {
      continue;
    }
    auto pin = ParsePin(base::Trim(joined));
    if (!pin.ok()) {
      return std::move(pin).status().AddContext(fmt::format("{} line {}", file, first));
    }
    lock[pin->first] = std::move(pin->second);
    joined.clear();
  }
  return lock;
}

class PackageSource final : public Source {
 public:
  PackageSource(const Options& options, fs::path work)
      : options_(options),
        work_(std::move(work)),
        environment_(work_ / "environment"),
        held_file_(work_ / "environment.txt") {}

  Result<std::vector<Change>> Changes(std::vector<std::string>& warnings) override {
    (void)warnings;
    MSP_ASSIGN_OR_RETURN(good_, ReadLock(options_.good, "--good"));
    MSP_ASSIGN_OR_RETURN(bad_, ReadLock(options_.bad, "--bad"));
    if (const std::string& program = options_.program[0];
        program.find('/') != std::string::npos &&
        fs::path(program).filename().string().starts_with("python")) {
      return UsageError(fmt::format("{} would not be the Python of the environment that is made",
                                    base::Printable(program)))
          .WithHint("name it without its folder: python3");
    }
    std::set<std::string> names;
    for (const Lock* lock : {&good_, &bad_}) {
      for (const auto& [name, pinned] : *lock) {
        names.insert(name);
      }
    }
    std::vector<Change> changes;
    for (const std::string& name : names) {
      const auto before = good_.find(name);
      const auto behind = bad_.find(name);
      const std::string from = before == good_.end() ? "" : before->second.version;
      const std::string to = behind == bad_.end() ? "" : behind->second.version;
      if (from != to) {
        changed_.push_back(name);
        changes.push_back({name, fmt::format("{} -> {}", Shown(from), Shown(to))});
      }
    }
    return changes;
  }

  Result<Place> Make(const Chosen& chosen) override {
    Lock wanted = good_;
    for (const size_t place : chosen) {
      const std::string& name = changed_[place - 1];
      const auto behind = bad_.find(name);
      if (behind == bad_.end()) {
        wanted.erase(name);
      } else {
        wanted[name] = behind->second;
      }
    }
    MSP_RETURN_IF_ERROR(MakeEnvironment());
    if (Status status = Install(wanted); !status.ok()) {
      return status;
    }
    Place place;
    const char* path = std::getenv("PATH");
    place.variables = {{"PATH", (environment_ / "bin").string() + ":" +
                                    (path == nullptr ? "/usr/bin:/bin" : path)},
                       {"VIRTUAL_ENV", environment_.string()}};
    return place;
  }

  std::string identity() const override {
    std::string text;
    for (const Lock* lock : {&good_, &bad_}) {
      for (const auto& [name, pinned] : *lock) {
        text += pinned.line + "\n";
      }
      text += "\n";
    }
    return text;
  }

 private:
  static std::string Shown(const std::string& version) {
    return version.empty() ? "absent" : base::Printable(base::MaskText(version).text);
  }

  Status Do(std::vector<std::string> program) {
    const fs::path log = work_ / "pip.log";
    std::error_code ignored;
    fs::remove(log, ignored);
    Start start;
    start.program = std::move(program);
    start.output = log;
    MSP_ASSIGN_OR_RETURN(const End end, RunToEnd(start));
    if (end.failed()) {
      return MismatchError(fmt::format("{} ended with {}: {}",
                                       fs::path(start.program[0]).filename().string(), end.text(),
                                       QuotedTailOf(log)));
    }
    return {};
  }

  // What the environment holds; without the file it is not known, and the environment made anew.
  Status MakeEnvironment() {
    if (is_made_) {
      return {};
    }
    MSP_RETURN_IF_ERROR(base::CreateFolders(work_));
    std::error_code ignored;
    const auto held = base::ReadTextFile(held_file_, kMostLockBytes);
    if (held.ok()) {
      MSP_ASSIGN_OR_RETURN(held_, ReadLock(held_file_.string(), "environment"));
    } else {
      fs::remove_all(environment_, ignored);
      Status made = Do({"python3", "-m", "venv", environment_.string()});
      if (!made.ok()) {
        return std::move(made).WithHint("python3 -m venv must work: Debian has it in python3-venv");
      }
    }
    is_made_ = true;
    return {};
  }

  Status Install(const Lock& wanted) {
    std::string lines;
    std::vector<std::string> gone;
    for (const auto& [name, pinned] : wanted) {
      const auto held = held_.find(name);
      if (held == held_.end() || held->second.line != pinned.line) {
        lines += pinned.line + "\n";
      }
    }
    for (const auto& [name, pinned] : held_) {
      if (wanted.find(name) == wanted.end()) {
        gone.push_back(name);
      }
    }
    std::error_code ignored;
    if (lines.empty() && gone.empty()) {
      return {};
    }
    fs::remove(held_file_, ignored);  // until it is known again
    const std::vector<std::string> pip = {(environment_ / "bin" / "python").string(),
                                          "-I",
                                          "-m",
                                          "pip",
                                          "--disable-pip-version-check",
                                          "--no-input"};
    if (!gone.empty()) {
      std::vector<std::string> program = pip;
      program.insert(program.end(), {"uninstall", "--quiet", "--yes", "--"});
      program.insert(program.end(), gone.begin(), gone.end());
      MSP_RETURN_IF_ERROR(Do(std::move(program)));
    }
    if (!lines.empty()) {
      const fs::path requirements = work_ / "requirements.txt";
      MSP_RETURN_IF_ERROR(base::WriteFileAtomically(requirements, lines, base::Existing::kReplace));
      std::vector<std::string> program = pip;
      program.insert(program.end(), {"install", "--quiet", "--no-deps"});
      if (options_.no_index) {
        program.emplace_back("--no-index");
      }
      for (const std::string& link : options_.find_links) {
        program.push_back("--find-links=" + link);
      }
      program.push_back("--requirement=" + requirements.string());
      if (Status status = Do(std::move(program)); !status.ok()) {
        held_.clear();
        is_made_ = false;  // half of it may be there
        return status;
      }
    }
    held_ = wanted;
    std::string all;
    for (const auto& [name, pinned] : held_) {
      all += pinned.line + "\n";
    }
    return base::WriteFileAtomically(held_file_, all, base::Existing::kReplace);
  }

  const Options& options_;
  const fs::path work_;
  const fs::path environment_;
  const fs::path held_file_;
  Lock good_;
  Lock bad_;
  Lock held_;
  bool is_made_ = false;
  std::vector<std::string> changed_;
};

}  // namespace

std::unique_ptr<Source> MakePackageSource(const Options& options, fs::path work) {
  return std::make_unique<PackageSource>(options, std::move(work));
}

}  // namespace msprobe::analysis::bisect
