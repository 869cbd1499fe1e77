#include "doctor/launch_names.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvcal {
namespace {

// Of those that begin at the same place the first counts.
constexpr std::array kPrograms = {
    Program{"vllm serve ", Engine::Vllm, ""},
    Program{"vllm bench throughput ", Engine::Vllm, ""},
    Program{"vllm bench latency ", Engine::Vllm, ""},
    Program{"vllm run-batch ", Engine::Vllm, ""},
    Program{"vllm bench serve ", Engine::Unknown, "a client: give the command that started the server"},
    Program{"sglang.bench_serving ", Engine::Unknown, "a client: give the command that started the server"},
    Program{"vllm.entrypoints.", Engine::Vllm, ""},
    Program{"dynamo.vllm ", Engine::Vllm, ""},
    Program{"sglang.launch_server ", Engine::Sglang, ""},
    Program{"sglang.bench_offline_throughput ", Engine::Sglang, ""},
    Program{"sglang.bench_one_batch ", Engine::Sglang, ""},
    Program{"sglang serve ", Engine::Sglang, ""},
    Program{"dynamo.sglang ", Engine::Sglang, ""},
    Program{"lmdeploy serve api_server ", Engine::LmDeploy, ""},
    Program{"lm_eval ", Engine::Unknown, kByModelOption},
    Program{"lm-eval ", Engine::Unknown, kByModelOption},
    Program{"llama-server ", Engine::LlamaCpp, ""},
    Program{"llama-cli ", Engine::LlamaCpp, ""},
    Program{"trtllm-serve ", Engine::Unknown, "TensorRT-LLM's server"},
    Program{"trtllm-llmapi-launch ", Engine::Unknown, "TensorRT-LLM's server"},
    Program{"dynamo.trtllm ", Engine::Unknown, "TensorRT-LLM behind Dynamo"},
    Program{"tensorrt_llm.", Engine::Unknown, "TensorRT-LLM"},
    Program{"tritonserver ", Engine::Unknown, "the Triton server"},
    Program{"lightllm.server.api_server ", Engine::Unknown, "LightLLM's server"},
    Program{"text-generation-launcher ", Engine::Unknown, "Text Generation Inference"},
    Program{"mlc_llm serve ", Engine::Unknown, "MLC LLM's server"},
    Program{"mlx_lm.server ", Engine::Unknown, "MLX LM's server"},
    Program{"fastdeploy.entrypoints.", Engine::Unknown, "FastDeploy's server"},
    Program{"llama_cpp.server ", Engine::Unknown, "the server of llama-cpp-python"},
    Program{"ktransformers ", Engine::Unknown, "KTransformers"},
    Program{"ollama serve", Engine::Unknown, "Ollama"},
    Program{"ollama run ", Engine::Unknown, "Ollama"},
};

// How the version of the server stands in a tag.
enum class Tag : uint8_t { IsVersion, NamesVllm, Other };

struct KnownImage {
  std::string_view part;  // of the name in front of the tag
  Engine server;
  std::string_view program, uncovered;
  Tag tag = Tag::Other;
};

constexpr std::array kImages = {
    KnownImage{"router", Engine::Unknown, "", "a router: give what starts the servers behind it"},
    KnownImage{"vllm/vllm-openai", Engine::Vllm, "vllm serve", "", Tag::IsVersion},
    KnownImage{"lmsysorg/sglang", Engine::Sglang, "", "", Tag::IsVersion},
    KnownImage{"rocm/vllm", Engine::Vllm, "", "", Tag::NamesVllm},
    KnownImage{"openmmlab/lmdeploy", Engine::LmDeploy, "", "", Tag::IsVersion},
    KnownImage{"/llama.cpp", Engine::LlamaCpp, "llama-server", ""},
    KnownImage{"text-generation-inference", Engine::Unknown, "", "Text Generation Inference"},
    KnownImage{"tensorrtllm-runtime", Engine::Unknown, "", "TensorRT-LLM behind Dynamo"},
    KnownImage{"tensorrt-llm", Engine::Unknown, "", "TensorRT-LLM"},
    KnownImage{"tritonserver", Engine::Unknown, "", "the Triton server"},
    KnownImage{"lightllm", Engine::Unknown, "", "LightLLM's server"},
    KnownImage{"ollama/ollama", Engine::Unknown, "", "Ollama"},
    KnownImage{"nvcr.io/nim/", Engine::Unknown, "", "a NIM, which picks its server itself"},
    KnownImage{"huggingfaceserver", Engine::Vllm, "", ""},  // KServe's takes vLLM's options
    KnownImage{"vllm", Engine::Vllm, "", ""},
    KnownImage{"sglang", Engine::Sglang, "", ""},
};

std::optional<EngineVersion> version_in(std::string_view tag, Tag kind) {
  constexpr std::string_view kVllm = "vllm_";
  if (kind == Tag::Other) return std::nullopt;
  if (kind == Tag::IsVersion) return parse_version(tag);
  const size_t at = tag.find(kVllm);
  return at == tag.npos ? std::nullopt : parse_version(tag.substr(at + kVllm.size()));
}

}  // namespace

std::span<const Program> known_programs() { return kPrograms; }

std::string refusal_of(std::string_view name, std::string_view uncovered) {
  const std::string shown = quoted(std::string(name.substr(0, name.find_last_not_of(" .") + 1)));
  if (uncovered.starts_with("a ")) return shown + " is " + std::string(uncovered);
  return shown + ": this program has no rules for " + std::string(uncovered) +
         ", only for vLLM, SGLang, llama.cpp and LMDeploy";
}

std::optional<ServerImage> known_image(std::string_view name) {
  constexpr std::string_view kFile = ".sif";
  if (const size_t scheme = name.find("://"); scheme != name.npos) name.remove_prefix(scheme + 3);
  name = name.substr(0, name.find('@'));
  const bool is_file = name.ends_with(kFile);
  if (is_file) name.remove_suffix(kFile.size());
  const size_t folder = name.rfind('/'), colon = name.rfind(is_file ? '_' : ':');
  const bool tagged = colon != name.npos && (folder == name.npos || colon > folder);
  const std::string_view untagged = name.substr(0, tagged ? colon : name.size());
  const std::string_view tag = tagged ? name.substr(colon + 1) : std::string_view();
  const bool is_vllms = is_file && untagged.ends_with("vllm-openai"),
             is_sglangs = is_file && untagged.ends_with("sglang");
  const auto known =
      std::ranges::find_if(kImages, [&](const KnownImage& i) { return untagged.find(i.part) != untagged.npos; });
  if (known == kImages.end()) return std::nullopt;
  const Tag kind = is_vllms || is_sglangs ? Tag::IsVersion : known->tag;
  return ServerImage{known->server, known->program, known->uncovered, version_in(tag, kind)};
}

std::string_view program_of(Engine server) {
  constexpr std::array<std::string_view, 5> kStarts = {"", "vllm serve", "python -m sglang.launch_server",
                                                       "llama-server", "lmdeploy serve api_server"};
  return kStarts.at(static_cast<size_t>(server));
}

}  // namespace kvcal
