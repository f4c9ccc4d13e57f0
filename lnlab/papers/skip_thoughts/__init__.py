"""Skip-thoughts: sentences that predict their neighbours, Ba et al. (2016), section 6.3."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "bag_of_words_scores_by_metric": ".evaluate",
        "load_first_seed_snapshots": ".evaluate",
        "select_and_strip_suffix": ".evaluate",
    },
)
