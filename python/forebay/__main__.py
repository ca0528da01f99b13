"""`python -m forebay` is the `forebay` command."""

from forebay._src.command_line.cli import main

if __name__ == "__main__":
    main()
