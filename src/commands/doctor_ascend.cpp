#include "src/commands/doctor_ascend.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/processes.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/device/device.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

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
              finding.seen, ""};
  switch (finding.outcome) {
    case device::Outcome::kAsExpected:
      break;
    case device::Outcome::kNotTried:
      check.health = Health::kAbsent;
      break;
    case device::Outcome::kDiffers:
    case device::Outcome::kFailed:
      check.health = Health::kBroken;
      check.remedy = "send the report: docs/hardware.md says what this experiment stands for";
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
        "activate the environment of your training, and run msprobe doctor --ascend again");
    return false;
  }

  Status WriteInputs() {
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(folder_ / "probe.py", kProbe));
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(folder_ / "kernels.json", kKernelConfig));
    return base::WriteFileAtomically(folder_ / "call.json", kCallConfig);
  }

  void Add(std::string what, Health health, std::string finding, std::string remedy = "") {
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
        good ? "" : fmt::format("ascend/{} in the report holds all that was said", member));
    examination_.members.push_back(
        {fmt::format("ascend/{}", member),
         fmt::format("$ msprobe {}\n{}", base::Join(arguments, " "), text)});
    return good;
  }

  const fs::path& folder_;
  AscendExamination& examination_;
};

}  // namespace

AscendExamination ExamineAscend() {
  AscendExamination examination;
  const ScratchFolder scratch;
  if (!scratch.status().ok()) {
    examination.checks.push_back(
        {"experiments with Ascend devices", Health::kBroken, scratch.status().message(), ""});
    return examination;
  }
  {
    const device::Registry registry(device::Loading::kMayLoad);
    device::Runtime& acl = registry.Get(device::Kind::kAcl);
    const device::Inventory inventory = acl.Describe();
    if (!inventory.status.ok()) {
      examination.checks.push_back({"experiments with Ascend devices", Health::kAbsent,
                                    inventory.status.message(), inventory.status.hint()});
      return examination;
    }
    examination.tried = true;
    examination.checks.push_back(
        {"functions of the runtime",
         inventory.limitations.empty() ? Health::kWorks : Health::kAbsent,
         fmt::format("{} ({}): {}", inventory.library,
                     inventory.version.empty() ? "of unknown version" : inventory.version,
                     inventory.limitations.empty() ? "all are there"
                                                   : base::Join(inventory.limitations, "; ")),
         ""});
    device::ExaminationOptions options;
    options.scratch_folder = scratch.path();
    for (const device::DeviceInfo& info : inventory.devices) {
      if (!info.trouble.empty()) {
        examination.checks.push_back(
            {fmt::format("acl:{}", info.index), Health::kBroken, info.trouble, ""});
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

}  // namespace msprobe::commands
