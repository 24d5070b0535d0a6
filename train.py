"""Train, evaluate and use sentence-embedding calibrations: ``python train.py --help``."""

from flowbert.cli import main

if __name__ == "__main__":
    main()
