#include "rules/source_text.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace kvcal::rules {
namespace {

namespace fs = std::filesystem;

// The folders of the fixed top level; build/ and what else a developer keeps beside them is none of our business.
constexpr const char* kFolders[] = {".ci", "apps", "datasets", "docs", "kernels", "lib", "mpi", "schemas", "tests"};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// End of the literal that starts at text[i] with `quote`.
size_t end_of_literal(std::string_view text, size_t i, char quote) {
  for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
    if (text[i] == '\\') ++i;
  return std::min(i + 1, text.size());
}

size_t end_of_raw_string(std::string_view text, size_t quote) {
  const size_t open = text.find('(', quote);
  if (open == std::string_view::npos) return text.size();
  const std::string closing = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  const size_t close = text.find(closing, open);
  return close == std::string_view::npos ? text.size() : close + closing.size();
}

// Where the comment or literal that starts at text[i] ends; i when none starts there.
size_t end_of_noncode(std::string_view text, size_t i) {
  const std::string_view rest = text.substr(i);
  if (rest.starts_with("//")) return std::min(text.find('\n', i), text.size());
  if (rest.starts_with("/*")) {
    const size_t close = text.find("*/", i + 2);
    return close == std::string_view::npos ? text.size() : close + 2;
  }
  if (rest.starts_with("R\"") && (i == 0 || !is_name_character(text[i - 1]))) return end_of_raw_string(text, i + 1);
  if (rest.starts_with("\"")) return end_of_literal(text, i, '"');
  // Between digits an apostrophe separates them.
  if (rest.starts_with("'") && (i == 0 || !is_name_character(text[i - 1]))) return end_of_literal(text, i, '\'');
  return i;
}

}  // namespace

std::vector<SourceFile> read_tree(const fs::path& top) {
  std::vector<SourceFile> files;
  const auto take = [&](const fs::path& path) {
    std::string text = read(path);
    if (text.find('\0') != std::string::npos) return;
    files.push_back({path.lexically_relative(top).generic_string(), std::move(text)});
  };
  for (const auto& entry : fs::directory_iterator(top))
    // In a second worktree .git is a file, which says where the first one lies.
    if (entry.is_regular_file() && entry.path().filename() != ".git") take(entry.path());
  for (const char* folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(top / folder))
      if (entry.is_regular_file()) take(entry.path());
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::string code_only(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = end_of_noncode(text, i);
    for (size_t k = i; k < end; ++k)
      if (code[k] != '\n') code[k] = ' ';
    i = std::max(end, i + 1);
  }
  return code;
}

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^">]+)[">].*$)");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (line.find("include") != std::string::npos && std::regex_match(line, match, pattern))
      includes.push_back({number, match[2], match[1] == "\""});
  }
  return includes;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace kvcal::rules
