#include "ptx/forms.h"

namespace ptx {

const Forms& forms() {
  static const Forms all = [] {
    Forms forms;
    for (const auto add : {add_integer_forms, add_extended_forms, add_logic_forms, add_float_forms, add_pair_forms,
                           add_comparison_forms, add_conversion_forms, add_move_forms, add_memory_forms,
                           add_atomic_forms, add_control_forms, add_exchange_forms, add_matrix_forms, add_copy_forms})
      add(forms);
    return forms;
  }();
  return all;
}

}  // namespace ptx
