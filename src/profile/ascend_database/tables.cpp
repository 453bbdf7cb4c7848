#include "src/profile/ascend_database/tables.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::profile {

Status DatabaseTables::Load() {
  MSP_RETURN_IF_ERROR(
      ForEachRow("STRING_IDS", {"id", "value"}, [&](const database::SqliteRow& row) {
        texts_[row.Integer(0)] = profile_.texts.Intern(row.Text(1));
      }));
  if (HasTable("STEP_TIME")) {
    MSP_RETURN_IF_ERROR(
        ForEachRow("STEP_TIME", {"id", "startNs", "endNs"}, [&](const database::SqliteRow& row) {
          profile_.steps.push_back(
              {std::to_string(row.Integer(0)), row.Integer(1), row.Integer(2)});
        }));
  }
  if (!needs_.step.has_value()) {
    return {};
  }
  std::vector<std::string> known;
  for (const Step& step : profile_.steps) {
    known.push_back(step.id);
    if (step.id == std::to_string(*needs_.step)) {
      step_ = step;
    }
  }
  if (!step_.has_value()) {
    return MismatchError(fmt::format("{} has no step {}; its steps: {}", profile_.path.string(),
                                     *needs_.step,
                                     known.empty() ? "none" : base::Join(known, ", ")));
  }
  return {};
}

Status DatabaseTables::ForEachRow(std::string_view table,
                                  std::initializer_list<std::string_view> columns,
                                  const std::function<void(const database::SqliteRow&)>& visit) {
  Status status = file_.ForEachRow(table, columns, visit);
  if (status.ok() || needs_.strict) {
    return status;
  }
  profile_.warnings.push_back(status.message());
  return {};
}

TextId DatabaseTables::Text(const database::SqliteRow& row, int column) {
  if (row.IsNull(column)) {
    return kNoText;
  }
  if (!row.IsInteger(column)) {
    return profile_.texts.Intern(row.Text(column));  // written out, as some versions do
  }
  const auto found = texts_.find(row.Integer(column));
  return found == texts_.end() ? kNoText : Spelled(found->second);
}

TextId DatabaseTables::Spelled(TextId text) {
  const std::string_view whole = profile_.texts[text];
  if (whole.size() <= kShortText) {
    return text;
  }
  if (whole.size() <= spelled_left_) {
    spelled_left_ -= whole.size();
    return text;
  }
  if (!cuts_texts_) {
    cuts_texts_ = true;
    profile_.warnings.push_back(
        fmt::format("{}: rows name long texts too often for its size; those of further rows are "
                    "cut after {} bytes",
                    profile_.path.string(), kShortText));
  }
  return profile_.texts.Intern(base::Shortened(whole, kShortText, "..."));
}

}  // namespace msprobe::profile
