#include "validate/locate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/json.h"

namespace kvcal {
namespace {

/// "layers[3].key.scale", "layers[3].key", "layers[3]", "layers", "".
std::vector<std::string> way_to(std::string path) {
  std::vector<std::string> way = {path};
  while (!path.empty()) {
    const size_t cut = path.find_last_of(".[");
    path.resize(cut == std::string::npos ? 0 : cut);
    way.push_back(path);
  }
  return way;
}

/// Walks the text once and notes the lines of the paths that are wanted. Depth is that of the parsed document.
class Walk {
 public:
  Walk(std::string_view text, const std::set<std::string>& wanted) : text_(text), wanted_(wanted) {}

  std::map<std::string, size_t> lines() {
    value("");
    return std::move(found_);
  }

 private:
  char skip_space() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (std::string_view(" \t\r\n").find(text_[at_]) == std::string_view::npos) return text_[at_];
    }
    return '\0';
  }

  std::string_view string() {
    const size_t from = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
    return text_.substr(from, at_ - from);
  }

  static std::string name_of(std::string_view literal) {
    return literal.find('\\') == literal.npos ? std::string(literal.substr(1, literal.size() - 2))
                                              : parse_json(literal).get<std::string>();
  }

  void value(const std::string& path) {
    const char first = skip_space();
    if (wanted_.contains(path)) found_.try_emplace(path, line_);
    if (first == '{' || first == '[')
      structure(path, first == '{');
    else if (first == '"')
      string();
    else
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
  }

  void structure(const std::string& path, bool object) {
    ++at_;
    for (size_t i = 0;; ++i) {
      const char next = skip_space();
      if (next == '\0' || next == '}' || next == ']') break;
      if (next == ',') {
        ++at_;
        --i;
        continue;
      }
      std::string inner = path + "[" + std::to_string(i) + "]";
      if (object) {
        const std::string name = name_of(string());
        inner = path.empty() ? name : path + "." + name;
        skip_space();
        ++at_;  // the colon
      }
      value(inner);
    }
    if (at_ < text_.size()) ++at_;
  }

  std::string_view text_;
  const std::set<std::string>& wanted_;
  size_t at_ = 0, line_ = 1;
  std::map<std::string, size_t> found_;
};

}  // namespace

void locate(std::string_view text, std::vector<Finding>& findings) {
  std::set<std::string> wanted;
  for (const Finding& f : findings)
    for (std::string& step : way_to(f.path)) wanted.insert(std::move(step));
  if (wanted.empty()) return;
  const std::map<std::string, size_t> lines = Walk(text, wanted).lines();
  for (Finding& f : findings)
    for (const std::string& step : way_to(f.path))
      if (const auto line = lines.find(step); line != lines.end()) {
        f.line = line->second;
        break;
      }
}

}  // namespace kvcal
