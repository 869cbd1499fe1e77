#include "rules/documents.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace kvcal::rules {
namespace {

constexpr size_t kMostWords = 1500;

struct Link {
  int line = 0;
  std::string path, anchor;  // "docs/ci.md#a-plain-shell": either may be empty
};

/// The lines with fenced blocks, indented blocks and the insides of code spans blanked.
std::vector<std::string> prose_of(std::string_view markdown) {
  std::vector<std::string> lines = lines_of(markdown);
  bool in_block = false;
  for (std::string& line : lines) {
    const bool fence = line.starts_with("```");
    in_block ^= fence;
    if (fence || in_block || line.starts_with("    ")) line.clear();
    bool in_span = false;
    for (char& c : line) {
      if (c == '`') in_span = !in_span;
      if (in_span) c = '`';
    }
  }
  return lines;
}

std::vector<Link> links_of(std::string_view markdown) {
  static const std::regex pattern(R"(\]\(([^)\s]*)\))"), elsewhere(R"([a-z]+:.*)");
  std::vector<Link> links;
  int number = 0;
  for (const std::string& line : prose_of(markdown)) {
    ++number;
    for (auto it = std::sregex_iterator(line.begin(), line.end(), pattern); it != std::sregex_iterator(); ++it) {
      const std::string target = (*it)[1];
      if (std::regex_match(target, elsewhere)) continue;
      const size_t hash = std::min(target.find('#'), target.size());
      links.push_back({number, target.substr(0, hash), target.substr(std::min(hash + 1, target.size()))});
    }
  }
  return links;
}

bool is_markdown(const SourceFile& file) { return file.path.ends_with(".md"); }
bool is_document(const SourceFile& file) { return is_markdown(file) && file.path.starts_with("docs/"); }

/// Where a link of a document leads, from the top of the tree, without a slash at the end.
std::string resolved(const std::string& document, const std::string& path) {
  if (path.empty()) return document;
  std::string found = (std::filesystem::path(document).parent_path() / path).lexically_normal().generic_string();
  if (found.ends_with('/')) found.pop_back();
  return found;
}

std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ')
      anchor += '-';
    else if (c == '-' || c == '_' || byte >= 0x80 || std::isalnum(byte) != 0)
      anchor += static_cast<char>(byte < 0x80 ? std::tolower(byte) : byte);
  }
  return anchor;
}

void check_link(const std::vector<SourceFile>& tree, const SourceFile& from, const Link& link, Findings& findings) {
  const std::string where = from.path + ":" + std::to_string(link.line) + ": ";
  const std::string path = resolved(from.path, link.path);
  const auto file = std::ranges::find(tree, path, &SourceFile::path);
  const bool folder =
      std::ranges::any_of(tree, [&](const SourceFile& other) { return other.path.starts_with(path + "/"); });
  if (file == tree.end() && !folder) {
    findings.push_back(where + "the link leads nowhere: " + path);
  } else if (!link.anchor.empty()) {
    const std::vector<std::string> anchors = file == tree.end() ? Findings{} : anchors_of(file->text);
    if (std::ranges::find(anchors, link.anchor) == anchors.end())
      findings.push_back(where + path + " has no heading for #" + link.anchor);
  }
}

}  // namespace

std::vector<std::string> anchors_of(std::string_view markdown) {
  std::vector<std::string> anchors;
  std::map<std::string, int> times;
  bool in_block = false;
  for (const std::string& line : lines_of(markdown)) {
    in_block ^= line.starts_with("```");
    const size_t level = std::min(line.find_first_not_of('#'), line.size());
    if (in_block || level == 0 || level > 6 || level == line.size() || line[level] != ' ') continue;
    const std::string anchor = anchor_of(std::string_view(line).substr(level + 1));
    const int earlier = times[anchor]++;
    anchors.push_back(earlier == 0 ? anchor : anchor + "-" + std::to_string(earlier));
  }
  return anchors;
}

Findings installers_are_given_files(const std::vector<SourceFile>& tree) {
  static const std::regex by_name(
      R"((\bpip3? install\b|\buvx|\bpipx (install|run)|\buv (add|tool (install|run))|additional_dependencies:|\bdefault:))"
      R"([^|;&#`]*?[\s'"\[,]kvcal(-cuda\d+)?(\[\w+\])?(?!\s*@)\s*([=<>~!]=?[^@]*)?(['"`,.;)\]]|\s|$))");
  // What follows is a command of a wheel's, not its name.
  static const std::regex from_file(R"(\b(uvx|uv tool run|pipx run) (--from|--spec) \S*[/$]\S*)");
  Findings findings;
  for (const SourceFile& file : tree) {
    if (file.path.starts_with("tests/") || file.path.starts_with("datasets/")) continue;
    int number = 0;
    for (const std::string& line : lines_of(file.text)) {
      ++number;
      if (line.find("kvcal") != std::string::npos && line.size() < 1000 && std::regex_search(line, by_name) &&
          !std::regex_search(line, from_file))
        findings.push_back(file.path + ":" + std::to_string(number) + ": takes kvcal from PyPI, where it is not ours");
    }
  }
  return findings;
}

Findings readme_is_short(const std::vector<SourceFile>& tree) {
  const auto readme = std::ranges::find(tree, "README.md", &SourceFile::path);
  if (readme == tree.end()) return {"README.md is missing"};
  size_t n_words = 0;
  std::istringstream in(readme->text);
  for (std::string word; in >> word;) ++n_words;
  if (n_words <= kMostWords) return {};
  return {"README.md: " + std::to_string(n_words) + " words, at most 1,500; docs/ has room"};
}

Findings links_lead_somewhere(const std::vector<SourceFile>& tree) {
  Findings findings;
  for (const SourceFile& file : tree)
    if (is_markdown(file))
      for (const Link& link : links_of(file.text)) check_link(tree, file, link, findings);
  return findings;
}

Findings documents_are_linked(const std::vector<SourceFile>& tree) {
  std::set<std::string> linked;
  for (const SourceFile& file : tree) {
    if (file.path != "README.md" && !is_document(file)) continue;
    for (const Link& link : links_of(file.text))
      if (!link.path.empty()) linked.insert(resolved(file.path, link.path));
  }
  Findings findings;
  for (const SourceFile& file : tree)
    if (is_document(file) && !linked.contains(file.path))
      findings.push_back(file.path + ": neither README.md nor another document of docs/ links it");
  return findings;
}

}  // namespace kvcal::rules
