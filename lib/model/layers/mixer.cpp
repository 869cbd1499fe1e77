#include "model/layers/mixer.h"

#include <algorithm>
#include <cmath>

namespace kvcal {

void add_recurrent_layer(ModelSpec& spec, LayerKind kind, const MixerSize& mixer, int64_t ffn) {
  LayerSpec layer;
  layer.index = static_cast<int>(spec.layers.size());
  layer.kind = kind;
  layer.activations = mixer.activations + 7 * spec.hidden + 3 * ffn;  // x, sums, norms, the feed-forward's output
  set_state(layer, mixer);
  spec.layers.push_back(layer);
}

void set_state(LayerSpec& layer, const MixerSize& mixer) {
  layer.state_bytes = mixer.state_bytes;
  layer.conv_bytes = mixer.conv_bytes;
  layer.state_row = mixer.state_row;
  layer.state_heads = mixer.state_heads;
}

void check_product(const char* what, std::initializer_list<int64_t> sizes) {
  constexpr double kMost = 1e15;
  double product = 1;
  std::string text;
  for (const int64_t n : sizes) {
    product *= static_cast<double>(n);
    text += (text.empty() ? "" : " x ") + std::to_string(n);
  }
  if (product > kMost) fail(std::string(what) + " of " + text + " is too large");
}

std::optional<std::vector<std::string>> read_mixer_words(const Json& config, std::initializer_list<const char*> keys,
                                                         const std::vector<std::string>& known) {
  for (const char* key : keys) {
    const Json* list = find_member(config, key);
    if (!list) continue;
    if (!list->is_array() || list->empty()) fail(std::string(key) + " is not a list of words");
    std::vector<std::string> words;
    for (const Json& word : *list) {
      if (!word.is_string()) fail(std::string(key) + " holds something that is not a word");
      words.push_back(word.get<std::string>());
      if (words.back() == "mamba") words.back() = "linear_attention";
      if (words.back() == "attention") words.back() = "full_attention";
      if (std::find(known.begin(), known.end(), words.back()) == known.end())
        fail_unknown("word in " + std::string(key), words.back(), known);
    }
    return words;
  }
  return std::nullopt;
}

float read_factor(const Json& config, const char* key, float fallback) {
  const auto factor = static_cast<float>(get_number_or(config, key, static_cast<double>(fallback)));
  if (!std::isfinite(factor)) fail(std::string(key) + " is not a finite number");
  return factor;
}

Linear load_rows(WeightLoader& loader, const HostLinear& all, int64_t from, int64_t n) {
  const HostLinear part = all.rows(from, n);
  return loader.load_linear(part.weight, part.bias, part.input);
}

}  // namespace kvcal
