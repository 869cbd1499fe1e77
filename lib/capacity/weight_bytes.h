// How much memory a model's weights take in a server.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "checkpoint/config_file.h"
#include "model/model_spec.h"

namespace kvcal {

/// Parameters of the language model: layers, embedding, head, final norm. 0 where those of layers are not known.
int64_t parameters_of(const ModelSpec& spec);

enum class WeightSource : uint8_t {
  Headers,  // of the checkpoint's files
  Index,    // total_size of model.safetensors.index.json, its files absent
  Config,   // parameters of the language model times the bits of the format that the config names
  Given,    // by the user
};
std::string_view name_of(WeightSource source);  // "headers", "index", "config", "given"

struct WeightBytes {
  uint64_t bytes = 0;  // of the whole model, all GPUs together
  WeightSource source = WeightSource::Config;
  std::string format;          // "16 bits", "fp8 (128x128 blocks)": as the config describes it
  double bits = 16;            // per quantized weight; Config only
  bool by_module = false;      // instead each module has its own; Config only
  uint64_t parameters = 0;     // of the language model; 0: not known
  bool in_eight_bits = false;  // or fewer
};

/// Takes the best source there is. Unquantized weights count 16 bits an element, also where they are stored in F32:
/// that is how servers load them. Throws Error for weights that are there and cannot be read, and where only the config
/// could tell and does not, or names a format whose size is not known.
WeightBytes measure_weights(const ConfigFile& file, const ModelSpec& spec);

/// Bits that one quantized weight takes with its share of scales and zero points; of several formats in one model the
/// largest. `quantization` is the object that find_quantization() returns. Throws Error where it does not tell.
double bits_per_weight(const Json& quantization, std::string_view method);

/// The same parameters with the weights of the layers in `bits`, embedding, head and norms in 16. With
/// `experts_only` the projections of attention stay in 16 bits too, as in MXFP4 checkpoints of gpt-oss.
uint64_t bytes_of_parameters(const ModelSpec& spec, double bits, bool experts_only);

}  // namespace kvcal
