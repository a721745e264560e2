"""The program: its commands, exit codes, and one message on stderr instead of a traceback.

    0  success
    1  failure: the fit cannot go on, no memory or disk space, interrupted
    2  user error: arguments, config, data, a run that is missing or damaged

With --json a message is one JSON document on stderr: {"error": {"kind": …, "text": …, "message": …, "location": …,
"actual": …, "expected": …, "hint": …}}. PLAIT_DEBUG=1 adds the traceback of unexpected errors.
"""

import atexit
import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from plait.errors import (
    OF_EVALUATE,
    OF_FIT,
    OF_PREDICT,
    OF_SPLIT,
    OF_TOP,
    FitError,
    PlaitError,
    PlaitWarning,
    suggestion,
)
from plait.machine import no_collections
from plait.version import __version__

if TYPE_CHECKING:
    from plait.errors import Locate

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSALS = (*FULL, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS)


# Every command: its module, imported on use, and its line in --help.
COMMANDS = {
    "demo": ("demo_command", "Fit a small data set and predict held-out links."),
    "check": ("data_commands", "Summarise the data and estimate the cost, without fitting."),
    "fit": ("fit_commands", "Fit the model of a config file and save the run."),
    "grid-search": ("evaluation_commands", "Compare settings and fit the best one."),
    "resume": ("fit_commands", "Continue a run that was interrupted or has not converged."),
    "info": ("info_command", "Show model, sizes, objective and stop reason of a run."),
    "predict": ("link_commands", "Score the cells of a table."),
    "top": ("link_commands", "List the most probable links that are not in the data."),
    "forecast": ("link_commands", "Predict the periods after the last one of an ordered axis."),
    "explain": ("link_commands", "Explain the prediction of one link."),
    "explore": ("run_commands", "Explore a run in the browser."),
    "fold-in": ("run_commands", "Add new entities to a run; all other factors stay fixed."),
    "update": ("run_commands", "Update a run with new links, without its original data."),
    "set-titles": ("run_commands", "Set titles of entities, to show next to their names."),
    "train-test-split": ("evaluation_commands", "Split the data of a config into training and test links."),
    "evaluate": ("evaluation_commands", "Evaluate a run on held-out links."),
    "calibrate": ("evaluation_commands", "Calibrate the probabilities of a run on held-out links."),
    "report": ("run_commands", "Write a report on a run as one HTML page."),
    "pack": ("data_commands", "Sort tables larger than memory into blocks on disk."),
    "warm": ("warm_command", "Compile the kernels of common models into the cache folder."),
    "convert": ("data_commands", "Convert a table or an array to another file format."),
}


class Command(TyperCommand):
    """A command whose help shows arguments by their metavar, without types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Parts of the line `Usage: …`."""
        return ["[OPTIONS]", *(_argument(one) for one in self.params if one.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List of arguments, then of options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            here: list[Any] = [one for one in self.get_params(ctx) if one.param_type_name == kind]
            rows = [(_argument(one), one.help) if kind == "argument" else one.get_help_record(ctx) for one in here]
            if rows:
                with formatter.section(title):
                    formatter.write_dl([row for row in rows if row])


class Program(TyperGroup):
    """The group of all commands; every exception of a command passes through here."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command with its module imported; `plait --help` imports none."""
        if cmd_name not in COMMANDS:
            return None
        with no_collections():
            module = import_module(f"plait.cli.{COMMANDS[cmd_name][0]}")
        alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)
        alone.command(cmd_name, cls=Command)(getattr(module, cmd_name.replace("-", "_")))
        return typer.main.get_command(alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first argument; an unknown one is refused with a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}. {suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run a command and exit with its code; usage errors have the form of all others."""
        as_json = "--json" in (sys.argv[1:] if args is None else args)
        run = partial(super().main, standalone_mode=False)
        if not standalone_mode:
            return run(args, *rest, **options)
        try:
            with _raising_interrupts():
                code = run(args, *rest, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            code = _closed_pipe()
        except SystemExit as end:  # raised by typer and rich when a pipe is closed
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            code = _closed_pipe()
        except Exception as error:
            code, parts = verdict(error)
            say(parts, as_json=as_json)
        else:
            if code == INTERRUPTED:
                code = FAILED
                say(_parts("KeyboardInterrupt", "interrupted."), as_json=as_json)
        _no_reset()
        sys.exit(code if isinstance(code, int) else 0)


def _argument(one: Any) -> str:
    return f"{one.metavar}{'' if one.nargs == 1 else '…'}"


@contextmanager
def _raising_interrupts() -> Iterator[None]:
    """Ctrl-C raises, unless the command handles it."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _closed_pipe() -> int:
    """Exit code for a reader that closed the pipe, such as `head`."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (Python flushes it when it ends)
    return 0


def _no_reset() -> None:
    """Keep colorama, which numba starts, from writing a colour code when Python ends."""
    colorama = sys.modules.get("colorama.initialise")
    if colorama is not None:
        atexit.unregister(colorama.reset_all)


def verdict(error: Exception) -> tuple[int, dict[str, Any]]:
    """Exit code of an exception, and its message in parts."""
    kind = type(error).__name__
    if hasattr(error, "format_message"):  # typer's own: wrong arguments
        return MISTAKE, _parts("UsageError", *_usage(error))
    if isinstance(error, PlaitError):
        return FAILED if isinstance(error, FitError) or _refused(error) else MISTAKE, error.to_dict()
    if isinstance(error, FileNotFoundError):
        return MISTAKE, _parts(kind, f"the file {_name(error)} does not exist.", "Check the path.")
    if isinstance(error, OSError):
        return FAILED, _parts(kind, *_disk(error))
    if isinstance(error, MemoryError):
        hint = "Use a smaller rank, fewer threads or less data."
        return FAILED, _parts(kind, "not enough memory.", hint)
    return FAILED, _parts(kind, *_bug(error))


def _parts(kind: str, message: str, hint: str | None = None) -> dict[str, Any]:
    """Parts of the message of a foreign exception."""
    return PlaitError(message, hint=hint).to_dict() | {"kind": kind}


def _refused(error: BaseException) -> bool:
    """Whether an error of ours is about a disk that cannot be written."""
    if isinstance(error, PlaitError) and isinstance(error.__cause__, OSError):
        return True
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, PlaitError) and isinstance(cause, OSError) and cause.errno in REFUSALS


def _usage(error: Any) -> tuple[str, str | None]:
    message = _wrong_value(error) or _unknown_option(error) or str(error.format_message()).strip()
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    help_line = f"Try '{context.command_path} --help'." if context is not None else None
    return message if message.endswith((".", "?")) else f"{message}.", help_line


def _wrong_value(error: Any) -> str | None:
    """The value of an option that Typer refuses through Pydantic, in the words of `ParameterError.must_be`."""
    faults = getattr(error.__cause__, "errors", None)
    if getattr(error, "param", None) is None or not callable(faults):
        return None
    fault = faults()[0]
    given = fault["input"]
    limits = [
        f"at {word} {fault['ctx'][key]:g}"
        for key, word in (("ge", "least"), ("le", "most"))
        if key in fault.get("ctx", {})
    ]
    kind = "an integer" if fault["type"].startswith("int") else "a number"
    return f"`{error.param.name}` must be {f'{limits[0]}, got {given}' if limits else f'{kind}, got {given!r}'}."


def _unknown_option(error: Any) -> str | None:
    """An option that the command does not have, with the closest one."""
    name = getattr(error, "option_name", None)
    if name is None or not hasattr(error, "possibilities"):
        return None
    known = [one for parameter in error.ctx.command.get_params(error.ctx) for one in parameter.opts]
    meant: dict[str, str] = {}
    for words_by_option in (OF_FIT, OF_SPLIT, OF_EVALUATE, OF_TOP, OF_PREDICT):
        for option, words in words_by_option.items():
            meant[_flag(option)] = " ".join([meant.get(_flag(option), ""), *map(_flag, words.split())])
    return f"there is no option {name}. {suggestion(name, known, quote=False, meant=meant)}".rstrip()


def _flag(word: str) -> str:
    return f"{'--' if len(word) > 1 else '-'}{word.replace('_', '-')}"


def _name(error: OSError) -> str:
    return repr(error.filename) if error.filename is not None else "of that name"


def _disk(error: OSError) -> tuple[str, str | None]:
    place = f" ({error.filename})" if error.filename is not None else ""
    if error.errno in FULL:
        return f"the disk is full{place}.", "Free some space, or choose another folder."
    if isinstance(error, PermissionError):
        return f"permission denied{place}.", "Choose another folder, or change the permissions."
    return f"{error.strerror or error}{place}.", None


def _bug(error: Exception) -> tuple[str, str | None]:
    if os.environ.get("PLAIT_DEBUG") == "1":
        return "".join(traceback.format_exception(error)).rstrip(), None
    what = f"this is a bug in Plait: {type(error).__name__}: {error}"
    return what, "Please report it, with the traceback that PLAIT_DEBUG=1 prints."


def say(parts: dict[str, Any], *, as_json: bool, word: str = "error") -> None:
    """One message on stderr: the first line after ``error:``, the hint below; or one JSON document."""
    if as_json:
        import json

        from plait.rendering.document import to_jsonable

        print(json.dumps({word: to_jsonable(parts)}, ensure_ascii=False, allow_nan=False), file=sys.stderr)
        return
    from plait.cli.output import to_stderr

    to_stderr(word, parts["text"])


@contextmanager
def warnings_on_stderr(locate: "Locate | None", as_json: bool) -> Iterator[None]:
    """A warning of the library is said as errors are, not with Python's file name and line."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
        own = message if isinstance(message, PlaitWarning) else PlaitWarning(str(message))
        if locate is not None:
            own = own.relocate(locate)
        say(own.to_dict() | {"kind": category.__name__}, as_json=as_json, word="warning")

    with warnings.catch_warnings():
        warnings.simplefilter("always", PlaitWarning)
        warnings.showwarning = show
        yield


app = typer.Typer(
    name="plait",
    cls=Program,
    epilog="Exit codes: 0 success; 1 failure; 2 invalid arguments, config or data.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: fast, and the same in a pipe
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"plait {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian coupled tensor factorisation and link prediction.

    \b
    A first look:    plait demo
    From a config:   plait check model.toml
                     plait fit model.toml -o run
                     plait top run RELATION
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
