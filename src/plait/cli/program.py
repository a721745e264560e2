"""How the program ends: exit codes, and one clear message on stderr instead of a traceback.

0  fine
1  it could not be done: the fit cannot go on, no memory or disk space, interrupted
2  the user's mistake: arguments, config, data, a run that is not there or damaged

With --json a message is one JSON document on stderr: {"error": {"kind": …, "text": …, "message": …, "location": …,
"actual": …, "expected": …, "hint": …}}. PLAIT_DEBUG=1 adds the traceback of anything unexpected.

The program: its commands, and the options that come before one.
"""

import atexit
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from plait.errors import FitError, PlaitError
from plait.version import __version__

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSALS = (*FULL, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS)


# Every command: the module that has it, imported when it is asked for, and what --help says of it.
COMMANDS = {
    "demo": ("demo_command", "Predict hidden relations between countries: a first look."),
    "check": ("data_commands", "Say what was understood of the data, without fitting."),
    "fit": ("fit_commands", "Fit the model of a config file, and save the run."),
    "grid-search": ("evaluation_commands", "Compare settings in one table, and fit the best."),
    "resume": ("fit_commands", "Go on with a run that was interrupted, or was too short."),
    "info": ("run_commands", "Say what a run is: model, sizes, bound, and how it ended."),
    "predict": ("link_commands", "Score the cells of a table."),
    "top": ("link_commands", "List the most probable links that are not known yet."),
    "explain": ("link_commands", "Say why a link is predicted."),
    "explore": ("run_commands", "Look at a run in the browser, and ask what if."),
    "fold-in": ("run_commands", "Add new entities to a run; everything else of it stays as it is."),
    "update": ("run_commands", "Let a run learn new links, without the data that it was made from."),
    "set-titles": ("run_commands", "Give the entities of a run titles, which all commands show beside their names."),
    "train-test-split": ("evaluation_commands", "Hold links out as a test, and write the rest as a new config."),
    "evaluate": ("evaluation_commands", "Measure how well a run predicts links that it has not seen."),
    "report": ("run_commands", "Write all that is known of a run as one page, for a browser or a printer."),
    "pack": ("data_commands", "Sort tables that are larger than memory into blocks on disk."),
    "convert": ("data_commands", "Read a table or an array, and write it as another kind of file."),
}


class Program(TyperGroup):
    """The group of all commands; every exception that leaves a command passes through here."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of a first acquaintance."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, its module imported: `plait --help` needs none of them."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"plait.cli.{COMMANDS[cmd_name][0]}")
        alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)
        alone.command(cmd_name)(getattr(module, cmd_name.replace("-", "_")))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run a command and exit with its code; usage errors are said in the same words as all others."""
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
        except SystemExit as end:  # typer and rich leave so when a pipe is closed
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


@contextmanager
def _raising_interrupts() -> Iterator[None]:
    """Ctrl-C raises unless a command asks for what a fit has: a fit of many that just returned would go unnoticed."""
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
    """Whoever reads has seen enough, as `head` does: nothing more is written, and nothing is wrong."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (Python flushes it when it ends)
    return 0


def _no_reset() -> None:
    """Numba starts colorama, which writes a colour code to every terminal when Python ends, coloured or not."""
    colorama = sys.modules.get("colorama.initialise")
    if colorama is not None:
        atexit.unregister(colorama.reset_all)


def verdict(error: Exception) -> tuple[int, dict[str, Any]]:
    """The exit code of an exception, and what to say about it, in parts."""
    kind = type(error).__name__
    if hasattr(error, "format_message"):  # typer's own: wrong arguments
        return MISTAKE, _parts("UsageError", *_usage(error))
    if isinstance(error, PlaitError):
        return FAILED if isinstance(error, FitError) or _refused(error) else MISTAKE, error.to_dict()
    if isinstance(error, FileNotFoundError):
        return MISTAKE, _parts(kind, f"there is no file {_name(error)}.", "Check the path.")
    if isinstance(error, OSError):
        return FAILED, _parts(kind, *_disk(error))
    if isinstance(error, MemoryError):
        hint = "Use a smaller rank, fewer threads or less data."
        return FAILED, _parts(kind, "there is not enough memory.", hint)
    return FAILED, _parts(kind, *_bug(error))


def _parts(kind: str, message: str, hint: str | None = None) -> dict[str, Any]:
    """What is said of an exception that is not one of ours, as ours say it."""
    return PlaitError(message, hint=hint).to_dict() | {"kind": kind}


def _refused(error: BaseException) -> bool:
    """Whether a message of ours is about a disk that refuses to write."""
    if isinstance(error, PlaitError) and isinstance(error.__cause__, OSError):
        return True
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, PlaitError) and isinstance(cause, OSError) and cause.errno in REFUSALS


def _usage(error: Any) -> tuple[str, str | None]:
    message = str(error.format_message()).strip()
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    help_line = f"Try '{context.command_path} --help'." if context is not None else None
    return message if message.endswith((".", "?")) else f"{message}.", help_line


def _name(error: OSError) -> str:
    return repr(error.filename) if error.filename is not None else "of that name"


def _disk(error: OSError) -> tuple[str, str | None]:
    place = f" ({error.filename})" if error.filename is not None else ""
    if error.errno in FULL:
        return f"the disk is full{place}.", "Free some space, or choose another place."
    if isinstance(error, PermissionError):
        return f"permission denied{place}.", "Choose another place, or change the permissions."
    return f"{error.strerror or error}{place}.", None


def _bug(error: Exception) -> tuple[str, str | None]:
    if os.environ.get("PLAIT_DEBUG") == "1":
        return "".join(traceback.format_exception(error)).rstrip(), None
    what = f"this is a bug in Plait: {type(error).__name__}: {error}"
    return what, "Please report it, with the traceback that PLAIT_DEBUG=1 shows."


def say(parts: dict[str, Any], *, as_json: bool, word: str = "error") -> None:
    """One message on stderr: the first line after ``error:``, the hint below; or one JSON document."""
    if as_json:
        import json

        from plait.rendering.document import to_jsonable

        print(json.dumps({word: to_jsonable(parts)}, ensure_ascii=False, allow_nan=False), file=sys.stderr)
        return
    from plait.cli.output import to_stderr

    to_stderr(word, parts["text"])


app = typer.Typer(
    name="plait",
    cls=Program,
    epilog="Exit codes: 0 fine; 1 it could not be done; 2 a mistake in arguments, config or data.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: quick, and the same in a pipe
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
