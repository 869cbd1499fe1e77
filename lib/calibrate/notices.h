// What a calibration has to say in words. lib/ prints nothing: a listener shows it, or records it.
#pragma once

#include <cstdint>
#include <string>

namespace kvcal {

enum class Notice : uint8_t {
  Warning,  // the result may not be what was meant
  Advice,   // a warning that somebody who asked for quiet can do without
  Note,     // what was decided
  Detail,   // for those who look closely
};

/// One line each, without a prefix and without an end of line.
class NoticeListener {
 public:
  virtual ~NoticeListener() = default;
  virtual void hear(Notice, const std::string& /*text*/) {}
};

}  // namespace kvcal
