// The keys of a config.json whose class is not read, and which of them have been understood.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

class UsualKeys {
 public:
  explicit UsualKeys(const Json& text) : text_(text) {}

  /// What the first key that is there says, of `layer` where it has a list; 0 for none. Others that say the same count
  /// as read, too. 0 is none; another value that is no number in [1, most] makes the config absurd.
  int64_t size(std::initializer_list<const char*> keys, int64_t most, int64_t layer = -1);

  /// The value, unless it says nothing: null, false, 0, "", [] or {}.
  const Json* find(const std::string& key) const;
  bool says(const char* key, bool value) const;

  /// The same of a key whose other values say nothing.
  int64_t size_if_any(std::initializer_list<const char*> keys, int64_t most);

  void note(const std::string& key);
  void set_aside(const std::string& key);  // read, and without a part in what is guessed
  bool is_read(const std::string& key) const;
  std::string noted() const;  // "num_hidden_layers, head_dim"

  /// Keys that say something, are not read and by their names may speak of layers, heads, windows or caches.
  std::string unread() const;

  bool absurd() const { return absurd_; }
  const Json& text() const { return text_; }

 private:
  const Json& text_;
  std::vector<std::string> noted_, aside_;
  bool absurd_ = false;
};

}  // namespace kvcal
