#include "src/report/answer_page.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kAnswerPage;  // empty: not built
}

namespace msprobe::report {
namespace {

using json::Writer;

constexpr int64_t kPageFormat = 1;  // what tools/web/answer expects

std::string_view PageKindName(ListKind kind) {
  switch (kind) {
    case ListKind::kNumbered:
      return "numbered";
    case ListKind::kBullets:
      return "bullets";
    case ListKind::kSentences:
      return "sentences";
    case ListKind::kChecks:
      return "checks";
    case ListKind::kAmounts:
      return "amounts";
    case ListKind::kFacts:
    case ListKind::kAligned:
    case ListKind::kNamed:
      break;
  }
  return "facts";
}

// [label, text, tone, source, [details]]
void PutItem(const Item& item, json::Writer& writer) {
  writer.BeginArray();
  writer.Text(item.label);
  writer.Text(item.text);
  writer.Text(ToneName(item.tone));
  writer.Text(item.source ? item.source->line > 0
                                ? fmt::format("{}:{}", item.source->file, item.source->line)
                                : item.source->file
                          : std::string());
  writer.BeginArray();
  for (const Item& detail : item.details) {
    PutItem(detail, writer);
  }
  writer.EndArray();
  writer.EndArray();
}

// Up to 7 digits: a page is for reading, the other files hold all.
void PutFigure(double value, Writer& writer) {
  if (std::isfinite(value)) {
    writer.Raw(fmt::format("{:.7g}", value));
  } else {
    writer.Text(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
}

void PutCell(const Cell& cell, Writer& writer) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      writer.Null();
      break;
    case CellKind::kInteger:
      writer.Int(cell.integer());
      break;
    case CellKind::kNumber:
      PutFigure(cell.number(), writer);
      break;
    case CellKind::kText:
    case CellKind::kBoolean:
      writer.Text(CellText(cell));
      break;
  }
}

// Places of at most `most` rows, rising: the marked ones come before the others.
std::vector<size_t> RowsToKeep(const std::vector<bool>& is_marked, size_t most) {
  std::vector<size_t> rows(is_marked.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (rows.size() > most) {
    const auto marked = [&](size_t row) { return static_cast<bool>(is_marked[row]); };
    std::stable_partition(rows.begin(), rows.end(), marked);
    rows.resize(most);
    std::sort(rows.begin(), rows.end());
  }
  return rows;
}

template <typename Function>
std::string JsonText(Function&& write) {
  std::string text;
  Writer writer(text, -1, Writer::NonFinite::kText);
  write(writer);
  return text;
}

}  // namespace

Status AnswerPage::Available() {
  if (resources::kAnswerPage.empty()) {
    return UnsupportedError("this msprobe was built without the page for --format html")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; other formats do not "
            "need it");
  }
  return {};
}

void AnswerPage::SetVerdict(std::string_view word, std::string_view line, Tone tone) {
  word_ = word;
  verdict_ = line;
  tone_ = tone;
}

void AnswerPage::SetSides(std::string_view first, std::string_view second) {
  sides_[0] = first;
  sides_[1] = second;
}

void AnswerPage::AddFact(std::string_view value, std::string_view text, Tone tone) {
  facts_.push_back(JsonText([&](Writer& writer) {
    writer.BeginArray();
    writer.Text(value);
    writer.Text(text);
    writer.Text(ToneName(tone));
    writer.EndArray();
  }));
}

void AnswerPage::BeginSection(std::string_view title, std::string_view hint) {
  sections_.push_back({std::string(title), std::string(hint), {}});
}

void AnswerPage::AddText(std::string_view text, Tone tone) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "text");
    writer.Member("text", text);
    writer.Member("tone", ToneName(tone));
    writer.EndObject();
  }));
}

void AnswerPage::AddList(const List& list) {
  const size_t count = std::min(list.items.size(), kMostItems);
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "list");
    writer.Member("style", PageKindName(list.kind));
    writer.Key("items");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      PutItem(list.items[i], writer);
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < list.items.size()) {
    notes_.push_back(fmt::format("{}: the page holds the first {} of {}; --json holds all",
                                 sections_.back().title, base::FormatCount(count),
                                 base::Plural(list.items.size(), "item")));
  }
}

void AnswerPage::AddTable(const Table& table, const std::vector<size_t>& amounts) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "table");
    writer.Member("table", static_cast<uint64_t>(tables_.size()));
    writer.EndObject();
  }));
  TableText text{sections_.back().title, table.columns(), {}, {}, table.row_count(), amounts};
  std::vector<bool> is_marked(table.row_count());
  for (size_t row = 0; row < table.row_count(); ++row) {
    is_marked[row] = table.fill(row) != Fill::kNone;
  }
  for (const size_t row : RowsToKeep(is_marked, kMostRows)) {
    text.is_marked.push_back(is_marked[row]);
    text.rows.push_back(JsonText([&](Writer& writer) {
      writer.BeginArray();
      writer.Int(static_cast<int64_t>(table.fill(row)));
      for (const report::Cell& cell : table.row(row)) {
        PutCell(cell, writer);
      }
      writer.EndArray();
    }));
  }
  tables_.push_back(std::move(text));
}

void AnswerPage::AddBars(const std::vector<std::string>& names, const std::vector<Bar>& bars,
                         std::string_view unit) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "bars");
    writer.Member("names", names);
    writer.Member("unit", unit);
    writer.Key("bars");
    writer.BeginArray();
    for (const Bar& bar : bars) {
      writer.BeginArray();
      writer.Text(bar.label);
      for (const double part : bar.parts) {
        PutFigure(part, writer);
      }
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddCurves(const Curves& curves) {
  const size_t most = std::max<size_t>(1, kMostCurveValues / curves.positions.size());
  const size_t count = std::min(curves.items.size(), most);
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "curves");
    writer.Member("unit", curves.unit);
    writer.Member("axis", curves.axis);
    writer.Member("positions", curves.positions);
    writer.Key("curves");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      writer.BeginArray();
      writer.Text(curves.items[i].label);
      for (const double value : curves.items[i].values) {
        PutFigure(value, writer);
      }
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < curves.items.size()) {
    notes_.push_back(fmt::format("{}: the page holds the first {} of {}; --json holds all",
                                 sections_.back().title, base::FormatCount(count),
                                 base::Plural(curves.items.size(), "curve")));
  }
}

void AnswerPage::AddTree(const std::vector<Node>& nodes, std::string_view unit) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "tree");
    writer.Member("unit", unit);
    writer.Key("nodes");
    writer.BeginArray();
    for (const Node& node : nodes) {
      writer.BeginArray();
      writer.Int(node.parent);
      writer.Text(node.label);
      PutFigure(node.first, writer);
      PutFigure(node.second, writer);
      writer.Int(node.first_count);
      writer.Int(node.second_count);
      writer.Text(node.note);
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddMap(const std::vector<std::string>& rows,
                        const std::vector<std::string>& columns, const std::vector<Cell>& cells) {
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "map");
    writer.Member("rows", rows);
    writer.Member("columns", columns);
    writer.Key("cells");
    writer.BeginArray();
    for (const Cell& cell : cells) {
      writer.BeginArray();
      writer.Int(cell.row);
      writer.Int(cell.column);
      PutFigure(cell.value, writer);
      writer.Text(cell.tip);
      writer.Text(cell.search);
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
}

void AnswerPage::AddFiles(const std::vector<OutputFile>& files, const std::filesystem::path& page) {
  const size_t count = std::min(files.size(), kMostItems);
  if (count == 0) {
    return;
  }
  BeginSection("Files");
  sections_.back().blocks.push_back(JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("kind", "files");
    writer.Key("items");
    writer.BeginArray();
    for (size_t i = 0; i < count; ++i) {
      const std::string beside =
          files[i].path.lexically_relative(page.parent_path()).generic_string();
      const bool is_beside = !beside.empty() && !beside.starts_with("..") && beside != ".";
      writer.BeginArray();
      writer.Text(files[i].path.generic_string());
      writer.Text(files[i].what);
      writer.Text(is_beside ? beside : "");
      writer.EndArray();
    }
    writer.EndArray();
    writer.EndObject();
  }));
  if (count < files.size()) {
    AddNote(fmt::format("Files: the page names the first {} of {}", base::FormatCount(count),
                        base::Plural(files.size(), "file")));
  }
}

std::string AnswerPage::Listing() const {
  const auto put_raw = [](Writer& writer, std::string_view key,
                          const std::vector<std::string>& items) {
    writer.Key(key);
    writer.BeginArray();
    for (const std::string& item : items) {
      writer.Raw(item);
    }
    writer.EndArray();
  };
  return JsonText([&](Writer& writer) {
    writer.BeginObject();
    writer.Member("format", kPageFormat);
    writer.Member("version", MSPROBE_VERSION);
    writer.Member("command", command_);
    writer.Member("word", word_);
    writer.Member("verdict", verdict_);
    writer.Member("tone", ToneName(tone_));
    writer.Member("sides", std::vector<std::string>(std::begin(sides_), std::end(sides_)));
    put_raw(writer, "facts", facts_);
    writer.Member("next", next_);
    writer.Member("notes", notes_);
    writer.Member("warnings", warnings_);
    writer.Key("sections");
    writer.BeginArray();
    for (const Section& section : sections_) {
      writer.BeginObject();
      writer.Member("title", section.title);
      writer.Member("hint", section.hint);
      put_raw(writer, "blocks", section.blocks);
      writer.EndObject();
    }
    writer.EndArray();
    writer.Key("tables");
    writer.BeginArray();
    for (const TableText& table : tables_) {
      writer.BeginObject();
      writer.Member("columns", table.columns);
      writer.Member("rows", table.total);
      writer.Key("amounts");
      writer.BeginArray();
      for (const size_t column : table.amounts) {
        writer.Int(static_cast<int64_t>(column));
      }
      writer.EndArray();
      writer.EndObject();
    }
    writer.EndArray();
    writer.EndObject();
  });
}

Status AnswerPage::Write(const std::filesystem::path& path) {
  const auto pack_table = [](size_t index, const TableText& table, size_t most) {
    return PackBlock({fmt::format("t{}", index), [&table, most](std::string& out) {
                        out += '[';
                        for (const size_t row : RowsToKeep(table.is_marked, most)) {
                          out += out.size() == 1 ? "" : ",";
                          out += table.rows[row];
                        }
                        out += ']';
                      }});
  };
  uint64_t room = kMostBytes - resources::kAnswerPage.size();
  room -= std::min<uint64_t>(
      room, PackBlock({"answer", [&](std::string& out) { out += Listing(); }}).size() + 4096);
  std::vector<std::string> elements(1);
  for (size_t i = 0; i < tables_.size(); ++i) {
    size_t rows = tables_[i].rows.size();
    std::string element = pack_table(i, tables_[i], rows);
    while (element.size() > room && rows > 0) {
      rows = std::min(rows - 1, static_cast<size_t>(static_cast<double>(rows) * 0.9 *
                                                    static_cast<double>(room) /
                                                    static_cast<double>(element.size())));
      element = pack_table(i, tables_[i], rows);
    }
    room -= std::min<uint64_t>(room, element.size());
    if (rows < tables_[i].total) {
      const std::vector<bool>& is_marked = tables_[i].is_marked;
      const bool any = std::find(is_marked.begin(), is_marked.end(), true) != is_marked.end();
      notes_.push_back(fmt::format("{}: the page holds {}{} of {}{}; the other formats hold all",
                                   tables_[i].name, any ? "" : "the first ",
                                   base::FormatCount(rows), base::Plural(tables_[i].total, "row"),
                                   any ? ", the highlighted ones first" : ""));
    }
    elements.push_back(std::move(element));
  }
  elements[0] = PackBlock({"answer", [&](std::string& out) { out += Listing(); }});
  return WriteWebPage(path, resources::kAnswerPage, elements).status();
}

}  // namespace msprobe::report
