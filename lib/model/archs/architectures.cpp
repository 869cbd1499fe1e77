#include <algorithm>
#include <array>

#include "model/archs/archs.h"
#include "model/config_guess.h"
#include "model/config_reading.h"
#include "model/refusals.h"

namespace kvcal {
namespace {

#define KVCAL_ROW(name, parse) Architecture{name, parse},
constexpr std::array kArchitectures = {KVCAL_ARCHITECTURES(KVCAL_ROW)};
#undef KVCAL_ROW

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const Architecture& a : kArchitectures) names.push_back(a.name);
  return names;
}

std::string architecture_name(const Json& config) {
  const Json* list = find_member(config, "architectures");
  if (!list || !list->is_array() || list->empty() || !(*list)[0].is_string())
    refuse_without_architecture(config, known_names());
  return (*list)[0].get<std::string>();
}

/// Wrappers keep the language model's config under several keys: here it is text_config always.
Json with_text_config(Json config) {
  if (const Json* found = find_member(config, "thinker_config"); found && found->is_object()) {  // Qwen-Omni's
    Json thinker = *found;
    for (const char* key : {"architectures", "model_type"})
      if (config.contains(key)) thinker[key] = config[key];
    config = std::move(thinker);
  }
  for (const char* key : {"llm_config", "language_config"}) {
    if (find_member(config, "text_config") || !find_member(config, key)) continue;
    Json text = config[key];
    config["text_config"] = std::move(text);
    config.erase(key);
  }
  return config;
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& find_architecture(const Json& config) {
  const std::string name = architecture_name(config);
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return a;
  refuse_architecture(config, name, known_names());
}

std::optional<GuessedModel> guess_unknown_class(const Json& given) {
  if (!given.is_object()) return std::nullopt;
  const Json config = with_text_config(given);
  const std::string name = architecture_name(config);
  const std::vector<std::string_view> known = known_names();
  const Refused refused = reason_to_refuse(config, name, known);
  if (std::ranges::find(known, name) != known.end() || (!refused.reason.empty() && !refused.cached_as_usual))
    return std::nullopt;
  std::optional<GuessedModel> guess = guess_model(config);
  if (!guess) return guess;
  guess->spec.architecture = name;
  guess->refused = refused.reason;
  if (!says_it_generates(name))
    guess->open += std::string(guess->open.empty() ? "" : "; ") +
                   "its name does not say that it generates text: encoders and classifiers keep no KV cache";
  return guess;
}

std::unique_ptr<Model> parse_model(const Json& given, int64_t max_model_len) {
  if (!given.is_object()) fail("config.json is not an object");
  Json config = with_text_config(given);
  Json& text = find_member(config, "text_config") ? config["text_config"] : config;
  if (text.is_object()) text.erase(kServedPositions);
  if (text.is_object() && max_model_len > 0) text[kServedPositions] = max_model_len;
  const Architecture& architecture = find_architecture(config);
  return while_doing("reading the config of a " + std::string(architecture.name), [&] {
    std::unique_ptr<Model> model = architecture.parse(config);
    refuse_unread_keys(config, model->spec());
    model->count_parameters();
    return model;
  });
}

}  // namespace kvcal
