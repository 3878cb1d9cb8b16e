# Token store → encoder. One job for each encoder and seed; a killed one continues from its last checkpoint. Intermediate
# weights that are encoders too (`snapshots` in the configuration) come from the same job. Encoders with the same snapshots have
# the same outputs, and share a rule: pretrain, pretrain_at12_at25_at50.

for snapshots, encoders in MODELS.pretrained().items():

    rule:
        name:
            "_".join(["pretrain", *snapshots])
        input:
            store=of(MODELS.store_files, "encoder"),
            start=of(MODELS.start_of, "encoder", "seed"),
        output:
            MODELS.snapshot_files(snapshots, [*ENCODER_FILES, "curve.csv", "cost.json"]),
        log:
            f"{ROOT}/logs/pretrain/{{encoder}}/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/pretrain/{{encoder}}-seed{{seed}}.tsv"
        wildcard_constraints:
            encoder=PLAN.alternation(encoders),
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
            snapshots=of(MODELS.snapshot_argument, "encoder", "seed"),
            checkpoints=f"{ROOT}/checkpoints/encoders/{{encoder}}/seed{{seed}}",
        message:
            "Pre-training {wildcards.encoder}, seed {wildcards.seed}"
        shell:
            "PRETRIEVE_CODE={params.code} python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
            f" python {SCRIPTS}/pretrain.py"
            " --store {params.store} --options {params.options} {params.start}"
            " --seed {wildcards.seed}"
            " --threads {threads} --checkpoints {params.checkpoints} --out {params.out} {params.snapshots} --log {log}"
