#include "evaluate/state_formats.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kvcal {
namespace {

using NamedFormat = std::pair<std::string, StateFormat>;

std::vector<NamedFormat> formats() {
  std::vector<NamedFormat> all;
  for (const auto& [name, type] :
       {std::pair{"bf16", StateType::Bf16}, {"f16", StateType::F16}, {"f16_stochastic", StateType::F16Stochastic}})
    all.push_back({name, {type, StateScale::Tensor}});
  for (const auto& [name, type] : {std::pair{"fp8_e4m3", StateType::E4m3},
                                   {"fp8_e5m2", StateType::E5m2},
                                   {"int8", StateType::Int8},
                                   {"int16", StateType::Int16}})
    for (const auto& [per, scale] : {std::pair{"", StateScale::Tensor},
                                     {"_per_head", StateScale::Head},
                                     {"_per_tile", StateScale::Tile},
                                     {"_per_row", StateScale::Row}})
      all.push_back({std::string(name) + per, {type, scale}});
  return all;
}

}  // namespace

std::vector<std::string> state_format_names() {
  std::vector<std::string> names;
  for (const NamedFormat& format : formats()) names.push_back(format.first);
  return names;
}

StateFormat state_format(std::string_view name) {
  const std::vector<NamedFormat> all = formats();
  const auto found = std::ranges::find(all, name, &NamedFormat::first);
  if (found == all.end()) fail_unknown("format of a recurrent state", std::string(name), state_format_names());
  return found->second;
}

}  // namespace kvcal
