"""npumond: observe Huawei Ascend NPUs, from the driver to the page.

The package is kept free of imports here: the worker process imports it too and has to stay small.
"""

__version__ = "0.1.0"
