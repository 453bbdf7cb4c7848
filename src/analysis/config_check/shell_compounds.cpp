// Commands made of commands: if, loops, case, conditions, functions.
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_parser.h"

namespace msprobe::analysis::config_check::internal {

Status ShellParser::Body(ShellList& bodies) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  ShellNode& group = bodies.emplace_back();
  group.kind = ShellKind::kGroup;
  group.line = line_;
  return List(group.children);
}

Status ShellParser::Close(std::string_view word, int line, std::string_view what) {
  if (!TakeReserved(word)) {
    Warn(line, fmt::format("the {} is never closed by {}", what, word));
  }
  return {};
}

Status ShellParser::If(ShellNode& node) {
  node.kind = ShellKind::kIf;
  while (true) {
    MSP_RETURN_IF_ERROR(Body(node.children));
    MSP_RETURN_IF_ERROR(Close("then", node.line, "condition of if"));
    MSP_RETURN_IF_ERROR(Body(node.children));
    if (TakeReserved("elif")) {
      continue;
    }
    if (TakeReserved("else")) {
      MSP_RETURN_IF_ERROR(Body(node.children));
    }
    return Close("fi", node.line, "if");
  }
}

Status ShellParser::Loop(ShellNode& node) {
  node.kind = ShellKind::kLoop;
  MSP_RETURN_IF_ERROR(Body(node.children));
  MSP_RETURN_IF_ERROR(Close("do", node.line, "condition of " + node.text));
  MSP_RETURN_IF_ERROR(Body(node.children));
  return Close("done", node.line, node.text);
}

Status ShellParser::For(ShellNode& node) {
  node.kind = ShellKind::kFor;
  SkipBlanks();
  if (StartsWith("((")) {
    node.kind = ShellKind::kCountingFor;
    std::string spelling;
    if (!TakeArithmetic(node.text, spelling)) {
      return ErrorAt(node.line, ")) is missing");
    }
  } else {
    while (IsNameCharacter(Peek())) {
      node.text += Take();
    }
    MSP_RETURN_IF_ERROR(SkipLines());
    if (TakeReserved("in")) {
      node.has_words = true;
      while (true) {
        SkipBlanks();
        if (AtEnd() || Peek() == '\n' || Peek() == ';' || Peek() == '#') {
          break;
        }
        if (EndsWord(Peek()) && !StartsWith("<(")) {
          Take();
          continue;
        }
        ShellWord& word = node.words.emplace_back();
        word.line = line_;
        MSP_RETURN_IF_ERROR(Word(word));
      }
    }
  }
  SkipBlanks();
  if (Peek() == ';') {
    Take();
  }
  MSP_RETURN_IF_ERROR(SkipLines());
  if (TakeReserved("{")) {
    MSP_RETURN_IF_ERROR(Body(node.children));
    return Close("}", node.line, "for");
  }
  MSP_RETURN_IF_ERROR(Close("do", node.line, "head of for"));
  MSP_RETURN_IF_ERROR(Body(node.children));
  return Close("done", node.line, "for");
}

Status ShellParser::Case(ShellNode& node) {
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  node.kind = ShellKind::kCase;
  SkipBlanks();
  node.words.emplace_back().line = line_;
  MSP_RETURN_IF_ERROR(Word(node.words.back()));
  MSP_RETURN_IF_ERROR(SkipLines());
  if (!TakeReserved("in")) {
    Warn(node.line, "the case has no in");
  }
  while (true) {
    MSP_RETURN_IF_ERROR(SkipLines());
    if (AtEnd() || PeekPlain() == "esac" || Peek() == '&') {
      break;
    }
    if (Peek() == '(') {
      Take();
    }
    ShellCaseItem& item = node.items.emplace_back();
    while (!AtEnd() && Peek() != ')') {
      if (SkipBlanks()) {
        continue;
      }
      if (EndsWord(Peek())) {
        if (Peek() == '\n') {
          break;
        }
        Take();
        continue;
      }
      item.patterns.emplace_back().line = line_;
      MSP_RETURN_IF_ERROR(Word(item.patterns.back()));
    }
    if (!AtEnd()) {
      Take();
    }
    MSP_RETURN_IF_ERROR(List(item.body));
    if (StartsWith(";;&")) {
      item.then = ';';
      Skip(3);
    } else if (StartsWith(";&")) {
      item.then = '&';
      Skip(2);
    } else if (StartsWith(";;")) {
      Skip(2);
    } else if (!AtEnd() && PeekPlain() != "esac") {
      Take();  // what no list may end with
    }
  }
  return Close("esac", node.line, "case");
}

// As words, the operators among them.
Status ShellParser::Condition(ShellNode& node) {
  node.kind = ShellKind::kCondition;
  bool regex = false;
  while (!AtEnd()) {
    MSP_RETURN_IF_ERROR(SkipLines());
    if (TakeReserved("]]")) {
      return {};
    }
    if (AtEnd()) {
      break;
    }
    ShellWord& word = node.words.emplace_back();
    word.line = line_;
    if (regex) {
      regex = false;
      MSP_RETURN_IF_ERROR(RegexWord(word));
    } else if (StartsWith("&&") || StartsWith("||")) {
      AddText(word, Take(), false);
      AddText(word, Take(), false);
    } else if (EndsWord(Peek())) {
      AddText(word, Take(), false);
    } else {
      MSP_RETURN_IF_ERROR(Word(word));
      regex = word.Plain() == "=~";
    }
  }
  return ErrorAt(node.line, "]] is missing");
}

Status ShellParser::Function(ShellNode& node) {
  node.kind = ShellKind::kFunction;
  MSP_RETURN_IF_ERROR(SkipLines());
  const Level level(*this);
  MSP_RETURN_IF_ERROR(CheckDepth());
  node.children.emplace_back();
  return Command(node.children.back());
}

}  // namespace msprobe::analysis::config_check::internal
