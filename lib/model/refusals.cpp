#include "model/refusals.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "model/config_guess.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

/// Near relatives of what is read, whose caches or layers are others, and models without a KV cache.
enum class Caches : uint8_t {
  Usual,     // keys and values, or a latent row, of layers that attend
  Measured,  // the same, and its own code in transformers can measure them
  Some,      // of layers that no usual key tells; that code can measure those
  Other,     // or none
};
struct Refusal {
  std::string_view name, reason;
  Caches caches = Caches::Usual;
};
constexpr std::string_view kAlibi = "its attention is biased by distance (ALiBi) instead of rotated";
constexpr std::string_view kStateOnly = "its layers keep only recurrent state, so there is no KV cache to calibrate";
constexpr std::string_view kRingLinear =
    "every layer_group_size-th layer caches keys and values, the others keep a state of lightning attention; neither "
    "vLLM 0.33.0 nor SGLang 0.5.23 has the class: they serve its successor, BailingMoeV2_5ForCausalLM, whose cache is "
    "latent";
constexpr std::string_view kLing3 =
    "every layer_group_size-th layer caches a latent row behind a gate of each head, the others keep a state of Kimi "
    "delta attention whose decay is bounded";
constexpr std::string_view kKimiK3 =
    "its layers add attention over earlier blocks' residuals to latent rows and to states of Kimi delta attention, its "
    "experts work in a latent space";
constexpr std::string_view kQwen4 =
    "its full layers cache keys and values beside an indexer's keys, the others keep a state of a gated delta net, "
    "and its residual has four streams";
constexpr std::string_view kGlm5Next =
    "its full layers cache a latent row beside an indexer's keys, the others keep a state of Kimi delta attention, "
    "and its residual has several streams";
constexpr std::array kRefusals = {
    Refusal{"AliceAIForCausalLM",
            "its full layers cache keys and values, the others keep a state of Kimi delta attention, and all add "
            "attention over earlier blocks' residuals",
            Caches::Other},
    Refusal{"BailingHybridForCausalLM", kLing3, Caches::Some},
    Refusal{"BailingMoeLinearForCausalLM", kRingLinear, Caches::Other},
    Refusal{"BailingMoeLinearV2ForCausalLM", kRingLinear, Caches::Other},
    Refusal{"BailingMoeV3ForCausalLM", kLing3, Caches::Some},
    Refusal{"BloomForCausalLM", kAlibi},
    Refusal{"DeepseekV4ForCausalLM",
            "its layers cache compressed entries beside a window, and no server takes a scale for them", Caches::Other},
    Refusal{"FalconMambaForCausalLM", kStateOnly, Caches::Other},
    Refusal{"Glm5NextForCausalLM", kGlm5Next, Caches::Some},
    Refusal{"Glm5NextForConditionalGeneration", kGlm5Next, Caches::Some},
    Refusal{"JetNemotronForCausalLM",
            "some of its layers cache keys and values, some of these of a window, the others keep a state of a delta "
            "rule behind convolutions that depend on the input",
            Caches::Other},
    Refusal{"KimiK3ForConditionalGeneration", kKimiK3, Caches::Measured},
    Refusal{"KimiK3LinearForCausalLM", kKimiK3, Caches::Measured},
    Refusal{
        "Lfm3ForCausalLM",
        "no server runs it, whose layers cache keys and values or the window of a convolution: vLLM 0.33.0 stops at "
        "the convolutions, SGLang 0.5.23 has no such class"},
    Refusal{"LongcatFlashForCausalLM", "its layers own two latent caches each", Caches::Other},
    Refusal{"Mamba2ForCausalLM", kStateOnly, Caches::Other},
    Refusal{"MambaForCausalLM", kStateOnly, Caches::Other},
    Refusal{"MiMoV2ForCausalLM",
            "its queries, keys and values are one weight, in slices for ranks with scales of their own",
            Caches::Measured},
    Refusal{"MiniCPM3ForCausalLM", "its latent attention with scaled residuals is not implemented", Caches::Measured},
    Refusal{"MiniMaxM1ForCausalLM",
            "its names, keys and residuals are not those of MiniMaxForCausalLM, which is supported", Caches::Measured},
    Refusal{"MiniMaxText01ForCausalLM",
            "its names are not those of MiniMaxForCausalLM, which is supported with RoPE on whole heads",
            Caches::Measured},
    Refusal{"MistralLarge3ForCausalLM",
            "its tensors have Mistral's own names, which servers change to those of DeepseekV3ForCausalLM, which is "
            "supported"},
    Refusal{"MPTForCausalLM", kAlibi},
    Refusal{"MptForCausalLM", kAlibi},
    Refusal{"MuseGlimmerForCausalLM",
            "vLLM and SGLang take its norms, RoPE and query factor differently; MuseGlimmerForConditionalGeneration is "
            "supported"},
    Refusal{"PhimoeForCausalLM", "servers know the class as PhiMoEForCausalLM, which is supported"},
    Refusal{"Qwen4ExpForCausalLM", kQwen4, Caches::Some},
    Refusal{"Qwen4ExpForConditionalGeneration", kQwen4, Caches::Some},
    Refusal{"RWForCausalLM", "it is the class of Falcon before the reference framework had it: FalconForCausalLM"},
    Refusal{"Rnj1ForCausalLM", "its chunked layers see the chunk before theirs too"},
    Refusal{"Rwkv6ForCausalLM", kStateOnly, Caches::Other},
    Refusal{"RWKV7ForCausalLM", kStateOnly, Caches::Other},
    Refusal{"RwkvForCausalLM", kStateOnly, Caches::Other},
    Refusal{"SolarForCausalLM", "its later layers mix in what earlier ones began with (bskcn)"},
    Refusal{"Step1ForCausalLM", kAlibi},
    Refusal{"TeleFLMForCausalLM", "of vLLM and SGLang only the second multiplies embeddings by input_mult"},
    Refusal{"ZayaForCausalLM",
            "every second layer caches keys and values made by convolutions, whose windows are kept beside them; the "
            "others have experts alone",
            Caches::Some},
    Refusal{"xLSTMForCausalLM", kStateOnly, Caches::Other},
};

/// Names in configs of published models that neither vLLM 0.33.0 nor SGLang 0.5.23 knows, and what they serve of these.
struct OtherName {
  std::string_view name, served;
};
constexpr OtherName kOtherNames[] = {
    {"MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"},
    {"Step3p5FlashForCausalLM", "Step3p5ForCausalLM"},
    {"Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration"},
};

/// What a part of a class name says of a model that generates no text of its own.
struct Role {
  std::string_view part, reason;
};
constexpr std::string_view kScores =
    "it scores or classifies text and does not generate, so it is served without a KV cache";
constexpr std::string_view kEncoder =
    "it is an encoder, in which every token attends to all others: it has no KV cache";
constexpr std::string_view kDraft = "it is a draft head for speculative decoding; calibrate its target model";
constexpr Role kRoles[] = {
    {"ForSequenceClassification", kScores},
    {"ForTokenClassification", kScores},
    {"ForQuestionAnswering", kScores},
    {"ForMultipleChoice", kScores},
    {"ForSequenceScoring", kScores},
    {"RewardModel", kScores},
    {"ForMaskedLM", kEncoder},
    {"BertModel", kEncoder},
    {"RobertaModel", kEncoder},
    {"Eagle", kDraft},
    {"EAGLE", kDraft},
    {"Medusa", kDraft},
    {"MTPModel", kDraft},
    {"Speculator", kDraft},
    {"DraftModel", kDraft},
};

constexpr std::string_view kHeads[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel"};

/// "Qwen3Moe" of "Qwen3MoeForCausalLM"; "" of a name without such an end.
std::string_view stem_of(std::string_view name) {
  for (const std::string_view head : kHeads)
    if (name.ends_with(head)) return name.substr(0, name.size() - head.size());
  return "";
}

/// Letters and digits in lower case: "qwen3moe" of "Qwen3Moe" and of "qwen3_moe".
std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string digits_of(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return c >= '0' && c <= '9'; });
  return out;
}

/// A likely typing error. A name whose numbers differ is another generation, however near it is.
std::string misspelt(std::string_view name, std::span<const std::string_view> known) {
  std::vector<std::string> candidates;
  for (const std::string_view k : known)
    if (digits_of(k) == digits_of(name) && stem_of(k) != "") candidates.emplace_back(k);
  const std::string near = nearest_match(name, candidates);
  const bool alike = !near.empty() && (stem_of(name).empty() || folded(stem_of(name)) == folded(stem_of(near)));
  return alike ? near : "";
}

/// The class whose base this is: a model saved without its output head, as embedding models are.
std::string headed(std::string_view name, std::span<const std::string_view> known) {
  for (const std::string_view end : {"TextModel", "Model"}) {
    if (!name.ends_with(end)) continue;
    const std::string_view stem = name.substr(0, name.size() - end.size());
    for (const std::string_view k : known)
      if (stem_of(k) == stem) return std::string(k);
  }
  return "";
}

/// What measures a model whose class is not read.
constexpr std::string_view kOtherWay =
    "'kvcal-torch calibrate' measures most decoders that transformers runs (docs/torch.md)";

/// Where the name comes from, as far as that is known: a typing error, or a class under a name that is not served.
std::string likely_cause(std::string_view name, std::span<const std::string_view> known) {
  for (const OtherName& other : kOtherNames)
    if (other.name == name)
      return "; vLLM 0.33.0 and SGLang 0.5.23 have no class of this name, they serve the family as '" +
             std::string(other.served) + "'";
  const std::string near = misspelt(name, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

bool says(const Json& config, const char* key, bool value) {
  const Json* given = find_member(config, key);
  return given && *given == value;
}

/// Of layer_types, a word for a kind of layer that the model, as it was read, does not have; "" when there is none.
std::string unread_word(const Json& words, const ModelSpec& spec) {
  const auto has_cache = [&](auto f) { return std::any_of(spec.caches.begin(), spec.caches.end(), f); };
  const bool slides = has_cache([](const KvLayout& c) { return c.window > 0; });
  const bool sees_all = has_cache([](const KvLayout& c) { return c.window == 0; });
  const bool recurs = std::any_of(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& l) {
    return l.kind != LayerKind::Attention || l.state_bytes > 0;
  });
  for (const Json& given : words) {
    const std::string word = given.is_string() ? given.get<std::string>() : given.dump();
    if (word == "chunked_attention" || word == "attention") continue;  // chunks are not in the layout; Granite's word
    if (spec.indexed_beyond > 0) continue;                             // words of its own, which read_indexer() knows
    if (!(word == "sliding_attention" ? slides : word == "full_attention" ? sees_all : recurs)) return quoted(word);
  }
  return "";
}

}  // namespace

void refuse_without_architecture(const Json& config, std::span<const std::string_view> known) {
  std::string message = "config.json names no architecture: expected \"architectures\": [\"...\"]";
  const Json* given = find_member(config, "model_type");
  if (!given || !given->is_string()) fail(message);
  const std::string type = given->get<std::string>();
  message += "; its model_type is " + quoted(type);
  const std::string stem = folded(type.ends_with("_text") ? type.substr(0, type.size() - 5) : type);
  std::string_view fits;  // of two, the later one is the wrapper of the other
  for (const std::string_view k : known)
    if (folded(stem_of(k)) == stem && (fits.empty() || find_member(config, "text_config"))) fits = k;
  fail(message + (fits.empty() ? ", which matches no supported class; " + std::string(kOtherWay)
                               : ": add " + quoted(fits) + " if that is the class"));
}

Refused reason_to_refuse(const Json& config, std::string_view name, std::span<const std::string_view> known) {
  for (const Refusal& r : kRefusals)
    if (r.name == name)
      return {std::string(r.reason), r.caches == Caches::Usual || r.caches == Caches::Measured,
              r.caches == Caches::Measured || r.caches == Caches::Some};
  for (const Role& role : kRoles)
    if (name.find(role.part) != name.npos && name.find("_VL") == name.npos) return {std::string(role.reason)};
  if (says(config, "is_encoder_decoder", true))
    return {"it is an encoder-decoder model (is_encoder_decoder), whose decoder also caches the encoder's output"};
  if (const std::string whole = headed(name, known); !whole.empty())
    return {"it is " + whole + " without its output head, like embedding models; it cannot generate"};
  return {};
}

bool says_it_generates(std::string_view name) {
  return std::ranges::any_of(kHeads, [&](std::string_view head) { return name.find(head) != name.npos; });
}

void refuse_architecture(const Json& config, std::string_view name, std::span<const std::string_view> known) {
  if (const Refused refused = reason_to_refuse(config, name, known); !refused.reason.empty())
    fail("architecture " + quoted(name) + " is not supported: " + refused.reason +
         (refused.measured_elsewhere ? "; " + std::string(kOtherWay) : ""));
  const Json* type = find_member(config, "model_type");
  const std::optional<GuessedModel> guess = guess_model(config);
  fail("unknown architecture " + quoted(name) +
       (type && type->is_string() ? ", model_type " + quoted(type->get<std::string>()) : "") +
       likely_cause(name, known) + "; docs/models.md lists the " + std::to_string(known.size()) + " known ones" +
       (guess ? ", its config describes " + caches_text(guess->spec) : "") +
       (guess && !guess->open.empty() ? " (" + guess->open + ")" : "") + "; " + std::string(kOtherWay));
}

void refuse_unread_keys(const Json& config, const ModelSpec& spec) {
  const Json& text = text_config(config);
  for (const Json* level : {&config, &text})
    if (says(*level, "is_causal", false) || says(*level, "use_bidirectional_attention", true))
      fail(
          std::string(says(*level, "is_causal", false) ? "is_causal is false" : "use_bidirectional_attention is true") +
          ": every token attends to all others, so there is no KV cache");
  const Json* words = find_member(text, "layer_types");
  if (!words || !words->is_array()) return;
  if (const std::string word = unread_word(*words, spec); !word.empty())
    fail("layer_types names " + word + ", but this class has one kind of layers and reads no layer_types");
}

}  // namespace kvcal
