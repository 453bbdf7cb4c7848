// Any document as a page for browsers: its verdict, sections, tables and next steps.
#pragma once

#include <filesystem>

#include "src/report/answer_page.h"
#include "src/report/document.h"

namespace msprobe::report {

// Whole: what `brief` leaves out for terminals is in it. `path`: where it will be written.
AnswerPage PageOf(const Document& document, const std::filesystem::path& path);

}  // namespace msprobe::report
