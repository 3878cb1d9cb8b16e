"""What a table costs before anything runs: ``make estimate SCALE=paper TABLE=condenser/table5 GPUS=8``.

:mod:`~pretrieve.operations.estimate.jobs` says which jobs there are, :mod:`~pretrieve.operations.estimate.sizes` how large
their data are, :mod:`~pretrieve.operations.estimate.flops` and :mod:`~pretrieve.operations.estimate.training` what they
compute, :mod:`~pretrieve.operations.estimate.work` puts that together, :mod:`~pretrieve.operations.estimate.rates` says how
fast a machine is, and how long it takes on N GPUs.
"""
