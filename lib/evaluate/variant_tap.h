// What a variant does where a server writes its cache.
#pragma once

#include <memory>

#include "evaluate/row_errors.h"
#include "evaluate/variant.h"
#include "model/kv_tap.h"
#include "model/model_spec.h"
#include "ops/ops.h"

namespace kvcal {

/// A RoundingTap; of the floor one that rounds nothing and has attention add up the products of a query and a key in
/// another order. With MLA it compares absorbed queries with rows, as decoding does, where prefill expands both. Refers
/// to all of them. keep_recent: as a RoundingTap has it. errors: where those of rows are added; null: nowhere.
std::unique_ptr<KvTap> tap_of(const Variant& variant, const ModelSpec& spec, Ops& op, int64_t keep_recent,
                              RowErrors* errors = nullptr);

}  // namespace kvcal
