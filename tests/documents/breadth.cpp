// What servers run and kvcal does not read: their registries (served_classes.tsv, made by
// tests/reference/served_classes.py) against the table of architectures, and how much that is used (downloads.tsv).
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/read_file.h"
#include "documents/tables.h"
#include "model/architecture.h"

namespace kvcal::documents {
namespace {

using Row = std::vector<std::string>;

std::vector<std::string> split(const std::string& line, char at) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// Rows of a file beside this one, without comments; the first has the names of the columns.
std::vector<Row> read_rows(const char* name) {
  const auto path = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/documents" / name;
  std::vector<Row> rows;
  for (const std::string& line : split(read_file(path, size_t{1} << 20), '\n'))
    if (!line.starts_with('#')) rows.push_back(split(line, '\t'));
  if (rows.empty()) fail(path.string() + " has no rows");
  for (const Row& row : rows)
    if (row.size() != rows[0].size()) fail(path.string() + ": " + quoted(row[0]) + " does not have every column");
  return rows;
}

bool is_read(const std::string& name) {
  return std::ranges::any_of(architectures(), [&](const Architecture& a) { return a.name == name; });
}

/// "Bloom" of BloomForCausalLM.
std::string short_name(const std::string& name) {
  constexpr std::string_view kText = "ForCausalLM", kWrapper = "ForConditionalGeneration";
  if (name.ends_with(kText)) return name.substr(0, name.size() - kText.size());
  if (name.ends_with(kWrapper)) return name.substr(0, name.size() - kWrapper.size()) + " (VL)";
  return name;
}

std::string percent(double part, double whole) {
  std::string text = std::to_string(static_cast<int>(1000 * part / whole + 0.5));
  if (text.size() < 2) text = "0" + text;
  return text.insert(text.size() - 1, ".") + " %";
}

}  // namespace

std::string table_of_served_classes() {
  const std::vector<Row> rows = read_rows("served_classes.tsv");
  std::string text = "| server | classes | read | not read |\n|---|---|---|---|\n";
  for (size_t column = 1; column < rows[0].size(); ++column) {
    int all = 0, read = 0;
    std::string missing;
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i][column] == "-") continue;
      ++all;
      if (is_read(rows[i][0]))
        ++read;
      else
        missing += (missing.empty() ? "" : ", ") + short_name(rows[i][0]);
    }
    text +=
        "| " + rows[0][column] + " | " + std::to_string(all) + " | " + std::to_string(read) + " | " + missing + " |\n";
  }
  return text;
}

std::string table_of_downloads() {
  constexpr double kAll = 750, kReadThen = 653;  // of downloads.tsv
  const std::vector<Row> rows = read_rows("downloads.tsv");
  double covered = kReadThen;
  std::string text = "| classes not read | million downloads |\n|---|---|\n";
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string> classes = split(rows[i][0], ' ');
    if (std::ranges::all_of(classes, is_read)) {
      covered += std::stod(rows[i][1]);
      continue;
    }
    std::string names;
    for (const std::string& name : classes) names += (names.empty() ? "`" : ", `") + name + "`";
    text += "| " + names + " | " + rows[i][1] + " |\n";
  }
  return text + "| **share of all that is read** | **" + percent(covered, kAll) + "** |\n";
}

}  // namespace kvcal::documents
