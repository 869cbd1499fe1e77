#include "doctor/fact_lines.h"

#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "doctor/launch_names.h"

namespace kvcal {
namespace {

void set_server(Facts& facts, Engine server) {
  if (facts.server == Engine::Unknown) facts.server = server;
}

// The version after the needle, over what stands between: "vLLM version: v0.17.1", "vLLM: **0.23.0**".
void take_version(Facts& facts, std::string_view rest, Engine server, const Evidence& from) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" :*`="), rest.size()));
  const std::optional<EngineVersion> version = parse_version(rest);
  if (!version) return;
  set_server(facts, server);
  if (facts.version || facts.server != server) return;
  facts.version = version;
  facts.version_from = from;
}

/// Of a name that other things follow, too: "vLLM: 0.85 of the memory". All three numbers are there.
template <Engine server, size_t length>
void version_in_list(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const std::string_view rest = line.substr(std::min(line.size(), at + length));
  const size_t begin = std::min(rest.find_first_not_of(" :*`=v"), rest.size());
  const std::string_view number = rest.substr(begin, rest.find_first_not_of("0123456789.", begin) - begin);
  if (std::ranges::count(number, '.') == 2 && !number.ends_with('.')) take_version(facts, rest, server, from);
}

template <Engine server, size_t length>
void version_after(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  take_version(facts, line.substr(std::min(line.size(), at + length)), server, from);
}

// "vllm 0.15.0", as pip lists it, or conda, "... pypi_0 pypi": nothing else stands in the line.
template <Engine server, size_t length>
void version_of_package(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const size_t end = std::min(line.find(' ', at + length), line.size());
  if (at == 0 && (end == line.size() || line.substr(end).starts_with(" pypi_0")))
    version_in_list<server, length>(facts, line, at, from);
}

// "image: vllm/vllm-openai:v0.27.1" of a manifest or of what describes a pod, "docker image `..."; not what prose
// compares with.
template <Engine server, size_t length>
void version_of_image(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  std::string_view before = line.substr(0, at);
  const bool named = before.find("mage:") != before.npos;
  while (before.ends_with(' ') || before.ends_with('`') || before.ends_with('"')) before.remove_suffix(1);
  if (named || before.ends_with("mage")) version_after<server, length>(facts, line, at, from);
}

void set_flag(Facts& facts, const std::string& name, const std::string& value, const Evidence& from) {
  facts.flags.emplace(name, Flag{value, from});
}

void take_command(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const size_t begin = line.rfind('\n', at);
  const std::optional<ServeCommand> command =
      find_serve_command(line.substr(begin == std::string_view::npos ? 0 : begin + 1));
  if (!command || command->words.size() < 2) return;
  facts.has_started = false;
  take_logged(facts, *command, from);
}

bool is_of_name(char c) { return is_letter_or_digit(c) || c == '_'; }

// Options that a server prints as a Python object or dictionary: name=value, 'name': value. Members of values, too.
void take_printed(Facts& facts, std::string_view text, const Evidence& from) {
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
    facts.flags.emplace(flag_name(name), Flag{bare == "True" ? "" : bare, from, true});
  }
  facts.flags.emplace("", Flag{"", from});  // the options are known, even where all have their defaults
}

void take_vllm_arguments(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_server(facts, Engine::Vllm);
  take_printed(facts, line.substr(at), from);
}

void take_sglang_arguments(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_server(facts, Engine::Sglang);
  take_printed(facts, line.substr(at), from);
}

// "--kv-cache-dtype fp8" in a list of arguments: a line that begins with the option, quotes and dashes aside.
void take_listed_option(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  if (line.substr(0, at).find_first_not_of(" -'\"[,") != std::string_view::npos) return;
  std::string_view rest = line.substr(at);
  const size_t end = rest.find_first_of(" =,'\"");
  const std::string name = flag_name(rest.substr(0, end));
  rest.remove_prefix(std::min(rest.size(), end));
  const size_t value = rest.find_first_not_of(" =,'\"");
  std::string_view word = value == std::string_view::npos ? std::string_view() : rest.substr(value);
  word = word.substr(0, word.find_first_of(" ,'\"]"));
  if (word.starts_with("-")) word = {};
  set_flag(facts, name, std::string(word), from);
}

/// From behind `begin`, which stands at or after `at`, to one of `ends`; "" where it is not there.
std::string_view word_behind(std::string_view line, size_t at, std::string_view begin, std::string_view ends) {
  const size_t found = line.find(begin, at);
  if (found == line.npos) return "";
  const std::string_view rest = line.substr(found + begin.size());
  return rest.substr(0, rest.find_first_of(ends));
}

/// The word behind "Using " in front of what was found.
std::string_view used(std::string_view line, size_t at) {
  return word_behind(line, line.rfind("Using ", at), "Using ", " ");
}

void set_backend(Facts& facts, std::string_view name, const Evidence& from) {
  if (!facts.backend.empty() || name.empty()) return;
  facts.backend = name;
  facts.backend_from = from;
}

void backend_after(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_backend(facts, word_behind(line, at, ".", ". ,:"), from);
}

// "Using FLASHMLA attention backend out of potential backends"
void backend_before(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_backend(facts, used(line, at), from);
}

// "Set DSA backends for fp8_e4m3 KV Cache: prefill=trtllm, decode=trtllm."
void backend_of_sparse(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  if (const std::string_view name = word_behind(line, at, "decode=", ".,; "); !name.empty())
    set_flag(facts, "dsa-decode-backend", std::string(name), from);
}

// "Setting KV cache dtype to fp8_e4m3 for DeepSeek DSA on SM10 device."
void chosen_type_of_sglang(Facts& facts, std::string_view line, size_t at, const Evidence&) {
  facts.take_logged_type(word_behind(line, at, " to ", " "));
}

// "Attention backend not specified. Use trtllm_mha backend by default."
void backend_of_sglang(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_server(facts, Engine::Sglang);
  set_backend(facts, word_behind(line, at, "Use ", " "), from);
}

void dtype_of_vllm(Facts& facts, std::string_view line, size_t at, const Evidence&) {
  if (used(line, at).empty()) return;
  facts.take_logged_type(used(line, at));
  set_server(facts, Engine::Vllm);
}

void dtype_of_sglang(Facts& facts, std::string_view line, size_t at, const Evidence&) {
  facts.take_logged_type(word_behind(line, at, ": ", " ,"));
  set_server(facts, Engine::Sglang);
}

void set_gpu(Facts& facts, const std::optional<Gpu>& gpu, const Evidence& from) {
  if (facts.gpu) return;
  facts.gpu = gpu;
  facts.gpu_from = from;
}

// "...,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json": names of kernel settings that were not found.
void take_gpu(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_gpu(facts, parse_gpu(word_behind(line, at, "=", ",. ")), from);
}

// "GPU 0: NVIDIA H100 80GB HBM3", "GPU 0,1: NVIDIA A100 (Compute Capability: 8.0)", "GPU: 8x AMD Instinct MI300X" of a
// list: nothing that prose says stands in front.
void gpu_in_list(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  if (line.substr(0, at).find_first_not_of(" -*|>`") != line.npos) return;
  const std::string_view name = word_behind(line, at, ": ", ",;|");
  set_gpu(facts, parse_gpu(name.substr(0, name.find(" (UUID"))), from);
}

// "| 0 NVIDIA H100 80GB HBM3 On | 00000000:18:00.0 Off |", a row of nvidia-smi.
void gpu_in_row(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const std::string_view name = word_behind(line, at, "| 0 ", "|");
  set_gpu(facts, parse_gpu(name.substr(0, std::min(name.find(" On"), name.find(" Off")))), from);
}

// "Your device 'Tesla V100-DGXS-32GB' (with compute capability 7.0) doesn't support torch.bfloat16."
void gpu_in_quotes(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  set_gpu(facts, parse_gpu(word_behind(line, at, "'", "'")), from);
}

// "Automatically detected platform xpu."
void takes_platform(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const std::string_view name = word_behind(line, at, "platform ", " .,");
  if (name == "rocm") set_gpu(facts, Gpu{.name = "ROCm", .rocm = true, .capability = 0, .gfx = ""}, from);
  facts.platform = name;
}

// "Intel GPU : Intel(R) Arc(TM) Pro B70 Graphics", as reports list it: beside another GPU, too.
void names_intel(Facts& facts, std::string_view, size_t, const Evidence&) {
  if (!facts.gpu && facts.platform.empty()) facts.platform = "xpu";
}

void names_sglang(Facts& facts, std::string_view, size_t, const Evidence&) { set_server(facts, Engine::Sglang); }

void names_ascend(Facts& facts, std::string_view, size_t, const Evidence&) { facts.of_ascend = true; }

// What an earlier start came to says nothing of this one, which may have other options.
void begins_start(Facts& facts, std::string_view, size_t, const Evidence&) {
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
void ends_traceback(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
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
  size_t begin = at;
  while (begin > 0 && (is_of_name(line[begin - 1]) || line[begin - 1] == '.')) --begin;
  const bool other = std::ranges::any_of(kOthers, [&](const char* o) { return line.find(o) != line.npos; });
  if (other || begin == at || line[begin] < 'A' || !begins_message(line.substr(0, begin))) return;
  constexpr size_t kMost = 300;
  facts.exception = line.substr(begin, kMost);
  facts.exception_from = from;
}

// "AssertionError" without a message, which ends a line.
void ends_bare(Facts& facts, std::string_view line, size_t at, const Evidence& from) {
  const std::string_view name = line.substr(at);
  if ((name != "AssertionError" && name != "NotImplementedError") || !begins_message(line.substr(0, at))) return;
  facts.exception = name;
  facts.exception_from = from;
}

// What was thrown until then was handled.
void says_started(Facts& facts, std::string_view, size_t, const Evidence&) {
  facts.has_started = true;
  facts.exception.clear();
}

void says_failed(Facts& facts, std::string_view, size_t, const Evidence&) { facts.start_failed = true; }

constexpr std::array kFacts = {
    FactLine{"vLLM API server version", version_after<Engine::Vllm, 23>},
    FactLine{"vLLM server version", version_after<Engine::Vllm, 19>},
    FactLine{"vLLM version", version_after<Engine::Vllm, 12>},
    FactLine{"vLLM Version", version_after<Engine::Vllm, 12>},
    FactLine{"vllm version", version_after<Engine::Vllm, 12>},
    FactLine{"LLM engine (v", version_after<Engine::Vllm, 12>},
    FactLine{"█ version ", version_after<Engine::Vllm, 12>},
    FactLine{"vLLM 0.", version_after<Engine::Vllm, 5>},
    FactLine{"vLLM v0.", version_after<Engine::Vllm, 5>},
    FactLine{"vLLM:", version_in_list<Engine::Vllm, 5>},
    FactLine{"SGLang:", version_in_list<Engine::Sglang, 7>},
    FactLine{"vllm==", version_after<Engine::Vllm, 6>},
    FactLine{"vllm ", version_of_package<Engine::Vllm, 5>},
    FactLine{"sglang ", version_of_package<Engine::Sglang, 7>},
    FactLine{"sglang==", version_after<Engine::Sglang, 8>},
    FactLine{"sglang: 0.", version_after<Engine::Sglang, 7>},
    FactLine{"SGLang version", version_after<Engine::Sglang, 14>},
    FactLine{"SGLang v0.", version_after<Engine::Sglang, 7>},
    FactLine{"sglang v0.", version_after<Engine::Sglang, 7>},
    FactLine{"docker run ", take_command},
    FactLine{"podman run ", take_command},
    FactLine{"nerdctl run ", take_command},
    FactLine{"apptainer run ", take_command},
    FactLine{"apptainer exec ", take_command},
    FactLine{"singularity exec ", take_command},
    FactLine{"LLM(", take_command},
    FactLine{"sgl.Engine(", take_command},
    FactLine{"sglang.Engine(", take_command},
    FactLine{"vllm/vllm-openai:", version_of_image<Engine::Vllm, 17>},
    FactLine{"lmsysorg/sglang:", version_of_image<Engine::Sglang, 16>},
    FactLine{"non-default args:", take_vllm_arguments},
    FactLine{"LLM engine (v", take_vllm_arguments},
    FactLine{"server_args=", take_sglang_arguments},
    FactLine{"--kv-cache-dtype", take_listed_option},
    FactLine{"--calculate-kv-scales", take_listed_option},
    FactLine{"--quantization-param-path", take_listed_option},
    FactLine{"Using AttentionBackendEnum.", backend_after},
    FactLine{"Attention backend not specified. Use ", backend_of_sglang},
    FactLine{"Set DSA backends for", backend_of_sparse},
    FactLine{"Set NSA backends for", backend_of_sparse},
    FactLine{"Setting KV cache dtype to ", chosen_type_of_sglang},
    FactLine{" attention backend out of potential backends", backend_before},
    FactLine{"data type to store kv cache", dtype_of_vllm},
    FactLine{"Using KV cache dtype:", dtype_of_sglang},
    FactLine{"Load weight begin. avail mem=", names_sglang},
    FactLine{"vLLM API server version", begins_start},
    FactLine{"server_args=", begins_start},
    FactLine{"Application startup complete", says_started},
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
    FactLine{"device_name=", take_gpu},
    FactLine{"GPU 0: ", gpu_in_list},
    FactLine{"GPU 0,", gpu_in_list},
    FactLine{"GPU: ", gpu_in_list},
    FactLine{"GPU**: ", gpu_in_list},
    FactLine{"GPUs: ", gpu_in_list},
    FactLine{"| 0 NVIDIA ", gpu_in_row},
    FactLine{"Your device '", gpu_in_quotes},
    FactLine{"Automatically detected platform ", takes_platform},
    FactLine{"Intel(R) Arc(TM) ", names_intel},
    FactLine{"Platform plugin ascend is activated", names_ascend},
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
