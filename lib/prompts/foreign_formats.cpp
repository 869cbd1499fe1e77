#include "prompts/foreign_formats.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/letter_case.h"

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

// Records that are known and not read, by two of their keys.
struct RecordKind {
  const char* key;
  const char* other;
  const char* name;
  const char* program;       // of jq, makes records of each; null: `instead`
  const char* instead = "";  // to do
  const char* within = "";   // stands in the text of `key`
};

constexpr const char* kOfTranscript = R"jq({conversations: [.chosen | splits("\n\n(?=Human:|Assistant:)") | )jq"
                                      R"jq(capture("(?<from>Human|Assistant): ?(?<value>.*)"; "p")]})jq";
constexpr const char* kOfChoices = R"jq({instruction: .question, input: (.choices.text? // .choices | join("\n"))})jq";
constexpr const char* kOfOptions = R"jq({instruction: .question, input: (.options | join("\n"))})jq";

constexpr std::array kRecordKinds{
    RecordKind{.key = "chosen",
               .other = "rejected",
               .name = "a pair of transcripts, as Anthropic's HH has them",
               .program = kOfTranscript,
               .within = "Human:"},
    RecordKind{"question", "context", "a question about a text, as SQuAD has them",
               "{instruction: .question, context}"},
    RecordKind{"question", "choices", "a question with choices", kOfChoices},
    RecordKind{"question", "options", "a question with options", kOfOptions},
    RecordKind{"input", "output", "an input with its output, which may be a chat or raw text",
               "{instruction: .input, output}"},
    RecordKind{"rows", "features", "a page of the Hub's dataset viewer", ".rows[].row"},
    RecordKind{"custom_id", "response", "an answer of an OpenAI batch, without its prompt", nullptr,
               "give the file that went in"},
    RecordKind{"choices", "object", "a server's answer, without its prompt", nullptr, "give the requests"},
    RecordKind{"role", "content", "one message of a chat", nullptr,
               "of a file that is one list of messages make a record: jq -c '{messages: .}' FILE > new.jsonl"},
};

/// A file may be an array of records.
std::string with_jq(const std::string& program) {
  return "jq -c '(arrays[], objects) | " + program + "' FILE > new.jsonl";
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
    return std::ranges::find(kNames, lower_case(cell)) != kNames.end();
  });
}

std::string extension_of(const std::string& name) {
  std::filesystem::path path = name;
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return lower_case(path.extension().string());
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

/// Whether neither a shell nor jq finds anything but a name in it.
bool is_plain_name(const std::string& key) {
  return std::ranges::all_of(key, [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
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

void refuse_foreign_record(const Json& record) {
  for (const RecordKind& kind : kRecordKinds) {
    const Json* said = find_member(record, kind.key);
    if (!said || !find_member(record, kind.other)) continue;
    if (*kind.within &&
        !(said->is_string() && said->get_ref<const std::string&>().find(kind.within) != std::string::npos))
      continue;
    fail("is " + std::string(kind.name) + ", which is not read; " +
         (kind.program ? "make records of them: " + with_jq(kind.program) : kind.instead));
  }
}

std::string how_to_name_text(const Json& record) {
  std::string longest;
  size_t n_bytes = 0;
  for (const auto& [key, value] : record.items()) {
    if (!value.is_string() || !is_plain_name(key)) continue;
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() <= n_bytes || text.find(' ') == std::string::npos) continue;
    n_bytes = text.size();
    longest = key;
  }
  return longest.empty() ? "" : "; if \"" + longest + "\" is the text: " + with_jq("{text: .[\"" + longest + "\"]}");
}

}  // namespace kvcal
