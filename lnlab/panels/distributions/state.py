"""The state of the distributions panel: recorded nets at one step of their training."""

from dataclasses import dataclass, replace

from lnlab.panels.choices import one_of

MOST = 4
WHAT = {"activations": "what f is given", "gradients": "gradient of the loss by it"}


@dataclass(frozen=True)
class DistributionsState:
    """Recorded nets at one moment.

    Attributes:
        net: which of the recorded kinds; "" is the first.
        arms: of that net, at most four; none: the first four.
        what: activations or gradients.
        step: the nearest one that was recorded is shown.

    Raises:
        ValueError: for a value that makes no sense.
    """

    net: str = ""
    arms: tuple[str, ...] = ()
    what: str = "activations"
    step: int = 0

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "arms", tuple(self.arms))
        one_of("what", self.what, WHAT)
        if len(self.arms) > MOST:
            raise ValueError(f"{len(self.arms)} arms: compare at most {MOST}.")

    def at(self, step: int) -> "DistributionsState":
        """The same at another step."""
        return replace(self, step=step)

    def of(self, net: str) -> "DistributionsState":
        """The same of another net."""
        return replace(self, net=net)

    def by(self, what: str) -> "DistributionsState":
        """The same with activations or gradients shown."""
        return replace(self, what=what)
