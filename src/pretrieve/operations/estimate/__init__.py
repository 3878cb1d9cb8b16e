"""What a table costs before anything runs: ``make estimate SCALE=paper TABLE=condenser/table5 GPUS=8``.

``jobs`` says which jobs there are, ``sizes`` how large their data are, ``flops`` and ``training`` what they compute, ``work``
puts that together, ``machines`` says how fast a machine is and how long all take on N GPUs.
"""
