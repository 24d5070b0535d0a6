"""Every layer of every network that transformers has, with tiny random weights."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from encoders.tiny import word_tokenizer
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.errors import UserError

_BY_SIZE = {
    16: "hidden_size d_model n_embd dim embedding_size word_embed_proj_dim attention_hidden_size "
    "moe_intermediate_size shared_expert_intermediate_size",
    32: "intermediate_size ffn_dim n_inner d_ff d_inner hidden_dim",
    3: "num_hidden_layers n_layer n_layers num_layers eos_token_id sep_token_id",
    2: "num_attention_heads n_head n_heads num_key_value_heads num_experts_per_tok n_mamba_heads "
    "type_vocab_size bos_token_id cls_token_id",
    8: "head_dim q_lora_rank kv_lora_rank v_head_dim state_size hidden_size_per_layer_input "
    "mamba_d_state mamba_d_head",
    4: "num_experts n_routed_experts num_local_experts mamba_n_heads qk_nope_head_dim "
    "qk_rope_head_dim time_step_rank",
    1: "n_group topk_group mamba_n_groups",
    150: "max_position_embeddings n_positions",
    25: "vocab_size vocab_size_per_layer_input",
    0: "pad_token_id",
}
SIZES = {name: size for size, names in _BY_SIZE.items() for name in names.split()}
LARGEST = 5_000_000
"""Parameters of a network that is still tried."""


def tiny_config(kind):
    """A configuration of three blocks, as small as its class allows without a look at it."""
    make = CONFIG_MAPPING[kind]
    usual = make()
    entries = usual.to_dict()
    known = entries.keys() - getattr(make, "attribute_map", {}).keys()
    sizes: dict[str, Any] = {
        name: size
        for name, size in SIZES.items()
        if name in known and not isinstance(entries[name], list | dict)
    }
    count = getattr(usual, "num_hidden_layers", None)
    for name, value in entries.items():
        if isinstance(value, list) and len(value) == count:
            sizes[name] = value[:3]  # an entry for each block
    return make(**sizes)


def network_of(kind):
    """A random network that reads texts; the test is skipped where it cannot be made."""
    try:
        config = tiny_config(kind)
        with torch.device("meta"):
            size = sum(x.numel() for x in AutoModel.from_config(config).parameters())
        if size > LARGEST:
            pytest.skip(f"{size} parameters")
        network = AutoModel.from_config(config).eval()
    except Exception as error:  # configurations raise a dozen types
        pytest.skip(f"is not made: {error}")
    if "input_ids" not in inspect.signature(network.forward).parameters:
        pytest.skip("reads no text")
    if not isinstance(getattr(config, "num_hidden_layers", 0), int):
        pytest.skip("is refused by its configuration")
    for parameter in network.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.3)
    return network


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MODEL_MAPPING_NAMES)
def test_each_layer_is_that_of_transformers(kind):
    torch.manual_seed(0)
    network = network_of(kind)
    tokenizer = word_tokenizer()
    texts = ["the cat sleeps on the mat", "a dog"]
    features = tokenizer(texts, padding=True, return_tensors="pt")
    inputs = inspect.signature(network.forward).parameters
    given = {name: features[name] for name in features if name in inputs}
    if "use_cache" in inputs:
        given["use_cache"] = False
    try:
        encoder = SentenceEncoder(Backbone(network, tokenizer), sink_token="")
        encoder.embed(texts)
        with torch.no_grad():
            output = network(**given, output_hidden_states=True, return_dict=True)
    except (UserError, AttributeError) as error:
        pytest.skip(f"is refused: {error}")
    last = getattr(output, "last_hidden_state", output.hidden_states[-1])
    states = (*output.hidden_states[:-1], last)
    mask = features["attention_mask"].unsqueeze(-1)
    for layer, state in enumerate(states):
        expected = (state * mask).sum(dim=1) / mask.sum(dim=1)
        found = encoder.read(layers=layer)(encoder.tokenize(texts))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
