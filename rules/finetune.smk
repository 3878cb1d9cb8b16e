# Encoder + task (+ negatives, start, teacher) → retrievers. One job fine-tunes one encoder by one recipe for all training-set
# sizes that are asked for: a job's start costs as much as a small size's training. Outputs differ from task to task and from
# family to family (encoder and recipe), so each group of families with the same sizes has a rule of its own.

for task_name in PLAN.tasks:
    for sizes, families in PLAN.families(task_name, scored=False).items():

        rule:
            name:
                f"finetune_{rule_name(task_name, sizes)}"
            input:
                encoder=MODELS.encoder_weights,
                task=DATA.task_files(task_name),
                made_of=partial(MODELS.made_of_files, task_name, sizes),
            output:
                MODELS.of_sizes(
                    "retrievers",
                    task_name,
                    sizes,
                    *RETRIEVER_FILES,
                    "cost.json",
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
                code=partial(MODELS.finetuning_code, task_name),
                encoder=MODELS.encoder_of,
                task=folder_of("task"),
                options=partial(MODELS.family_options, task_name),
                made_of=partial(MODELS.made_of_argument, task_name, sizes),
                sizes=sizes,
                watched=partial(MODELS.watched_sizes, task_name),
                out=MODELS.of_sizes("retrievers", task_name, sizes),
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
