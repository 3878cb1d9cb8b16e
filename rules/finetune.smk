# Encoder + task → retrievers. One job fine-tunes one encoder for all training-set sizes of a task: a job's start costs as
# much as a small size's training. Outputs differ from task to task, so each has a rule of its own.

for task_name in sorted({PLAN.trained_on(name) for name in config["datasets"]}):
    SIZES = list(config["datasets"][task_name]["sizes"])

    rule:
        name:
            f"finetune_{task_name.replace('-', '_')}"
        input:
            encoder=f"{ROOT}/encoders/{{encoder}}/seed{{seed}}/model.safetensors",
            task=task_files(task_name),
            code=stage_sources("finetune.py"),
        output:
            expand(
                "{root}/retrievers/{{encoder}}.{{recipe}}-{size}/{task}/seed{{seed}}/{file}",
                root=ROOT,
                size=SIZES,
                task=task_name,
                file=[
                    "model.safetensors",
                    "heads.safetensors",
                    "pretrieve.json",
                    "cost.json",
                ],
            ),
        log:
            f"{ROOT}/logs/finetune/{task_name}/{{encoder}}.{{recipe}}/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/finetune/{task_name}-{{encoder}}.{{recipe}}-seed{{seed}}.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: 1
        resources:
            gpu=1,
        params:
            encoder=subpath(input.encoder, parent=True),
            task=lambda wildcards, input: folder_of(input.task),
            options=lambda wildcards: as_argument(
                recipe_options(config, wildcards.recipe)
            ),
            sizes=SIZES,
            out=expand(
                "{root}/retrievers/{{encoder}}.{{recipe}}-{size}/{task}/seed{{seed}}",
                root=ROOT,
                size=SIZES,
                task=task_name,
            ),
            checkpoints=f"{ROOT}/checkpoints/retrievers/{{encoder}}.{{recipe}}/{task_name}/seed{{seed}}",
        message:
            f"Fine-tuning {{wildcards.encoder}} ({{wildcards.recipe}}) on {task_name}, seed {{wildcards.seed}}"
        shell:
            "python workflow_scripts/finetune.py --encoder {params.encoder} --task {params.task}"
            " --options {params.options} --sizes {params.sizes} --out {params.out} --seed {wildcards.seed}"
            " --threads {threads} --checkpoints {params.checkpoints} --log {log}"
