# Token store → encoder. One job for each encoder and seed, or for several of very many seeds; a killed one continues from its
# last checkpoint. Intermediate weights that are encoders too (`snapshots` in the configuration) come from the same job. Encoders with
# the same snapshots have the same outputs, and share a rule: pretrain, pretrain_at12_at25_at50.

for (snapshots, encoders), seeds in product(by_snapshots(config["encoders"]).items(), SEED_JOBS.groups):

    rule:
        name:
            "_".join(["pretrain", *snapshots]) + seeds.suffix
        input:
            store=of(MODELS.store_files, "encoder"),
            start=seeds.inputs(MODELS.start_of, "encoder"),
        output:
            seeds.files(MODELS.snapshot_files(snapshots, [*ENCODER_FILES, "curve.csv", "cost.json"])),
        log:
            f"{ROOT}/logs/pretrain/{{encoder}}/{seeds.label}.log",
        benchmark:
            f"{ROOT}/benchmarks/pretrain/{{encoder}}-{seeds.label}.tsv"
        wildcard_constraints:
            encoder=alternation(encoders),
            seed=alternation(seeds.values),
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS["pretrain"].threads
        resources:
            **NEEDS.of_seeds("pretrain", seeds.number).resources,
        params:
            code=of(MODELS.pretraining_code, "encoder"),
            store=of(MODELS.store_of, "encoder"),
            options=as_text(MODELS.pretraining_options, "encoder"),
            start=seeds.words(MODELS.start_argument, "encoder"),
            out=seeds.words(partial(paths.encoder_dir, ROOT), "encoder"),
            snapshots=seeds.words(MODELS.snapshot_argument, "encoder"),
            checkpoints=seeds.words(MODELS.checkpoints_of, "encoder"),
        message:
            f"Pre-training {{wildcards.encoder}}, {seeds.message}"
        shell:
            f"PRETRIEVE_CODE={{params.code}} {LAUNCH} python {SCRIPTS}/pretrain.py"
            f" --store {{params.store}} --options {{params.options}} {{params.start}}{seeds.option} --threads {{threads}}"
            f" --checkpoints {{params.checkpoints}} --out {{params.out}} {{params.snapshots}}{seeds.repeat('pretrain')} --log {{log}}"
