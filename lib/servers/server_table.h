// The lines behind server_support.h. Only server_support.cpp and the generator of docs/servers.md read them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "servers/server_support.h"

namespace kvcal {

/// A set of spellings.
using Spellings = uint16_t;
constexpr Spellings set_of() { return 0; }
template <class... More>
constexpr Spellings set_of(ScaleSpelling first, More... more) {
  return static_cast<Spellings>((1u << static_cast<unsigned>(first)) | set_of(more...));
}

/// One way of loading, shared by all classes whose loader works the same way.
struct LoaderLine {
  std::string_view name;
  ScaleSpelling write;  // the best of `accepts`
  Spellings accepts;    // reach the scale where the class has parameters for it
  Spellings crashes;    // stop the server, whatever the carrier
  Effect other;         // of all other spellings
  Effect bare;          // of accepted ones where the carrier makes no parameters
  Effect query;
  std::string_view why_not;      // where `accepts` is empty
  bool asks_config = false;      // for names of scales, which only that of compressed-tensors answers
  std::string_view source = "";  // the file that was read, where it is one for all classes
};

/// In place of a file: the server's loading code was executed on a model of this class.
constexpr std::string_view kRun = "run";

/// How a server loads a class of models.
struct ClassLoading {
  std::string_view loader;       // LoaderLine::name
  std::string_view source = "";  // the file below models/ that was read, or kRun; "": as the loader has it
  bool json = false;             // SGLang: has load_kv_cache_scales
};

/// What becomes of INT8 scales of k_proj and v_proj in vLLM-Ascend 0.30, which renames them inside vLLM's loader.
enum class AscendLoading : uint8_t {
  Renamed,  // they reach the cache where vLLM's loader "maps", too
  Merged,   // the class's loader makes qkv_proj of k_proj first: they are lost
  NotRead   // a class of Transformers, none of its own, or one whose loader copies what is of k_proj
};

/// A class of models: a line of the table.
struct ClassLine {
  std::string_view architecture;
  ClassLoading vllm, sglang;
  AscendLoading ascend = AscendLoading::Renamed;
  const ClassLoading& by(ServerKind server) const { return server == ServerKind::Vllm ? vllm : sglang; }
};

/// How vLLM loads the MTP layer of a class, where that differs; SGLang loads those as the class's other layers.
struct MtpLine {
  std::string_view architecture;
  ClassLoading vllm;
};

std::span<const MtpLine> mtp_lines();
std::span<const LoaderLine> loader_lines(ServerKind server);
std::span<const ClassLine> class_lines();

}  // namespace kvcal
