"""Gives the wheel opsmith's own version, which it needs: the interface of every operator has to be the same."""

from setuptools import setup

from opsmith import __version__

setup(
    version=__version__,
    install_requires=[f"opsmith=={__version__}", "torch>=2.10"],
    options={"egg_info": {"egg_base": "."}},  # not in src/, where it would say that opsmith-ops is installed
)
