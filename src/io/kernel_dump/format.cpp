#include "src/io/kernel_dump/format.h"

#include <array>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::io::kernel_dump {
namespace {

// By number.
constexpr std::array<std::string_view, 50> kNames = {"NCHW",
                                                     "NHWC",
                                                     "ND",
                                                     "NC1HWC0",
                                                     "FRACTAL_Z",
                                                     "NC1C0HWPAD",
                                                     "NHWC1C0",
                                                     "FSR_NCHW",
                                                     "FRACTAL_DECONV",
                                                     "C1HWNC0",
                                                     "FRACTAL_DECONV_TRANSPOSE",
                                                     "FRACTAL_DECONV_SP_STRIDE_TRANS",
                                                     "NC1HWC0_C04",
                                                     "FRACTAL_Z_C04",
                                                     "CHWN",
                                                     "DECONV_SP_STRIDE8_TRANS",
                                                     "HWCN",
                                                     "NC1KHKWHWC0",
                                                     "BN_WEIGHT",
                                                     "FILTER_HWCK",
                                                     "LOOKUP_LOOKUPS",
                                                     "LOOKUP_KEYS",
                                                     "LOOKUP_VALUE",
                                                     "LOOKUP_OUTPUT",
                                                     "LOOKUP_HITS",
                                                     "C1HWNCoC0",
                                                     "MD",
                                                     "NDHWC",
                                                     "FRACTAL_ZZ",
                                                     "FRACTAL_NZ",
                                                     "NCDHW",
                                                     "DHWCN",
                                                     "NDC1HWC0",
                                                     "FRACTAL_Z_3D",
                                                     "CN",
                                                     "NC",
                                                     "DHWNC",
                                                     "FRACTAL_Z_3D_TRANSPOSE",
                                                     "FRACTAL_ZN_LSTM",
                                                     "FRACTAL_Z_G",
                                                     "RESERVED",
                                                     "ALL",
                                                     "NULL",
                                                     "ND_RNN_BIAS",
                                                     "FRACTAL_ZN_RNN",
                                                     "YUV",
                                                     "YUV_A",
                                                     "NCL",
                                                     "FRACTAL_Z_WINO",
                                                     "C1HWC0"};
constexpr std::string_view kBlockWidth = "_C0_";

}  // namespace

std::string FormatName(uint32_t number) {
  return number < kNames.size() ? std::string(kNames[number]) : fmt::format("format {}", number);
}

std::optional<uint32_t> FindFormat(std::string_view name) {
  if (const size_t width = name.find(kBlockWidth); width != std::string_view::npos) {
    name = name.substr(0, width);
  }
  for (size_t number = 0; number < kNames.size(); ++number) {
    if (base::EqualsIgnoringCase(name, kNames[number])) {
      return static_cast<uint32_t>(number);
    }
  }
  return std::nullopt;
}

}  // namespace msprobe::io::kernel_dump
