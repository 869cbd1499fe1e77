// The table of architectures, and what each one provides.
#pragma once

#include <cassert>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/weight_binder.h"
#include "model/block.h"
#include "model/model_spec.h"

namespace kvcal {

/// A model as its config describes it: knows its layers and how to load each from a checkpoint.
class Model {
 public:
  virtual ~Model() = default;
  const ModelSpec& spec() const { return spec_; }

  /// `weights` is positioned at the language model: "embed_tokens.weight", "layers.0.…", "norm.weight", or as the spec
  /// names them.
  virtual std::unique_ptr<Embedding> load_embedding(WeightLoader& loader, WeightBinder& weights) const = 0;
  virtual std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const = 0;
  /// `head` is positioned where spec().head lives.
  virtual std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const = 0;

  /// Appends the MTP layer to the spec: once, and where spec().mtp_names says something.
  void add_mtp_layer();
  /// `w` is positioned at spec().mtp_names.
  virtual std::unique_ptr<Block> load_mtp_layer(WeightLoader&, WeightBinder& /*weights*/, WeightBinder& /*w*/) const {
    return nullptr;
  }

  /// Sets the parameters of every layer: what it asks for while it is loaded, and no earlier one has.
  void count_parameters();

 protected:
  virtual void append_mtp_layer() { assert(false); }

  ModelSpec spec_;
};

struct Architecture {
  std::string_view name;                                // as in config.json "architectures"
  std::unique_ptr<Model> (*parse)(const Json& config);  // throws Error for what it does not know
};

/// All architectures, in alphabetical order.
std::span<const Architecture> architectures();

/// The entry for config["architectures"][0]; throws naming it and, where that is known, what it is instead.
const Architecture& find_architecture(const Json& config);

/// find_architecture(config).parse(config), with the model's general fields filled in and checked. `max_model_len` is
/// the longest context that the server will allow (0: the config's own limit): some models rotate differently by it.
std::unique_ptr<Model> parse_model(const Json& config, int64_t max_model_len = 0);

}  // namespace kvcal
