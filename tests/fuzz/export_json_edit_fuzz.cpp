// A config.json from a stranger, edited as text: an Error, or a text that means what was asked for (set_json_members
// compares that itself) and has every byte of the original around what was put in.
#include <algorithm>

#include "export/json_edit.h"
#include "fuzz/fuzzing.h"

namespace {

using namespace kvcal;

size_t equal_bytes(auto a, auto a_end, auto b, auto b_end) {
  return static_cast<size_t>(std::mismatch(a, a_end, b, b_end).first - a);
}

void check_around(std::string_view text, std::string_view edited) {
  const size_t before = equal_bytes(text.begin(), text.end(), edited.begin(), edited.end());
  const size_t behind = equal_bytes(text.rbegin(), text.rend(), edited.rbegin(), edited.rend());
  fuzzing::require(before + behind >= text.size(), "every byte of the original is there");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<JsonMember> members = {{"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}};
  for (const std::vector<std::string>& path :
       {std::vector<std::string>{}, std::vector<std::string>{"quantization_config"}}) {
    std::string edited;
    if (!fuzzing::accepts([&] { edited = set_json_members(text, path, members); })) continue;
    const Json json = parse_json(text, {.allow_non_finite = true});
    const Json& object = path.empty() ? json : json.at(path[0]);
    if (!object.empty() && !object.contains("kv_cache_scheme")) check_around(text, edited);
  }
  return 0;
}
