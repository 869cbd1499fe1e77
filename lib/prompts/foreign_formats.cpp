#include "prompts/foreign_formats.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"

namespace kvcal {
namespace {

using namespace std::string_view_literals;

// What is typed behind python3 -c: reads the file in sys.argv[1].
constexpr const char* kFromCsv =
    "\"import csv,json,sys; csv.field_size_limit(2**31-1); [print(json.dumps(row)) for row in "
    "csv.DictReader(open(sys.argv[1], encoding='utf-8-sig', newline=''))]\"";
constexpr const char* kFromTsv =
    "\"import csv,json,sys; csv.field_size_limit(2**31-1); [print(json.dumps(row)) for row in "
    "csv.DictReader(open(sys.argv[1], encoding='utf-8-sig', newline=''), delimiter='\\t')]\"";
constexpr const char* kFromParquet =
    "\"import pandas,sys; print(pandas.read_parquet(sys.argv[1]).to_json(orient='records', lines=True))\"";
constexpr const char* kFromFeather =
    "\"import pandas,sys; print(pandas.read_feather(sys.argv[1]).to_json(orient='records', lines=True))\"";
constexpr const char* kFromExcel =
    "\"import pandas,sys; print(pandas.read_excel(sys.argv[1]).to_json(orient='records', lines=True))\"";

struct Format {
  const char* name;
  const char* program;  // null: none is known
};

struct Magic {
  std::string_view bytes;
  Format format;
};

constexpr std::array kMagics{
    Magic{"PAR1"sv, {"Parquet", kFromParquet}},
    Magic{"ARROW1"sv, {"Arrow", kFromFeather}},
    Magic{"BZh"sv, {"compressed with bzip2", nullptr}},
    Magic{"\xFD"
          "7zXZ"sv,
          {"compressed with xz", nullptr}},
    Magic{"\x1F\x8B"sv, {"compressed twice", nullptr}},
    Magic{"\x28\xB5\x2F\xFD"sv, {"compressed twice", nullptr}},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

/// The cells of the first line, without quotes.
std::vector<std::string> header(std::string_view begin, char separator) {
  if (begin.starts_with("\xEF\xBB\xBF")) begin.remove_prefix(3);
  constexpr size_t kLongestHeader = size_t{16} << 10;  // an array may have all its records in one line
  begin = begin.substr(0, std::min(begin.find_first_of("\r\n"), kLongestHeader));
  std::vector<std::string> cells(1);
  for (const char c : begin) {
    if (c == separator)
      cells.emplace_back();
    else if (c != '"')
      cells.back() += c;
  }
  return cells;
}

/// A first line that names a column as sets of prompts do.
bool names_columns(std::string_view begin, char separator) {
  const std::vector<std::string> cells = header(begin, separator);
  if (cells.size() == 1 && begin.starts_with('"')) return false;  // a record that is a text
  return std::ranges::any_of(cells, [](const std::string& cell) {
    static constexpr std::array kNames{"text",    "prompt", "messages", "conversations", "instruction",
                                       "content", "input",  "question", "completion",    "output"};
    return std::ranges::find(kNames, lower(cell)) != kNames.end();
  });
}

std::string extension_of(const std::string& name) {
  std::filesystem::path path = name;
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return lower(path.extension().string());
}

std::optional<Format> foreign_format(std::string_view begin, const std::string& extension) {
  for (const Magic& magic : kMagics)
    if (begin.starts_with(magic.bytes)) return magic.format;
  if (begin.starts_with("PK\x03\x04"sv))
    return extension == ".xlsx" ? Format{"an Excel table", kFromExcel} : Format{"a ZIP archive", nullptr};
  if (extension == ".txt") return std::nullopt;
  if (extension == ".csv") return Format{"CSV", kFromCsv};
  if (extension == ".tsv") return Format{"CSV with tabs", kFromTsv};
  if (names_columns(begin, ',')) return Format{"CSV", kFromCsv};
  if (names_columns(begin, '\t')) return Format{"CSV with tabs", kFromTsv};
  return std::nullopt;
}

/// As a shell reads it.
std::string word(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/-").find(c) != std::string_view::npos;
  });
  return plain && !name.starts_with('-') ? name : "FILE";
}

}  // namespace

void refuse_foreign_format(std::string_view begin, const std::string& name) {
  const std::optional<Format> format = foreign_format(begin, extension_of(name));
  if (!format) return;
  const std::string what = name + " is " + format->name + ", which is not read as prompts; ";
  if (!format->program) fail(what + "unpack it");
  const std::filesystem::path path = name;
  const bool packed = path.extension() == ".gz" || path.extension() == ".zst";
  const std::string file = packed ? "FILE" : word(name);
  fail(what + (packed ? "unpack it and make" : "make") + " JSON lines of it: python3 -c " + format->program + " " +
       file + " > " + file + ".jsonl");
}

}  // namespace kvcal
