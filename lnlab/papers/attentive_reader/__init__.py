"""The attentive reader: questions about a passage, Ba et al. (2016), section 6.2."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Experiment": ".experiment",
        "EncodedQuestions": ".data",
        "FIGURE_2": ".experiment",
        "PADDING": ".model",
        "answer_questions": ".evaluate",
        "recompute_population_statistics_": ".evaluate",
        "accuracies_by_heuristic": ".data",
    },
)
