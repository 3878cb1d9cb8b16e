"""What a table costs before anything runs: ``make estimate SCALE=paper TABLE=condenser/table5 GPUS=8``.

:mod:`~pretrieve.estimate.jobs` says which jobs there are, :mod:`~pretrieve.estimate.sizes` how large their data are,
:mod:`~pretrieve.estimate.flops` and :mod:`~pretrieve.estimate.training` what they compute, :mod:`~pretrieve.estimate.work` puts
that together, :mod:`~pretrieve.estimate.rates` says how fast a machine is, and :mod:`~pretrieve.estimate.schedule` how long it
takes on N GPUs.
"""
