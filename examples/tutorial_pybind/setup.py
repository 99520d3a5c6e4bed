from setuptools import setup

from opsmith.cpp_extension import BuildExtension, CppExtension

setup(
    name="lltm-pybind",
    version="0.1.0",
    py_modules=["lltm"],
    ext_modules=[CppExtension("lltm_cpp", ["lltm.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
