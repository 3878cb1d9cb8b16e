# Token store → encoder. One job for each encoder and seed; a killed one goes on from its last checkpoint.


rule pretrain:
    input:
        store=of(MODELS.store_files, "encoder"),
        start=of(MODELS.start_of, "encoder", "seed"),
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
        code=of(MODELS.pretraining_code, "encoder"),
        store=of(MODELS.store_of, "encoder"),
        options=as_text(MODELS.pretraining_options, "encoder"),
        start=of(MODELS.start_argument, "encoder", "seed"),
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
