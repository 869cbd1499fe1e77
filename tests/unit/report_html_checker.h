// A strict reader of the HTML that the report writes: every tag closed, in order, attributes quoted, text escaped.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// "" for a well-formed page, else what is wrong and where. Knows no HTML beyond the rules of XML, but that <style>
/// holds raw text; collects the ids, the targets of links, and every address that a browser would fetch.
class HtmlChecker {
 public:
  explicit HtmlChecker(std::string_view page) : page_(page) {}

  std::string check() {
    if (!page_.starts_with("<!DOCTYPE html>\n")) return "no doctype";
    at_ = 16;
    while (at_ < page_.size())
      if (std::string fault = page_[at_] == '<' ? tag() : text(); !fault.empty())
        return fault + " at byte " + std::to_string(at_) + ": " + std::string(page_.substr(at_, 80));
    if (!open_.empty()) return "<" + open_.back() + "> is never closed";
    for (const std::string& target : links)
      if (!ids.contains(target)) return "a link leads to #" + target + ", which does not exist";
    return "";
  }

  std::set<std::string> ids, links, elements;
  std::vector<std::string> addresses;

 private:
  std::string text() {
    for (; at_ < page_.size() && page_[at_] != '<'; ++at_) {
      if (page_[at_] == '>') return "bare >";
      if (page_[at_] == '&' && !entity(at_)) return "bare &";
    }
    return "";
  }

  bool entity(size_t at) const {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
      if (page_.substr(at, known.size()) == known) return true;
    return false;
  }

  std::string tag() {
    const bool closing = page_.substr(at_).starts_with("</");
    at_ += closing ? 2 : 1;
    const std::string name = word();
    if (name.empty()) return "a tag without a name";
    if (closing) return close(name);
    elements.insert(name);
    while (at_ < page_.size() && page_[at_] == ' ')
      if (std::string fault = attribute(name); !fault.empty()) return fault;
    if (page_.substr(at_).starts_with("/>")) return at_ += 2, "";
    if (at_ >= page_.size() || page_[at_] != '>') return "<" + name + "> does not end";
    ++at_;
    open_.push_back(name);
    if (name == "style") {
      at_ = page_.find("</style>", at_);
      if (at_ == page_.npos) return "<style> does not end";
    }
    return "";
  }

  std::string close(const std::string& name) {
    if (open_.empty() || open_.back() != name)
      return "</" + name + "> closes " + (open_.empty() ? "nothing" : "<" + open_.back() + ">");
    open_.pop_back();
    if (at_ >= page_.size() || page_[at_] != '>') return "</" + name + " does not end";
    ++at_;
    return "";
  }

  std::string attribute(const std::string& element) {
    ++at_;
    const std::string name = word();
    if (name.empty() || page_.substr(at_, 2) != "=\"")
      return "an attribute of <" + element + "> without a quoted value";
    const size_t from = at_ += 2;
    for (; at_ < page_.size() && page_[at_] != '"'; ++at_) {
      if (page_[at_] == '<' || page_[at_] == '>') return "bare angle in an attribute";
      if (page_[at_] == '&' && !entity(at_)) return "bare & in an attribute";
    }
    if (at_ >= page_.size()) return "an attribute of <" + element + "> does not end";
    const std::string value(page_.substr(from, at_ - from));
    ++at_;
    if (name.starts_with("on")) return "a handler, " + name;
    if (name == "id" && !ids.insert(value).second) return "id " + value + " twice";
    if (name == "href" && value.starts_with("#"))
      links.insert(value.substr(1));
    else if (name == "href" || name == "src" || name == "action" || name == "data")
      addresses.push_back(value);
    return "";
  }

  std::string word() {
    const size_t from = at_;
    while (at_ < page_.size() && (std::isalnum(static_cast<unsigned char>(page_[at_])) || page_[at_] == '-')) ++at_;
    return std::string(page_.substr(from, at_ - from));
  }

  std::string_view page_;
  size_t at_ = 0;
  std::vector<std::string> open_;
};

}  // namespace kvcal
