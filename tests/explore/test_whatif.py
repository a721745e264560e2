"""What-ifs equal refits by the library, save nothing, and run in a bounded queue."""

import hashlib
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import plait
from plait.analysis.explain.counterfactual import try_change
from plait.config.config_file import data_of
from plait.explore.whatif import MAX_WAITING_JOBS, Question, TrialJob, Trials
from tests.support.explore_run import make_run, serving

pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.SpellingWarning")  # of names that are meant

CELL = {"relation": "visits", "cell.user": "x y", "cell.place": "1"}


def waited(served, address: str, seconds: float = 120) -> dict:
    """The answer of a what-if, once it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = served.get(f"{address}.json").json()
        if answer["state"] not in ("waiting", "running"):
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


def asked(served, change: str, link: dict, **fields: str) -> str:
    """The address of a what-if about a link of visits."""
    names = {f"link.{index}": str(name) for index, name in link.items()}
    answer = served.post("/whatif", {**CELL, "changing": "visits", "change": change, **names, **fields})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def reason(fit):
    """The known link of visits that bears most on the cell."""
    e = fit.explain("visits", {"user": "x y", "place": 1}, top=10)
    return next(link for link in e.reasons if link.relation == "visits")


def content(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize(("change", "value"), [("hide", None), ("zero", 0.0), ("add", 2.0)])
def test_the_answer_is_a_refit_by_the_library_and_nothing_is_saved(served, run, change, value):
    before = content(run)
    fit = plait.load(run)
    link = {"user": "x y", "place": 2} if change == "add" else dict(reason(fit).cell)
    address = asked(served, change, link, value="2")
    found = waited(served, address)
    assert found["state"] == "done", found
    wanted = try_change(fit, data_of(fit, run), "visits", {"user": "x y", "place": 1}, "visits", link, value)
    assert (found["after"], found["before"]) == (dict(wanted.after), dict(wanted.before))
    assert (found["loss"], found["saved"]) == (wanted.loss, False)
    page = served.get(address).text
    assert f"{wanted.after['mean']:.4f}</td>" in page
    assert "The run itself does not change." in page
    assert content(run) == before


def test_the_first_order_estimate_is_next_to_the_refit(served, run):
    fit = plait.load(run)
    link = reason(fit)
    address = asked(served, "zero", link.cell)
    found = waited(served, address)
    assert found["claim"] == link.responsibility
    exact = fit.explain("visits", {"user": "x y", "place": 1}, top=10, exact="zero", data=data_of(fit, run))
    same = next(one for one in exact.reasons if one.relation == "visits" and one.cell == link.cell)
    assert found["loss"] == pytest.approx(same.exact, abs=1e-9)
    assert "first-order estimate" in served.get(address).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"changing": "nothing", "change": "hide"}, "no relation"),
        ({"changing": "visits", "change": "explode", "link.user": "x y", "link.place": "1"}, "`change` must be one of"),
        ({"changing": "visits", "change": "hide", "link.user": "x y"}, "place is missing"),
        ({"changing": "visits", "change": "hide", "link.user": "x y", "link.place": "2"}, "is not a known link"),
        ({"changing": "visits", "change": "add", "link.user": "x y", "link.place": "4", "value": "-1"}, "not a valid"),
        ({"changing": "visits", "change": "add", "link.user": "x y", "link.place": "4", "value": "lots"}, "a number"),
        ({"changing": "friends", "change": "add", "link.user": "x y", "link.friend": "%", "value": "2"}, "not a valid"),
        ({"changing": "visits", "change": "hide", "link.user": "nobody", "link.place": "1"}, "is not an entity"),
        ({"changing": "visits", "change": "hide", "link.user": "x y", "link.place": "1", "more": "1"}, "has no field"),
    ],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused(served, fields, said):
    answer = served.post("/whatif", {**CELL, **fields})
    assert answer.status_code in (400, 404)
    assert said in answer.text


def test_readers_are_served_while_a_what_if_runs(served):
    address = asked(served, "zero", reason(served.site.fit).cell)
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda n: served.get(f"/axis/place/{1 + n % 7}").status_code, range(60)))
    assert found == [200] * 60
    assert waited(served, address)["state"] == "done"


def test_without_data_the_page_names_the_option(run, tmp_path):
    plait.load(run).save(tmp_path / "bare")
    with serving(tmp_path / "bare") as own:
        page = own.get("/relation/visits/cell?user=x+y&place=4").text
        assert "--data DIR" in page
        assert '<form class="action"' not in page
        fields = {"changing": "visits", "change": "hide", "link.user": "x y", "link.place": "3"}
        answer = own.post("/whatif", CELL | fields)
        assert answer.status_code == 409
        assert "requires the data" in answer.text


@pytest.mark.thorough
def test_moved_data_are_found_in_another_folder(tmp_path):
    (tmp_path / "old").mkdir()
    run = make_run(tmp_path / "old")
    (tmp_path / "new").mkdir()
    for path in (tmp_path / "old").glob("*.parquet"):
        path.rename(tmp_path / "new" / path.name)
    link = reason(plait.load(run)).cell
    with serving(run) as own:
        found = waited(own, asked(own, "hide", link))
        assert found["state"] == "failed"
        assert "visits.parquet" in found["what"]
    with serving(run, folder=tmp_path / "new") as own:
        assert waited(own, asked(own, "hide", link))["state"] == "done"


@pytest.mark.thorough
def test_a_replaced_run_is_not_mixed_with_the_one_shown(tmp_path):
    run = make_run(tmp_path)
    link = reason(plait.load(run)).cell
    with serving(run) as own:
        shutil.rmtree(run)
        make_run(tmp_path, "tol = 1e-3\n")
        found = waited(own, asked(own, "hide", link))
        assert found["state"] == "failed"
        assert "has changed since the start of the explorer" in found["what"]
        assert own.get("/axis/user/x%20y").status_code == 200


def test_a_worker_that_cannot_start_fails_its_question_only(slow):
    trials = slow(60)
    trials.command = ["/there/is/no/such/program"]
    first = trials.ask(QUESTION)
    _until(first, "failed")
    assert "No such file" in first.answer["what"]
    trials.command = ["sleep", "60"]
    _until(trials.ask(QUESTION), "running")


# --- the queue, with a worker that never answers


@pytest.fixture
def slow(monkeypatch):
    """What-ifs whose worker says nothing."""
    made = []

    def start(limit: float) -> Trials:
        trials = Trials("nowhere", None, limit, "")
        trials.command = ["sleep", "60"]
        made.append(trials)
        return trials

    yield start
    for trials in made:
        trials.close()


QUESTION = Question("visits", (0, 0), "visits", (0, 1), 0.0)


def _until(job: TrialJob, state: str, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while job.state != state and time.monotonic() < until:
        time.sleep(0.02)
    assert job.state == state


def test_a_full_queue_refuses_and_the_page_says_so(run, slow):
    trials = slow(60)
    _until(trials.ask(QUESTION), "running")
    waiting = [trials.ask(QUESTION) for _ in range(MAX_WAITING_JOBS)]
    assert trials.ahead(waiting[-1]) == MAX_WAITING_JOBS
    with serving(run) as own:
        own.site.trials.close()
        object.__setattr__(own.site, "trials", trials)
        cell = reason(own.site.fit).cell
        fields = CELL | {"changing": "visits", "change": "hide"} | {f"link.{i}": str(cell[i]) for i in cell}
        answer = own.post("/whatif", fields)
        assert answer.status_code == 503
        assert "already waiting" in answer.text
        assert own.get("/").status_code == 200
        cancelled = own.post(f"/whatif/{waiting[0].id}/cancel", {})
        assert cancelled.status_code == 303
        assert "Cancelled" in own.get(f"/whatif/{waiting[0].id}").text
        assert own.post("/whatif", fields).status_code == 303
        assert "Waiting" in own.get(f"/whatif/{waiting[-1].id}").text


def test_a_late_worker_is_stopped(slow, tuning):
    tuning(whatif_grace_seconds=0.2)
    trials = slow(0.3)
    first, second = trials.ask(QUESTION), trials.ask(QUESTION)
    _until(first, "late")
    _until(second, "late")


def test_answers_are_kept_up_to_a_number(slow, tuning):
    tuning(whatif_answers=3)
    trials = slow(60)
    jobs = [trials.ask(QUESTION) for _ in range(5)]
    assert list(trials.jobs) == [job.id for job in jobs[2:]]
