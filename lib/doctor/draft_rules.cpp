// F and V: tokens that a draft proposes, by a model beside the served one or by its own MTP layer.
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/letter_case.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

bool drafts(const Facts& f) {
  return std::ranges::any_of(f.flags, [](const auto& flag) {
    const std::string& name = flag.first;
    if (flag.second.printed) return name == "speculative-config" || name == "speculative-algorithm";
    return name.starts_with("speculative-") || name == "spec-model" || name == "spec-method";
  });
}

/// A text member of vLLM's speculative config, JSON in a command and as Python prints it in a log; "" when it is
/// absent.
std::string speculative_member(const Facts& f, const char* member) {
  return printed_value(f.flag_value("speculative-config"), member).value_or("");
}

/// Of vLLM, in either form of the option. Without a method it goes by the draft's name ("AngelSlim/Qwen3-8B_eagle3").
std::string draft_method(const Facts& f) {
  if (f.flag("spec-method") != nullptr) return f.flag_value("spec-method");
  const std::string method = speculative_member(f, "method");
  const bool eagle = method.empty() && lower_case(speculative_member(f, "model")).find("eagle3") != std::string::npos;
  return eagle ? "eagle3" : method;
}

bool is_served(const Facts& f, const std::string& model) {
  const auto plain = [](const std::string& path) {
    std::string text = std::filesystem::path(path).lexically_normal().string();
    if (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
  };
  return plain(model) == plain(f.command ? f.command->model : f.model_path);
}

// With the checkpoint's own MTP layer, not a model beside it.
bool drafts_with_mtp(const Facts& f) {
  const std::string algorithm = f.flag_value("speculative-algorithm");
  if (f.is(Engine::Sglang))
    return (algorithm == "NEXTN" || algorithm == "EAGLE") && f.flag("speculative-draft-model-path") == nullptr;
  if (!f.is(Engine::Vllm)) return false;
  const std::string method = draft_method(f), model = speculative_member(f, "model");
  // Without a method vLLM goes by the model; older names are of a family: "mimo_mtp".
  return model.empty() ? method.ends_with("mtp") : is_served(f, model) && (method.empty() || method.ends_with("mtp"));
}

/// Where drafted tokens were reported to fail with a cache of this type, or on hybrids with any, and to work without.
struct DraftFault {
  Engine server;
  std::string_view type{};    // how the cache's type begins; "": any, of a hybrid whose log has an illegal access
  EngineVersions versions{};  // since the first that was reported, before the first that was not or is mended
  bool may_last = true;       // nothing is known to have mended it
  int family = 0;             // of GPUs, where another is not known: 12 is compute capability 12.x; 0: any
  std::string_view method{};  // how vLLM's ends; SGLang's backend that reads prompts
  std::string_view reported;
};
constexpr std::array kDraftFaults = {
    DraftFault{.server = Engine::Vllm,
               .type = "turboquant",
               .versions = {{0, 19, 2}, {0, 28, 0}},
               .reported = "repetitions in 0.19.2 to 0.27.1: vllm issues 40831, 53180"},
    DraftFault{.server = Engine::Vllm,
               .type = "fp8",
               .versions = {.until = {0, 11, 0}},
               .may_last = false,
               .method = "eagle3",
               .reported = "'query and key must have the same dtype' in 0.9.2: vllm issue 21177, change 24505"},
    DraftFault{
        .server = Engine::Sglang,
        .type = "nvfp4",
        .versions = {{0, 5, 18}, {0, 5, 19}},
        .family = 12,
        .method = "flashinfer",
        .reported = "a TypeError while drafts are verified in 0.5.18, on consumer Blackwell: sglang issue 36010"},
    DraftFault{.server = Engine::Vllm,
               .versions = {{0, 17, 0}, {0, 28, 0}},
               .method = "mtp",
               .reported = "illegal accesses in 0.17 to 0.27.1: vllm issues 37035, 40756, change 50021"},
};

bool meets(const Facts& f, const DraftFault& d) {
  const bool illegal = f.seen("LG74") && f.model.hybrid == Trait::Yes;
  const bool type = d.type.empty() ? illegal : cache_is_quantized(f) == Trait::Yes && f.cache.name.starts_with(d.type);
  const bool other_gpu = d.family > 0 && f.gpu && f.gpu->capability / 10 != d.family;
  const std::string method = f.is(Engine::Vllm) ? draft_method(f) : f.flag_value("prefill-attention-backend");
  return f.is(d.server) && type && !other_gpu && method.ends_with(d.method);
}

Found drafts_fail(const Facts& f) {
  const auto reported = std::ranges::find_if(
      kDraftFaults, [&](const DraftFault& d) { return f.version && d.versions.hold(f.version) && meets(f, d); });
  const auto before = std::ranges::find_if(kDraftFaults, [&](const DraftFault& d) {
    return d.may_last && (!f.version || *f.version >= d.versions.until) && meets(f, d);
  });
  const auto fault = reported != kDraftFaults.end() ? reported : before;
  if (!drafts(f) || fault == kDraftFaults.end()) return {};
  return {true, std::string(fault->reported), {}, reported == kDraftFaults.end()};
}

constexpr CombinationRule kRules[] = {
    {{"F15", Warning, Established,
      "the draft layers read the target's cache, and do so with scale 1.0: fewer drafted tokens are accepted",
      "that outputs are wrong: drafts are checked by the target", "serve without the draft, and compare the throughput",
      "vllm 0.33.0 v1/spec_decode/gemma4.py; vllm issue 49262", Cause::KernelDefect, 3, "F16"},
     kFlags | kModel | kVllm | kQuantized | kCalibrated,
     // The proposer names the target's layer to read from, and copies no scale.
     [](const Facts& f) { return f.model.model_type.starts_with("gemma4") && draft_method(f).ends_with("mtp"); },
     "speculative-config kv-cache-dtype"},
    {{"F16", Note, Reported, "with a quantized cache fewer drafted tokens are accepted",
      "that outputs change: the model verifies what is drafted", "", "vllm issues 55557, 49262"},
     kFlags | kQuantized,
     drafts,
     "speculative-config speculative-algorithm"},
    {{"F41", Error, Reported,
      "drafted tokens were reported to fail with such options, and the same server to be right without them",
      "that this version does it",
      "serve without the draft, or with another cache type where the report is of one, and compare",
      "vllm issues 21177, 37035, 40756, 40831, 53180, sglang issue 36010", Cause::KernelDefect, 7, "F16"},
     kFlags | kKnownServer,
     drafts_fail,
     "speculative-config speculative-algorithm spec-method kv-cache-dtype"},
    {{"F33", Warning, Reported,
      "a hybrid's recurrent state with prefix caching and drafted tokens: after a cache hit answers were reported "
      "wrong, in version after version",
      "that this version does it: reported for 0.23 to 0.28; parts were fixed in 0.26",
      "serve with --no-enable-prefix-caching, then without the draft, and compare the same prompts",
      "vllm issues 43559, 47194, 53505, 53912 (open)", Cause::KernelDefect, 6, "F16 W02"},
     kFlags | kVllm | kHybrid,
     // Most who have it by default have sound answers.
     [](const Facts& f) -> Found {
       constexpr EngineVersions kReported = {{0, 23, 0}, {0, 29, 0}};
       const bool by_default = f.flag("enable-prefix-caching") == nullptr;
       return {f.keeps_prefixes() == Trait::Yes && drafts(f),
               by_default ? "by default, unless told otherwise" : "",
               {},
               by_default || (f.version && !kReported.hold(f.version))};
     },
     "enable-prefix-caching speculative-config"},
    {entry_of("V10", Established, "that answers are wrong: the model verifies what is drafted",
              "kvcal calibrate {model} --mtp, then {export}",
              "vllm 0.33.0 and sglang 0.5.23, by running their loaders"),
     kFlags | kTensors | kKnownServer,
     [](const Facts& f) -> Found {
       const auto bare = found_by(f, "V10");
       const bool here = !bare.empty() && drafts_with_mtp(f) && cache_is_quantized(f) != Trait::No;
       return here ? Found{true, bare.front()->path} : Found{};
     },
     "speculative-config speculative-algorithm"},
    {entry_of("V11", Established, "", "{export to vllm}", "vllm 0.33.0 glm4_moe_mtp.py, by running it",
              Cause::ScalesRefused, 8),
     kFlags | kTensors | kVllm,
     [](const Facts& f) -> Found {
       const auto stops = found_by(f, "V11");
       return drafts_with_mtp(f) && !stops.empty() ? Found{true, stops.front()->path} : Found{};
     },
     "speculative-config"},
};

}  // namespace

std::span<const CombinationRule> draft_rules() { return kRules; }

}  // namespace kvcal
