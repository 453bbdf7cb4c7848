// Comparisons below the framework: kernel dumps, rounds of ATB, kernels of a MindSpore graph,
// tensors of an ACL graph, and the vendor's measures. A file of any content stands on the side
// under test, its second half on the other one as well: whatever it claims, the comparison ends
// with rows or an error, and a file that cannot be read is equal to nothing.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "tests/fuzz/input_folder.h"

namespace {

namespace compare = msprobe::analysis::compare;
namespace fs = std::filesystem;
using msprobe::fuzz::InputFolder;

constexpr size_t kMostBytes = size_t{1} << 16U;
constexpr std::string_view kKernelName = "Add.net_Add.1.1.1700000000000001";

msprobe::base::ThreadPool& Pool() {
  static msprobe::base::ThreadPool pool(1);
  return pool;
}

// Folders of the two sides and the file of each; tables go to `out`.
struct Sides {
  explicit Sides(std::string_view place)
      : name(place), mine(folder.MakeFolder("mine")), golden(folder.MakeFolder("golden")) {
    folder.MakeFolder((fs::path("mine") / name).parent_path().string());
    folder.MakeFolder((fs::path("golden") / name).parent_path().string());
    options.npu_path = mine;
    options.bench_path = golden;
    options.output.folder = folder.path() / "out";
  }
  void Write(std::string_view input) const {
    folder.Write("mine/" + name, input);
    folder.Write("golden/" + name, input.substr(input.size() / 2));
  }
  void WriteBoth(std::string_view input) const {
    folder.Write("mine/" + name, input);
    folder.Write("golden/" + name, input);
  }
  ~Sides() = default;
  void Clear() const {
    std::error_code ignored;
    fs::remove_all(options.output.folder, ignored);
  }

  InputFolder folder;
  std::string name;
  fs::path mine;
  fs::path golden;
  compare::Options options;
};

void CompareKernelFiles(std::string_view input) {
  static const Sides sides(kKernelName);
  for (const bool both : {false, true}) {
    both ? sides.WriteBoth(input) : sides.Write(input);
    const msprobe::Result<compare::KernelPlan> plan = compare::PlanKernels(sides.options);
    if (!plan.ok() || plan->pairs.size() != 1) {
      std::abort();  // the names alone decide about it
    }
    const auto pair = compare::CompareKernels(sides.options, plan->pairs[0], Pool());
    (void)pair.ok();
  }
}

void CompareByMeasures(std::string_view input) {
  namespace dumps = msprobe::analysis::kernel_dump;
  static const Sides sides(kKernelName);
  sides.Write(input);
  const msprobe::Result<dumps::VectorFindings> findings =
      dumps::CompareVectors({.mine = sides.mine,
                             .golden = sides.golden,
                             .output = sides.options.output.folder,
                             .overflow = true,
                             .threads = 1});
  if (!findings.ok()) {
    std::abort();  // damaged files are rows
  }
  for (const dumps::VectorRow& row : findings->rows) {
    if (row.measures.has_value() != row.status.ok()) {
      std::abort();
    }
  }
  sides.Clear();
}

// The two halves of the input are the files of two threads of FFTS+.
void CompareThreads(std::string_view input) {
  namespace dumps = msprobe::analysis::kernel_dump;
  static const Sides sides("Add.net_Add.1.1.1700000000000001.4.0.0.0");
  for (const char* side : {"mine/", "golden/"}) {
    sides.folder.Write(side + sides.name, input.substr(0, input.size() / 2));
    sides.folder.Write(std::string(side) + "Add.net_Add.1.1.1700000000000001.4.0.1.0",
                       input.substr(input.size() / 2));
  }
  const msprobe::Result<dumps::VectorFindings> findings =
      dumps::CompareVectors({.mine = sides.mine,
                             .golden = sides.golden,
                             .output = sides.options.output.folder,
                             .threads = 1});
  if (!findings.ok()) {
    std::abort();
  }
  sides.Clear();
}

void CompareRounds(std::string_view input) {
  static const Sides sides("statistic.csv");
  sides.WriteBoth(input);
  (void)compare::CompareAtb(sides.options, Pool()).ok();
  sides.Clear();
}

void CompareGraphs(std::string_view input) {
  static const Sides sides("rank_0/net/0/1/statistic.csv");
  sides.WriteBoth(input);
  (void)compare::CompareGraphFolders(sides.options, Pool()).ok();
  sides.Clear();
}

void CompareTensorFiles(std::string_view input) {
  static const Sides sides("Module.a.0.forward.output.0.pt");
  sides.WriteBoth(input);
  const msprobe::Result<compare::PairingPlan> plan = compare::PlanTensorFolders(sides.options);
  if (plan.ok() && !plan->pairs.empty()) {
    (void)compare::CompareTensorFolders(sides.options, plan->pairs[0], Pool()).ok();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input = msprobe::fuzz::TextOf(data, size);
  if (size > kMostBytes) {
    return 0;
  }
  switch (msprobe::fuzz::TakeChoice(input, 6)) {
    case 0:
      CompareKernelFiles(input);
      break;
    case 1:
      CompareByMeasures(input);
      break;
    case 2:
      CompareRounds(input);
      break;
    case 3:
      CompareGraphs(input);
      break;
    case 5:
      CompareThreads(input);
      break;
    default:
      CompareTensorFiles(input);
  }
  return 0;
}
