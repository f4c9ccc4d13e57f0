"""Three LSTMs, a window that moves along a text, and a mixture for the next point."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from lnlab.nn import Identity, LayerNorm, Linear, NormLayer, State
from lnlab.nn.recurrent import LSTM
from lnlab.papers.handwriting.data import Alphabet, HandwritingDataset, OffsetMeanAndStd
from lnlab.papers.handwriting.pen import Line
from lnlab.papers.models import cell_init

if TYPE_CHECKING:
    from lnlab.papers.handwriting.experiment import Experiment

ARMS: dict[str, NormLayer] = {"none": Identity, "layer": LayerNorm}

# A mixture of bivariate Gaussians and a pen that is lifted or not: Graves (2013), eq. 15-26.
#
# Everything is in logarithms: a density may overflow, and a weight underflow.

MAX_R = 8.0  # the largest |r|: above it tanh(r) is 1 in float32, and a density is not finite
MIN_LOG_SIGMA = -12.0  # the smallest logarithm of a deviation, for the same reason


NatsPerPoint = Tensor  # (...)


class PointMixture(NamedTuple):
    """The distribution of the next point, of M components."""

    pen_lift_logit: Tensor  # the logit of the pen being lifted behind the point (...)
    log_pi: Tensor  # logarithms of the weights (..., M)
    mu: Tensor  # the means of dx and dy (..., M, 2)
    log_sigma: Tensor  # logarithms of their standard deviations (..., M, 2)
    atanh_rho: Tensor  # the correlation is tanh(r) (..., M)


def make_mixture(outputs: Tensor, *, std_floor: float = 0.0, bias: float = 0.0) -> PointMixture:
    """Return the mixture of a model's outputs (..., 1 + 6 M).

    ``std_floor`` is added to every standard deviation, 0 in Graves (2013). ``bias`` is that of
    his eq. 61 and 62: above 0 what is likely becomes likelier.
    """
    pen, rest = outputs[..., 0], outputs[..., 1:].unflatten(-1, (6, -1))
    pi, mu, log_sigma, r = rest.split((1, 2, 2, 1), dim=-2)
    log_sigma = (log_sigma.mT - bias).clamp(min=MIN_LOG_SIGMA)
    if std_floor:
        # log(floor + sigma)
        log_sigma = math.log(std_floor) + F.softplus(log_sigma - math.log(std_floor))
    log_pi = (pi.squeeze(-2) * (1 + bias)).log_softmax(-1)
    return PointMixture(pen, log_pi, mu.mT, log_sigma, r.squeeze(-2).clamp(-MAX_R, MAX_R))


def negative_log_likelihood(mixtures: PointMixture, points: Tensor) -> NatsPerPoint:
    """Return minus the log probability of points (..., 3): dx, dy, 1 if lifted; eq. 26."""
    z = (points[..., None, :2] - mixtures.mu) * (-mixtures.log_sigma).exp()
    rho = mixtures.atanh_rho.tanh()
    log_rest = 2 * (
        math.log(2) - mixtures.atanh_rho - F.softplus(-2 * mixtures.atanh_rho)
    )  # of 1 - rho^2
    squares = z.square().sum(-1) - 2 * rho * z.prod(-1)
    exponent = -squares * (-log_rest).exp() / 2
    log_density = -math.log(2 * math.pi) - mixtures.log_sigma.sum(-1) - log_rest / 2 + exponent
    lifted = F.binary_cross_entropy_with_logits(
        mixtures.pen_lift_logit, points[..., 2], reduction="none"
    )
    return lifted - (mixtures.log_pi + log_density).logsumexp(-1)


def sample_points(mixtures: PointMixture, generator: torch.Generator) -> Tensor:
    """Draw points (B, 3) from mixtures (B,), by random numbers of the CPU.

    They are products with the Cholesky factor of the covariance,
    (s_1, 0; rho s_2, s_2 sqrt(1 - rho^2)). Published code multiplies by the covariance itself
    and samples from another density.
    """
    device, mixtures = (
        mixtures.pen_lift_logit.device,
        PointMixture(*(tensor.cpu() for tensor in mixtures)),
    )
    components = torch.multinomial(mixtures.log_pi.exp(), 1, generator=generator).squeeze(-1)
    rows = torch.arange(len(components))
    sigma, rho = (
        mixtures.log_sigma[rows, components].exp(),
        mixtures.atanh_rho[rows, components].tanh(),
    )
    z = torch.randn(sigma.shape, generator=generator, dtype=sigma.dtype)
    second = rho * z[:, 0] + (1 - rho.square()).sqrt() * z[:, 1]
    offsets = mixtures.mu[rows, components] + sigma * torch.stack([z[:, 0], second], -1)
    lifted = (
        torch.rand(len(components), generator=generator, dtype=sigma.dtype)
        < mixtures.pen_lift_logit.sigmoid()
    )
    return torch.cat([offsets, lifted.to(sigma)[:, None]], -1).to(device)


class LineBatch(NamedTuple):
    """A batch of lines."""

    x: Tensor  # each point but the last: its offsets, and whether the pen is lifted (B, T, 3)
    char_ids: Tensor  # characters by number (B, U); -1 behind the end


class WriterState(NamedTuple):
    """The state of a model between two points."""

    lstm_states: tuple[State, ...]  # (h, c) of each LSTM, each (B, H)
    kappa: Tensor  # the positions of the window's components (B, K)
    w: Tensor  # the window, a soft character (B, V)


class WindowSequence(NamedTuple):
    """The first LSTM and the window along T points of B lines."""

    h: Tensor  # of the LSTM (T, B, H)
    w: Tensor  # the window, a soft character (T, B, V)
    phi: Tensor  # how much of each character is seen, and of what is behind (T, B, U + 1)
    last_lstm_state: State  # (h, c) of the LSTM in the end, each (B, H)
    last_kappa: Tensor  # the positions of the window's components in the end (B, K)


MixtureOutputs = Tensor  # y (B, T, 1 + 6 M), as make_mixture reads them
WindowWeights = Tensor  # phi (B, T, U + 1), of each character and of what is behind


class HandwritingNet(nn.Module):
    r"""Graves (2013), section 5: a batch :class:`LineBatch` to y (B, T, 1 + 6 M).

    The inputs of each LSTM are the point, the window and the LSTM below; the outputs are
    computed from all of them. The first moves the window, so it is computed point by point:

    .. math::
        (\hat\alpha, \hat\beta, \hat\kappa) &= W_p h^1_t + b_p, \quad
        \kappa_t = \kappa_{t-1} + e^{\hat\kappa} \\
        \phi(t, u) &= \sum_k e^{\hat\alpha_k} \exp(-e^{\hat\beta_k} (\kappa_k - u)^2), \quad
        w_t = \sum_u \phi(t, u) c_u

    with u from 1 and :math:`c_u` the u-th character, one of V numbers 1.

    Args:
        config: Sizes, normalizers and initialisation.
        alphabet: The alphabet of the texts; weights trained with another are refused.
        pace: The initial speed of the window in characters per point.
    """

    opaque_to_vmap = True  # the upper LSTMs may have compiled loops

    def __init__(self, config: "Experiment", alphabet: Alphabet, pace: float) -> None:
        super().__init__()
        self.alphabet, self.window = alphabet, config.window_components
        V, (units,), norm = len(alphabet), config.units, ARMS[config.norm]
        settings: Any = {"norm_layer": norm, "initial": cell_init(config, norm)}
        below = [0] + [units] * (config.layers - 1)
        self.lstms: Any = nn.ModuleList(LSTM(3 + V + D, units, **settings) for D in below)
        self.move = Linear(units, 3 * self.window, bias=True)
        self.out = Linear(config.layers * units, 1 + 6 * config.components, bias=True)
        self.known: Tensor
        self.register_buffer("known", torch.tensor(list(alphabet.characters.encode())))
        with torch.no_grad():
            self._initialize_window_(pace)

    def _initialize_window_(self, pace: float) -> None:
        """Start with a window that moves by ``pace``: otherwise it runs off the text."""
        self.move.W.mul_(0.05)
        assert self.move.b_inside is not None
        alpha, beta, kappa = self.move.b_inside.chunk(3)
        alpha.fill_(-1.0)
        beta.fill_(-1.0)
        kappa.fill_(math.log(pace))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        theirs = state_dict.get(f"{prefix}known")
        if theirs is not None and not torch.equal(theirs.cpu(), self.known.cpu()):
            raise ValueError(
                "these weights were trained with another alphabet: its characters have other "
                "numbers. Take the data of their run."
            )
        super()._load_from_state_dict(state_dict, prefix, *args)

    def one_hot_characters(self, char_ids: Tensor) -> Tensor:
        """Return one-hot characters (B, U, V), 0 behind the end."""
        one_hot = F.one_hot(char_ids.clamp(min=0), len(self.alphabet)).to(self.move.W)
        return one_hot * (char_ids >= 0).unsqueeze(-1)

    def initial_state(self, batch_size: int) -> WriterState:
        """Return the state before the first point."""
        one = self.move.W.new_zeros(batch_size, 1)
        states = tuple(lstm.cells[0].initial_state(one) for lstm in self.lstms)
        kappa, w = one.expand(-1, self.window), one.expand(-1, len(self.alphabet))
        return WriterState(states, kappa, w)

    def forward(self, batch: LineBatch) -> Tensor:
        memory = self.initial_state(len(batch.x))
        return self.run_from_state(batch.x, batch.char_ids, memory)[0]

    def run_from_state(
        self, x: Tensor, char_ids: Tensor, memory: WriterState
    ) -> tuple[MixtureOutputs, WindowWeights, WriterState]:
        """Return outputs y (B, T, 1 + 6 M), the window phi (B, T, U + 1), and the last state.

        Of points x (B, T, 3), with ``char_ids`` as in :class:`LineBatch`, after those before.
        """
        x = x.transpose(0, 1)
        h, w, phi, state, kappa = self._run_window(x, char_ids, memory)
        states, hs = [state], [h]
        for lstm, last in zip(self.lstms[1:], memory.lstm_states[1:], strict=True):
            given = torch.cat([x, w, hs[-1]], -1)
            h, last = lstm.unroll(lstm.cells[0], given, last)
            states.append(last)
            hs.append(h)
        y = self.out(torch.cat(hs, -1)).transpose(0, 1)
        return y, phi.transpose(0, 1), WriterState(tuple(states), kappa, w[-1])

    def _run_window(self, x: Tensor, char_ids: Tensor, memory: WriterState) -> WindowSequence:
        """Run the first LSTM and the window along points x (T, B, 3)."""
        cell, state = self.lstms[0].cells[0], memory.lstm_states[0]
        characters = self.one_hot_characters(char_ids)
        kappa, w = memory.kappa, memory.w
        u = torch.arange(1.0, characters.shape[1] + 2, device=x.device).to(x)
        hs, ws, phis = [], [], []
        for x_t in x:
            state = cell(torch.cat([x_t, w], -1), state)
            alpha, beta, step = self.move(state[0]).chunk(3, -1)
            kappa = kappa + step.exp()
            distance = (kappa.unsqueeze(-1) - u).square()
            near = (-beta.exp().unsqueeze(-1) * distance).exp()
            phi = torch.bmm(alpha.exp().unsqueeze(1), near)  # (B, 1, U + 1)
            w = torch.bmm(phi[..., :-1], characters).squeeze(1)
            hs.append(state[0])
            ws.append(w)
            phis.append(phi.squeeze(1))
        return WindowSequence(torch.stack(hs), torch.stack(ws), torch.stack(phis), state, kappa)


# Lines of handwriting as inputs: offsets of mean 0 and deviation 1, characters by number.

Target = tuple[Tensor, Tensor]
"""The points that follow (B, T, 3), and how many each line has (B,)."""


class BatchableLines:
    """The first ``max_lines`` lines of a split by number, of ``length`` points each; 0: all."""

    def __init__(
        self, dataset: HandwritingDataset, split: str, length: int = 0, max_lines: int = 0
    ) -> None:
        lines: Sequence[Line] = getattr(dataset, split)[: max_lines or None]
        if length:
            lines = [
                replace(
                    line,
                    offsets=line.offsets[: length + 1],
                    true_char_index_per_point=None
                    if line.true_char_index_per_point is None
                    else line.true_char_index_per_point[: length + 1],
                )
                for line in lines
            ]
        self.lines = lines
        self.alphabet, self.scale = dataset.alphabet, dataset.scale

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def num_steps_per_line(self) -> list[int]:
        """T of each line."""
        return [line.num_points_after_first for line in self.lines]

    def batch(self, indices: Sequence[int]) -> tuple[LineBatch, Target]:
        """Return some of the lines, padded, and the points that follow."""
        lines = [self.lines[index] for index in indices]
        rows = [standardize_offsets(line.offsets, self.scale) for line in lines]
        texts = [torch.tensor(self.alphabet.encode(line.text)) for line in lines]
        whole = pad_sequence(rows, batch_first=True)
        char_ids = pad_sequence(texts, batch_first=True, padding_value=-1)
        lengths = torch.tensor([len(row) - 1 for row in rows])
        inside = (torch.arange(whole.shape[1] - 1) < lengths[:, None]).unsqueeze(-1)
        return LineBatch(whole[:, :-1] * inside, char_ids), (whole[:, 1:], lengths)


def standardize_offsets(offsets: np.ndarray, scale: OffsetMeanAndStd) -> Tensor:
    """Return offsets (T + 1, 3) minus their mean, over their deviation; the pen unchanged."""
    mean, deviation = scale
    steps = (offsets[:, :2] - mean) / deviation
    steps[0] = 0.0
    return torch.from_numpy(np.column_stack([steps, offsets[:, 2]])).float()


def unstandardize_offsets(offsets: Tensor, scale: OffsetMeanAndStd) -> np.ndarray:
    """Return standardized offsets (T, 3) times their deviation, plus their mean."""
    mean, deviation = scale
    values = offsets.double().cpu().numpy()
    steps = values[:, :2] * deviation + mean
    return np.column_stack([steps, values[:, 2]]).astype(np.float32)
