// KV scales and quantisation blocks from strangers: the input is a config.json, then (after a byte 0) a safetensors
// file; both are put into a folder and read as every server's rules read them.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fuzz/fuzzing.h"
#include "model/architecture.h"
#include "servers/served_scales.h"

namespace {

/// Three layers of one head of width 4: the tensors of the input are its scales or nobody's.
kvcal::ModelSpec small_spec() {
  kvcal::ModelSpec spec;
  spec.architecture = "LlamaForCausalLM";
  for (int layer = 0; layer < 3; ++layer) {
    spec.layers.push_back({layer, kvcal::LayerKind::Attention, layer});
    kvcal::KvLayout cache;
    cache.cache = cache.layer = layer;
    cache.name = "layers." + std::to_string(layer) + ".self_attn";
    cache.n_heads = 2;
    cache.n_kv_heads = 1;
    cache.head_dim_k = cache.head_dim_v = 4;
    spec.caches.push_back(cache);
  }
  return spec;
}

void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kvcal_fuzz_scales." + std::to_string(::getpid()));
  static const ModelSpec spec = small_spec();
  std::filesystem::create_directories(folder);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), size);
  put(folder / "config.json", input.substr(0, cut));
  put(folder / "model.safetensors", input.substr(std::min(cut + 1, size)));
  fuzzing::accepts([&] {
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const StoredScales stored = read_stored_scales(checkpoint, spec);
    for (const char* server : {"vllm", "sglang"}) {
      const ServedScales served = served_scales(stored, spec, checkpoint.config(), parse_server(server));
      fuzzing::require(served.stops.empty() ? served.layers.size() == spec.caches.size() : served.layers.empty(),
                       "a server that starts uses something for every cache, another one nothing");
      for (const ServedLayer& l : served.layers)
        fuzzing::require(!l.key.empty() && !l.value.empty(), "a cache has scales");
    }
  });
  std::filesystem::remove_all(folder);
  return 0;
}
