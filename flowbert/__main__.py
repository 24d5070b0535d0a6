"""The command line as ``python -m flowbert``."""

from flowbert.cli import main

if __name__ == "__main__":
    main()
