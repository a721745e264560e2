"""The command line as a module: `python -m plait`."""

from plait.cli import app

if __name__ == "__main__":
    app(prog_name="plait")
