#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/portable_math.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

// The merged parameters: rope_parameters, else rope_scaling, with theta and the rotary share filled in from the top.
struct Parameters {
  Json table;  // of the rope type's own keys
  std::string type;
  double theta, share;
  int64_t rotary_dim;
  int64_t max_positions;
  int64_t served_positions;  // what a server allows
};

std::string rope_type(const Json& table) {
  std::string type = get_string_or(table, "rope_type", "");
  if (type.empty()) type = get_string_or(table, "type", "default");
  if (type == "su") return "longrope";
  if (type == "mrope") return "default";  // the sections stay in the table
  return type;
}

/// Whether the newer table says all that the older one does, in its own words.
bool covers(const Json& newer, const Json& older) {
  for (const auto& member : older.items()) {
    if (member.value().is_null()) continue;
    const Json* said = find_member(newer, member.key() == "type" ? "rope_type" : member.key().c_str());
    if (!said || *said != member.value()) return false;
  }
  return true;
}

// The newer key or the older one. Where both say something, classes differ in what they make of it.
const Json* find_rope_table(const Json& config) {
  const Json* newer = find_member(config, "rope_parameters");
  const Json* older = find_member(config, "rope_scaling");
  if (!newer || newer->empty()) return older ? older : newer;
  if (older && !older->empty() && !(older->is_object() && newer->is_object() && covers(*newer, *older)))
    fail(
        "rope_scaling and rope_parameters are both given and differ: leave the one that is meant, with its rope_theta");
  return newer;
}

// The widest heads of published models have 512 channels. Each pair costs a power, in some classes for every layer,
// before anything can find a number absurd: no weights need to be there for a config to be read.
constexpr int64_t kMostChannels = 1 << 13;

/// The table is copied, in some classes for every layer: it may not have more than two lists of factors need.
void check_table(const Json& table) {
  size_t n = 0;
  for (const auto& member : table.items()) {
    const Json& value = member.value();
    // A family that has them by layer kind takes them apart first.
    if (value.is_object()) fail("rope_parameters by layer kind are not supported for this architecture");
    n += value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
    const bool flat = !value.is_array() || std::ranges::none_of(value, &Json::is_structured);
    if (!flat || n > static_cast<size_t>(2 * kMostChannels))
      fail("rope_parameters hold more than numbers, words and two lists of " + std::to_string(kMostChannels / 2) +
           " factors");
  }
}

Json rope_table(const Json& config) {
  const Json* table = find_rope_table(config);
  if (!table) return Json::object();
  if (!table->is_object()) fail("rope_parameters is not an object");
  check_table(*table);
  return *table;
}

Parameters read_parameters(const Json& config, int64_t head_dim, const RopeDefaults& defaults) {
  if (head_dim > kMostChannels)
    fail("RoPE has heads of " + std::to_string(head_dim) + " channels to rotate, expected at most " +
         std::to_string(kMostChannels));
  Parameters p;
  p.table = rope_table(config);
  p.type = rope_type(p.table);
  p.theta = get_number_or(p.table, "rope_theta", get_number_or(config, "rope_theta", defaults.theta));
  const double share = get_number_or(p.table, "partial_rotary_factor",
                                     get_number_or(config, "partial_rotary_factor", defaults.partial_rotary_factor));
  if (!(p.theta > 1)) fail("rope_theta is " + std::to_string(p.theta) + ", expected a number above 1");
  if (!(share > 0 && share <= 1)) fail("partial_rotary_factor is " + std::to_string(share) + ", expected (0, 1]");
  p.share = share;
  p.rotary_dim = p.type == "proportional" ? head_dim : static_cast<int64_t>(static_cast<double>(head_dim) * share);
  if (p.rotary_dim < 2 || p.rotary_dim % 2 != 0)
    fail("rotary dimension " + std::to_string(p.rotary_dim) + " of head_dim " + std::to_string(head_dim) +
         " is not a positive even number");
  p.max_positions = get_int_or(config, "max_position_embeddings", 0);
  p.served_positions = get_int_or(config, kServedPositions, p.max_positions);
  if (!p.table.contains("original_max_position_embeddings"))  // Phi-3 has it at the top
    if (const Json* original = find_member(config, "original_max_position_embeddings"))
      p.table["original_max_position_embeddings"] = *original;
  return p;
}

// base^(2i/d) as the reference computes it: exponent, power and reciprocal each in float32.
std::vector<float> position_frequencies(double theta, int64_t d) {
  std::vector<float> f;
  for (int64_t i = 0; i < d / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
    f.push_back(static_cast<float>(portable_pow(theta, static_cast<double>(exponent))));
  }
  return f;
}

std::vector<float> default_frequencies(double theta, int64_t d) {
  std::vector<float> f = position_frequencies(theta, d);
  for (float& x : f) x = 1.0f / x;
  return f;
}

// Pairs span the whole head; those beyond the rotary share stand still (Gemma-4). Servers know no factor here.
std::vector<float> proportional_frequencies(const Parameters& p) {
  std::vector<float> f = default_frequencies(p.theta, p.rotary_dim);
  const auto turned = static_cast<size_t>(p.share * static_cast<double>(p.rotary_dim) / 2);
  std::fill(f.begin() + static_cast<std::ptrdiff_t>(std::min(turned, f.size())), f.end(), 0.0f);
  return f;
}

double factor_of(const Parameters& p) {
  const double factor = get_number(p.table, "factor", "rope_parameters.");
  if (!(factor >= 1)) fail("rope_parameters.factor is " + std::to_string(factor) + ", expected a number of at least 1");
  return factor;
}

int64_t original_positions(const Parameters& p) {
  const int64_t n = get_int_or(p.table, "original_max_position_embeddings", p.max_positions);
  if (n <= 0) fail("rope_parameters.original_max_position_embeddings is missing");
  return n;
}

std::vector<float> linear_frequencies(const Parameters& p) {
  std::vector<float> f = default_frequencies(p.theta, p.rotary_dim);
  const float factor = static_cast<float>(factor_of(p));
  for (float& x : f) x /= factor;
  return f;
}

// Long wavelengths are stretched by the factor, short ones kept, those between blended (Llama 3.1).
std::vector<float> llama3_frequencies(const Parameters& p) {
  std::vector<float> f = default_frequencies(p.theta, p.rotary_dim);
  const float factor = static_cast<float>(factor_of(p));
  const double low = get_number(p.table, "low_freq_factor", "rope_parameters.");
  const double high = get_number(p.table, "high_freq_factor", "rope_parameters.");
  if (!(low > 0 && high >= low)) fail("rope_parameters: expected 0 < low_freq_factor <= high_freq_factor");
  const double original = static_cast<double>(original_positions(p));
  const float low_wavelength = static_cast<float>(original / low);
  const float high_wavelength = static_cast<float>(original / high);
  for (float& x : f) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / x;
    if (wavelength > low_wavelength) {
      x /= factor;
    } else if (!(wavelength < high_wavelength)) {
      // Equal factors (Llama 4) leave nothing between; what is at the limit itself is stretched, as servers do.
      const float smooth = high > low ? (static_cast<float>(original) / wavelength - static_cast<float>(low)) /
                                            static_cast<float>(high - low)
                                      : 0.0f;
      x = (1.0f - smooth) * x / factor + smooth * x;
    }
  }
  return f;
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * portable_log(factor) + 1.0;
}

// Plain yarn (not DeepSeek's): the magnitude lengthens both query and key.
float plain_yarn_magnitude(const Parameters& p, double factor) {
  if (const Json* given = find_member(p.table, "attention_factor"))
    return static_cast<float>(given->is_number() ? given->get<double>() : get_number(p.table, "attention_factor"));
  const double mscale = get_number_or(p.table, "mscale", 0), all = get_number_or(p.table, "mscale_all_dim", 0);
  if (mscale != 0 && all != 0) return static_cast<float>(yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all));
  return static_cast<float>(yarn_magnitude(factor, 1));
}

std::vector<float> yarn_frequencies(const Parameters& p, double factor) {
  const double d = static_cast<double>(p.rotary_dim), original = static_cast<double>(original_positions(p));
  const auto correction = [&](double rotations) {
    return d * portable_log(original / (rotations * 2 * std::numbers::pi)) / (2 * portable_log(p.theta));
  };
  const double fast = get_number_or(p.table, "beta_fast", 0), slow = get_number_or(p.table, "beta_slow", 0);
  double low = correction(fast != 0 ? fast : 32), high = correction(slow != 0 ? slow : 1);
  if (get_bool_or(p.table, "truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  std::vector<float> f = position_frequencies(p.theta, p.rotary_dim);
  for (size_t i = 0; i < f.size(); ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    f[i] = (1.0f / (static_cast<float>(factor) * f[i])) * (1.0f - keep) + (1.0f / f[i]) * keep;
  }
  return f;
}

// NTK scaling with a fixed base, as servers build their table once (vLLM); the reference framework's base grows with
// the current length instead. Hunyuan gives the stretch itself, alpha.
std::vector<float> dynamic_frequencies(const Parameters& p) {
  const double d = static_cast<double>(p.rotary_dim), alpha = get_number_or(p.table, "alpha", 0);
  if (d < 4) fail("dynamic rope needs a rotary dimension of at least 4");
  if (alpha != 0) {
    if (!(alpha > 0)) fail("rope_parameters.alpha is " + std::to_string(alpha) + ", expected a positive number");
    return default_frequencies(p.theta * portable_pow(alpha, d / (d - 2)), p.rotary_dim);
  }
  const double factor = factor_of(p);
  // Lmax / Lorig is the factor itself.
  const double base = p.theta * portable_pow(factor * factor - (factor - 1), d / (d - 2));
  return default_frequencies(base, p.rotary_dim);
}

std::vector<float> longrope_frequencies(const Parameters& p) {
  const char* key = p.served_positions > original_positions(p) ? "long_factor" : "short_factor";
  const Json* list = find_member(p.table, key);
  std::vector<float> f = position_frequencies(p.theta, p.rotary_dim);
  if (!list || !list->is_array() || list->size() != f.size())
    fail(std::string("rope_parameters.") + key + " is not a list of " + std::to_string(f.size()) + " numbers");
  for (size_t i = 0; i < f.size(); ++i) {
    const Json& factor = (*list)[i];
    if (!factor.is_number() || !(factor.get<double>() > 0))
      fail(std::string("rope_parameters.") + key + " holds " + quoted(factor.dump()) + ", expected positive numbers");
    f[i] = 1.0f / (factor.get<float>() * f[i]);
  }
  return f;
}

// The same for both lists, unless the config gives one for each.
float longrope_magnitude(const Parameters& p) {
  // Servers read neither; the reference framework does. A config that has them would be served differently.
  for (const char* ignored : {"attention_factor", "factor"})
    if (find_member(p.table, ignored)) fail(std::string("longrope with ") + ignored + " is not supported");
  const double original = static_cast<double>(original_positions(p));
  const char* key = static_cast<double>(p.served_positions) > original ? "long_mscale" : "short_mscale";
  if (find_member(p.table, key)) return static_cast<float>(get_number(p.table, key, "rope_parameters."));
  const double stretch = static_cast<double>(p.max_positions) / original;
  if (stretch <= 1 || original <= 1) return 1.0f;
  return static_cast<float>(std::sqrt(1 + portable_log(stretch) / portable_log(original)));
}

// Which row of positions turns pair i (Qwen-VL): the sections follow each other, or interleave as t h w t h w ...
std::vector<int> mrope_axes(const Json& table, int64_t pairs) {
  const Json* sections = find_member(table, "mrope_section");
  if (!sections) return {};
  if (!sections->is_array() || sections->size() != 3) fail("mrope_section is not a list of three numbers");
  const bool interleaved = get_bool_or(table, "mrope_interleaved", false);
  const int64_t most = interleaved ? int64_t{1} << 16 : pairs;  // interleaved ones end with the pairs
  std::vector<int64_t> n;
  for (const Json& s : *sections) {
    if (!s.is_number_integer() || s.get<int64_t>() < 0 || s.get<int64_t>() > most)
      fail("mrope_section is out of range");
    n.push_back(s.get<int64_t>());
  }
  std::vector<int> axes(static_cast<size_t>(pairs), 0);
  for (int64_t i = 0; i < pairs; ++i) {
    int& axis = axes[static_cast<size_t>(i)];
    if (interleaved) {
      if (i % 3 == 1 && i < 3 * n[1]) axis = 1;
      if (i % 3 == 2 && i < 3 * n[2]) axis = 2;
    } else {
      axis = i < n[0] ? 0 : i < n[0] + n[1] ? 1 : 2;
    }
  }
  return axes;
}

}  // namespace

RopeSpec read_rope(const Json& config, int64_t head_dim, const RopeDefaults& defaults) {
  const Parameters p = read_parameters(config, head_dim, defaults);
  RopeSpec spec;
  spec.rotary_dim = p.rotary_dim;
  if (p.type == "default") {
    spec.inverse_frequency = default_frequencies(p.theta, p.rotary_dim);
  } else if (p.type == "linear") {
    spec.inverse_frequency = linear_frequencies(p);
  } else if (p.type == "llama3") {
    spec.inverse_frequency = llama3_frequencies(p);
  } else if (p.type == "yarn") {
    const double factor = find_member(p.table, "factor")
                              ? factor_of(p)
                              : static_cast<double>(p.max_positions) / static_cast<double>(original_positions(p));
    spec.inverse_frequency = yarn_frequencies(p, factor);
    spec.magnitude = plain_yarn_magnitude(p, factor);
  } else if (p.type == "dynamic") {
    spec.inverse_frequency = dynamic_frequencies(p);
  } else if (p.type == "longrope") {
    spec.inverse_frequency = longrope_frequencies(p);
    spec.magnitude = longrope_magnitude(p);
  } else if (p.type == "proportional") {
    spec.inverse_frequency = proportional_frequencies(p);
  } else {
    const std::vector<std::string> known = {"default",  "dynamic",      "linear", "llama3",
                                            "longrope", "proportional", "yarn"};
    fail_unknown("rope_type", p.type, known);
  }
  spec.axis = mrope_axes(p.table, p.rotary_dim / 2);
  for (const float f : spec.inverse_frequency)
    if (!std::isfinite(f)) fail("rope_parameters give a frequency that is not finite");
  return spec;
}

Json with_mrope_sections(const Json& text, const std::vector<int>& sections, bool interleaved) {
  Json out = text;
  const char* key = find_member(text, "rope_parameters") ? "rope_parameters" : "rope_scaling";
  Json& table = out[key];
  if (table.is_null()) table = Json::object();
  if (!table.is_object()) fail(std::string(key) + " is not an object");
  if (!find_member(table, "mrope_section")) table["mrope_section"] = sections;
  if (get_bool_or(table, "mrope_interleaved", interleaved) != interleaved)
    fail(std::string("mrope_interleaved is ") + (interleaved ? "false" : "true") + "; this class expects the opposite");
  table["mrope_interleaved"] = interleaved;
  return out;
}

LatentRope read_latent_rope(const Json& config, int64_t rope_dim) {
  const Json table = rope_table(config);
  std::string type = rope_type(table);
  Json as_yarn = config;
  if (type == "deepseek_yarn") {  // what servers call it
    type = "yarn";
    as_yarn.erase("rope_scaling");
    as_yarn["rope_parameters"] = table;
    as_yarn["rope_parameters"]["rope_type"] = type;
  }
  if (type != "default" && type != "yarn") fail_unknown("rope_type", type, std::vector<std::string>{"default", "yarn"});
  LatentRope rope;
  rope.spec = read_rope(as_yarn, rope_dim, {});
  rope.spec.interleaved = get_bool_or(config, "rope_interleave", true);
  if (rope.spec.rotary_dim != rope_dim || !rope.spec.axis.empty())
    fail("MLA rotates its whole RoPE part by a single position");
  if (type != "yarn") return rope;
  const double factor = get_number(table, "factor", "rope_parameters.");
  const double all = yarn_magnitude(factor, get_number_or(table, "mscale_all_dim", 0));
  rope.spec.magnitude = static_cast<float>(yarn_magnitude(factor, get_number_or(table, "mscale", 1)) / all *
                                           get_number_or(table, "attn_factor", 1));
  rope.softmax_factor = all * all;
  return rope;
}

std::optional<Json> rope_config_of_kind(const Json& config, const std::string& kind) {
  const Json* table = find_rope_table(config);
  if (!table || !table->is_object()) return std::nullopt;
  const bool by_kind = table->contains("full_attention") || table->contains("sliding_attention");
  if (!by_kind) return std::nullopt;
  Json of_kind = Json::object();
  if (const Json* found = find_member(*table, kind)) of_kind["rope_parameters"] = *found;
  if (const Json* n = find_member(config, "max_position_embeddings")) of_kind["max_position_embeddings"] = *n;
  return of_kind;
}

int64_t longrope_switch(const Json& config, int64_t head_dim) {
  const Parameters p = read_parameters(config, head_dim, {});
  return p.type == "longrope" ? original_positions(p) : 0;
}

double read_axial_theta(const Json& vision, double fallback) {
  const Json* parameters = find_member(vision, "rope_parameters");
  const Json& given = parameters ? *parameters : vision;
  if (const std::string type = get_string_or(given, "rope_type", "axial"); type != "axial" && type != "default")
    fail("rope_type is " + quoted(type) + ", expected axial");
  return get_number_or(given, "rope_theta", get_number_or(vision, "rope_theta", fallback));
}

RopeSpec columns_then_rows(int64_t head_dim, double theta) {
  const std::vector<float> each = read_rope(Json::object(), head_dim / 2, {theta}).inverse_frequency;
  RopeSpec rope;
  rope.rotary_dim = head_dim;
  for (const int axis : {1, 0}) {
    rope.inverse_frequency.insert(rope.inverse_frequency.end(), each.begin(), each.end());
    rope.axis.insert(rope.axis.end(), each.size(), axis);
  }
  return rope;
}

int64_t rope_position_axes(const RopeSpec& spec) { return spec.axis.empty() ? 1 : 3; }

}  // namespace kvcal
