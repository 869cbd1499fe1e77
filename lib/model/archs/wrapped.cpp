// Mistral3ForConditionalGeneration and LlavaForConditionalGeneration: a text model of another class, named by the
// model_type of text_config, behind a vision tower (docs/model-notes.md, "Reading config.json").
#include "model/archs/archs.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

struct TextClass {
  std::string_view model_type;
  std::unique_ptr<Model> (*parse)(const Json& config);
};

// The text classes read text_config themselves. Whether the head is tied stands inside or outside.
std::unique_ptr<Model> parse_wrapped(const Json& config, std::span<const TextClass> classes) {
  if (!find_member(config, "text_config")) fail("there is no text_config");
  const Json& text = text_config(config);
  const std::string type = get_string_or(text, "model_type", classes.front().model_type);
  Json merged = config;
  merged["tie_word_embeddings"] =
      get_bool_or(config, "tie_word_embeddings", false) || get_bool_or(text, "tie_word_embeddings", false);
  std::vector<std::string> known;
  for (const TextClass& c : classes) {
    if (c.model_type == type) return c.parse(merged);
    known.emplace_back(c.model_type);
  }
  fail_unknown("model_type of text_config", type, known);
}

}  // namespace

std::unique_ptr<Model> parse_llava(const Json& config) {
  constexpr TextClass kClasses[] = {
      {"llama", parse_llama}, {"mistral", parse_mistral}, {"qwen2", parse_qwen2}, {"qwen3", parse_qwen3}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_mistral3(const Json& config) {
  constexpr TextClass kClasses[] = {{"mistral", parse_mistral}, {"ministral3", parse_ministral3}};
  return parse_wrapped(config, kClasses);
}

}  // namespace kvcal
