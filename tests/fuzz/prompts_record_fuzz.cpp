// Lines of a prompt file: an Error that names file and line, or records whose canonical form reads back as the same
// record; with skip_bad every line is either a record or counted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "prompts/prompt_record.h"
#include "prompts/prompt_set.h"

namespace {

using namespace kvcal;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const PromptSet& set) {
  require(!set.records.empty());
  for (const PromptRecord& r : set.records) {
    require(!r.id.empty() && r.weight >= 1);
    const PromptRecord again = parse_prompt_record(parse_json(r.canonical));
    require(again.canonical == r.canonical && again.kind == r.kind && again.text == r.text);
    require(again.input_ids == r.input_ids && again.messages.size() == r.messages.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"p.jsonl", "p.json", "p.txt"})
    for (const bool skip_bad : {false, true}) {
      PromptLoadOptions options;
      options.skip_bad = skip_bad;
      options.max_line_bytes = size_t{1} << 16;
      try {
        check(parse_prompts(input, name, options));
      } catch (const Error& e) {
        const std::string_view message = e.what();
        require(message.find('\n') == std::string_view::npos);
        require(skip_bad || message.starts_with(name) || message.starts_with("no prompt in the set"));
      }
    }
  return 0;
}
