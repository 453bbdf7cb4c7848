// The globals that have a meaning for us, and those that make a file suspicious.
#include <algorithm>
#include <array>
#include <iterator>

#include "src/io/pickle_value.h"

namespace msprobe::io {
namespace {

struct KnownGlobal {
  std::string_view name;  // "module\nname"
  PickleGlobal meaning;
};

using enum PickleGlobal;

// Sorted by name. `__builtin__` is how protocol 2 spells `builtins`.
constexpr KnownGlobal kKnown[] = {
    {"__builtin__\nbytearray", kBytes},
    {"__builtin__\nbytes", kBytes},
    {"__builtin__\ncomplex", kComplex},
    {"__builtin__\ndict", kDict},
    {"__builtin__\nfrozenset", kSet},
    {"__builtin__\ngetattr", kGetattr},
    {"__builtin__\nlist", kList},
    {"__builtin__\nset", kSet},
    {"__builtin__\ntuple", kTuple},
    {"_codecs\nencode", kEncode},
    {"_io\nBytesIO", kBytesIo},
    {"builtins\nbytearray", kBytes},
    {"builtins\nbytes", kBytes},
    {"builtins\ncomplex", kComplex},
    {"builtins\ndict", kDict},
    {"builtins\nfrozenset", kSet},
    {"builtins\ngetattr", kGetattr},
    {"builtins\nlist", kList},
    {"builtins\nset", kSet},
    {"builtins\ntuple", kTuple},
    {"collections\nOrderedDict", kOrderedDict},
    {"collections\ndefaultdict", kDefaultDict},
    {"numpy\ndtype", kNumpyDType},
    {"numpy._core.multiarray\n_reconstruct", kNumpyReconstruct},
    {"numpy._core.multiarray\nscalar", kNumpyScalar},
    {"numpy._core.numeric\n_frombuffer", kNumpyFromBuffer},
    {"numpy.core.multiarray\n_reconstruct", kNumpyReconstruct},
    {"numpy.core.multiarray\nscalar", kNumpyScalar},
    {"numpy.core.numeric\n_frombuffer", kNumpyFromBuffer},
    {"torch\nSize", kTorchSize},
    {"torch\ndevice", kTorchDevice},
    {"torch._tensor\n_rebuild_from_type", kRebuildFromType},
    {"torch._tensor\n_rebuild_from_type_v2", kRebuildFromType},
    {"torch._utils\n_rebuild_device_tensor_from_cpu_tensor", kRebuildFromTensor},
    {"torch._utils\n_rebuild_device_tensor_from_numpy", kRebuildFromNumpy},
    {"torch._utils\n_rebuild_meta_tensor_no_storage", kRebuildUnsupported},
    {"torch._utils\n_rebuild_nested_tensor", kRebuildUnsupported},
    {"torch._utils\n_rebuild_parameter", kRebuildParameter},
    {"torch._utils\n_rebuild_parameter_with_state", kRebuildParameter},
    {"torch._utils\n_rebuild_qtensor", kRebuildQuantized},
    {"torch._utils\n_rebuild_sparse_csr_tensor", kRebuildSparse},
    {"torch._utils\n_rebuild_sparse_tensor", kRebuildSparse},
    {"torch._utils\n_rebuild_tensor", kRebuildTensor},
    {"torch._utils\n_rebuild_tensor_v2", kRebuildTensor},
    {"torch._utils\n_rebuild_tensor_v3", kRebuildTensorV3},
    {"torch._utils\n_rebuild_wrapper_subclass", kRebuildWrapper},
    {"torch._utils\n_rebuild_xla_tensor", kRebuildFromNumpy},
    {"torch.jit._pickle\nbuild_boollist", kFirstArgument},
    {"torch.jit._pickle\nbuild_doublelist", kFirstArgument},
    {"torch.jit._pickle\nbuild_intlist", kFirstArgument},
    {"torch.jit._pickle\nbuild_tensorlist", kFirstArgument},
    {"torch.jit._pickle\nrestore_type_tag", kFirstArgument},
    {"torch.nn.parameter\nBuffer", kRebuildParameter},
    {"torch.nn.parameter\nParameter", kRebuildParameter},
    {"torch.storage\nUntypedStorage", kUntypedStorage},
    {"torch.storage\n_UntypedStorage", kUntypedStorage},
    {"torch\nUntypedStorage", kUntypedStorage},
};

constexpr bool ByName(const KnownGlobal& a, const KnownGlobal& b) { return a.name < b.name; }

constexpr auto kSortedKnown = [] {
  std::array<KnownGlobal, std::size(kKnown)> sorted{};
  std::copy(std::begin(kKnown), std::end(kKnown), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), ByName);
  return sorted;
}();

// Top-level modules that reach processes, files, the network or code.
constexpr std::string_view kSuspiciousModules[] = {
    "_pickle",    "_posixsubprocess",
    "asyncio",    "bdb",
    "code",       "codeop",
    "commands",   "ctypes",
    "dill",       "imp",
    "importlib",  "marshal",
    "nt",         "os",
    "pdb",        "pickle",
    "pip",        "posix",
    "pty",        "runpy",
    "shutil",     "signal",
    "socket",     "ssl",
    "subprocess", "sys",
    "webbrowser",
};
constexpr std::string_view kSuspiciousBuiltins[] = {
    "__import__", "breakpoint", "compile", "delattr", "eval",    "exec", "execfile",
    "globals",    "input",      "locals",  "open",    "setattr", "vars",
};

bool IsSuspicious(std::string_view name) {
  const size_t split = name.find('\n');
  const std::string_view module = name.substr(0, split);
  const std::string_view package = module.substr(0, module.find('.'));
  if (package == "builtins" || package == "__builtin__") {
    const std::string_view function = split == std::string_view::npos ? "" : name.substr(split + 1);
    return std::find(std::begin(kSuspiciousBuiltins), std::end(kSuspiciousBuiltins),
                     function.substr(0, function.find('.'))) != std::end(kSuspiciousBuiltins);
  }
  return std::find(std::begin(kSuspiciousModules), std::end(kSuspiciousModules), package) !=
         std::end(kSuspiciousModules);
}

}  // namespace

PickleGlobal ClassifyPickleGlobal(std::string_view name) {
  const auto found =
      std::lower_bound(kSortedKnown.begin(), kSortedKnown.end(), KnownGlobal{name, kOther}, ByName);
  if (found != kSortedKnown.end() && found->name == name) {
    return found->meaning;
  }
  return IsSuspicious(name) ? kSuspicious : kOther;
}

}  // namespace msprobe::io
