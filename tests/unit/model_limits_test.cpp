// A number in a config.json may cost neither time nor memory: every number of every golden's config, and numbers that
// it could have beside them, set to large values. Each config is read in a process of its own, whose peak is its own.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/read_file.h"
#include "harness/cost.h"
#include "model/architecture.h"
#include "model/towers/towers.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

#ifdef KVCAL_SANITIZED
constexpr int64_t kMostKilobytes = 512 << 10;  // what the address sanitizer keeps beside it
constexpr size_t kEvery = 16;                  // of the configs: all take minutes
#else
constexpr int64_t kMostKilobytes = 64 << 10;
constexpr size_t kEvery = 1;
#endif

/// A reading takes milliseconds, but for 4,096 layers, whose time differs by the processor and by what a sanitizer
/// looks at: it may be as many times that of making, writing and parsing some JSON. The processor's time is counted,
/// and not the clock's: others use this machine, too.
double most_seconds() {
  constexpr double kTimes = 30;  // the dearest config takes 11, and 9 under the address sanitizer
  const double start = cpu_seconds();
  Json layers = Json::array();
  for (int i = 0; i < 10000; ++i) layers.push_back({{"name", "model.layers." + std::to_string(i)}, {"shape", {i, i}}});
  EXPECT_EQ(Json::parse(layers.dump()), layers);
  return kTimes * (cpu_seconds() - start);
}

struct Notes {
  char reading[256], found[256];
};
const Json kLarge[] = {Json(4097), Json(1 << 20), Json(99999998), Json(2147483646), Json(int64_t{1} << 53)};
/// Keys by which classes give sizes and counts, added where a config does without.
constexpr const char* kSizes[] = {
    "head_dim",    "num_hidden_layers", "qk_rope_head_dim", "swa_head_dim",          "index_head_dim",
    "num_experts", "vocab_size",        "sliding_window",   "partial_rotary_factor", "num_key_value_heads"};

/// All that verbs ask of a config before they look for weights.
void read_all(const Json& config) {
  try {
    const std::unique_ptr<Model> model = parse_model(config);
    if (!model->spec().mtp_names.empty()) model->add_mtp_layer();
    kv_bytes_per_token(model->spec(), 2);
    if (find_member(config, "vision_config") && runs_tower(model->spec().architecture))
      read_tower(config, model->spec());
  } catch (const Error&) {  // is as good
  }
}

/// Calls f for each number below `value`, and for null in place of sizes that an object lacks, by reference.
void for_each_number(Json& value, const std::string& place, const std::function<void(Json&, const std::string&)>& f) {
  if (value.is_number()) return f(value, place);
  if (value.is_array() && value.size() <= 8)
    for (size_t i = 0; i < value.size(); ++i) for_each_number(value[i], place + "[" + std::to_string(i) + "]", f);
  if (!value.is_object()) return;
  std::vector<std::string> keys;
  for (const auto& member : value.items()) keys.push_back(member.key());
  for (const std::string& key : keys) for_each_number(value[key], place + "." + key, f);
  for (const char* key : kSizes) {
    if (value.contains(key)) continue;
    f(value[key], place + "." + key);
    value.erase(key);
  }
}

/// As many layers as are read at all, of wide heads: what is made for each layer adds up.
void grow(Json& value, size_t n_layers) {
  constexpr size_t kLayers = 4096, kWidth = 8192;
  if (value.is_object())
    for (auto& member : value.items()) {
      const bool width = member.key().ends_with("head_dim") && member.value().is_number();
      if (width)
        member.value() = kWidth;
      else if (member.value() == n_layers)
        member.value() = kLayers;
      else
        grow(member.value(), n_layers);
    }
  if (value.is_array() && value.size() == n_layers)
    for (size_t i = 0; value.size() < kLayers; ++i) value.push_back(Json(value[i]));
  if (value.is_string() && value.get_ref<const std::string&>().size() == n_layers) {
    std::string& pattern = value.get_ref<std::string&>();
    for (size_t i = 0; pattern.size() < kLayers; ++i) pattern += pattern[i];
  }
}

/// In the child: what is wrong stands in `found`, and what is being read in `reading`.
class Sweep {
 public:
  Sweep(Notes& notes, double most_seconds) : notes_(notes), most_seconds_(most_seconds) {}

  void run(const fs::path& file) {
    Json config = read_json_file(file, {.allow_non_finite = true});
    Json large = config;
    grow(large, n_layers(config));
    Json& inner = large.contains("text_config") ? large["text_config"] : large;
    inner["notes"] = std::vector<int>(100000);  // nothing may go through it once a layer
    before_ = peak_kilobytes();
    check("4096 layers of wide heads", large);
    for_each_number(config, "", [&](Json& number, const std::string& place) {
      const Json whole = number;
      for (const Json& n : kLarge) {
        number = n;
        check(place + " = " + n.dump(), config);
      }
      number = whole;
    });
  }

 private:
  static size_t n_layers(const Json& config) {
    try {
      return parse_model(config)->spec().layers.size();
    } catch (const Error&) {
      return 0;
    }
  }

  void check(const std::string& name, const Json& config) {
    if (*notes_.found != '\0') return;
    std::strncpy(notes_.reading, name.c_str(), sizeof notes_.reading - 1);
    const double start = cpu_seconds();
    read_all(config);
    const double took = cpu_seconds() - start;
    const int64_t grew = peak_kilobytes() - before_;
    if (took <= most_seconds_ && grew <= kMostKilobytes) return;
    const std::string excess = name + ": " + std::to_string(took) + " s, " + std::to_string(grew) + " KiB";
    std::strncpy(notes_.found, excess.c_str(), sizeof notes_.found - 1);
  }

  Notes& notes_;
  const double most_seconds_;
  int64_t before_ = 0;
};

/// "" or what took too much.
std::string excess_of(const fs::path& file, double most_seconds) {
  const Shared<Notes> notes;
  if (!cost_of([&] { Sweep(*notes, most_seconds).run(file); }, 300).ended)
    return std::string("did not end at ") + notes->reading;
  return notes->found;
}

TEST(ConfigLimits, no_number_takes_time_or_memory) {
  const double seconds = most_seconds();
  size_t n = 0;
  for (const char* folder : {"golden", "pictures"})
    for (const auto& entry : fs::directory_iterator(fs::path(KVCAL_SOURCE_DIR) / "tests/arch" / folder)) {
      const fs::path config = entry.path() / "config.json";
      if (!fs::exists(config)) continue;
      if (n++ % kEvery != 0) continue;
      EXPECT_EQ(excess_of(config, seconds), "") << config;
    }
  EXPECT_GT(n, 150u);
}

}  // namespace
}  // namespace kvcal
