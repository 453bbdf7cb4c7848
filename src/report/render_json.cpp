#include <cmath>
#include <string>
#include <variant>

#include "msprobe/version.h"

#include "src/json/writer.h"
#include "src/report/cell_json.h"
#include "src/report/render.h"

namespace msprobe::report {
namespace {

using json::Writer;

// Grows when a member changes its meaning or goes; new members may come without it.
constexpr int kSchemaVersion = 1;

std::string_view StandingName(Standing standing) {
  switch (standing) {
    case Standing::kClean:
      return "clean";
    case Standing::kFindings:
      return "findings";
    case Standing::kNothingCompared:
      return "nothing_compared";
    case Standing::kIncomplete:
      return "incomplete";
  }
  return "";
}

std::string_view ToneName(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
    case Tone::kStrong:
      return "";
    case Tone::kGood:
      return "good";
    case Tone::kCaution:
      return "caution";
    case Tone::kBad:
      return "bad";
  }
  return "";
}

std::string_view KindName(ListKind kind) {
  switch (kind) {
    case ListKind::kFacts:
    case ListKind::kAligned:
    case ListKind::kNamed:
      return "facts";
    case ListKind::kAmounts:
      return "amounts";
    case ListKind::kNumbered:
      return "findings";
    case ListKind::kBullets:
    case ListKind::kSentences:
      return "sentences";
    case ListKind::kChecks:
      return "checks";
  }
  return "";
}

void PutTone(Writer& writer, Tone tone) {
  if (const std::string_view name = ToneName(tone); !name.empty()) {
    writer.Member("tone", name);
  }
}

void PutItem(Writer& writer, const Item& item) {
  writer.BeginObject();
  if (!item.label.empty()) {
    writer.Member("label", item.label);
  }
  writer.Member("text", item.text);
  PutTone(writer, item.tone);
  if (item.number) {
    writer.Member("number", *item.number);
  }
  if (item.source) {
    writer.Member("file", item.source->file);
    writer.Member("line", item.source->line);
  }
  if (!item.details.empty()) {
    writer.Key("details");
    writer.BeginArray();
    for (const Item& detail : item.details) {
      PutItem(writer, detail);
    }
    writer.EndArray();
  }
  writer.EndObject();
}

void PutBlock(Writer& writer, const List& list) {
  writer.Member("kind", KindName(list.kind));
  writer.Key("items");
  writer.BeginArray();
  for (const Item& item : list.items) {
    PutItem(writer, item);
  }
  writer.EndArray();
}

void PutBlock(Writer& writer, const Text& text) {
  writer.Member("kind", "text");
  writer.Member("text", text.text);
  PutTone(writer, text.tone);
}

void PutBlock(Writer& writer, const DataTable& data) {
  writer.Member("kind", "table");
  writer.Member("columns", data.table.columns());
  writer.Key("rows");
  writer.BeginArray();
  for (size_t row = 0; row < data.table.row_count(); ++row) {
    writer.BeginArray();
    for (const Cell& cell : data.table.row(row)) {
      PutCell(writer, cell);
    }
    writer.EndArray();
  }
  writer.EndArray();
}

void PutBlock(Writer& writer, const Bars& bars) {
  writer.Member("kind", "bars");
  writer.Member("unit", bars.unit);
  writer.Key("items");
  writer.BeginArray();
  for (const Bar& bar : bars.items) {
    writer.BeginObject();
    writer.Member("label", bar.label);
    writer.Member("number", bar.value);
    writer.EndObject();
  }
  writer.EndArray();
}

void PutVerdict(Writer& writer, const Verdict& verdict) {
  writer.Key("verdict");
  writer.BeginObject();
  writer.Member("word", verdict.word);
  writer.Member("text", verdict.text);
  if (verdict.number) {
    writer.Member("number", *verdict.number);
    writer.Member("unit", verdict.unit);
  }
  writer.Member("standing", StandingName(verdict.standing));
  writer.EndObject();
}

void PutLevels(Writer& writer, const Document& document) {
  writer.Key("levels");
  writer.BeginArray();
  for (const LevelOutcome& level : document.levels) {
    writer.BeginObject();
    writer.Member("word", level.word);
    writer.Member("found", level.found);
    if (!level.what.empty()) {
      writer.Member("text", level.what);
    }
    writer.EndObject();
  }
  writer.EndArray();
}

}  // namespace

std::string RenderJson(const Document& document) {
  std::string text;
  Writer writer(text, 1, Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("schema_version", kSchemaVersion);
  writer.Member("tool", "msprobe");
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("command", document.command);
  writer.Member("exit_code", document.exit_code);
  PutVerdict(writer, document.verdict);
  PutLevels(writer, document);
  writer.Key("sections");
  writer.BeginArray();
  for (const Section& section : document.sections) {
    writer.BeginObject();
    writer.Member("title", section.title);
    writer.Key("blocks");
    writer.BeginArray();
    for (const Block& block : section.blocks) {
      writer.BeginObject();
      std::visit([&](const auto& one) { PutBlock(writer, one); }, block);
      writer.EndObject();
    }
    writer.EndArray();
    writer.EndObject();
  }
  writer.EndArray();
  writer.Member("next", document.next);
  writer.Member("warnings", document.warnings);
  writer.Key("files");
  writer.BeginArray();
  for (const OutputFile& file : document.files) {
    writer.Text(file.path.string());
  }
  writer.EndArray();
  writer.Member("seconds", document.seconds);
  writer.EndObject();
  text += '\n';
  return text;
}

}  // namespace msprobe::report
