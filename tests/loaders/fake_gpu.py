"""vLLM without a GPU: its own CUDA platform, which says that it is one device of a given compute capability.

Whether an attention backend takes a model, which FlashAttention there is, what FP8 needs: the real CUDA answers. Tensors
stay on the CPU, and what only a GPU can do returns nothing.
"""

import types


def platform(major, minor):
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(major, minor), "get_device_name": f"fake sm_{major}{minor}",
        "get_device_uuid": "fake", "get_device_total_memory": 141 << 30, "is_pin_memory_available": False,
        "is_fully_connected": True, "is_integrated_gpu": False, "num_compute_units": 132, "device_count": 1,
        "is_arch_support_pdl": major >= 9, "set_device": None, "manual_seed_all": None, "log_warnings": None,
        "check_if_supports_dtype": None,
        "get_device_communicator_cls": "vllm.distributed.device_communicators.base_device_communicator.DeviceCommunicatorBase",
    }
    members = {name: classmethod(lambda cls, *_, answer=answer, **__: answer) for name, answer in answers.items()}
    members |= {"device_type": "cpu", "device_name": "cuda", "dispatch_key": "CPU", "dist_backend": "gloo"}
    return type("FakeCuda", (NonNvmlCudaPlatform,), members)()


class Nothing:
    """A stream or an event that does nothing, whatever is asked of it."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, _):
        return lambda *_, **__: None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def install(major, minor):
    """Before anything of vLLM that asks for the platform is imported."""
    import torch
    import vllm.platforms

    vllm.platforms._current_platform = platform(major, minor)

    def give(module, **answers):
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, lambda *_, answer=answer, **__: answer)

    properties = types.SimpleNamespace(
        major=major, minor=minor, name=f"fake sm_{major}{minor}", multi_processor_count=132, total_memory=141 << 30,
        is_integrated=False, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
        gcnArchName="", warp_size=32, L2_cache_size=50 << 20, regs_per_multiprocessor=65536,
    )
    give(torch.cuda, current_device=0, get_device_capability=(major, minor), get_device_properties=properties,
         get_device_name=properties.name, current_stream=Nothing(), stream=Nothing(), empty_cache=None, synchronize=None,
         mem_get_info=(100 << 30, 141 << 30))
    torch.cuda.Stream = torch.cuda.Event = Nothing
    give(torch.accelerator, empty_cache=None, max_memory_allocated=0, current_device_index=0, synchronize=0,
         reset_peak_memory_stats=0, memory_reserved=0, memory_allocated=0)
