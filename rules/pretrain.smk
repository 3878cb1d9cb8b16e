# Token store → encoder. One job for each encoder and seed; a killed one goes on from its last checkpoint.


rule pretrain:
    input:
        store=lambda wildcards: f"{store_of(wildcards.encoder)}/meta.json",
        start=lambda wildcards: start_of(wildcards.encoder, wildcards.seed),
        code=lambda wildcards: stage_sources(
            "pretrain.py", objective_name(wildcards.encoder)
        ),
    output:
        expand(
            "{root}/encoders/{{encoder}}/seed{{seed}}/{file}",
            root=ROOT,
            file=[*ENCODER_FILES, "curve.csv", "cost.json"],
        ),
    log:
        f"{ROOT}/logs/pretrain/{{encoder}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/pretrain/{{encoder}}-seed{{seed}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: NEEDS["pretrain"].threads
    resources:
        **NEEDS["pretrain"].resources,
    params:
        code=lambda wildcards, input: code_word(input.code),
        store=lambda wildcards: store_of(wildcards.encoder),
        options=lambda wildcards: as_argument(
            encoder_options(config, wildcards.encoder).to_dict()
        ),
        start=lambda wildcards: start_argument(wildcards.encoder, wildcards.seed),
        out=subpath(output[0], parent=True),
        checkpoints=f"{ROOT}/checkpoints/encoders/{{encoder}}/seed{{seed}}",
    message:
        "Pre-training {wildcards.encoder}, seed {wildcards.seed}"
    shell:
        "PRETRIEVE_CODE={params.code} python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
        f" python {SCRIPTS}/pretrain.py"
        " --store {params.store} --options {params.options} {params.start}"
        " --seed {wildcards.seed}"
        " --threads {threads} --checkpoints {params.checkpoints} --out {params.out} --log {log}"
