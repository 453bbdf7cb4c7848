// What a conversion of dumps, and a search for their lines of code, answer.
#pragma once

#include <filesystem>

#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/analysis/kernel_dump/result.h"
#include "src/report/document.h"

namespace msprobe::analysis::kernel_dump {

report::Document MakeDocument(const Findings& findings, const std::filesystem::path& output);
report::Document MakeDocument(const CodeMapping& mapping);

}  // namespace msprobe::analysis::kernel_dump
