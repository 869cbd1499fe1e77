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
    if (spec_.is_mtp(layer.index))
      load_mtp_layer(loader, text, mtp);
    else
      load_block(layer.index, loader, text);
    layer.parameters = whole.elements_asked() - before;
  }
}

}  // namespace kvcal
