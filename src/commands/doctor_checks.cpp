#include "src/commands/doctor_checks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "msprobe/version.h"

#include "src/base/processes.h"
#include "src/base/files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/commands/python_package.h"
#include "src/device/device.h"
#include "src/kernels/stats.h"
#include "src/report/web_page.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

// One line per answer: a name, a tab, and "ok" or "no", a tab, what was seen. Errors are one line.
// Not asked is the working folder, which `python3 -c` would look into first: nothing in it is run,
// and a folder called torch is no PyTorch.
constexpr const char* kQuestions = R"(import importlib, sys
if sys.path[:1] == [""]:
    del sys.path[0]
def tell(name, ok, text):
    print("%s\t%s\t%s" % (name, "ok" if ok else "no", " ".join(str(text).split())), flush=True)
tell("python", sys.version_info >= (3, 8), "%d.%d.%d, %s" % (*sys.version_info[:3], sys.executable))
for name in ("torch", "mindspore", "msprobe", "msprobe._native", "msprobe.pytorch", "msprobe.mindspore"):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        tell(name, False, "absent" if error.name == name else error)
    except BaseException as error:
        tell(name, False, "%s: %s" % (type(error).__name__, error))
    else:
        if getattr(module, "__file__", None) is None:  # a folder without a package in it
            tell(name, False, "absent")
            continue
        tell(name, True, getattr(module, "__version__", getattr(module, "__file__", "")))
)";

// A line for each framework that is there, without loading it: name, version, interpreter, and what
// two names of one interpreter have in common.
constexpr const char* kLookup = R"(import importlib.util, sys
from importlib.metadata import version
if sys.path[:1] == [""]:
    del sys.path[0]
for name in ("torch", "mindspore"):
    found = importlib.util.find_spec(name)
    if found is not None and found.origin:
        try:
            text = version(name)
        except Exception:
            text = "of unknown version"
        print("%s\t%s\t%s\t%s" % (name, text, sys.executable, sys.prefix))
)";

struct Answer {
  bool ok = false;
  std::string text;
};
using Answers = std::map<std::string, Answer, std::less<>>;

Result<Answers> AskPython(const std::string& path) {
  base::ChildOptions options;
  options.program = {"python3", "-c", kQuestions};
  if (!path.empty()) {
    options.variables = {{"PYTHONPATH", path}};
  }
  MSP_ASSIGN_OR_RETURN(const base::ChildEnd end, base::RunChild(options));
  Answers answers;
  for (const std::string_view line : base::Split(end.output, '\n')) {
    const std::vector<std::string_view> cells = base::Split(line, '\t');
    if (cells.size() == 3 && (cells[1] == "ok" || cells[1] == "no")) {
      answers[std::string(cells[0])] = {cells[1] == "ok", base::Printable(cells[2])};
    }
  }
  if (answers.empty()) {
    return IoError(end.timed_out ? "python3 did not answer within a minute"
                                 : fmt::format("python3 ended with exit code {} and no answer",
                                               end.exit_code));
  }
  if (end.timed_out || end.signal != 0) {
    answers["end"] = {false, end.timed_out ? "python3 did not end within a minute"
                                           : fmt::format("python3 was killed by signal {} ({})",
                                                         end.signal, ::strsignal(end.signal))};
  }
  return answers;
}

const Answer& Of(const Answers& answers, std::string_view name) {
  static const Answer kNone{false, "python3 exited before it answered"};
  const auto found = answers.find(name);
  return found == answers.end() ? kNone : found->second;
}

bool IsInterpreterName(std::string_view name) {
  constexpr std::string_view kBegin = "python3.";
  return name == "python3" || name == "python" ||
         (name.starts_with(kBegin) && name.size() > kBegin.size() &&
          std::all_of(name.begin() + kBegin.size(), name.end(),
                      [](char c) { return c >= '0' && c <= '9'; }));
}

// Interpreters in the folders of PATH, in its order. Relative folders are left out: nothing in the
// working folder is run.
std::vector<fs::path> InterpretersOnPath() {
  constexpr size_t kMost = 24;
  const char* const path = std::getenv("PATH");
  std::vector<fs::path> found;
  for (const std::string_view folder : base::Split(path == nullptr ? "" : path, ':')) {
    if (!folder.starts_with('/')) {
      continue;
    }
    const Result<std::vector<std::string>> names = base::ListFolder(fs::path(folder));
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      const fs::path file = fs::path(folder) / name;
      if (found.size() < kMost && IsInterpreterName(name) && ::access(file.c_str(), X_OK) == 0 &&
          std::find(found.begin(), found.end(), file) == found.end()) {
        found.push_back(file);
      }
    }
  }
  return found;
}

// By framework, the interpreters on PATH that have it: "/usr/bin/python3 has torch 2.6.0".
std::map<std::string, std::vector<std::string>, std::less<>> OthersThatHave() {
  constexpr std::chrono::seconds kPatience{10};
  std::map<std::string, std::vector<std::string>, std::less<>> others;
  std::set<std::pair<std::string, std::string>> seen;  // framework, prefix
  for (const fs::path& interpreter : InterpretersOnPath()) {
    base::ChildOptions options;
    options.program = {interpreter.string(), "-c", kLookup};
    options.patience = kPatience;
    const Result<base::ChildEnd> end = base::RunChild(options);
    if (!end.ok() || end->exit_code != 0 || end->signal != 0 || end->timed_out) {
      continue;
    }
    for (const std::string_view line : base::Split(end->output, '\n')) {
      const std::vector<std::string_view> cells = base::Split(line, '\t');
      if (cells.size() == 4 && (cells[0] == "torch" || cells[0] == "mindspore") &&
          seen.emplace(cells[0], cells[3]).second) {
        others[std::string(cells[0])].push_back(
            base::Printable(fmt::format("{} has {} {}", interpreter.string(), cells[0], cells[1])));
      }
    }
  }
  return others;
}

Check ThisProgram() {
  return {"compare and the other commands that read files", Health::kWorks,
          fmt::format("msprobe {} ({}), {} kernels, {} cores", MSPROBE_VERSION, MSPROBE_BUILD,
                      kernels::InstructionSet(), std::thread::hardware_concurrency()),
          ""};
}

Check Pages() {
  const Status available = report::AnswerPage::Available();
  if (available.ok()) {
    return {"pages for browsers (--format html)", Health::kWorks, "built in", ""};
  }
  return {"pages for browsers (--format html)", Health::kAbsent, available.message(),
          available.hint()};
}

// `others`: interpreters on PATH that have it.
Check Capture(std::string_view framework, const Answers& answers,
              const std::vector<std::string>& others) {
  const bool is_torch = framework == "torch";
  Check check{fmt::format("capture from {}: dump -- python3 {}", is_torch ? "PyTorch" : "MindSpore",
                          "train.py"),
              Health::kWorks, "", ""};
  const Answer& package = Of(answers, framework);
  const Answer& shim = Of(answers, is_torch ? "msprobe.pytorch" : "msprobe.mindspore");
  const Answer& native = Of(answers, "msprobe._native");
  if (!package.ok) {
    check.health = package.text == "absent" ? Health::kAbsent : Health::kBroken;
    check.finding = package.text == "absent"
                        ? fmt::format("python3 has no {}", framework)
                        : fmt::format("import {}: {}", framework, package.text);
    check.remedy = fmt::format(
        "activate the environment of your training, or install {} here, and run msprobe doctor "
        "again",
        framework);
    if (package.text == "absent" && !others.empty()) {
      check.remedy = fmt::format(
          "{}: name that one behind msprobe dump --, or put its folder first on PATH, and run "
          "msprobe doctor again",
          base::Join(others, ", "));
    }
  } else if (!native.ok || !shim.ok) {
    check.health = Health::kBroken;
    check.finding = fmt::format("import msprobe: {}", native.ok ? shim.text : native.text);
    check.remedy =
        "install msprobe again: its Python package does not fit this Python or this "
        "machine";
  } else {
    check.finding = fmt::format("{} {}", framework, package.text);
  }
  return check;
}

// Inside a script, without the launcher.
Check Import(const Answers& answers, const fs::path& folder) {
  Check check{"import msprobe in your own scripts", Health::kWorks, "", ""};
  const Answer& package = Of(answers, "msprobe");
  const Answer& native = Of(answers, "msprobe._native");
  if (package.ok && native.ok) {
    check.finding = native.text;
    return check;
  }
  check.health = Health::kBroken;
  check.finding = package.ok                 ? native.text
                  : package.text == "absent" ? "python3 does not find the package"
                                             : package.text;
  check.remedy = fmt::format("export PYTHONPATH={}${{PYTHONPATH:+:$PYTHONPATH}}", folder.string());
  return check;
}

void AddPython(std::vector<Check>& checks) {
  const Result<fs::path> folder = FindPythonFolder();
  const Result<std::string> launchers_path =
      folder.ok() ? PathThatFinds(*folder) : Result<std::string>(folder.status());
  if (!launchers_path.ok()) {
    checks.push_back({"capture from a script", Health::kBroken, launchers_path.status().message(),
                      launchers_path.status().hint()});
    return;
  }
  const Result<Answers> asked = AskPython("");
  if (!asked.ok()) {
    checks.push_back({"capture from a script", Health::kBroken, asked.status().message(),
                      "put the python3 of your training first on PATH"});
    return;
  }
  const Answer& python = Of(*asked, "python");
  checks.push_back({"python3 on PATH", python.ok ? Health::kWorks : Health::kBroken, python.text,
                    python.ok ? "" : "capture needs Python 3.8 or newer"});
  // As the launcher of dump gives it.
  const Result<Answers> launched = AskPython(*launchers_path);
  const Answers& answers = launched.ok() ? *launched : *asked;
  constexpr std::array<std::string_view, 2> kFrameworks = {"torch", "mindspore"};
  const bool any_absent = std::any_of(
      kFrameworks.begin(), kFrameworks.end(),
      [&](std::string_view framework) { return Of(answers, framework).text == "absent"; });
  auto others = any_absent ? OthersThatHave() : decltype(OthersThatHave())();
  for (const std::string_view framework : kFrameworks) {
    checks.push_back(Capture(framework, answers, others[std::string(framework)]));
  }
  checks.push_back(Import(*asked, *folder));
  if (const auto end = answers.find("end"); end != answers.end()) {
    checks.push_back({"python3 on PATH", Health::kBroken, end->second.text,
                      "import the frameworks one by one in python3 to find the one that fails"});
  }
}

void AddDevices(std::vector<Check>& checks) {
  const device::Registry registry(device::Loading::kMayLoad);
  for (const std::unique_ptr<device::Runtime>& runtime : registry.all()) {
    const device::Inventory inventory = runtime->Describe();
    if (runtime->kind() == device::Kind::kHost) {
      continue;
    }
    Check check{fmt::format("{} devices", device::KindName(runtime->kind())), Health::kWorks, "",
                ""};
    if (inventory.status.ok()) {
      check.finding = fmt::format("{}, {}", inventory.devices.size(), inventory.version);
    } else {
      check.health = Health::kAbsent;
      check.finding = inventory.status.message();
      check.remedy = inventory.status.hint();
    }
    checks.push_back(std::move(check));
  }
}

// Of the place where results go unless they are told otherwise.
Check Folder() {
  std::error_code failure;
  const fs::path here = fs::current_path(failure);
  Check check{"results in this folder", Health::kWorks, here.string(), ""};
  if (failure || ::access(here.c_str(), W_OK | X_OK) != 0) {
    check.health = Health::kBroken;
    check.finding = fmt::format("{} cannot be written to: {}", here.string(),
                                failure ? failure.message() : std::strerror(errno));
    check.remedy = "choose another folder with -o";
    return check;
  }
  const fs::space_info space = fs::space(here, failure);
  if (!failure) {
    check.finding += fmt::format(", {} free", base::FormatBytes(space.available));
    constexpr uint64_t kLittle = uint64_t{1} << 30;
    if (space.available < kLittle) {
      check.health = Health::kBroken;
      check.remedy = "tensor dumps take gigabytes: choose another folder with -o";
    }
  }
  return check;
}

// Limits of the shell that stop what works elsewhere.
void AddLimits(std::vector<Check>& checks) {
  struct Limit {
    decltype(RLIMIT_AS) resource;
    const char* name;
    const char* flag;
    uint64_t least;
  };
  constexpr std::array<Limit, 3> kLimits = {
      {{RLIMIT_AS, "address space", "-v", uint64_t{4} << 30},
       {RLIMIT_FSIZE, "size of a file", "-f", uint64_t{4} << 30},
       {RLIMIT_NOFILE, "open files", "-n", 256}}};
  for (const Limit& limit : kLimits) {
    struct rlimit values = {};
    if (::getrlimit(limit.resource, &values) == 0 && values.rlim_cur != RLIM_INFINITY &&
        values.rlim_cur < limit.least) {
      checks.push_back(
          {"limits of this shell", Health::kBroken,
           fmt::format("{}: {}", limit.name, static_cast<uint64_t>(values.rlim_cur)),
           fmt::format("ulimit {} unlimited, or the highest value you may set", limit.flag)});
    }
  }
}

}  // namespace

std::vector<Check> ExamineMachine() {
  std::vector<Check> checks = {ThisProgram(), Pages()};
  AddPython(checks);
  AddDevices(checks);
  checks.push_back(Folder());
  AddLimits(checks);
  return checks;
}

std::vector<TellingVariable> TellingVariables() {
  constexpr std::array<std::string_view, 14> kBeginnings = {
      "MSPROBE_",    "PYTHONPATH=", "PATH=", "LD_LIBRARY_PATH=",
      "LD_PRELOAD=", "OMP_",        "CUDA_", "ASCEND_",
      "NCCL_",       "HCCL_",       "TORCH", "RANK=",
      "WORLD_SIZE=", "LC_ALL="};
  std::vector<TellingVariable> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t sign = text.find('=');
    if (sign != std::string_view::npos &&
        std::any_of(kBeginnings.begin(), kBeginnings.end(),
                    [text](std::string_view beginning) { return text.starts_with(beginning); })) {
      const std::string_view name = text.substr(0, sign);
      const base::Masked value = base::MaskValue(name, text.substr(sign + 1));
      found.push_back({base::Printable(name), base::Printable(value.text), value.count});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const TellingVariable& a, const TellingVariable& b) { return a.name < b.name; });
  return found;
}

}  // namespace msprobe::commands
