// Parts of log lines that tell facts rather than trouble: versions, options, backends, commands.
#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "doctor/launch_names.h"
#include "doctor/log_reader.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

void set_server(Facts& facts, Engine server) {
  if (facts.server == Engine::Unknown) facts.server = server;
}

// The version after the needle, over what stands between: "vLLM version: v0.17.1", "vLLM: **0.23.0**". A needle may end
// with its beginning.
void take_version(Facts& facts, const FactFound& f) {
  std::string_view name = f.fact.needle;
  for (const std::string_view end : {"0.", "v"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  std::string_view rest = f.line.substr(std::min(f.line.size(), f.at + name.size()));
  rest.remove_prefix(std::min(rest.find_first_not_of(" :*`="), rest.size()));
  const std::optional<EngineVersion> version = parse_version(rest);
  if (!version) return;
  set_server(facts, f.fact.server);
  if (facts.version || facts.server != f.fact.server) return;
  facts.version = version;
  facts.version_from = f.from;
}

/// Of a name that other things follow, too: "vLLM: 0.85 of the memory". All three numbers are there.
void take_listed_version(Facts& facts, const FactFound& f) {
  const std::string_view rest = f.line.substr(std::min(f.line.size(), f.at + f.fact.needle.size()));
  const size_t begin = std::min(rest.find_first_not_of(" :*`=v"), rest.size());
  const std::string_view number = rest.substr(begin, rest.find_first_not_of("0123456789.", begin) - begin);
  if (std::ranges::count(number, '.') == 2 && !number.ends_with('.')) take_version(facts, f);
}

// "vllm 0.15.0", as pip lists it, or conda, "... pypi_0 pypi": nothing else stands in the line.
void take_package_version(Facts& facts, const FactFound& f) {
  const size_t end = std::min(f.line.find(' ', f.at + f.fact.needle.size()), f.line.size());
  if (f.at == 0 && (end == f.line.size() || f.line.substr(end).starts_with(" pypi_0"))) take_listed_version(facts, f);
}

// "image: vllm/vllm-openai:v0.27.1" of a manifest or of what describes a pod, "docker image `..."; not what prose
// compares with.
void take_image_version(Facts& facts, const FactFound& f) {
  std::string_view before = f.line.substr(0, f.at);
  const bool named = before.find("mage:") != before.npos;
  while (before.ends_with(' ') || before.ends_with('`') || before.ends_with('"')) before.remove_suffix(1);
  if (named || before.ends_with("mage")) take_version(facts, f);
}

void set_flag(Facts& facts, const std::string& name, const std::string& value, const Evidence& from) {
  facts.flags.emplace(name, Flag{value, from});
}

void take_command(Facts& facts, const FactFound& f) {
  const size_t begin = f.line.rfind('\n', f.at);
  const std::optional<ServeCommand> command =
      find_serve_command(f.line.substr(begin == std::string_view::npos ? 0 : begin + 1));
  if (!command || command->words.size() < 2) return;
  facts.has_started = false;
  take_logged(facts, *command, f.from);
}

bool is_of_name(char c) { return is_letter_or_digit(c) || c == '_'; }

// Options that a server prints as a Python object or dictionary: name=value, 'name': value. Members of values, too.
void take_printed(Facts& facts, const FactFound& f) {
  set_server(facts, f.fact.server);
  const std::string_view text = f.line.substr(f.at);
  constexpr size_t kMostOptions = 1024;  // of SGLang's there are 400
  size_t n_options = 0;
  for (size_t at = 0, end = 0; at < text.size() && n_options < kMostOptions; at = end + 1) {
    for (end = at; end < text.size() && is_of_name(text[end]);) ++end;
    const std::string_view name = text.substr(at, end - at), rest = text.substr(end);
    if (name.empty() || !(rest.starts_with("=") || rest.starts_with("':") || rest.starts_with("\":"))) continue;
    ++n_options;
    const std::optional<std::string> value = printed_value(text.substr(at), name);
    if (!value || *value == "False" || (name == "kv_cache_dtype" && value->empty())) continue;
    if (facts.model_path.empty() && (name == "model" || name == "model_path" || name == "model_tag"))
      facts.model_path = *value;
    constexpr std::string_view kTorch = "torch.";  // "dtype=torch.bfloat16"
    const std::string bare = value->starts_with(kTorch) ? value->substr(kTorch.size()) : *value;
    facts.flags.emplace(flag_name(name), Flag{bare == "True" ? "" : bare, f.from, true});
  }
  facts.flags.emplace("", Flag{"", f.from});  // the options are known, even where all have their defaults
}

// "--kv-cache-dtype fp8" in a list of arguments: a line that begins with the option, quotes and dashes aside.
void take_listed_option(Facts& facts, const FactFound& f) {
  if (f.line.substr(0, f.at).find_first_not_of(" -'\"[,") != std::string_view::npos) return;
  std::string_view rest = f.line.substr(f.at);
  const size_t end = rest.find_first_of(" =,'\"");
  const std::string name = flag_name(rest.substr(0, end));
  rest.remove_prefix(std::min(rest.size(), end));
  const size_t value = rest.find_first_not_of(" =,'\"");
  std::string_view word = value == std::string_view::npos ? std::string_view() : rest.substr(value);
  word = word.substr(0, word.find_first_of(" ,'\"]"));
  if (word.starts_with("-")) word = {};
  set_flag(facts, name, std::string(word), f.from);
}

constexpr std::string_view kUsing = "Using ";  // in front of the needle

/// From behind `begin`, which stands at or after the needle, to one of `ends`; "" where it is not there.
std::string_view word_of(const FactFound& f) {
  const size_t found = f.line.find(f.fact.begin, f.fact.begin == kUsing ? f.line.rfind(kUsing, f.at) : f.at);
  if (found == f.line.npos) return "";
  const std::string_view rest = f.line.substr(found + f.fact.begin.size());
  return rest.substr(0, rest.find_first_of(f.fact.ends));
}

void take_backend(Facts& facts, const FactFound& f) {
  set_server(facts, f.fact.server);
  const std::string_view name = word_of(f);
  if (!facts.backend.empty() || name.empty()) return;
  facts.backend = name;
  facts.backend_from = f.from;
}

void take_sparse_backend(Facts& facts, const FactFound& f) {
  if (const std::string_view name = word_of(f); !name.empty())
    set_flag(facts, "dsa-decode-backend", std::string(name), f.from);
}

void take_type(Facts& facts, const FactFound& f) {
  const std::string_view type = word_of(f);
  if (f.fact.begin == kUsing && type.empty()) return;
  facts.take_logged_type(type);
  set_server(facts, f.fact.server);
}

void set_gpu(Facts& facts, const std::optional<Gpu>& gpu, const Evidence& from) {
  if (facts.gpu) return;
  facts.gpu = gpu;
  facts.gpu_from = from;
}

void take_gpu(Facts& facts, const FactFound& f) { set_gpu(facts, parse_gpu(word_of(f)), f.from); }

// "GPU 0: NVIDIA H100 80GB HBM3", "GPU 0,1: NVIDIA A100 (Compute Capability: 8.0)", "GPU: 8x AMD Instinct MI300X" of a
// list: nothing that prose says stands in front.
void take_listed_gpu(Facts& facts, const FactFound& f) {
  if (f.line.substr(0, f.at).find_first_not_of(" -*|>`") != f.line.npos) return;
  const std::string_view name = word_of(f);
  set_gpu(facts, parse_gpu(trimmed(name.substr(0, name.find(" (UUID")))), f.from);
}

// "| 0 NVIDIA H100 80GB HBM3 On | 00000000:18:00.0 Off |", a row of nvidia-smi.
void take_gpu_of_row(Facts& facts, const FactFound& f) {
  const std::string_view name = word_of(f);
  set_gpu(facts, parse_gpu(name.substr(0, std::min(name.find(" On"), name.find(" Off")))), f.from);
}

void take_platform(Facts& facts, const FactFound& f) {
  const std::string_view name = word_of(f);
  if (name == "rocm") set_gpu(facts, Gpu{.name = "ROCm", .rocm = true, .capability = 0, .gfx = ""}, f.from);
  facts.platform = name;
}

// What an earlier start came to says nothing of this one, which may have other options.
void begins_start(Facts& facts, const FactFound&) {
  facts.has_started = false;
  facts.exception.clear();
}

/// Where a message begins: at the line's beginning, or behind what a logger, a container or a launcher puts there.
bool begins_message(std::string_view before) {
  constexpr std::array<std::string_view, 6> kEnds = {"] ", ") ", "]: ", " | ", "stderr F ", "stdout F "};
  return before.empty() || std::ranges::any_of(kEnds, [&](std::string_view end) { return before.ends_with(end); });
}

// "(EngineCore pid=7) ERROR 07-15 [core.py:1104] ValueError: No valid attention backend found": not one that was
// handled, that a client caused, or that another process reports of this one.
void ends_traceback(Facts& facts, const FactFound& f) {
  constexpr std::array kOthers = {"See root cause above",
                                  "Engine core initialization failed",
                                  "EngineDeadError",
                                  "WorkerProc initialization failed",
                                  "Exception ignored",
                                  "BrokenPipe",
                                  "ConnectionError",
                                  "ConnectionReset",
                                  "ChildProcessError",
                                  "CancelledError",
                                  "HTTPException",
                                  "ValidationError",
                                  "JSONDecodeError",
                                  "TemplateError",
                                  "context length",
                                  "is longer than",
                                  "exceeds",
                                  "KeyboardInterrupt",
                                  "WARNING",
                                  "INFO"};
  const std::string_view line = f.line;
  size_t begin = f.at;
  while (begin > 0 && (is_of_name(line[begin - 1]) || line[begin - 1] == '.')) --begin;
  const bool other = std::ranges::any_of(kOthers, [&](const char* o) { return line.find(o) != line.npos; });
  if (other || begin == f.at || line[begin] < 'A' || !begins_message(line.substr(0, begin))) return;
  constexpr size_t kMost = 300;
  facts.exception = line.substr(begin, kMost);
  facts.exception_from = f.from;
}

// "AssertionError" without a message, which ends a line.
void ends_bare(Facts& facts, const FactFound& f) {
  if (f.line.substr(f.at) != f.fact.needle || !begins_message(f.line.substr(0, f.at))) return;
  facts.exception = f.fact.needle;
  facts.exception_from = f.from;
}

void says_failed(Facts& facts, const FactFound&) { facts.start_failed = true; }

constexpr Engine kAny = Engine::Unknown, kVllm = Engine::Vllm, kSglang = Engine::Sglang;

constexpr std::array kFacts = {
    FactLine{"vLLM API server version", take_version, kVllm},
    FactLine{"vLLM server version", take_version, kVllm},
    FactLine{"vLLM version", take_version, kVllm},
    FactLine{"vLLM Version", take_version, kVllm},
    FactLine{"vllm version", take_version, kVllm},
    FactLine{"LLM engine (v", take_version, kVllm},
    FactLine{"█ version ", take_version, kVllm},
    FactLine{"vLLM 0.", take_version, kVllm},
    FactLine{"vLLM v0.", take_version, kVllm},
    FactLine{"vLLM:", take_listed_version, kVllm},
    FactLine{"SGLang:", take_listed_version, kSglang},
    FactLine{"vLLM | ", take_listed_version, kVllm},
    FactLine{"SGLang | ", take_listed_version, kSglang},
    FactLine{"vllm==", take_version, kVllm},
    FactLine{"vllm ", take_package_version, kVllm},
    FactLine{"sglang ", take_package_version, kSglang},
    FactLine{"sglang==", take_version, kSglang},
    FactLine{"sglang: 0.", take_version, kSglang},
    FactLine{"SGLang version", take_version, kSglang},
    FactLine{"SGLang v0.", take_version, kSglang},
    FactLine{"sglang v0.", take_version, kSglang},
    FactLine{"docker run ", take_command},
    FactLine{"podman run ", take_command},
    FactLine{"nerdctl run ", take_command},
    FactLine{"apptainer run ", take_command},
    FactLine{"apptainer exec ", take_command},
    FactLine{"singularity exec ", take_command},
    FactLine{"LLM(", take_command},
    FactLine{"sgl.Engine(", take_command},
    FactLine{"sglang.Engine(", take_command},
    FactLine{"vllm/vllm-openai:", take_image_version, kVllm},
    FactLine{"lmsysorg/sglang:", take_image_version, kSglang},
    FactLine{"non-default args:", take_printed, kVllm},
    FactLine{"LLM engine (v", take_printed, kVllm},
    FactLine{"server_args=", take_printed, kSglang},
    FactLine{"--kv-cache-dtype", take_listed_option},
    FactLine{"--calculate-kv-scales", take_listed_option},
    FactLine{"--quantization-param-path", take_listed_option},
    FactLine{"Using AttentionBackendEnum.", take_backend, kAny, ".", ". ,:"},
    FactLine{"Attention backend not specified. Use ", take_backend, kSglang, "Use ", " "},
    // "Set DSA backends for fp8_e4m3 KV Cache: prefill=trtllm, decode=trtllm."
    FactLine{"Set DSA backends for", take_sparse_backend, kAny, "decode=", ".,; "},
    FactLine{"Set NSA backends for", take_sparse_backend, kAny, "decode=", ".,; "},
    // "Setting KV cache dtype to fp8_e4m3 for DeepSeek DSA on SM10 device."
    FactLine{"Setting KV cache dtype to ", take_type, kAny, " to ", " "},
    FactLine{" attention backend out of potential backends", take_backend, kAny, kUsing, " "},
    FactLine{"data type to store kv cache", take_type, kVllm, kUsing, " "},
    FactLine{"Using KV cache dtype:", take_type, kSglang, ": ", " ,"},
    FactLine{"Load weight begin. avail mem=", [](Facts& facts, const FactFound&) { set_server(facts, kSglang); }},
    FactLine{"vLLM API server version", begins_start},
    FactLine{"server_args=", begins_start},
    FactLine{"Application startup complete",
             [](Facts& facts, const FactFound&) {
               facts.has_started = true;
               facts.exception.clear();  // what was thrown until then was handled
             }},
    FactLine{"Application startup failed", says_failed},
    FactLine{"EngineCore failed to start", says_failed},
    FactLine{"Engine core initialization failed", says_failed},
    FactLine{"Engine process failed to start", says_failed},
    FactLine{"WorkerProc failed to start", says_failed},
    FactLine{" scheduler is dead. Please check if there are relevant logs", says_failed},
    FactLine{"AssertionError", ends_bare},
    FactLine{"NotImplementedError", ends_bare},
    FactLine{"Error: ", ends_traceback},
    FactLine{"Exception: ", ends_traceback},
    // "...,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json": names of kernel settings that were not found.
    FactLine{"device_name=", take_gpu, kAny, "=", ",. "},
    FactLine{"GPU 0: ", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"GPU 0,", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"GPU 0-", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"GPU | ", take_listed_gpu, kAny, "| ", "|"},
    FactLine{"GPU: ", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"GPU**: ", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"GPUs: ", take_listed_gpu, kAny, ": ", ",;|"},
    FactLine{"| 0 NVIDIA ", take_gpu_of_row, kAny, "| 0 ", "|"},
    // "Your device 'Tesla V100-DGXS-32GB' (with compute capability 7.0) doesn't support torch.bfloat16."
    FactLine{"Your device '", take_gpu, kAny, "'", "'"},
    FactLine{"Automatically detected platform ", take_platform, kAny, "platform ", " .,"},
    // "Intel GPU : Intel(R) Arc(TM) Pro B70 Graphics", as reports list it: beside another GPU, too.
    FactLine{"Intel(R) Arc(TM) ",
             [](Facts& facts, const FactFound&) {
               if (!facts.gpu && facts.platform.empty()) facts.platform = "xpu";
             }},
    FactLine{"Platform plugin ascend is activated", [](Facts& facts, const FactFound&) { facts.of_ascend = true; }},
};

}  // namespace

std::span<const FactLine> fact_lines() {
  static const std::vector<FactLine> kAll = [] {
    std::vector<FactLine> all(kFacts.begin(), kFacts.end());
    for (const Program& program : known_programs()) all.push_back({program.needle, take_command});
    return all;
  }();
  return kAll;
}

void take_logged(Facts& facts, const ServeCommand& command, const Evidence& from) {
  // Prose names programs too: a command has an option or a model.
  if ((command.flags.empty() && command.model.empty()) || !command.refusal.empty()) return;
  set_server(facts, command.server);
  if (!facts.command) {
    facts.command = command;
    facts.command_from = from;
  }
  if (!facts.version && command.version && facts.server == command.server) {
    facts.version = command.version;
    facts.version_from = from;
  }
  for (const auto& [name, value] : command.flags) set_flag(facts, name, value, from);
  for (const auto& [name, value] : command.environment) facts.environment.emplace(name, value);
  if (facts.model_path.empty()) facts.model_path = command.model;
}

}  // namespace kvcal
