// How servers compute attention over an E4M3 cache, as far as --attention has it.
#include <string>

#include "documents/tables.h"
#include "evaluate/attention_paths.h"

namespace kvcal::documents {
namespace {

std::string source(std::string_view file) {  // "ops/x.py:1, 2" -> "`ops/x.py`:1, 2"
  const size_t colon = file.rfind(".py:") + 3;
  return "`" + std::string(file.substr(0, colon)) + "`" + std::string(file.substr(colon));
}

std::string_view queries(QueryScale scale) {
  if (scale == QueryScale::None) return "as they are";
  return scale == QueryScale::One ? "in E4M3 at 1.0" : "in E4M3 at the file's scales";
}

}  // namespace

std::string table_of_attention() {
  std::string text = "| `--attention` | layers with | queries | probabilities |\n|---|---|---|---|\n";
  for (const AttentionPath& path : attention_paths())
    text += "| `" + std::string(path.name) + "` | " + std::string(text_of(path.heads)) + " | " +
            std::string(queries(path.query)) + " (" + source(path.query_source) + ") | " + text_of(path.probabilities) +
            " (" + source(path.probability_source) + ") |\n";
  for (const UnmodelledPath& path : unmodelled_paths())
    text += "| `" + std::string(path.name) + "`: refused | all | " + std::string(path.queries) + " (" +
            source(path.source) + ") | not known |\n";
  return text;
}

}  // namespace kvcal::documents
