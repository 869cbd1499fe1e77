// A text model of another class, named by the model_type of text_config, behind a tower for images or sound: LLaVA,
// LLaVA-NeXT and OneVision, Mistral 3, InternVL, Idefics 3, SmolVLM, LightOnOCR, EXAONE 4.5, Voxtral, Qwen2-Audio
// (docs/model-notes.md, "Reading config.json").
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

std::unique_ptr<Model> parse_llava_onevision(const Json& config) {
  constexpr TextClass kClasses[] = {{"qwen2", parse_qwen2}, {"llama", parse_llama}, {"qwen3", parse_qwen3}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_internvl(const Json& config) {
  constexpr TextClass kClasses[] = {{"qwen2", parse_qwen2},
                                    {"gpt_oss", parse_gpt_oss},
                                    {"llama", parse_llama},
                                    {"qwen3", parse_qwen3},
                                    {"qwen3_moe", parse_qwen3_moe}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_idefics3(const Json& config) {
  constexpr TextClass kClasses[] = {{"llama", parse_llama}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_light_on_ocr(const Json& config) {
  constexpr TextClass kClasses[] = {{"qwen3", parse_qwen3}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_exaone4_5(const Json& config) {
  constexpr TextClass kClasses[] = {{"exaone4", parse_exaone4}, {"exaone4_5_text", parse_exaone4}};
  return parse_wrapped(config, kClasses);
}

std::unique_ptr<Model> parse_qwen2_audio(const Json& config) {
  constexpr TextClass kClasses[] = {{"qwen2", parse_qwen2}};
  return parse_wrapped(config, kClasses);
}

// What its text_config leaves out is not Llama's own.
std::unique_ptr<Model> parse_voxtral(const Json& config) {
  static const Json kText = {{"vocab_size", 131072},    {"hidden_size", 3072},      {"intermediate_size", 8192},
                             {"num_hidden_layers", 30}, {"num_key_value_heads", 8}, {"max_position_embeddings", 131072},
                             {"rms_norm_eps", 1e-5},    {"rope_theta", 1e8},        {"head_dim", 128}};
  Json whole = config;
  if (!find_member(config, "text_config")) fail("there is no text_config");
  whole["text_config"] = kText;
  whole["text_config"].update(text_config(config));
  constexpr TextClass kClasses[] = {{"llama", parse_llama}};
  return parse_wrapped(whole, kClasses);
}

// Mistral 4 inside is to servers what it is alone: rows of latent attention, not the keys and values of this class.
std::unique_ptr<Model> parse_mistral3(const Json& config) {
  if (find_member(config, "text_config") && get_string_or(text_config(config), "model_type", "") == "mistral4") {
    Json alone = config;
    alone["architectures"] = {"Mistral4ForCausalLM"};
    return parse_mistral4(alone);
  }
  constexpr TextClass kClasses[] = {{"mistral", parse_mistral}, {"ministral3", parse_ministral3}};
  return parse_wrapped(config, kClasses);
}

}  // namespace kvcal
