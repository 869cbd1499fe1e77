// A chat template: an Error of one line, or a rendering that keeps to its limits and comes out the same twice.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "fuzz/fuzzing.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "unicode/utf8.h"

namespace {

using namespace kvcal;

// Small enough that a runaway input ends in milliseconds.
jinja::Limits small_limits() {
  jinja::Limits limits;
  limits.max_steps = 4'000'000;
  limits.max_output_bytes = size_t{1} << 16;
  limits.max_held_bytes = size_t{1} << 22;
  return limits;
}

const Json& variables() {
  static const Json json = Json::parse(R"({
    "messages": [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "1 < 2 \u00e9\ud83d\ude00"},
      {"role": "assistant", "content": null, "thinking": "T", "tool_calls": [{"id": "a", "type": "function",
        "function": {"name": "weather", "arguments": {"place": "K\u00f6ln", "days": 2, "deep": [1.5, true]}}}]},
      {"role": "tool", "content": [{"type": "text", "text": "21"}]}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "a": 0, "b": 1, "d": {"b": 1, "a": "x", "items": [1, 2]}, "l": [3, 1, 2]})");
  return json;
}

std::optional<std::string> render(const jinja::Block& body) {
  std::vector<std::pair<std::string, jinja::Value>> names;
  for (const auto& [name, value] : variables().items()) names.emplace_back(name, jinja::Value::from_json(value));
  std::optional<std::string> text;
  fuzzing::accepts([&] { text = jinja::render(body, names, small_limits(), 1785067200); });
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // ChatTemplate refuses malformed UTF-8 before it parses.
  const std::string source = repair_utf8({reinterpret_cast<const char*>(data), size}).text;
  fuzzing::accepts([&] {
    const jinja::Block body = jinja::parse_template(source);
    const std::optional<std::string> text = render(body);
    fuzzing::require(!text || text->size() <= small_limits().max_output_bytes, "a rendering keeps to its limit");
    fuzzing::require(render(body) == text, "a template renders the same twice");
  });
  return 0;
}
