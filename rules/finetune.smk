# Encoder + task (+ negatives, start, teacher) → retrievers; retrievers → negatives. One job fine-tunes one encoder by one recipe for
# all training-set sizes that are asked for: a job's start costs as much as a small size's training. Outputs differ from task
# to task and from family to family (encoder and recipe), so each group of families with the same sizes has a rule of its own.

for task_name in PLAN.tasks:
    for sizes, families in PLAN.families(task_name, scored=False).items():
        RULE = rule_name(task_name, sizes)

        rule:
            name:
                f"finetune_{RULE}"
            input:
                encoder=lambda wildcards: f"{encoder_of(wildcards)}/model.safetensors",
                task=task_files(task_name),
                made_of=partial(made_of_files, task_name, sizes),
                code=partial(finetuning_sources, task_name),
            output:
                expand(
                    "{root}/retrievers/{{family}}-{size}/{task}/seed{{seed}}/{file}",
                    root=ROOT,
                    size=sizes,
                    task=task_name,
                    file=[
                        "model.safetensors",
                        "heads.safetensors",
                        "pretrieve.json",
                        "cost.json",
                    ],
                ),
            log:
                f"{ROOT}/logs/finetune/{task_name}/{{family}}/seed{{seed}}.log",
            benchmark:
                f"{ROOT}/benchmarks/finetune/{task_name}-{{family}}-seed{{seed}}.tsv"
            wildcard_constraints:
                family=PLAN.family_pattern(families),
            conda:
                "../envs/gpu.yaml"
            threads: NEEDS["finetune"].threads
            resources:
                **NEEDS["finetune"].resources,
            params:
                code=lambda wildcards, input: code_word(input.code),
                encoder=lambda wildcards: encoder_of(wildcards),
                task=lambda wildcards, input: folder_of(input.task),
                options=partial(family_options, task_name),
                made_of=partial(made_of_argument, task_name, sizes),
                sizes=sizes,
                watched=partial(watched_sizes, task_name),
                out=expand(
                    "{root}/retrievers/{{family}}-{size}/{task}/seed{{seed}}",
                    root=ROOT,
                    size=sizes,
                    task=task_name,
                ),
                checkpoints=f"{ROOT}/checkpoints/retrievers/{{family}}/{task_name}/seed{{seed}}",
            message:
                f"Fine-tuning {{wildcards.family}} on {task_name}, seed {{wildcards.seed}}"
            shell:
                "PRETRIEVE_CODE={params.code} python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
                f" python {SCRIPTS}/finetune.py"
                " --encoder {params.encoder} --task {params.task}"
                " --options {params.options} --made-of {params.made_of} --sizes {params.sizes} --watched {params.watched}"
                " --out {params.out}"
                " --seed {wildcards.seed} --threads {threads} --checkpoints {params.checkpoints} --log {log}"

        if not PLAN.is_examples(task_name):

            rule:
                name:
                    f"mine_{RULE}"
                input:
                    task=task_files(task_name),
                    stores=expand(
                        "{root}/embeddings/{{family}}-{size}/{task}/seed{{seed}}/{file}",
                        root=ROOT,
                        size=sizes,
                        task=task_name,
                        file=["corpus.json", "queries.json", "cost.json"],
                    ),
                    code=stage_sources("mine.py"),
                output:
                    expand(
                        "{root}/negatives/{{family}}-{size}/{task}/seed{{seed}}.jsonl.gz",
                        root=ROOT,
                        size=sizes,
                        task=task_name,
                    ),
                log:
                    f"{ROOT}/logs/mine/{task_name}/{{family}}/seed{{seed}}.log",
                benchmark:
                    f"{ROOT}/benchmarks/mine/{task_name}-{{family}}-seed{{seed}}.tsv"
                wildcard_constraints:
                    family=PLAN.family_pattern(families),
                conda:
                    "../envs/cpu.yaml"
                threads: NEEDS["mine"].threads
                resources:
                    **NEEDS["mine"].resources,
                params:
                    task=lambda wildcards, input: folder_of(input.task),
                    stores=expand(
                        "{root}/embeddings/{{family}}-{size}/{task}/seed{{seed}}",
                        root=ROOT,
                        size=sizes,
                        task=task_name,
                    ),
                    retrievers=expand(
                        "{root}/retrievers/{{family}}-{size}/{task}/seed{{seed}}",
                        root=ROOT,
                        size=sizes,
                        task=task_name,
                    ),
                    sizes=sizes,
                    depth=config["mining_depth"],
                message:
                    f"Mining negatives with {{wildcards.family}} on {task_name}, seed {{wildcards.seed}}"
                shell:
                    f"python {SCRIPTS}/mine.py"
                    " --task {params.task} --stores {params.stores} --sizes {params.sizes}"
                    " --retrievers {params.retrievers} --depth {params.depth} --threads {threads} --out {output} --log {log}"
