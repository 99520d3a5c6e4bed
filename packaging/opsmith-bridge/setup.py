"""Gives the wheel opsmith's own version, whose bridge it has, and a tag for every Python: it uses the limited API."""

from setuptools import Distribution, setup

from opsmith import __version__


class WithLibraries(Distribution):
    """Says that the wheel is not for every machine, though setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        """Return that there are libraries."""
        return True


setup(
    version=__version__,
    install_requires=[f"opsmith=={__version__}", "torch>=2.10"],
    distclass=WithLibraries,
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
