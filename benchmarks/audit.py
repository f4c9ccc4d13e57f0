"""How many faults an audit finds, and what it says of modules that have none.

Recall is over the gallery of tests/auditing: a fault counts as found if a rule of
:data:`ACCEPTED`, which names what was done to the network, is raised where the network without
the fault does not raise it. False alarms are over modules of timm, torchvision and transformers
as they come, at random weights: every fault and risk that they get is listed, to be read. The
packages are no dependency; modules of those that are not installed are listed as not built.

It takes an hour or so. What is done is kept in ``bench-audit.json`` of the working directory,
with the commit that it was measured at: a second start goes on from there.
"""

import contextlib
import importlib
import io
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import lnlab
from lnlab.auditing import Call, Severity
from tests.auditing import gallery
from tests.auditing import gallery_of_later_faults as later
from tests.auditing import gallery_of_published_faults as _published  # noqa: F401

LOGITS = ("over-confident", "logits-bounded")
NEVER_TRAINED = ("parameter-unused", "gradient-cut", "gradient-differs")
AXES = ("norm-wrong-axes", "norm-evaluation", "norm-mixes-examples", "examples-mix")
STALE = ("running-statistics-stale", "running-statistics-stuck", "norm-evaluation")
CONSTANT = ("input-ignored", "parameter-unused", "gains-off")

ACCEPTED: dict[str, tuple[str, ...]] = {
    "statistics over the wrong axis": AXES,
    "statistics over time leak the future": ("norm-wrong-axes", "answer-leaks"),
    "variance over N - 1": ("variance-unbiased",),
    "eps outside the root": ("eps-outside-root",),
    "eps far too large": ("eps-decides",),
    "variance in a single pass": ("variance-cancels",),
    "sigma without gradient": ("norm-differs", "norm-gradient", "gradient-differs"),
    "one value per group": (*CONSTANT, "parameter-partly-unused", "gradient-taken"),
    "a norm that is never called": ("parameter-unused",),
    "gain 0": CONSTANT,
    "frozen running statistics": STALE,
    "running variance of 0": STALE,
    "momentum 0": ("running-statistics-stuck", "norm-differs"),
    "momentum 1": ("momentum-large",),
    "batch statistics in evaluation": ("norm-evaluation", "examples-mix"),
    "one batch norm for two distributions": ("norm-of-several",),
    "a bias without effect": ("bias-without-effect",),
    "dropout in evaluation": ("random-in-evaluation",),
    "dropout of 1": ("dropout-of-all",),
    "an over-confident start": LOGITS,
    "attention logits too large": ("attention-saturated",),
    "weights of very different scale": ("weights-apart",),
    "branches of very different scale": ("branches-apart",),
    "a cut graph": NEVER_TRAINED,
    "layers that are not registered": ("parameter-unregistered",),
    "parameters that are frozen": ("parameter-frozen",),
    "a branch multiplied by 0": ("parameter-unused", "channels-of-zeros"),
    "a softmax before the cross-entropy": ("logits-bounded",),
    "an activation on the logits": ("logits-clipped",),
    "a part of the input is ignored": ("input-ignored",),
    "dead units": ("layer-dead", "units-dead"),
    "saturated units": ("saturated", "gate-saturated"),
    "gradients that vanish": ("gradient-steep", "signal-steep"),
    "gradients that explode": ("gradient-steep", "signal-steep", "overflow"),
    "all units start equal": ("units-equal",),
    "a residual connection is missing": ("examples-alike", "gradient-steep"),
    "layer norm over the width of an image": ("norm-over-width",),
    "time taken for channels": ("norm-over-steps", "answer-leaks"),
    "a unit norm over the default axis": ("norm-wrong-axes", "answer-leaks"),
    "statistics over padded steps": ("statistics-of-padding",),
    "the last output belongs to the padding": ("padding-read",),
    "a softmax over the batch": ("examples-mix",),
    "batch norm over two examples": ("statistics-of-few",),
    "batch norm over one image": ("statistics-of-few",),
    "a pooled branch that is constant": (*CONSTANT, "gradient-taken"),
    "instance norm before an average over space": CONSTANT,
    "a bias before an instance norm": ("bias-without-effect",),
    "instance norm with running statistics": ("norm-evaluation",),
    "momentum of the other convention": ("momentum-large",),
    "a deviation loaded as a running variance": STALE,
    "running sums loaded as averages": STALE,
    "running statistics that one batch has poisoned": (*STALE, "output-not-finite", "overflow"),
    "functional batch norm without training": STALE,
    "running statistics that are not buffers": ("state-unsaved",),
    "a norm shared between layers": ("norm-of-several", "module-repeated"),
    "drop path without its division": ("dropout-unscaled",),
    "dropout before a batch norm": ("dropout-before-batch-norm",),
    "dropout scaled in both modes": ("dropout-unscaled",),
    "dropout on the logits": ("dropout-at-end",),
    "pre-norm without a final norm": (),
    "post-norm in a deep network": ("gradient-steep",),
    "an input added twice": ("signal-steep",),
    "a branch scaled twice": ("branches-apart",),
    "one block repeated": ("module-repeated",),
    "layers that start as copies": ("weights-equal",),
    "a plain gain that starts at 0": (*CONSTANT, "branch-of-zeros"),
    "a gain 1 + w loaded as a plain gain": ("gains-of-both-signs",),
    "the 1 of a gain added twice": (),
    "squares that overflow in half precision": (*CONSTANT, "overflow"),
    "logits divided by a temperature of 0.01": LOGITS,
    "cosine logits without a scale": ("logits-bounded",),
    "a norm on the logits": ("logits-bounded",),
    "an embedding without its scale": ("branches-apart",),
    "an embedding scaled twice": ("branches-apart",),
    "tied weights that a copy has parted": ("weights-equal",),
    "an input divided by 255 twice more": ("eps-decides", "examples-alike"),
    "a deep stack that starts too small": ("signal-steep", "gradient-steep"),
    "a causal mask that fills with 1e-9": ("answer-leaks",),
    "a causal mask that is inverted": ("answer-leaks",),
    "a causal mask one step late": ("answer-leaks",),
    "a mask of 0 and 1 that is added": ("answer-leaks",),
    "attention that sums to 1 over the queries": ("answer-leaks",),
    "attention multiplied by a mask after the softmax": ("answer-leaks",),
    "attention scaled twice": (),
    "heads merged without a transpose": ("answer-leaks",),
    "positions that are not added": ("parameter-unused",),
    "positions counted over the batch": ("examples-mix",),
    "logits viewed where a transpose was meant": ("answer-leaks",),
    "the batch taken for time": ("examples-mix",),
    "a last state viewed where a transpose was meant": ("examples-mix",),
    "a loss that broadcasts": ("loss-broadcasts",),
    "a state detached at each step": ("gradient-differs",),
    "a state kept between batches": ("state-kept",),
    "a state that starts at random": ("random-in-evaluation",),
    "the last output of two directions": ("parameter-unused",),
    "rounding without a gradient": NEVER_TRAINED,
    "a gradient of NaN behind torch.where": ("gradient-not-finite",),
    "a gain that is not a leaf": ("parameter-unregistered",),
    "activations that are missing": ("no-activation", "result-lost"),
    "divided by the variance": ("norm-differs",),
    "a mean that is not subtracted": ("norm-differs",),
    "a sum of squares where their mean was meant": ("norm-differs", "branches-apart"),
    "gain and bias before the statistics": ("norm-differs",),
    "running statistics used in training": (*STALE, "norm-differs", "gradient-differs"),
    "a branch scaled below the rounding of its sum": (*CONSTANT, "branches-apart"),
    "a backward pass that is not the gradient": ("gradient-differs",),
    "a clamp that most values reach": ("saturated", "logits-clipped"),
    "a row of attention that is masked entirely": ("answer-leaks",),
    "a padding index that is a real token": ("parameter-partly-unused", "input-ignored"),
    "a feature in other units": ("input-ignored", "saturated", "gate-saturated"),
    "a likelihood of logits without log-softmax": ("loss-of-raw-logits",),
    "weights drawn with a deviation of 1": (*LOGITS, "attention-saturated", "gate-saturated"),
    "a skip connection that drowns the other half": ("branches-apart", "input-ignored"),
}
"""The rules that name each fault of the gallery. None: no rule of the audit is about it."""


FACTS_ALONE = ("curvature", "weight invariances", "effective learning rates")
"""Checks that take long and say next to nothing but facts: they are skipped."""

KEPT = Path("bench-audit.json")
"""Where the results are kept, each as soon as it is there."""


def main(json: bool) -> None:
    """Print recall by fault, and the alarms of each module, as tables or as JSON."""
    warnings.filterwarnings("ignore")
    kept = loads(KEPT.read_text()) if KEPT.exists() else {}
    if kept and not json:
        print(f"{len(kept)} results are kept in {KEPT}: delete it to measure again.")
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    for name, measure in {**faults(), **modules()}.items():
        if name not in kept:
            kept[name] = measure() | {"commit": commit}
            new = KEPT.with_suffix(".new")
            new.write_text(dumps(kept, indent=1))
            new.replace(KEPT)  # whole, whenever it is interrupted
        if not json and "findings" in kept[name]:
            print_module(name, kept[name])
    if json:
        print(dumps(kept, indent=1))
    else:
        print_summary(kept)


def print_module(name: str, result: dict[str, Any]) -> None:
    """Print what became of a module, and its faults and risks."""
    if result["why not"]:
        print(f"{name}: not built or not audited: {result['why not']}")
        return
    print(f"{name}: {result['seconds']:.0f} s, {len(result['findings']) or 'no'} alarms")
    for finding in result["findings"]:
        print("    " + "  ".join(finding))


def print_summary(kept: dict[str, Any]) -> None:
    """Print recall by fault, the numbers of each package, and the alarms by rule."""
    pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    alarms: dict[str, list[str]] = defaultdict(list)
    packages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, result in kept.items():
        if "found" in result:
            is_bad = bool({"fault", "risk"} & set(result["rules"].values()))
            pairs[name.rpartition(" in ")[0]].append((result["found"], is_bad))
            continue
        packages[name.partition(" ")[0]].append(result)
        for severity, rule, *_ in result["findings"]:
            alarms[f"{severity} {rule}"].append(name)
    for name, results in pairs.items():
        print(f"{sum(found for found, _ in results)} of {len(results)}  {name}")
    new = {name for name, plants in gallery.FAULTS.items() if _is_later(plants)}
    for title, names in (("earlier", pairs.keys() - new), ("later", new & pairs.keys())):
        results = [result for name in names for result in pairs[name]]
        named, is_bad = (sum(result[i] for result in results) for i in (0, 1))
        print(
            f"faults written {title} than the checks: {named} of {len(results)} are named; "
            f"{is_bad} get a fault or a risk that the healthy network does not get"
        )
    for rule, names in alarms.items():
        print(f"{len(names):4}  {rule}: {', '.join(names)}")
    for package, audits in packages.items():
        audited = [result for result in audits if not result["why not"]]
        alarmed = sum(bool(result["findings"]) for result in audited)
        print(
            f"{package}: {alarmed} of {len(audited)} modules with a fault or risk; "
            f"{len(audits) - len(audited)} not built or not audited"
        )


def _is_later(plants: dict[str, gallery.Plant]) -> bool:
    return any(plant.__module__ == later.__name__ for plant in plants.values())


Measure = Callable[[], dict[str, Any]]


def faults() -> dict[str, Measure]:
    """Return what measures whether the audit finds each fault in each host, by their names."""
    healthy: dict[str, dict[str, str]] = {}

    def measure(name: str, host: str) -> dict[str, Any]:
        if not healthy:
            healthy.update((p.name, _rules(p)) for p in gallery.healthy())
        rules = _rules(gallery.plant(name, host))
        new = {rule: severity for rule, severity in rules.items() if rule not in healthy[host]}
        return {"found": bool(new.keys() & set(ACCEPTED[name])), "rules": new}

    return {
        f"{name} in {host}": lambda name=name, host=host: measure(name, host)
        for name, hosts in gallery.FAULTS.items()
        for host in hosts
    }


def _rules(problem: gallery.Problem) -> dict[str, str]:
    """Return the rules of the findings, with their severity."""
    report = lnlab.audit(*problem[1:], skip=FACTS_ALONE)
    return {f.rule: f.severity.word for f in report.findings}


# Modules of others, small and as they come.

VISION = """
squeezenet1_1 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5 googlenet resnet18 mobilenet_v2
efficientnet_b0 regnet_x_400mf regnet_y_400mf densenet121
"""
TIMM = """
test_vit test_resnet test_efficientnet test_byobnet test_convnext test_convnext2 test_convnext3
test_nfnet test_mambaout test_efficientnet_gn test_efficientnet_ln test_efficientnet_evos
mobilenetv3_small_050 lcnet_035 tinynet_e mnasnet_small mobilenetv2_035 ghostnet_050
repghostnet_050 efficientnet_b0 edgenext_xx_small mobilevit_xxs mobilevitv2_050 efficientvit_m0
dla46_c starnet_s1 xcit_nano_12_p16_224 regnetx_002 regnety_002 convnext_atto convnextv2_atto
pvt_v2_b0 efficientformerv2_s0 fasternet_t0 fastvit_t8 pit_ti_224 vit_tiny_patch16_224
deit_tiny_patch16_224 eva02_tiny_patch14_224 efficientvit_b0 mobilenetv4_conv_small_050 shvit_s1
levit_128s gmlp_ti16_224 convit_tiny swiftformer_xs resnet10t mixnet_s tiny_vit_5m_224
"""
TEXT = """
Albert Arcee Bart Bert BigBird BigBirdPegasus BioGpt BitNet Blenderbot BlenderbotSmall
Bloom CTRL Camembert CodeGen Cohere Cohere2 ConvBert Data2VecText Deberta DebertaV2
DiffLlama DistilBert Doge Electra Ernie Ernie4_5 Esm EuroBert Exaone4 FNet FSMT Falcon Flaubert
GPT2 GPTBigCode GPTJ GPTNeo GPTNeoX GPTNeoXJapanese Gemma Gemma2 Gemma3Text Glm Glm4
GptOss Granite GraniteMoe Helium IBert Jamba JetMoe LED Lfm2 Lilt Llama Longformer Luke M2M100
MBart MPNet MT5 Mamba Mamba2 Marian MegatronBert Mistral Mixtral MobileBert ModernBert
Mpt Mra Mvp NanoChat NomicBert Nystromformer OPT Olmo Olmo2 Olmo3 Olmoe OpenAIGPT
PLBart Pegasus Persimmon Phi Phi3 ProphetNet Qwen2 Qwen2Moe Qwen3 Qwen3Moe Reformer RemBert
RoCBert RoFormer Roberta RobertaPreLayerNorm Rwkv SeedOss SmolLM3 Splinter SqueezeBert StableLm
Starcoder2 SwitchTransformers T5 UMT5 VisualBert XGLM XLM XLMRoberta XLMRobertaXL XLNet Xmod
Yoso xLSTM
"""

SIZES: dict[float, str] = {
    0.1: "initializer_range init_std",
    99: "vocab_size",
    64: "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim hidden_dim "
    "max_position_embeddings",
    32: "hidden_size d_model n_embd dim embedding_size",
    8: "d_kv head_dim",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads num_experts num_local_experts",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_key_value_heads num_experts_per_tok",
    0: "pad_token_id",
}
"""The settings of a small model, of which a configuration takes those that it has.

At a deviation of 0.1 rows of 32 weights are as long as rows of 768 at the usual 0.02: signals
have the size that they have in a model of full width.
"""

SETTINGS: dict[str, dict[str, Any]] = {
    "CodeGen": {"rotary_dim": 8},
    "Esm": {"vocab_size": 99, "pad_token_id": 0},
    "Falcon": {"head_dim": None},
    "GPTJ": {"rotary_dim": 8},
    "GPTNeo": {"attention_types": [[["global", "local"], 1]]},
    "LED": {"attention_window": 4},
    "Lilt": {"hidden_size": 48},
    "Longformer": {"attention_window": 4},
    "Luke": {"entity_vocab_size": 99},
    "Mamba2": {"num_heads": 8},
    "ProphetNet": {"num_hidden_layers": None, "num_encoder_layers": 2, "num_decoder_layers": 2},
    "Qwen2Moe": {"moe_intermediate_size": 64},
    "Reformer": {"axial_pos_embds_dim": [8, 24], "axial_pos_shape": [3, 4]},
    "RoCBert": {"pronunciation_vocab_size": 99, "shape_vocab_size": 99},
    "XLNet": {"max_position_embeddings": None},
    "Xmod": {"default_language": "en_XX"},
}
"""What some need besides; None: a setting that is left as it is."""


def modules() -> dict[str, Measure]:
    """Return what audits each module as it comes, by its name."""
    makers = (
        ("transformers", TEXT, _text),
        ("torchvision", VISION, _vision),
        ("timm", TIMM, _timm),
    )
    return {
        f"{package} {name}": lambda name=name, make=make: alarms(lambda: make(name))
        for package, names, make in makers
        for name in names.split()
    }


def alarms(make: Callable[[], tuple[Any, ...]]) -> dict[str, Any]:
    """Return the faults and risks of a module, or why it could not be audited.

    Args:
        make: returns the arguments of the audit.
    """
    torch.manual_seed(0)
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            report = lnlab.audit(*make(), skip=FACTS_ALONE)
    except Exception as error:  # not installed, renamed, or not to be audited
        return {"why not": f"{type(error).__name__}: {str(error)[:200]}", "findings": []}
    bad = [f for f in report.findings if f.severity < Severity.FACT]
    return {
        "why not": "",
        "seconds": time.process_time() - start,
        "findings": [[f.severity.word, f"{f.id} {f.rule}", f.where, f.message] for f in bad],
        "facts": [f.rule for f in report.with_severity("fact")],
        "not run": dict(report.not_run),
    }


def _vision(name: str) -> tuple[Any, ...]:
    models = importlib.import_module("torchvision.models")
    options = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    model = models.get_model(name, num_classes=10, **options)
    return _with_pictures(model, (64, 96, 224))


def _timm(name: str) -> tuple[Any, ...]:
    timm = importlib.import_module("timm")
    for options in ({"img_size": 64}, {"img_size": 128}, {}):
        with contextlib.suppress(Exception):  # of a model that takes any size, or one alone
            model = timm.create_model(name, num_classes=10, **options)
            sizes = (64, 128, model.default_cfg["input_size"][-1])
            return _with_pictures(model, tuple(options.values()) or sizes)
    return timm.create_model(name, num_classes=10), None


def _with_pictures(model: nn.Module, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a model with pictures of the first size that it takes, labels and a loss."""
    for size in sizes:
        # noise would be one and the same picture behind an average
        colours = torch.randn(8 if size < 128 else 2, 3, 8, 8)
        x = functional.interpolate(colours, size=(size, size), mode="bicubic")
        with contextlib.suppress(Exception), torch.no_grad():
            model.eval()(x[:1])
            return model.train(), x, torch.arange(len(x)) % 10, functional.cross_entropy
    raise ValueError(f"it takes no picture of {sizes} pixels.")


def _text(name: str) -> tuple[nn.Module, Any]:
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    make = getattr(transformers, f"{name}Config")
    plain = make()
    small: dict[str, Any] = {
        key: size
        for size, keys in SIZES.items()
        for key in keys.split()
        if getattr(plain, key, None) is not None
    }
    small |= {"use_cache": False} | SETTINGS.get(name, {})
    settings = make(**{key: value for key, value in small.items() if value is not None})
    model = transformers.AutoModel.from_config(settings)
    ids = torch.randint(3, 99, (4, 12))
    if settings.is_encoder_decoder:
        return model, Call(input_ids=ids, decoder_input_ids=ids)
    return model, Call(input_ids=ids)
