#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/narrow_table.h"
#include "src/report/number_text.h"
#include "src/report/render.h"
#include "src/report/text_layout.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

using base::Plural;
using base::Printable;

constexpr size_t kLabelColumns = 12;   // of facts
constexpr size_t kFactColumn = 15;     // where their texts stand
constexpr size_t kAmountColumns = 12;  // of amounts
constexpr size_t kAmountColumn = 14;
constexpr size_t kNumberedColumn = 8;  // of the details of numbered items
constexpr size_t kLongestBar = 40;
constexpr size_t kFilesOnTerminal = 16;
constexpr size_t kNotesShown = 20;

Ink InkOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return Ink::kNone;
    case Tone::kStrong:
      return Ink::kBold;
    case Tone::kGood:
      return Ink::kGreen;
    case Tone::kCaution:
      return Ink::kYellow;
    case Tone::kBad:
      return Ink::kRed;
  }
  return Ink::kNone;
}

class TerminalRenderer {
 public:
  TerminalRenderer(const Document& document, const ScreenOptions& options)
      : document_(document), screen_(options) {}

  std::string Run() {
    if (!document_.verdict.text.empty()) {
      PutLine(document_.verdict.tone, Printable(document_.verdict.text));
    }
    for (const Section& section : document_.sections) {
      PutSection(section);
    }
    if (!document_.next.empty()) {
      screen_.Heading("Next");
      for (const std::string& step : document_.next) {
        screen_.Paragraph(Ink::kNone, Printable(step));
      }
    }
    PutFiles();
    if (screen_.options().color && colors_used_) {
      screen_.Blank();
      screen_.Line(Ink::kNone, "red: a difference or a failure; yellow: worth a look");
    }
    return screen_.Take();
  }

 private:
  void PutLine(Tone tone, const std::string& text, size_t indent = 2) {
    Note(tone);
    screen_.Line(InkOf(tone), text, indent);
  }

  void Note(Tone tone) {
    colors_used_ = colors_used_ || tone == Tone::kCaution || tone == Tone::kBad;
  }

  static bool IsShown(const Block& block) {
    if (const List* const list = std::get_if<List>(&block)) {
      return !list->items.empty() && list->brief.items > 0;
    }
    if (const DataTable* const table = std::get_if<DataTable>(&block)) {
      return table->table.row_count() > 0 && table->brief.items > 0;
    }
    if (const Bars* const bars = std::get_if<Bars>(&block)) {
      return !bars->items.empty() && bars->brief.items > 0;
    }
    if (const Curves* const curves = std::get_if<Curves>(&block)) {
      return !curves->items.empty() && !curves->positions.empty() && curves->brief.items > 0;
    }
    return true;
  }

  void PutSection(const Section& section) {
    if (std::none_of(section.blocks.begin(), section.blocks.end(), IsShown)) {
      return;
    }
    if (!section.title.empty()) {
      screen_.Heading(Printable(section.title));
    } else if (!screen_.empty() && !std::holds_alternative<Text>(section.blocks.front())) {
      screen_.Blank();
    }
    bool first = true;
    for (const Block& block : section.blocks) {
      if (IsShown(block)) {
        std::visit([&](const auto& content) { Put(content, first); }, block);
        first = false;
      }
    }
  }

  void Put(const Text& text, bool /*first*/) {
    Note(text.tone);
    screen_.Paragraph(InkOf(text.tone), Printable(text.text));
  }

  void Put(const List& list, bool first) {
    const size_t shown = std::min(list.items.size(), list.brief.items);
    size_t label_width = 0;
    for (size_t i = 0; i < shown; ++i) {
      label_width = std::max(label_width, ColumnsOf(Printable(list.items[i].label)));
    }
    for (size_t i = 0; i < shown; ++i) {
      PutItem(list, i, label_width, first);
    }
    PutRest(list.brief, list.items.size());
  }

  void PutItem(const List& list, size_t index, size_t label_width, bool first) {
    const Item& item = list.items[index];
    const std::string label = Printable(item.label);
    const std::string text = Printable(item.text);
    switch (list.kind) {
      case ListKind::kFacts:
        PutFact(item, label, text);
        break;
      case ListKind::kAligned: {
        // Below other blocks a step deeper.
        const size_t blanks = first ? 2 : 4;
        Note(item.tone);
        const size_t most = screen_.options().width / 2;
        const size_t width =
            std::min(label_width, screen_.options().has_edge ? most : kMostFilledColumns);
        screen_.Labelled(InkOf(item.tone), std::string(blanks, ' ') + Filled(label, width) + " ",
                         text, blanks + width + 2);
        break;
      }
      case ListKind::kAmounts:
        Note(item.tone);
        screen_.Labelled(InkOf(item.tone), fmt::format("{:>{}} ", label, kAmountColumns), text,
                         kAmountColumn);
        for (const Item& detail : item.details) {
          screen_.Line(Ink::kNone, std::string(kAmountColumn, ' ') + Printable(detail.text),
                       kAmountColumn);
        }
        break;
      case ListKind::kNamed:
        Note(item.tone);
        screen_.Labelled(InkOf(item.tone), fmt::format("  {}{}", label, text.empty() ? "" : ":"),
                         text, 6);
        break;
      case ListKind::kNumbered:
        Note(item.tone);
        screen_.Labelled(InkOf(item.tone == Tone::kPlain ? Tone::kStrong : item.tone),
                         fmt::format("{:>2}. {}:", index + 1, label), text, 4);
        for (const Item& detail : item.details) {
          screen_.Labelled(Ink::kNone,
                           fmt::format("    {:>3}", detail.label.empty() ? "-" : detail.label),
                           Printable(detail.text), kNumberedColumn);
        }
        break;
      case ListKind::kBullets:
        Note(item.tone);
        screen_.Labelled(InkOf(item.tone), "  -", text, 4);
        break;
      case ListKind::kSentences:
        PutLine(item.tone, "  " + text, 6);
        break;
      case ListKind::kChecks:
        Note(item.tone);
        screen_.Labelled(InkOf(item.tone), label, text, 2);
        break;
    }
  }

  void PutFact(const Item& item, const std::string& label, const std::string& text) {
    Note(item.tone);
    screen_.Labelled(InkOf(item.tone), "  " + Filled(label, kLabelColumns), text, kFactColumn);
    for (const Item& detail : item.details) {
      screen_.Labelled(Ink::kNone, "  " + Filled("", kLabelColumns), Printable(detail.text),
                       kFactColumn);
    }
  }

  static std::string Filled(std::string text, size_t columns) {
    const size_t used = ColumnsOf(text);
    text.append(columns > used ? columns - used : 0, ' ');
    return text;
  }

  // Names keep their end, and reasons stand below the rows.
  void PutNamedRows(const DataTable& data, TerminalOptions table) {
    const bool has_edge = screen_.options().has_edge;
    ScreenView view = ForScreen(data.table, has_edge ? table.width : 0, screen_.options().ascii);
    if (view.width > table.width) {  // every cell will have a line of its own
      view = ForScreen(data.table, 0);
    }
    table.narrowest = SIZE_MAX;
    screen_.Raw(TerminalTable(view.table, table));
    for (size_t i = 0; i < std::min(view.notes.size(), kNotesShown); ++i) {
      screen_.Line(Ink::kNone, view.notes[i]);
    }
    if (view.notes.size() > kNotesShown) {
      screen_.Line(Ink::kNone, fmt::format("and {} with a note",
                                           Plural(view.notes.size() - kNotesShown, "more row")));
    }
  }

  void Put(const DataTable& data, bool /*first*/) {
    const ScreenOptions& options = screen_.options();
    TerminalOptions table;
    table.width = options.has_edge ? options.width : SIZE_MAX;
    table.color = options.color;
    table.digits = data.digits;
    table.decimals = data.decimals;
    table.wrap = options.has_edge;
    table.ascii = options.ascii;
    table.rows = data.brief.items;
    table.amounts = data.amounts;
    if (data.names_rows) {
      PutNamedRows(data, table);
      return;
    }
    screen_.Raw(TerminalTable(data.table, table));
    PutRest(data.brief, data.table.row_count());
  }

  void Put(const Bars& bars, bool /*first*/) {
    const ScreenOptions& options = screen_.options();
    const size_t shown = std::min(bars.items.size(), bars.brief.items);
    double largest = 0;
    size_t name_width = 0;
    for (size_t i = 0; i < shown; ++i) {
      const Bar& bar = bars.items[i];
      largest = std::isfinite(bar.value) ? std::max(largest, bar.value) : largest;
      name_width = std::max(name_width, ColumnsOf(Printable(bar.label)));
    }
    constexpr size_t kFigures = 10;
    constexpr size_t kGaps = 6;
    const size_t most =
        options.has_edge ? options.width / 2 : std::min(name_width, kMostFilledColumns);
    const bool in_one_line = name_width <= most;
    const size_t taken = (in_one_line ? name_width : most) + kFigures + kGaps;
    const size_t room = options.width > taken ? options.width - taken : 1;
    const size_t longest = options.has_edge ? std::min(room, kLongestBar) : kLongestBar;
    for (size_t i = 0; i < shown; ++i) {
      const Bar& bar = bars.items[i];
      const std::string label = Printable(bar.label);
      const double share = std::isfinite(bar.value) && largest > 0 ? bar.value / largest : 0;
      const auto length = static_cast<size_t>(std::ceil(share * static_cast<double>(longest)));
      // A name that is too long has a line of its own, its figures the next one.
      const bool fits = ColumnsOf(label) <= std::min(name_width, most);
      std::string line = "  ";
      if (!fits) {
        screen_.Line(Ink::kNone, "  " + label, 4);
      }
      line += Filled(fits ? label : "", std::min(name_width, most)) + "  ";
      line +=
          fmt::format("{:<{}}  {}", NumberText(bar.value, 3), kFigures, std::string(length, '#'));
      line.erase(line.find_last_not_of(' ') + 1);
      screen_.Raw(line + "\n");
    }
    PutRest(bars.brief, bars.items.size());
  }

  // A line per curve: where it begins, its lowest point and its end.
  void Put(const Curves& curves, bool /*first*/) {
    const size_t shown = std::min(curves.items.size(), curves.brief.items);
    for (size_t i = 0; i < shown; ++i) {
      const std::vector<double>& values = curves.items[i].values;
      std::string text;
      const auto point = [&](std::string_view what, size_t at) {
        text +=
            fmt::format("{}{} {} at {} {}", text.empty() ? "" : ", ", what,
                        NumberText(values[at], 4), curves.axis, Printable(curves.positions[at]));
      };
      const auto is_number = [](double value) { return !std::isnan(value); };
      const auto first = std::find_if(values.begin(), values.end(), is_number);
      if (first == values.end()) {
        text = "no values";
      } else {
        size_t lowest = static_cast<size_t>(first - values.begin());
        size_t last = lowest;
        point("first", lowest);
        for (size_t at = lowest; at < values.size(); ++at) {
          lowest = values[at] < values[lowest] ? at : lowest;
          last = is_number(values[at]) ? at : last;
        }
        point("lowest", lowest);
        point("last", last);
      }
      screen_.Labelled(Ink::kNone, "  " + Printable(curves.items[i].label) + ":", text, 6);
    }
    PutRest(curves.brief, curves.items.size());
  }

  void PutRest(const Brief& brief, size_t all) {
    if (all <= brief.items || !brief.counts_rest) {
      return;
    }
    screen_.Line(Ink::kNone,
                 "  " + (brief.rest.empty()
                             ? fmt::format("and {} more", base::FormatCount(all - brief.items))
                             : Printable(brief.rest)));
  }

  void PutFiles() {
    if (document_.files.empty()) {
      return;
    }
    std::string heading = "Files";
    if (document_.seconds > 0) {
      heading += fmt::format(" ({}{} in {})",
                             document_.bytes > 0 ? base::FormatBytes(document_.bytes) + " " : "",
                             document_.deed, base::FormatSeconds(document_.seconds));
    }
    screen_.Heading(heading);
    // Programs behind a pipe get them all. On a terminal tables of hundreds of ranks would push the
    // answer out of sight; what is told apart by a word always has its line.
    const size_t all = document_.files.size();
    const bool cuts = screen_.options().has_edge && all > kFilesOnTerminal;
    size_t unnamed = 0;
    size_t shown = 0;
    for (const OutputFile& file : document_.files) {
      if (cuts && file.what.empty() && shown >= kFilesOnTerminal) {
        ++unnamed;
        continue;
      }
      ++shown;
      screen_.Raw(fmt::format("  {}\n", Printable(file.path.string())));
    }
    if (unnamed > 0) {
      const std::string folder = document_.files.front().path.parent_path().string();
      screen_.Line(Ink::kNone, fmt::format("  and {} in {}", Plural(unnamed, "more file"),
                                           Printable(folder.empty() ? "." : folder)));
    }
  }

  const Document& document_;
  Screen screen_;
  bool colors_used_ = false;
};

}  // namespace

std::string RenderTerminal(const Document& document, const ScreenOptions& options) {
  return TerminalRenderer(document, options).Run();
}

}  // namespace msprobe::report
