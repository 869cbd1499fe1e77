// ModelOpt's INT4 (INT4_AWQ, W4A16_AWQ, W4A8_AWQ): two rows of 4 bits in a byte, made for TensorRT-LLM alone. Not read.
#include "base/error.h"
#include "checkpoint/formats/stored_weight.h"

namespace kvcal {

void refuse_modelopt_int4(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.name, {DType::U8});
  // Of all experts in one tensor this shape is NVFP4 whose experts lie as [in / 2, out].
  if (!packed || request.shape.rank() != 2 || packed->shape != Shape{request.out() / 2, request.in()} ||
      request.out() % 2 || !request.checkpoint.has(request.beside("_scale")))
    return;
  fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as " + str(*packed) +
       ": INT4 of "
       "ModelOpt (" +
       (request.checkpoint.has(request.beside("_scale_2")) ? "W4A8_AWQ" : "INT4_AWQ, W4A16_AWQ") +
       "), which is not read and which vLLM and SGLang do not load; use the BF16 checkpoint that it was made from, or "
       "an "
       "AWQ, GPTQ or compressed-tensors (pack-quantized) export of it");
}

}  // namespace kvcal
