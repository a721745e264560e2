"""Which average of several fits to answer from, and how honest it is: the figures of docs/decisions/0016-ensembles.md.

Cells are hidden at random, links and zeros alike, so that the share of links among them is that of all cells.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

import plait
from lab.bench import links
from lab.harness.sources import SHARED
from lab.harness.table import show
from plait.analysis.predict.prediction import columns
from plait.data.binding.known import reweighed
from plait.data.bound import Data

SEEDS = range(5)
BINS, ENOUGH = 15, 50  # bins of equally many cells; links that a bin must have for its ratio to be shown
SPLITS = {"nations": 5}  # of 11,000 cells; hidden cells of all splits are judged together
MIN_RATE = 1e-12  # of a rate
PLANS = {
    "nations": [(links.CP, 20), (links.TUCKER2, 8), (links.TUCKER, 6)],
    "kinships": [(links.TUCKER2, 20), (links.CP, 40)],
    "umls": [(links.TUCKER2, 20), (links.CP, 60)],
    "usair": [(links.GRAPH, 10), (links.GRAPH, 30)],
    "celegans": [(links.GRAPH, 10), (links.GRAPH, 30)],
    "uclaf": [(links.CP, 5), (links.CP, 20), (links.COUPLED, 5)],
}


class Hidden(NamedTuple):
    """Data without their hidden cells, all links (an array of bools), and which cells are hidden."""

    data: dict[str, np.ndarray]
    truth: np.ndarray
    mask: np.ndarray


@dataclass(frozen=True)
class Answers:
    """What the members say: mean rates of all cells, (members, *shape); probabilities of hidden ones, (members, n)."""

    rates: np.ndarray
    chances: np.ndarray


def compare() -> None:
    """Averages, members with reweighed links, a scale learnt on other hidden cells; what Nations' bound pays for."""
    for name, plans in PLANS.items() if SHARED.exists() else ():
        for text, rank in plans:
            for likelihood in ("bernoulli", "poisson"):
                _table(name, text, rank, likelihood)
    if SHARED.exists():
        _lastfm()
        _nations()


def _table(name: str, text: str, rank: int, likelihood: str) -> None:
    splits = [_hidden(name, text, number) for number in range(SPLITS.get(name, 1))]
    rows: dict[str, list[list[float]]] = {}
    pooled: dict[str, list[np.ndarray]] = {}
    for split in splits:
        for word, (chances, rates) in _averages(split, text, rank, likelihood).items():
            pooled.setdefault(word, []).append(chances)
            rows.setdefault(word, []).append([_reciprocal(split, rates)])
    y = np.concatenate([split.truth[split.mask] for split in splits])
    shown = []
    for word, parts in pooled.items():
        p = np.concatenate(parts)
        shown.append([word, *figures(p, y), f"{np.mean(rows[word]):.3f}"])
        if word in ("rates", "logs", "predictive"):
            shown.append([f"{word}, scale learnt", *figures(_scaled(p, y), y), f"{np.mean(rows[word]):.3f}"])
    title = (
        f"{name}, {links.WORDS[text]} {rank}, {likelihood.capitalize()}: {y.sum():.0f} links, {len(y):,} hidden cells"
    )
    show(title, ["average", *COLUMNS, "MRR"], shown)


def _averages(split: Hidden, text: str, rank: int, likelihood: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Chances of the hidden cells and rates of all cells, by the kind of average."""
    plain, mask = _answers(split, text, rank, likelihood, weighed=False), split.mask
    popular = _answers(Hidden({"X": split.data["X"]}, *split[1:]), _single(text), 1, likelihood, weighed=False)
    found = {"popularity": (popular.chances[0], popular.rates[0]), "one fit": (plain.chances[0], plain.rates[0])}
    R = np.maximum(plain.rates, MIN_RATE)
    means = {
        "rates": R.mean(axis=0),
        "power 1/2": np.sqrt(R).mean(axis=0) ** 2,
        "logs": np.exp(np.log(R).mean(axis=0)),
        "probabilities": -np.log(np.exp(-R).mean(axis=0)),
    }
    found |= {word: (-np.expm1(-rates[mask]), rates) for word, rates in means.items()}
    found["predictive"] = plain.chances.mean(axis=0), plain.rates.mean(axis=0)
    weighed = _answers(split, text, rank, likelihood, weighed=True)
    found["predictive, links reweighed"] = weighed.chances.mean(axis=0), weighed.rates.mean(axis=0)
    mixed = [np.concatenate([a[:1], b[1:]]).mean(axis=0) for a, b in zip(_both(plain), _both(weighed))]
    found["predictive, all but one reweighed"] = mixed[0], mixed[1]
    return found


def _both(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    return answers.chances, answers.rates


def _single(text: str) -> str:
    return links.CP if text in (links.COUPLED, links.TUCKER, links.TUCKER2) else text


def _answers(split: Hidden, text: str, rank: int, likelihood: str, *, weighed: bool) -> Answers:
    model = plait.Model(text)
    data = model.bind({k: plait.Relation(array, likelihood=likelihood) for k, array in split.data.items()})
    fits = members(model, data, rank, weighed=weighed)
    cells, every = np.argwhere(split.mask), np.argwhere(np.ones_like(split.mask))
    rates = [links.rates_of(fit)(every).reshape(split.mask.shape) for fit in fits]
    return Answers(
        np.array(rates), np.array([columns(fit, "X", cells, ("probability",))["probability"] for fit in fits])
    )


def members(model: plait.Model, data: Data, rank: int, *, weighed: bool, **options: Any) -> list[plait.Fit]:
    """One fit for each seed, of the data as they are or with links reweighed by Exp(1) draws; of rank 1 one alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        return [
            plait.fit(model, reweighed(data, s) if weighed else data, rank=rank, seed=s, progress=False, **options)
            for s in (SEEDS if rank > 1 else SEEDS[:1])
        ]


# --- hidden cells


def _hidden(name: str, text: str, number: int) -> Hidden:
    rng = np.random.default_rng(1 + number)
    if name == "uclaf":
        case = next(case for case in links.cases() if case.name.startswith("UCLAF") and case.text is text)
        data = {key: np.asarray(relation.data) for key, relation in case.data.items()}
        truth = data["X"] > 0
        truth[tuple(case.links.T)] = True
        return Hidden(data, truth, np.isnan(data["X"]))
    if text is links.GRAPH:  # both directions of a pair
        truth = links._graph(name)[1] & ~np.eye(len(links._graph(name)[1]), dtype=bool)
        draws = np.triu(rng.random(truth.shape), 1)
        mask = (draws + draws.T + np.eye(len(truth))) < 0.1
        seen = np.where(np.eye(len(truth)) > 0, np.nan, truth.astype(float))
    else:  # of training triples: no default may see the others
        seen = links._triples(name)[0]
        truth, mask = seen > 0, rng.random(seen.shape) < 0.2
    return Hidden({"X": np.where(mask, np.nan, seen)}, truth, mask)


# --- figures

COLUMNS = ["log-likelihood", "AP", "ECE", "by chance", "bins of 50 links", "predicted ÷ observed"]


def figures(p: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> list[str]:
    """Of chances p, links y and weights w of hidden cells, all (n,)."""
    from sklearn.metrics import average_precision_score

    p, w = np.clip(p.astype(float), MIN_RATE, 1 - MIN_RATE), np.ones(len(p)) if w is None else w
    likelihood = np.average(np.where(y, np.log(p), np.log1p(-p)), weights=w)
    error, ratios = reliability(p, y, w)
    fair = [reliability(p, np.random.default_rng(n).random(len(p)) < p, w)[0] for n in range(10)]
    between = f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "–"
    precision = average_precision_score(y, p, sample_weight=w)
    total = (w @ p) / (w @ y)
    return [f"{likelihood:.3g}" if abs(likelihood) < 1e-3 else f"{likelihood:.4f}", f"{precision:.3f}", f"{error:.4f}",
            f"{np.mean(fair):.4f}", between, f"{total:.2f}"]  # fmt: skip


def reliability(p: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, list[float]]:
    """Calibration error over bins of equally many cells; predicted ÷ observed links of bins that have enough."""
    order = np.argsort(p, kind="stable")
    total = np.cumsum(w[order])
    error, ratios = 0.0, []
    for part in np.split(order, np.searchsorted(total, total[-1] * np.arange(1, BINS) / BINS)):
        predicted, observed = w[part] @ p[part], w[part] @ y[part]
        error += abs(predicted - observed) / total[-1]
        if y[part].sum() >= ENOUGH:
            ratios.append(float(predicted / observed))
    return float(error), ratios


def _reciprocal(split: Hidden, rates: np.ndarray) -> float:
    """Filtered MRR of the last index."""
    found = []
    for link in np.argwhere(split.truth & split.mask):
        row, rivals = rates[tuple(link[:-1])], ~split.truth[tuple(link[:-1])]
        better = np.sum(row[rivals] > row[link[-1]]) + np.sum(row[rivals] == row[link[-1]]) / 2
        found.append(1.0 / (1.0 + better))
    return float(np.mean(found))


def _scaled(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Chances with the rate times a number that is learnt on the other half of the cells."""
    rates = -np.log1p(-np.clip(p.astype(float), MIN_RATE, 1 - MIN_RATE))
    half = np.random.default_rng(0).random(len(p)) < 0.5
    result = np.empty(len(p))
    for learn, use in ((half, ~half), (~half, half)):
        result[use] = -np.expm1(-_scale(rates[learn], y[learn]) * rates[use])
    return result


def _scale(rates: np.ndarray, y: np.ndarray) -> float:
    def loss(log_scale: np.ndarray) -> float:
        scaled = np.exp(log_scale[0]) * rates
        return -float(np.mean(np.where(y, np.log(np.maximum(-np.expm1(-scaled), MIN_RATE)), -scaled)))

    return float(np.exp(minimize(loss, [0.0]).x[0]))


# --- Last.fm: too large to list


def _lastfm(draws: int = 400_000) -> None:
    """Hidden zeros cannot be listed: cells are drawn, half uniformly, half by popularity, and weighed for that."""
    case = next(case for case in links.cases() if case.name.startswith("Last.fm"))
    model = plait.Model(case.text)
    data = model.bind(case.data)
    relation = data.relations["X"]
    cells, weights = _drawn(relation.shape, relation.cells, draws)
    taken = np.ravel_multi_index(tuple(np.concatenate([relation.cells, case.links]).T), relation.shape)
    zeros = ~np.isin(np.ravel_multi_index(tuple(cells.T), relation.shape), taken)
    rows = np.concatenate([case.links, cells[zeros]])
    y = np.repeat([True, False], [len(case.links), zeros.sum()])
    w = np.concatenate([np.ones(len(case.links)), 0.6 * weights[zeros]])
    shown = []
    for word, rank, weighed in (
        ("popularity", 1, False),
        ("predictive", case.rank, False),
        ("reweighed", case.rank, True),
    ):
        fits = members(model, data, rank, weighed=weighed)
        p = np.array([columns(fit, "X", rows, ("probability",))["probability"] for fit in fits])
        if word == "predictive":
            shown.append(["one fit", *figures(p[0], y, w)])
        shown.append([word, *figures(p.mean(axis=0), y, w)])
    show(case.name, ["average", *COLUMNS], shown)


def _drawn(shape: tuple[int, ...], links: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells, and weights such that weighted sums over them estimate sums over all cells."""
    rng = np.random.default_rng(0)
    popular = [np.bincount(links[:, axis], minlength=size) / len(links) for axis, size in enumerate(shape)]
    uniform = np.stack([rng.integers(0, size, count) for size in shape], axis=1)
    likely = np.stack([rng.choice(size, count, p=p) for size, p in zip(shape, popular)], axis=1)
    cells = np.concatenate([uniform, likely])
    density = np.prod([p[cells[:, axis]] for axis, p in enumerate(popular)], axis=0)
    return cells, 1.0 / (count * (density + 1.0 / np.prod(np.array(shape, float))))


# --- what the bound pays for


def _nations() -> None:
    """Parts of the ELBO, and the uncertainty of one fit compared with the spread of fits: Nations by CP, Bernoulli."""
    rows = []
    for rank in (5, 20):
        for start, warmup in {"random": 0, "em": 50}.items():
            found = [_parts(_hidden("nations", links.CP, number), rank, warmup) for number in range(3)]
            rows.append([f"{rank}", start, *(f"{value:.4g}" for value in np.mean(found, axis=0))])
    shown = ["rank", "start", "bound", "data", "divergence", "log-likelihood", "five", "AP", "five", "sd", "between"]
    show("Nations: what the bound pays for", shown, rows)


def _parts(split: Hidden, rank: int, warmup: int) -> list[float]:
    from sklearn.metrics import average_precision_score as precision

    model = plait.Model(links.CP)
    data = model.bind({"X": plait.Relation(split.data["X"], likelihood="bernoulli")})
    fits = members(model, data, rank, weighed=False, warmup=warmup)
    cells, y = np.argwhere(split.mask), split.truth[split.mask]
    said = [columns(fit, "X", cells, ("mean", "sd")) for fit in fits]
    p, sd = (np.array([one[name] for one in said]) for name in ("mean", "sd"))
    bound = np.mean([fit.objective for fit in fits])
    paid = np.mean([-sum(float(np.sum(part)) for part in fit.state.divergences.values()) for fit in fits])

    def likelihood(p: np.ndarray) -> float:
        return float(np.mean(np.where(y, np.log(p), np.log1p(-p))))

    return [
        bound, bound + paid, paid, np.mean([likelihood(one) for one in p]), likelihood(p.mean(axis=0)),
        np.mean([precision(y, one) for one in p]), precision(y, p.mean(axis=0)),
        np.sqrt(np.mean(sd**2)), np.sqrt(np.mean(p.var(axis=0, ddof=1))),
    ]  # fmt: skip
