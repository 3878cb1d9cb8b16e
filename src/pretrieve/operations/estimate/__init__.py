"""What a table costs before anything runs: ``make estimate SCALE=paper TABLE=condenser/table5 GPUS=8``.

``jobs`` says which jobs there are, ``sizes`` how large their data are, ``flops`` and ``training`` what they compute, ``work``
puts that together, ``rates`` says how fast a machine is, ``schedule`` how long all take on N GPUs.
"""
