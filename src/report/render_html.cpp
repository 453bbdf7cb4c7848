#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/html_style.h"
#include "src/report/number_text.h"
#include "src/report/render.h"

namespace msprobe::report {
namespace {

// As text and as the value of an attribute. What is not printable becomes '?', line breaks stay.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : base::Printable(text, "\n")) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string_view ClassOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return " class=\"strong\"";
    case Tone::kGood:
      return " class=\"good\"";
    case Tone::kCaution:
      return " class=\"caution\"";
    case Tone::kBad:
      return " class=\"bad\"";
  }
  return "";
}

class HtmlRenderer {
 public:
  explicit HtmlRenderer(const Document& document) : document_(document) {}

  std::string Run() {
    const std::string title =
        fmt::format("msprobe {}: {}", document_.command, document_.verdict.word);
    Add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'{}'; "
        "base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light "
        "dark\">\n<title>{}</title>\n<style>{}</style>\n"
        "</head>\n<body>\n<main>\n",
        internal::kHtmlStyleHash, Escaped(title), internal::kHtmlStyle);
    Add("<p class=\"command\">msprobe {}</p>\n<h1{}>{}</h1>\n", Escaped(document_.command),
        ClassOf(document_.verdict.tone), Escaped(document_.verdict.text));
    for (const Section& section : document_.sections) {
      Put(section);
    }
    PutTexts("Next", document_.next);
    PutTexts("Warnings", document_.warnings);
    PutFiles();
    out_ += "</main>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  template <typename... Values>
  void Add(fmt::format_string<Values...> form, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), form, std::forward<Values>(values)...);
  }

  void Put(const Section& section) {
    out_ += "<section>\n";
    if (!section.title.empty()) {
      Add("<h2>{}</h2>\n", Escaped(section.title));
    }
    for (const Block& block : section.blocks) {
      std::visit([this](const auto& one) { Put(one); }, block);
    }
    out_ += "</section>\n";
  }

  void Put(const Text& text) { Add("<p{}>{}</p>\n", ClassOf(text.tone), Escaped(text.text)); }

  void Put(const List& list) {
    switch (list.kind) {
      case ListKind::kFacts:
      case ListKind::kAligned:
      case ListKind::kNamed:
      case ListKind::kAmounts:
      case ListKind::kChecks:
        out_ += list.kind == ListKind::kAmounts ? "<dl class=\"amounts\">\n" : "<dl>\n";
        for (const Item& item : list.items) {
          Add("<dt{}>{}</dt><dd>{}", ClassOf(item.tone), Escaped(item.label), Escaped(item.text));
          PutDetails(item);
          out_ += "</dd>\n";
        }
        out_ += "</dl>\n";
        break;
      case ListKind::kNumbered:
      case ListKind::kBullets:
      case ListKind::kSentences: {
        const std::string_view tag = list.kind == ListKind::kNumbered ? "ol" : "ul";
        Add("<{}>\n", tag);
        for (const Item& item : list.items) {
          Add("<li>{}", item.label.empty() ? std::string()
                                           : fmt::format("<b{}>{}:</b> ", ClassOf(item.tone),
                                                         Escaped(item.label)));
          Add("<span{}>{}</span>", item.label.empty() ? ClassOf(item.tone) : "",
              Escaped(item.text));
          PutDetails(item);
          out_ += "</li>\n";
        }
        Add("</{}>\n", tag);
        break;
      }
    }
  }

  void PutDetails(const Item& item) {
    for (const Item& detail : item.details) {
      Add("<div class=\"detail\">{}{}</div>",
          detail.label.empty() ? std::string() : "<b>" + Escaped(detail.label) + "</b> ",
          Escaped(detail.text));
    }
  }

  void Put(const DataTable& data) {
    const Table& table = data.table;
    out_ += "<div class=\"scroll\"><table>\n<thead><tr>";
    for (const std::string& column : table.columns()) {
      Add("<th scope=\"col\">{}</th>", Escaped(column));
    }
    out_ += "</tr></thead>\n<tbody>\n";
    for (size_t row = 0; row < table.row_count(); ++row) {
      const Fill fill = table.fill(row);
      out_ += fill == Fill::kRed      ? "<tr class=\"bad\">"
              : fill == Fill::kYellow ? "<tr class=\"caution\">"
                                      : "<tr>";
      for (size_t column = 0; column < table.columns().size(); ++column) {
        const Cell& cell = table.row(row)[column];
        const bool amount =
            cell.kind() == CellKind::kInteger || cell.kind() == CellKind::kNumber ||
            std::find(data.amounts.begin(), data.amounts.end(), column) != data.amounts.end();
        Add("<td{}>{}</td>", amount ? " class=\"amount\"" : "",
            cell.kind() == CellKind::kNumber ? NumberText(cell.number(), data.digits)
                                             : Escaped(CellText(cell)));
      }
      out_ += "</tr>\n";
    }
    out_ += "</tbody>\n</table></div>\n";
  }

  void Put(const Bars& bars) {
    double largest = 0;
    for (const Bar& bar : bars.items) {
      largest = std::isfinite(bar.value) ? std::max(largest, bar.value) : largest;
    }
    Add("<table class=\"bars\">\n<thead><tr><th scope=\"col\"></th><th scope=\"col\">{}</th>"
        "<th></th></tr></thead>\n<tbody>\n",
        Escaped(bars.unit));
    for (const Bar& bar : bars.items) {
      const double share = std::isfinite(bar.value) && largest > 0 ? bar.value / largest : 0;
      const std::string number = NumberText(bar.value, 3);
      Add("<tr><th scope=\"row\">{0}</th><td class=\"amount\">{1}</td><td>"
          "<meter min=\"0\" max=\"1\" value=\"{2:.4f}\">{1}</meter></td></tr>\n",
          Escaped(bar.label), number, share);
    }
    out_ += "</tbody>\n</table>\n";
  }

  void PutTexts(std::string_view title, const std::vector<std::string>& texts) {
    if (texts.empty()) {
      return;
    }
    Add("<section>\n<h2>{}</h2>\n<ul>\n", title);
    for (const std::string& text : texts) {
      Add("<li>{}</li>\n", Escaped(text));
    }
    out_ += "</ul>\n</section>\n";
  }

  void PutFiles() {
    if (document_.files.empty()) {
      return;
    }
    out_ += "<section>\n<h2>Files</h2>\n<ul>\n";
    for (const OutputFile& file : document_.files) {
      Add("<li><code>{}</code>{}</li>\n", Escaped(file.path.string()),
          file.what.empty() ? std::string() : " (" + Escaped(file.what) + ")");
    }
    out_ += "</ul>\n</section>\n";
  }

  const Document& document_;
  std::string out_;
};

}  // namespace

std::string RenderHtml(const Document& document) { return HtmlRenderer(document).Run(); }

}  // namespace msprobe::report
