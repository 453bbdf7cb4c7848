// msprobe doctor: what works here, what does not, and which command mends it.
//
// In three parts, each of which returns what it found: the machine (this program, the python3 on
// PATH and its frameworks, devices, the working folder, limits of the shell); with --ascend the
// experiments of docs/hardware.md, which only hardware can confirm, with the runtime itself and
// with a small network; with --bundle a zip for an error report: the answer, environment variables,
// a command run again and logs of captures, secrets masked, no values of tensors.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "msprobe/status.h"
#include "msprobe/version.h"

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/processes.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/launcher.h"
#include "src/device/device.h"
#include "src/io/zip.h"
#include "src/kernels/stats.h"
#include "src/report/document.h"
#include "src/report/render.h"
#include "src/report/web_page.h"

extern char** environ;  // POSIX gives it no header

namespace msprobe::commands {
namespace {

struct BundleMember {
  std::string name;  // in the zip
  std::string text;
};

using report::Advice;

enum class Health : uint8_t {
  kWorks,
  kAbsent,  // not here, and not needed by everybody: a framework, an accelerator
  kBroken,  // should work, and does not
};

struct Check {
  std::string what;  // "capture from PyTorch"
  Health health = Health::kWorks;
  std::string finding;  // what was seen: versions, places, the error
  Advice remedy = {};   // a command or a sentence; none where nothing is to be done
};

// What somebody else's message advises.
Advice HintOf(const Status& status) {
  return status.hint().empty() ? Advice() : Advice("text", {status.hint()});
}

struct AscendExamination {
  bool tried = false;                 // whether any device took part
  std::vector<Check> checks;          // in the order of docs/hardware.md
  std::vector<BundleMember> members;  // what the commands said, for a report
};

namespace fs = std::filesystem;

constexpr uint64_t kMostBytesOfFile = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{16} << 20;
constexpr size_t kMostFiles = 1000;
constexpr int kDeepest = 6;

// Files of a dump that say how the run went, not what it computed.
bool IsLog(std::string_view name) {
  return name == "dump_error_info.log" || name == "manifest.json" || name == "msprobe.log";
}

struct Collection {
  std::vector<BundleMember>& members;
  uint64_t bytes = 0;
  size_t files = 0;
  std::vector<std::string> left_out = {};
};

void Collect(const fs::path& folder, const std::string& prefix, int depth, Collection& collection) {
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok()) {
    collection.left_out.push_back(names.status().message());
    return;
  }
  for (const std::string& name : *names) {
    const fs::path path = folder / name;
    std::error_code failure;
    const fs::file_status status = fs::symlink_status(path, failure);
    if (fs::is_directory(status)) {
      if (depth < kDeepest) {
        Collect(path, fmt::format("{}/{}", prefix, base::Printable(name)), depth + 1, collection);
      }
      continue;
    }
    if (!fs::is_regular_file(status) || !IsLog(name)) {
      continue;
    }
    Result<std::string> text = base::ReadTextFile(path, kMostBytesOfFile);
    if (!text.ok()) {
      collection.left_out.push_back(text.status().message());
    } else if (collection.bytes + text->size() > kMostBytes || collection.files >= kMostFiles) {
      collection.left_out.push_back(fmt::format("{}: there are too many", path.string()));
    } else {
      collection.bytes += text->size();
      ++collection.files;
      collection.members.push_back({fmt::format("{}/{}", prefix, name), *std::move(text)});
    }
  }
}

// Adds the logs and manifests of dump or monitor folders and of what is below them, by their known
// names alone. At most 1 MiB of each and 16 MiB in all; what is left out is named in the last
// member.
Status AddLogs(const std::vector<fs::path>& folders, std::vector<BundleMember>& members) {
  Collection collection{members};
  for (size_t i = 0; i < folders.size(); ++i) {
    std::error_code failure;
    if (!fs::is_directory(folders[i], failure)) {
      return NotFoundError(
          fmt::format("{}: no such directory", base::Printable(folders[i].string())));
    }
    Collect(folders[i], fmt::format("logs/{}", i), 0, collection);
  }
  if (!collection.left_out.empty()) {
    members.push_back({"logs/left_out.txt", base::Join(collection.left_out, "\n") + "\n"});
  }
  return {};
}

// Runs this program with `arguments`.
Result<base::ChildEnd> RunThisProgram(const std::vector<std::string>& arguments) {
  std::error_code failure;
  base::ChildOptions options;
  options.program = {fs::read_symlink("/proc/self/exe", failure).string()};
  if (failure) {
    return IoError(fmt::format("cannot find this program: {}", failure.message()));
  }
  options.program.insert(options.program.end(), arguments.begin(), arguments.end());
  constexpr std::chrono::hours kPatience{24};  // comparisons of clusters take their time
  options.patience = kPatience;
  return base::RunChild(options);
}

// Runs this program as the user did. The member holds its output and exit code; `masked` grows by
// the secrets in the command line.
Result<BundleMember> RunAgain(const std::vector<std::string>& arguments, size_t& masked) {
  MSP_ASSIGN_OR_RETURN(const base::ChildEnd end, RunThisProgram(arguments));
  std::string text =
      fmt::format("$ msprobe {}\n", base::Join(base::MaskArguments(arguments, &masked), " "));
  text += end.output;
  text += end.cut ? "\n(output truncated)\n" : "\n";
  text += end.signal != 0 ? fmt::format("ended by signal {}\n", end.signal)
                          : fmt::format("exit code {}\n", end.exit_code);
  return BundleMember{"command.txt", std::move(text)};
}

// One line per answer: a name, a tab, and "ok" or "no", a tab, what was seen. Errors are one line.
// Not asked is the working folder, which `python3 -c` would look into first: nothing in it is run,
// and a folder called torch is not PyTorch.
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
                      kernels::InstructionSet(), std::thread::hardware_concurrency())};
}

Check Pages() {
  const Status available = report::CheckAnswerPage();
  if (available.ok()) {
    return {"pages for browsers (--format html)", Health::kWorks, "built in"};
  }
  return {"pages for browsers (--format html)", Health::kAbsent, available.message(),
          HintOf(available)};
}

// `others`: interpreters on PATH that have it.
Check Capture(std::string_view framework, const Answers& answers,
              const std::vector<std::string>& others) {
  const bool is_torch = framework == "torch";
  Check check{fmt::format("capture from {}: dump -- python3 {}", is_torch ? "PyTorch" : "MindSpore",
                          "train.py"),
              Health::kWorks, ""};
  const Answer& package = Of(answers, framework);
  const Answer& shim = Of(answers, is_torch ? "msprobe.pytorch" : "msprobe.mindspore");
  const Answer& native = Of(answers, "msprobe._native");
  if (!package.ok) {
    check.health = package.text == "absent" ? Health::kAbsent : Health::kBroken;
    check.finding = package.text == "absent"
                        ? fmt::format("python3 has no {}", framework)
                        : fmt::format("import {}: {}", framework, package.text);
    check.remedy = Advice("doctor.environment", {std::string(framework)});
    if (package.text == "absent" && !others.empty()) {
      check.remedy = Advice("doctor.interpreter", {base::Join(others, ", ")});
    }
  } else if (!native.ok || !shim.ok) {
    check.health = Health::kBroken;
    check.finding = fmt::format("import msprobe: {}", native.ok ? shim.text : native.text);
    check.remedy = Advice("doctor.install");
  } else {
    check.finding = fmt::format("{} {}", framework, package.text);
  }
  return check;
}

// Inside a script, without the launcher.
Check Import(const Answers& answers, const fs::path& folder) {
  Check check{"import msprobe in your own scripts", Health::kWorks, ""};
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
  check.remedy = Advice("doctor.python_path", {folder.string()});
  return check;
}

void AddPython(std::vector<Check>& checks) {
  const Result<fs::path> folder = FindPythonFolder();
  const Result<std::string> launchers_path =
      folder.ok() ? PathThatFinds(*folder) : Result<std::string>(folder.status());
  if (!launchers_path.ok()) {
    checks.push_back({"capture from a script", Health::kBroken, launchers_path.status().message(),
                      HintOf(launchers_path.status())});
    return;
  }
  const Result<Answers> asked = AskPython("");
  if (!asked.ok()) {
    checks.push_back({"capture from a script", Health::kBroken, asked.status().message(),
                      Advice("doctor.first_on_path")});
    return;
  }
  const Answer& python = Of(*asked, "python");
  checks.push_back({"python3 on PATH", python.ok ? Health::kWorks : Health::kBroken, python.text,
                    python.ok ? Advice() : Advice("doctor.python_version")});
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
    checks.push_back(
        {"python3 on PATH", Health::kBroken, end->second.text, Advice("doctor.one_by_one")});
  }
}

void AddDevices(std::vector<Check>& checks) {
  const device::Registry registry(device::Loading::kMayLoad);
  for (const std::unique_ptr<device::Runtime>& runtime : registry.all()) {
    const device::Inventory inventory = runtime->Describe();
    if (runtime->kind() == device::Kind::kHost) {
      continue;
    }
    Check check{fmt::format("{} devices", device::KindName(runtime->kind())), Health::kWorks, ""};
    if (inventory.status.ok()) {
      check.finding = fmt::format("{}, {}", inventory.devices.size(), inventory.version);
    } else {
      check.health = Health::kAbsent;
      check.finding = inventory.status.message();
      check.remedy = HintOf(inventory.status);
    }
    checks.push_back(std::move(check));
  }
}

// The working folder, where results go by default.
Check Folder() {
  std::error_code failure;
  const fs::path here = fs::current_path(failure);
  Check check{"results in this folder", Health::kWorks, here.string()};
  if (failure || ::access(here.c_str(), W_OK | X_OK) != 0) {
    check.health = Health::kBroken;
    check.finding = fmt::format("{} cannot be written to: {}", here.string(),
                                failure ? failure.message() : std::strerror(errno));
    check.remedy = Advice("doctor.folder");
    return check;
  }
  const fs::space_info space = fs::space(here, failure);
  if (!failure) {
    check.finding += fmt::format(", {} free", base::FormatBytes(space.available));
    constexpr uint64_t kLittle = uint64_t{1} << 30;
    if (space.available < kLittle) {
      check.health = Health::kBroken;
      check.remedy = Advice("doctor.space");
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
      checks.push_back({"limits of this shell", Health::kBroken,
                        fmt::format("{}: {}", limit.name, static_cast<uint64_t>(values.rlim_cur)),
                        Advice("doctor.limit", {limit.flag})});
    }
  }
}

// Runs the python3 on PATH, which may take seconds. In the order in which people ask.
std::vector<Check> ExamineMachine() {
  std::vector<Check> checks = {ThisProgram(), Pages()};
  AddPython(checks);
  AddDevices(checks);
  checks.push_back(Folder());
  AddLimits(checks);
  return checks;
}

// The environment variables that change what msprobe and the frameworks do, with secrets masked:
// `masked` grows by their number. `unmasked`: names of the variables without a secret.
BundleMember VariablesMember(size_t& masked, std::vector<std::string>& unmasked) {
  constexpr std::array<std::string_view, 14> kBeginnings = {
      "MSPROBE_",    "PYTHONPATH=", "PATH=", "LD_LIBRARY_PATH=",
      "LD_PRELOAD=", "OMP_",        "CUDA_", "ASCEND_",
      "NCCL_",       "HCCL_",       "TORCH", "RANK=",
      "WORLD_SIZE=", "LC_ALL="};
  std::vector<std::pair<std::string, base::Masked>> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t sign = text.find('=');
    if (sign != std::string_view::npos &&
        std::any_of(kBeginnings.begin(), kBeginnings.end(),
                    [text](std::string_view beginning) { return text.starts_with(beginning); })) {
      const std::string_view name = text.substr(0, sign);
      found.emplace_back(base::Printable(name), base::MaskValue(name, text.substr(sign + 1)));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  BundleMember member{"variables.txt", ""};
  for (const auto& [name, value] : found) {
    member.text += fmt::format("{}={}\n", name, base::Printable(value.text));
    masked += value.count;
    if (value.count == 0) {
      unmasked.push_back(name);
    }
  }
  return member;
}

// Forward and backward of two linear layers, with sizes that no block of a device layout divides.
constexpr std::string_view kProbe = R"(import sys
import torch
device = sys.argv[1]
if device == "npu":
    import torch_npu
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(50, 33), torch.nn.GELU(), torch.nn.Linear(33, 21))
model = model.to(device)
batch = torch.linspace(-1, 1, 37 * 50).reshape(37, 50).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
)";

constexpr std::string_view kKernelConfig =
    R"({"task": "tensor", "level": "L2", "rank": [], "step": [0],
 "tensor": {"scope": [], "list": ["Functional.linear.0.forward"]}}
)";

// The same call above its kernels.
constexpr std::string_view kCallConfig =
    R"({"task": "tensor", "level": "L1", "rank": [], "step": [0],
 "tensor": {"scope": [], "list": ["Functional.linear.0.forward"], "data_mode": ["all"]}}
)";

class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code failure;
    std::string name = (fs::temp_directory_path(failure) / "msprobe-ascend-XXXXXX").string();
    if (failure || ::mkdtemp(name.data()) == nullptr) {
      status_ = IoError(fmt::format("no folder for temporary files: {}",
                                    failure ? failure.message() : std::strerror(errno)));
      return;
    }
    path_ = name;
    slot_ = base::RemoveOnInterrupt(name);
  }

  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    if (!path_.empty()) {
      std::error_code failure;
      fs::remove_all(path_, failure);
      base::ForgetOnInterrupt(slot_);
    }
  }

  const Status& status() const { return status_; }
  const fs::path& path() const { return path_; }

 private:
  Status status_;
  fs::path path_;
  int slot_ = -1;
};

Check CheckOf(const device::Finding& finding) {
  Check check{fmt::format("acl:{} {}", finding.device, finding.subject), Health::kWorks,
              finding.seen};
  switch (finding.outcome) {
    case device::Outcome::kAsExpected:
      break;
    case device::Outcome::kNotTried:
      check.health = Health::kAbsent;
      break;
    case device::Outcome::kDiffers:
    case device::Outcome::kFailed:
      check.health = Health::kBroken;
      check.remedy = Advice("doctor.report");
      break;
  }
  return check;
}

size_t FilesBelow(const fs::path& folder) {
  std::error_code failure;
  size_t count = 0;
  fs::recursive_directory_iterator walk(folder, failure);
  for (const fs::recursive_directory_iterator end; !failure && walk != end;
       walk.increment(failure)) {
    std::error_code ignored;
    const std::string name = walk->path().filename().string();
    count += walk->is_regular_file(ignored) && !name.ends_with(".json") ? 1 : 0;
  }
  return count;
}

class NetworkProbe {
 public:
  NetworkProbe(const fs::path& folder, AscendExamination& examination)
      : folder_(folder), examination_(examination) {}

  void Run() {
    if (!HasTorchNpu()) {
      return;
    }
    const Status written = WriteInputs();
    if (!written.ok()) {
      Add("a small network", Health::kBroken, written.message());
      return;
    }
    const std::string npu = (folder_ / "npu").string();
    const std::string cpu = (folder_ / "cpu").string();
    const std::string kernels = (folder_ / "kernels").string();
    const std::string probe = (folder_ / "probe.py").string();
    const auto capture = [&](const std::string& out, const std::string& device) {
      return std::vector<std::string>{"dump",       "-o", out,       "--level", "mix", "--task",
                                      "statistics", "--", "python3", probe,     device};
    };
    const bool on_npu = Step("capture on the device", "capture_npu.txt", capture(npu, "npu"));
    const bool on_cpu =
        Step("capture of the same on the CPU", "capture_cpu.txt", capture(cpu, "cpu"));
    if (on_npu && on_cpu) {
      Step("device against CPU", "compare.txt",
           {"compare", npu, cpu, "-o", (folder_ / "result").string()});
    }
    if (Step("kernel dump of one call", "kernel_dump.txt",
             {"dump", "-o", kernels, "-c", (folder_ / "kernels.json").string(), "--", "python3",
              probe, "npu"})) {
      const size_t files = FilesBelow(kernels);
      Add("files of the kernel dump", files > 0 ? Health::kWorks : Health::kBroken,
          files > 0 ? base::Plural(files, "file")
                    : "none: the dump was switched on and off, and nothing was written");
      Step("reading the kernel dump", "kernel_show.txt", {"show", kernels});
      Step("plain tensors of the kernel dump", "kernel_parse.txt",
           {"parse", kernels, "--to-original", "-t", "npy", "-o", (folder_ / "arrays").string()});
      const std::string call = (folder_ / "call").string();
      if (Step("tensors of the same call", "call_dump.txt",
               {"dump", "-o", call, "-c", (folder_ / "call.json").string(), "--", "python3", probe,
                "npu"})) {
        Step("kernels against their call", "kernel_compare.txt",
             {"compare", kernels, call, "-o", (folder_ / "kernel_result").string()});
      }
    }
  }

 private:
  bool HasTorchNpu() {
    base::ChildOptions options;
    options.program = {"python3", "-c", "import torch, torch_npu\nprint(torch_npu.__version__)"};
    const Result<base::ChildEnd> end = base::RunChild(options);
    if (end.ok() && end->exit_code == 0 && end->signal == 0) {
      Add("torch_npu", Health::kWorks, base::Printable(base::Trim(end->output)));
      return true;
    }
    Add("torch_npu", Health::kAbsent,
        "python3 does not import it: no experiment with kernels of a network was made",
        Advice("doctor.ascend"));
    return false;
  }

  Status WriteInputs() {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(folder_ / "probe.py", kProbe));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(folder_ / "kernels.json", kKernelConfig));
    return base::WriteFileAtomically(folder_ / "call.json", kCallConfig);
  }

  void Add(std::string what, Health health, std::string finding, Advice remedy = {}) {
    examination_.checks.push_back({std::move(what), health, std::move(finding), std::move(remedy)});
  }

  // Runs this program; its first line is the finding. False when it did not end with 0.
  bool Step(std::string_view what, std::string_view member,
            const std::vector<std::string>& arguments) {
    const Result<base::ChildEnd> end = RunThisProgram(arguments);
    const bool good = end.ok() && end->exit_code == 0 && end->signal == 0 && !end->timed_out;
    std::string text = end.ok() ? end->output : end.status().message();
    std::string_view line = base::Trim(text);
    line = line.substr(0, line.find('\n'));
    Add(std::string(what), good ? Health::kWorks : Health::kBroken, base::Printable(line),
        good ? Advice() : Advice("doctor.all_output", {std::string(member)}));
    examination_.members.push_back(
        {fmt::format("ascend/{}", member),
         fmt::format("$ msprobe {}\n{}", base::Join(arguments, " "), text)});
    return good;
  }

  const fs::path& folder_;
  AscendExamination& examination_;
};

// Takes a second per device, and a minute with torch_npu. Writes into a folder of its own for
// temporary files and removes it.
AscendExamination ExamineAscend() {
  AscendExamination examination;
  const ScratchFolder scratch;
  if (!scratch.status().ok()) {
    examination.checks.push_back(
        {"experiments with Ascend devices", Health::kBroken, scratch.status().message()});
    return examination;
  }
  {
    const device::Registry registry(device::Loading::kMayLoad);
    device::Runtime& acl = registry.Get(device::Kind::kAcl);
    const device::Inventory inventory = acl.Describe();
    if (!inventory.status.ok()) {
      examination.checks.push_back({"experiments with Ascend devices", Health::kAbsent,
                                    inventory.status.message(), HintOf(inventory.status)});
      return examination;
    }
    examination.tried = true;
    examination.checks.push_back(
        {"functions of the runtime",
         inventory.limitations.empty() ? Health::kWorks : Health::kAbsent,
         fmt::format("{} ({}): {}", inventory.library,
                     inventory.version.empty() ? "of unknown version" : inventory.version,
                     inventory.limitations.empty() ? "all are there"
                                                   : base::Join(inventory.limitations, "; "))});
    device::ExaminationOptions options;
    options.scratch_folder = scratch.path();
    for (const device::DeviceInfo& info : inventory.devices) {
      if (!info.trouble.empty()) {
        examination.checks.push_back(
            {fmt::format("acl:{}", info.index), Health::kBroken, info.trouble});
        continue;
      }
      for (const device::Finding& finding : device::Examine(acl, info.index, options)) {
        examination.checks.push_back(CheckOf(finding));
      }
    }
  }  // the runtime is given back before a training uses the devices
  NetworkProbe(scratch.path(), examination).Run();
  return examination;
}

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
    if (!check.remedy.id.empty()) {
      item.details.push_back({"fix", "fix: " + report::AdviceText(check.remedy)});
    }
    list.items.push_back(std::move(item));
    if (check.health == Health::kBroken) {
      ++broken;
      // What two checks ask for is done once.
      if (std::find(document.next.begin(), document.next.end(), check.remedy) ==
          document.next.end()) {
        document.Advise(check.remedy);
      }
    }
  }
  document.Add(std::move(title), std::move(list));
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
  document.verdict.outcome =
      broken == 0 ? report::AnswerOutcome::kClean : report::AnswerOutcome::kFindings;
  document.levels = report::OutcomesOf(kDoctorLevels);
  report::SetFound(document.levels, "any", broken != 0);
  document.verdict.number = static_cast<double>(broken);
  document.verdict.unit = "checks";
  if (ascend && !ascend->tried && broken == 0) {
    document.verdict.Say("NOT TRIED", "no Ascend device answers here; everything else works",
                         report::Tone::kCaution, report::AnswerOutcome::kNothingCompared);
  }
  return document;
}

class DoctorCommand final : public Command {
 public:
  DoctorCommand()
      : Command("doctor", "Check what works on this machine, and how to fix the rest") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Switch("--ascend", &ascend_,
               "Also try on Ascend devices what only hardware can confirm, and write a report"),
        Group::kOutput,
        Path("--bundle", "FILE", &bundle_, "Write an error report to this zip file"),
        Group::kInput,
        Path("--logs", "DIR", &logs_,
             "Include the error logs and manifests of these dump or monitor folders",
             Needs{"--bundle"}),
        ForceFlag(),
        AnswerRows(answer_, kDoctorLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument(
        "COMMAND", &command_,
        "With --bundle: the msprobe command to run again, after --, without the word msprobe",
        kRest)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe doctor", "check this machine"},
        {"msprobe doctor --bundle report.zip -- compare npu_dump gpu_dump -o result",
         "an error report of a failing command"},
        {"msprobe doctor --bundle report.zip --logs dump",
         "an error report of a capture that went wrong"},
        {"msprobe doctor --ascend", "try msprobe on this machine's Ascend devices"},
    };
  }

  std::string notes() const override {
    return kDoctorNotes + std::string("\n\n") + FailOnHelp(kDoctorLevels);
  }

  Result<ExitCode> Run(const Context& context) override;

 private:
  // Adds the zip to the files of the document.
  Status WriteBundle(const std::optional<AscendExamination>& ascend,
                     report::Document& document) const;

  std::vector<std::string> command_;
  bool ascend_ = false;
  std::filesystem::path bundle_;
  std::vector<std::filesystem::path> logs_;
  AnswerFlags answer_;
};

Result<ExitCode> DoctorCommand::Run(const Context& context) {
  if (bundle_.empty() && !command_.empty()) {
    return UsageError("a command can only be given with --bundle")
        .WithHint("msprobe doctor --bundle report.zip -- COMMAND");
  }
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
    MSP_RETURN_IF_ERROR(WriteBundle(ascend, document));
  }
  OwnForms own;
  own.despite_quiet = true;
  return EmitReport(std::move(document), answer_, context, own);
}

Status DoctorCommand::WriteBundle(const std::optional<AscendExamination>& ascend,
                                  report::Document& document) const {
  size_t masked = 0;
  std::vector<std::string> unmasked;
  std::vector<BundleMember> members = {{"doctor.json", report::RenderJson(document)},
                                       VariablesMember(masked, unmasked)};
  MSP_RETURN_IF_ERROR(AddLogs(logs_, members));
  if (ascend) {
    members.insert(members.end(), ascend->members.begin(), ascend->members.end());
  }
  if (!command_.empty()) {
    MSP_ASSIGN_OR_RETURN(BundleMember output, RunAgain(command_, masked));
    members.push_back(std::move(output));
  }
  for (BundleMember& member : members) {
    base::Masked text = base::MaskText(member.text);
    member.text = std::move(text.text);
    masked += text.count;
  }
  // Before the file is there, so that a person may look first.
  base::LogInfo(fmt::format("{}: {} masked; variables that are not: {}", bundle_.string(),
                            base::Plural(masked, "value"),
                            unmasked.empty() ? "none" : base::Join(unmasked, ", ")));
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(bundle_));
  io::ZipWriter zip(file);
  for (const BundleMember& member : members) {
    MSP_RETURN_IF_ERROR(zip.AddDeflated(member.name, member.text));
  }
  MSP_RETURN_IF_ERROR(zip.Finish());
  MSP_RETURN_IF_ERROR(file.Commit());
  document.files.push_back({bundle_, fmt::format("{} files for a report, {} masked", members.size(),
                                                 base::Plural(masked, "value"))});
  return {};
}

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<DoctorCommand>(); }

}  // namespace msprobe::commands
