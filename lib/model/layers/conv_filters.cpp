#include "model/layers/conv_filters.h"

#include <string>

#include "tensor/encoded_weight.h"

namespace kvcal {
namespace {

/// Filters of n channels [n, kernel].
Tensor filters(const WeightBinder& w, const std::string& name, int64_t n, int64_t kernel) {
  const TensorInfo* found = w.info(name);
  const bool flat = found && found->shape.rank() == 2;
  return w(name, flat ? Shape{n, kernel} : Shape{n, 1, kernel}).reshaped({n, kernel});
}

}  // namespace

Owned load_conv_filters(const ConvShape& s, WeightLoader& loader, const WeightBinder& w) {
  const int64_t channels = 2 * s.keys + s.values;
  if (!w.has("q_conv1d.weight")) return loader.load_f32(filters(w, "conv1d.weight", channels, s.kernel));
  const Storage all({channels, s.kernel}, DType::F32);
  const int64_t third = (channels + 2) / 3;
  int64_t row = 0;
  for (const char part : {'q', 'k', 'v'}) {
    const std::string name = std::string(1, part) + "_conv1d.weight";
    const TensorInfo* found = w.info(name);
    const bool cut = found && found->shape.rank() > 0 && found->shape[0] == third;
    const int64_t n = part == 'v' ? channels - row : cut ? third : s.keys;
    const Tensor one = filters(w, name, n, s.kernel);
    const Tensor to = all.tensor().rows(row, n);
    const Storage values = one.device == Device::Stored ? decoded(one) : Storage();
    convert_to_float(one.dtype, (values ? values.tensor() : one).data, to.as<float>(),
                     static_cast<size_t>(one.elements()));
    row += n;
  }
  return loader.load_f32(all.tensor());
}

}  // namespace kvcal
