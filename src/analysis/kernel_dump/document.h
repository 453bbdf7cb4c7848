// What a conversion of dumps answers.
#pragma once

#include <filesystem>

#include "src/analysis/kernel_dump/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::kernel_dump {

report::Document MakeDocument(const Findings& findings, const std::filesystem::path& output);

}  // namespace msprobe::analysis::kernel_dump
