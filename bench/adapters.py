"""What PEFT makes of low-rank adapters, for spec/adapters_spec.lua.

    python bench/adapters.py make
        writes spec/golden/models/adapters/NAME: adapters drawn at random for the tiny models of
        spec/golden/models, and logits
    python bench/adapters.py check MODEL DIR
        writes DIR/logits.safetensors: PEFT's logits of adapters that heed wrote for a tiny model
"""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

GOLDEN = pathlib.Path(__file__).parent.parent / "spec/golden"
IDS = torch.tensor([[1, 5, 9, 2, 20, 13, 7, 12], [3, 4, 19, 8, 21, 0, 2, 11]])
CONFIGS = {
    "qwen2": LoraConfig(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"]),
    "gpt2": LoraConfig(r=2, lora_alpha=4, use_rslora=True, lora_dropout=0.25, fan_in_fan_out=True,
                       target_modules=["c_attn", "c_fc"]),
}


def base(name):
    return AutoModelForCausalLM.from_pretrained(GOLDEN / "models" / name,
                                                dtype=torch.float32).eval()


def make():
    for name, config in CONFIGS.items():
        torch.manual_seed(7)
        model, path = get_peft_model(base(name), config), GOLDEN / "models/adapters" / name
        with torch.no_grad():
            for parameter_name, p in model.named_parameters():
                if "lora_B" in parameter_name:
                    p.normal_(0, 0.3)
        model.eval().save_pretrained(path)
        (path / "README.md").unlink(missing_ok=True)
        config_path = path / "adapter_config.json"
        said = json.loads(config_path.read_text())
        said["base_model_name_or_path"] = name
        config_path.write_text(json.dumps(said, indent=2) + "\n")
        with torch.no_grad():
            save_file({"ids": IDS, "logits": model(IDS).logits}, path / "expect.safetensors")


def check(name, path):
    model = PeftModel.from_pretrained(base(name), path).eval()
    with torch.no_grad():
        save_file({"logits": model(IDS).logits}, f"{path}/logits.safetensors")


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
