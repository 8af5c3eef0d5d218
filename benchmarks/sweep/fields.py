"""The sizes of a tiny model, by the names that configurations give them: the same for every type."""

from __future__ import annotations

LENGTH = 22
"""Positions of an audited row: beyond every window, chunk, block and top-k below, and no other size."""

WIDTH, WINDOW, VOCAB = 32, 5, 96

_NAMES: dict[int, tuple[str, ...]] = {
    200: ("encoder_hash_byte_group_vocab",),
    VOCAB: (
        "vocab_size decoder_vocab_size unpadded_vocab_size vocab_size_per_layer_input audio_vocab_size",
        "codebook_size shape_vocab_size pronunciation_vocab_size",
    ),
    64: (
        "max_position_embeddings n_positions n_ctx max_seq_len model_max_length max_source_positions",
        "max_target_positions context_length original_max_position_embeddings rel_extent",
        "log_scaling_n_floor",
    ),
    48: (
        "intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim ffn_hidden_size dff dim_ff d_inner",
        "feed_forward_size intermediate_size_mlp dense_intermediate_size",
    ),
    WIDTH: (
        "hidden_size d_model n_embd emb_dim embedding_dim word_embed_proj_dim embedding_size",
        "input_embedding_size output_embedding_size attention_hidden_size lru_width mamba_d_ssm",
        "hidden_size_global backbone_hidden_size vision_output_dim pronunciation_embed_dim",
        "shape_embed_dim",
    ),
    16: (
        "moe_intermediate_size shared_expert_intermediate_size shared_experts_intermediate_size",
        "shared_intermediate_size expert_ffn_hidden_size moe_shared_expert_intermediate_size",
        "mamba_head_dim router_hidden_size hidden_size_per_layer_input laurel_rank index_n_heads",
    ),
    8: (
        "head_dim swa_head_dim dim_head d_head v_head_dim swa_v_head_dim qk_nope_head_dim",
        "global_head_dim index_head_dim linear_head_dim linear_key_head_dim linear_value_head_dim",
        "attention_head_size kv_lora_rank q_lora_rank o_lora_rank kv_channels gated_norm_rank",
        "adapter_rank loop_gate_rank d_rel hc_lowrank ssm_state_size state_size mamba_d_state",
    ),
    WINDOW: (
        "sliding_window window_size sliding_window_size attention_window_size",
        "local_attention_window_len",
    ),
    4: (
        "num_attention_heads n_head num_heads attention_heads decoder_attention_heads n_heads",
        "encoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads",
        "swa_num_attention_heads linear_num_heads linear_num_value_heads",
        "linear_num_key_heads n_mamba_heads num_query_groups qk_rope_head_dim rotary_dim",
        "num_experts n_routed_experts num_local_experts moe_num_experts zero_expert_num",
        "chunk_size mamba_chunk_size attention_chunk_size conf_attention_chunk_size block_size",
        "index_block_size local_attn_chunk_length lsh_attn_chunk_length patch_size floor_scale",
        "local_attention mamba_num_heads",
    ),
    3: ("index_topk keep_window_size",),
    2: (
        "num_key_value_heads swa_num_key_value_heads kv_n_heads num_kv_heads n_group num_expert_group",
        "num_hidden_layers n_layer n_layers num_layers num_blocks decoder_layers encoder_layers depth",
        "num_encoder_layers num_decoder_layers num_layers_per_stack num_experts_per_tok",
        "num_experts_per_token moe_topk moe_top_k moe_k prompt_length",
    ),
    1: (
        "topk_group n_groups mamba_n_groups mamba_ngroups n_shared_experts num_shared_experts",
        "moe_num_shared_experts num_nextn_predict_layers first_k_dense_replace num_dense_layers",
        "moe_layer_start_index index_topk_blocks num_random_blocks",
    ),
}

SMALL: dict[str, int] = {
    name: size for size, lines in _NAMES.items() for line in lines for name in line.split()
}
"""The largest value of a field of this name in a tiny model."""
