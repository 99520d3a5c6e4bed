"""Gives the wheel opsmith's own version, whose bridge it has, and a tag for every Python: it uses the limited API."""

import sysconfig

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

from opsmith import __version__


class EveryPython(bdist_wheel):
    """Tags the wheel with the machine alone; opsmith's finish_wheel says which systems that are."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag."""
        return "py3", "none", sysconfig.get_platform().replace("-", "_").replace(".", "_")


class WithLibraries(Distribution):
    """Says that the wheel is not for every machine, though setuptools compiles nothing."""

    def has_ext_modules(self) -> bool:
        """Return that there are libraries."""
        return True


setup(
    version=__version__,
    install_requires=[f"opsmith=={__version__}", "torch>=2.10"],
    distclass=WithLibraries,
    cmdclass={"bdist_wheel": EveryPython},
)
