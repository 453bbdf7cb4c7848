#include "src/report/render_json.h"

#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/json/document.h"
#include "src/report/cell_document.h"
#include "src/report/render.h"

namespace msprobe::report {

void PutCell(json::Writer& writer, const Cell& cell) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      writer.Null();
      break;
    case CellKind::kText:
      writer.Text(cell.text());
      break;
    case CellKind::kInteger:
      writer.Int(cell.integer());
      break;
    case CellKind::kNumber:
      writer.Float(cell.number());
      break;
    case CellKind::kBoolean:
      writer.Bool(cell.boolean());
      break;
  }
}

namespace {

using Json = nlohmann::ordered_json;

// Grows when a member changes its meaning or goes; new members may come without it.
constexpr int kSchemaVersion = 1;

std::string_view OutcomeName(AnswerOutcome outcome) {
  constexpr std::array<std::string_view, 4> kNames = {"clean", "findings", "nothing_compared",
                                                      "incomplete"};
  return kNames[static_cast<size_t>(outcome)];
}

std::string_view JsonKindName(ListKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "facts", "facts", "amounts", "facts", "findings", "sentences", "sentences", "checks"};
  return kNames[static_cast<size_t>(kind)];
}

// Emphasis is for eyes.
void AddTone(Json& json, Tone tone) {
  if (const std::string_view name = ToneName(tone); !name.empty() && tone != Tone::kStrong) {
    json["tone"] = name;
  }
}

template <typename Parts, typename Function>
Json ListOf(const Parts& parts, Function&& of) {
  Json list = Json::array();
  for (const auto& part : parts) {
    list.push_back(of(part));
  }
  return list;
}

Json ToJson(const Item& item) {
  Json json = Json::object();
  if (!item.label.empty()) {
    json["label"] = item.label;
  }
  json["text"] = item.text;
  AddTone(json, item.tone);
  if (item.number) {
    json["number"] = *item.number;
  }
  if (item.source) {
    json["file"] = item.source->file;
    json["line"] = item.source->line;
  }
  if (!item.details.empty()) {
    json["details"] = ListOf(item.details, [](const Item& detail) { return ToJson(detail); });
  }
  return json;
}

Json ToJson(const List& list) {
  return {{"kind", JsonKindName(list.kind)},
          {"items", ListOf(list.items, [](const Item& item) { return ToJson(item); })}};
}

Json ToJson(const Text& text) {
  Json json = {{"kind", "text"}, {"text", text.text}};
  AddTone(json, text.tone);
  return json;
}

Json ToJson(const DataTable& data) {
  Json rows = Json::array();
  for (size_t row = 0; row < data.table.row_count(); ++row) {
    Json& cells = rows.emplace_back(Json::array());
    for (const Cell& cell : data.table.row(row)) {
      cells.push_back(CellDocument(cell));
    }
  }
  return {{"kind", "table"}, {"columns", data.table.columns()}, {"rows", std::move(rows)}};
}

Json ToJson(const Bars& bars) {
  Json items = Json::array();
  for (const Bar& bar : bars.items) {
    items.push_back({{"label", bar.label}, {"number", bar.value}});
  }
  return {{"kind", "bars"}, {"unit", bars.unit}, {"items", std::move(items)}};
}

Json ToJson(const Curves& curves) {
  Json items = Json::array();
  for (const Curve& curve : curves.items) {
    items.push_back({{"label", curve.label}, {"numbers", curve.values}});
  }
  return {{"kind", "curves"},
          {"unit", curves.unit},
          {"axis", curves.axis},
          {"positions", curves.positions},
          {"items", std::move(items)}};
}

Json ToJson(const Verdict& verdict) {
  Json json = {{"word", verdict.word}, {"text", verdict.text}};
  if (verdict.number) {
    json["number"] = *verdict.number;
    json["unit"] = verdict.unit;
  }
  json["standing"] = OutcomeName(verdict.outcome);
  return json;
}

Json ToJson(const LevelOutcome& level) {
  Json json = {{"word", level.word}, {"found", level.found}};
  if (!level.what.empty()) {
    json["text"] = level.what;
  }
  return json;
}

Json ToJson(const Section& section) {
  const auto of_block = [](const Block& block) {
    return std::visit([](const auto& value) { return ToJson(value); }, block);
  };
  return {{"title", section.title}, {"blocks", ListOf(section.blocks, of_block)}};
}

}  // namespace

std::string RenderJson(const Document& document) {
  const auto of = [](const auto& part) { return ToJson(part); };
  const auto text_of = [](const Advice& advice) { return AdviceText(advice); };
  const auto path_of = [](const OutputFile& file) { return file.path.string(); };
  const Json json = {{"schema_version", kSchemaVersion},
                     {"tool", "msprobe"},
                     {"version", MSPROBE_VERSION},
                     {"command", document.command},
                     {"command_line", ThisRun().command_line},
                     {"inputs", ThisRun().inputs},
                     {"exit_code", document.exit_code},
                     {"verdict", ToJson(document.verdict)},
                     {"levels", ListOf(document.levels, of)},
                     {"sections", ListOf(document.sections, of)},
                     {"next", ListOf(document.next, text_of)},
                     {"warnings", document.warnings},
                     {"files", ListOf(document.files, path_of)},
                     {"seconds", document.seconds}};
  return json::DocumentText(json, 1, json::Writer::NonFinite::kText) + '\n';
}

}  // namespace msprobe::report
