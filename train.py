"""The command line of flowbert from a checkout: ``python train.py --help``."""

from flowbert.cli import main

if __name__ == "__main__":
    main()
