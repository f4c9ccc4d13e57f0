"""The sentence of the order panel, of a caption."""

from statistics import mean

from lnlab.panels.order.measurement import OrderMeasurement
from lnlab.panels.order.state import OrderState


def sentence(state: OrderState, measurement: OrderMeasurement) -> str:
    """The number of nearest pictures that it is true of, and how the captions around it lie."""
    said = [f"“{measurement.caption}”, read by {state.net}."]
    if measurement.unknown:
        unknown = ", ".join(measurement.unknown)
        said.append(f"Words that it never met, all read as one unknown word: {unknown}.")
    if measurement.true is None:
        said.append("Whether it is true of a picture, only the one who wrote it knows.")
    else:
        right = sum(bool(shown.true) for shown in measurement.nearest)
        said.append(
            f"It is true of {right} of the {len(measurement.nearest)} nearest pictures, and of "
            f"{int(measurement.true.sum())} of all {len(measurement.true)}."
        )
    for words, captions in (("less", measurement.above), ("more", measurement.below)):
        if captions:
            violation = mean(one.violation for one in captions)
            said.append(
                f"The order to captions that say {words} is violated by {violation:.3f}."
            )
    return " ".join(said)
