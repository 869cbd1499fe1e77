"""Where the recorder meets vLLM: its layers and its steps. `plugin` is the module kv_cache_scales.vllm, from wherever it came."""

import torch

import kvcal.recorder as recording


def start(plugin, model, vllm_config, model_config):
    """Hooks a recorder into this worker. Whatever is wrong is said in one line, and the server goes on without it."""
    if getattr(model, "_kv_cache_recorder", None) is not None:  # a loader that calls the one below
        return
    try:
        recorder, modules = _start_recorder(plugin, model, vllm_config, model_config)
        _hook_steps(recorder)
    except Exception as error:
        reason = str(error) if isinstance(error, (recording.RecorderError, plugin.ScaleError)) else repr(error)
        return plugin.log.error("kv-cache-record: nothing is recorded: %s", reason)
    for layer, module in modules:
        (_hook_row if hasattr(module, "kv_lora_rank") else _hook_cache)(recorder, layer, module)
    model._kv_cache_recorder = recorder
    plugin.log.info("kv-cache-record: %s", recorder)


def _start_recorder(plugin, model, vllm_config, model_config):
    parallel = vllm_config.parallel_config
    if parallel.pipeline_parallel_size > 1:
        raise recording.RecorderError("pipeline stages have some of the layers each, and no way to put them together")
    tp_rank, tp_size = plugin._tensor_parallel()
    modules, heads = [], {}
    for name, module in plugin._caches(model):
        index = plugin.layer_index(getattr(module, "kv_sharing_target_layer_name", None) or name)
        if index is None:
            raise recording.RecorderError(f"{name}: its name does not say which layer it is")
        if hasattr(module, "kv_lora_rank") and getattr(module, "W_UK_T", None) is None:
            raise recording.RecorderError(f"{name}: MLA whose part of kv_b_proj for keys is stored in a form that is not read")
        modules.append((index, module))
        if getattr(module, "kv_sharing_target_layer_name", None) is None:
            cache = plugin._cache_of(name, module)
            heads[index] = recording.Heads(cache.n_heads, cache.n_kv_heads, cache.head_dim_k, cache.head_dim_v)
    folder = plugin.local_folder(model_config.model, model_config.revision, vllm_config.load_config.download_dir)
    replica = f"dp{parallel.data_parallel_rank}" if parallel.data_parallel_size > 1 else ""
    place = recording.Place(torch.device(vllm_config.device_config.device), tp_rank, tp_size, replica)
    given = vllm_config.additional_config["kv_cache_record"]
    return recording.start(given, heads, lambda *names: plugin.weights_fingerprint(folder, *names), place), modules


def _hook_cache(recorder, layer, module):
    """Where a layer's keys, values and queries come together, inside of an op that no compiler looks into."""
    forward, shares = module.impl.forward, getattr(module, "kv_sharing_target_layer_name", None) is not None

    def recording_forward(layer_module, query, key, value, *args, **kwargs):
        if recorder.active:
            if query.dtype.itemsize == 1:  # quantized before the attention
                query = query.float() * layer_module._q_scale
            recorder.add(layer, query=query, **({} if shares else {"key": key, "value": value}))
        return forward(layer_module, query, key, value, *args, **kwargs)

    module.impl.forward = recording_forward


def _hook_row(recorder, layer, module):
    """The same of latent attention. Its queries count as a decoding kernel has them: in the space of the latent row."""
    forward, nope = module.forward_impl, module.qk_nope_head_dim

    def recording_forward(query, latent, rope, *args, **kwargs):
        if recorder.active:
            with recorder.guarded():
                absorbed = torch.bmm(query[..., :nope].transpose(0, 1), module.W_UK_T).transpose(0, 1)
                recorder.add(layer, latent=latent.unsqueeze(1), rope=rope.reshape(len(rope), 1, -1),
                             query=torch.cat([absorbed, query[..., nope:]], dim=-1))
        return forward(query, latent, rope, *args, **kwargs)

    module.forward_impl = recording_forward


def _hook_steps(recorder):
    """Steps of the worker; those that are recorded replay no graph of the whole step, in which no Python runs."""
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager
    from vllm.v1.worker.gpu_worker import Worker

    execute, shutdown = Worker.execute_model, Worker.shutdown
    dispatch, dispatch_v2 = CudagraphDispatcher.dispatch, CudaGraphManager.dispatch

    def recording_execute(self, scheduler_output):
        with recorder.step(_positions(self.model_runner, scheduler_output.total_num_scheduled_tokens)):
            return execute(self, scheduler_output)

    def recording_shutdown(self):
        recorder.close()
        shutdown(self)

    def dispatch_pieces(self, *args, invalid_modes=None, **kwargs):
        from vllm.config import CUDAGraphMode

        if recorder.active:
            invalid_modes = {CUDAGraphMode.FULL} | set(invalid_modes or ())
        return dispatch(self, *args, invalid_modes=invalid_modes, **kwargs)

    def dispatch_no_graph(self, *args, **kwargs):
        captured, self._graphs_captured = self._graphs_captured, self._graphs_captured and not recorder.active
        try:
            return dispatch_v2(self, *args, **kwargs)
        finally:
            self._graphs_captured = captured

    Worker.execute_model, Worker.shutdown = recording_execute, recording_shutdown
    CudagraphDispatcher.dispatch, CudaGraphManager.dispatch = dispatch_pieces, dispatch_no_graph


def _positions(runner, n_tokens):
    """Of the step's tokens, in their sequences: the runner's buffer, which it fills before the model runs."""
    buffer = getattr(runner, "positions", None)
    if buffer is None:
        buffer = runner.input_buffers.positions
    return buffer[:n_tokens] if n_tokens else None
