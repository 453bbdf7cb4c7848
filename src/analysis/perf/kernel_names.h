// What names of a GPU's kernels and runtime calls say, whoever's they are: NVIDIA's and AMD's names
// of the same thing are made equal.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::analysis::perf {

// Collectives of NCCL and RCCL, and those that serving engines write themselves.
bool IsCommunicationKernel(std::string_view name);
// Copies and fills that run as kernels ("__amd_rocclr_copyBuffer"), or that a profiler writes as
// such ("CopyHostToDevice").
bool IsCopyKernel(std::string_view name);
// cudaGraphLaunch, hipGraphLaunch, cuGraphLaunch.
bool IsGraphLaunch(std::string_view name);

// One spelling for both vendors: "hipLaunchKernel" becomes "cudaLaunchKernel", rccl nccl; other
// names stay as they are.
std::string NeutralName(std::string_view name);

// The work behind a kernel: "matmul", "attention", "convolution", "normalization", "softmax",
// "optimizer", "reduction", "elementwise", ...; "other" for names that say none. Copies are "copy",
// collectives "communication".
std::string_view KernelFamily(std::string_view name);

// For people: without "void", parameters, anonymous namespaces and long template arguments; at most
// `longest` characters.
std::string ShortKernelName(std::string_view name, size_t longest = 80);

// Of the name of an operator that many others lie in, in labels "this in that".
inline constexpr size_t kLongestNameAround = 1024;

}  // namespace msprobe::analysis::perf
