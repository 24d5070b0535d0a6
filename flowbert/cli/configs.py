"""The configuration files that come with flowbert, by name: an installed package has no folder ``configs``."""

from pathlib import Path

SHIPPED = {path.stem: path for path in sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))}


def config_file(received: str) -> str:
    """Path of a configuration file: the one received, or the one that comes with flowbert under this name.

    Example:
        >>> Path(config_file("quickstart")).name, config_file("mine.yaml")
        ('quickstart.yaml', 'mine.yaml')
    """
    return str(SHIPPED[received]) if received in SHIPPED and not Path(received).is_file() else received
