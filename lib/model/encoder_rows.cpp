#include "model/encoder_rows.h"

#include <algorithm>
#include <cstring>

#include "model/batch.h"
#include "ops/ops.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

// Row `index` of host rows [n, hidden], in the type of the destination.
void copy_row(const Tensor& from, int64_t index, const Tensor& to, int64_t row) {
  const size_t hidden = static_cast<size_t>(to.dim(1));
  const void* source = from.rows(index, 1).data;
  const Tensor out = to.rows(row, 1);
  if (to.dtype == DType::F32) {
    convert_to_float(from.dtype, source, out.as<float>(), hidden);
  } else {
    convert_to_bf16(from.dtype, source, out.as<bf16>(), hidden);
  }
}

}  // namespace

std::vector<int32_t> ends_of_images(const std::vector<int32_t>& row_of) {
  std::vector<int32_t> last(row_of.size());
  for (size_t i = row_of.size(); i-- > 0;) {
    const bool goes_on = i + 1 < row_of.size() && row_of[i] >= 0 && row_of[i + 1] >= 0;
    last[i] = goes_on ? last[i + 1] : static_cast<int32_t>(i);
  }
  return last;
}

Tensor with_encoder_rows(Ops& op, const Tensor& x, const Batch& batch) {
  if (batch.encoded.empty()) return x;
  const Storage host(x.shape, x.dtype);
  op.download(x, host.tensor());
  for (const EncodedToken& t : batch.encoded) copy_row(t.from->embeddings, t.index, host.tensor(), t.row);
  return op.upload(host.tensor());
}

Tensor with_deepstack(Ops& op, const Tensor& x, const Batch& batch, int layer) {
  const auto has_stream = [&](const EncodedToken& t) { return static_cast<size_t>(layer) < t.from->deepstack.size(); };
  if (std::none_of(batch.encoded.begin(), batch.encoded.end(), has_stream)) return x;
  const Storage more(x.shape, x.dtype);
  std::memset(more.tensor().data, 0, more.tensor().bytes());
  for (const EncodedToken& t : batch.encoded)
    if (has_stream(t)) copy_row(t.from->deepstack[static_cast<size_t>(layer)], t.index, more.tensor(), t.row);
  return op.add(x, op.upload(more.tensor()));
}

}  // namespace kvcal
