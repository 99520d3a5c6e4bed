"""Gives the wheel opsmith's own version, which it needs: the interface of every operator has to be the same."""

from setuptools import setup

from opsmith import __version__

setup(version=__version__, install_requires=[f"opsmith=={__version__}", "torch>=2.10"])
