#include "documents/options.h"

#include <regex>
#include <sstream>

namespace kvcal::documents {

std::set<std::string> options_in(std::string_view text) {
  static const std::regex option(R"((^|[^\w-])(--[a-z][a-z0-9-]*))");
  std::set<std::string> options;
  const std::string all(text);
  for (auto it = std::sregex_iterator(all.begin(), all.end(), option); it != std::sregex_iterator(); ++it)
    options.insert((*it)[2]);
  return options;
}

std::set<std::string> options_in_code(std::string_view markdown) {
  std::string code;
  bool in_block = false;
  std::istringstream in{std::string(markdown)};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      in_block = !in_block;
      continue;
    }
    bool in_span = in_block;
    for (const char c : line) {
      if (c == '`' && !in_block) in_span = !in_span;
      if (in_span) code += c;
    }
    code += '\n';
  }
  return options_in(code);
}

std::set<std::string> verbs_in(std::string_view help) {
  static const std::regex verb(R"(  ([a-z]+) .*)");
  std::set<std::string> verbs;
  bool listed = false;
  std::istringstream in{std::string(help)};
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (line.empty()) listed = false;
    if (listed && std::regex_match(line, match, verb)) verbs.insert(match[1]);
    if (line == "Verbs:") listed = true;
  }
  return verbs;
}

}  // namespace kvcal::documents
