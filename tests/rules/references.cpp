#include "rules/references.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>

namespace kvcal::rules {
namespace {

// Tests that skip where the machine, not the tree, lacks something.
const std::map<std::string, std::string, std::less<>> kMaySkip = {
    {"tests/arch/arch_test.cpp", "goldens whose files depart from what the reference read"},
    {"tests/cudnn/graph_test.cpp", "cuDNN's library"},
    {"tests/plugins/test_plugins.py", "a program that was built"},
    {"tests/engine/background_reader_test.cpp", "direct reads, a page cache that can be emptied"},
    {"tests/unit/base_atomic_file_test.cpp", "the right to become another user, to mount"},
    {"tests/unit/checkpoint_mapped_file_test.cpp", "address space beside a sanitizer's"},
    {"tests/unit/tensor_block_pool_test.cpp", "an allocator that may fail"},
    {"tests/unlucky/memory_test.cpp", "memory that is not a sanitizer's"},
};

struct Line {
  int number = 0;
  std::string text;
};

bool is_code(std::string_view path) {
  return path.ends_with(".h") || path.ends_with(".cuh") || path.ends_with(".cpp") || path.ends_with(".cu");
}

bool is_script(std::string_view path) {
  return path.ends_with(".py") || path.ends_with(".sh") || path.ends_with(".cmake") ||
         path.ends_with("CMakeLists.txt") || path.ends_with("Makefile") || path.starts_with(".ci/");
}

std::string at(const SourceFile& file, int line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

// The part of a line that is a comment. Of Python the docstring that opens the file as well.
std::string comment_of(const SourceFile& file, const std::string& line, bool in_docstring) {
  if (file.path.ends_with(".md") || in_docstring) return line;
  const std::string_view mark = is_code(file.path) ? "//" : "#";
  const size_t begin = line.find(mark);
  if (begin == std::string::npos || line.find('"') < begin) return "";
  return begin == 0 || line[begin - 1] == ' ' ? line.substr(begin) : "";
}

std::vector<Line> comments_of(const SourceFile& file) {
  std::vector<Line> comments;
  if (!is_code(file.path) && !is_script(file.path) && !file.path.ends_with(".md")) return comments;
  const std::vector<std::string> lines = lines_of(file.text);
  bool in_docstring = file.path.ends_with(".py") && file.text.starts_with("\"\"\"");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string comment = comment_of(file, lines[i], in_docstring);
    if (!comment.empty()) comments.push_back({static_cast<int>(i) + 1, comment});
    if (in_docstring && lines[i].find("\"\"\"", i == 0 ? 3 : 0) != std::string::npos) in_docstring = false;
  }
  return comments;
}

bool begins_in_tree(std::string_view path) {
  static const std::set<std::string, std::less<>> folders = {".ci", "apps", "datasets", "docs", "kernels",
                                                             "lib", "mpi",  "schemas",  "tests"};
  const size_t slash = path.find('/');
  return slash != std::string_view::npos && folders.contains(path.substr(0, slash));
}

// "x.h by x.cpp", "check_SERVER.py" stand for many.
bool is_placeholder(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1), stem = name.substr(0, name.find('.'));
  const bool shouts = std::any_of(stem.begin(), stem.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return stem.size() == 1 || (shouts && !name.ends_with(".md"));
}

bool is_of_tree(const std::vector<SourceFile>& tree, std::string path) {
  while (path.starts_with("../")) path.erase(0, 3);
  return std::any_of(tree.begin(), tree.end(),
                     [&](const SourceFile& f) { return f.path == path || f.path.ends_with("/" + path); });
}

void check_citations(const std::vector<SourceFile>& tree, const SourceFile& file, const Line& line,
                     Findings& findings) {
  static const std::regex cited(R"((?:[A-Za-z0-9_.-]+/)*[A-Za-z0-9_-]+\.(md|h|cuh|cpp|sh|py|cu|jsonl?|txt|cmake)\b)");
  if (line.text.find('.') == std::string::npos || line.text.size() > 2000) return;
  for (auto it = std::sregex_iterator(line.text.begin(), line.text.end(), cited); it != std::sregex_iterator(); ++it) {
    const std::string path = it->str(), kind = (*it)[1];
    const std::string before = it->prefix(), after = it->suffix();
    // Part of something longer: a pattern, a variable, an address, a name that goes on.
    if (!before.empty() && std::string("/$}*<>{~.").find(before.back()) != std::string::npos) continue;
    if (!after.empty() && std::string("/(*.-").find(after.front()) != std::string::npos && after != "." &&
        !after.starts_with(". "))
      continue;
    const bool ours = kind == "md" || kind == "h" || kind == "cuh" || kind == "cpp" || kind == "sh";
    if ((ours || begins_in_tree(path)) && !is_placeholder(path) && !is_of_tree(tree, path))
      findings.push_back(at(file, line.number, "names a file that is not there: " + path));
  }
}

}  // namespace

Findings cited_files_exist(const std::vector<SourceFile>& tree) {
  Findings findings;
  for (const SourceFile& file : tree)
    for (const Line& line : comments_of(file)) check_citations(tree, file, line, findings);
  return findings;
}

Findings cited_sections_exist(const std::vector<SourceFile>& tree) {
  static const std::regex cited(R"re((docs/[a-z-]+\.md), "([^"]+)")re");
  Findings findings;
  for (const SourceFile& file : tree) {
    std::string text;  // of all comments, so that a citation may go on in the next line
    for (const Line& line : comments_of(file)) {
      const size_t begin = line.text.find_first_not_of("/# ");
      text += begin == std::string::npos ? "" : line.text.substr(begin) + " ";
    }
    if (text.find("docs/") == std::string::npos) continue;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), cited); it != std::sregex_iterator(); ++it) {
      const std::string document = (*it)[1], section = (*it)[2];
      const bool found = std::any_of(tree.begin(), tree.end(), [&](const SourceFile& f) {
        return f.path == document && f.text.find("# " + section + "\n") != std::string::npos;
      });
      if (!found) findings.push_back(file.path + ": " + document + " has no section \"" + section + "\"");
    }
  }
  return findings;
}

Findings paths_stay_inside(const SourceFile& file) {
  if (!is_code(file.path) && !is_script(file.path) && !file.path.ends_with(".md") && !file.path.ends_with(".cmd"))
    return {};
  // From the top, as shells, CMake and programs write it.
  static const std::regex from_top(
      R"(\b(KVCAL_SOURCE_DIR|PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR|CURDIR|SOURCE|source)[})\s/"]*\.\.(/|\b|$))");
  // From the file: as many steps up as it is deep, and one more.
  static const std::regex steps(R"((^|[\s"'(=/])((\.\./)*\.\.)(/|["'\s)]|$))");
  const auto depth = static_cast<size_t>(std::count(file.path.begin(), file.path.end(), '/'));
  Findings findings;
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    if (line.find("..") == std::string::npos || line.size() > 2000) continue;
    bool outside = std::regex_search(line, from_top);
    // In programs and cases a path may start anywhere: in a scratch folder, mostly.
    if (is_script(file.path) || file.path.ends_with(".md"))
      for (auto it = std::sregex_iterator(line.begin(), line.end(), steps); it != std::sregex_iterator(); ++it)
        outside |= ((*it)[2].length() + 1) / 3 > static_cast<long>(depth);
    if (outside) findings.push_back(at(file, number, "a path that leads out of the tree"));
  }
  return findings;
}

Findings skips_have_reasons(const SourceFile& file) {
  if (!file.path.starts_with("tests/") || file.path.starts_with("tests/rules/")) return {};
  if (!is_code(file.path) && !file.path.ends_with(".py")) return {};
  static const std::regex skip(R"(\b(GTEST_SKIP|SkipTest|skipTest|skipIf|skipUnless|unittest\.skip|pytest\.skip)\b)");
  if (kMaySkip.contains(file.path)) return {};
  Findings findings;
  int number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    if (std::regex_search(line, skip))
      findings.push_back(at(file, number, "a skip without a reason in references.cpp"));
  }
  return findings;
}

// ------------------------------------------------------------------ types

namespace {

struct Definition {
  std::string name, where;  // "kvcal::Error", "lib/base/error.h"
};

constexpr std::string_view kInner = "{";  // on the stack of namespaces: the braces of something else

// "namespace a::b" opens a namespace, anything else something whose types are local to it.
std::string opened_by(const std::string& statement) {
  static const std::regex opening(R"(^\s*(inline\s+)?namespace\b\s*([\w:]*)\s*$)");
  std::smatch match;
  return std::regex_match(statement, match, opening) ? match[2].str() : std::string(kInner);
}

std::string type_defined_by(const std::string& statement) {
  static const std::regex definition(
      R"((?:^|[>;\s])(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*(?::[^:][\s\S]*)?$)");
  std::smatch match;
  return std::regex_search(statement, match, definition) ? match[1].str() : "";
}

std::string without_directives(std::string_view code) {
  std::string text;
  bool goes_on = false;
  for (const std::string& line : lines_of(code)) {
    const size_t begin = line.find_first_not_of(' ');
    const bool directive = goes_on || (begin != std::string::npos && line[begin] == '#');
    goes_on = directive && line.ends_with('\\');
    text += directive ? "\n" : line + "\n";
  }
  return text;
}

// Types at the level of namespaces, anonymous ones apart.
void add_definitions(const SourceFile& file, std::vector<Definition>& definitions) {
  std::vector<std::string> open;
  std::string statement;
  for (const char c : without_directives(code_only(file.text))) {
    if (c == '{') {
      const bool named = std::none_of(open.begin(), open.end(),
                                      [](const std::string& name) { return name.empty() || name == kInner; });
      const std::string type = named ? type_defined_by(statement) : "";
      if (!type.empty()) {
        std::string name;
        for (const std::string& space : open) name += space + "::";
        definitions.push_back({name + type, file.path});
      }
      open.push_back(opened_by(statement));
    } else if (c == '}' && !open.empty()) {
      open.pop_back();
    }
    if (c == '{' || c == '}' || c == ';')
      statement.clear();
    else
      statement += c;
  }
}

}  // namespace

Findings types_are_defined_once(const std::vector<SourceFile>& tree) {
  std::vector<Definition> definitions;
  for (const SourceFile& file : tree)
    if (is_code(file.path)) add_definitions(file, definitions);
  std::map<std::string, std::vector<std::string>> places;
  for (const Definition& d : definitions)
    if (d.name.starts_with("kvcal::")) places[d.name].push_back(d.where);
  Findings findings;
  for (const auto& [name, files] : places)
    for (size_t i = 1; i < files.size(); ++i)
      findings.push_back(files[i] + ": " + name + " is defined in " + files[0] + " already");
  return findings;
}

}  // namespace kvcal::rules
