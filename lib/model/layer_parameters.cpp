#include "model/architecture.h"
#include "model/binding_loader.h"

namespace kvcal {

void Model::add_mtp_layer() {
  append_mtp_layer();
  count_parameters();
}

void Model::count_parameters() {
  BindingLoader loader;
  const WeightBinder whole = WeightBinder::without_checkpoint();
  WeightBinder text = whole.at("model."), head = whole, mtp = whole.at("mtp.");
  load_embedding(loader, text);
  load_head(loader, text, head);
  for (LayerSpec& layer : spec_.layers) {
    const int64_t before = whole.elements_asked();
    const bool drafts = spec_.is_mtp(layer.index);
    const auto block = drafts ? load_mtp_layer(loader, text, mtp) : load_block(layer.index, loader, text);
    // What drafts ends with a norm of its own, which nobody needs who does not draft.
    layer.parameters = whole.elements_asked() - before + (drafts ? spec_.hidden : 0);
  }
}

}  // namespace kvcal
