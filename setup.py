"""The data files of pyproject.toml, for editable installations too."""

from setuptools import Distribution, setup


class Whole(Distribution):
    def has_data(self):
        # an editable installation asks for this name, which setuptools has nowhere: without
        # it only a wheel has the data files
        return self.has_data_files()


setup(distclass=Whole)
