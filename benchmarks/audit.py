"""How many faults an audit finds, and what it says of modules that have none.

Recall is over the gallery of tests/auditing: a fault counts as found if a rule of
:data:`ACCEPTED`, which names what was done to the network, is raised where the network without
the fault does not raise it. False alarms are over modules of timm, torchvision and transformers
as they come, at random weights: every fault and risk that they get is listed, to be read. The
packages are no dependency; those that are not installed are left out. It takes an hour or so.
"""

import contextlib
import importlib
import io
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from json import dumps
from typing import Any

import torch
from torch import nn

import lnlab
from lnlab.auditing import Call, Severity
from tests.auditing import gallery
from tests.auditing import gallery_of_later_faults as _later  # noqa: F401
from tests.auditing import gallery_of_published_faults as _published  # noqa: F401

LOGITS = ("over-confident", "logits-bounded")
NEVER_TRAINED = ("parameter-unused", "gradient-cut", "gradient-differs")
AXES = ("norm-wrong-axes", "norm-evaluation", "norm-mixes-cases", "cases-mix")
STALE = ("running-statistics-stale", "running-statistics-stuck", "norm-evaluation")
CONSTANT = ("input-ignored", "parameter-unused", "gains-off")

ACCEPTED: dict[str, tuple[str, ...]] = {
    "statistics over the wrong axis": AXES,
    "statistics over time leak the future": ("norm-wrong-axes", "answer-leaks"),
    "variance over N - 1": ("variance-unbiased",),
    "eps outside the root": ("eps-outside-root",),
    "eps far too large": ("eps-decides",),
    "variance in a single pass": ("variance-cancels",),
    "sigma without gradient": ("norm-differs", "gradient-differs"),
    "one value per group": (*CONSTANT, "parameter-partly-unused", "gradient-taken"),
    "a norm that is never called": ("parameter-unused",),
    "gain 0": CONSTANT,
    "frozen running statistics": STALE,
    "running variance of 0": STALE,
    "momentum 0": ("running-statistics-stuck", "norm-differs"),
    "momentum 1": ("momentum-large",),
    "batch statistics in evaluation": ("norm-evaluation", "cases-mix"),
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
    "a residual connection is missing": ("cases-alike", "gradient-steep"),
    "layer norm over the width of an image": ("norm-over-width",),
    "time taken for channels": ("norm-over-steps", "answer-leaks"),
    "a unit norm over the default axis": ("norm-wrong-axes", "answer-leaks"),
    "statistics over padded steps": ("statistics-of-padding",),
    "the last output belongs to the padding": ("padding-read",),
    "a softmax over the batch": ("cases-mix",),
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
    "a plain gain that starts at 0": CONSTANT,
    "a gain 1 + w loaded as a plain gain": ("gains-of-both-signs",),
    "the 1 of a gain added twice": (),
    "squares that overflow in half precision": (*CONSTANT, "overflow"),
    "logits divided by a temperature of 0.01": LOGITS,
    "cosine logits without a scale": ("logits-bounded",),
    "a norm on the logits": ("logits-bounded",),
    "an embedding without its scale": ("branches-apart",),
    "an embedding scaled twice": ("branches-apart",),
    "tied weights that a copy has parted": ("weights-equal",),
    "an input divided by 255 twice more": ("eps-decides", "cases-alike"),
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
    "positions counted over the batch": ("cases-mix",),
    "logits viewed where a transpose was meant": ("answer-leaks",),
    "the batch taken for time": ("cases-mix",),
    "a last state viewed where a transpose was meant": ("cases-mix",),
    "a loss that broadcasts": ("loss-broadcasts",),
    "a state detached at each step": ("gradient-differs",),
    "a state kept between batches": ("state-kept",),
    "a state that starts at random": ("random-in-evaluation",),
    "the last output of two directions": ("parameter-unused",),
    "rounding without a gradient": NEVER_TRAINED,
    "a gradient of NaN behind torch.where": ("gradient-not-finite",),
    "a gain that is not a leaf": ("parameter-unregistered",),
    "activations that are missing": ("no-nonlinearity", "result-lost"),
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
    "a likelihood of logits without log-softmax": (),
    "weights drawn with a deviation of 1": (*LOGITS, "attention-saturated", "gate-saturated"),
    "a skip connection that drowns the other half": ("branches-apart", "input-ignored"),
}
"""The rules that name each fault of the gallery. None: no rule of the audit is about it."""


def main(json: bool) -> None:
    """Print recall by fault and alarms by rule, as tables or as JSON."""
    warnings.filterwarnings("ignore")
    found, alarms = recall(), false_alarms()
    if json:
        print(dumps({"recall": found, "alarms": alarms}, indent=1))
        return
    for name, hosts in found.items():
        print(f"{sum(hosts.values())} of {len(hosts)}  {name}")
    every = [hit for hosts in found.values() for hit in hosts.values()]
    print(f"found: {sum(every)} of {len(every)} ({sum(every) / len(every):.0%})")
    for rule, names in alarms["rules"].items():
        print(f"{len(names):4}  {rule}: {', '.join(names[:6])}")
    print(f"modules: {alarms['modules']}; with a fault: {alarms['with a fault']}, with a risk: "
          f"{alarms['with a risk']}; not audited: {alarms['not audited']}")  # fmt: skip


def recall(faults: list[str] | None = None) -> dict[str, dict[str, bool]]:
    """Return, for each fault and each host, whether a rule named it."""
    healthy = {p.name: _rules(p) for p in gallery.healthy()}
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for name in faults or gallery.FAULTS:
        for host in gallery.FAULTS[name]:
            new = _rules(gallery.plant(name, host)) - healthy[host]
            found[name][host] = bool(new & set(ACCEPTED[name]))
    return dict(found)


def _rules(problem: gallery.Problem) -> set[str]:
    """Return the rules of the findings, but those of what is merely different."""
    report = lnlab.audit(*problem[1:])
    return {f.rule for f in report.findings}


# Modules of others, small and as they come.

VISION = """
resnet18 resnet50 resnext50_32x4d wide_resnet50_2 vgg11_bn vgg11 densenet121 googlenet
inception_v3 alexnet squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large
shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 regnet_y_400mf regnet_x_400mf convnext_tiny
vit_b_16 swin_t swin_v2_t maxvit_t
"""
TIMM = """
resnet10t resnet14t resnet18 resnet26d resnetv2_50 seresnet18 skresnet18 resnest14d
ecaresnet26t res2net50_26w_4s resnext26ts gernet_s repvgg_a0 dla34 dla46_c vovnet39a
hrnet_w18_small selecsls42 cspresnet50 cspdarknet53 darknet53 densenet121 dpn68 xception41
inception_v3 inception_v4 nf_resnet26 nf_regnet_b0 dm_nfnet_f0 regnetx_002 regnety_002
regnetz_b16 mobilenetv1_100 mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small
mnasnet_small efficientnet_b0 efficientnet_lite0 efficientnetv2_rw_t tf_efficientnetv2_b0
mixnet_s fbnetc_100 spnasnet_100 tinynet_e ghostnet_050 ghostnetv2_100 hardcorenas_a lcnet_035
rexnet_100 semnasnet_075 convnext_atto convnextv2_atto convmixer_768_32 convit_tiny
crossvit_tiny_240 cait_xxs24_224 coat_tiny coatnet_0_rw_224 davit_tiny deit_tiny_patch16_224
deit3_small_patch16_224 edgenext_xx_small efficientformer_l1 efficientformerv2_s0
eva02_tiny_patch14_224 fastvit_t8 fasternet_t0 focalnet_tiny_srf gcvit_xxtiny gmixer_24_224
gmlp_ti16_224 halonet26t hiera_tiny_224 hgnet_tiny inception_next_tiny lambda_resnet26t
levit_128s maxvit_tiny_rw_224 mixer_s32_224 mobilevit_xxs mobilevitv2_050 mvitv2_tiny
nest_tiny nextvit_small pit_ti_224 poolformer_s12 pvt_v2_b0 regnetv_040 repghostnet_050
repvit_m0_9 resmlp_12_224 sequencer2d_s starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224
swinv2_tiny_window8_256 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small
visformer_tiny vit_tiny_patch16_224 volo_d1_224 xcit_nano_12_p16_224
"""
TEXT = """
Albert Bart Bert BigBird BioGpt Bloom Camembert Convbert Ctrl Deberta DebertaV2 Distilbert
Electra Ernie Falcon FNet Funnel Gemma Gemma2 Glm Gpt2 GptNeo GptNeox Gptj Granite Helium Lilt
Llama Longformer MBart Mamba Mistral Mixtral Mobilebert Mpnet Mpt MvP Nystromformer Olmo Olmo2
OpenAIGPT Opt Pegasus Persimmon Phi Phi3 Qwen2 Qwen3 RemBert Roberta Roformer Rwkv Squeezebert
Stablelm Starcoder2 T5 Umt5 Xglm XlmRoberta Xlnet Xmod Yoso
"""

SMALL = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "d_ff": 64, "ffn_dim": 64, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "hidden_dim": 64, "d_kv": 8, "head_dim": 8, "embedding_size": 32,
    "num_local_experts": 4, "pad_token_id": 0, "max_position_embeddings": 64,
    "use_cache": False,
}  # fmt: skip
"""The settings of a small model, of which a configuration takes those that it has."""


def modules() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Any]]]]:
    """Yield a name and a function that makes a module and its input, of what is installed."""
    for name in TEXT.split():
        yield f"transformers {name}", lambda name=name: _text(name)
    for name in VISION.split():
        yield f"torchvision {name}", lambda name=name: _vision(name)
    for name in TIMM.split():
        yield f"timm {name}", lambda name=name: _timm(name)


def _vision(name: str) -> tuple[nn.Module, Any]:
    models = importlib.import_module("torchvision.models")
    options = {"aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    size = {"inception_v3": 96, "vit_b_16": 224, "maxvit_t": 224}.get(name, 64)
    return models.get_model(name, num_classes=10, **options), torch.randn(4, 3, size, size)


def _timm(name: str) -> tuple[nn.Module, Any]:
    timm = importlib.import_module("timm")
    sizes: list[dict[str, Any]] = [{"img_size": 64}, {}]
    for options in sizes:
        with contextlib.suppress(Exception):
            model = timm.create_model(name, num_classes=10, **options)
            break
    else:
        raise ValueError(f"timm has no {name}")
    size = options.get("img_size") or (
        model.default_cfg["input_size"][-1] if _fixed(model) else 64
    )
    return model, torch.randn(4, 3, size, size)


def _fixed(model: nn.Module) -> bool:
    """Return True if a model does not take images of 64 x 64 pixels."""
    try:
        with torch.no_grad():
            model.eval()(torch.randn(1, 3, 64, 64))
    except Exception:  # a model of others may raise anything
        return True
    finally:
        model.train()
    return False


def _text(name: str) -> tuple[nn.Module, Any]:
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, f"{name}Config", None)
    names = {n.lower(): n for n in dir(transformers)}
    config = config or getattr(transformers, names[f"{name.lower()}config"])
    settings = config()
    for key, value in SMALL.items():
        if getattr(settings, key, None) is not None:
            with contextlib.suppress(Exception):
                setattr(settings, key, value)
    model = transformers.AutoModel.from_config(settings)
    ids = torch.randint(3, 99, (4, 12))
    if settings.is_encoder_decoder:
        return model, Call(input_ids=ids, decoder_input_ids=ids)
    return model, Call(input_ids=ids)


FACTS_ALONE = ("curvature", "invariances", "effective learning rates")
"""Checks that take long and say next to nothing but facts."""


def false_alarms(only: Callable[[str], bool] = lambda name: True) -> dict[str, Any]:
    """Return the faults and risks of unmodified modules, by rule, and how many have any."""
    rules: dict[str, list[str]] = defaultdict(list)
    counts, failed = Counter(), {}
    for name, make in modules():
        if not only(name):
            continue
        torch.manual_seed(0)
        start = time.process_time()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                report = lnlab.audit(*make(), skip=FACTS_ALONE)
        except Exception as error:  # not installed, renamed, or not to be audited
            failed[name] = f"{type(error).__name__}: {str(error)[:100]}"
            continue
        counts["modules"] += 1
        for severity in (Severity.FAULT, Severity.RISK):
            counts[severity.word] += bool(report.of(severity))
            for finding in report.of(severity):
                rules[f"{severity.word} {finding.id} {finding.rule}"].append(name)
        seconds = time.process_time() - start
        bad = [f.rule for f in report.findings if f.severity < Severity.FACT]
        print(f"{name}: {seconds:.0f} s, {', '.join(bad) or 'nothing'}", flush=True)
    return {
        "modules": counts["modules"],
        "with a fault": counts["fault"],
        "with a risk": counts["risk"],
        "rules": dict(sorted(rules.items(), key=lambda item: -len(item[1]))),
        "not audited": failed,
    }
