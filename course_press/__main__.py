"""The program `course`: what it needs is installed, or it says how to get it."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from course_press.cli.app import main as run
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("course_"):
            raise
        sys.stderr.write(
            f"course needs {error.name}, which the extra 'press' brings: install the same wheel, "
            f"folder or address again with [press] behind it, as in pip install '.[press]'\n"
        )
        sys.exit(3)
    run()


if __name__ == "__main__":
    main()
