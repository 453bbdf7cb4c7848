// The memory layouts that Ascend's kernels name ("NC1HWC0"), by the numbers of a kernel dump.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msprobe::io::kernel_dump {

// Those that are converted; all others are known by name only.
namespace format {
inline constexpr uint32_t kNCHW = 0;
inline constexpr uint32_t kNHWC = 1;
inline constexpr uint32_t kND = 2;
inline constexpr uint32_t kNC1HWC0 = 3;
inline constexpr uint32_t kFractalZ = 4;
inline constexpr uint32_t kC1HWNC0 = 9;
inline constexpr uint32_t kNC1HWC0C04 = 12;
inline constexpr uint32_t kFractalZC04 = 13;
inline constexpr uint32_t kCHWN = 14;
inline constexpr uint32_t kHWCN = 16;
inline constexpr uint32_t kC1HWNCoC0 = 25;
inline constexpr uint32_t kNDHWC = 27;
inline constexpr uint32_t kFractalNZ = 29;
inline constexpr uint32_t kNCDHW = 30;
inline constexpr uint32_t kDHWCN = 31;
inline constexpr uint32_t kNDC1HWC0 = 32;
inline constexpr uint32_t kFractalZ3D = 33;
inline constexpr uint32_t kDHWNC = 36;
}  // namespace format

// "NC1HWC0"; "format 77" for a number that is not in use.
std::string FormatName(uint32_t number);
// Also the variants with the width of a block in their names, FRACTAL_NZ_C0_16. Case does not
// matter.
std::optional<uint32_t> FindFormat(std::string_view name);

}  // namespace msprobe::io::kernel_dump
