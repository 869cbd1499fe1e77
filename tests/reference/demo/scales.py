"""Right and wrong scales of a demo model, from what was measured of it."""

FP8_MAX = 448.0
Scales = dict[int, tuple[float, float]]  # layer -> of K, of V


def scale_table(absmax: Scales, brief: bool) -> list[tuple[str, Scales]]:
    """The rows of the table: right, wrong and mixed-up scales."""
    exact = {layer: (k / FP8_MAX, v / FP8_MAX) for layer, (k, v) in absmax.items()}

    def times(factor: float) -> Scales:
        return {layer: (k * factor, v * factor) for layer, (k, v) in exact.items()}

    layers = list(exact)
    rows = [("scale 1.0", {layer: (1.0, 1.0) for layer in layers}), ("absmax/448", exact), ("2 absmax/448", times(2))]
    if not brief:
        rows += [(f"too small: absmax/448 / {factor}", times(1 / factor)) for factor in (4, 16, 64)]
        rows += [(f"too large: absmax/448 x {factor}", times(factor))
                 for factor in (64, 1024, 16384, 65536, 262144, 1048576)]
    rows += [("k_scale and v_scale swapped", {layer: (v, k) for layer, (k, v) in exact.items()}),
             ("layers mixed up", {layer: exact[other] for layer, other in zip(layers, layers[1:] + layers[:1])})]
    if not brief:
        rows += [("K only, absmax/448 / 16", {layer: (k / 16, v) for layer, (k, v) in exact.items()}),
                 ("V only, absmax/448 / 16", {layer: (k, v / 16) for layer, (k, v) in exact.items()})]
    return rows
