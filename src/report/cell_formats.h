// Inside of the room: the cell formats of a workbook, kept once each, and the styles.xml they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/report/formatted_xlsx.h"

namespace msprobe::report::internal {

inline constexpr uint32_t kNoFill = UINT32_MAX;

// How one cell looks beside the font, the frame and the position that all share.
struct CellFormat {
  NumberFormat number = NumberFormat::kGeneral;
  bool bold = false;
  uint32_t fill_rgb = kNoFill;
  uint8_t indent = 0;

  bool operator==(const CellFormat&) const = default;
};

class CellFormats {
 public:
  // The number by which cells refer to the format. 0 is the format of cells that refer to none.
  size_t Add(const CellFormat& format);
  std::string StylesXml() const;

 private:
  std::vector<CellFormat> formats_;
};

}  // namespace msprobe::report::internal
